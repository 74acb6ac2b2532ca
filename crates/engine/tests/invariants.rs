//! What must hold after every event and pass, over long random sequences.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;
use proptest::prelude::{
    Just, ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::strategy::Strategy as _;

#[derive(Clone, Debug)]
enum Step {
    Node(u8, u8, u8),
    NodeGone(u8),
    Pod(u8, u8, i32),
    PodGone(u8),
    Pass(usize),
    Configure(bool, bool),
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u8..12, 0u8..6, 0u8..5).prop_map(|(a, b, c)| Step::Node(a, b, c)),
        1 => (0u8..12).prop_map(Step::NodeGone),
        12 => (0u8..60, 0u8..24, -1i32..2).prop_map(|(a, b, c)| Step::Pod(a, b, c)),
        6 => (0u8..60).prop_map(Step::PodGone),
        6 => prop_oneof![Just(1usize), Just(3), Just(usize::MAX)].prop_map(Step::Pass),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(a, b)| Step::Configure(a, b)),
    ];
    prop::collection::vec(step, 1..200)
}

const HAND_OFF: Option<Opening> = Some(Opening { cpu: MilliCpu(20_000), memory: Bytes(GIB) });

/// A scheduler for clusters where each shared card costs a good part of a node.
fn new() -> Scheduler {
    Scheduler::new(Config { hand_off: HAND_OFF, ..Config::default() })
}

fn node_record(name: u8, gpus: u8, facts: u8) -> NodeRecord {
    let gpus = match gpus {
        0 => Gpus::none(),
        1 => Gpus::replicas(3),
        2 => Gpus::cards(2, 1, Some(Bytes(15 * GIB))),
        3 => Gpus::cards(2, 2, None),
        4 => cards(4, 40),
        _ => cards(8, 80),
    };
    let mut record = node(&format!("n{name:02}"), gpus);
    record.extended = vec![("rdma/nic".into(), u64::from(facts))];
    let taint = |effect| vec![Taint { key: "t".into(), value: "".into(), effect }];
    match facts {
        1 => record.facts.labels = vec![("pool".into(), "ml".into())],
        2 => record.facts.taints = taint(Effect::NoSchedule),
        3 => record.facts.taints = taint(Effect::PreferNoSchedule),
        4 => record.facts.unschedulable = true,
        _ => {}
    }
    record
}

fn spec(kind: u8) -> PodSpec {
    let mut spec = match kind % 12 {
        0 => fraction("0.5"),
        1 => fraction("0.3333333333333333333"),
        2 => fractions("0.25", 2),
        3 => memory(4_000),
        4 => memory(30_000),
        5 => whole(1),
        6 => whole(4),
        7 => cpu(1_500),
        8 => cpu(60_000),
        9 => PodSpec { extended: vec![("rdma/nic".into(), 2)], ..cpu(10) },
        10 => PodSpec { strategy: Some(Strategy::Spread), ..fraction("0.1") },
        _ => fraction("0.9"),
    };
    let rules = std::sync::Arc::make_mut(&mut spec.rules);
    match kind / 12 {
        0 => {}
        _ if kind.is_multiple_of(3) => rules.selector.push(("pool".into(), "ml".into())),
        _ if kind % 3 == 1 => {
            rules.tolerations.push(Toleration { key: None, value: None, effect: None });
        }
        _ => rules.node_name = Some(format!("n{:02}", kind % 12).into()),
    }
    spec
}

fn apply(scheduler: &mut Scheduler, step: &Step) -> Plan {
    let name = |n: &u8| format!("p{n:02}");
    match step {
        Step::Node(n, gpus, facts) => {
            scheduler.apply(Event::Node(Box::new(node_record(*n, *gpus, *facts)))).unwrap();
        }
        Step::NodeGone(n) => scheduler.apply(Event::NodeGone(format!("n{n:02}"))).unwrap(),
        Step::Pod(n, kind, priority) => {
            let held = scheduler.holding(&ObjectKey::new("ml", &name(n))).is_some();
            let record = PodRecord { priority: *priority, ..pod(&name(n), spec(*kind)) };
            if !held {
                scheduler.apply(Event::Pod(Box::new(record))).unwrap();
            }
        }
        Step::PodGone(n) => gone(scheduler, &name(n)),
        Step::Pass(limit) => return scheduler.pass(*limit),
        Step::Configure(node, card) => {
            let by = |spread| if spread { Strategy::Spread } else { Strategy::Binpack };
            let config = Config {
                node: by(*node),
                card: by(*card),
                hand_off: HAND_OFF,
                ..Config::default()
            };
            scheduler.apply(Event::Settings(config)).unwrap();
        }
    }
    Plan::default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// The search with its shapes, rankings and journal decides what a plain scan decides.
    #[test]
    fn every_decision_is_that_of_a_plain_scan(steps in steps()) {
        let mut scheduler = new();
        let mut specs = std::collections::BTreeMap::new();
        for step in &steps {
            if let Step::Pod(n, kind, _) = step {
                let key = ObjectKey::new("ml", &format!("p{n:02}"));
                if scheduler.holding(&key).is_none() {
                    specs.insert(key, spec(*kind));
                }
            }
            if !matches!(step, Step::Pass(_)) {
                apply(&mut scheduler, step);
                continue;
            }
            // One decision at a time, each beside the scan of the cluster just before it.
            loop {
                let before = scheduler.clone();
                let plan = scheduler.pass(1);
                if plan.units.is_empty() {
                    break;
                }
                for effect in plan.effects() {
                    match effect {
                        PlanEffect::Open { node, card } => {
                            let id = before.ledger().find(node).unwrap();
                            let cards = before.ledger().node(id).unwrap().cards();
                            prop_assert_eq!(cards[*card as usize].mode(), &Mode::Free);
                        }
                        PlanEffect::Bind { pod, placement, .. } => {
                            prop_assert_eq!(before.scan(&common::pod("x", specs[pod].clone())), Some(placement.clone()));
                        }
                        PlanEffect::Report { pod } => {
                            prop_assert!(scheduler.scan(&common::pod("x", specs[pod].clone())).is_none());
                        }
                    }
                }
            }
            // Nothing that fits is left waiting, reported or not.
            for (key, spec) in &specs {
                if scheduler.shape_of(key).is_some() {
                    prop_assert!(scheduler.scan(&pod("x", spec.clone())).is_none(), "{} fits but waits", key);
                    prop_assert!(!waiting(&scheduler, key.name()).refusals.is_empty());
                }
            }
        }
    }

    /// When the holders that the nearest fit names have ended, the pod fits, and not sooner.
    #[test]
    fn the_nearest_fit_keeps_its_promise(steps in steps()) {
        let mut scheduler = new();
        for step in &steps {
            apply(&mut scheduler, step);
        }
        scheduler.pass(usize::MAX);
        for kind in 0..24 {
            let name = format!("q{kind:02}");
            let mut with = scheduler.clone();
            add(&mut with, &name, spec(kind));
            with.pass(usize::MAX);
            let Some(Standing::Waiting(why)) = with.standing(&ObjectKey::new("ml", &name)) else {
                continue;
            };
            let Some(near) = why.nearest else { continue };
            let (near, holders) = with.who_must_end(&ObjectKey::new("ml", &name), near);
            if holders.is_empty() {
                continue;
            }
            prop_assert_eq!(with.pass(usize::MAX), Plan::default(), "a trial wakes nobody");
            for (needed, _) in &holders {
                let mut kept = with.clone();
                for (holder, _) in holders.iter().filter(|(holder, _)| holder != needed) {
                    kept.apply(Event::PodGone(holder.clone())).unwrap();
                }
                let needless = kept.scan(&pod("x", spec(kind)));
                prop_assert!(needless.is_none(), "{} need not end: {:?}", needed, near);
            }
            for (holder, _) in &holders {
                with.apply(Event::PodGone(holder.clone())).unwrap();
            }
            prop_assert!(with.scan(&pod("x", spec(kind))).is_some(), "{} still waits: {:?}", name, near);
        }
    }

    /// Cards are never over-packed, whatever comes in whatever order.
    #[test]
    fn no_card_ever_exceeds_its_bytes(steps in steps()) {
        let mut scheduler = new();
        for step in &steps {
            apply(&mut scheduler, step);
            for node in scheduler.ledger().nodes() {
                for card in node.cards() {
                    prop_assert!(card.used() <= card.capacity());
                }
            }
        }
    }

    /// The same events give the same plans; a copy decides what the original decides.
    #[test]
    fn replay_and_rehearsal_on_a_copy_give_the_same_plans(steps in steps(), cut in 0usize..200) {
        let mut live = Scheduler::taped(Config { hand_off: HAND_OFF, ..Config::default() });
        let mut again = new();
        let mut copy = None;
        for (i, step) in steps.iter().enumerate() {
            if i == cut {
                copy = Some(live.clone());
            }
            let plan = apply(&mut live, step);
            prop_assert_eq!(&plan, &apply(&mut again, step));
            if let Some(copy) = &mut copy {
                prop_assert_eq!(&plan, &apply(copy, step));
            }
        }
        let replayed = live.tape().unwrap().replay().unwrap();
        prop_assert!(replayed.ledger() == live.ledger());
    }

    /// A fresh scheduler that is told only what is there now decides as one that saw it all.
    #[test]
    fn a_restart_decides_what_the_running_scheduler_decides(steps in steps(), kind in 0u8..24) {
        let mut live = new();
        let mut nodes = std::collections::BTreeMap::new();
        let mut specs = std::collections::BTreeMap::new();
        for step in &steps {
            match step {
                Step::Configure(..) => continue,
                // A node that went and came back, or changed under its pods, has a past that a
                // restart cannot know: held cards keep their size.
                Step::NodeGone(_) => continue,
                Step::Node(n, gpus, facts) => {
                    let id = live.ledger().find(&format!("n{n:02}"));
                    let node = id.and_then(|id| live.ledger().node(id));
                    if node.is_some_and(|node| node.taken().2 > 0) {
                        continue;
                    }
                    nodes.insert(*n, node_record(*n, *gpus, *facts));
                }
                Step::Pod(n, kind, _) => {
                    let key = ObjectKey::new("ml", &format!("p{n:02}"));
                    if live.holding(&key).is_none() {
                        specs.insert(key, spec(*kind));
                    }
                }
                _ => {}
            }
            apply(&mut live, step);
        }
        let mut restarted = new();
        for node in nodes.into_values().rev() {
            restarted.apply(Event::Node(Box::new(node))).unwrap();
        }
        for (key, holding) in live.holders() {
            let node = live.ledger().node(holding.node).unwrap().name().to_string();
            let cards = BoundCards::Recorded(holding.cards.to_vec());
            let bound = Some(Bound::new(node, cards));
            let record = PodRecord { bound, ..pod(key.name(), specs[key].clone()) };
            restarted.apply(Event::Pod(Box::new(record))).unwrap();
        }
        prop_assert_eq!(live.scan(&pod("x", spec(kind))), restarted.scan(&pod("x", spec(kind))));
        add(&mut restarted, "zz", spec(kind));
        let placed = restarted.pass(usize::MAX).into_effects().find_map(|e| match e {
            PlanEffect::Bind { placement, .. } => Some(placement),
            PlanEffect::Open { .. } | PlanEffect::Report { .. } => None,
        });
        prop_assert_eq!(live.scan(&pod("x", spec(kind))), placed);
    }
}
