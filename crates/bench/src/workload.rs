//! Clusters and pods to measure with: several GPU models, mixed requests, a fixed seed.

use divvy_engine::{
    ClassName, NodeFacts, NodeRecord, ObjectKey, PodRecord, PodSpec, Rules, Taint, Toleration,
};
use divvy_ledger::{
    Bytes, Class, Device, DividedCard, Division, Each, Engines, Fraction, Gpus, MilliCpu, Part,
    Pool, Portion, Profile, Request,
};
use divvy_testbed::dice::Dice;
use std::sync::Arc;

const GIB: u64 = 1 << 30;
/// Model, cards, MiB per card, cores, GiB of memory.
const MODELS: [(&str, u32, u64, u64, u64); 5] = [
    ("NVIDIA-A100-SXM4-80GB", 8, 81_920, 128, 1024),
    ("NVIDIA-A100-SXM4-40GB", 8, 40_960, 96, 768),
    ("NVIDIA-L40S", 4, 46_068, 64, 512),
    ("Tesla-T4", 4, 15_360, 48, 192),
    ("", 0, 0, 64, 256),
];

/// Node number `i` of a mixed cluster: a sixth has no GPU, one in forty is tainted.
pub fn node(i: usize) -> NodeRecord {
    let (model, cards, mib, cores, gib) = MODELS[[0, 0, 1, 2, 3, 4][i % 6]];
    let name = format!("node-{i:06}");
    let label = |key: &str, value: &str| (key.into(), value.into());
    let mut labels = vec![label("kubernetes.io/hostname", &name)];
    let mut gpus = Gpus::none();
    if cards > 0 {
        labels.push(label("nvidia.com/gpu.count", &cards.to_string()));
        labels.push(label("nvidia.com/gpu.memory", &mib.to_string()));
        labels.push(label("nvidia.com/gpu.product", model));
        gpus = Gpus::cards(cards, cards, Some(Bytes::from_mib(mib)));
    }
    labels.push(label("topology.kubernetes.io/zone", ["a", "b", "c"][i % 3]));
    let taint = Taint {
        key: "reserved".into(),
        value: "team".into(),
        effect: divvy_engine::Effect::NoSchedule,
    };
    NodeRecord {
        name,
        facts: NodeFacts {
            labels,
            taints: if i % 40 == 39 { vec![taint] } else { Vec::new() },
            unschedulable: false,
            drained: false,
        },
        cpu: MilliCpu(cores * 1000),
        memory: Bytes(gib * GIB),
        ephemeral: Bytes(1000 * GIB),
        pods: 250,
        extended: Vec::new(),
        gpus,
        model: (cards > 0).then(|| model.to_owned()),
    }
}

const ISOLATED: Class = Class(1);

/// What the classes of shares are called where levels are told apart.
pub fn classes() -> Arc<[ClassName]> {
    let class = |name: &str, provider: Option<&str>| ClassName {
        name: name.into(),
        provider: provider.map(Into::into),
    };
    [class("Shared", None), class("Isolated/HAMi-core", Some("HAMi-core"))].into()
}

/// The same node with an isolation provider.
pub fn provided(mut node: NodeRecord) -> NodeRecord {
    node.gpus.classes = vec![ISOLATED];
    node
}

/// The same node with its cards in slices: large ones by MIG into two kinds, others into four turns.
pub fn sliced(mut node: NodeRecord) -> NodeRecord {
    let cards = std::mem::take(&mut node.gpus.cards);
    let count = u32::try_from(cards.len()).unwrap_or(u32::MAX);
    let memory = cards.first().copied().flatten();
    node.gpus.usable = 0;
    if count == 8 {
        node.gpus.pools = vec![Pool::of(SMALL, 3 * count), Pool::of(LARGE, count)];
    } else if count > 0 {
        let by = Division::TimeSlices;
        let each = memory.map(|memory| Bytes(memory.0 / 4));
        node.gpus.pools = vec![Pool {
            by: Some(by),
            each,
            cards: count,
            replicas: 4,
            ..Pool::of(Device::Replica, 4 * count)
        }];
        let into = [(Device::Replica, 4)].into_iter().collect();
        node.gpus.divided = vec![DividedCard { memory, by, into }; cards.len()];
    }
    node
}

const SMALL: Device = Device::Slice(profile(1, 10));
const LARGE: Device = Device::Slice(profile(3, 40));

const fn profile(slices: u8, gb: u16) -> Profile {
    Profile { slices, gb, instances: None, engines: Engines::Usual }
}

/// The same pod, with slices for what it asks of cards.
pub fn of_slices(mut spec: PodSpec) -> PodSpec {
    let (whole, shares) = (spec.request.whole_cards(), spec.request.is_share());
    let each = match (whole, shares) {
        (0, false) => return spec,
        (0, true) if (spec.cpu.0 / 1000).is_multiple_of(2) => Device::Replica,
        (0, true) => SMALL,
        _ => LARGE,
    };
    spec.request = Request::none().and(spec.request.cards(), Each::Device(each));
    spec
}

/// The same pod, isolated if it asks for a share.
pub fn isolated(mut spec: PodSpec) -> PodSpec {
    if let Some(part) = spec.request.part() {
        spec.request = Request::share(spec.request.cards(), Part { class: ISOLATED, ..part });
    }
    spec
}

/// One of the pod shapes: shares, whole GPUs and CPU pods, some bound to a model or a zone.
pub fn spec(dice: &mut Dice) -> PodSpec {
    let request = match dice.below(20) {
        0..8 => fraction(dice.below(9) + 1),
        8..12 => memory((dice.below(14) + 1) * 1000),
        12..15 => Request::whole(1),
        15 => Request::whole(2),
        16 => Request::whole(4),
        17 => Request::whole(8),
        _ => Request::none(),
    };
    let gpus = u64::from(request.whole_cards().max(1));
    let mut rules = Rules::default();
    match dice.below(8) {
        0 if !request.is_none() => {
            let model = MODELS[dice.index(4)].0;
            rules.selector.push(("nvidia.com/gpu.product".into(), model.into()));
        }
        1 => rules.selector.push(("topology.kubernetes.io/zone".into(), "b".into())),
        2 => rules.tolerations.push(Toleration {
            key: Some("reserved".into()),
            value: None,
            effect: None,
        }),
        _ => {}
    }
    PodSpec {
        cpu: MilliCpu((dice.below(16) + 1) * 250 * gpus),
        memory: Bytes((dice.below(8) + 1) * GIB * gpus),
        request,
        rules: rules.into(),
        ..PodSpec::default()
    }
}

fn fraction(tenths: u64) -> Request {
    let fraction = Fraction::parse(&format!("0.{tenths}"));
    fraction.map_or(Request::none(), |f| Request::share(1, Part::of(Portion::Fraction(f))))
}

fn memory(mib: u64) -> Request {
    Request::share(1, Part::of(Portion::Memory(Bytes::from_mib(mib))))
}

/// A pod that waits.
pub fn pod(i: usize, spec: PodSpec) -> PodRecord {
    PodRecord {
        key: ObjectKey::new("bench", &format!("pod-{i:08}")),
        uid: Box::default(),
        priority: 0,
        created: i as i64,
        spec,
        ..PodRecord::default()
    }
}
