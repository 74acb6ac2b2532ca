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
use divvy_ledger::{Bytes, Device, Glance, Needs, Node, Portion, Request, Total};

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

/// The score of a node for a pod that fits.
#[inline]
pub(crate) fn score(
    liking: Liking,
    needs: &Needs,
    share: Bytes,
    strategies: Strategies,
    config: &Config,
    at: Candidate<'_>,
) -> u64 {
    let Candidate { glance, node } = at;
    let request = &needs.request;
    let used = Usage::with(needs, share, at);
    let spread = strategies.node == Strategy::Spread;
    let not_full = spread || !used.exceeds(config);
    let (first, second) = match request.part() {
        Some(part) => {
            let packing = !spread && strategies.card == Strategy::Binpack;
            let joins =
                || glance.can_join(part, share).unwrap_or_else(|| node.can_join(part, share));
            (not_full, packing && joins())
        }
        None if request.is_none() => (!glance.has_gpus(), not_full),
        None => (not_full, !spread && glance.counts_devices() && node.has_in_use(request)),
    };
    let fullness = used.weighted(config);
    let flags = u64::from(first) << 1 | u64::from(second);
    let rank = if spread { FULL - fullness } else { fullness };
    (u64::from(liking.0) << 2 | flags) << USE_BITS | rank
}

/// A node at a glance, and as it is where that does not do.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) glance: &'a Glance,
    pub(crate) node: &'a Node,
}

/// Use of a node with the pod on it.
struct Usage<'a> {
    counts_gpu: bool,
    gpu: (u64, &'a Total),
    cpu: (u64, &'a Total),
    memory: (u64, &'a Total),
}

impl<'a> Usage<'a> {
    #[inline]
    fn with(needs: &Needs, share: Bytes, Candidate { glance, node }: Candidate<'a>) -> Self {
        let (room, request) = (glance.room(), &needs.request);
        let each = match request.is_share() {
            true => share.0,
            false if !request.asks_cards() => 0,
            false if glance.card_size().0 > 0 => glance.card_size().0,
            false if node.card_count() > 0 => 1,
            false => node.unit(Device::Gpu),
        };
        let mut added = each.saturating_mul(request.cards().into());
        for (device, count) in request.devices() {
            added = added.saturating_add(node.unit(device).saturating_mul(count.into()));
        }
        let Glance { cpu, memory, gpu, .. } = glance;
        Self {
            counts_gpu: !request.is_none(),
            gpu: (room.gpu_used.saturating_add(added), gpu),
            cpu: (cpu.all() - room.cpu.0 + needs.cpu.0, cpu),
            memory: (memory.all() - room.memory.0 + needs.memory.0, memory),
        }
    }

    #[inline]
    fn exceeds(&self, config: &Config) -> bool {
        let over = |(used, total): (u64, &Total), threshold: u32| {
            threshold < Config::NEVER_FULL
                && u128::from(used) * u128::from(Config::NEVER_FULL)
                    > u128::from(total.all()) * u128::from(threshold)
        };
        let limits = &config.thresholds;
        self.counts_gpu && over(self.gpu, limits.gpu)
            || over(self.cpu, limits.cpu)
            || over(self.memory, limits.memory)
    }

    #[inline]
    fn weighted(&self, config: &Config) -> u64 {
        let weights = &config.weights;
        let gpu = if self.counts_gpu { u64::from(weights.gpu) } else { 0 };
        let (cpu, memory) = (u64::from(weights.cpu), u64::from(weights.memory));
        let part = |(used, total): (u64, &Total)| total.part(used);
        let sum = gpu * part(self.gpu) + cpu * part(self.cpu) + memory * part(self.memory);
        sum / (gpu + cpu + memory).max(1)
    }
}
