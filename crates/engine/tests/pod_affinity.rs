//! Inter-pod affinity and anti-affinity, required and preferred, of the pod and of others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/relations.rs"]
mod relations;
use common::*;
use divvy_engine::*;
use relations::*;

fn near(of: &str, terms: &[(&str, &str)]) -> PodSpec {
    let affinity = terms.iter().map(|(pods, topology)| term(pods, topology)).collect();
    related(of, Relations { affinity, ..Relations::default() })
}

fn apart(of: &str, terms: &[(&str, &str)]) -> PodSpec {
    let anti_affinity = terms.iter().map(|(pods, topology)| term(pods, topology)).collect();
    related(of, Relations { anti_affinity, ..Relations::default() })
}

fn rather(of: &str, weight: i32, pods: &str, topology: &str) -> PodSpec {
    let preferred = vec![(weight, term(pods, topology))];
    related(of, Relations { preferred, ..Relations::default() })
}

fn namespace_labels(text: &str) -> Labels {
    labels(text).as_ref().clone()
}

fn db() -> Selector {
    selector("app=db")
}

#[test]
fn required_affinity_goes_where_one_pod_matches_all_terms() {
    for (why, running, pod, expected) in [
        ("the zone of the pod", &[("app=db", "a1")][..], near("", &[("app=db", "zone")]), "a1 a2"),
        ("the node of the pod", &[("app=db", "a1")], near("", &[("app=db", "host")]), "a1"),
        ("no such pod", &[("app=web", "a1")], near("", &[("app=db", "zone")]), ""),
        (
            "a pod on a node without the label is in no domain",
            &[("app=db", "c1")],
            near("", &[("app=db", "zone")]),
            "",
        ),
        (
            "one pod must match all terms, not each another",
            &[("app=db", "a1"), ("tier=x", "a1")],
            near("", &[("app=db", "zone"), ("tier=x", "zone")]),
            "",
        ),
        (
            "one pod that matches all terms",
            &[("app=db,tier=x", "a1")],
            near("", &[("app=db", "zone"), ("tier=x", "host")]),
            "a1",
        ),
        (
            "several pods that match",
            &[("app=db", "a1"), ("app=db", "b1")],
            near("", &[("app=db", "zone")]),
            "a1 a2 b1",
        ),
        (
            "the first of pods that want to be near each other, wherever the label is",
            &[],
            near("app=db", &[("app=db", "zone")]),
            "a1 a2 b1",
        ),
        (
            "not the first any more",
            &[("app=db", "b1")],
            near("app=db", &[("app=db", "zone")]),
            "b1",
        ),
        (
            "matching pods in no domain do not make it the second",
            &[("app=db", "c1")],
            near("app=db", &[("app=db", "zone")]),
            "a1 a2 b1",
        ),
        ("an empty selector means every pod", &[("app=x", "b1")], near("", &[("", "host")]), "b1"),
    ] {
        let mut s = zones();
        for (i, (labels, node)) in running.iter().enumerate() {
            runs(&mut s, &format!("r{i}"), node, labelled(labels));
        }
        assert_eq!(allowed(&s, &pod), expected, "{why}");
    }
}

#[test]
fn required_anti_affinity_holds_in_both_directions() {
    let web = || labelled("app=web");
    let shy = || apart("app=shy", &[("app=web", "zone")]);
    for (why, running, pod, expected) in [
        ("own term", (web(), "a1"), shy(), "b1 c1"),
        ("the term of a pod that is there", (shy(), "a1"), web(), "b1 c1"),
        ("a pod that the term does not mean", (shy(), "a1"), labelled("app=db"), "a1 a2 b1 c1"),
        ("a node without the label is in no domain", (web(), "c1"), shy(), "a1 a2 b1 c1"),
        ("by node", (web(), "a1"), apart("", &[("app=web", "host")]), "a2 b1 c1"),
        (
            "any of the terms",
            (web(), "a1"),
            apart("", &[("app=db", "zone"), ("app=web", "host")]),
            "a2 b1 c1",
        ),
    ] {
        let mut s = zones();
        runs(&mut s, "r", running.1, running.0);
        assert_eq!(allowed(&s, &pod), expected, "{why}");
    }
}

#[test]
fn a_term_means_pods_of_its_namespaces_or_of_namespaces_with_its_labels() {
    let team = || Selector::all([Requirement { key: "team".into(), test: Test::Exists }]);
    let no_team = || Selector::all([Requirement { key: "team".into(), test: Test::DoesNotExist }]);
    let none: [&str; 0] = [];
    let everything = || Selector::all([]);
    for (why, namespaces, selector, expected) in [
        ("the named one", &["other"][..], Selector::NOTHING, "b1"),
        ("another", &["ml"], Selector::NOTHING, ""),
        ("by label", &none, team(), "b1"),
        ("by name or label", &["ml"], team(), "b1"),
        ("by a label that is missing", &none, no_team(), ""),
        ("every namespace", &none, everything(), "b1"),
    ] {
        let mut s = zones();
        let (name, labels) = ("other".into(), namespace_labels("team=x"));
        s.apply(Event::Namespace { name, labels }).unwrap();
        let bound = Some(Bound::new("b1", BoundCards::Nothing));
        let key = ObjectKey::new("other", "r");
        let record = PodRecord { key, bound, ..pod("", labelled("app=db")) };
        s.apply(Event::Pod(Box::new(record))).unwrap();
        let namespaces = namespaces.iter().copied();
        let pods = PodSelector::new(namespaces, selector, db());
        let affinity = vec![PodTerm { pods, topology: "host".into() }];
        let spec = related("", Relations { affinity, ..Relations::default() });
        assert_eq!(allowed(&s, &spec), expected, "{why}");
    }
}

#[test]
fn a_namespace_that_gets_the_label_wakes_the_pod_that_waits_for_it() {
    let mut s = zones();
    let key = ObjectKey::new("other", "r");
    let bound = Some(Bound::new("b1", BoundCards::Nothing));
    s.apply(Event::Pod(Box::new(PodRecord { key, bound, ..pod("", labelled("app=db")) }))).unwrap();
    let none: [&str; 0] = [];
    let pods = PodSelector::new(none, selector("team=x"), selector("app=db"));
    let affinity = vec![PodTerm { pods, topology: "host".into() }];
    add(&mut s, "p", related("", Relations { affinity, ..Relations::default() }));
    assert_eq!(pass(&mut s), ["p waits"]);
    let namespace = |labels| Event::Namespace { name: "other".into(), labels };
    s.apply(namespace(namespace_labels("team=y"))).unwrap();
    assert_eq!(pass(&mut s), [""; 0]);
    s.apply(namespace(namespace_labels("team=x"))).unwrap();
    assert_eq!(pass(&mut s), ["p b1"]);
}

#[test]
fn preferences_of_the_pod_and_of_others_decide_among_nodes_that_fit() {
    for (why, running, pod, expected) in [
        ("near", labelled("app=db"), rather("", 5, "app=db", "host"), "new b1"),
        ("away", labelled("app=db"), rather("", -5, "app=db", "zone"), "new a1"),
        (
            "wanted by a pod that is there",
            rather("", 5, "app=new", "host"),
            labelled("app=new"),
            "new b1",
        ),
        (
            "needed by a pod that is there",
            near("app=new", &[("app=new", "host")]),
            labelled("app=new"),
            "new b1",
        ),
        ("unwanted", rather("", -5, "app=new", "host"), labelled("app=new"), "new a1"),
        ("of no concern", rather("", 5, "app=db", "host"), labelled("app=new"), "new a1"),
    ] {
        let mut s = zones();
        // Fuller than the others, so that packing would choose it.
        for node in ["a1", "a2", "c1"] {
            runs(&mut s, node, node, cpu(100));
        }
        runs(&mut s, "r", "b1", running);
        assert_eq!(place(&mut s, "new", pod), expected, "{why}");
    }
}

#[test]
fn preferences_bow_to_taints_and_outweigh_packing() {
    let mut s = zones();
    runs(&mut s, "db", "b1", labelled("app=db"));
    let mut tainted = node("b1", divvy_ledger::Gpus::none());
    tainted.facts.labels = vec![("host".into(), "b1".into()), ("zone".into(), "b".into())];
    let effect = Effect::PreferNoSchedule;
    tainted.facts.taints = vec![Taint { key: "t".into(), value: "".into(), effect }];
    s.apply(Event::Node(Box::new(tainted))).unwrap();
    assert_eq!(place(&mut s, "p", rather("", 100, "app=db", "zone")), "p a1");
}

#[test]
fn pods_that_avoid_each_other_take_a_domain_each_and_the_rest_says_why() {
    let mut s = zones();
    for name in ["p1", "p2", "p3", "p4"] {
        add(&mut s, name, apart("app=x", &[("app=x", "zone")]));
    }
    // A node without the label takes any number, as in kube-scheduler.
    assert_eq!(pass(&mut s), ["p1 a1", "p2 b1", "p3 c1", "p4 c1"]);
    s.apply(Event::NodeGone("c1".into())).unwrap();
    add(&mut s, "p5", apart("app=x", &[("app=x", "zone")]));
    assert_eq!(pass(&mut s), ["p5 waits"]);
    assert_eq!(reasons(&s, "p5"), ["3 x pod anti-affinity: a pod in the same zone"]);
    gone(&mut s, "p2");
    assert_eq!(pass(&mut s), ["p5 b1"]);
}

#[test]
fn the_pod_in_the_way_is_named() {
    let one = || {
        let mut s = zones();
        for name in ["a2", "b1", "c1"] {
            s.apply(Event::NodeGone(name.into())).unwrap();
        }
        s
    };
    let mut s = one();
    runs(&mut s, "x", "a1", labelled("app=web"));
    add(&mut s, "p", apart("", &[("app=web", "zone")]));
    add(&mut s, "q", near("", &[("app=db", "zone")]));
    pass(&mut s);
    assert_eq!(reasons(&s, "p"), ["1 x pod anti-affinity: ml/x on zone=a"]);
    assert_eq!(reasons(&s, "q"), ["1 x no pod matches the required pod affinity"]);
    let mut s = one();
    runs(&mut s, "x", "a1", apart("", &[("app=web", "zone")]));
    add(&mut s, "p", labelled("app=web"));
    pass(&mut s);
    assert_eq!(reasons(&s, "p"), ["1 x pod anti-affinity of others: ml/x on zone=a"]);
}

#[test]
fn of_several_pods_in_the_way_the_first_by_name_is_named_whoever_came_first() {
    for order in [["x", "y"], ["y", "x"]] {
        let mut s = zones();
        for name in ["b1", "c1"] {
            s.apply(Event::NodeGone(name.into())).unwrap();
        }
        for name in order {
            runs(&mut s, name, "a1", apart("app=db", &[("app=web", "zone")]));
        }
        add(&mut s, "p", labelled("app=web"));
        add(&mut s, "q", apart("", &[("app=db", "zone")]));
        pass(&mut s);
        let theirs = "2 x pod anti-affinity of others: ml/x on zone=a";
        assert_eq!(reasons(&s, "p"), [theirs], "{order:?}");
        assert_eq!(reasons(&s, "q"), ["2 x pod anti-affinity: ml/x on zone=a"], "{order:?}");
    }
}

#[test]
fn reasons_of_affinity_tell_missing_labels_from_missing_pods() {
    let mut s = zones();
    runs(&mut s, "x", "b1", PodSpec { cpu: divvy_ledger::MilliCpu(64_000), ..labelled("app=db") });
    add(&mut s, "p", near("", &[("app=db", "zone")]));
    pass(&mut s);
    let expected = [
        "2 x no pod that the required pod affinity asks for is near",
        "1 x free CPU 0 < 0.001 asked",
        "1 x no label zone, which pod affinity asks for",
    ];
    assert_eq!(reasons(&s, "p"), expected);
}

#[test]
fn a_pod_that_waits_already_learns_of_a_new_pods_anti_affinity() {
    let mut s = zones();
    for name in ["a2", "b1", "c1"] {
        s.apply(Event::NodeGone(name.into())).unwrap();
    }
    // Plain pods of one shape wait for CPU; then somebody comes who does not want them near.
    runs(&mut s, "full", "a1", cpu(64_000));
    add(&mut s, "p", labelled("app=web"));
    add(&mut s, "q", labelled("app=db"));
    assert_eq!(pass(&mut s), ["p waits", "q waits"]);
    runs(&mut s, "shy", "a1", apart("", &[("app=web", "zone")]));
    gone(&mut s, "full");
    assert_eq!(pass(&mut s), ["q a1"]);
    gone(&mut s, "shy");
    assert_eq!(pass(&mut s), ["p a1"]);
}

#[test]
fn a_pod_that_nothing_concerns_is_not_tried_again() {
    let mut s = zones();
    add(&mut s, "p", near("", &[("app=db", "zone")]));
    assert_eq!(pass(&mut s), ["p waits"]);
    let searches = s.searches();
    for i in 0..5 {
        runs(&mut s, &format!("r{i}"), "a1", labelled("app=web"));
        assert_eq!(pass(&mut s), [""; 0]);
        gone(&mut s, &format!("r{i}"));
        assert_eq!(pass(&mut s), [""; 0]);
    }
    assert_eq!(s.searches(), searches, "web comes and goes, but the pod waits for db");
    runs(&mut s, "db", "b1", labelled("app=db"));
    assert_eq!(pass(&mut s), ["p b1"]);
}

#[test]
fn a_label_that_changes_on_a_running_pod_counts_at_once() {
    let mut s = zones();
    runs(&mut s, "r", "b1", labelled("app=web"));
    add(&mut s, "p", near("", &[("app=db", "zone")]));
    assert_eq!(pass(&mut s), ["p waits"]);
    runs(&mut s, "r", "b1", labelled("app=db"));
    assert_eq!(pass(&mut s), ["p b1"]);
}
