use crate::{Priorities, pod, testing};
use divvy_engine::{
    HostPort, PodSelector, PodTerm, Protocol, Relations, Requirement, Selector, Spread, Test,
};

fn parsed_as(metadata: &str, spec: &str) -> (Relations, Option<String>) {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: ml, {metadata}}}\n\
         spec: {{{spec}}}\n"
    );
    let (metadata, spec) = testing::pod(&text);
    let record = pod(&metadata, &spec, None, None, &Priorities::default());
    let relations = record.spec.relations.map(|r| (*r).clone());
    (relations.unwrap_or_default(), record.invalid)
}

fn parsed(spec: &str) -> (Relations, Option<String>) {
    parsed_as("labels: {app: web, tier: a}", spec)
}

fn is(key: &str, value: &str) -> Requirement {
    Requirement { key: key.into(), test: Test::In(vec![value.into()].into()) }
}

fn required(field: &str, term: &str) -> String {
    format!("affinity: {{{field}: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}")
}

#[test]
fn a_pod_without_relations_has_none() {
    for spec in [
        "containers: [{name: c}]",
        "containers: [{name: c, ports: [{containerPort: 80}, {hostPort: 0}]}]",
        "affinity: {podAffinity: {}, podAntiAffinity: null}, topologySpreadConstraints: []",
        // An init container is gone before the others start.
        "containers: [{name: c}], initContainers: [{name: i, ports: [{hostPort: 80}]}]",
    ] {
        assert_eq!(parsed(spec), (Relations::default(), None), "{spec}");
    }
}

#[test]
fn host_ports_are_those_of_containers_and_sidecars() {
    let (relations, invalid) = parsed(
        "initContainers: [{name: s, restartPolicy: Always, ports: [{hostPort: 81, protocol: UDP}]}], \
         containers: [{name: c, ports: [{hostPort: 80, hostIP: 10.0.0.1}, {hostPort: 80, hostIP: 0.0.0.0}]}]",
    );
    let port =
        |port, protocol, ip: Option<&str>| HostPort { port, protocol, ip: ip.map(Into::into) };
    let expected = vec![
        port(80, Protocol::Tcp, None),
        port(80, Protocol::Tcp, Some("10.0.0.1")),
        port(81, Protocol::Udp, None),
    ];
    assert_eq!((relations.ports, invalid), (expected, None));
    let (relations, _) = parsed(
        "hostNetwork: true, containers: [{name: c, ports: [{containerPort: 80}, {containerPort: 9, hostPort: 9}]}]",
    );
    let expected = vec![port(9, Protocol::Tcp, None), port(80, Protocol::Tcp, None)];
    assert_eq!(relations.ports, expected);
}

#[test]
fn a_term_without_namespaces_means_the_own_one() {
    let web = || Selector::all([is("app", "web")]);
    let team = || Selector::all([is("team", "x")]);
    let everything = || Selector::all([]);
    let nowhere = || Selector::NOTHING;
    let none: [&str; 0] = [];
    let own = "labelSelector: {matchLabels: {app: web}}";
    for (term, pods) in [
        (own.to_owned(), PodSelector::new(["ml"], nowhere(), web())),
        (format!("{own}, namespaces: [b, a, b]"), PodSelector::new(["a", "b"], nowhere(), web())),
        (
            format!("{own}, namespaceSelector: {{matchLabels: {{team: x}}}}"),
            PodSelector::new(none, team(), web()),
        ),
        (
            format!("{own}, namespaces: [a], namespaceSelector: {{}}"),
            PodSelector::new(["a"], everything(), web()),
        ),
        // No selector matches nothing, an empty one everything.
        (String::new(), PodSelector::new(["ml"], nowhere(), nowhere())),
        ("labelSelector: {}".to_owned(), PodSelector::new(["ml"], nowhere(), everything())),
    ] {
        let expected = vec![PodTerm { pods, topology: "zone".into() }];
        let given = format!("{{topologyKey: zone, {term}}}");
        let (relations, invalid) = parsed(&required("podAffinity", &given));
        assert_eq!((relations.affinity, invalid), (expected.clone(), None), "{term}");
        let (relations, _) = parsed(&required("podAntiAffinity", &given));
        assert_eq!(relations.anti_affinity, expected, "{term}");
    }
}

#[test]
fn preferred_anti_affinity_has_a_negative_weight() {
    let term = "{weight: 7, podAffinityTerm: {topologyKey: zone, labelSelector: {}}}";
    let preferred = format!("preferredDuringSchedulingIgnoredDuringExecution: [{term}]");
    let spec =
        format!("affinity: {{podAffinity: {{{preferred}}}, podAntiAffinity: {{{preferred}}}}}");
    let weights: Vec<i32> =
        parsed(&spec).0.preferred.into_iter().map(|(weight, _)| weight).collect();
    assert_eq!(weights, [7, -7]);
}

#[test]
fn label_keys_are_entered_where_the_api_server_has_not_done_so() {
    let term = "{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, \
                matchLabelKeys: [tier, absent], mismatchLabelKeys: [app]}";
    let not = Requirement { key: "app".into(), test: Test::NotIn(vec!["web".into()].into()) };
    let all = [is("app", "web"), is("tier", "a"), not];
    let spec = required("podAffinity", term);
    let pods = |relations: Relations| relations.affinity[0].pods.clone();
    let expected = PodSelector::new(["ml"], Selector::NOTHING, Selector::all(all));
    assert_eq!(pods(parsed(&spec).0), expected);
    let (known, _) = parsed_as("uid: u, labels: {app: web, tier: a}", &spec);
    let plain = PodSelector::new(["ml"], Selector::NOTHING, Selector::all([is("app", "web")]));
    assert_eq!(pods(known), plain);
}

#[test]
fn spread_constraints_are_read_with_their_defaults() {
    let plain = Spread {
        topology: "zone".into(),
        max_skew: 1,
        required: true,
        selector: Selector::NOTHING,
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    };
    let web = Selector::all([is("app", "web"), is("tier", "a")]);
    for (given, expected) in [
        ("", plain.clone()),
        (
            "minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor",
            Spread { min_domains: 3, honor_affinity: false, honor_taints: true, ..plain.clone() },
        ),
        (
            "labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [tier]",
            Spread { selector: web, ..plain },
        ),
    ] {
        let spec = format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: zone, \
             whenUnsatisfiable: DoNotSchedule, {given}}}]"
        );
        assert_eq!(
            parsed(&spec),
            (Relations { spread: vec![expected], ..Relations::default() }, None)
        );
    }
}

#[test]
fn what_is_wrong_names_the_field_the_value_and_what_is_allowed() {
    let spread = |given: &str| format!("topologySpreadConstraints: [{{{given}}}]");
    let port = |given: &str| format!("containers: [{{name: c, ports: [{{{given}}}]}}]");
    for (spec, problem) in [
        (
            required("podAffinity", "{labelSelector: {}}"),
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]\
             .topologyKey: missing; a node label is required",
        ),
        (
            required(
                "podAntiAffinity",
                "{topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}",
            ),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]\
             .labelSelector.matchExpressions[0].operator: \"Gt\"; allowed for pods are In, NotIn, \
             Exists, DoesNotExist",
        ),
        (
            "affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: \
             [{weight: 101, podAffinityTerm: {topologyKey: z}}]}}"
                .to_owned(),
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: \
             101; allowed are 1 to 100",
        ),
        (
            spread("topologyKey: z, whenUnsatisfiable: DoNotSchedule"),
            "spec.topologySpreadConstraints[0].maxSkew: missing; a number above 0 is required",
        ),
        (
            spread("topologyKey: z, maxSkew: 1, whenUnsatisfiable: Never"),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: \"Never\"; allowed are \
             DoNotSchedule, ScheduleAnyway",
        ),
        (
            spread("topologyKey: z, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, minDomains: 2"),
            "spec.topologySpreadConstraints[0].minDomains: allowed only with whenUnsatisfiable: \
             DoNotSchedule",
        ),
        (
            spread(
                "topologyKey: z, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: x",
            ),
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy: \"x\"; allowed are Honor, Ignore",
        ),
        (
            port("hostPort: 70000"),
            "spec.containers[0].ports[0].hostPort: 70000; allowed are 1 to 65535",
        ),
        (
            port("hostPort: 80, protocol: tcp"),
            "spec.containers[0].ports[0].protocol: \"tcp\" is no protocol; allowed are TCP, UDP, SCTP",
        ),
    ] {
        assert_eq!(parsed(&spec).1.as_deref(), Some(problem), "{spec}");
    }
}
