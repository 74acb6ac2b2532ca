//! Which nodes changed, in order: what lets a cache follow the ledger instead of rescanning it.

use crate::NodeId;
use std::collections::VecDeque;

/// A place in the journal; everything recorded before it has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(u64);

/// One change of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The node that changed.
    pub node: NodeId,
    /// Whether a pod that did not fit before may fit now.
    pub freed: bool,
}

/// The latest changes. Old ones are forgotten; a reader that fell behind starts over.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    forgotten: u64,
    changes: VecDeque<NodeChange>,
    /// Whether old ones are kept, because the new ones are about to be taken back.
    keeps_all: bool,
}

impl Journal {
    /// Enough for every shape in use to catch up; 8 bytes each.
    const KEEP: usize = 1 << 16;

    pub(crate) fn record(&mut self, node: NodeId, freed: bool) {
        if self.changes.len() >= Self::KEEP && !self.keeps_all {
            self.changes.pop_front();
            self.forgotten += 1;
        }
        self.changes.push_back(NodeChange { node, freed });
    }

    /// Keeps old changes too, until it is told otherwise.
    pub(crate) const fn keep_all(&mut self, keeps_all: bool) {
        self.keeps_all = keeps_all;
    }

    /// Takes out all changes since `from`.
    pub(crate) fn take_back(&mut self, from: Position) {
        let left = usize::try_from(from.0.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        self.changes.truncate(left);
    }

    /// The place after the newest change.
    pub fn end(&self) -> Position {
        Position(self.forgotten + self.changes.len() as u64)
    }

    /// The changes since `from`, or `None` if some of them are forgotten.
    pub fn since(&self, from: Position) -> Option<impl ExactSizeIterator<Item = NodeChange> + '_> {
        let skip = usize::try_from(from.0.checked_sub(self.forgotten)?).ok()?;
        (skip <= self.changes.len()).then(|| self.changes.range(skip..).copied())
    }
}
