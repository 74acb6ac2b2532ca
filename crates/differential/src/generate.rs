//! Random small clusters with few distinct labels, zones, ports and claims, so that much of what
//! can meet does meet.

mod affinity;
mod nodes;
mod pods;
mod ports;
mod relations;
mod resources;
mod spread;
mod status;
mod taints;
mod volumes;

use crate::case::Case;
use crate::random::Random;
use serde_json::{Value, json};
use std::fmt;

/// Which predicates a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// CPU, memory, storage, pod slots, huge pages, extended resources, GPUs; resizes.
    Resources,
    /// Taints and tolerations, cordon.
    Taints,
    /// Node selector, node affinity, node name.
    Affinity,
    /// Host ports.
    Ports,
    /// Affinity and anti-affinity between pods.
    PodAffinity,
    /// Topology spread constraints.
    Spread,
    /// Claims, volumes, storage classes, drivers and their limits.
    Volumes,
    /// A little of everything.
    Mixed,
}

/// What the objects of one case may have something of.
struct Parts(Vec<Group>);

impl Parts {
    fn new(group: Group, random: &mut Random) -> Self {
        use Group::{Affinity, Mixed, PodAffinity, Ports, Resources, Spread, Taints, Volumes};
        let all = [Resources, Taints, Affinity, Ports, PodAffinity, Spread, Volumes];
        let mut parts = vec![group];
        match group {
            Mixed => parts.extend(all.into_iter().filter(|_| random.once_in(2))),
            // The policies of a constraint look at these.
            Spread => parts.extend([Taints, Affinity].into_iter().filter(|_| random.once_in(3))),
            _ => {}
        }
        Self(parts)
    }

    fn has(&self, part: Group) -> bool {
        self.0.contains(&part)
    }

    /// Whether one object has something of it; not all do where there is much else.
    fn is_on(&self, part: Group, random: &mut Random) -> bool {
        self.has(part) && (self.0.len() == 1 || !random.once_in(3))
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resources => "resources",
            Self::Taints => "taints",
            Self::Affinity => "affinity",
            Self::Ports => "ports",
            Self::PodAffinity => "pod affinity",
            Self::Spread => "spread",
            Self::Volumes => "volumes",
            Self::Mixed => "mixed",
        })
    }
}

/// Labels of nodes and their values; the first three are topologies.
const NODE_LABELS: [(&str, &[&str]); 5] = [
    ("topology.kubernetes.io/zone", &["z1", "z2", "z3"]),
    ("kubernetes.io/hostname", &[]),
    ("rack", &["r1", "r2", ""]),
    ("disk", &["ssd", "hdd", ""]),
    ("size", &["1", "5", "10", "007", "big"]),
];

/// Labels that divide the nodes, and one that none has.
const TOPOLOGIES: [&str; 4] =
    ["topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack", "missing"];

/// The case of a seed.
pub fn generate(group: Group, seed: u64) -> Case {
    let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ group as u64);
    let random = &mut random;
    let parts = Parts::new(group, random);
    let most = if random.once_in(12) { 1 } else { random.between(2, 8) };
    let nodes: Vec<String> = (1..=most).map(|i| format!("n{i}")).collect();
    let mut objects: Vec<Value> =
        nodes.iter().map(|name| nodes::node(&parts, name, random)).collect();
    objects.extend(pods::NAMESPACES.map(|name| namespace(name, random)));
    if parts.has(Group::Volumes) {
        objects.extend(volumes::objects(&nodes, random));
    }
    let most = random.pick(&[6, 12, 20, 20]);
    let mut pods: Vec<Value> = (0..random.below(most + 1))
        .map(|index| pods::bound(&parts, index, &nodes, random))
        .collect();
    pods.push(pods::waiting(&parts, &nodes, random));
    objects.extend(pods.iter().flat_map(|pod| volumes::made_for(pod, random)));
    let pod = pods.pop().unwrap_or_default();
    objects.extend(pods);
    // News may come in any order.
    random.shuffle(&mut objects);
    Case { objects, pod }
}

fn namespace(name: &str, random: &mut Random) -> Value {
    let mut labels = json!({"kubernetes.io/metadata.name": name});
    if !random.once_in(4) {
        labels["team"] = random.pick(&["a", "b"]).into();
    }
    let metadata = json!({"name": name, "labels": labels});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
}

/// Sets a field of an object, and of the objects on the way to it.
fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut at = object;
    for key in path {
        at = &mut at[*key];
    }
    *at = value;
}
