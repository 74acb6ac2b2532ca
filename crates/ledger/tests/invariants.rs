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
    Release {
        pod: u8,
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
        3 => (0u8..40, 0u8..4, 0u8..7, prop::collection::vec((0u8..10, 0u8..12), 0..4))
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
        1 => (0u8..4).prop_map(Step::Opening),
        1 => (0u8..4, any::<bool>(), 0u8..10, any::<bool>())
            .prop_map(|(node, unsettled, card, sick)| Step::Intake { node, unsettled, card, sick }),
        2 => group().prop_map(Step::Undone),
        2 => (group(), group()).prop_map(|(a, b)| Step::Kept(a, b)),
    ]
}

fn needs(ledger: &mut Ledger, request: u8) -> Arc<Needs> {
    let third = Fraction::parse("0.3333333333333333").unwrap();
    let share = |portion, cards| Request::Share { portion, cards };
    let holder = if request == 6 { Holder::Keeper } else { Holder::Pod };
    let request = match request {
        0 | 6 => Request::None,
        1 => Request::Whole(1),
        2 => Request::Whole(3),
        3 => share(Portion::Fraction(third), 1),
        4 => share(Portion::Memory(Bytes(7)), 2),
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

fn capacity(ledger: &mut Ledger, gpus: u8, cpu: u16) -> Capacity {
    let count = u32::from(gpus);
    Capacity {
        cpu: MilliCpu(u64::from(cpu)),
        memory: Bytes(u64::from(cpu) * 3),
        ephemeral: Bytes(u64::from(cpu)),
        pods: 20,
        extended: vec![(ledger.resource("rdma/nic"), u64::from(cpu))],
        gpus: match gpus {
            0 => Gpus::None,
            1 => Gpus::Replicas { count: 4 },
            2..6 => Gpus::Cards { count, usable: count - 1, memory: Some(Bytes(100)) },
            _ => Gpus::Cards { count: count - 4, usable: count, memory: None },
        },
    }
}

fn within(statement: &mut Statement<'_>, step: &Step, needs: &[Arc<Needs>]) {
    match step {
        Step::Hold { pod, node, request, cards } => {
            let id = statement.ledger().find(&format!("n{node}"));
            if let Some(id) = id {
                let needs = &needs[usize::from(*request)];
                let _ = statement.hold(PodId(u32::from(*pod)), id, needs, &grants(cards));
            }
        }
        Step::Release { pod } => {
            statement.release(PodId(u32::from(*pod)));
        }
        _ => {}
    }
}

fn apply(ledger: &mut Ledger, step: &Step) {
    let all: Vec<Arc<Needs>> = (0..7).map(|r| needs(ledger, r)).collect();
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
                ledger.set_intake(id, *unsettled, &[(u32::from(*card), why)]);
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
                let _ = ledger.hold(PodId(u32::from(*pod)), id, needs, &grants(cards));
            }
        }
        Step::Release { pod } => {
            ledger.release(PodId(u32::from(*pod)));
        }
        Step::Undone(steps) => {
            let mut statement = ledger.statement();
            for step in steps {
                within(&mut statement, step, &all);
            }
        }
        Step::Kept(kept, taken_back) => {
            let mut statement = ledger.statement();
            for step in kept {
                within(&mut statement, step, &all);
            }
            let checkpoint = statement.checkpoint();
            for step in taken_back {
                within(&mut statement, step, &all);
            }
            statement.undo_to(checkpoint);
            statement.commit();
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
    fn undoing_a_statement_restores_the_ledger_to_the_byte(
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
    let gpus = |memory| Gpus::Cards { count: 1, usable: 1, memory: Some(Bytes(memory)) };
    let capacity = |memory| Capacity { pods: 9, gpus: gpus(memory), ..Capacity::default() };
    let (node, _) = ledger.set_node("n", capacity(100));
    let needs = Arc::new(Needs {
        request: Request::Share { portion: Portion::Memory(Bytes(80)), cards: 1 },
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
    let gpus = Gpus::Cards { count: 2, usable: 2, memory: Some(Bytes(100)) };
    let capacity = Capacity { cpu: MilliCpu(cpu), pods, gpus, ..Capacity::default() };
    let (node, _) = ledger.set_node("n", capacity);
    (ledger, node)
}

fn half(cpu: u64) -> Arc<Needs> {
    let request = Request::Share { portion: Portion::Memory(Bytes(50)), cards: 1 };
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
    ledger.hold(PodId(2), node, &keeper(3), &on(0, 0)).unwrap();
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
    ledger.dispute(node, [0]);
    ledger.set_intake(node, false, &[(0, Intake::SICK.and(Intake::RETURNING))]);
    ledger.set_intake(node, false, &[(0, Intake::SICK)]);
    assert_eq!(intake(&ledger), Intake::SICK.and(Intake::DISPUTED));
    ledger.end_disputes(node);
    assert_eq!(intake(&ledger), Intake::SICK);
    ledger.set_intake(node, false, &[]);
    assert_eq!(intake(&ledger), Intake::OPEN);
}

#[test]
fn with_its_last_share_the_keeper_of_a_card_would_end_too() {
    let (mut ledger, node) = keeping(10, 9);
    ledger.hold(PodId(0), node, &half(4), &on(0, 50)).unwrap();
    ledger.hold(PodId(1), node, &half(1), &on(0, 50)).unwrap();
    ledger.hold(PodId(2), node, &keeper(3), &on(0, 0)).unwrap();
    let without = |pods: &[PodId]| *ledger.node_without(node, pods).unwrap().room();
    assert_eq!((without(&[PodId(0)]).whole, without(&[PodId(0)]).cpu.0), (1, 6));
    assert_eq!(
        (without(&[PodId(0), PodId(1)]).whole, without(&[PodId(1), PodId(0)]).cpu.0),
        (2, 10)
    );
}
