//! Configs of NVIDIA's device plugin and MIG manager that cannot work.

use super::resources::asks;
use crate::object::{Found, Look, WrittenObject};
use crate::tree::TreeNode;
use divvy_ledger::mig::{self, ConfigVerdict, EntryOutcome};
use divvy_words::mistakes::shown;
use divvy_words::{is_device_plugin_config, is_mig_config, keys, mig_configs, plugin_config};
use std::collections::BTreeMap;

/// Stable name: the device plugin refuses a config, or passes over a part of it.
pub(crate) const PLUGIN_CONFIG: &str = "DevicePluginConfig";
/// Stable name: MIG cannot divide cards so.
pub(crate) const MIG_CONFIG: &str = "MigConfig";
/// Stable name: a config gives GPUs another name than the pods ask for.
pub(crate) const RENAMED_RESOURCE: &str = "RenamedResource";
/// Stable name: the operator's default config is none of its ConfigMap.
pub(crate) const DEFAULT_CONFIG: &str = "DefaultConfig";

/// What all files say together.
#[derive(Default)]
pub(crate) struct ConfigsTogether {
    /// Whether some pod asks for GPUs by their usual name.
    asks_gpus: bool,
    /// Whether some pod asks by the name of replicas.
    asks_shared: bool,
    /// The keys of ConfigMaps, by their name.
    maps: BTreeMap<String, Vec<String>>,
}

impl ConfigsTogether {
    pub(crate) fn add(&mut self, objects: &[WrittenObject<'_>]) {
        for object in objects {
            self.asks_gpus |= asks(object, &[keys::GPU]);
            self.asks_shared |= asks(object, &["nvidia.com/gpu.shared"]);
            if let ("ConfigMap", Some(name)) = (&*object.kind, object.name()) {
                let data = object.node.get("data").and_then(TreeNode::as_map);
                let names = data.into_iter().flat_map(crate::tree::Map::named);
                let names = names.map(|(name, ..)| name.to_owned()).collect();
                self.maps.insert(name.to_owned(), names);
            }
        }
    }
}

pub(crate) fn look(look: &mut Look<'_, '_>, together: &ConfigsTogether) {
    match (&*look.object.kind, look.object.group()) {
        ("ConfigMap", "") => {
            let data = look.object.node.get("data").and_then(TreeNode::as_map);
            for (name, key, value) in data.into_iter().flat_map(crate::tree::Map::named) {
                let Some(text) = value.text() else { continue };
                if is_mig_config(text) {
                    mig(look, name, key, text);
                } else if is_device_plugin_config(text) {
                    plugin(look, name, key, text, together);
                }
            }
        }
        ("ClusterPolicy", "nvidia.com") => default_config(look, together),
        _ => {}
    }
}

fn field(name: &str) -> String {
    format!("data[\"{}\"]", shown(name))
}

fn plugin(
    look: &mut Look<'_, '_>,
    name: &str,
    key: &TreeNode,
    text: &str,
    together: &ConfigsTogether,
) {
    let config = match plugin_config(text) {
        Ok(config) => config,
        Err(why) => {
            let next = "write what is allowed; the device plugin does not start with this";
            look.note(Found::new(PLUGIN_CONFIG, key, field(name), why.to_string(), next));
            return;
        }
    };
    if !config.ignored.is_empty() {
        let what = format!("the device plugin passes over {}", config.ignored.join(", "));
        let next = "take it away, or write what is meant (docs/partitions.md)";
        look.note(Found::new(PLUGIN_CONFIG, key, field(name), what, next));
    }
    let renames = config.sharing.is_some_and(|s| s.renames && s.replicas(keys::GPU) > 1);
    if renames && together.asks_gpus && !together.asks_shared {
        let found = Found::new(
            RENAMED_RESOURCE,
            key,
            field(name),
            format!(
                "with renameByDefault its replicas are called nvidia.com/gpu.shared, and the pods of these files ask \
                 for {}: they wait on such nodes",
                keys::GPU
            ),
            "write renameByDefault: false, or let the pods ask for nvidia.com/gpu.shared",
        );
        look.note(found);
    }
}

fn mig(look: &mut Look<'_, '_>, name: &str, key: &TreeNode, text: &str) {
    let configs = match mig_configs(text) {
        Ok(configs) => configs,
        Err(why) => {
            let next = "write what is allowed; the MIG manager leaves the cards as they are";
            look.note(Found::new(MIG_CONFIG, key, field(name), why.to_string(), next));
            return;
        }
    };
    let verdicts = mig::check(&configs, None);
    for verdict in verdicts.iter().filter(|verdict| !verdict.legal) {
        let what =
            format!("config {} cannot be: {}", shown(&verdict.partition.name), reason(verdict));
        let next = "ask for slices that fit together; divvy mig check says which do, and divvy mig plan makes configs for workloads";
        look.note(Found::new(MIG_CONFIG, key, field(name), what, next));
    }
}

fn reason(verdict: &ConfigVerdict<'_>) -> String {
    let reasons = verdict.judged.iter().filter_map(|judged| {
        let on = judged.model.map_or_else(String::new, |model| format!("on {} ", model.name));
        match &judged.outcome {
            EntryOutcome::Misfit(misfit) => Some(format!("{on}{misfit}")),
            EntryOutcome::NoModel => Some("no model has all of its profiles".to_owned()),
            EntryOutcome::UnknownFilter => Some(format!(
                "no model is known for device-filter {}",
                shown(&judged.entry.filter.join(", "))
            )),
            EntryOutcome::Undivided | EntryOutcome::Divided(..) | EntryOutcome::OtherModel => None,
        }
    });
    reasons.take(2).collect::<Vec<_>>().join("; ")
}

fn default_config(look: &mut Look<'_, '_>, together: &ConfigsTogether) {
    let Some(config) = look.object.node.find(&["spec", "devicePlugin", "config"]) else { return };
    let text = |field| config.get(field).and_then(TreeNode::text);
    let (Some(map), Some(default), Some(node)) =
        (text("name"), text("default"), config.get("default"))
    else {
        return;
    };
    let Some(names) =
        together.maps.get(map).filter(|names| !names.iter().any(|name| name == default))
    else {
        return;
    };
    let names: Vec<String> = names.iter().take(8).map(|name| shown(name)).collect();
    look.note(Found::new(
        DEFAULT_CONFIG,
        node,
        "spec.devicePlugin.config.default".to_owned(),
        format!("ConfigMap {} has no key {}", shown(map), shown(default)),
        format!("write one of {}", names.join(", ")),
    ));
}
