use super::*;
use crate::config::Config;
use crate::event::{Event, Plan};
use crate::labels::Selector;
use crate::others::VolumeUse;
use crate::record::{Bound, BoundCards, NodeRecord, ObjectKey, PodRecord, PodSpec};
use crate::relations::{HostPort, PodSelector, PodTerm, Protocol, Relations};
use crate::rules::{NodeFacts, Requirement, Test};
use divvy_ledger::{Bytes, CardShare, Fraction, Gpus, MilliCpu, Opening, Part, Portion, Request};
use proptest::prelude::*;
use std::sync::Arc;

fn node(name: &str) -> Event {
    let labels = vec![("zone".into(), "a".into())];
    Event::Node(Box::new(NodeRecord {
        name: name.to_owned(),
        facts: NodeFacts { labels, ..NodeFacts::default() },
        cpu: MilliCpu(8_000),
        memory: Bytes(1 << 36),
        ephemeral: Bytes(1 << 36),
        pods: 20,
        gpus: Gpus::cards(2, 2, Some(Bytes(80 << 30))),
        ..NodeRecord::default()
    }))
}

/// Pods of several kinds: shares, whole cards, ports, a term about others, a volume.
fn pod(number: u8, kind: u8) -> PodRecord {
    let share = |text| Part::of(Portion::Fraction(Fraction::parse(text).unwrap()));
    let mut relations = Relations::default();
    match kind % 5 {
        0 => {}
        1 => relations.ports.push(HostPort { protocol: Protocol::Tcp, ip: None, port: 8_000 }),
        2 => {
            let test = Test::In(vec!["x".into()].into());
            let labels = Selector::all([Requirement { key: "app".into(), test }]);
            let pods = PodSelector::new(["ml"], Selector::NOTHING, labels);
            relations.anti_affinity.push(PodTerm { pods, topology: "zone".into() });
        }
        3 => {
            let claim = ObjectKey::new("ml", "data");
            relations.volumes.push(VolumeUse::Claim(claim));
        }
        _ => {}
    }
    let request = match kind % 4 {
        0 => Request::share(1, share("0.5")),
        1 => Request::share(2, share("0.3")),
        2 => Request::whole(1),
        _ => Request::none(),
    };
    // Its claim is not known: it runs all the same.
    let bound = (kind % 5 == 3).then(|| Bound::new("a", BoundCards::Choose));
    let app = if kind.is_multiple_of(2) { "x" } else { "y" };
    PodRecord {
        key: ObjectKey::new("ml", &format!("p{number}")),
        created: number.into(),
        spec: PodSpec {
            cpu: MilliCpu(500),
            request,
            labels: Arc::new([("app", app)].into_iter().collect()),
            relations: (relations != Relations::default()).then(|| Arc::new(relations)),
            ..PodSpec::default()
        },
        bound,
        ..PodRecord::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a trial does, once it is over everything is as it was: ledger, census, volumes, what
    /// is decided next; and nobody is woken.
    #[test]
    fn an_undone_trial_leaves_everything_as_it_was(
        kinds in prop::collection::vec(0u8..20, 1..24),
        ends in prop::collection::vec((0u32..24, any::<bool>()), 1..12),
    ) {
        let opening = Opening { cpu: MilliCpu(1), memory: Bytes(1) };
        let mut scheduler =
            Scheduler::new(Config { hand_off: Some(opening), ..Config::default() });
        for name in ["a", "b"] {
            scheduler.apply(node(name)).unwrap();
        }
        for (number, kind) in (0u8..).zip(&kinds) {
            // What cannot be entered as it is told is counted without cards.
            drop(scheduler.apply(Event::Pod(Box::new(pod(number, *kind)))));
        }
        scheduler.pass(usize::MAX);
        let before = scheduler.world().clone();
        let mut trial = Trial::new(&mut scheduler);
        for (pod, back) in ends {
            let mark = trial.mark();
            trial.end(PodId(pod));
            prop_assert_eq!(trial.scheduler.ledger().audit(), Ok(()));
            if back {
                trial.undo_to(mark);
            }
        }
        drop(trial);
        prop_assert!(*scheduler.ledger() == before.ledger, "the ledger differs");
        prop_assert!(scheduler.world().others.is_as(&before.others), "others differ");
        let searches = scheduler.searches();
        prop_assert_eq!(scheduler.pass(usize::MAX), Plan::default());
        prop_assert_eq!(scheduler.searches(), searches, "nobody is woken");
    }
}

#[test]
fn what_is_looked_at_inside_a_trial_sees_its_changes() {
    let mut scheduler = Scheduler::new(Config::default());
    scheduler.apply(node("a")).unwrap();
    for number in 0..3 {
        scheduler.apply(Event::Pod(Box::new(pod(number, 10)))).unwrap();
    }
    scheduler.pass(usize::MAX);
    let waits = ObjectKey::new("ml", "p2");
    let shape = scheduler.shape_of(&waits).expect("two cards are taken");
    let (first, a) = (scheduler.id(&ObjectKey::new("ml", "p0")), scheduler.ledger().find("a"));
    let (first, a) = (first.unwrap(), a.unwrap());
    let mut trial = Trial::new(&mut scheduler);
    assert!(!trial.fits_on(shape, a));
    trial.end(first);
    assert!(trial.fits_on(shape, a));
    trial.undo_to(0);
    assert!(!trial.fits_on(shape, a));
}

#[test]
fn with_its_last_share_the_keeper_of_a_card_ends_too() {
    let opening = Opening { cpu: MilliCpu(1), memory: Bytes(1) };
    let mut scheduler = Scheduler::new(Config { hand_off: Some(opening), ..Config::default() });
    scheduler.apply(node("a")).unwrap();
    let on_first = |bytes| BoundCards::Recorded(vec![CardShare { index: 0, bytes: Bytes(bytes) }]);
    for number in 0..2 {
        let bound = Some(Bound::new("a", on_first(40 << 30)));
        let record = PodRecord { bound, ..pod(number, 0) };
        scheduler.apply(Event::Pod(Box::new(record))).unwrap();
    }
    let mut keeper = pod(2, 0);
    (keeper.spec.request, keeper.spec.holder) = (Request::none(), Holder::Keeper);
    keeper.bound = Some(Bound::new("a", BoundCards::Kept(0)));
    scheduler.apply(Event::Pod(Box::new(keeper))).unwrap();
    let id = |n: u8| scheduler.id(&ObjectKey::new("ml", &format!("p{n}"))).unwrap();
    let (first, second) = (id(0), id(1));
    let mut trial = Trial::new(&mut scheduler);
    let room = |trial: &Trial<'_>| {
        let room = trial.scheduler.ledger().nodes()[0].room();
        (room.whole, room.cpu.0)
    };
    assert_eq!(room(&trial), (1, 6_500));
    trial.end(first);
    assert_eq!(room(&trial), (1, 7_000));
    trial.end(second);
    assert_eq!(room(&trial), (2, 8_000));
}
