//! What is to be done in the cluster, and what became of it.

use crate::objects::PodItem;
use crate::place::Place;
use divvy_api::Failure;
use divvy_engine::{ObjectKey, Placement, VolumeStep};
use divvy_words::cards::NamedShare;
use std::sync::Arc;

/// What to do in the cluster.
#[derive(Debug)]
pub(crate) enum Action {
    /// Bind a pod. [`Outcome::Bound`] follows.
    Bind(Box<Binding>),
    /// Write what makes the claims of a pod be bound. [`Outcome::Provided`] follows.
    Provide { pod: Target, node: Arc<str>, steps: Vec<VolumeStep> },
    /// Say on this version of a pod why it waits, `again` if it says so already with another
    /// reason: condition and event. [`Outcome::Told`] follows.
    Tell { pod: Target, version: Box<str>, text: Arc<str>, again: bool },
    /// Write on a pod that its binding failed, which makes any binding that is still under way
    /// void, and look at it. [`Outcome::Looked`] follows.
    Void { pod: Target, text: Arc<str>, tries: u32 },
    /// Look at a pod. [`Outcome::Looked`] follows.
    Look { pod: Target },
    /// Make a reservation pod. [`Outcome::Reserved`] follows.
    Reserve { key: ObjectKey, node: Arc<str>, node_uid: Box<str>, group: Box<str> },
    /// Delete a reservation pod, whichever has that name if `uid` is empty.
    /// [`Outcome::Unreserved`] follows.
    Unreserve { key: ObjectKey, uid: Box<str> },
    /// Write this there, or remove what is there. [`Outcome::Written`] follows.
    Write { place: Place, uid: Box<str>, text: Option<Box<str>> },
    /// Record a warning about a pod.
    Warn { pod: Target, reason: &'static str, note: String },
    /// Say on a pod that it is bound.
    Announce { pod: Target, node: Arc<str> },
    /// List the pods anew: which of them are ours has changed.
    RelistPods,
}

/// What became of an [`Action`].
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The pod is bound; or it is not, or nobody knows.
    Bound { pod: Target, node: Arc<str>, result: Result<(), Failure> },
    /// What the claims of a pod need is written, or why not.
    Provided { pod: Target, result: Result<(), String> },
    /// The reason is on the pod, whose version was `told_on` and is now this one; or it could not
    /// be written.
    Told { pod: Target, told_on: Box<str>, result: Result<Box<str>, Failure> },
    /// The pod as it is, `None` if it is gone; `text` if that was to make its binding void.
    Looked {
        pod: Target,
        text: Option<Arc<str>>,
        tries: u32,
        result: Result<Option<Box<PodItem>>, Failure>,
    },
    /// A reservation pod was asked for.
    Reserved { key: ObjectKey, result: Result<(), Failure> },
    /// A reservation pod was to be deleted.
    Unreserved { key: ObjectKey, uid: Box<str>, result: Result<(), Failure> },
    /// This was to be written.
    Written { place: Place, text: Option<Box<str>>, result: Result<(), Failure> },
}

/// A pod as a write names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) key: ObjectKey,
    pub(crate) uid: Box<str>,
}

/// A decision to be written.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) pod: Target,
    /// The version that was decided on: a pod that has changed since is decided on anew.
    pub(crate) version: Box<str>,
    pub(crate) placement: Placement,
    pub(crate) grant: Grant,
    /// Annotations that say to what a share is kept, if levels of isolation are told apart.
    pub(crate) limits: Vec<(&'static str, String)>,
    /// Whether it asks for GPUs in Koordinator's way, and is told its cards so.
    pub(crate) asks_as_koordinators: bool,
    /// What has to be written for its claims before.
    pub(crate) volumes: Vec<VolumeStep>,
}

/// What a binding says of the pod's cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Nothing: it has none, or the device plugin chooses them.
    Nothing,
    /// Which they are, by index; nobody hands them out.
    Indexes,
    /// Which they are, by name, and all that its containers need to see them; once they are held.
    HandOff(Option<HandOff>),
}

/// What a share gets with its binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOff {
    /// Its cards by name.
    pub(crate) cards: Vec<NamedShare>,
    /// Their groups, by which KAI would know them.
    pub(crate) groups: Vec<Box<str>>,
    /// The part of each card that it has.
    pub(crate) portion: String,
    /// Its devices by their full names, if a provider isolates it.
    pub(crate) devices: Option<String>,
    /// Its cards as Koordinator writes them, if it asked so and their numbers are known.
    pub(crate) device_allocated: Option<String>,
}
