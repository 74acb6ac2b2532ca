//! The pods that are measured with.

use super::stage::NAMESPACE;
use divvy_testbed::manifests::{pod, with_fraction, with_gpus, with_hand_off};
use serde_json::{Value, json};

/// What the pods of a run ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// One whole GPU each.
    Whole,
    /// Half a card each.
    Shares,
    /// No GPU.
    Nothing,
    /// No GPU, for a container with the variables of a share's.
    Variables,
    /// This part of a card each, for a container that reads its card from the binding.
    Part(&'static str),
    /// One whole GPU each; one pod in twenty spreads over zones, one in twenty keeps apart.
    Related,
}

pub const DIVVY: &str = "divvy-scheduler";
pub const KUBE: &str = "default-scheduler";

pub fn name(i: usize) -> String {
    format!("p-{i:06}")
}

/// Pod number `i` of a run.
pub fn make(i: usize, asked: Asked, scheduler: &str) -> Value {
    let plain = pod(NAMESPACE, &name(i), scheduler);
    let mut pod = match asked {
        Asked::Nothing => plain,
        Asked::Variables => with_hand_off(plain),
        Asked::Shares => with_fraction(plain, "0.5", 1),
        Asked::Part(fraction) => with_hand_off(with_fraction(plain, fraction, 1)),
        Asked::Whole | Asked::Related => with_gpus(plain, 1),
    };
    if asked == Asked::Related && i.is_multiple_of(10) {
        // Twenty of a kind, so that there are enough nodes for each kind.
        let app = json!({"app": format!("a{}", i / 400)});
        let selector = json!({"matchLabels": app});
        pod["metadata"]["labels"] = app;
        if i.is_multiple_of(20) {
            pod["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
            }]);
        } else {
            pod["spec"]["affinity"] = json!({"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "topologyKey": "kubernetes.io/hostname", "labelSelector": selector,
                }],
            }});
        }
    }
    pod
}

/// A pod that is bound already, padded to about 6 KB: every second one holds a share.
pub fn make_bound(i: usize, nodes: usize) -> Value {
    let plain = pod(NAMESPACE, &name(i), DIVVY);
    let mut pod = if i.is_multiple_of(2) { plain } else { with_fraction(plain, "0.5", 1) };
    let (node, slot) = (i % nodes, i / nodes);
    if !i.is_multiple_of(2) {
        let record = format!("{}:{}", slot % 8, (81_920u64 << 20) / 2);
        pod["metadata"]["annotations"]["divvy.dev/cards"] = json!(record);
    }
    pod["spec"]["nodeName"] = json!(format!("node-{node:05}"));
    pod["metadata"]["labels"] = json!({"app": format!("app-{}", i % 500), "team": "ml"});
    let env = (0..20).map(|v| json!({"name": format!("SETTING_{v}"), "value": "x".repeat(60)}));
    pod["spec"]["containers"][0]["env"] = env.collect::<Vec<_>>().into();
    pod["metadata"]["annotations"]["example.com/note"] = json!("n".repeat(1200));
    pod
}
