//! How good a node that fits is for a pod, as one integer. Larger wins.
//!
//! ```text
//!   liking          18 bits  fewer taints to avoid, then preferred affinity      (rules)
//!   two flags        2 bits  CPU pods: node has no GPU, node not full
//!                            GPU pods: node not full, share joins a shared card, or of each
//!                            device that is asked some are in use
//!   use             16 bits  how full the node is with the pod on it; spread turns it round
//! ```

use crate::config::{Config, Strategy};
use crate::rules::Liking;
use divvy_ledger::{Bytes, Device, Needs, Node, Portion, Request};

/// Strategies for one pod: its own where it asks for one, else the configured ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strategies {
    pub(crate) node: Strategy,
    pub(crate) card: Strategy,
}

impl Strategies {
    pub(crate) fn new(config: &Config, own: Option<Strategy>) -> Self {
        Self { node: own.unwrap_or(config.node), card: own.unwrap_or(config.card) }
    }
}

/// Share sizes by card size: a fraction is worked out once per size, not once per node.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharesBySize(Vec<(Bytes, Bytes)>);

impl SharesBySize {
    pub(crate) fn on(&mut self, request: &Request, card: Bytes) -> Bytes {
        let Some(portion) = request.portion() else { return Bytes(0) };
        if let Portion::Memory(bytes) = portion {
            return bytes;
        }
        if let Some((_, share)) = self.0.iter().find(|(size, _)| *size == card) {
            return *share;
        }
        let share = portion.of(card);
        self.0.push((card, share));
        share
    }
}

const USE_BITS: u32 = 16;
const FULL: u64 = (1 << USE_BITS) - 1;
/// Bits of [`score`] with the liking.
pub(crate) const BITS: u32 = Liking::BITS + BELOW_LIKING;
/// Bits of [`score`] below the liking.
pub(crate) const BELOW_LIKING: u32 = 2 + USE_BITS;

/// The score of a node for a pod, `None` if it does not fit.
pub(crate) fn score(
    liking: Liking,
    needs: &Needs,
    share: Bytes,
    strategies: Strategies,
    config: &Config,
    node: &Node,
) -> Option<u64> {
    if !node.fits(needs, share) {
        return None;
    }
    let used = Usage::with(needs, share, node);
    let spread = strategies.node == Strategy::Spread;
    let not_full = spread || !used.exceeds(config);
    let (first, second) = match needs.request.part() {
        Some(part) => {
            let packing = !spread && strategies.card == Strategy::Binpack;
            (not_full, packing && node.can_join(part, share))
        }
        None if needs.request.is_none() => (!node.has_gpus(), not_full),
        None => (not_full, !spread && node.has_in_use(&needs.request)),
    };
    let fullness = used.weighted(config);
    let flags = u64::from(first) << 1 | u64::from(second);
    let rank = if spread { FULL - fullness } else { fullness };
    Some((u64::from(liking.0) << 2 | flags) << USE_BITS | rank)
}

/// Use of a node with the pod on it.
struct Usage {
    counts_gpu: bool,
    gpu: (u64, u64),
    cpu: (u64, u64),
    memory: (u64, u64),
}

impl Usage {
    fn with(needs: &Needs, share: Bytes, node: &Node) -> Self {
        let (room, has) = (node.room(), node.capacity());
        let cards = u64::from(needs.request.cards());
        let each = match needs.request.is_share() {
            true => share.0,
            false if node.card_count() > 0 => node.card_size().0.max(1),
            false => node.unit(Device::Gpu),
        };
        let mut added = each.saturating_mul(cards);
        for (device, count) in needs.request.devices() {
            added = added.saturating_add(node.unit(device).saturating_mul(count.into()));
        }
        Self {
            counts_gpu: !needs.request.is_none(),
            gpu: (room.gpu_used.saturating_add(added), room.gpu_total),
            cpu: (has.cpu.0 - room.cpu.0 + needs.cpu.0, has.cpu.0),
            memory: (has.memory.0 - room.memory.0 + needs.memory.0, has.memory.0),
        }
    }

    fn exceeds(&self, config: &Config) -> bool {
        let over = |(used, total): (u64, u64), threshold: u32| {
            threshold < Config::NEVER_FULL
                && u128::from(used) * u128::from(Config::NEVER_FULL)
                    > u128::from(total) * u128::from(threshold)
        };
        let limits = &config.thresholds;
        self.counts_gpu && over(self.gpu, limits.gpu)
            || over(self.cpu, limits.cpu)
            || over(self.memory, limits.memory)
    }

    fn weighted(&self, config: &Config) -> u64 {
        let weights = &config.weights;
        let gpu = if self.counts_gpu { u64::from(weights.gpu) } else { 0 };
        let (cpu, memory) = (u64::from(weights.cpu), u64::from(weights.memory));
        let sum = gpu * part(self.gpu) + cpu * part(self.cpu) + memory * part(self.memory);
        sum / (gpu + cpu + memory).max(1)
    }
}

/// `used / total` in 65535ths.
fn part((used, total): (u64, u64)) -> u64 {
    // Shifted so that the product stays within 64 bits; below 2^47 nothing is lost.
    let shift = (64 - total.leading_zeros()).saturating_sub(47);
    let total = total >> shift;
    if total == 0 {
        return 0;
    }
    (used >> shift).min(total) * FULL / total
}
