use super::*;
use crate::config::Config;
use crate::diagnosis::Standing;
use crate::event::{Event, Plan, PlanEffect};
use crate::labels::{Labels, Selector};
use crate::others::{
    AccessModes, ClaimRecord, ClassRecord, StorageEvent, Terms, VolumeRecord, VolumeUse,
};
use crate::record::{Bound, BoundCards, NodeRecord, ObjectKey, PodRecord, PodSpec};
use crate::relations::{HostPort, PodSelector, PodTerm, Protocol, Relations};
use crate::rules::{NodeFacts, Requirement, Test};
use divvy_ledger::{
    Bytes, CardShare, Class, Fraction, Gpus, MilliCpu, Opening, Part, Portion, Request,
};
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
        gpus: Gpus { classes: vec![Class(1)], ..Gpus::cards(2, 2, Some(Bytes(80 << 30))) },
        ..NodeRecord::default()
    }))
}

/// Pods of several kinds: shares of two classes, whole cards, ports, a term about others, a volume.
fn pod(number: u8, kind: u8) -> PodRecord {
    let share = |text| {
        let part = Part::of(Portion::Fraction(Fraction::parse(text).unwrap()));
        Part { class: Class(u16::from(kind >= 12)), ..part }
    };
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
    // If its claim is not known, it runs all the same.
    let is_bound = kind % 5 == 3 && number.is_multiple_of(2);
    let bound = is_bound.then(|| Bound::new("a", BoundCards::Choose));
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

/// One thing to do in a trial.
#[derive(Clone, Debug)]
enum Deed {
    End(u32),
    /// One more pod of this kind gets a place.
    Hold(u8),
    /// All since so many deeds is taken back.
    Back(usize),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        3 => (0u32..40).prop_map(Deed::End),
        4 => (0u8..20).prop_map(Deed::Hold),
        1 => (0usize..6).prop_map(Deed::Back),
    ];
    prop::collection::vec(deed, 1..16)
}

/// What is known of the claim of the pods that have one: nothing, a volume will be made for it, or one
/// is there for it. Of the last kind the claim shows for which node, and then does not any more.
fn storage(kind: u8) -> Vec<StorageEvent> {
    let terms =
        Terms { class: "c".into(), modes: AccessModes::READ_WRITE_MANY, ..Terms::default() };
    let class = ClassRecord {
        name: "c".into(),
        provisioner: (kind % 2 == 1).then(|| "d".into()),
        driver: None,
        in_tree: false,
        waits_for_pod: true,
        topologies: Box::default(),
    };
    let claim = ClaimRecord {
        key: ObjectKey::new("ml", "data"),
        uid: "uid".into(),
        owner: None,
        terms: terms.clone(),
        selector: Selector::all([]),
        volume: None,
        bind_completed: false,
        selected_node: None,
        lost: false,
        deleting: false,
    };
    let volume = VolumeRecord {
        name: "v".into(),
        terms,
        labels: Labels::default(),
        claim: None,
        available: true,
        deleting: false,
        affinity: None,
        migrated: None,
        attached: None,
    };
    match kind {
        0 => Vec::new(),
        1 | 3 => vec![StorageEvent::Class(class.into()), StorageEvent::Claim(claim.into())],
        4 => vec![
            StorageEvent::Claim(
                ClaimRecord { selected_node: Some("a".into()), ..claim.clone() }.into(),
            ),
            StorageEvent::Claim(claim.into()),
        ],
        _ => vec![
            StorageEvent::Class(class.into()),
            StorageEvent::Claim(claim.into()),
            StorageEvent::Volume(volume.into()),
        ],
    }
}

/// Two nodes, what is known of storage, and pods of these kinds as far as they fit.
fn cluster(stored: u8, kinds: &[u8]) -> Scheduler {
    let opening = Opening { cpu: MilliCpu(1), memory: Bytes(1) };
    let mut scheduler = Scheduler::new(Config { hand_off: Some(opening), ..Config::default() });
    for name in ["a", "b"] {
        scheduler.apply(node(name)).unwrap();
    }
    for event in storage(stored) {
        scheduler.apply(Event::Storage(event)).unwrap();
    }
    for (number, kind) in (0u8..).zip(kinds) {
        // What cannot be entered as it is told is counted without cards.
        drop(scheduler.apply(Event::Pod(Box::new(pod(number, *kind)))));
    }
    scheduler.pass(usize::MAX);
    if stored == 3 {
        for event in storage(4) {
            scheduler.apply(Event::Storage(event)).unwrap();
        }
        scheduler.pass(usize::MAX);
    }
    scheduler
}

/// How a pod would stand that is about to come, and who it would be.
fn meet(scheduler: &mut Scheduler, record: &PodRecord) -> (PodState, Identity) {
    let who = scheduler.world.others.identify(record);
    scheduler.reshape_found();
    (scheduler.state_of(record, who), who)
}

/// All that is known of pods, in words.
fn pods(scheduler: &Scheduler) -> String {
    format!("{:?}", scheduler.pods.iter().collect::<Vec<_>>())
}

/// A pod of this kind that is not there yet.
fn another(kind: u8) -> PodRecord {
    PodRecord { bound: None, ..pod(100, kind) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Whatever a trial does, once it is over everything is as it was: ledger, census, volumes, what
    /// is decided next; and nobody is woken.
    #[test]
    fn an_undone_trial_leaves_everything_as_it_was(
        stored in 0u8..4,
        kinds in prop::collection::vec(0u8..20, 1..24),
        deeds in deeds(),
    ) {
        let mut scheduler = cluster(stored, &kinds);
        let records: Vec<PodRecord> = (0..20).map(another).collect();
        let met: Vec<_> = records.iter().map(|record| meet(&mut scheduler, record)).collect();
        scheduler.pass(usize::MAX);
        let before = scheduler.clone();
        let mut trial = Trial::new(&mut scheduler);
        let mut marks = vec![trial.mark()];
        for deed in deeds {
            match deed {
                Deed::End(pod) => trial.end(PodId(pod)),
                Deed::Hold(kind) => {
                    let (record, (state, who)) = (&records[kind as usize], &met[kind as usize]);
                    if let Some(shape) = state.shape() {
                        trial.hold(&Such { record, shape, who: *who });
                    }
                }
                Deed::Back(steps) => {
                    let at = marks.len().saturating_sub(steps + 1);
                    trial.undo_to(marks[at]);
                    marks.truncate(at + 1);
                    continue;
                }
            }
            prop_assert_eq!(trial.scheduler.ledger().audit(), Ok(()));
            marks.push(trial.mark());
        }
        drop(trial);
        prop_assert!(scheduler.ledger() == before.ledger(), "the ledger differs");
        prop_assert!(scheduler.world.others.is_as(&before.world.others), "others differ");
        prop_assert_eq!(pods(&scheduler), pods(&before));
        let searches = scheduler.searches();
        prop_assert_eq!(scheduler.pass(usize::MAX), Plan::default());
        prop_assert_eq!(scheduler.searches(), searches, "nobody is woken");
        // What is decided next: nothing that was found inside of the trial is taken for true.
        let mut before = before;
        let gone = (0..24).map(|number| Event::PodGone(pod(number, 0).key));
        let came = records.into_iter().map(|record| Event::Pod(Box::new(record)));
        for event in gone.chain(came) {
            for cluster in [&mut before, &mut scheduler] {
                cluster.apply(event.clone()).unwrap();
            }
            prop_assert_eq!(scheduler.pass(usize::MAX), before.pass(usize::MAX));
        }
    }

    /// However many more fit of whatever pod, nobody is other than before, nor woken.
    #[test]
    fn a_fill_leaves_everything_as_it_was(
        stored in 0u8..4,
        kinds in prop::collection::vec(0u8..20, 1..24),
        more in 0u8..20,
        gone in prop::collection::vec(0u8..24, 0..6),
    ) {
        let mut scheduler = cluster(stored, &kinds);
        let mut before = scheduler.clone();
        let searches = scheduler.searches();
        scheduler.fill(&another(more), 1000, u64::MAX);
        prop_assert!(scheduler.ledger() == before.ledger(), "the ledger differs");
        prop_assert!(scheduler.world.others.is_as(&before.world.others), "others differ");
        prop_assert_eq!(pods(&scheduler), pods(&before));
        let looked = scheduler.searches();
        prop_assert_eq!(scheduler.pass(usize::MAX), Plan::default());
        prop_assert_eq!(scheduler.searches(), looked, "nobody is woken");
        for number in gone {
            for cluster in [&mut before, &mut scheduler] {
                cluster.apply(Event::PodGone(pod(number, 0).key)).unwrap();
            }
            prop_assert_eq!(scheduler.pass(usize::MAX), before.pass(usize::MAX));
            let more = looked - searches;
            prop_assert_eq!(scheduler.searches(), before.searches() + more, "nor later");
        }
    }

    /// As many more fit, and on the same nodes, as would be placed if they came.
    #[test]
    fn so_many_more_fit_as_would_be_placed(
        stored in 0u8..4,
        kinds in prop::collection::vec(0u8..20, 0..16),
        more in 0u8..20,
    ) {
        let mut scheduler = cluster(stored, &kinds);
        // Those that wait could be helped by those that come.
        for number in 0..24 {
            let key = pod(number, 0).key;
            if scheduler.holding(&key).is_none() {
                scheduler.apply(Event::PodGone(key)).unwrap();
            }
        }
        let fill = scheduler.fill(&another(more), 1000, u64::MAX);
        let count: usize = fill.nodes.iter().map(|(_, count)| count).sum();
        prop_assert!(fill.why.is_some() && count < 50);
        for number in 0..50 {
            let key = ObjectKey::new("ml", &format!("more-{number}"));
            let record = PodRecord { key, ..another(more) };
            scheduler.apply(Event::Pod(Box::new(record))).unwrap();
        }
        let mut nodes: std::collections::BTreeMap<Arc<str>, usize> = Default::default();
        for effect in scheduler.pass(usize::MAX).into_effects() {
            if let PlanEffect::Bind { placement, .. } = effect {
                *nodes.entry(placement.node).or_default() += 1;
            }
        }
        prop_assert_eq!(fill.nodes, nodes.into_iter().collect::<Vec<_>>());
        let left = scheduler.standing(&ObjectKey::new("ml", "more-49"));
        let Some(Standing::Waiting(left)) = left else { panic!("it waits: {left:?}") };
        prop_assert_eq!(fill.why.map(|why| why.refusals.len()), Some(left.refusals.len()));
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

#[test]
fn a_pod_that_waits_is_helped_after_a_trial_as_before() {
    // All cards are shared, and what waits wants one for itself, and no pod like it near.
    let mut scheduler = cluster(0, &[5, 5, 5, 5, 5, 5, 2]);
    let key = |number: u8| pod(number, 0).key;
    let shape = scheduler.shape_of(&key(6)).expect("no card is free");
    let (repels, waits) = (another(0), another(2));
    let (state, who) = meet(&mut scheduler, &repels);
    let (_, waiting) = meet(&mut scheduler, &waits);
    let repels = Such { record: &repels, shape: state.shape().unwrap(), who };
    let ends: Vec<PodId> = (0..2).filter_map(|number| scheduler.id(&key(number))).collect();
    let mut trial = Trial::new(&mut scheduler);
    ends.into_iter().for_each(|pod| trial.end(pod));
    assert!(trial.hold(&repels).is_some());
    assert_eq!(trial.hold(&Such { record: &waits, shape, who: waiting }), None);
    drop(trial);
    for number in 0..3 {
        scheduler.apply(Event::PodGone(key(number))).unwrap();
    }
    scheduler.pass(usize::MAX);
    assert!(scheduler.holding(&key(6)).is_some(), "two cards are free");
}

#[test]
fn a_trial_of_more_changes_than_the_journal_keeps_wakes_nobody() {
    let mut scheduler = cluster(0, &[10, 10, 10, 10, 10]);
    assert!(scheduler.shape_of(&pod(4, 10).key).is_some(), "four cards are taken");
    let (searches, end) = (scheduler.searches(), scheduler.ledger().journal().end());
    let first = scheduler.id(&pod(0, 10).key).unwrap();
    let (node, needs) = {
        let holding = scheduler.ledger().holding(first).unwrap();
        (holding.node, holding.needs.clone())
    };
    let mut trial = Trial::new(&mut scheduler);
    for _ in 0..40_000 {
        trial.end(first);
        trial.step(first, node, None);
        trial.scheduler.world.hold(first, node, &needs, &[]).unwrap();
    }
    drop(trial);
    assert_eq!(scheduler.ledger().journal().end(), end, "no change is told of");
    assert_eq!(scheduler.pass(usize::MAX), Plan::default());
    assert_eq!(scheduler.searches(), searches, "nobody is woken");
}
