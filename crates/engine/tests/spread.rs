//! Topology spread constraints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/relations.rs"]
mod relations;
use common::*;
use divvy_engine::*;
use relations::*;

/// At most one more `app=web` in a zone than in the zone with the fewest.
fn even() -> Spread {
    Spread {
        topology: "zone".into(),
        max_skew: 1,
        required: true,
        selector: selector("app=web"),
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    }
}

fn spread(of: &str, constraints: &[Spread]) -> PodSpec {
    related(of, Relations { spread: constraints.to_vec(), ..Relations::default() })
}

#[test]
fn a_domain_may_not_exceed_the_least_by_more_than_the_skew() {
    let host = || Spread { topology: "host".into(), ..even() };
    for (why, running, of, constraints, expected) in [
        ("nothing there", &[][..], "app=web", vec![even()], "a1 a2 b1"),
        ("one more in a", &["a1"], "app=web", vec![even()], "b1"),
        ("even again", &["a1", "b1"], "app=web", vec![even()], "a1 a2 b1"),
        ("a larger skew", &["a1"], "app=web", vec![Spread { max_skew: 2, ..even() }], "a1 a2 b1"),
        ("a pod that does not count itself", &["a1"], "app=db", vec![even()], "a1 a2 b1"),
        ("and still counts the others", &["a1", "a2"], "app=db", vec![even()], "b1"),
        ("by node, and every node has the label", &["a1"], "app=web", vec![host()], "a2 b1 c1"),
        (
            "both, on nodes that have both labels",
            &["a1", "b1"],
            "app=web",
            vec![even(), host()],
            "a2",
        ),
        (
            "fewer domains than asked: the least counts as none",
            &["a1", "b1"],
            "app=web",
            vec![Spread { min_domains: 3, ..even() }],
            "",
        ),
        (
            "a selector of everything counts nobody but the pod",
            &["a1", "a1", "a1"],
            "app=web",
            vec![Spread { selector: selector(""), ..even() }],
            "a1 a2 b1",
        ),
        (
            "a selector of nothing counts nobody",
            &["a1", "a1", "a1"],
            "app=web",
            vec![Spread { selector: Selector::NOTHING, ..even() }],
            "a1 a2 b1",
        ),
        (
            "a wish keeps nobody off",
            &["a1", "a1", "a1"],
            "app=web",
            vec![Spread { required: false, ..even() }],
            "a1 a2 b1 c1",
        ),
    ] {
        let mut s = zones();
        for (i, node) in running.iter().enumerate() {
            runs(&mut s, &format!("r{i}"), node, labelled("app=web"));
        }
        assert_eq!(allowed(&s, &spread(of, &constraints)), expected, "{why}");
    }
}

#[test]
fn policies_say_which_nodes_count() {
    let taint = Taint { key: "t".into(), value: "".into(), effect: Effect::NoSchedule };
    for (why, honor_affinity, honor_taints, only_a, expected) in [
        ("zone b is not for the pod, so a alone is even", true, false, true, "a1 a2"),
        ("zone b counts although the pod cannot go there", false, false, true, ""),
        ("tainted b counts", true, false, false, ""),
        ("tainted b does not count", true, true, false, "a1 a2"),
    ] {
        let mut s = zones();
        let mut b = node("b1", divvy_ledger::Gpus::none());
        b.facts.labels = vec![("host".into(), "b1".into()), ("zone".into(), "b".into())];
        if !only_a {
            b.facts.taints = vec![taint.clone()];
        }
        s.apply(Event::Node(Box::new(b))).unwrap();
        runs(&mut s, "r", "a1", labelled("app=web"));
        let constraint = Spread { honor_affinity, honor_taints, ..even() };
        let mut spec = spread("app=web", &[constraint]);
        if only_a {
            let rules = Rules { selector: vec![("zone".into(), "a".into())], ..Rules::default() };
            spec.rules = rules.into();
        }
        assert_eq!(allowed(&s, &spec), expected, "{why}");
    }
}

#[test]
fn pods_of_other_namespaces_and_pods_that_are_going_do_not_count() {
    let mut s = zones();
    let bound = |terminating| Some(Bound { terminating, ..Bound::new("a1", BoundCards::Nothing) });
    let other = PodRecord {
        key: ObjectKey::new("other", "x"),
        bound: bound(false),
        ..pod("", labelled("app=web"))
    };
    s.apply(Event::Pod(Box::new(other))).unwrap();
    let going = |is| PodRecord { bound: bound(is), ..pod("going", labelled("app=web")) };
    s.apply(Event::Pod(Box::new(going(true)))).unwrap();
    assert_eq!(allowed(&s, &spread("app=web", &[even()])), "a1 a2 b1");
    s.apply(Event::Pod(Box::new(going(false)))).unwrap();
    assert_eq!(allowed(&s, &spread("app=web", &[even()])), "b1");
}

#[test]
fn replicas_go_round_and_the_rest_says_by_how_much() {
    let mut s = zones();
    s.apply(Event::NodeGone("c1".into())).unwrap();
    runs(&mut s, "full", "b1", cpu(63_998));
    for i in 1..=6 {
        add(&mut s, &format!("p{i}"), spread("app=web", &[even()]));
    }
    let plan = pass(&mut s);
    let in_b = plan.iter().filter(|line| line.ends_with(" b1")).count();
    let in_a = plan.iter().filter(|line| line.contains(" a")).count();
    assert_eq!((in_b, in_a), (2, 3), "{plan:?}");
    assert_eq!(
        reasons(&s, "p6"),
        ["2 x topology spread zone: skew would be 2 > 1", "1 x free CPU 0 < 0.001 asked"]
    );
    gone(&mut s, "full");
    assert_eq!(pass(&mut s), ["p6 b1"]);
}

#[test]
fn a_wish_is_followed_among_nodes_that_fit() {
    let mut s = zones();
    let soft = || spread("app=web", &[Spread { required: false, ..even() }]);
    let places: Vec<String> = (1..=4).map(|i| place(&mut s, &format!("p{i}"), soft())).collect();
    assert_eq!(places, ["p1 a1", "p2 b1", "p3 a1", "p4 b1"]);
}

#[test]
fn a_node_without_the_label_says_so() {
    let mut s = zones();
    for name in ["a1", "a2", "b1"] {
        s.apply(Event::NodeGone(name.into())).unwrap();
    }
    add(&mut s, "p", spread("app=web", &[even()]));
    pass(&mut s);
    assert_eq!(reasons(&s, "p"), ["1 x no label zone, which topology spread asks for"]);
}
