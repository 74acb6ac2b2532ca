//! Random events with relations of every kind.

use super::model::{SpreadDef, TermDef};
use divvy_engine::*;
use proptest::prelude::{Just, any, prop, prop_oneof};
use proptest::strategy::Strategy as _;

#[derive(Clone, Debug)]
pub enum Step {
    /// Which, its zone, its rack, and taint or pool.
    Node(u8, Option<u8>, Option<u8>, u8),
    NodeGone(u8),
    Pod(Box<PodDef>),
    PodGone(u8),
    /// A pod gets other labels, or is about to go.
    Relabel(u8, LabelsDef, bool),
    Namespace(u8, Option<bool>),
    Pass,
}

/// `app` and `tier`.
pub type LabelsDef = (Option<u8>, Option<u8>);

#[derive(Clone, Debug)]
pub struct PodDef {
    pub number: u8,
    pub priority: i32,
    pub cpu: u64,
    pub labels: LabelsDef,
    pub pool: bool,
    pub tolerates: bool,
    pub nominated: Option<u8>,
    pub ports: Vec<HostPort>,
    pub affinity: Vec<TermDef>,
    pub anti_affinity: Vec<TermDef>,
    pub preferred: Vec<(i32, TermDef)>,
    pub spread: Vec<SpreadDef>,
}

fn requirement() -> impl proptest::strategy::Strategy<Value = Requirement> + Clone {
    let value = || (0u8..2).prop_map(|v| Box::<str>::from(v.to_string()));
    let test = prop_oneof![
        4 => value().prop_map(|v| Test::In(vec![v].into())),
        1 => Just(Test::In(vec!["0".into(), "1".into()].into())),
        1 => value().prop_map(|v| Test::NotIn(vec![v].into())),
        1 => Just(Test::Exists),
        1 => Just(Test::DoesNotExist),
    ];
    (prop_oneof![Just("app"), Just("tier")], test)
        .prop_map(|(key, test)| Requirement { key: key.into(), test })
}

fn selector() -> impl proptest::strategy::Strategy<Value = Selector> + Clone {
    prop_oneof![
        1 => Just(Selector::NOTHING),
        8 => prop::collection::vec(requirement(), 0..3).prop_map(Selector::all),
    ]
}

fn topology() -> impl proptest::strategy::Strategy<Value = &'static str> + Clone {
    prop_oneof![3 => Just("zone"), 2 => Just("host"), 1 => Just("rack")]
}

fn term() -> impl proptest::strategy::Strategy<Value = TermDef> + Clone {
    let team = Requirement { key: "team".into(), test: Test::In(vec!["x".into()].into()) };
    let no_team = Requirement { key: "team".into(), test: Test::DoesNotExist };
    let namespaces = prop_oneof![
        4 => Just((None, None)),
        1 => (0u8..3).prop_map(|n| (Some(vec![n]), None)),
        1 => Just((None, Some(Selector::all([team])))),
        1 => Just((Some(vec![1]), Some(Selector::all([no_team])))),
        1 => Just((None, Some(Selector::all([])))),
    ];
    (namespaces, selector(), topology()).prop_map(|((namespaces, selector), pods, topology)| {
        TermDef { namespaces, selector, pods, topology }
    })
}

fn spread() -> impl proptest::strategy::Strategy<Value = SpreadDef> + Clone {
    (topology(), 1u32..3, any::<bool>(), selector(), 1u32..4, any::<bool>(), any::<bool>())
        .prop_map(
            |(
                topology,
                max_skew,
                required,
                selector,
                min_domains,
                honor_affinity,
                honor_taints,
            )| {
                let topology = topology.into();
                let min_domains = if required { min_domains } else { 1 };
                Spread {
                    topology,
                    max_skew,
                    required,
                    selector,
                    min_domains,
                    honor_affinity,
                    honor_taints,
                }
            },
        )
}

fn port() -> impl proptest::strategy::Strategy<Value = HostPort> {
    let ip = prop_oneof![Just(None), Just(Some("10.0.0.1".into())), Just(Some("10.0.0.2".into()))];
    let protocol = prop_oneof![3 => Just(Protocol::Tcp), 1 => Just(Protocol::Udp)];
    (80u16..82, protocol, ip).prop_map(|(port, protocol, ip)| HostPort { port, protocol, ip })
}

pub fn labels() -> impl proptest::strategy::Strategy<Value = LabelsDef> {
    (prop::option::weighted(0.8, 0u8..2), prop::option::weighted(0.4, 0u8..2))
}

fn few<S: proptest::strategy::Strategy + Clone + 'static>(
    one: S,
) -> impl proptest::strategy::Strategy<Value = Vec<S::Value>>
where
    S::Value: 'static,
{
    prop_oneof![
        3 => Just(()).prop_map(|()| Vec::new()),
        2 => prop::collection::vec(one.clone(), 1),
        1 => prop::collection::vec(one, 2),
    ]
}

fn pod() -> impl proptest::strategy::Strategy<Value = PodDef> {
    let plain = (0u8..24, -1i32..2, 1u64..4, labels(), prop::bool::weighted(0.2), any::<bool>());
    let nominated = prop::option::weighted(0.1, 0u8..6);
    let relations = (
        prop_oneof![4 => Just(vec![]).boxed(), 1 => prop::collection::vec(port(), 1..3).boxed()],
        few(term()),
        few(term()),
        few((-3i32..4, term())),
        few(spread()),
    );
    let relations = prop_oneof![
        1 => Just((vec![], vec![], vec![], vec![], vec![])).boxed(),
        3 => relations.boxed(),
    ];
    (plain, nominated, relations).prop_map(|(plain, nominated, relations)| {
        let (number, priority, cpu, labels, pool, tolerates) = plain;
        let (ports, affinity, anti_affinity, preferred, spread) = relations;
        PodDef {
            number,
            priority,
            cpu,
            labels,
            pool,
            tolerates,
            nominated,
            ports,
            affinity,
            anti_affinity,
            preferred,
            spread,
        }
    })
}

pub fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    let domain = || prop::option::weighted(0.85, 0u8..3);
    let step = prop_oneof![
        4 => (0u8..6, domain(), domain(), 0u8..4).prop_map(|(n, z, r, k)| Step::Node(n, z, r, k)),
        1 => (0u8..6).prop_map(Step::NodeGone),
        12 => pod().prop_map(|pod| Step::Pod(Box::new(pod))),
        5 => (0u8..24).prop_map(Step::PodGone),
        3 => (0u8..24, labels(), prop::bool::weighted(0.3)).prop_map(|(n, l, t)| Step::Relabel(n, l, t)),
        2 => (0u8..3, prop::option::of(any::<bool>())).prop_map(|(n, t)| Step::Namespace(n, t)),
        6 => Just(Step::Pass),
    ];
    prop::collection::vec(step, 1..80)
}
