//! What the engine knows, for people and programs: JSON, tables, card maps and a picture.
//!
//! ```text
//!   Scheduler ─► simulation ─┬─► JSON (serde)
//!                            ├─► simulation_text: table, card map, totals
//!                            └─► card_map_svg: the same map as a picture
//!             ─► explain ────┬─► JSON
//!                            └─► explanation_text: answer, nodes by reason, nearest, next step
//!             ─► top_* ──────┬─► JSON
//!                            └─► top_*_text: one row a node, card, pod or kind of slices
//!   configs, division ─► mig_* ─► JSON, texts: what MIG can divide cards into
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
mod explain;
mod mig_check;
mod mig_plan;
mod model;
mod options;
mod paint;
mod repartition;
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
mod wording;

pub use amount::Amount;
pub use cards::{CardGrant, CardSlices, CardUse, CardUseState, NodeCards, ShareUse};
pub use explain::{
    Explanation, Holder, NearestFit, NodesByReason, Verdict, explain, explanation_text,
};
pub use mig_check::{
    MigCards, MigCheck, MigVerdict, PlacedSlice, ProfileCount, Unused, mig_check, mig_check_text,
};
pub use mig_plan::{
    LeftOut, MigPlan, MigPlanCard, MigPlanNode, MigPlanPod, MigPlanSummary, mig_plan,
    mig_plan_commands, mig_plan_text,
};
pub use model::short_model;
pub use options::TextOptions;
pub use repartition::{Displaced, DisplacedPod, Partition, Repartition};
pub use simulate_text::simulation_text;
pub use simulation::{PodOutcome, ReasonCount, Simulation, Summary, simulation};
pub use slices::{SliceHolder, SliceUse};
pub use svg::card_map_svg;
pub use top::{
    PodSlices, Replicas, TopCard, TopCards, TopNode, TopNodes, TopPod, TopPods, TopSlice,
    TopSlices, top_cards, top_cards_text, top_nodes, top_nodes_text, top_pods, top_pods_text,
    top_slices, top_slices_text,
};
pub use totals::Totals;
pub use wording::clean;

/// The version of every JSON document here.
pub const API_VERSION: &str = "divvy.dev/v1alpha1";
