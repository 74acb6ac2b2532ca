//! What must hold after every change of the ledger, over long random sequences.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use divvy_ledger::*;
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Node {
        name: u8,
        gpus: u8,
        cpu: u16,
    },
    NodeGone {
        name: u8,
    },
    Hold {
        pod: u8,
        node: u8,
        request: u8,
        cards: Vec<(u8, u8)>,
    },
    /// A pod of which nobody can say which cards it has.
    Unknown {
        pod: u8,
        node: u8,
    },
    Release {
        pod: u8,
    },
    /// The kubelet tells which cards a pod's devices are on.
    Devices {
        pod: u8,
        on: Vec<(u8, u8)>,
    },
    /// What keeping a card takes.
    Opening(u8),
    Intake {
        node: u8,
        unsettled: bool,
        card: u8,
        sick: bool,
    },
    /// Does these and takes them back.
    Undone(Vec<Step>),
    /// Does the first ones, takes back the rest, keeps the first.
    Kept(Vec<Step>, Vec<Step>),
}

fn simple() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u8..40, 0u8..4, 0u8..11, prop::collection::vec((0u8..10, 0u8..12), 0..4))
            .prop_map(|(pod, node, request, cards)| Step::Hold { pod, node, request, cards }),
        2 => (0u8..40).prop_map(|pod| Step::Release { pod }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let group = || prop::collection::vec(simple(), 0..12);
    prop_oneof![
        12 => simple(),
        2 => (0u8..4, 0u8..12, 0u16..100)
            .prop_map(|(name, gpus, cpu)| Step::Node { name, gpus, cpu }),
        1 => (0u8..4).prop_map(|name| Step::NodeGone { name }),
        1 => (0u8..40, 0u8..4).prop_map(|(pod, node)| Step::Unknown { pod, node }),
        2 => (0u8..40, prop::collection::vec((0u8..4, 1u8..4), 0..3))
            .prop_map(|(pod, on)| Step::Devices { pod, on }),
        1 => (0u8..4).prop_map(Step::Opening),
        1 => (0u8..4, any::<bool>(), 0u8..10, any::<bool>())
            .prop_map(|(node, unsettled, card, sick)| Step::Intake { node, unsettled, card, sick }),
        2 => group().prop_map(Step::Undone),
        2 => (group(), group()).prop_map(|(a, b)| Step::Kept(a, b)),
    ]
}

fn slice(name: &str) -> Each {
    Each::Device(Device::Slice(Profile::parse(name).unwrap()))
}

fn needs(ledger: &mut Ledger, request: u8) -> Arc<Needs> {
    let third = Fraction::parse("0.3333333333333333").unwrap();
    let share = |portion, cards| Request::share(cards, Part::of(portion));
    let holder = if request == 6 { Holder::Keeper } else { Holder::Pod };
    let request = match request {
        0 | 6 => Request::none(),
        1 => Request::whole(1),
        2 => Request::whole(3),
        3 => share(Portion::Fraction(third), 1),
        4 => share(Portion::Memory(Bytes(7)), 2),
        7 => {
            Request::share(1, Part { compute: Percent(60), ..Part::of(Portion::Memory(Bytes(10))) })
        }
        8 => Request::share(1, Part { class: Class(1), ..Part::of(Portion::Memory(Bytes(10))) }),
        9 => Request::whole(1).and(2, slice("1g.10gb")).and(1, slice("2g.20gb")),
        10 => Request::none().and(1, Each::Device(Device::Replica)),
        _ => share(Portion::Memory(Bytes(40)), 1),
    };
    let nic = ledger.resource("rdma/nic");
    Arc::new(Needs {
        cpu: MilliCpu(u64::MAX / 2),
        memory: Bytes(5),
        ephemeral: Bytes(3),
        extended: [(nic, 3)].into(),
        request,
        holder,
    })
}

fn grants(cards: &[(u8, u8)]) -> Vec<CardShare> {
    let grant = |(index, bytes): &(u8, u8)| CardShare {
        index: u32::from(*index),
        bytes: Bytes(u64::from(*bytes) * 10),
    };
    cards.iter().map(grant).collect()
}

/// A reservation keeps the first of these cards.
fn enter(
    ledger: &mut Ledger,
    pod: PodId,
    node: NodeId,
    needs: &Arc<Needs>,
    cards: &[(u8, u8)],
) -> Result<(), HoldError> {
    match cards.first().filter(|_| needs.holder == Holder::Keeper) {
        Some((card, _)) => ledger.keep(pod, node, needs, u32::from(*card)),
        None => ledger.hold(pod, node, needs, &grants(cards)),
    }
}

fn capacity(ledger: &mut Ledger, gpus: u8, cpu: u16) -> Capacity {
    let count = u32::from(gpus);
    Capacity {
        cpu: MilliCpu(u64::from(cpu)),
        memory: Bytes(u64::from(cpu) * 3),
        ephemeral: Bytes(u64::from(cpu)),
        pods: 20,
        extended: vec![(ledger.resource("rdma/nic"), u64::from(cpu))],
        gpus: match gpus {
            0 => Gpus::none(),
            1 => Gpus::replicas(4),
            // Cards of several sizes, and devices beside them.
            8 => Gpus {
                cards: vec![Some(Bytes(100)), Some(Bytes(40)), None],
                usable: 3,
                pools: vec![
                    Pool { one_each: true, ..Pool::of(Device::Replica, 2) },
                    Pool::of(Device::Slice(Profile::parse("1g.10gb").unwrap()), 3),
                ],
                divided: vec![divided(Device::Replica, 2)],
                classes: vec![Class(1)],
            },
            9 => Gpus {
                pools: vec![Pool { each: Some(Bytes(25)), cards: 2, ..Pool::of(Device::Gpu, 8) }],
                divided: vec![divided(Device::Gpu, 4); 2],
                ..Gpus::none()
            },
            2..6 => Gpus::cards(count, count - 1, Some(Bytes(100))),
            _ => Gpus::cards(count - 4, count, None),
        },
    }
}

fn divided(device: Device, into: u32) -> DividedCard {
    let into = [(device, into)].into_iter().collect();
    DividedCard { memory: Some(Bytes(100)), by: Division::TimeSlices, into }
}

/// Does a step that can be taken back; what there was before is kept in `done`.
fn within(ledger: &mut Ledger, step: &Step, needs: &[Arc<Needs>], done: &mut Vec<Before>) {
    match step {
        Step::Hold { pod, node, request, cards } => {
            let (id, pod) = (ledger.find(&format!("n{node}")), PodId(u32::from(*pod)));
            if let Some(id) = id {
                let before = ledger.before(pod, id);
                let needs = &needs[usize::from(*request)];
                if enter(ledger, pod, id, needs, cards).is_ok() {
                    done.push(before);
                }
            }
        }
        Step::Release { pod } => {
            let pod = PodId(u32::from(*pod));
            if let Some(node) = ledger.holding(pod).map(|holding| holding.node) {
                done.push(ledger.before(pod, node));
                ledger.lift(pod);
            }
        }
        _ => {}
    }
}

fn apply(ledger: &mut Ledger, step: &Step) {
    let all: Vec<Arc<Needs>> = (0..11).map(|r| needs(ledger, r)).collect();
    match step {
        Step::Node { name, gpus, cpu } => {
            let capacity = capacity(ledger, *gpus, *cpu);
            ledger.set_node(&format!("n{name}"), capacity);
        }
        Step::Opening(0) => ledger.set_opening(None),
        Step::Opening(n) => {
            let (cpu, memory) = (MilliCpu(u64::from(*n)), Bytes(u64::from(*n) * 2));
            ledger.set_opening(Some(Opening { cpu, memory }));
        }
        Step::Intake { node, unsettled, card, sick } => {
            if let Some(id) = ledger.find(&format!("n{node}")) {
                let why = if *sick { Intake::SICK } else { Intake::RETURNING };
                let name = Some(Arc::new(Name { uuid: "GPU-1".into(), number: None }));
                let known = Known { intake: why, name };
                ledger.set_known(id, *unsettled, &[(u32::from(*card), known)]);
            }
        }
        Step::NodeGone { name } => {
            if let Some(id) = ledger.find(&format!("n{name}")) {
                ledger.remove_node(id);
            }
        }
        Step::Hold { pod, node, request, cards } => {
            if let Some(id) = ledger.find(&format!("n{node}")) {
                let needs = &all[usize::from(*request)];
                let _ = enter(ledger, PodId(u32::from(*pod)), id, needs, cards);
            }
        }
        Step::Release { pod } => {
            ledger.release(PodId(u32::from(*pod)));
        }
        Step::Devices { pod, on } => {
            let on = on.iter().map(|(card, count)| DeviceOn {
                uuid: format!("GPU-{card}").into(),
                device: if *count > 2 { Device::Replica } else { Device::Gpu },
                count: u32::from(*count),
            });
            ledger.set_devices(PodId(u32::from(*pod)), &on.collect::<Vec<_>>());
        }
        Step::Undone(steps) => {
            let mut done = Vec::new();
            steps.iter().for_each(|step| within(ledger, step, &all, &mut done));
            done.into_iter().rev().for_each(|step| ledger.undo(step));
        }
        Step::Kept(kept, taken_back) => {
            let (mut first, mut last) = (Vec::new(), Vec::new());
            kept.iter().for_each(|step| within(ledger, step, &all, &mut first));
            taken_back.iter().for_each(|step| within(ledger, step, &all, &mut last));
            last.into_iter().rev().for_each(|step| ledger.undo(step));
            let nodes: Vec<NodeId> =
                ledger.nodes().iter().filter_map(|n| ledger.find(n.name())).collect();
            nodes.into_iter().for_each(|node| ledger.tidy(node));
        }
        Step::Unknown { pod, node } => {
            if let Some(id) = ledger.find(&format!("n{node}")) {
                let _ = ledger.hold_unknown(PodId(u32::from(*pod)), id, &all[3]);
            }
        }
    }
}

/// Whether pods of all kinds fit, by all that is asked and by cards alone.
fn agree_on_fits(ledger: &mut Ledger) {
    let asked = (0..11).map(|request| (*needs(ledger, request)).clone());
    let asked = asked.flat_map(|all| {
        let cards = Needs { extended: Box::default(), ..all.clone() };
        [0, 1, 30].map(|cpu| Needs { cpu: MilliCpu(cpu), ..cards.clone() }).into_iter().chain([all])
    });
    for needs in asked.collect::<Vec<_>>() {
        for (at, node) in ledger.nodes().iter().enumerate() {
            let share = needs.request.portion().map_or(Bytes(0), |p| p.of(node.card_size()));
            let closely = node.is_alive() && node.fits(&needs, share);
            assert_eq!(
                ledger.fits(NodeId(at as u32), &needs, share),
                closely,
                "{needs:?}: {node:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_invariant_holds_after_every_step(steps in prop::collection::vec(step(), 1..120)) {
        let mut ledger = Ledger::default();
        for step in &steps {
            apply(&mut ledger, step);
            prop_assert_eq!(ledger.audit(), Ok(()));
        }
    }

    #[test]
    fn a_glance_at_a_node_says_the_same_as_a_close_look(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut ledger = Ledger::default();
        for step in &steps {
            apply(&mut ledger, step);
            agree_on_fits(&mut ledger);
        }
    }

    #[test]
    fn undoing_steps_restores_the_ledger_to_the_byte(
        steps in prop::collection::vec(step(), 1..80),
        tried in prop::collection::vec(simple(), 1..30),
    ) {
        let mut ledger = Ledger::default();
        for step in &steps {
            apply(&mut ledger, step);
        }
        let before = ledger.clone();
        apply(&mut ledger, &Step::Undone(tried.clone()));
        prop_assert!(ledger == before);
        // To the letter, but for the journal and the places that were never used.
        prop_assert_eq!(format!("{:?}", ledger.nodes()), format!("{:?}", before.nodes()));
        apply(&mut ledger, &Step::Kept(vec![], tried));
        prop_assert!(ledger == before);
    }
}

#[test]
fn a_held_card_keeps_its_capacity_until_it_is_free() {
    let mut ledger = Ledger::default();
    let gpus = |memory| Gpus::cards(1, 1, Some(Bytes(memory)));
    let capacity = |memory| Capacity { pods: 9, gpus: gpus(memory), ..Capacity::default() };
    let (node, _) = ledger.set_node("n", capacity(100));
    let needs = Arc::new(Needs {
        request: Request::share(1, Part::of(Portion::Memory(Bytes(80)))),
        ..Needs::default()
    });
    let grant = [CardShare { index: 0, bytes: Bytes(80) }];
    ledger.hold(PodId(0), node, &needs, &grant).unwrap();
    ledger.set_node("n", capacity(50));
    let card = |l: &Ledger| l.node(node).unwrap().cards()[0].clone();
    assert_eq!((card(&ledger).used(), card(&ledger).capacity()), (Bytes(80), Bytes(100)));
    assert_eq!(ledger.node(node).unwrap().room().share, Bytes(0), "and takes nobody new");
    ledger.release(PodId(0));
    assert_eq!(card(&ledger).capacity(), Bytes(50));
}

#[test]
fn who_asks_for_no_part_has_the_usual_class_and_goes_with_no_other() {
    let mut ledger = Ledger::default();
    let gpus = Gpus { classes: vec![Class(1)], ..Gpus::cards(1, 1, Some(Bytes(100))) };
    let (node, _) = ledger.set_node("n", Capacity { pods: 9, gpus, ..Capacity::default() });
    let share = |class| {
        let part = Part { class: Class(class), ..Part::of(Portion::Memory(Bytes(10))) };
        Arc::new(Needs { request: Request::share(1, part), ..Needs::default() })
    };
    let on_first = [CardShare { index: 0, bytes: Bytes(10) }];
    ledger.hold(PodId(0), node, &share(1), &on_first).unwrap();
    let differs = Err(HoldError::CardDiffers(0));
    assert_eq!(ledger.hold(PodId(1), node, &Arc::default(), &on_first), differs);
    assert_eq!(ledger.hold(PodId(2), node, &share(0), &on_first), differs);
    ledger.hold(PodId(3), node, &share(1), &on_first).unwrap();
    assert_eq!(ledger.audit(), Ok(()));
}

/// A node whose two cards are cut into four time slices each, and a pod that asks for so many.
fn sliced(one_each: bool) -> (Ledger, NodeId) {
    let mut ledger = Ledger::default();
    let by = Some(Division::TimeSlices);
    let each = Some(Bytes(25));
    let pool = Pool { by, each, cards: 2, replicas: 4, one_each, ..Pool::of(Device::Replica, 8) };
    let divided = vec![divided(Device::Replica, 4); 2];
    let gpus = Gpus { pools: vec![pool], divided, ..Gpus::none() };
    let (node, _) = ledger.set_node("n", Capacity { pods: 99, gpus, ..Capacity::default() });
    (ledger, node)
}

fn slices(count: u32) -> Arc<Needs> {
    let request = Request::none().and(count, Each::Device(Device::Replica));
    Arc::new(Needs { request, ..Needs::default() })
}

#[test]
fn time_slices_are_given_up_to_their_number_and_count_for_their_part_of_a_card() {
    let (mut ledger, node) = sliced(false);
    ledger.hold(PodId(0), node, &slices(7), &[]).unwrap();
    let here = |l: &Ledger| l.node(node).unwrap().clone();
    assert_eq!((here(&ledger).room().gpu_used, here(&ledger).room().gpu_total), (175, 200));
    assert_eq!(here(&ledger).fit(&slices(1), Bytes(0)), Ok(()));
    let shortage = here(&ledger).fit(&slices(2), Bytes(0)).unwrap_err();
    let (device, by) = (Device::Replica, Some(Division::TimeSlices));
    let expected =
        Shortage::Devices { device, by, total: 8, cards: 2, free: 1, taken: 7, asked: 2 };
    assert_eq!(shortage, expected);
}

#[test]
fn neither_shares_nor_whole_cards_land_on_divided_cards() {
    let (mut ledger, node) = sliced(false);
    let here = ledger.node(node).unwrap();
    let by = Some(Division::TimeSlices);
    assert_eq!(
        here.fit(&half(0), Bytes(50)),
        Err(Shortage::Replicas { device: Device::Replica, by })
    );
    let whole = Needs { request: Request::whole(1), ..Needs::default() };
    let (asked, called) = (Device::Gpu, Device::Replica);
    assert_eq!(here.fit(&whole, Bytes(0)), Err(Shortage::Renamed { asked, called, by }));
    assert_eq!(
        ledger.hold(PodId(0), node, &half(0), &on(0, 50)),
        Err(HoldError::CardDivided(0)),
        "whatever a record says"
    );
}

#[test]
fn a_container_that_asks_more_than_the_device_plugin_gives_it_is_not_sent_there() {
    let (ledger, node) = sliced(true);
    let here = ledger.node(node).unwrap();
    let shortage = here.fit(&slices(2), Bytes(0)).unwrap_err();
    assert!(matches!(shortage, Shortage::OneEach { asked: 2, .. }), "{shortage:?}");
    let by_two = Needs { request: slices(2).request.clone().one_each(), ..Needs::default() };
    assert_eq!(here.fit(&by_two, Bytes(0)), Ok(()), "two containers may have one each");
}

#[test]
fn what_is_refused_of_replicas_says_nothing_of_what_is_given_as_it_is() {
    let mut ledger = Ledger::default();
    let small = Device::Slice(Profile::parse("1g.5gb").unwrap());
    let sliced = |count, replicas| {
        let by = Some(Division::TimeSlices);
        let turns = Pool { by, cards: 8, replicas, ..Pool::of(Device::Gpu, count) };
        let gpus = Gpus { pools: vec![turns, Pool::of(small, 7)], ..Gpus::none() };
        Capacity { pods: 99, gpus, ..Capacity::default() }
    };
    let (node, _) = ledger.set_node("n", sliced(32, 4));
    let asks = |request| Needs { request, ..Needs::default() };
    let two = asks(Request::whole(2));
    let two_slices = asks(Request::none().and(2, Each::Device(small)));
    let fits = |l: &Ledger, needs| l.node(node).unwrap().fits(needs, Bytes(0));
    assert!(fits(&ledger, &two));
    ledger.give_one_each(node, true);
    assert!(!fits(&ledger, &two));
    assert!(fits(&ledger, &two_slices), "of slices that are not replicated it gives two");
    ledger.set_node("n", sliced(28, 4));
    assert!(!fits(&ledger, &two), "a card fails, and the plugin's config is what it was");
    ledger.set_node("n", sliced(16, 2));
    assert!(fits(&ledger, &two), "another config may allow it");
}

#[test]
fn what_turns_out_to_be_slices_is_not_shared_until_the_node_changes() {
    let (mut ledger, node) = keeping(10, 9);
    let fits = |l: &Ledger| l.node(node).unwrap().fit(&half(0), Bytes(50));
    assert_eq!(fits(&ledger), Ok(()));
    ledger.divide(node);
    assert_eq!(fits(&ledger), Err(Shortage::Replicas { device: Device::Gpu, by: None }));
    let whole = Needs { request: Request::whole(1), ..Needs::default() };
    assert_eq!(ledger.node(node).unwrap().fit(&whole, Bytes(0)), Ok(()));
    let same = ledger.node(node).unwrap().capacity().clone();
    ledger.set_node("n", Capacity { pods: 8, ..same.clone() });
    assert!(fits(&ledger).is_err(), "its GPUs are as they were");
    ledger.set_node("n", Capacity { gpus: Gpus::cards(1, 1, Some(Bytes(100))), ..same });
    assert_eq!(fits(&ledger), Ok(()));
}

#[test]
fn the_kubelet_tells_which_card_time_slices_are_on() {
    let (mut ledger, node) = sliced(false);
    let told = |uuid: &str, count| DeviceOn { uuid: uuid.into(), device: Device::Replica, count };
    for pod in 0..3 {
        ledger.hold(PodId(pod), node, &slices(1), &[]).unwrap();
    }
    ledger.set_devices(PodId(0), &[told("GPU-b", 1)]);
    ledger.set_devices(PodId(1), &[told("GPU-b", 1)]);
    let taken = |l: &Ledger| {
        let cards = l.node(node).unwrap().cards().iter();
        let taken = |card: &Card| match card.mode() {
            Mode::Divided(divided) => divided.taken(),
            _ => (0, 0),
        };
        let all = cards.map(|card| (card.name().map(|name| name.uuid.to_string()), taken(card)));
        all.collect::<Vec<_>>()
    };
    let b = |n| (Some("GPU-b".to_owned()), (n, 4));
    assert_eq!(taken(&ledger), [b(2), (None, (0, 4))], "of the third nobody has said it");
    ledger.release(PodId(0));
    assert_eq!(taken(&ledger), [b(1), (None, (0, 4))]);
    // Two replicas instead of four: who runs keeps what it has, and nobody new comes.
    let mut fewer = ledger.node(node).unwrap().capacity().clone();
    fewer.gpus.pools[0].count = 1;
    fewer.gpus.divided = vec![divided(Device::Replica, 1); 1];
    ledger.set_node("n", fewer);
    assert_eq!(taken(&ledger), [(Some("GPU-b".to_owned()), (1, 1))]);
    assert_eq!(ledger.node(node).unwrap().devices(Device::Replica), Some((0, 1)));
}

#[test]
fn a_deleted_node_comes_back_with_what_is_held_there() {
    let mut ledger = Ledger::default();
    let capacity = Capacity { pods: 5, ..Capacity::default() };
    let (node, _) = ledger.set_node("n", capacity.clone());
    ledger.hold(PodId(0), node, &Arc::default(), &[]).unwrap();
    ledger.remove_node(node);
    assert_eq!(ledger.set_node("n", capacity).0, node);
    assert_eq!(ledger.node(node).unwrap().room().pods, 4);
}

#[test]
fn nothing_can_be_held_on_a_node_that_is_gone() {
    let mut ledger = Ledger::default();
    let (id, _) = ledger.set_node("n", Capacity { pods: 5, ..Capacity::default() });
    ledger.remove_node(id);
    assert_eq!(ledger.hold(PodId(0), id, &Arc::default(), &[]), Err(HoldError::UnknownNode));
}

/// A node of two cards with so much CPU and so many pod slots, where keeping a card takes 1 CPU.
fn keeping(cpu: u64, pods: u32) -> (Ledger, NodeId) {
    let mut ledger = Ledger::default();
    ledger.set_opening(Some(Opening { cpu: MilliCpu(1), memory: Bytes(0) }));
    let gpus = Gpus::cards(2, 2, Some(Bytes(100)));
    let capacity = Capacity { cpu: MilliCpu(cpu), pods, gpus, ..Capacity::default() };
    let (node, _) = ledger.set_node("n", capacity);
    (ledger, node)
}

fn half(cpu: u64) -> Arc<Needs> {
    let request = Request::share(1, Part::of(Portion::Memory(Bytes(50))));
    Arc::new(Needs { cpu: MilliCpu(cpu), request, ..Needs::default() })
}

fn keeper(cpu: u64) -> Arc<Needs> {
    Arc::new(Needs { cpu: MilliCpu(cpu), holder: Holder::Keeper, ..Needs::default() })
}

fn on(index: u32, bytes: u64) -> [CardShare; 1] {
    [CardShare { index, bytes: Bytes(bytes) }]
}

#[test]
fn what_opening_a_card_costs_is_booked_with_the_share_and_its_keeper_replaces_it() {
    let (mut ledger, node) = keeping(10, 9);
    let left = |l: &Ledger| (l.node(node).unwrap().room().cpu.0, l.node(node).unwrap().room().pods);
    ledger.hold(PodId(0), node, &half(4), &on(0, 50)).unwrap();
    assert_eq!(left(&ledger), (5, 7), "the share and the reservation to come");
    ledger.hold(PodId(1), node, &half(1), &on(0, 50)).unwrap();
    assert_eq!(left(&ledger), (4, 6), "the second one on a card opens nothing");
    ledger.keep(PodId(2), node, &keeper(3), 0).unwrap();
    assert_eq!(left(&ledger), (2, 6), "what its pod really asks");
    ledger.release(PodId(2));
    assert_eq!(left(&ledger), (4, 6), "a keeper that is lost is to come again");
    ledger.release(PodId(0));
    ledger.release(PodId(1));
    assert_eq!(left(&ledger), (10, 9), "and with the last share nothing is left of it");
    ledger.set_opening(None);
    ledger.hold(PodId(0), node, &half(4), &on(0, 50)).unwrap();
    assert_eq!(left(&ledger), (6, 8), "where nobody keeps cards, nothing is charged");
}

#[test]
fn a_share_that_fits_only_without_its_reservation_is_told_so() {
    let (ledger, node) = keeping(4, 9);
    let lacks = |cpu| ledger.node(node).unwrap().fit(&half(cpu), Bytes(50));
    let reserved = MilliCpu(1);
    assert_eq!(lacks(3), Ok(()));
    let asked = MilliCpu(5);
    assert_eq!(lacks(4), Err(Shortage::Cpu { free: MilliCpu(4), asked, reserved }));
    let reserved = MilliCpu(0);
    assert_eq!(lacks(5), Err(Shortage::Cpu { free: MilliCpu(4), asked, reserved }), "its own");
    let (ledger, node) = keeping(4, 1);
    let slots = Shortage::PodSlots { free: 1, reserved: 1 };
    assert_eq!(ledger.node(node).unwrap().fit(&half(1), Bytes(50)), Err(slots));
}

#[test]
fn the_end_of_one_reason_why_a_card_takes_nobody_lifts_no_other() {
    let (mut ledger, node) = keeping(10, 9);
    let intake = |l: &Ledger| l.node(node).unwrap().cards()[0].intake();
    let closed = |intake| (0, Known { intake, name: None });
    ledger.dispute(node, [0]);
    ledger.set_known(node, false, &[closed(Intake::SICK.and(Intake::RETURNING))]);
    ledger.set_known(node, false, &[closed(Intake::SICK)]);
    assert_eq!(intake(&ledger), Intake::SICK.and(Intake::DISPUTED));
    ledger.end_disputes(node);
    assert_eq!(intake(&ledger), Intake::SICK);
    ledger.set_known(node, false, &[]);
    assert_eq!(intake(&ledger), Intake::OPEN);
}

/// A node with a large card, a small one, and one of which nobody knows how large it is.
fn several_sizes() -> (Ledger, NodeId) {
    let mut ledger = Ledger::default();
    let cards = vec![Some(Bytes(100)), Some(Bytes(40)), None];
    let gpus = Gpus { cards, usable: 3, ..Gpus::none() };
    let (cpu, pods) = (MilliCpu(100), 20);
    let (node, _) = ledger.set_node("n", Capacity { cpu, pods, gpus, ..Capacity::default() });
    (ledger, node)
}

#[test]
fn cards_of_one_node_may_differ_in_size() {
    let (mut ledger, node) = several_sizes();
    let asking = |portion, cards| {
        Arc::new(Needs { request: Request::share(cards, Part::of(portion)), ..Needs::default() })
    };
    let fit = |ledger: &Ledger, needs: &Needs| {
        let node = ledger.node(node).unwrap();
        let usual = needs.request.portion().unwrap().of(node.card_size());
        node.fit(needs, usual)
    };
    let (sixty, thirty) = (Portion::Memory(Bytes(60)), Portion::Memory(Bytes(30)));
    assert_eq!(fit(&ledger, &asking(sixty, 1)), Ok(()));
    let one = Shortage::FreeShares { fitting: 1, asked: 2 };
    assert_eq!(fit(&ledger, &asking(sixty, 2)), Err(one), "only the large one");
    assert_eq!(fit(&ledger, &asking(thirty, 2)), Ok(()));
    let two = Shortage::FreeShares { fitting: 2, asked: 3 };
    assert_eq!(fit(&ledger, &asking(thirty, 3)), Err(two), "of one nobody knows");
    let half = Portion::Fraction(Fraction::parse("0.5").unwrap());
    assert_eq!(fit(&ledger, &asking(half, 3)), Ok(()), "half of each, however large");
    ledger.hold(PodId(0), node, &asking(sixty, 1), &on(0, 60)).unwrap();
    assert!(fit(&ledger, &asking(sixty, 1)).is_err());
    assert_eq!(ledger.audit(), Ok(()));
}

#[test]
fn compute_is_given_up_to_all_of_a_card_where_it_is_asked() {
    let (mut ledger, node) = keeping(10, 9);
    let part = |compute| Part { compute: Percent(compute), ..Part::of(Portion::Memory(Bytes(10))) };
    let asking =
        |compute| Arc::new(Needs { request: Request::share(1, part(compute)), ..Needs::default() });
    ledger.hold(PodId(0), node, &asking(60), &on(0, 10)).unwrap();
    assert_eq!(
        ledger.hold(PodId(1), node, &asking(41), &on(0, 10)),
        Err(HoldError::CardBusy { index: 0, free: Percent(40), asked: Percent(41) })
    );
    ledger.hold(PodId(1), node, &asking(40), &on(0, 10)).unwrap();
    ledger.hold(PodId(2), node, &asking(0), &on(0, 10)).unwrap();
    ledger.hold(PodId(3), node, &half(1), &on(1, 50)).unwrap();
    let n = |ledger: &Ledger| ledger.node(node).unwrap().clone();
    assert!(n(&ledger).can_join(part(100), Bytes(10)), "on the other card");
    ledger.hold(PodId(4), node, &asking(100), &on(1, 10)).unwrap();
    let lacks = Shortage::Compute { free: Percent(0), asked: Percent(1) };
    assert_eq!(n(&ledger).fit(&asking(1), Bytes(10)), Err(lacks));
    assert_eq!(n(&ledger).fit(&asking(0), Bytes(10)), Ok(()));
}

#[test]
fn shares_of_two_classes_never_meet_on_a_card() {
    let (mut ledger, node) = keeping(10, 9);
    let mut capacity = ledger.node(node).unwrap().capacity().clone();
    let classes = vec![Class(1), Class(2)];
    capacity.gpus = Gpus { classes, ..capacity.gpus };
    ledger.set_node("n", capacity);
    let asking = |class| {
        Arc::new(Needs {
            request: Request::share(
                1,
                Part { class: Class(class), ..Part::of(Portion::Memory(Bytes(10))) },
            ),
            ..Needs::default()
        })
    };
    ledger.hold(PodId(0), node, &asking(0), &on(0, 10)).unwrap();
    assert_eq!(ledger.hold(PodId(1), node, &asking(1), &on(0, 10)), Err(HoldError::CardDiffers(0)));
    assert_eq!(ledger.node(node).unwrap().fit(&asking(1), Bytes(10)), Ok(()), "it opens another");
    ledger.hold(PodId(1), node, &asking(1), &on(1, 10)).unwrap();
    assert_eq!(
        ledger.node(node).unwrap().fit(&asking(2), Bytes(10)),
        Err(Shortage::Class { card: 0, holds: Class(0) })
    );
    ledger.release(PodId(0));
    ledger.hold(PodId(2), node, &asking(2), &on(0, 10)).unwrap();
    assert_eq!(
        ledger.node(node).unwrap().fit(&asking(3), Bytes(10)),
        Err(Shortage::NoClass(Class(3))),
        "which the node does not offer"
    );
}

#[test]
fn a_kept_card_without_shares_takes_any_class_beside_cards_of_another() {
    let (mut ledger, node) = keeping(1, 9);
    ledger.keep(PodId(0), node, &keeper(1), 0).unwrap();
    let other = Part { class: Class(1), ..Part::of(Portion::Memory(Bytes(10))) };
    let other = Arc::new(Needs { request: Request::share(1, other), ..Needs::default() });
    ledger.hold(PodId(1), node, &other, &on(1, 10)).unwrap();
    assert!(ledger.fits(node, &half(0), Bytes(50)), "on the first, for no other can be opened");
    assert!(!ledger.fits(node, &half(0), Bytes(101)));
}

#[test]
fn beside_a_pod_whose_cards_nobody_knows_no_card_is_given() {
    let (mut ledger, node) = keeping(10, 9);
    ledger.hold(PodId(0), node, &half(1), &on(0, 50)).unwrap();
    ledger.hold_unknown(PodId(1), node, &half(1)).unwrap();
    let n = |ledger: &Ledger| ledger.node(node).unwrap().clone();
    assert_eq!(n(&ledger).fit(&half(1), Bytes(50)), Err(Shortage::UnknownHolder));
    let whole = Needs { request: Request::whole(1), ..Needs::default() };
    assert_eq!(n(&ledger).fit(&whole, Bytes(0)), Err(Shortage::UnknownHolder));
    // What would be in the way then too is told first.
    let too_large = Shortage::CardSize { card: Bytes(100), asked: Bytes(101) };
    assert_eq!(n(&ledger).fit(&half(1), Bytes(101)), Err(too_large));
    let whole = Needs { request: Request::whole(3), ..Needs::default() };
    let too_many = Shortage::CardCount { cards: 2, asked: 3 };
    assert_eq!(n(&ledger).fit(&whole, Bytes(0)), Err(too_many));
    assert_eq!(n(&ledger).fit(&Needs::default(), Bytes(0)), Ok(()), "all else is");
    ledger.release(PodId(1));
    assert_eq!(n(&ledger).fit(&half(1), Bytes(50)), Ok(()));
}
