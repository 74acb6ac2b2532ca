//! Which configs were given, and which of them a node gets.

use crate::InputError;
use divvy_ledger::mig::MigConfig;
use divvy_words::manifest::{ClusterPolicyManifest, Texts};
use divvy_words::{
    Content, Entry, MigStrategy, Object, PluginConfig, PluginConfigs, is_device_plugin_config,
    is_mig_config, keys, mig_configs, mig_strategy_of, plugin_config, usual_config,
};
use std::collections::BTreeMap;
use std::fmt;

/// A config, and where it stands.
pub(crate) struct NamedConfig<T> {
    /// Its ConfigMap.
    map: String,
    /// Its name.
    pub(crate) name: String,
    /// Whether it is the only one there.
    is_alone: bool,
    /// What it says.
    pub(crate) config: T,
}

impl<T> NamedConfig<T> {
    /// The ConfigMap, and which of its configs if there are several.
    pub(crate) fn label(&self) -> String {
        if self.is_alone { self.map.clone() } else { format!("{}/{}", self.map, self.name) }
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || name.split_once('/') == Some((self.map.as_str(), self.name.as_str()))
    }
}

/// What a node asks for that is not there, and why.
pub(crate) struct NotThere {
    pub(crate) config: String,
    pub(crate) why: String,
}

/// All configs that were given.
#[derive(Default)]
pub(crate) struct Configs {
    plugin: Vec<NamedConfig<PluginConfig>>,
    mig: Vec<NamedConfig<MigConfig>>,
    policy: Option<(String, ClusterPolicyManifest)>,
    /// How slices are called, as the policy says.
    strategy: Option<MigStrategy>,
    /// `--partition`: nodes and configs.
    asked: Vec<(String, String)>,
}

/// What the cluster's own ConfigMap of the device plugin says; nothing if there are several, for nobody
/// says then which is in force.
pub(crate) fn in_force(cluster: &[Entry], warnings: &mut Vec<String>) -> PluginConfigs {
    let mut found = cluster.iter().filter_map(|entry| match entry {
        Entry::Object(Object { metadata, content: Content::ConfigMap(data), .. }) => {
            let is_one = data.iter().any(|(_, text)| is_device_plugin_config(text));
            is_one.then_some((&metadata.name, data))
        }
        _ => None,
    });
    let (Some((map, data)), None) = (found.next(), found.next()) else {
        return PluginConfigs::default();
    };
    PluginConfigs::read(data.iter()).unwrap_or_else(|why| {
        warnings.push(format!("ConfigMap {map} of the cluster: {why}"));
        PluginConfigs::default()
    })
}

/// How MIG slices of a node are called, and who says so.
pub(crate) struct SaidStrategy {
    pub(crate) kind: MigStrategy,
    /// Whether anybody says so.
    pub(crate) is_said: bool,
    by: &'static str,
}

impl fmt::Display for SaidStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MIG strategy {} {}", self.kind, self.by)
    }
}

/// A ConfigMap: what it is called, what its configs are called, and their names.
pub(crate) struct MapNames {
    pub(crate) name: String,
    pub(crate) labels: Vec<String>,
    pub(crate) names: Vec<String>,
    /// The label of nodes that names one.
    pub(crate) label: &'static str,
}

impl Configs {
    /// The configs among manifests.
    pub(crate) fn read(entries: &[Entry], asked: &[(String, String)]) -> Result<Self, InputError> {
        let mut configs = Self { asked: asked.to_vec(), ..Self::default() };
        for entry in entries {
            match entry {
                Entry::Object(Object {
                    metadata, content: Content::ClusterPolicy(policy), ..
                }) => {
                    configs.policy = Some((metadata.name.to_string(), (**policy).clone()));
                }
                Entry::Malformed { kind, name, error, .. } if kind == "ClusterPolicy" => {
                    return Err(InputError::Config(format!("ClusterPolicy {name}: {error}")));
                }
                Entry::Object(_) | Entry::Malformed { .. } => {}
            }
        }
        // Of one that is given twice the later one counts.
        let mut maps: BTreeMap<(&str, &str), &Texts> = BTreeMap::new();
        for entry in entries {
            if let Entry::Object(Object { metadata, content: Content::ConfigMap(data), .. }) = entry
            {
                maps.insert((&metadata.name, &metadata.namespace), data);
            }
        }
        for ((map, _), data) in maps {
            configs
                .read_map(map, data)
                .map_err(|why| InputError::Config(format!("ConfigMap {map}: {why}")))?;
        }
        configs.check_policy()?;
        configs.check_asked()?;
        Ok(configs)
    }

    fn read_map(&mut self, map: &str, data: &Texts) -> Result<(), String> {
        let texts = || data.iter().filter(|(_, text)| !is_mig_config(text));
        if self.plugin_map() == Some(map) || texts().any(|(_, text)| is_device_plugin_config(text))
        {
            let is_alone = texts().count() == 1;
            for (name, text) in texts() {
                let config = plugin_config(text).map_err(|why| format!("data[{name:?}]: {why}"))?;
                let (map, name) = (map.to_owned(), name.to_owned());
                self.plugin.push(NamedConfig { map, name, is_alone, config });
            }
        }
        let mut partitions: Vec<MigConfig> = Vec::new();
        for (key, text) in data.iter().filter(|(_, text)| is_mig_config(text)) {
            let read = mig_configs(text).map_err(|why| format!("data[{key:?}]: {why}"))?;
            partitions.extend(read);
        }
        let is_alone = partitions.len() == 1;
        self.mig.extend(partitions.into_iter().map(|config| {
            let (map, name) = (map.to_owned(), config.name.clone());
            NamedConfig { map, name, is_alone, config }
        }));
        Ok(())
    }

    /// The ConfigMap that the policy names for the device plugin.
    fn plugin_map(&self) -> Option<&str> {
        let (_, policy) = self.policy.as_ref()?;
        Some(&*policy.device_plugin.config.name).filter(|name| !name.is_empty())
    }

    fn mig_map(&self) -> Option<&str> {
        let (_, policy) = self.policy.as_ref()?;
        Some(&*policy.mig_manager.config.name).filter(|name| !name.is_empty())
    }

    fn check_policy(&mut self) -> Result<(), InputError> {
        let Some((name, policy)) = &self.policy else { return Ok(()) };
        let wrong = |field: &str, given: &str, allowed: &str| {
            InputError::Config(format!(
                "ClusterPolicy {name}: {field}: {given:?}; allowed {allowed}"
            ))
        };
        let given = &*policy.mig.strategy;
        self.strategy = MigStrategy::parse(given);
        if self.strategy.is_none() && !given.is_empty() {
            return Err(wrong("spec.mig.strategy", given, "are none, single and mixed"));
        }
        let default = &*policy.device_plugin.config.default;
        let names: Vec<&str> =
            self.offered(&self.plugin, self.plugin_map()).map(|c| &*c.name).collect();
        if !default.is_empty() && !names.is_empty() && !names.contains(&default) {
            let allowed = format!("are the keys of the ConfigMap: {}", names.join(", "));
            return Err(wrong("spec.devicePlugin.config.default", default, &allowed));
        }
        Ok(())
    }

    fn check_asked(&self) -> Result<(), InputError> {
        for (node, name) in &self.asked {
            let plugin =
                self.plugin.iter().filter(|c| c.is_called(name)).map(|c| (&c.map, &c.name));
            let mig = self.mig.iter().filter(|c| c.is_called(name)).map(|c| (&c.map, &c.name));
            let found: Vec<String> =
                plugin.chain(mig).map(|(map, name)| format!("{map}/{name}")).collect();
            let names = self.plugin.iter().map(|c| &c.name).chain(self.mig.iter().map(|c| &c.name));
            let names: Vec<&str> = names.map(String::as_str).collect();
            let why = match (found.len(), names.len()) {
                (1, _) => continue,
                (0, 0) => "no config is given: add the ConfigMap with -f".to_owned(),
                (0, _) => format!("no such config is given; there are {}", names.join(", ")),
                _ => format!("several are called so; say {}", found.join(" or ")),
            };
            return Err(InputError::Config(format!("--partition {node}={name}: {why}")));
        }
        Ok(())
    }

    /// Whether there is none, and nothing to look at nodes for.
    pub(crate) fn is_empty(&self) -> bool {
        self.plugin.is_empty() && self.mig.is_empty()
    }

    /// The nodes that are asked about.
    pub(crate) fn asked_nodes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.asked.iter().map(|(node, config)| (node.as_str(), config.as_str()))
    }

    /// Whether an object is one of these, and not only passed over.
    pub(crate) fn has(&self, object: &Object) -> bool {
        match &object.content {
            Content::ClusterPolicy(_) => true,
            Content::ConfigMap(_) => {
                let name = &*object.metadata.name;
                self.plugin.iter().any(|c| c.map == name) || self.mig.iter().any(|c| c.map == name)
            }
            _ => false,
        }
    }

    /// Those of the ConfigMap that the policy names, if it names one.
    fn offered<'a, T>(
        &self,
        all: &'a [NamedConfig<T>],
        map: Option<&'a str>,
    ) -> impl Iterator<Item = &'a NamedConfig<T>> {
        all.iter().filter(move |config| map.is_none_or(|map| config.map == map))
    }

    /// The config of the device plugin that a node gets.
    pub(crate) fn plugin_of(
        &self,
        node: &Object,
    ) -> Result<Option<&NamedConfig<PluginConfig>>, NotThere> {
        if let Some(asked) = self.asked_of(node, &self.plugin) {
            return Ok(Some(asked));
        }
        let offered: Vec<_> = self.offered(&self.plugin, self.plugin_map()).collect();
        if offered.is_empty() {
            return Ok(None);
        }
        if let Some(name) = node.metadata.labels.get(keys::LABEL_PLUGIN_CONFIG) {
            return only(&offered, name, keys::LABEL_PLUGIN_CONFIG);
        }
        let default = self.policy.as_ref().map(|(_, policy)| &*policy.device_plugin.config.default);
        let named = |name: &str| offered.iter().copied().find(|config| config.name == name);
        Ok(match default.filter(|default| !default.is_empty()) {
            Some(default) => named(default),
            // The operator hands over no config then.
            None if self.plugin_map().is_some() => None,
            None => usual_config(&offered, |config| &config.name).copied(),
        })
    }

    /// The config of the MIG manager that a node gets. What a label names that is not there, the
    /// node has already.
    pub(crate) fn mig_of(
        &self,
        node: &Object,
    ) -> Result<Option<&NamedConfig<MigConfig>>, NotThere> {
        if let Some(asked) = self.asked_of(node, &self.mig) {
            return Ok(Some(asked));
        }
        let Some(name) = node.metadata.labels.get(keys::LABEL_MIG_CONFIG) else { return Ok(None) };
        let offered: Vec<_> = self.offered(&self.mig, self.mig_map()).collect();
        if offered.iter().any(|config| config.name == name) {
            return only(&offered, name, keys::LABEL_MIG_CONFIG);
        }
        Ok(None)
    }

    fn asked_of<'a, T>(
        &self,
        node: &Object,
        all: &'a [NamedConfig<T>],
    ) -> Option<&'a NamedConfig<T>> {
        let here = self.asked.iter().rev().filter(|(name, _)| **name == *node.metadata.name);
        here.into_iter().find_map(|(_, name)| all.iter().find(|config| config.is_called(name)))
    }

    /// How the slices of a node are called.
    pub(crate) fn strategy(
        &self,
        node: &Object,
        plugin: Option<&NamedConfig<PluginConfig>>,
    ) -> SaidStrategy {
        let said = |kind, by| SaidStrategy { kind, is_said: true, by };
        if let Some(kind) = plugin.and_then(|plugin| plugin.config.strategy) {
            said(kind, "of the device plugin's config")
        } else if let Some(kind) = self.strategy {
            said(kind, "of the ClusterPolicy")
        } else if let Some(kind) = mig_strategy_of(node) {
            said(kind, "of the node's label nvidia.com/mig.strategy")
        } else if self.policy.is_some() {
            said(MigStrategy::Single, "as the ClusterPolicy says nothing else")
        } else {
            let by = "taken for granted, as nobody says it";
            SaidStrategy { kind: MigStrategy::Mixed, is_said: false, by }
        }
    }

    /// The ConfigMap that the policy names and that is not there.
    pub(crate) fn missing_map(&self) -> Option<(&str, &str)> {
        let (policy, _) = self.policy.as_ref()?;
        let map = self.plugin_map()?;
        let is_there = self.plugin.iter().any(|config| config.map == map);
        (!is_there).then_some((policy, map))
    }

    /// All ConfigMaps with configs.
    pub(crate) fn maps(&self) -> Vec<MapNames> {
        let mut maps = maps(&self.plugin, keys::LABEL_PLUGIN_CONFIG);
        maps.extend(self::maps(&self.mig, keys::LABEL_MIG_CONFIG));
        maps
    }
}

fn maps<T>(configs: &[NamedConfig<T>], label: &'static str) -> Vec<MapNames> {
    let chunks = configs.chunk_by(|a, b| a.map == b.map);
    let map = |chunk: &[NamedConfig<T>]| MapNames {
        name: chunk.first().map(|config| config.map.clone()).unwrap_or_default(),
        labels: chunk.iter().map(NamedConfig::label).collect(),
        names: chunk.iter().map(|config| config.name.clone()).collect(),
        label,
    };
    chunks.map(map).collect()
}

/// The config that a label names.
fn only<'a, T>(
    offered: &[&'a NamedConfig<T>],
    name: &str,
    label: &str,
) -> Result<Option<&'a NamedConfig<T>>, NotThere> {
    let mut called = offered.iter().filter(|config| config.name == name);
    let config = || name.to_owned();
    match (called.next(), called.next()) {
        (Some(one), None) => Ok(Some(one)),
        (Some(one), Some(other)) => {
            let why =
                format!("{} and {} are meant by the label {label}", one.label(), other.label());
            Err(NotThere { config: config(), why })
        }
        (None, _) => {
            let why = format!("the label {label} names it, and no ConfigMap that is given has it");
            Err(NotThere { config: config(), why })
        }
    }
}
