use crate::{Priorities, pod, testing};
use divvy_engine::{Effect, Requirement, Rules, Term, Test, Toleration};

fn parsed(spec: &str) -> (Rules, Option<String>) {
    let text = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}}}\n");
    let (metadata, spec) = testing::pod(&text);
    let record = pod(&metadata, &spec, None, None, &Priorities::default());
    ((*record.spec.rules).clone(), record.invalid)
}

fn required(expressions: &str) -> String {
    format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{{expressions}}}]}}}}}}"
    )
}

#[test]
fn every_operator_is_read() {
    let words = |words: &[&str]| words.iter().map(|w| (*w).into()).collect::<Vec<_>>().into();
    for (expression, test) in [
        ("operator: In, values: [a, b]", Test::In(words(&["a", "b"]))),
        ("operator: NotIn, values: [a]", Test::NotIn(words(&["a"]))),
        ("operator: Exists", Test::Exists),
        ("operator: DoesNotExist, values: null", Test::DoesNotExist),
        ("operator: Gt, values: ['5']", Test::Gt(5)),
        ("operator: Lt, values: ['-5']", Test::Lt(-5)),
    ] {
        let spec = required(&format!("matchExpressions: [{{key: zone, {expression}}}]"));
        let labels = vec![Requirement { key: "zone".into(), test }];
        let expected = Some(vec![Term { labels, fields: vec![] }]);
        assert_eq!(parsed(&spec), (Rules { required: expected, ..Rules::default() }, None));
    }
    let (rules, invalid) =
        parsed(&required("matchFields: [{key: metadata.name, operator: In, values: [n1]}]"));
    assert_eq!((rules.only_nodes(), invalid), (Some(vec!["n1"]), None));
}

#[test]
fn selector_name_preferences_and_tolerations_are_read() {
    let (rules, invalid) = parsed(
        "nodeName: n1, nodeSelector: {b: '2', a: x}, affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: {matchExpressions: [{key: k, operator: Exists}]}}]}},
         tolerations: [{operator: Exists}, {key: a, value: b, effect: NoExecute}, {key: c, operator: Equal}, {key: d, operator: Exists, effect: NoSchedule}]",
    );
    assert_eq!(invalid, None);
    assert_eq!(rules.node_name.as_deref(), Some("n1"));
    assert_eq!(rules.selector, [("a".into(), "x".into()), ("b".into(), "2".into())]);
    assert_eq!(rules.preferred.len(), 1);
    assert_eq!(rules.preferred[0].0, 7);
    let toleration = |key: Option<&str>, value: Option<&str>, effect| Toleration {
        key: key.map(Into::into),
        value: value.map(Into::into),
        effect,
    };
    assert_eq!(
        rules.tolerations,
        [
            toleration(None, None, None),
            toleration(Some("a"), Some("b"), Some(Effect::NoExecute)),
            toleration(Some("c"), Some(""), None),
            toleration(Some("d"), None, Some(Effect::NoSchedule)),
        ]
    );
}

#[test]
fn what_is_wrong_is_named_with_its_field() {
    let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let expression = |e: &str| required(&format!("matchExpressions: [{{key: k, {e}}}]"));
    let field = |e: &str| required(&format!("matchFields: [{{{e}}}]"));
    let preferred = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101}]}}";
    for (spec, expected) in [
        (expression("operator: in"), format!("{terms}[0].matchExpressions[0].operator: \"in\" is no operator; allowed are In, NotIn, Exists, DoesNotExist, Gt, Lt")),
        (expression("operator: In"), format!("{terms}[0].matchExpressions[0].values: empty; operator In requires at least one value")),
        (expression("operator: Exists, values: [a]"), format!("{terms}[0].matchExpressions[0].values: \"a\" is given; operator Exists allows no values")),
        (expression("operator: Gt, values: ['1', '2']"), format!("{terms}[0].matchExpressions[0].values: 2 are given; operator Gt requires exactly one")),
        (expression("operator: Gt, values: [a]"), format!("{terms}[0].matchExpressions[0].values: \"a\" is no integer, which operator Gt requires")),
        (required("matchExpressions: [{operator: Exists}]"), format!("{terms}[0].matchExpressions[0].key: missing; a label is required")),
        (field("key: metadata.uid, operator: In, values: [a]"), format!("{terms}[0].matchFields[0].key: \"metadata.uid\" is no field for node selection; allowed is metadata.name")),
        (field("key: metadata.name, operator: Exists"), format!("{terms}[0].matchFields[0].operator: \"Exists\"; allowed for a field are In, NotIn")),
        (field("key: metadata.name, operator: In, values: [a, b]"), format!("{terms}[0].matchFields[0].values: 2 are given; a field requires exactly one")),
        ("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}".to_owned(), format!("{terms}: empty; at least one term is required")),
        (preferred.to_owned(), "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: 101; allowed are 1 to 100".to_owned()),
        ("tolerations: [{key: a, effect: never}]".to_owned(), "spec.tolerations[0].effect: \"never\" is no effect; allowed are NoSchedule, PreferNoSchedule, NoExecute".to_owned()),
        ("tolerations: [{value: a}]".to_owned(), "spec.tolerations[0].operator: must be Exists when key is empty, which tolerates all".to_owned()),
        ("tolerations: [{key: a, operator: Exists, value: b}]".to_owned(), "spec.tolerations[0].value: \"b\"; must be empty when operator is Exists".to_owned()),
        ("tolerations: [{key: a, operator: Gt}]".to_owned(), "spec.tolerations[0].operator: \"Gt\" is no operator; allowed are Equal, Exists".to_owned()),
        ("nodeSelector: {a: 1}".to_owned(), "spec.nodeSelector[\"a\"]: 1 is a number; node selector values are strings, write \"1\"".to_owned()),
    ] {
        assert_eq!(parsed(&spec).1, Some(expected), "{spec}");
    }
}
