//! The taint that keeps other schedulers off a node whose shared cards are being won back. It is
//! written until the node is as it should be, whoever changed it.

use super::timers::{self, Timer};
use super::wanted::Wanted;
use super::{Action, State};
use crate::api::Failure;
use foldhash::HashMap;
use std::time::Instant;

/// The nodes that have the taint, or should.
#[derive(Debug, Default)]
pub(super) struct Taints {
    nodes: HashMap<Box<str>, Wanted<bool>>,
}

impl Taints {
    pub(super) fn want(&mut self, node: &str, wanted: bool) {
        self.change(node, |taint| taint.want(wanted));
    }

    /// Whether a node has it, as it says itself.
    pub(super) fn seen(&mut self, node: &str, there: bool) {
        self.change(node, |taint| taint.seen(there));
    }

    pub(super) fn write_again(&mut self, node: &str) {
        self.change(node, Wanted::try_again);
    }

    pub(super) fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    fn change(&mut self, node: &str, change: impl FnOnce(&mut Wanted<bool>)) {
        let mut taint = self.nodes.remove(node).unwrap_or_default();
        change(&mut taint);
        if !taint.is_nothing() {
            self.nodes.insert(node.into(), taint);
        }
    }
}

impl State {
    /// Writes or removes the taint where it is not as it should be.
    pub(super) fn write_taints(&mut self) {
        for (node, taint) in &mut self.taints.nodes {
            if let Some(on) = taint.take_due() {
                self.actions.push(Action::Taint { node: node.clone(), on });
            }
        }
    }

    /// What became of [`Action::Taint`].
    pub(super) fn tainted(
        &mut self,
        node: &str,
        on: bool,
        result: &Result<(), Failure>,
        now: Instant,
    ) {
        match result {
            Ok(()) => self.taints.change(node, |taint| taint.written(on)),
            Err(why) => self.timers.add(now + timers::wait(why), Timer::Taint(node.into())),
        }
    }
}
