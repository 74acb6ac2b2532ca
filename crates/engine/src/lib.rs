//! Decides where pods go: events in, plan out. No clock, no randomness, no input or output.
//!
//! ```text
//!   Event ─► Scheduler::apply ─► ledger (who holds what)
//!                                  │ journal: which nodes changed
//!                                  ▼
//!            Scheduler::pass ─► shapes: pods that ask the same share one ranking of the nodes
//!                                  │    rules (may it run there?) · fit (is there room?) · score
//!                                  ▼
//!                               cards ─► ledger.hold ─► Plan of units: Open, Bind, Report
//!
//!            Scheduler::standing ─► diagnosis: every node's Reason, and the nearest fit
//!            Scheduler::fill ─► trial: how many more of a pod fit, and taken back
//! ```
//!
//! The same events give the same plan: whatever a decision looks at is ordered, and ties go to
//! the first node by name. [`Scheduler::scan`] makes the same decision without any
//! of the caches.

mod bounds;
mod cards;
mod config;
mod diagnosis;
mod event;
mod labels;
mod look;
mod nearest;
mod order;
mod others;
mod pods;
mod ranking;
mod reason;
mod record;
mod relations;
mod rules;
mod scan;
mod scheduler;
mod score;
mod sentence;
mod shapes;
mod slab;
pub mod slicing;
mod tape;
mod turn;
mod weight;
mod world;

pub use bounds::Bounds;
pub use config::{Config, PerResource, Strategy};
pub use diagnosis::{Diagnosis, Refusals, Standing};
pub use event::{ClassName, Event, Placement, Plan, PlanEffect, Problem, Unit};
pub use labels::{Labels, Selector};
pub use look::PodFacts;
pub use nearest::{Missing, Nearest};
pub use others::{
    AccessModes, Attached, AttachmentRecord, CapacityRecord, ClaimRecord, ClaimRef, ClassRecord,
    CsiNodeRecord, Disk, DriverRecord, Migrated, StorageEvent, Terms, VolumeReason, VolumeRecord,
    VolumeStep, VolumeUse,
};
pub use reason::Reason;
pub use record::{Bound, BoundCards, NodeRecord, ObjectKey, PodRecord, PodSpec};
pub use relations::{HostPort, PodSelector, PodTerm, Protocol, Relations, Spread};
pub use rules::{
    Barred, Effect, Liking, NodeFacts, Requirement, Rules, Taint, Term, Test, Toleration, Values,
};
pub use scheduler::{Fill, Scheduler};
pub use shapes::ShapeId;
pub use tape::Tape;
pub use weight::TermId;
