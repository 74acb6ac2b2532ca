//! What the engine knows, for people and programs: JSON, tables, card maps and a picture.
//!
//! ```text
//!   Scheduler ─► simulation ─┬─► JSON (serde)
//!                            ├─► simulation_text: table, card map, totals
//!                            └─► card_map_svg: the same map as a picture
//!             ─► explain ────┬─► JSON
//!                            └─► explanation_text: answer, nodes by reason, nearest, next step
//!             ─► top_* ──────┬─► JSON
//!                            └─► top_*_table: one row a node, card, pod, queue or kind of slices
//!             ─► report ─────┬─► JSON
//!                            └─► report_text, report_page: all of it on one page
//!   configs, slicing ─► mig_* ─► JSON, texts: what MIG can divide cards into
//! ```
//!
//! Nothing here decides anything. Every sentence about why a pod waits comes from the engine's
//! [`Reason`](divvy_engine::Reason), so that all of these and the events say the same.
//!
//! Texts are plain columns. With colours on they hold the same characters: letters and words
//! carry all that a colour says.

mod amount;
mod bar;
mod card_map;
mod cards;
mod comparison;
mod equivalent;
mod explain;
mod mig_check;
mod mig_plan;
mod model;
mod more;
mod options;
mod paint;
mod repartition;
mod report;
mod simulate_text;
mod simulation;
mod slices;
mod stranded;
mod svg;
mod table;
#[cfg(test)]
mod testing;
mod top;
mod totals;
mod when;
mod wording;
mod xml;

pub use amount::Amount;
pub use cards::{CardGrant, CardSlices, CardUse, CardUseState, NodeCards, ShareUse};
pub use comparison::{
    ComparedPlacement, ComparedSide, Comparison, Difference, MoreOnSide, comparison,
    comparison_text,
};
pub use equivalent::Equivalent;
pub use explain::{
    ExplainedState, Explanation, MustEnd, NearestFit, NodesByReason, WorkloadExplanation, explain,
    explain_workload, explanation_text, workload_text,
};
pub use mig_check::{
    MigCards, MigCheck, MigVerdict, PlacedSlice, ProfileCount, Unused, mig_check, mig_check_text,
};
pub use mig_plan::{
    LeftOut, MigPlan, MigPlanCard, MigPlanNode, MigPlanPod, MigPlanSummary, mig_plan,
    mig_plan_commands, mig_plan_text,
};
pub use model::short_model;
pub use more::{MoreOf, MorePods, NodeCount};
pub use options::TextOptions;
pub use repartition::{Displaced, DisplacedPod, Partition, Repartition};
pub use report::{
    Report, ReportCard, ReportPart, ReportTotals, SliceTotals, report, report_page, report_text,
    slice_totals,
};
pub use simulate_text::simulation_text;
pub use simulation::{PodOutcome, ReasonCount, Simulation, Summary, simulation};
pub use slices::{SliceHolder, SliceUse};
pub use svg::card_map_svg;
pub use table::Table;
pub use top::{
    PendingPod, PodSlices, QUEUE_LABELS, QueueUse, Replicas, TopCard, TopCards, TopNode, TopNodes,
    TopPending, TopPod, TopPods, TopQueues, TopSlice, TopSlices, queue_of, top_cards,
    top_cards_table, top_cards_text, top_nodes, top_nodes_table, top_nodes_text, top_pending,
    top_pending_table, top_pending_text, top_pods, top_pods_table, top_pods_text, top_queues,
    top_queues_table, top_queues_text, top_slices, top_slices_table, top_slices_text,
};
pub use totals::Totals;
pub use wording::clean;

/// The version of every JSON document here.
pub const API_VERSION: &str = "divvy.dev/v1alpha1";
