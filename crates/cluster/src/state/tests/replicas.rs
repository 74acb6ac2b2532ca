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

#[test]
fn what_a_refused_pod_teaches_outlives_a_card_that_fails() {
    let mut state = state_of(vec![sliced(4, "any")], None);
    assert_eq!(two(&mut state), "bind ml/two v10 to a -");
    let refused = bound(&whole("two", 2), "a", "");
    let refused = with(
        &refused,
        "status",
        json!({
            "phase": "Failed", "reason": "UnexpectedAdmissionError",
            "message": "maximum request size for shared resources is 1; found 2",
        }),
    );
    see(&mut state, &refused);
    let mut hurt = sliced(4, "any");
    hurt.status.allocatable = serde_json::from_value(json!({
        "cpu": "32", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "28",
    }))
    .unwrap();
    state.node_changed(Change::Seen(hurt));
    see(&mut state, &whole("next", 2));
    let said = acts(&mut state).join("; ");
    assert!(said.contains("tell ml/next") && said.contains(TOLD), "{said}");
}
