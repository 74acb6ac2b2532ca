//! What is decided for claims counts at once, is followed until it is done, and is undone with
//! the pod it was decided for.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
use common::storage::*;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;

const HOST: &str = "kubernetes.io/hostname";

/// Nodes `a` and `b`, and a class `late` that makes volumes, and one `local` that does not.
fn two_nodes() -> Scheduler {
    let mut s = cluster(Config::default(), [labelled("a", HOST, "a"), labelled("b", HOST, "b")]);
    tell(&mut s, class("late", "d"));
    tell(&mut s, local_class("local"));
    s
}

/// Places one pod and says where, with what has to be done.
fn placed(s: &mut Scheduler, name: &str, spec: PodSpec) -> (String, Vec<VolumeStep>) {
    add(s, name, spec);
    match s.pass(usize::MAX).into_effects().last() {
        Some(PlanEffect::Bind { placement, volumes, .. }) => (placement.node.to_string(), volumes),
        other => panic!("{name} should be placed: {other:?}"),
    }
}

fn select(claim: &str) -> VolumeStep {
    VolumeStep::SelectNode { claim: claim_key(claim) }
}

fn bind(claim: &str, volume: &str) -> VolumeStep {
    VolumeStep::BindStatic { claim: claim_key(claim), volume: volume.into() }
}

fn bound(s: &Scheduler, name: &str) -> Result<bool, String> {
    s.claims_bound(&ObjectKey::new("ml", name)).map_err(|why| why.to_string())
}

#[test]
fn a_pod_with_bound_claims_asks_for_nothing_more() {
    let mut s = two_nodes();
    tell(&mut s, volume("v", ""));
    tell(&mut s, bound_claim("data", "v"));
    assert_eq!(placed(&mut s, "p", claiming(["data"])).1, []);
    assert_eq!(bound(&s, "p"), Ok(true));
    assert_eq!(placed(&mut s, "plain", cpu(1)).1, []);
    assert_eq!(bound(&s, "plain"), Ok(true));
}

#[test]
fn the_next_pod_with_a_claim_follows_the_first_at_once() {
    let mut s = two_nodes();
    tell(&mut s, claim("data", "late"));
    let (node, steps) = placed(&mut s, "first", claiming(["data"]));
    assert_eq!(steps, [select("data")]);
    assert_eq!(feasible(&s, &claiming(["data"])), node);
    assert_eq!(placed(&mut s, "second", claiming(["data"])), (node.clone(), vec![select("data")]));
    gone(&mut s, "first");
    assert_eq!(feasible(&s, &claiming(["data"])), node, "the second pod still counts on it");
    gone(&mut s, "second");
    assert_eq!(feasible(&s, &claiming(["data"])), "a b");
}

#[test]
fn a_volume_that_was_chosen_is_not_chosen_again() {
    let mut s = two_nodes();
    for name in ["one", "two", "three"] {
        tell(&mut s, claim(name, "local"));
    }
    tell(&mut s, local_volume("v-a", "local", HOST, "a"));
    tell(&mut s, local_volume("v-b", "local", HOST, "b"));
    assert_eq!(placed(&mut s, "p", claiming(["one"])), ("a".to_owned(), vec![bind("one", "v-a")]));
    assert_eq!(feasible(&s, &claiming(["one"])), "a", "its own claim has it");
    assert_eq!(placed(&mut s, "q", claiming(["two"])), ("b".to_owned(), vec![bind("two", "v-b")]));
    add(&mut s, "r", claiming(["three"]));
    assert_eq!(pass(&mut s), ["r waits"]);
    gone(&mut s, "q");
    assert_eq!(pass(&mut s), ["r b"], "what was chosen for q is free again, and r is woken");
}

#[test]
fn the_smallest_volume_that_suffices_is_taken() {
    let mut s = two_nodes();
    tell(&mut s, claim("data", "local"));
    for (name, gib) in [("v-large", 50), ("v-b", 12), ("v-a", 12), ("v-small", 9)] {
        let record = volume(name, "local");
        let terms = Terms { size: Some(Bytes(gib * GIB)), ..record.terms };
        tell(&mut s, VolumeRecord { terms, ..volume(name, "local") });
    }
    assert_eq!(placed(&mut s, "p", claiming(["data"])).1, [bind("data", "v-a")]);
}

#[test]
fn a_pod_is_ready_when_its_new_volume_is_bound() {
    let mut s = two_nodes();
    tell(&mut s, claim("data", "late"));
    let (node, _) = placed(&mut s, "p", claiming(["data"]));
    assert_eq!(bound(&s, "p"), Ok(false));
    let selected = ClaimRecord { selected_node: Some((*node).into()), ..claim("data", "late") };
    tell(&mut s, selected.clone());
    assert_eq!(bound(&s, "p"), Ok(false));
    tell(&mut s, ClaimRecord { volume: Some("new".into()), ..selected.clone() });
    assert_eq!(bound(&s, "p"), Ok(false));
    let done = ClaimRecord { volume: Some("new".into()), bind_completed: true, ..selected.clone() };
    tell(&mut s, done.clone());
    assert_eq!(bound(&s, "p"), Ok(false), "the volume is not seen yet");
    tell(&mut s, local_volume("new", "late", HOST, &node));
    assert_eq!(bound(&s, "p"), Ok(true));
    tell(&mut s, local_volume("new", "late", HOST, "elsewhere"));
    let why = "volume new is only reachable from kubernetes.io/hostname=elsewhere";
    assert_eq!(bound(&s, "p"), Err(why.to_owned()));
}

#[test]
fn a_provisioner_that_gives_up_is_seen() {
    let mut s = two_nodes();
    tell(&mut s, claim("data", "late"));
    let (node, _) = placed(&mut s, "p", claiming(["data"]));
    // News of the claim from before the choice was written changes nothing.
    tell(&mut s, ClaimRecord { owner: Some("x".into()), ..claim("data", "late") });
    assert_eq!((bound(&s, "p"), feasible(&s, &claiming(["data"]))), (Ok(false), node.clone()));
    let selected = ClaimRecord { selected_node: Some((*node).into()), ..claim("data", "late") };
    tell(&mut s, selected);
    tell(&mut s, claim("data", "late"));
    let why = "no volume could be provisioned for claim ml/data";
    assert_eq!(bound(&s, "p"), Err(why.to_owned()));
    assert_eq!(feasible(&s, &claiming(["data"])), "a b", "the next choice is free");
}

#[test]
fn a_volume_that_is_taken_away_is_seen() {
    let mut s = two_nodes();
    tell(&mut s, claim("data", "local"));
    tell(&mut s, volume("v", "local"));
    placed(&mut s, "p", claiming(["data"]));
    let claim_of =
        |name: &str| ClaimRef { key: claim_key(name), uid: format!("uid-{name}").into() };
    tell(&mut s, VolumeRecord { claim: Some(claim_of("data")), ..volume("v", "local") });
    assert_eq!(bound(&s, "p"), Ok(false));
    tell(&mut s, VolumeRecord { claim: Some(claim_of("other")), ..volume("v", "local") });
    assert_eq!(bound(&s, "p"), Err("volume v was taken from claim ml/data again".to_owned()));
}

#[test]
fn a_claim_that_goes_takes_its_choice_along() {
    let mut s = two_nodes();
    tell(&mut s, claim("data", "local"));
    tell(&mut s, claim("other", "local"));
    tell(&mut s, volume("v", "local"));
    placed(&mut s, "p", claiming(["data"]));
    assert_eq!(feasible(&s, &claiming(["other"])), "");
    tell(&mut s, StorageEvent::ClaimGone(claim_key("data")));
    assert_eq!(bound(&s, "p"), Err("claim ml/data does not exist".to_owned()));
    assert_eq!(feasible(&s, &claiming(["other"])), "a b");
    tell(&mut s, ClaimRecord { uid: "later".into(), ..claim("data", "local") });
    assert_eq!(bound(&s, "p"), Err("claim ml/data is not bound yet".to_owned()));
}

#[test]
fn a_pod_is_woken_by_what_it_waits_for_and_by_nothing_else() {
    type Change = fn(&mut Scheduler);
    let cases: [(&str, Change, Change, bool); 9] = [
        ("its claim comes", |_| (), |s| tell(s, claim("data", "late")), true),
        ("another claim comes", |_| (), |s| tell(s, claim("other", "late")), false),
        (
            "its claim is bound",
            |s| {
                tell(s, volume("v", ""));
                tell(s, claim("data", ""));
            },
            |s| tell(s, bound_claim("data", "v")),
            true,
        ),
        (
            "its class comes",
            |s| tell(s, claim("data", "new")),
            |s| tell(s, class("new", "d")),
            true,
        ),
        (
            "a volume of its class comes",
            |s| tell(s, claim("data", "local")),
            |s| tell(s, volume("v", "local")),
            true,
        ),
        (
            "a volume of another class comes",
            |s| tell(s, claim("data", "local")),
            |s| tell(s, volume("v", "late")),
            false,
        ),
        (
            "the volume of its claim comes",
            |s| tell(s, bound_claim("data", "v")),
            |s| tell(s, volume("v", "")),
            true,
        ),
        (
            "a limit is raised",
            |s| {
                s.apply(Event::NodeGone("b".to_owned())).unwrap();
                tell(s, csi_node("a", "d", Some(0)));
                tell(s, claim("data", "late"));
            },
            |s| tell(s, csi_node("a", "d", Some(1))),
            true,
        ),
        (
            "space is found",
            |s| {
                let (tells_capacity, must_be_installed) = (true, false);
                tell(s, DriverRecord { name: "d".into(), tells_capacity, must_be_installed });
                tell(s, claim("data", "late"));
            },
            |s| {
                tell(
                    s,
                    CapacityRecord {
                        key: "ns/c".into(),
                        class: "late".into(),
                        largest: Some(Bytes(10 * GIB)),
                        nodes: Selector::all([]),
                    },
                );
            },
            true,
        ),
    ];
    for (name, before, change, helps) in cases {
        let mut s = two_nodes();
        before(&mut s);
        add(&mut s, "p", claiming(["data"]));
        assert_eq!(pass(&mut s), ["p waits"], "{name}");
        assert_eq!(pass(&mut s), [""; 0], "{name}");
        change(&mut s);
        assert_eq!(pass(&mut s).len(), usize::from(helps), "{name}");
    }
}
