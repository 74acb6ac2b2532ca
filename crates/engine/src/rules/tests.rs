use super::*;

fn facts(labels: &[(&str, &str)], taints: &[(&str, &str, Effect)]) -> NodeFacts {
    NodeFacts {
        labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        taints: taints
            .iter()
            .map(|(k, v, effect)| Taint { key: (*k).into(), value: (*v).into(), effect: *effect })
            .collect(),
        ..NodeFacts::default()
    }
}

fn requirement(key: &str, test: Test) -> Requirement {
    Requirement { key: key.into(), test }
}

fn values(texts: &[&str]) -> Values {
    texts.iter().map(|t| (*t).into()).collect::<Vec<_>>().into()
}

#[test]
fn affinity_operators_decide_as_kubernetes_does() {
    let node = facts(&[("gpus", "8"), ("pool", "ml"), ("word", "x8")], &[]);
    for (key, test, holds) in [
        ("pool", Test::In(values(&["ml", "web"])), true),
        ("pool", Test::In(values(&["web"])), false),
        ("none", Test::In(values(&["ml"])), false),
        ("pool", Test::NotIn(values(&["web"])), true),
        ("pool", Test::NotIn(values(&["ml"])), false),
        ("none", Test::NotIn(values(&["ml"])), true),
        ("pool", Test::Exists, true),
        ("none", Test::Exists, false),
        ("pool", Test::DoesNotExist, false),
        ("none", Test::DoesNotExist, true),
        ("gpus", Test::Gt(7), true),
        ("gpus", Test::Gt(8), false),
        ("gpus", Test::Lt(9), true),
        ("gpus", Test::Lt(8), false),
        ("word", Test::Gt(0), false),
        ("none", Test::Lt(9), false),
    ] {
        let term = Term { labels: vec![requirement(key, test.clone())], fields: vec![] };
        let rules = Rules { required: Some(vec![term]), ..Rules::default() };
        assert_eq!(rules.judge("n", &node).is_ok(), holds, "{key} {test:?}");
    }
}

#[test]
fn one_term_must_hold_and_all_of_it() {
    let node = facts(&[("a", "1"), ("b", "2")], &[]);
    let has = |key| requirement(key, Test::Exists);
    let term = |labels: Vec<Requirement>| Term { labels, fields: vec![] };
    for (terms, holds) in [
        (vec![term(vec![has("a"), has("b")])], true),
        (vec![term(vec![has("a"), has("c")])], false),
        (vec![term(vec![has("c")]), term(vec![has("b")])], true),
        (vec![term(vec![])], false),
        (vec![], false),
    ] {
        let rules = Rules { required: Some(terms.clone()), ..Rules::default() };
        assert_eq!(rules.judge("n", &node).is_ok(), holds, "{terms:?}");
    }
}

#[test]
fn fields_match_the_name_of_the_node() {
    let named = |test| Term { labels: vec![], fields: vec![requirement("metadata.name", test)] };
    let only = Rules { required: Some(vec![named(Test::In(values(&["n1"])))]), ..Rules::default() };
    assert!(only.judge("n1", &NodeFacts::default()).is_ok());
    assert_eq!(only.judge("n2", &NodeFacts::default()), Err(Barred::Affinity));
    assert_eq!(only.only_nodes(), Some(vec!["n1"]));
    let not =
        Rules { required: Some(vec![named(Test::NotIn(values(&["n1"])))]), ..Rules::default() };
    assert!(not.judge("n1", &NodeFacts::default()).is_err());
    assert_eq!(not.only_nodes(), None);
}

#[test]
fn taints_keep_off_pods_that_do_not_tolerate_them() {
    let tolerate = |key: Option<&str>, value: Option<&str>, effect| Toleration {
        key: key.map(Into::into),
        value: value.map(Into::into),
        effect,
    };
    let node = facts(&[], &[("gpu", "maintenance", Effect::NoSchedule)]);
    for (toleration, runs) in [
        (tolerate(Some("gpu"), Some("maintenance"), Some(Effect::NoSchedule)), true),
        (tolerate(Some("gpu"), Some("maintenance"), None), true),
        (tolerate(Some("gpu"), None, None), true),
        (tolerate(None, None, None), true),
        (tolerate(Some("gpu"), Some("other"), None), false),
        (tolerate(Some("cpu"), None, None), false),
        (tolerate(Some("gpu"), None, Some(Effect::NoExecute)), false),
    ] {
        let rules = Rules { tolerations: vec![toleration.clone()], ..Rules::default() };
        assert_eq!(rules.judge("n", &node).is_ok(), runs, "{toleration:?}");
    }
    assert!(Rules::default().judge("n", &node).is_err());
    let down = facts(&[], &[("node.kubernetes.io/not-ready", "", Effect::NoExecute)]);
    assert!(Rules::default().judge("n", &down).is_err(), "readiness acts through taints");
}

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_the_cordon() {
    let node = NodeFacts { unschedulable: true, ..NodeFacts::default() };
    assert_eq!(Rules::default().judge("n", &node), Err(Barred::Cordoned));
    let tolerant = Toleration { key: Some(CORDON.into()), value: None, effect: None };
    let rules = Rules { tolerations: vec![tolerant], ..Rules::default() };
    assert!(rules.judge("n", &node).is_ok());
}

#[test]
fn fewer_taints_to_avoid_come_before_preferred_affinity() {
    let liked = facts(&[("a", "1")], &[("x", "", Effect::PreferNoSchedule)]);
    let clean = facts(&[], &[]);
    let term = Term { labels: vec![requirement("a", Test::Exists)], fields: vec![] };
    let rules = Rules { preferred: vec![(100, term.clone()), (7, term)], ..Rules::default() };
    let on = |node| rules.judge("n", node).unwrap();
    assert!(on(&clean) > on(&liked));
    let liked = facts(&[("a", "1")], &[]);
    assert!(on(&liked) > on(&clean));
    assert_eq!(on(&liked).0 - on(&clean).0, 107, "weights add up");
}
