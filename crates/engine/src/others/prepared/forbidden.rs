//! Domains that a pod is kept out of by anti-affinity, its own or that of others.

use crate::others::census::Counts;
use crate::others::topology::Topology;
use divvy_ledger::NodeId;
use std::sync::Arc;

/// Who forbids each domain, as one more than an index; 0 if nobody does. One table for all terms
/// of a topology, so that a pod with a thousand terms costs a node as little as one with one.
#[derive(Default)]
pub(super) struct Forbidden(Vec<(Arc<Topology>, Vec<u32>)>);

impl Forbidden {
    pub(super) fn add(&mut self, topology: Arc<Topology>, counts: &Counts, index: usize) {
        let known = self.0.iter().position(|(t, _)| t.key() == topology.key());
        let at = known.unwrap_or_else(|| {
            let none = vec![0; topology.len()];
            self.0.push((topology, none));
            self.0.len() - 1
        });
        let (topology, domains) = &mut self.0[at];
        for node in counts.keys() {
            let by = &mut domains[topology.domain(*node)];
            if *by == 0 {
                *by = index as u32 + 1;
            }
        }
        domains[0] = 0;
    }

    /// What forbids a node.
    pub(super) fn by(&self, node: NodeId) -> Option<usize> {
        self.0.iter().find_map(|(topology, domains)| {
            (domains[topology.domain(node)] as usize).checked_sub(1)
        })
    }
}
