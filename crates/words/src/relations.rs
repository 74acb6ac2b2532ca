//! What a pod asks of other pods and of the node's ports, with Kubernetes' defaults filled in.

use crate::affinity::requirement;
use crate::manifest::{
    Container, LabelSelector, Metadata, PodAffinityTerm, PodManifest, Port, SpreadConstraint,
    WeightedPodAffinityTerm,
};
use crate::problem::{Problems, short};
use divvy_engine::{
    HostPort, PodSelector, PodTerm, Protocol, Relations, Requirement, Selector, Spread, Test,
    Values,
};

/// Says where something stands, when something is wrong with it.
type Path<'a> = &'a dyn Fn() -> String;

/// The pod whose relations are read.
struct Own<'a> {
    metadata: &'a Metadata,
    namespace: &'a str,
}

/// The relations of a pod; `None` if it has none. What is wrong is left out and noted.
pub(crate) fn relations(
    metadata: &Metadata,
    namespace: &str,
    spec: &PodManifest,
    problems: &mut Problems,
) -> Option<Relations> {
    let own = Own { metadata, namespace };
    let mut relations = Relations { ports: ports(spec, problems), ..Relations::default() };
    let affinity = spec.affinity.as_deref();
    let near = affinity.and_then(|a| a.pod_affinity.as_ref());
    let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    for (field, affinity, sign) in [("podAffinity", near, 1), ("podAntiAffinity", apart, -1)] {
        let Some(affinity) = affinity else { continue };
        let path = |kind: &str, index: usize| {
            format!("spec.affinity.{field}.{kind}DuringSchedulingIgnoredDuringExecution[{index}]")
        };
        let required =
            if sign > 0 { &mut relations.affinity } else { &mut relations.anti_affinity };
        for (index, given) in affinity.required.iter().enumerate() {
            required.extend(term(given, &own, &|| path("required", index), problems));
        }
        for (index, given) in affinity.preferred.iter().enumerate() {
            let found = weighted(given, &own, &|| path("preferred", index), problems);
            relations.preferred.extend(found.map(|(weight, term)| (sign * weight, term)));
        }
    }
    for (index, given) in spec.topology_spread_constraints.iter().enumerate() {
        let path = || format!("spec.topologySpreadConstraints[{index}]");
        relations.spread.extend(spread(given, &own, &path, problems));
    }
    (relations != Relations::default()).then_some(relations)
}

/// Ports of the node that the containers take as long as the pod runs.
fn ports(spec: &PodManifest, problems: &mut Problems) -> Vec<HostPort> {
    let is_sidecar = |c: &Container| &*c.restart_policy == "Always";
    let mut ports = Vec::new();
    for (field, containers) in
        [("initContainers", &spec.init_containers), ("containers", &spec.containers)]
    {
        for (index, container) in containers.iter().enumerate() {
            if field == "initContainers" && !is_sidecar(container) {
                continue;
            }
            for (number, given) in container.ports.iter().enumerate() {
                let path = || format!("spec.{field}[{index}].ports[{number}]");
                ports.extend(port(given, spec.host_network, &path, problems));
            }
        }
    }
    ports.sort();
    ports.dedup();
    ports
}

fn port(
    given: &Port,
    host_network: bool,
    path: Path<'_>,
    problems: &mut Problems,
) -> Option<HostPort> {
    // On the node's network a container's port is one of the node; the API server writes it down.
    let own = given.container_port.filter(|_| host_network);
    let number = given.host_port.filter(|port| *port != 0).or(own).filter(|port| *port != 0)?;
    let Some(port) = u16::try_from(number).ok() else {
        problems.note(|| format!("{}.hostPort: {number}; allowed are 1 to 65535", path()));
        return None;
    };
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let protocol = match &*given.protocol {
        "" => Some(Protocol::Tcp),
        text => all.into_iter().find(|protocol| protocol.as_str() == text),
    };
    let Some(protocol) = protocol else {
        problems.note(|| {
            let text = short(&given.protocol);
            format!("{}.protocol: {text:?} is no protocol; allowed are TCP, UDP, SCTP", path())
        });
        return None;
    };
    let is_one = !given.host_ip.is_empty() && &*given.host_ip != "0.0.0.0";
    let ip = is_one.then(|| given.host_ip.clone());
    Some(HostPort { port, protocol, ip })
}

fn weighted(
    given: &WeightedPodAffinityTerm,
    own: &Own<'_>,
    path: Path<'_>,
    problems: &mut Problems,
) -> Option<(i32, PodTerm)> {
    let Some(weight) = given.weight.filter(|weight| (1..=100).contains(weight)) else {
        problems.note(|| {
            let weight = given.weight.map_or("missing".to_owned(), |w| w.to_string());
            format!("{}.weight: {weight}; allowed are 1 to 100", path())
        });
        return None;
    };
    let path = || format!("{}.podAffinityTerm", path());
    Some((weight, term(&given.pod_affinity_term, own, &path, problems)?))
}

fn term(
    given: &PodAffinityTerm,
    own: &Own<'_>,
    path: Path<'_>,
    problems: &mut Problems,
) -> Option<PodTerm> {
    let topology = topology_key(&given.topology_key, path, problems)?;
    let mut labels =
        selector(given.label_selector.as_ref(), &|| format!("{}.labelSelector", path()), problems);
    let namespace_selector = selector(
        given.namespace_selector.as_ref(),
        &|| format!("{}.namespaceSelector", path()),
        problems,
    );
    // The API server has entered the keys in the selector of a pod that it knows.
    if own.metadata.uid.is_empty() {
        merge(&mut labels, &given.match_label_keys, own, Test::In);
        merge(&mut labels, &given.mismatch_label_keys, own, Test::NotIn);
    }
    let names_none = given.namespaces.is_empty() && given.namespace_selector.is_none();
    let namespaces: Vec<Box<str>> =
        if names_none { vec![own.namespace.into()] } else { given.namespaces.clone() };
    Some(PodTerm { pods: PodSelector::new(namespaces, namespace_selector, labels), topology })
}

fn spread(
    given: &SpreadConstraint,
    own: &Own<'_>,
    path: Path<'_>,
    problems: &mut Problems,
) -> Option<Spread> {
    let topology = topology_key(&given.topology_key, path, problems)?;
    let mut refuse = |field: &str, why: String| {
        problems.note(|| format!("{}.{field}: {why}", path()));
    };
    let above_zero = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    let Some(max_skew) = above_zero(given.max_skew) else {
        let skew = given.max_skew.map_or("missing".to_owned(), |n| n.to_string());
        refuse("maxSkew", format!("{skew}; a number above 0 is required"));
        return None;
    };
    let required = match &*given.when_unsatisfiable {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => {
            let why = format!("{:?}; allowed are DoNotSchedule, ScheduleAnyway", short(other));
            refuse("whenUnsatisfiable", why);
            return None;
        }
    };
    if let Some(n) = given.min_domains.filter(|n| *n <= 0) {
        refuse("minDomains", format!("{n}; a number above 0 is required"));
    } else if given.min_domains.is_some() && !required {
        refuse("minDomains", "allowed only with whenUnsatisfiable: DoNotSchedule".to_owned());
    }
    let mut honors = |field: &str, text: &str, default| match text {
        "" => default,
        "Honor" => true,
        "Ignore" => false,
        other => {
            refuse(field, format!("{:?}; allowed are Honor, Ignore", short(other)));
            default
        }
    };
    let honor_affinity = honors("nodeAffinityPolicy", &given.node_affinity_policy, true);
    let honor_taints = honors("nodeTaintsPolicy", &given.node_taints_policy, false);
    let min_domains = above_zero(given.min_domains).unwrap_or(1);
    let mut selector =
        selector(given.label_selector.as_ref(), &|| format!("{}.labelSelector", path()), problems);
    merge(&mut selector, &given.match_label_keys, own, Test::In);
    Some(Spread {
        topology,
        max_skew,
        required,
        selector,
        min_domains,
        honor_affinity,
        honor_taints,
    })
}

fn topology_key(key: &str, path: Path<'_>, problems: &mut Problems) -> Option<Box<str>> {
    if key.is_empty() {
        problems.note(|| format!("{}.topologyKey: missing; a node label is required", path()));
        return None;
    }
    Some(key.into())
}

fn selector(given: Option<&LabelSelector>, path: Path<'_>, problems: &mut Problems) -> Selector {
    let Some(given) = given else { return Selector::NOTHING };
    let field = || format!("{}.matchLabels", path());
    problems.note_some(|| given.match_labels.problem(&field(), "label values"));
    let equal = |(key, value): (&str, &str)| is_one_of(key, Test::In, value);
    let mut all: Vec<Requirement> = given.match_labels.iter().map(equal).collect();
    for (index, expression) in given.match_expressions.iter().enumerate() {
        let path = || format!("{}.matchExpressions[{index}]", path());
        if matches!(&*expression.operator, "Gt" | "Lt") {
            problems.note(|| {
                let operator = &expression.operator;
                let allowed = "allowed for pods are In, NotIn, Exists, DoesNotExist";
                format!("{}.operator: {operator:?}; {allowed}", path())
            });
            continue;
        }
        all.extend(requirement(expression, &path, problems));
    }
    Selector::all(all)
}

/// Enters the pod's own values of labels. An absent selector stays absent.
fn merge(selector: &mut Selector, keys: &[Box<str>], own: &Own<'_>, test: fn(Values) -> Test) {
    let Some(all) = &mut selector.0 else { return };
    let values = keys.iter().filter_map(|key| Some((key, own.metadata.labels.get(key)?)));
    let added: Vec<Requirement> = values.map(|(key, value)| is_one_of(key, test, value)).collect();
    if !added.is_empty() {
        *all = all.iter().cloned().chain(added).collect();
    }
}

fn is_one_of(key: &str, test: fn(Values) -> Test, value: &str) -> Requirement {
    Requirement { key: key.into(), test: test(vec![value.into()].into()) }
}

#[cfg(test)]
mod tests;
