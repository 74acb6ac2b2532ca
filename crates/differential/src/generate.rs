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
use divvy_testbed::dice::Dice;
use serde_json::{Value, json};
use std::fmt;

/// Which predicates a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
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
struct Parts(Vec<Topic>);

impl Parts {
    fn new(topic: Topic, dice: &mut Dice) -> Self {
        use Topic::{Affinity, Mixed, PodAffinity, Ports, Resources, Spread, Taints, Volumes};
        let all = [Resources, Taints, Affinity, Ports, PodAffinity, Spread, Volumes];
        let mut parts = vec![topic];
        match topic {
            Mixed => parts.extend(all.into_iter().filter(|_| dice.once_in(2))),
            // The policies of a constraint look at these.
            Spread => parts.extend([Taints, Affinity].into_iter().filter(|_| dice.once_in(3))),
            _ => {}
        }
        Self(parts)
    }

    fn has(&self, part: Topic) -> bool {
        self.0.contains(&part)
    }

    /// Whether one object has something of it; not all do where there is much else.
    fn is_on(&self, part: Topic, dice: &mut Dice) -> bool {
        self.has(part) && (self.0.len() == 1 || !dice.once_in(3))
    }
}

impl fmt::Display for Topic {
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
pub fn generate(topic: Topic, seed: u64) -> Case {
    let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ topic as u64);
    let dice = &mut dice;
    let parts = Parts::new(topic, dice);
    let most = if dice.once_in(12) { 1 } else { dice.between(2, 8) };
    let nodes: Vec<String> = (1..=most).map(|i| format!("n{i}")).collect();
    let mut objects: Vec<Value> =
        nodes.iter().map(|name| nodes::node(&parts, name, dice)).collect();
    objects.extend(pods::NAMESPACES.map(|name| namespace(name, dice)));
    if parts.has(Topic::Volumes) {
        objects.extend(volumes::objects(&nodes, dice));
    }
    let most = dice.of(&[6, 12, 20, 20]);
    let mut pods: Vec<Value> =
        (0..dice.index(most + 1)).map(|index| pods::bound(&parts, index, &nodes, dice)).collect();
    pods.push(pods::waiting(&parts, &nodes, dice));
    objects.extend(pods.iter().flat_map(|pod| volumes::made_for(pod, dice)));
    let pod = pods.pop().unwrap_or_default();
    objects.extend(pods);
    // News may come in any order.
    dice.shuffle(&mut objects);
    Case { objects, pod }
}

fn namespace(name: &str, dice: &mut Dice) -> Value {
    let mut labels = json!({"kubernetes.io/metadata.name": name});
    if !dice.once_in(4) {
        labels["team"] = dice.of(&["a", "b"]).into();
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
