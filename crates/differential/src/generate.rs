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
    /// A little of everything.
    Mixed,
}

impl Group {
    /// Whether cases of this group have something of `part`: those about it always do.
    fn has(self, part: Self, random: &mut Random) -> bool {
        self == part || (self == Self::Mixed && random.once_in(3))
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
    let nodes: Vec<String> = (1..=random.between(1, 8)).map(|i| format!("n{i}")).collect();
    let mut objects: Vec<Value> =
        nodes.iter().map(|name| nodes::node(group, name, random)).collect();
    for namespace in pods::NAMESPACES {
        let mut labels = json!({"kubernetes.io/metadata.name": namespace});
        if !random.once_in(4) {
            labels["team"] = random.pick(&["a", "b"]).into();
        }
        objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": labels},
        }));
    }
    let most = if random.once_in(4) { 20 } else { 6 };
    for index in 0..random.below(most + 1) {
        objects.push(pods::bound(group, index, &nodes, random));
    }
    Case { objects, pod: pods::waiting(group, &nodes, random) }
}

/// Sets a field of an object, and of the objects on the way to it.
fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut at = object;
    for key in path {
        at = &mut at[*key];
    }
    *at = value;
}
