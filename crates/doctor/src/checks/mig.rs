//! MIG: what nodes are to be divided into, and what came of it.

use crate::finding::Finding;
use crate::fix::{Fix, fix};
use crate::objects::{ConfigMap, Node};
use crate::observed::Observed;
use divvy_ledger::mig::{MigConfig, Model, check as judge};
use divvy_words::{is_mig_config, keys, mig_configs};

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    let found =
        [failed(cluster), pending(cluster), unknown(cluster), illegal(cluster), off(cluster)];
    found.into_iter().flatten().collect()
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.get(key).filter(|value| !value.is_empty())
}

/// Nodes that ask for a config, and what became of it.
fn with_state<'a>(cluster: &'a Observed, states: &[&str]) -> Vec<&'a Node> {
    let is = |node: &&Node| label(node, keys::LABEL_MIG_STATE).is_some_and(|s| states.contains(&s));
    cluster.nodes.iter().filter(is).collect()
}

fn said(node: &Node) -> String {
    let config = label(node, keys::LABEL_MIG_CONFIG).unwrap_or("none");
    let state = label(node, keys::LABEL_MIG_STATE).unwrap_or("none");
    let (of_config, of_state) = (keys::LABEL_MIG_CONFIG, keys::LABEL_MIG_STATE);
    format!("{}: {of_config}={config}, {of_state}={state}", node.called())
}

fn logs(cluster: &Observed) -> Fix {
    let manager = cluster.daemon_sets.iter().find(|set| set.runs("k8s-mig-manager"));
    let (namespace, name) = manager.map_or(("gpu-operator", "nvidia-mig-manager"), |set| {
        (&set.metadata.namespace, &set.metadata.name)
    });
    fix!("kubectl -n {namespace} logs daemonset/{name}   # says why", namespace, name)
}

fn failed(cluster: &Observed) -> Option<Finding> {
    let nodes = with_state(cluster, &["failed"]);
    (!nodes.is_empty()).then(|| {
        Finding::problem("mig-failed", "cards were not divided by MIG: it failed")
            .seen_at(nodes.iter().map(|node| said(node)))
            .fix(logs(cluster))
    })
}

fn pending(cluster: &Observed) -> Option<Finding> {
    let nodes = with_state(cluster, &["pending", "rebooting"]);
    (!nodes.is_empty()).then(|| {
        Finding::warning("mig-pending", "cards are still to be divided by MIG")
            .seen_at(nodes.iter().map(|node| said(node)))
            .fix(logs(cluster))
    })
}

/// All configs that were found, with their ConfigMap.
fn configs(cluster: &Observed) -> Vec<(&ConfigMap, Vec<MigConfig>)> {
    let maps = cluster.config_maps.iter().flatten();
    let of = |map: &ConfigMap| -> Vec<MigConfig> {
        let texts = map.data.values().filter(|text| is_mig_config(text));
        texts.flat_map(|text| mig_configs(text).unwrap_or_default()).collect()
    };
    maps.map(|map| (map, of(map))).filter(|(_, all)| !all.is_empty()).collect()
}

fn unknown(cluster: &Observed) -> Option<Finding> {
    let all = configs(cluster);
    let mut names = all.iter().flat_map(|(_, all)| all).map(|config| &*config.name);
    let is_known = |name: &str| all.iter().flat_map(|(_, all)| all).any(|one| one.name == name);
    let lacks =
        |node: &&Node| label(node, keys::LABEL_MIG_CONFIG).is_some_and(|name| !is_known(name));
    let nodes: Vec<&Node> = cluster.nodes.iter().filter(lacks).collect();
    let (first, (map, _)) = (nodes.first()?, all.first()?);
    let key = names.next().unwrap_or("CONFIG");
    Some(
        Finding::problem("unknown-mig-config", "nodes name a MIG config that is not there")
            .seen_at(nodes.iter().map(|node| said(node)))
            .seen(format!("configmap {} has no such config", map.metadata.key()))
            .fix(fix!(
                "kubectl label --overwrite node {node} {label}={key}",
                node = first.metadata.name,
                label = keys::LABEL_MIG_CONFIG,
                key
            )),
    )
}

/// A config that the model of the node's cards cannot be divided into.
fn illegal(cluster: &Observed) -> Option<Finding> {
    let all = configs(cluster);
    let wrong = |node: &Node| {
        let name = label(node, keys::LABEL_MIG_CONFIG)?;
        let model: &'static Model = label(node, keys::LABEL_GPU_PRODUCT)?.parse().ok()?;
        let config = all.iter().flat_map(|(_, all)| all).find(|config| config.name == name)?;
        let verdicts = judge(std::slice::from_ref(config), Some(model));
        let verdict = verdicts.first().filter(|verdict| !verdict.legal)?;
        let said = divvy_views::mig_check(std::slice::from_ref(verdict));
        let cards = said.items.iter().flat_map(|item| &item.cards);
        let reason = cards.filter_map(|cards| cards.reason.clone()).next().unwrap_or_default();
        Some(format!("{}: config {name} on {}: {reason}", node.called(), model.name))
    };
    let seen: Vec<String> = cluster.nodes.iter().filter_map(wrong).collect();
    let (map, _) = all.first()?;
    let (namespace, name) = (&map.metadata.namespace, &map.metadata.name);
    (!seen.is_empty()).then(|| {
        Finding::problem("mig-illegal", "cards cannot be divided as their MIG config says")
            .seen_at(seen)
            .fix(fix!(
                "kubectl -n {namespace} get configmap {name} -o yaml | divvy mig check -f -\n\
                 kubectl -n {namespace} edit configmap {name}",
                namespace,
                name
            ))
    })
}

/// The MIG manager is done, and the node hands out no slice.
fn off(cluster: &Observed) -> Option<Finding> {
    let all = configs(cluster);
    let is_off = |node: &&&Node| {
        let name = label(node, keys::LABEL_MIG_CONFIG);
        let mut configs = all.iter().flat_map(|(_, all)| all);
        let config = configs.find(|config| Some(&*config.name) == name);
        let divides = config.is_some_and(|config| {
            config.entries.iter().any(|e| e.enabled && !e.profiles.is_empty())
        });
        let is_mixed = label(node, keys::LABEL_MIG_STRATEGY) == Some("mixed");
        divides && is_mixed && !node.gpu_resources().any(|name| name.starts_with("nvidia.com/mig-"))
    };
    let nodes = with_state(cluster, &["success"]);
    let nodes: Vec<&&Node> = nodes.iter().filter(is_off).collect();
    let first = nodes.first()?;
    Some(
        Finding::problem(
            "mig-off",
            "nodes hand out no MIG slice, though their cards are to be divided",
        )
        .seen_at(nodes.iter().map(|node| said(node)))
        .fix(fix!(
            "nvidia-smi --query-gpu=mig.mode.current --format=csv   # on {node}: is the mode on?\n\
                 kubectl label --overwrite node {node} {label}=all-disabled   # and then the config again",
            node = first.metadata.name,
            label = keys::LABEL_MIG_CONFIG
        )),
    )
}
