//! The taint that keeps other schedulers off a node whose shared cards are being won back. It is
//! written until the node is as it should be, whoever changed it.

use super::timers::{self, Timer};
use super::{Action, State};
use crate::api::Failure;
use rustc_hash::FxHashMap;
use std::time::Instant;

/// The nodes that have the taint, or should.
#[derive(Debug, Default)]
pub(super) struct Taints {
    nodes: FxHashMap<Box<str>, Mark>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    wanted: bool,
    there: bool,
    /// Whether a write is under way, or waits to be made again.
    writing: bool,
}

impl Taints {
    pub(super) fn want(&mut self, node: &str, wanted: bool) {
        self.change(node, |mark| mark.wanted = wanted);
    }

    /// Whether a node has it, as it says itself.
    pub(super) fn seen(&mut self, node: &str, there: bool) {
        self.change(node, |mark| mark.there = there);
    }

    pub(super) fn write_again(&mut self, node: &str) {
        self.change(node, |mark| mark.writing = false);
    }

    pub(super) fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    fn change(&mut self, node: &str, change: impl FnOnce(&mut Mark)) {
        let mut mark = self.nodes.get(node).copied().unwrap_or_default();
        change(&mut mark);
        if mark == Mark::default() {
            self.nodes.remove(node);
        } else {
            self.nodes.insert(node.into(), mark);
        }
    }
}

impl State {
    /// Writes or removes the taint where it is not as it should be.
    pub(super) fn write_taints(&mut self) {
        for (node, mark) in &mut self.taints.nodes {
            if mark.wanted != mark.there && !mark.writing {
                mark.writing = true;
                self.actions.push(Action::Taint { node: node.clone(), on: mark.wanted });
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
            Ok(()) => {
                self.taints.seen(node, on);
                self.taints.write_again(node);
            }
            Err(why) => self.timers.add(now + timers::wait(why), Timer::Taint(node.into())),
        }
    }
}
