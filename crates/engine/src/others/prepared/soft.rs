//! What a pod would like of other pods, as points for the nodes that are left.
//!
//! Three wishes weigh the same, as in kube-scheduler: preferred node affinity, preferred
//! inter-pod affinity (own terms and those of pods that are there), and `ScheduleAnyway` spread.
//! Each is brought to thousandths of its best among the nodes that are left.

use super::Question;
use super::spread::Eligible;
use crate::others::census::Counts;
use crate::others::topology::Topology;
use crate::world::World;
use divvy_ledger::NodeId;
use std::sync::Arc;

/// Tables of what is wished.
#[derive(Default)]
pub(crate) struct Soft {
    /// Sum of weights by domain, one table for each topology.
    affinity: Vec<(Arc<Topology>, Vec<i64>)>,
    spread: Vec<Leaning>,
}

/// A spread constraint that is a wish.
struct Leaning {
    topology: Arc<Topology>,
    counts: Vec<u64>,
    max_skew: u64,
}

/// A node's points before they are compared with those of other nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    node: NodeId,
    preferred: u64,
    affinity: i64,
}

impl Soft {
    pub(super) fn new(question: &Question<'_>, world: &World) -> Self {
        let mut soft = Self::default();
        for owned_term in &question.owned_terms {
            if let Some(weight) = owned_term.weight {
                soft.lean(owned_term.topology, weight, &owned_term.owners, world);
            }
        }
        let Some(relations) = question.relations else { return soft };
        for ((weight, term), counts) in relations.preferred.iter().zip(&question.preferred) {
            soft.lean(&term.topology, *weight, counts, world);
        }
        let eligible = Eligible { rules: question.rules, world };
        let constraints = relations.spread.iter().zip(&question.spread);
        for (spread, counts) in constraints.filter(|(spread, _)| !spread.required) {
            let topology = world.others.topology(&spread.topology, &world.facts);
            let mut sums = vec![0; topology.len()];
            for (id, count) in counts.iter() {
                if eligible.contains(spread, *id) {
                    sums[topology.domain(*id)] += u64::from(*count);
                }
            }
            let max_skew = spread.max_skew.into();
            soft.spread.push(Leaning { topology, counts: sums, max_skew });
        }
        soft
    }

    fn lean(&mut self, topology: &str, weight: i32, counts: &Counts, world: &World) {
        let known = self.affinity.iter().position(|(t, _)| t.key() == topology);
        let at = known.unwrap_or_else(|| {
            let topology = world.others.topology(topology, &world.facts);
            let none = vec![0; topology.len()];
            self.affinity.push((topology, none));
            self.affinity.len() - 1
        });
        let (topology, sums) = &mut self.affinity[at];
        for (node, count) in counts {
            sums[topology.domain(*node)] += i64::from(weight) * i64::from(*count);
        }
        sums[0] = 0;
    }

    /// Whether nothing is wished of other pods.
    pub(crate) fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.spread.is_empty()
    }

    /// What a node offers; `preferred` is the weight of node affinity there.
    pub(crate) fn wishes(&self, node: NodeId, preferred: u64) -> Wishes {
        let affinity = self.affinity.iter().map(|(t, sums)| sums[t.domain(node)]).sum();
        Wishes { node, preferred, affinity }
    }

    /// Points of each node, larger is better: the sum of three parts of at most 1000.
    pub(crate) fn points(&self, nodes: &[Wishes]) -> Vec<u64> {
        let most = nodes.iter().map(|w| w.preferred).max().unwrap_or(0);
        let low = nodes.iter().map(|w| w.affinity).min().unwrap_or(0);
        let high = nodes.iter().map(|w| w.affinity).max().unwrap_or(0);
        let range = high.abs_diff(low);
        let uneven = self.uneven(nodes);
        let with_all = uneven.iter().flatten();
        let (least, worst) =
            (with_all.clone().min().copied().unwrap_or(0), with_all.max().copied().unwrap_or(0));
        let points = |(wishes, uneven): (&Wishes, &Option<u64>)| {
            let even = match uneven {
                _ if self.spread.is_empty() => 0,
                None => 0,
                Some(_) if worst == 0 => 1000,
                Some(n) => thousandths(worst + least - n, worst),
            };
            even + thousandths(wishes.affinity.abs_diff(low), range)
                + thousandths(wishes.preferred, most)
        };
        nodes.iter().zip(&uneven).map(points).collect()
    }

    /// How crowded the domains of each node are; `None` where one of the labels is missing.
    fn uneven(&self, nodes: &[Wishes]) -> Vec<Option<u64>> {
        let domains = |node: NodeId| self.spread.iter().map(move |s| s.topology.domain(node));
        let has_all = |w: &Wishes| domains(w.node).all(|domain| domain > 0);
        let weights: Vec<u64> = self
            .spread
            .iter()
            .map(|leaning| {
                let mut seen = vec![false; leaning.topology.len()];
                for wishes in nodes.iter().filter(|w| has_all(w)) {
                    seen[leaning.topology.domain(wishes.node)] = true;
                }
                log2(seen.into_iter().filter(|seen| *seen).count() as u64 + 2)
            })
            .collect();
        let crowded = |w: &Wishes| {
            let each = self.spread.iter().zip(&weights);
            each.map(|(leaning, weight)| {
                let count = leaning.counts[leaning.topology.domain(w.node)];
                count * weight + (leaning.max_skew.saturating_sub(1) << FRACTION)
            })
            .sum()
        };
        nodes.iter().map(|w| has_all(w).then(|| crowded(w))).collect()
    }
}

const FRACTION: u32 = 8;

/// The binary logarithm in 256ths, so that a topology of many domains counts more than one of
/// few; linear between powers of two.
fn log2(n: u64) -> u64 {
    let whole = n.max(1).ilog2();
    let rest = n - (1 << whole);
    (u64::from(whole) << FRACTION) + ((rest << FRACTION) >> whole)
}

/// A part of a whole, which is at least as large; nothing of nothing.
fn thousandths(part: u64, whole: u64) -> u64 {
    // Most wishes say the same of most nodes, and a division is the dearest step of all here.
    if part == 0 || part == whole {
        return if part == 0 { 0 } else { 1000 };
    }
    let shift = (64 - whole.leading_zeros()).saturating_sub(53);
    1000 * (part >> shift) / (whole >> shift).max(1)
}
