//! Small clusters for the tests of this crate.

use divvy_engine::{
    Bound, BoundCards, ClassName, Config, Effect, Event, NodeFacts, NodeRecord, ObjectKey,
    PodRecord, PodSpec, Scheduler, Taint,
};
use divvy_ledger::{
    Bytes, CardShare, Class, Device, DeviceOn, DividedCard, Division, Each, Fraction, Gpus,
    MilliCpu, Part, Pool, Portion, Profile, Request,
};

/// A cluster and the pods that were added to it, in order.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) scheduler: Scheduler,
    pub(crate) pods: Vec<ObjectKey>,
}

/// A node of `count` cards of `gib` GiB each.
pub(crate) fn node(name: &str, model: &str, count: u32, gib: u64) -> NodeRecord {
    NodeRecord {
        model: Some(model.to_owned()),
        gpus: Gpus::cards(count, count, Some(Bytes::from_mib(gib * 1024))),
        ..cpu_node(name)
    }
}

pub(crate) fn cpu_node(name: &str) -> NodeRecord {
    NodeRecord {
        name: name.to_owned(),
        cpu: MilliCpu(64_000),
        memory: Bytes::from_mib(256 * 1024),
        ephemeral: Bytes::from_mib(1024 * 1024),
        pods: 110,
        ..NodeRecord::default()
    }
}

pub(crate) fn tainted(record: NodeRecord, key: &str, value: &str) -> NodeRecord {
    let taint = Taint { key: key.into(), value: value.into(), effect: Effect::NoSchedule };
    NodeRecord { facts: NodeFacts { taints: vec![taint], ..record.facts }, ..record }
}

pub(crate) fn whole(n: u32) -> Request {
    Request::whole(n)
}

pub(crate) fn fraction(text: &str, cards: u32) -> Request {
    Request::share(cards, Part::of(Portion::Fraction(Fraction::parse(text).unwrap())))
}

pub(crate) fn mib(mib: u64, cards: u32) -> Request {
    Request::share(cards, Part::of(Portion::Memory(Bytes::from_mib(mib))))
}

pub(crate) fn slice(profile: &str) -> Device {
    Device::Slice(Profile::parse(profile).unwrap())
}

pub(crate) fn devices(device: Device, count: u32) -> Request {
    Request::none().and(count, Each::Device(device))
}

pub(crate) fn pod(key: &str, request: Request) -> PodRecord {
    let (namespace, name) = key.split_once('/').unwrap();
    PodRecord {
        key: ObjectKey::new(namespace, name),
        uid: Box::default(),
        priority: 0,
        created: 0,
        spec: PodSpec {
            cpu: MilliCpu(1_500),
            memory: Bytes::from_mib(4 * 1024),
            request,
            ..PodSpec::default()
        },
        ..PodRecord::default()
    }
}

pub(crate) fn bound(record: PodRecord, node: &str) -> PodRecord {
    let cards = BoundCards::Choose;
    PodRecord { bound: Some(Bound::new(node, cards)), ..record }
}

/// A pod that runs on a node with so much of the given card.
pub(crate) fn recorded(record: PodRecord, node: &str, index: u32, mib: u64) -> PodRecord {
    let share = CardShare { index, bytes: Bytes::from_mib(mib) };
    let cards = BoundCards::Recorded(vec![share]);
    PodRecord { bound: Some(Bound::new(node, cards)), ..record }
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self { scheduler: Scheduler::new(Config::default()), pods: Vec::new() }
    }

    pub(crate) fn with(mut self, record: NodeRecord) -> Self {
        self.scheduler.apply(Event::Node(Box::new(record))).unwrap();
        self
    }

    /// Adds a pod and lets the scheduler place it before the next comes.
    pub(crate) fn add(mut self, record: PodRecord) -> Self {
        self.pods.push(record.key.clone());
        let _ = self.scheduler.apply(Event::Pod(Box::new(record)));
        self.scheduler.pass(usize::MAX);
        self
    }

    pub(crate) fn ask(self, key: &str, request: Request) -> Self {
        self.add(pod(key, request))
    }

    /// A node of three cards: shares of two classes are on two of them.
    pub(crate) fn classed() -> Self {
        let class = |name: &str| ClassName { name: name.into(), provider: None };
        let gpus = Gpus { classes: vec![Class(1)], ..Gpus::cards(3, 3, None) };
        let mut cluster = Self::new().with(NodeRecord { gpus, ..node("a-1", "Tesla-T4", 3, 15) });
        let names = [class("Shared"), class("Isolated/HAMi-core")];
        cluster.scheduler.apply(Event::Classes(names.into())).unwrap();
        let quarter = fraction("0.25", 1).part().unwrap();
        let isolated = Request::share(1, Part { class: Class(1), ..quarter });
        cluster.ask("ml/a", fraction("0.5", 1)).ask("ml/b", isolated)
    }

    /// Two cards of 40 GiB in four time slices each, of which the kubelet tells one pod's, and a node
    /// with MIG slices of two kinds beside a whole card.
    pub(crate) fn sliced() -> Self {
        let gib = |n: u64| Some(Bytes::from_mib(n * 1024));
        let by = Division::TimeSlices;
        let into = [(Device::Replica, 4)].into_iter().collect();
        let divided = vec![DividedCard { memory: gib(40), by, into }; 2];
        let pool = Pool {
            by: Some(by),
            each: gib(10),
            cards: 2,
            replicas: 4,
            ..Pool::of(Device::Replica, 8)
        };
        let turns = Gpus { pools: vec![pool], divided, ..Gpus::none() };
        let pools = vec![Pool::of(slice("1g.10gb"), 7), Pool::of(slice("3g.40gb"), 2)];
        let mixed = Gpus { pools, ..Gpus::cards(1, 1, gib(80)) };
        let record = |name, gpus| NodeRecord { gpus, ..node(name, "NVIDIA-A100-SXM4-80GB", 0, 0) };
        let mut two = bound(pod("ml/two", devices(Device::Replica, 2)), "turns-1");
        let told = |uuid: &str| DeviceOn { uuid: uuid.into(), device: Device::Replica, count: 1 };
        if let Some(bound) = &mut two.bound {
            bound.devices = vec![told("GPU-1"), told("GPU-2")];
        }
        Self::new()
            .with(record("mixed-1", mixed))
            .with(record("turns-1", turns))
            .add(two)
            .ask("ml/one", devices(slice("1g.10gb"), 1))
            .ask("ml/three", devices(slice("1g.10gb"), 3))
            .ask("ml/big", devices(slice("3g.40gb"), 1))
    }

    /// Two pods claim 60 GiB each of the same card of 80.
    pub(crate) fn overbooked() -> Self {
        Self::new()
            .with(node("a-1", "x", 2, 80))
            .add(recorded(pod("ml/first", mib(61_440, 1)), "a-1", 0, 61_440))
            .add(recorded(pod("ml/second", mib(61_440, 1)), "a-1", 0, 61_440))
    }

    /// Of two cards that one pod claims, the first has too little free.
    pub(crate) fn claimed() -> Self {
        let share = |index| CardShare { index, bytes: Bytes::from_mib(40_960) };
        let cards = BoundCards::Recorded(vec![share(0), share(1)]);
        let two = pod("ml/two", mib(40_960, 2));
        Self::new()
            .with(node("a-1", "x", 2, 80))
            .add(recorded(pod("ml/first", mib(61_440, 1)), "a-1", 0, 61_440))
            .add(PodRecord { bound: Some(Bound::new("a-1", cards)), ..two })
    }

    /// The cluster of the README's first example.
    pub(crate) fn example() -> Self {
        Self::new()
            .with(node("a100-1", "NVIDIA-A100-SXM4-80GB", 8, 80))
            .with(node("a100-2", "NVIDIA-A100-SXM4-80GB", 8, 80))
            .with(node("t4-1", "Tesla-T4", 2, 15))
            .with(cpu_node("cpu-1"))
            .ask("ml/train-7", whole(4))
            .ask("ml/notebook-a", fraction("0.25", 1))
            .ask("ml/notebook-b", fraction("0.25", 1))
            .ask("ml/triton-0", mib(40_000, 1))
            .ask("ml/web", Request::none())
            .ask("ml/llm-xl", mib(98_304, 1))
    }
}
