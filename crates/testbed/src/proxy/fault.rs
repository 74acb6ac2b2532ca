//! Which requests go wrong next, and how.

use super::Asked;
use http::{Method, StatusCode};
use std::time::Duration;

/// Which requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything.
    Any,
    /// Everything that changes something.
    Writes,
    /// Pods that are made.
    Pods,
    /// Bindings of pods.
    Bindings,
    /// Changes of a pod's status.
    PodStatus,
    /// Events.
    Events,
    /// The lease of the leader.
    Leases,
    /// Lists.
    Lists,
    /// Watches, when they are opened.
    Watches,
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An answer with this status, and the server hears nothing.
    Status(StatusCode),
    /// 429, come back in so many seconds.
    TooMany {
        /// Seconds.
        retry_after: u64,
    },
    /// The connection is closed, and the server hears nothing.
    Drop,
    /// No answer for a while, then the connection is closed; the server hears nothing.
    Hang(Duration),
    /// The request is held back, then goes through.
    Slow(Duration),
    /// The request is held back until the faults are healed, then goes through.
    Held,
    /// The server does it, but its answer does not arrive.
    LoseAnswer,
    /// The server does it some time up to so much later, also if whoever asked is gone by then.
    Late(Duration),
}

/// What is still to go wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<(Target, Fault, usize)>,
    pub injected: usize,
}

impl Faults {
    pub(super) fn add(&mut self, target: Target, fault: Fault, times: usize) {
        self.rules.push((target, fault, times));
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn next(&mut self, asked: &Asked) -> Option<Fault> {
        let matches = |target: Target| matches(target, asked);
        let (_, fault, times) =
            self.rules.iter_mut().find(|(target, _, times)| *times > 0 && matches(*target))?;
        *times -= 1;
        self.injected += 1;
        Some(*fault)
    }
}

fn matches(target: Target, asked: &Asked) -> bool {
    let is_write = asked.method != Method::GET;
    match target {
        Target::Any => true,
        Target::Writes => is_write,
        Target::Pods => asked.method == Method::POST && asked.resource == "pods",
        Target::Bindings => {
            is_write && (asked.resource == "pods/binding" || asked.resource == "bindings")
        }
        Target::PodStatus => is_write && asked.resource == "pods/status",
        Target::Events => is_write && asked.resource == "events",
        Target::Leases => is_write && asked.resource == "leases",
        Target::Lists => asked.is_list,
        Target::Watches => asked.is_watch,
    }
}
