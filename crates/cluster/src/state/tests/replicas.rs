//! Replicas of which the device plugin gives a container one: as its config says, or a pod that it refused.

use super::*;
use divvy_words::PluginConfigs;

const TOLD: &str = "a container gets one of its time slices, 2 asked";

/// Node `a` with eight cards in time slices; the config of its device plugin is called so.
fn sliced(replicas: u32, config: &str) -> NodeItem {
    let node = json!({
        "metadata": {"name": "a", "labels": {
            "nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": replicas.to_string(),
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
            "nvidia.com/device-plugin.config": config,
        }},
        "status": {"allocatable": {
            "cpu": "32", "memory": "64Gi", "pods": "110",
            "nvidia.com/gpu": (8 * replicas).to_string(),
        }},
    });
    serde_json::from_value(node).unwrap()
}

fn configs(named: &[(&str, bool)]) -> PluginConfigs {
    let text = |fails: bool| {
        format!(
            "sharing: {{timeSlicing: {{failRequestsGreaterThanOne: {fails}, resources: [{{name: \
             nvidia.com/gpu, replicas: 4}}]}}}}"
        )
    };
    let texts: Vec<(&str, String)> = named.iter().map(|(name, it)| (*name, text(*it))).collect();
    PluginConfigs::read(texts.iter().map(|(name, text)| (*name, text.as_str()))).unwrap()
}

/// What becomes of a pod of two.
fn two(state: &mut State) -> String {
    see(state, &whole("two", 2));
    acts(state).join("; ")
}

#[test]
fn what_the_plugins_config_refuses_is_not_sent_there_and_is_once_it_does_not() {
    let mut state = state_of(vec![sliced(4, "any")], None);
    state.plugin_configured(configs(&[("any", true)]));
    let said = two(&mut state);
    assert!(said.starts_with("tell ml/two") && said.contains(TOLD), "{said}");
    state.plugin_configured(configs(&[("any", false)]));
    assert_eq!(acts(&mut state), ["bind ml/two v10 to a -"]);
}

#[test]
fn a_node_that_takes_another_config_is_looked_at_again() {
    let mut state = state_of(vec![sliced(4, "lax")], None);
    state.plugin_configured(configs(&[("strict", true), ("lax", false)]));
    state.node_changed(Change::Seen(sliced(4, "strict")));
    let said = two(&mut state);
    assert!(said.contains(TOLD), "{said}");
    // The config of a node that has other replicas is not in force there.
    state.node_changed(Change::Seen(sliced(2, "strict")));
    assert_eq!(acts(&mut state), ["bind ml/two v10 to a -"]);
}

/// The same node while its device plugin hands out so many.
fn handing_out(count: &str) -> NodeItem {
    let mut node = sliced(4, "any");
    let amounts = json!({"cpu": "32", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": count});
    node.status.allocatable = serde_json::from_value(amounts).unwrap();
    node
}

/// A state whose device plugin has refused a pod of two.
fn taught() -> State {
    let mut state = state_of(vec![sliced(4, "any")], None);
    assert_eq!(two(&mut state), "bind ml/two v10 to a -");
    let refused = json!({
        "phase": "Failed", "reason": "UnexpectedAdmissionError",
        "message": "maximum request size for shared resources is 1; found 2",
    });
    see(&mut state, &with(&bound(&whole("two", 2), "a", ""), "status", refused));
    state
}

#[test]
fn what_a_refused_pod_teaches_outlives_a_card_that_fails() {
    let mut state = taught();
    state.node_changed(Change::Seen(handing_out("28")));
    see(&mut state, &whole("next", 2));
    let said = acts(&mut state).join("; ");
    assert!(said.contains("tell ml/next") && said.contains(TOLD), "{said}");
}

#[test]
fn what_a_refused_pod_teaches_ends_with_the_device_plugin_that_refused() {
    let mut state = taught();
    for count in ["0", "32"] {
        state.node_changed(Change::Seen(handing_out(count)));
    }
    see(&mut state, &whole("next", 2));
    assert_eq!(acts(&mut state), ["bind ml/next v10 to a -"]);
}
