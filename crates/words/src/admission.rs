//! What happens to a pod before it is stored: decisions on the JSON that the API server sends.
//!
//! ```text
//!   Change: text ─► Pod: what is ─┬─► mutate ──► Mutation: hand-off variables, runtime class; what a
//!                   decided on    │              copy carries removed
//!                                 ├─► void ────► Mutation: containers that ask for no GPU get none
//!                                 │              from their image
//!                                 └─► validate ► warnings, or why the pod is refused
//! ```
//!
//! And to what makes pods: [`template`] brings the strategy of an owner into its template. Of both
//! [`warn`] says what nobody will read, and refuses nothing.
//!
//! A patch only names what it changes, so fields that divvy does not know survive, and a second
//! call on the patched pod changes nothing: the API server calls again when another webhook has
//! changed the pod.

mod container;
mod isolation;
mod kai;
mod mistaken;
mod mutate;
mod patch;
mod pod;
mod raw;
mod template;
mod validate;
mod void;
mod warn;

pub use mutate::mutate;
pub use patch::{Patch, Step};
pub use template::template;
pub use validate::validate;
pub use void::void;
pub use warn::warn;

use crate::isolation::Isolation;
use crate::schedulers::OtherSchedulers;
use serde_json::value::RawValue;

/// What an administrator has chosen.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether pods may ask for a share.
    pub gpu_sharing: bool,
    /// Whether containers without a grant are kept from choosing devices themselves.
    pub block_visible_devices: bool,
    /// The runtime class of share pods that name none; empty to leave them alone.
    pub runtime_class: String,
    /// The scheduler names of pods that divvy places.
    pub scheduler_names: Vec<String>,
    /// How many seconds a share may have to end.
    pub max_grace_period: u32,
    /// Who enforces which level of isolation; `None` if levels are not told apart.
    pub isolation: Option<Isolation>,
}

impl Settings {
    /// Whether divvy may place pods that name this scheduler: who else runs is not known here, and may
    /// have changed when they are placed.
    pub fn places(&self, scheduler: &str) -> bool {
        OtherSchedulers::default().is_ours(scheduler, &self.scheduler_names)
    }
}

/// What somebody wants to do with a pod.
#[derive(Clone, Copy, Debug)]
pub struct PodChange<'a> {
    /// Which way.
    pub operation: Operation,
    /// The pod as it is to be.
    pub pod: Option<&'a RawValue>,
    /// The pod as it was, if it is not new.
    pub old: Option<&'a RawValue>,
}

/// The ways to change a pod that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is made.
    Create,
    /// Its metadata or spec is changed.
    Update,
    /// Containers for debugging are added.
    EphemeralContainers,
}

/// What a webhook changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutation {
    /// The steps of the patch, in order; empty if all is as it should be.
    pub patch: Patch,
    /// What the user should know.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests;
