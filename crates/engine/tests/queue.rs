//! In which order pods are tried, who waits and who is woken.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;

#[test]
fn priority_goes_first_then_age_then_name() {
    let mut s = cluster(Config::default(), [node("a", cards(4, 80))]);
    for (name, priority, created) in
        [("young", 0, 20), ("b-old", 0, 10), ("a-old", 0, 10), ("urgent", 5, 99), ("last", -1, 0)]
    {
        let record = PodRecord { priority, created, ..pod(name, whole(1)) };
        s.apply(Event::Pod(Box::new(record))).unwrap();
    }
    assert_eq!(pass(&mut s), ["urgent a 0", "a-old a 1", "b-old a 2", "young a 3", "last waits"]);
}

#[test]
fn a_pod_that_does_not_fit_does_not_block_those_behind_it() {
    let mut s = cluster(Config::default(), [node("a", cards(4, 80))]);
    let big = PodRecord { priority: 9, ..pod("big", whole(8)) };
    s.apply(Event::Pod(Box::new(big))).unwrap();
    add(&mut s, "small", whole(1));
    assert_eq!(pass(&mut s), ["big waits", "small a 0"]);
}

#[test]
fn a_waiting_pod_is_placed_when_another_ends() {
    let mut s = cluster(Config::default(), [node("a", cards(1, 80))]);
    place(&mut s, "first", fraction("0.6"));
    assert_eq!(place(&mut s, "second", fraction("0.6")), "second waits");
    assert_eq!(pass(&mut s), [""; 0], "nothing changed, nothing is said again");
    gone(&mut s, "first");
    assert_eq!(pass(&mut s), ["second a 0"]);
}

#[test]
fn waiting_pods_are_placed_in_turn_when_a_node_comes() {
    let mut s = cluster(Config::default(), []);
    add(&mut s, "b", whole(1));
    add(&mut s, "a", whole(1));
    assert_eq!(pass(&mut s), ["a waits", "b waits"]);
    assert_eq!(waiting(&s, "a").headline(), "the cluster has no nodes");
    s.apply(Event::Node(Box::new(node("n", cards(1, 80))))).unwrap();
    assert_eq!(pass(&mut s), ["a n 0"]);
    s.apply(Event::Node(Box::new(node("n", cards(2, 80))))).unwrap();
    assert_eq!(pass(&mut s), ["b n 1"]);
}

#[test]
fn a_waiting_pod_is_placed_when_a_label_or_taint_changes() {
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    let mut spec = whole(1);
    std::sync::Arc::make_mut(&mut spec.rules).selector.push(("pool".into(), "ml".into()));
    assert_eq!(place(&mut s, "p", spec), "p waits");
    let mut labelled = node("n", cards(1, 80));
    labelled.facts.labels = vec![("pool".into(), "ml".into())];
    labelled.facts.taints =
        vec![Taint { key: "k".into(), value: "".into(), effect: Effect::NoSchedule }];
    s.apply(Event::Node(Box::new(labelled.clone()))).unwrap();
    assert_eq!(pass(&mut s), [""; 0]);
    assert_eq!(reasons(&s, "p"), ["1 x taint k:NoSchedule not tolerated"]);
    labelled.facts.taints.clear();
    s.apply(Event::Node(Box::new(labelled))).unwrap();
    assert_eq!(pass(&mut s), ["p n 0"]);
}

#[test]
fn gated_and_invalid_pods_are_reported_and_never_placed() {
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    let gated = PodSpec { gates: vec!["example.com/quota".into()], ..whole(1) };
    let wrong = PodRecord { invalid: Some("no such thing".into()), ..pod("wrong", whole(1)) };
    add(&mut s, "gated", gated);
    s.apply(Event::Pod(Box::new(wrong))).unwrap();
    assert_eq!(pass(&mut s), ["gated waits", "wrong waits"]);
    assert_eq!(waiting(&s, "gated").headline(), "scheduling gate example.com/quota is closed");
    assert_eq!(waiting(&s, "wrong").headline(), "no such thing");
    add(&mut s, "gated", whole(1));
    assert_eq!(pass(&mut s), ["gated n 0"], "the gate is open");
}

#[test]
fn a_pass_can_be_cut_short_and_goes_on_where_it_stopped() {
    let mut s = cluster(Config::default(), [node("n", cards(8, 80))]);
    for i in 0..8 {
        add(&mut s, &format!("p{i}"), whole(1));
    }
    let sizes: Vec<usize> =
        std::iter::from_fn(|| Some(s.pass(3).units.len()).filter(|n| *n > 0)).collect();
    assert_eq!(sizes, [3, 3, 2]);
}

#[test]
fn bound_pods_hold_their_recorded_cards() {
    let mut s = cluster(Config::default(), [node("n", cards(2, 80))]);
    let bound = |cards| Some(Bound::new("n", cards));
    let share = CardShare { index: 1, bytes: Bytes(60 * GIB) };
    let recorded = PodRecord {
        bound: bound(BoundCards::Recorded(vec![share])),
        ..pod("running", fraction("0.75"))
    };
    s.apply(Event::Pod(Box::new(recorded.clone()))).unwrap();
    assert_eq!(place(&mut s, "new", fraction("0.25")), "new n 1");
    s.apply(Event::Pod(Box::new(recorded))).unwrap();
    assert_eq!(place(&mut s, "half", fraction("0.5")), "half n 0", "an echo changes nothing");

    let wrong = CardShare { index: 7, bytes: Bytes(1) };
    let recorded = BoundCards::Recorded(vec![wrong]);
    let stray = PodRecord { bound: bound(recorded), ..pod("stray", fraction("0.1")) };
    let problem = s.apply(Event::Pod(Box::new(stray))).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "pod ml/stray on n is recorded on card 7, which n does not have: until it has, or the pod is gone, no GPU is \
         given there"
    );
}

#[test]
fn a_bound_pod_without_a_record_is_given_cards_only_when_asked_to() {
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    let bound = |cards| Some(Bound::new("n", cards));
    let nothing = PodRecord { bound: bound(BoundCards::Nothing), ..pod("a", fraction("0.9")) };
    s.apply(Event::Pod(Box::new(nothing))).unwrap();
    assert_eq!(place(&mut s, "b", fraction("0.9")), "b n 0");
    gone(&mut s, "b");
    let choose = PodRecord { bound: bound(BoundCards::Choose), ..pod("c", fraction("0.9")) };
    s.apply(Event::Pod(Box::new(choose))).unwrap();
    assert_eq!(place(&mut s, "d", fraction("0.9")), "d waits");
}

#[test]
fn a_deleted_node_keeps_what_its_pods_hold_until_they_are_gone() {
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    place(&mut s, "p", fraction("0.9"));
    s.apply(Event::NodeGone("n".into())).unwrap();
    assert_eq!(place(&mut s, "q", fraction("0.9")), "q waits");
    s.apply(Event::Node(Box::new(node("n", cards(1, 80))))).unwrap();
    assert_eq!(pass(&mut s), [""; 0], "p may still run there");
    gone(&mut s, "p");
    assert_eq!(pass(&mut s), ["q n 0"]);
}

#[test]
fn a_pod_that_changed_while_it_waited_is_tried_before_it_is_reported_again() {
    // Found by the property tests: its old place in the list of reports was taken for its new one.
    let mut s = cluster(Config::default(), []);
    place(&mut s, "a", whole(1));
    add(&mut s, "b", whole(1));
    s.apply(Event::Node(Box::new(node("n", cards(2, 80))))).unwrap();
    add(&mut s, "a", fraction("0.5"));
    add(&mut s, "b", fraction("0.5"));
    let decided: Vec<Plan> = (0..2).map(|_| s.pass(1)).collect();
    assert!(
        decided.iter().all(|p| matches!(p.effects().last(), Some(PlanEffect::Bind { .. }))),
        "{decided:?}"
    );
}

#[test]
fn a_waiting_pod_is_woken_after_more_changes_than_the_journal_keeps() {
    let nodes = (0..20).map(|i| node(&format!("n{i:02}"), cards(2, 80)));
    let mut s = cluster(Config::default(), nodes);
    for i in 0..40 {
        add(&mut s, &format!("f{i}"), whole(1));
    }
    assert_eq!(pass(&mut s).len(), 40);
    assert_eq!(place(&mut s, "q", fraction("0.5")), "q waits");
    gone(&mut s, "f7");
    let at = s.scan(&pod("x", fraction("0.5"))).unwrap();
    let bound = Some(Bound::new("n19", BoundCards::Nothing));
    for _ in 0..40_000 {
        let record = PodRecord { bound: bound.clone(), ..pod("c", cpu(1)) };
        s.apply(Event::Pod(Box::new(record))).unwrap();
        gone(&mut s, "c");
    }
    assert_eq!(pass(&mut s), [format!("q {} {}", at.node, at.cards[0].index)]);
}

#[test]
fn shapes_that_were_forgotten_are_found_again() {
    let mut s = cluster(Config::default(), [node("a", cards(8, 80)), node("b", cards(8, 80))]);
    for round in 0..3 {
        for i in 0..9_000 {
            let spec = memory(1 + i);
            let expected = s
                .scan(&pod("x", spec.clone()))
                .map(|p| format!("p {} {}", p.node, p.cards[0].index));
            assert_eq!(place(&mut s, "p", spec), expected.unwrap(), "{round} {i}");
            gone(&mut s, "p");
        }
    }
}

#[test]
fn a_node_that_refused_a_pod_is_not_tried_again_while_it_is_avoided() {
    let mut s = cluster(Config::default(), ["a", "b"].map(|name| node(name, cards(1, 80))));
    let refused = |nodes: &[&str]| {
        let avoid = nodes.iter().map(|n| ((*n).into(), "not today".into())).collect();
        let rules = Rules { avoid, ..Rules::default() };
        PodSpec { rules: rules.into(), ..whole(1) }
    };
    assert_eq!(place(&mut s, "p", refused(&["a"])), "p b 0");
    gone(&mut s, "p");
    assert_eq!(place(&mut s, "p", refused(&["a", "b"])), "p waits");
    assert_eq!(reasons(&s, "p"), ["2 x binding failed: not today"]);
}

#[test]
fn a_paused_pod_says_why_and_is_not_tried() {
    let mut s = cluster(Config::default(), [node("a", cards(1, 80))]);
    let paused = PodRecord { paused: Some("3 times".into()), ..pod("p", whole(1)) };
    s.apply(Event::Pod(Box::new(paused))).unwrap();
    assert_eq!(pass(&mut s), ["p waits"]);
    assert_eq!(waiting(&s, "p").headline(), "binding failed: 3 times");
    assert_eq!(place(&mut s, "p", whole(1)), "p a 0");
}

/// Looks as little as it can at a time, and lets `between` happen in between; what was decided.
fn in_slices(s: &mut Scheduler, mut between: impl FnMut(&mut Scheduler, usize)) -> Vec<String> {
    let mut all = Vec::new();
    for slice in 0.. {
        let mut work = 1;
        let plan = s.slice(usize::MAX, &mut work);
        let is_over = work > 0 && plan.units.is_empty();
        all.extend(plan.effects().filter_map(told));
        if is_over {
            return all;
        }
        between(s, slice);
    }
    all
}

#[test]
fn work_in_slices_decides_the_same_in_the_same_order() {
    let make = || {
        let mut s =
            cluster(Config::default(), (0..20).map(|i| node(&format!("n{i:02}"), cards(4, 80))));
        for i in 0..60 {
            let mut spec = whole(1 + i % 5);
            spec.cpu = MilliCpu(u64::from(i));
            add(&mut s, &format!("p{i:02}"), spec);
        }
        s
    };
    let whole = pass(&mut make());
    assert_eq!(in_slices(&mut make(), |_, _| {}), whole);
}

#[test]
fn nobody_waits_for_all_that_another_namespace_has_made_before() {
    let mut s = cluster(Config::default(), (0..10).map(|i| node(&format!("n{i}"), cards(8, 80))));
    for i in 0..1000 {
        let mut spec = whole(99);
        spec.cpu = MilliCpu(i);
        let record =
            PodRecord { key: ObjectKey::new("many", &format!("p{i:04}")), ..pod("", spec) };
        s.apply(Event::Pod(Box::new(record))).unwrap();
    }
    let mut after = None;
    let told = in_slices(&mut s, |s, slice| {
        if slice == 10 {
            let late =
                PodRecord { created: 99, key: ObjectKey::new("one", "late"), ..pod("", whole(1)) };
            s.apply(Event::Pod(Box::new(late))).unwrap();
        }
        if after.is_none() && s.holding(&ObjectKey::new("one", "late")).is_some() {
            after = Some(slice);
        }
    });
    assert_eq!(told.len(), 1001);
    assert!(after.is_some_and(|slice| slice < 15), "placed in slice {after:?}");
}

#[test]
fn whoever_is_woken_in_slices_gets_what_was_freed_in_turn() {
    let mut s = cluster(Config::default(), [node("n", cards(1, 80))]);
    place(&mut s, "runs", whole(1));
    for i in 0..50 {
        let mut spec = whole(1);
        spec.cpu = MilliCpu(i);
        let record = PodRecord { priority: i as i32, ..pod(&format!("p{i:02}"), spec) };
        s.apply(Event::Pod(Box::new(record))).unwrap();
    }
    pass(&mut s);
    gone(&mut s, "runs");
    assert_eq!(in_slices(&mut s, |_, _| {}), ["p49 n 0"]);
}

#[test]
fn a_plan_says_which_cards_it_opens() {
    let mut s = cluster(Config::default(), [node("a", cards(2, 80))]);
    let mut opened = |name: &str, spec: PodSpec| {
        s.apply(Event::Pod(Box::new(pod(name, spec)))).unwrap();
        let Plan { units } = s.pass(usize::MAX);
        let [Unit { effects }] = &units[..] else { panic!("{units:?}") };
        let [opens @ .., PlanEffect::Bind { .. }] = &effects[..] else { panic!("{effects:?}") };
        let card = |effect: &PlanEffect| match effect {
            PlanEffect::Open { node, card } if **node == *"a" => *card,
            other => panic!("{other:?}"),
        };
        opens.iter().map(card).collect::<Vec<_>>()
    };
    assert_eq!(opened("first", fraction("0.5")), [0]);
    assert_eq!(opened("joins", fraction("0.25")), [0u32; 0]);
    assert_eq!(opened("whole", whole(1)), [0u32; 0], "nobody is to keep a whole card");
}
