//! Whatever happens, what is assumed belongs to a pod that is there, and goes with it.

use super::*;
use crate::rules::{NodeFacts, Requirement, Term, Test};
use crate::world::World;
use divvy_ledger::{Capacity, Ledger};
use proptest::prelude::*;

const HOST: &str = "kubernetes.io/hostname";
const NODES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
enum Step {
    /// A pod with these claims comes to a node, if its volumes allow it.
    Place(u32, Vec<u8>, u32),
    Gone(u32),
    /// A claim comes, or changes, or is bound to what was chosen for it.
    Claim(u8, bool, bool),
    ClaimGone(u8),
    Volume(u8, Option<u8>),
    VolumeGone(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let claims = || prop::collection::vec(0..6u8, 1..4);
    let step = prop_oneof![
        6 => (0..8u32, claims(), 0..2u32).prop_map(|(pod, claims, n)| Step::Place(pod, claims, n)),
        2 => (0..8u32).prop_map(Step::Gone),
        3 => (0..6u8, any::<bool>(), any::<bool>()).prop_map(|(n, late, s)| Step::Claim(n, late, s)),
        1 => (0..6u8).prop_map(Step::ClaimGone),
        3 => (0..6u8, prop::option::of(0..6u8)).prop_map(|(n, claim)| Step::Volume(n, claim)),
        1 => (0..6u8).prop_map(Step::VolumeGone),
    ];
    prop::collection::vec(step, 0..40)
}

fn key(n: u8) -> ObjectKey {
    ObjectKey::new("ml", &format!("c{n}"))
}

fn on_host(value: &str) -> Box<[Term]> {
    let test = Test::In(vec![value.into()].into());
    let labels = vec![Requirement { key: HOST.into(), test }];
    [Term { labels, fields: Vec::new() }].into()
}

/// Two nodes, a class that makes volumes and one that does not.
fn world() -> World {
    let mut world = World { ledger: Ledger::default(), ..World::default() };
    for name in NODES {
        world.ledger.set_node(name, Capacity::default());
        let labels = vec![(HOST.into(), name.into())];
        world.facts.push(NodeFacts { labels, ..NodeFacts::default() });
    }
    for (name, provisioner) in [("late", Some("d".into())), ("local", None)] {
        world.others.volumes.apply(StorageEvent::Class(Box::new(ClassRecord {
            name: name.into(),
            provisioner,
            driver: None,
            in_tree: false,
            waits_for_pod: true,
            topologies: Box::default(),
        })));
    }
    world
}

fn claim(n: u8, late: bool, selected: Option<&str>) -> ClaimRecord {
    let class = if late { "late" } else { "local" };
    ClaimRecord {
        key: key(n),
        uid: format!("uid-{n}").into(),
        owner: None,
        terms: Terms { class: class.into(), ..Terms::default() },
        selector: crate::labels::Selector::all([]),
        volume: None,
        bind_completed: false,
        selected_node: selected.map(Into::into),
        lost: false,
        deleting: false,
    }
}

fn volume(n: u8, claim: Option<u8>) -> VolumeRecord {
    VolumeRecord {
        name: format!("v{n}").into(),
        terms: Terms { class: "local".into(), ..Terms::default() },
        labels: crate::labels::Labels::default(),
        claim: claim.map(|n| ClaimRef { key: key(n), uid: format!("uid-{n}").into() }),
        available: true,
        deleting: false,
        affinity: Some(on_host(NODES[usize::from(n % 2)])),
        migrated: None,
        attached: None,
    }
}

/// Places a pod if its volumes allow it, as the scheduler does.
fn place(world: &mut World, pod: PodId, claims: &[u8], node: NodeId) -> Vec<VolumeStep> {
    let volumes = claims.iter().map(|n| VolumeUse::Claim(key(*n))).collect();
    let relations = Arc::new(Relations { volumes, ..Relations::default() });
    world.others.volumes.enroll(pod, &ObjectKey::new("ml", &pod.0.to_string()), Some(&relations));
    let Ok(wants) = world.others.volumes.prepare(&relations.volumes) else { return Vec::new() };
    if wants.pick(node, world).is_err() {
        return Vec::new();
    }
    let steps = wants.steps(node, world);
    world.others.volumes.enter(pod, node);
    world.others.volumes.assume(pod, NODES[node.index()], &steps);
    steps
}

fn apply(world: &mut World, step: &Step) {
    match step {
        Step::Place(pod, claims, node) => {
            let mut claims = claims.clone();
            claims.sort_unstable();
            claims.dedup();
            place(world, PodId(*pod), &claims, NodeId(*node));
        }
        Step::Gone(pod) => world.others.volumes.expel(PodId(*pod)),
        Step::Claim(n, late, shown) => {
            let known = world.others.volumes.claims.get(&key(*n)).cloned();
            let known = known.unwrap_or_else(|| claim(*n, *late, None));
            let selected = world.others.volumes.selected_node(&known).filter(|_| *shown);
            let record = claim(*n, *late, selected);
            world.others.volumes.apply(StorageEvent::Claim(Box::new(record)));
        }
        Step::ClaimGone(n) => {
            world.others.volumes.apply(StorageEvent::ClaimGone(key(*n)));
        }
        Step::Volume(n, claim) => {
            world.others.volumes.apply(StorageEvent::Volume(Box::new(volume(*n, *claim))));
        }
        Step::VolumeGone(n) => {
            world.others.volumes.apply(StorageEvent::VolumeGone(format!("v{n}").into()));
        }
    }
}

fn check(volumes: &Volumes) {
    for (claim, assumption) in &volumes.assumed {
        assert!(!assumption.pods().is_empty(), "{claim} is assumed for nobody");
        assert!(assumption.pods().iter().all(|pod| volumes.pods.contains_key(pod)));
    }
    for (volume, claim) in &volumes.reserved {
        let assumption = volumes.assumed.get(claim).unwrap();
        assert_eq!(assumption.volume(), Some(&**volume), "{claim} has another volume");
    }
    let held = volumes.pods.values().filter(|pod| pod.node.is_some()).count();
    assert_eq!(held, volumes.on_node.values().map(BTreeSet::len).sum::<usize>());
}

#[test]
fn a_volume_that_was_released_and_is_chosen_again_is_reserved_again() {
    let mut world = world();
    let released = [Step::Volume(2, Some(0)), Step::Volume(2, None)];
    apply(&mut world, &Step::Claim(0, false, false));
    apply(&mut world, &Step::Volume(2, None));
    apply(&mut world, &Step::Place(1, vec![0], 0));
    released.iter().for_each(|step| apply(&mut world, step));
    assert_eq!(world.others.volumes.reserved.get("v2"), None, "the objects alone count");
    apply(&mut world, &Step::Place(0, vec![0], 0));
    assert_eq!(world.others.volumes.reserved.get("v2"), Some(&key(0)));
}

proptest! {
    #[test]
    fn undoing_a_placement_restores_the_store(
        before in steps(),
        claims in prop::collection::btree_set(0..6u8, 1..4),
        node in 0..2u32,
    ) {
        let mut world = world();
        for step in &before {
            apply(&mut world, step);
            check(&world.others.volumes);
        }
        world.others.volumes.take_storage_changes();
        let known = world.others.volumes.clone();
        let claims: Vec<u8> = claims.into_iter().collect();
        let steps = place(&mut world, PodId(99), &claims, NodeId(node));
        // A choice of its own that replaces one that has come to nothing is not given back.
        let is_new = |step: &VolumeStep| match step {
            VolumeStep::SelectNode { claim } | VolumeStep::BindStatic { claim, .. } => {
                !known.assumed.contains_key(claim)
            }
        };
        prop_assume!(steps.iter().all(is_new));
        world.others.volumes.expel(PodId(99));
        world.others.volumes.take_storage_changes();
        prop_assert!(known == world.others.volumes);
    }

    #[test]
    fn no_volume_is_chosen_for_two_claims(all in steps()) {
        let mut world = world();
        for step in &all {
            let before = world.others.volumes.volumes.clone();
            if let Step::Place(pod, claims, node) = step {
                let mut claims = claims.clone();
                claims.sort_unstable();
                claims.dedup();
                world.others.volumes.expel(PodId(*pod));
                for step in place(&mut world, PodId(*pod), &claims, NodeId(*node)) {
                    let VolumeStep::BindStatic { claim, volume } = step else { continue };
                    let record = &before[&volume];
                    let named = record.claim.as_ref().map(|claim| &claim.key);
                    let owner = named.or_else(|| world.others.volumes.reserved.get(&volume));
                    prop_assert_eq!(owner, Some(&claim), "{:?} is another's", volume);
                }
            } else {
                apply(&mut world, step);
            }
            check(&world.others.volumes);
        }
    }
}
