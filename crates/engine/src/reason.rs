//! Why a pod waits, as data. Each reason is rendered here and nowhere else: event, condition,
//! CLI and console show the same sentence.

use crate::others::VolumeReason;
use crate::record::ObjectKey;
use crate::rules::Taint;
use divvy_ledger::{Bytes, Device, Division, MilliCpu, Portion, Shortage};
use std::fmt;
use std::sync::Arc;

/// Why a pod was refused, by one node or altogether.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The pod itself is wrong.
    Invalid(Arc<str>),
    /// A scheduling gate is closed.
    Gated(Arc<str>),
    /// The cluster is empty.
    NoNodes,
    /// The pod names another node.
    OtherNode(Arc<str>),
    /// The pod names a node that does not exist.
    NoSuchNode(Arc<str>),
    /// The node is cordoned.
    Cordoned,
    /// The node is drained in this rehearsal.
    Drained,
    /// A taint is not tolerated.
    Taint(Taint),
    /// The node selector asks for a label that the node does not have.
    Selector {
        /// The label's key.
        key: Arc<str>,
        /// The label's value.
        value: Arc<str>,
    },
    /// Required node affinity does not hold.
    Affinity,
    /// A binding failed lately; this says how.
    Refused(Arc<str>),
    /// Nothing is given to the pod for now.
    HeldBack(Arc<str>),
    /// A port of the node is taken.
    Port {
        /// The port, as `8080/TCP`.
        port: Arc<str>,
        /// By whom, if it is one pod.
        by: Option<ObjectKey>,
    },
    /// The node lacks a label by which domains are told apart.
    NoDomain {
        /// The label.
        topology: Arc<str>,
        /// What asks for it.
        of: &'static str,
    },
    /// Required pod affinity does not hold.
    PodAffinity {
        /// Whether some pod elsewhere would meet it.
        elsewhere: bool,
    },
    /// Required anti-affinity does not hold.
    PodAntiAffinity {
        /// The label by which domains are told apart.
        topology: Arc<str>,
        /// Whether the term is that of a pod that is there, about the pod that waits.
        theirs: bool,
        /// The domain and a pod there, if it is one domain.
        at: Option<(Arc<str>, Option<ObjectKey>)>,
    },
    /// A required topology spread constraint does not hold.
    Spread {
        /// The label by which domains are told apart.
        topology: Arc<str>,
        /// By how many pods the domain would exceed the least.
        skew: u32,
        /// How many are allowed.
        max: u32,
    },
    /// Cards that have room hold shares of another class.
    OtherClass {
        /// What that is called.
        holds: Option<Arc<str>>,
        /// The node and what its card is called, if it is one card.
        at: Option<(Arc<str>, Arc<str>)>,
    },
    /// The pod's volumes.
    Volume(VolumeReason),
    /// The node lacks something.
    Lacks {
        /// What, with the numbers.
        shortage: Shortage,
        /// The name of the extended resource, if it is one.
        resource: Option<Arc<str>>,
        /// How the share was written, if it is one.
        portion: Option<Portion>,
    },
}

impl Reason {
    /// A stable CamelCase name: for JSON, metric labels and conditions.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "InvalidRequest",
            Self::Gated(_) => "SchedulingGated",
            Self::NoNodes => "NoNodes",
            Self::OtherNode(_) => "OtherNode",
            Self::NoSuchNode(_) => "NoSuchNode",
            Self::Cordoned => "NodeUnschedulable",
            Self::Drained => "NodeDrained",
            Self::Taint(_) => "TaintNotTolerated",
            Self::Selector { .. } => "NodeSelector",
            Self::Affinity => "NodeAffinity",
            Self::Port { .. } => "HostPortTaken",
            Self::NoDomain { .. } => "NoTopologyLabel",
            Self::PodAffinity { .. } => "PodAffinity",
            Self::PodAntiAffinity { .. } => "PodAntiAffinity",
            Self::Spread { .. } => "TopologySpread",
            Self::Refused(_) => "BindingRefused",
            Self::HeldBack(_) => "HeldBack",
            Self::Volume(reason) => reason.name(),
            Self::OtherClass { .. } => "CardOfAnotherClass",
            Self::Lacks { shortage, .. } => match shortage {
                Shortage::NoGpu => "NoGpu",
                Shortage::Unsettled => "CardsUnsettled",
                Shortage::UnknownHolder => "CardsUnknown",
                Shortage::Replicas { .. } => "NodeSharesReplicas",
                Shortage::CardMemoryUnknown => "CardMemoryUnknown",
                Shortage::CardSize { .. } => "CardTooSmall",
                Shortage::CardCount { .. } => "TooFewCards",
                Shortage::NotAllocatable { .. } => "CardsNotAllocatable",
                Shortage::FreeCards { .. } => "InsufficientFreeCards",
                Shortage::FreeShare { .. } | Shortage::FreeShares { .. } => "InsufficientFreeShare",
                Shortage::Compute { .. } => "InsufficientCompute",
                Shortage::Class { .. } => "CardOfAnotherClass",
                Shortage::NoClass(_) => "NoIsolationProvider",
                Shortage::NoDevice(_) | Shortage::NoExtended(_) => "NoExtendedResource",
                Shortage::Renamed { .. } => "ResourceRenamed",
                Shortage::OneEach { .. } => "OneReplicaEach",
                Shortage::Devices { .. } | Shortage::Extended { .. } => {
                    "InsufficientExtendedResource"
                }
                Shortage::Cpu { .. } => "InsufficientCpu",
                Shortage::Memory { .. } => "InsufficientMemory",
                Shortage::Ephemeral { .. } => "InsufficientEphemeralStorage",
                Shortage::PodSlots { .. } => "InsufficientPodSlots",
            },
        }
    }

    /// How close a node with this reason came to taking the pod; the closest is told first.
    pub const fn closeness(&self) -> (u8, u64) {
        let rank = match self {
            Self::OtherNode(_) => 0,
            Self::Selector { .. } | Self::Affinity | Self::NoDomain { .. } => 1,
            Self::Lacks {
                shortage: Shortage::NoGpu | Shortage::NoDevice(_) | Shortage::NoExtended(_),
                ..
            } => 2,
            Self::Taint(_) => 3,
            Self::Cordoned | Self::Drained => 4,
            Self::Lacks { shortage, .. } => match shortage {
                Shortage::Replicas { .. }
                | Shortage::NoClass(_)
                | Shortage::Renamed { .. }
                | Shortage::OneEach { .. } => 5,
                Shortage::CardMemoryUnknown => 6,
                // Of cards that are too small, the largest.
                Shortage::CardSize { card, .. } => return (7, card.0),
                Shortage::CardCount { .. } => 8,
                Shortage::NotAllocatable { .. } | Shortage::Unsettled | Shortage::UnknownHolder => {
                    9
                }
                _ => 10,
            },
            Self::OtherClass { .. } => 10,
            // There is room; other pods are in the way.
            Self::PodAffinity { .. } => 11,
            Self::Port { .. } | Self::PodAntiAffinity { .. } | Self::Spread { .. } => 12,
            Self::Volume(reason) => match reason {
                // Storage is elsewhere, as if the pod asked for another node.
                VolumeReason::Unreachable { .. }
                | VolumeReason::SelectedElsewhere { .. }
                | VolumeReason::NoMatch { .. }
                | VolumeReason::Topology { .. }
                | VolumeReason::NoDriver(_) => 1,
                VolumeReason::NoSpace { .. } => 10,
                VolumeReason::DiskInUse { .. } | VolumeReason::Limit { .. } => 12,
                _ => 13,
            },
            Self::Invalid(_)
            | Self::Gated(_)
            | Self::NoNodes
            | Self::NoSuchNode(_)
            | Self::Refused(_)
            | Self::HeldBack(_) => 13,
        };
        (rank, 0)
    }

    /// What reasons that are told as one have in common: all but the numbers, which
    /// [`Reason::absorb`] joins.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Lacks { shortage, resource, .. } => match shortage {
                Shortage::CardSize { .. }
                | Shortage::NotAllocatable { .. }
                | Shortage::Replicas { .. } => self.to_string(),
                Shortage::Cpu { reserved: MilliCpu(1..), .. }
                | Shortage::Memory { reserved: Bytes(1..), .. }
                | Shortage::PodSlots { reserved: 1.., .. } => {
                    format!("{} to reserve cards", self.name())
                }
                _ => format!("{} {}", self.name(), resource.as_deref().unwrap_or_default()),
            },
            Self::OtherClass { holds, .. } => {
                format!("{} {}", self.name(), holds.as_deref().unwrap_or_default())
            }
            Self::Port { port: what, .. }
            | Self::Spread { topology: what, .. }
            | Self::PodAntiAffinity { topology: what, theirs: false, .. } => {
                format!("{} {what}", self.name())
            }
            Self::PodAntiAffinity { topology, theirs: true, .. } => {
                format!("{} of others {topology}", self.name())
            }
            _ => self.to_string(),
        }
    }

    /// Joins a reason of the same kind, keeping the best number of both.
    pub(crate) fn absorb(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Port { by, .. }, Self::Port { by: another, .. }) if by != another => *by = None,
            (Self::OtherClass { at, .. }, Self::OtherClass { at: another, .. })
                if at != another =>
            {
                *at = None;
            }
            (Self::PodAntiAffinity { at, .. }, Self::PodAntiAffinity { at: another, .. })
                if at != another =>
            {
                *at = None;
            }
            (Self::Spread { skew, .. }, Self::Spread { skew: other, .. }) => {
                *skew = (*skew).min(*other);
            }
            _ => {}
        }
        let (Self::Lacks { shortage: a, portion, .. }, Self::Lacks { shortage: b, .. }) =
            (&mut *self, other)
        else {
            return;
        };
        match (a, b) {
            (Shortage::CardCount { cards: x, .. }, Shortage::CardCount { cards: y, .. })
            | (Shortage::FreeCards { free: x, .. }, Shortage::FreeCards { free: y, .. })
            | (Shortage::FreeShares { fitting: x, .. }, Shortage::FreeShares { fitting: y, .. }) => {
                keep_larger(x, *y);
            }
            (x @ Shortage::FreeShare { .. }, y @ Shortage::FreeShare { .. }) => {
                keep_freest(x, *y, *portion);
            }
            (Shortage::Extended { free: x, .. }, Shortage::Extended { free: y, .. }) => {
                keep_larger(x, *y);
            }
            (Shortage::Compute { free: x, .. }, Shortage::Compute { free: y, .. }) => {
                keep_larger(x, *y);
            }
            // What is asked differs where cards have to be reserved: the numbers stay together.
            (x @ Shortage::Cpu { .. }, y @ Shortage::Cpu { .. })
            | (x @ Shortage::Memory { .. }, y @ Shortage::Memory { .. })
            | (x @ Shortage::PodSlots { .. }, y @ Shortage::PodSlots { .. })
            | (x @ Shortage::Devices { .. }, y @ Shortage::Devices { .. })
                if missing(y) < missing(x) =>
            {
                *x = *y;
            }
            (Shortage::Ephemeral { free: x, .. }, Shortage::Ephemeral { free: y, .. }) => {
                keep_larger(x, *y);
            }
            _ => {}
        }
    }
}

fn keep_larger<T: Ord>(a: &mut T, b: T) {
    if b > *a {
        *a = b;
    }
}

/// How much is missing.
const fn missing(shortage: &Shortage) -> u64 {
    match shortage {
        Shortage::Cpu { free, asked, .. } => asked.0.saturating_sub(free.0),
        Shortage::Memory { free, asked, .. } => asked.minus(*free).0,
        Shortage::PodSlots { free, reserved } => {
            reserved.saturating_add(1).saturating_sub(*free) as u64
        }
        Shortage::Devices { total, taken, asked, .. } => {
            asked.saturating_add(*taken).saturating_sub(*total) as u64
        }
        _ => 0,
    }
}

/// A fraction asks differently of every card size, so the larger part of its card wins.
fn keep_freest(a: &mut Shortage, b: Shortage, portion: Option<Portion>) {
    let is_fraction = matches!(portion, Some(Portion::Fraction(_)));
    let free = |s: &Shortage| match s {
        Shortage::FreeShare { largest, card, .. } if is_fraction => thousandths(*largest, *card),
        Shortage::FreeShare { largest, .. } => u128::from(largest.0),
        _ => 0,
    };
    if free(&b) > free(a) {
        *a = b;
    }
}

/// Two sizes in the largest unit in which they differ.
fn apart(a: Bytes, b: Bytes) -> (String, String) {
    let pairs =
        [(a.to_string(), b.to_string()), (format!("{} MiB", a.mib()), format!("{} MiB", b.mib()))];
    let differs = |(a, b): &(String, String)| a != b;
    let bytes = (format!("{} B", a.0), format!("{} B", b.0));
    pairs.into_iter().find(differs).unwrap_or(bytes)
}

fn thousandths(part: Bytes, whole: Bytes) -> u128 {
    u128::from(part.0) * 1000 / u128::from(whole.0.max(1))
}

fn decimal(thousandths: u128) -> String {
    if thousandths == 0 {
        return "0".to_owned();
    }
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000).trim_end_matches('0').to_owned()
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => f.write_str(text),
            Self::Gated(gates) => write!(f, "scheduling gate {gates} is closed"),
            Self::NoNodes => f.write_str("the cluster has no nodes"),
            Self::OtherNode(name) => write!(f, "the pod asks for node {name}"),
            Self::NoSuchNode(name) => {
                write!(f, "the pod asks for node {name}, which is not in the cluster")
            }
            Self::Cordoned => f.write_str("cordoned (spec.unschedulable)"),
            Self::Drained => f.write_str("drained in this rehearsal"),
            Self::Taint(Taint { key, value, effect }) => {
                let equals = if value.is_empty() { "" } else { "=" };
                write!(f, "taint {key}{equals}{value}:{} not tolerated", effect.as_str())
            }
            Self::Selector { key, value } => write!(f, "no label {key}={value}"),
            Self::Affinity => f.write_str("node affinity does not match"),
            Self::Refused(why) => write!(f, "binding failed: {why}"),
            Self::HeldBack(why) => f.write_str(why),
            Self::Port { port, by: Some(pod) } => {
                write!(f, "host port {port} is taken by {pod}")
            }
            Self::Port { port, by: None } => write!(f, "host port {port} is taken"),
            Self::NoDomain { topology, of } => {
                write!(f, "no label {topology}, which {of} asks for")
            }
            Self::PodAffinity { elsewhere: false } => {
                f.write_str("no pod matches the required pod affinity")
            }
            Self::PodAffinity { elsewhere: true } => {
                f.write_str("no pod that the required pod affinity asks for is near")
            }
            Self::PodAntiAffinity { topology, theirs, at } => {
                write_anti_affinity(f, topology, *theirs, at.as_ref())
            }
            Self::Spread { topology, skew, max } => {
                write!(f, "topology spread {topology}: skew would be {skew} > {max}")
            }
            Self::OtherClass { holds, at } => {
                let holds = holds.as_deref().unwrap_or("other");
                match at {
                    Some((node, card)) => write!(f, "card {node}/{card} holds {holds} pods"),
                    None => write!(f, "cards with room hold {holds} pods"),
                }
            }
            Self::Volume(reason) => write!(f, "{reason}"),
            Self::Lacks { shortage, resource, portion } => {
                write_shortage(f, *shortage, resource.as_deref(), *portion)
            }
        }
    }
}

fn write_anti_affinity(
    f: &mut fmt::Formatter<'_>,
    topology: &str,
    theirs: bool,
    at: Option<&(Arc<str>, Option<ObjectKey>)>,
) -> fmt::Result {
    let of = if theirs { " of others" } else { "" };
    write!(f, "pod anti-affinity{of}: ")?;
    match at {
        Some((domain, Some(pod))) => write!(f, "{pod} on {topology}={domain}"),
        Some((domain, None)) => write!(f, "a pod on {topology}={domain}"),
        None => write!(f, "a pod in the same {topology}"),
    }
}

fn write_shortage(
    f: &mut fmt::Formatter<'_>,
    shortage: Shortage,
    resource: Option<&str>,
    portion: Option<Portion>,
) -> fmt::Result {
    match shortage {
        Shortage::NoGpu => f.write_str("no GPU"),
        Shortage::Replicas { by, .. } => {
            let are = by.map_or("time-sliced or MIG replicas", Division::plural);
            write!(f, "its GPUs are {are}, which take no shares")
        }
        Shortage::CardMemoryUnknown => {
            f.write_str("label nvidia.com/gpu.memory is missing, so gpu-memory cannot be placed")
        }
        Shortage::CardSize { card, asked } => {
            let (card, asked) = apart(card, asked);
            write!(f, "largest card {card} < {asked} asked")
        }
        Shortage::CardCount { cards, asked } => {
            let plural = if cards == 1 { "" } else { "s" };
            write!(f, "at most {cards} card{plural} < {asked} asked")
        }
        Shortage::NotAllocatable { cards, usable: 0 } => {
            write!(f, "0 of {cards} cards allocatable (is the device plugin running?)")
        }
        Shortage::NotAllocatable { cards, usable } => {
            write!(f, "{usable} of {cards} cards allocatable (are the others unhealthy?)")
        }
        Shortage::FreeCards { free, asked } => write!(f, "free cards {free} < {asked} asked"),
        Shortage::FreeShare { largest, asked, card } => match portion {
            Some(Portion::Fraction(fraction)) => {
                let free = decimal(thousandths(largest, card));
                write!(f, "largest free share {free} < {fraction} asked")
            }
            _ => {
                let (largest, asked) = apart(largest, asked);
                write!(f, "largest free share {largest} < {asked} asked")
            }
        },
        Shortage::FreeShares { fitting, asked } => {
            write!(f, "the share fits on {fitting} cards < {asked} asked")
        }
        Shortage::Compute { free, asked } => {
            write!(f, "largest free compute {free} < {asked} asked")
        }
        Shortage::Class { .. } => f.write_str("cards with room hold shares of another class"),
        Shortage::NoClass(_) => {
            write!(f, "provider {} is not installed", resource.unwrap_or("of isolation"))
        }
        Shortage::NoDevice(device) => write!(f, "no {device}"),
        Shortage::Renamed { asked, called, by } => {
            let are = by.map_or("its GPUs", Division::plural);
            write!(f, "no {asked}: {are} are called {called} there")
        }
        Shortage::OneEach { device, by, asked } => {
            let what = by.map_or_else(|| device.to_string(), |by| by.plural().to_owned());
            write!(f, "a container gets one of its {what}, {asked} asked")
        }
        Shortage::Devices { device, by, total, cards, taken, asked, .. } => {
            write_devices(f, device, by, (total, cards), (taken, asked))
        }
        Shortage::NoExtended(_) => write!(f, "no {}", resource.unwrap_or("resource")),
        Shortage::Extended { free, asked, .. } => {
            write!(f, "free {} {free} < {asked} asked", resource.unwrap_or("resource"))
        }
        Shortage::Cpu { free, asked, reserved } => {
            write!(f, "free CPU {free} < {asked} asked")?;
            write_reserved(f, reserved != MilliCpu(0), reserved)
        }
        Shortage::Memory { free, asked, reserved } => {
            let (free, asked) = apart(free, asked);
            write!(f, "free memory {free} < {asked} asked")?;
            write_reserved(f, reserved != Bytes(0), reserved)
        }
        Shortage::Ephemeral { free, asked } => {
            let (free, asked) = apart(free, asked);
            write!(f, "free ephemeral storage {free} < {asked} asked")
        }
        Shortage::PodSlots { free: 0, .. } => f.write_str("no free pod slot"),
        Shortage::PodSlots { free, reserved } => {
            write!(f, "free pod slots {free} < {} asked", reserved.saturating_add(1))?;
            write_reserved(f, true, reserved)
        }
        Shortage::UnknownHolder => f.write_str(
            "the record of a pod there does not say which cards it has, so no GPU is given",
        ),
        Shortage::Unsettled => {
            f.write_str("shared cards are not held by their reservations, so no GPU is given")
        }
    }
}

fn write_devices(
    f: &mut fmt::Formatter<'_>,
    device: Device,
    by: Option<Division>,
    (total, cards): (u32, u32),
    (taken, asked): (u32, u32),
) -> fmt::Result {
    if asked > total {
        return write!(f, "at most {total} {device} < {asked} asked");
    }
    write!(f, "{taken} of {total} ")?;
    match (device, by) {
        (Device::Gpu | Device::Replica, Some(by)) => f.write_str(by.plural())?,
        _ => write!(f, "{device}")?,
    }
    match cards {
        0 => {}
        1 => f.write_str(" of 1 card")?,
        cards => write!(f, " of {cards} cards")?,
    }
    f.write_str(if taken > total { " are held" } else { " are taken" })?;
    if asked > 1 { write!(f, ", {asked} asked") } else { Ok(()) }
}

/// Says what of it is not the pod's own.
fn write_reserved(
    f: &mut fmt::Formatter<'_>,
    is_some: bool,
    reserved: impl fmt::Display,
) -> fmt::Result {
    if is_some { write!(f, " ({reserved} to reserve cards)") } else { Ok(()) }
}
