//! What is said of configs, each thing once for all nodes that it holds for.

use super::configs::{Configs, MapNames, NamedConfig, NotThere};
use std::collections::{BTreeMap, BTreeSet};

/// What a config would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOutcome {
    /// The config: its ConfigMap, and its name there if there are several.
    pub config: String,
    /// What comes of it.
    pub effect: ConfigEffect,
    /// On which nodes.
    pub nodes: Vec<String>,
    /// What these hand out then.
    pub resources: BTreeMap<String, u64>,
    /// What there is to say before the nodes are named.
    what: String,
    /// And behind it.
    details: String,
}

/// What comes of a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigEffect {
    /// The nodes are changed.
    Applied,
    /// The nodes are left as they are.
    Unchanged,
    /// The device plugin would hand out nothing there.
    Withheld,
}

impl ConfigOutcome {
    /// A ConfigMap of which nothing comes.
    fn nothing(config: String, why: &str) -> Self {
        let (nodes, resources) = (Vec::new(), BTreeMap::new());
        let (what, details) = ("nothing changes".to_owned(), format!(": {why}"));
        Self { config, effect: ConfigEffect::Unchanged, nodes, resources, what, details }
    }

    /// In one sentence.
    pub fn message(&self) -> String {
        let on = match &self.nodes[..] {
            [] => String::new(),
            [node] => format!(" on {node}"),
            nodes => format!(" on {} nodes", nodes.len()),
        };
        let names: Vec<&str> = self.resources.keys().map(String::as_str).collect();
        let resources = match names.len() {
            0 => String::new(),
            1 => format!(", resource {}", names[0]),
            _ => format!(", resources {}", names.join(", ")),
        };
        format!("{}: {}{on}{resources}{}", self.config, self.what, self.details)
    }
}

/// What is said of one node.
pub(super) struct Said {
    pub(super) config: String,
    pub(super) effect: ConfigEffect,
    pub(super) what: String,
    pub(super) details: String,
}

impl Said {
    pub(super) fn left<T>(config: &NamedConfig<T>, why: impl Into<String>) -> Self {
        let what = "nothing changes".to_owned();
        let (config, details) = (config.label(), format!(": {}", why.into()));
        Self { config, effect: ConfigEffect::Unchanged, what, details }
    }

    pub(super) fn not_there(not_there: NotThere) -> Self {
        let NotThere { config, why } = not_there;
        let what = "nothing changes".to_owned();
        Self { config, effect: ConfigEffect::Unchanged, what, details: format!(": {why}") }
    }

    pub(super) fn withheld<T>(config: &NamedConfig<T>, why: impl Into<String>) -> Self {
        let what = "nothing would be handed out".to_owned();
        let (config, details) = (config.label(), format!(": {}", why.into()));
        Self { config, effect: ConfigEffect::Withheld, what, details }
    }
}

/// What is said of all nodes, in the order it was found.
#[derive(Default)]
pub(crate) struct Log {
    all: Vec<ConfigOutcome>,
}

impl Log {
    pub(super) fn say(&mut self, node: &str, said: Said, offered: &[(String, u64)]) {
        let Said { config, effect, what, details } = said;
        let resources: BTreeMap<String, u64> = offered.iter().cloned().collect();
        let is_same = |known: &&mut ConfigOutcome| {
            (&known.config, known.effect, &known.what, &known.details)
                == (&config, effect, &what, &details)
                && known.resources.keys().eq(resources.keys())
        };
        if let Some(known) = self.all.iter_mut().find(is_same) {
            known.nodes.push(node.to_owned());
            for (sum, more) in known.resources.values_mut().zip(resources.values()) {
                *sum = sum.saturating_add(*more);
            }
            return;
        }
        let nodes = vec![node.to_owned()];
        self.all.push(ConfigOutcome { config, effect, nodes, resources, what, details });
    }

    /// All that was said, and which ConfigMaps no node takes a config of.
    pub(crate) fn finish(mut self, configs: &Configs) -> Vec<ConfigOutcome> {
        let said: BTreeSet<String> = self.all.iter().map(|said| said.config.clone()).collect();
        if let Some((policy, map)) = configs.missing_map() {
            let why = format!("ClusterPolicy {policy} names it, and no manifest has it");
            self.all.insert(0, ConfigOutcome::nothing(map.to_owned(), &why));
        }
        for MapNames { name, labels, names, label } in configs.maps() {
            if labels.iter().any(|label| said.contains(label)) {
                continue;
            }
            let names = names.join(", ");
            let try_it = format!("try one with --partition NODE=CONFIG: {names}");
            let why = format!("no node takes a config of it by the label {label}; {try_it}");
            self.all.push(ConfigOutcome::nothing(name, &why));
        }
        self.all
    }
}
