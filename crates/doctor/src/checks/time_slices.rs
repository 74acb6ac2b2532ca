//! Time slices and MPS replicas: what the device plugin is told, and what nodes hand out.

use crate::finding::Finding;
use crate::fix::fix;
use crate::objects::{ConfigMap, Node};
use crate::observed::Observed;
use divvy_words::{PluginConfig, keys, plugin_config};
use serde_json::json;

/// The config that the plugin takes if nobody names one.
const DEFAULT: &str = "default";

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    let found = [
        unused(cluster),
        without_map(cluster),
        without_default(cluster),
        unknown_config(cluster),
        wrong_config(cluster),
        not_handed_out(cluster),
    ];
    found.into_iter().flatten().collect()
}

/// The name of the ConfigMap with the device plugin's configs, and which config is for nodes that
/// name none.
fn named(cluster: &Observed) -> Option<(&str, &str)> {
    let policies = cluster.cluster_policies.iter();
    let mut of_policies = policies.map(|policy| &policy.spec.device_plugin.config);
    if let Some(choice) = of_policies.find(|choice| !choice.name.is_empty()) {
        return Some((&choice.name, &choice.default));
    }
    let volumes = cluster.plugins().flat_map(|set| &set.spec.template.spec.volumes);
    let mut maps = volumes.filter_map(|volume| volume.config_map.as_ref());
    // The GPU operator keeps a script in such a volume, too.
    let map = maps.find(|map| !map.name.ends_with("-entrypoint"))?;
    Some((&map.name, DEFAULT))
}

fn map(cluster: &Observed) -> Option<&ConfigMap> {
    let (name, _) = named(cluster)?;
    let mut all = cluster.config_maps.iter().flatten();
    all.find(|map| map.metadata.name == name)
}

/// The config that a node gets: its label's, else the default, else the only one.
fn config_of<'a>(cluster: &'a Observed, map: &'a ConfigMap, node: &'a Node) -> Option<&'a str> {
    let (_, default) = named(cluster)?;
    let label = node.metadata.labels.get(keys::LABEL_PLUGIN_CONFIG);
    let name = label.filter(|name| !name.is_empty()).or_else(|| {
        let only = map.data.keys().next().filter(|_| map.data.len() == 1 && !has_policy(cluster));
        let default = Some(default).filter(|name| !name.is_empty());
        default.filter(|name| map.data.contains_key(*name)).or(only.map(String::as_str))
    })?;
    map.data.get_key_value(name).map(|(key, _)| key.as_str())
}

fn has_policy(cluster: &Observed) -> bool {
    cluster.cluster_policies.iter().next().is_some()
}

fn divides(config: &PluginConfig) -> bool {
    config.sharing.as_ref().is_some_and(|sharing| !sharing.resources.is_empty())
}

/// A config that divides cards is there, and the device plugin is given none.
fn unused(cluster: &Observed) -> Option<Finding> {
    let policy = cluster.cluster_policies.iter().next();
    let plugin = cluster.plugins().next();
    if named(cluster).is_some() || (policy.is_none() && plugin.is_none()) {
        return None;
    }
    let place = place(cluster);
    let key_of = |map: &ConfigMap| {
        let divides = |(_, text): &(&String, &String)| {
            plugin_config(text).is_ok_and(|config| divides(&config))
        };
        map.data.iter().find(divides).map(|(key, _)| key.clone())
    };
    let all = cluster.other_maps.iter().flatten();
    let all = all.filter(|map| map.metadata.namespace == place);
    let unused: Vec<_> = all.filter_map(|map| Some((map, key_of(map)?))).collect();
    let (map, key) = unused.first()?;
    let seen =
        unused.iter().map(|(map, key)| format!("configmap {}: data[{key:?}]", map.metadata.key()));
    let name = &map.metadata.name;
    let (said, fix) = match (policy, plugin) {
        (Some(policy), _) => {
            let config = json!({"name": name, "default": key});
            let choice = json!({"spec": {"devicePlugin": {"config": config}}}).to_string();
            let policy = &policy.metadata.name;
            let fix = fix!(
                "kubectl patch clusterpolicies.nvidia.com {policy} --type=merge -p {choice}",
                policy,
                choice
            );
            (format!("ClusterPolicy {policy} names no ConfigMap for the device plugin"), fix)
        }
        (None, plugin) => {
            let set = plugin.map_or_else(String::new, |set| set.metadata.key());
            let fix = fix!(
                "helm upgrade nvdp nvdp/nvidia-device-plugin -n {place} --reuse-values --set config.name={name}",
                place,
                name
            );
            (format!("daemonset {set} has no ConfigMap among its volumes"), fix)
        }
    };
    Some(
        Finding::problem(
            "unused-plugin-config",
            "a config of the device plugin is there, and nobody gives it to the plugin: no card is divided",
        )
        .seen(said)
        .seen_at(seen)
        .fix(fix),
    )
}

/// The ConfigMap that is named, but is not there.
fn without_map(cluster: &Observed) -> Option<Finding> {
    let (name, _) = named(cluster)?;
    let is_hidden = cluster.config_maps.iter().any(|map| map.why_hidden().is_some());
    if is_hidden || map(cluster).is_some() {
        return None;
    }
    Some(
        Finding::problem(
            "no-plugin-config",
            "the device plugin's ConfigMap is missing: no card is divided",
        )
        .seen(format!("ConfigMap {name} is named, and is not there"))
        .fix(fix!(
            "kubectl -n {place} create configmap {name} --from-file=FILE",
            place = place(cluster),
            name
        )),
    )
}

fn place(cluster: &Observed) -> &str {
    cluster.plugins().next().map_or("gpu-operator", |set| &set.metadata.namespace)
}

/// The operator gives a node without a label no config, unless the policy says which.
fn without_default(cluster: &Observed) -> Option<Finding> {
    let (policy, map) = (cluster.cluster_policies.iter().next()?, map(cluster)?);
    let choice = &policy.spec.device_plugin.config;
    let key = match map.data.contains_key(&choice.default) {
        true => return None,
        false => {
            map.data.iter().find(|(_, text)| plugin_config(text).is_ok_and(|c| divides(&c)))?.0
        }
    };
    let lacks = |node: &&Node| {
        node.has_gpus() && node.metadata.labels.get(keys::LABEL_PLUGIN_CONFIG).is_none()
    };
    let nodes: Vec<String> = cluster.nodes.iter().filter(lacks).map(Node::called).collect();
    if nodes.is_empty() {
        return None;
    }
    let (policy, name) = (&policy.metadata.name, &choice.name);
    let said = match &*choice.default {
        "" => "says no default".to_owned(),
        other => format!("says {other:?}, which is no key of it"),
    };
    let choice = json!({"spec": {"devicePlugin": {"config": {"name": name, "default": key}}}});
    Some(
        Finding::problem(
            "no-default-config",
            "nodes get no config of the device plugin: no card is divided",
        )
        .seen(format!("ClusterPolicy {policy} names ConfigMap {name} and {said}"))
        .seen_at(nodes)
        .fix(fix!(
            "kubectl patch clusterpolicies.nvidia.com {policy} --type=merge -p {choice}",
            policy,
            choice = choice.to_string()
        )),
    )
}

/// A label that names a config which is not in the ConfigMap: the plugin does not start there.
fn unknown_config(cluster: &Observed) -> Option<Finding> {
    let map = map(cluster);
    let unknown = |node: &&Node| {
        let label = node.metadata.labels.get(keys::LABEL_PLUGIN_CONFIG).unwrap_or_default();
        !label.is_empty() && map.is_some_and(|map| !map.data.contains_key(label))
    };
    let nodes: Vec<&Node> = cluster.nodes.iter().filter(unknown).collect();
    let (first, map) = (nodes.first()?, map?);
    let label = keys::LABEL_PLUGIN_CONFIG;
    let known: Vec<&str> = map.data.keys().take(8).map(String::as_str).collect();
    let seen = |node: &&Node| {
        let name = node.metadata.labels.get(label).unwrap_or_default();
        format!("{}: {label}={name}", node.called())
    };
    let key = known.first().unwrap_or(&"CONFIG");
    Some(
        Finding::problem(
            "unknown-plugin-config",
            "nodes name a config of the device plugin that is not there",
        )
        .seen_at(nodes.iter().map(seen))
        .seen(format!("configmap {} has {}", map.metadata.key(), known.join(", ")))
        .fix(fix!(
            "kubectl label --overwrite node {node} {label}={key}",
            node = first.metadata.name,
            label,
            key
        )),
    )
}

/// A config that the plugin cannot read, or reads otherwise than meant.
fn wrong_config(cluster: &Observed) -> Option<Finding> {
    let map = map(cluster)?;
    let wrong = |(key, text): (&String, &String)| {
        let why = plugin_config(text).err()?;
        Some(format!("configmap {} data[{key:?}]: {why}", map.metadata.key()))
    };
    let seen: Vec<String> = map.data.iter().filter_map(wrong).collect();
    let (namespace, name) = (&map.metadata.namespace, &map.metadata.name);
    (!seen.is_empty()).then(|| {
        Finding::problem("wrong-plugin-config", "the device plugin cannot read its config")
            .seen_at(seen)
            .fix(fix!("kubectl -n {namespace} edit configmap {name}", namespace, name))
    })
}

/// The config says how many, and the node hands out fewer: the plugin has not read it yet.
fn not_handed_out(cluster: &Observed) -> Option<Finding> {
    let map = map(cluster)?;
    let lacking = |node: &Node| {
        // Where cards are divided by MIG, slices are divided again; what comes of it is not counted here.
        if node.gpu_resources().any(|name| name.starts_with("nvidia.com/mig-")) {
            return None;
        }
        let name = config_of(cluster, map, node)?;
        let config = plugin_config(map.data.get(name)?).ok()?;
        let sharing = config.sharing.as_ref()?;
        let replicas = u64::from(sharing.replicas(keys::GPU));
        let cards: u64 = node.metadata.labels.get(keys::LABEL_GPU_COUNT)?.parse().ok()?;
        let resource = if sharing.renames { "nvidia.com/gpu.shared" } else { keys::GPU };
        let has = Node::amount(&node.status.capacity, resource);
        let expected = cards.saturating_mul(replicas);
        (replicas > 1 && has < expected).then(|| {
            format!(
                "{}: config {name} makes {replicas} of each of {cards} cards, and the node has {has} {resource}",
                node.called()
            )
        })
    };
    let seen: Vec<String> = cluster.nodes.iter().filter_map(lacking).collect();
    let set = cluster.plugins().next();
    let set = set.map_or("nvidia-device-plugin-daemonset", |set| &set.metadata.name);
    (!seen.is_empty()).then(|| {
        Finding::problem(
            "slices-not-there",
            "time slices do not appear: the device plugin has not read its config",
        )
        .seen_at(seen)
        .fix(fix!(
            "kubectl -n {place} rollout restart daemonset/{set}",
            place = place(cluster),
            set
        ))
    })
}
