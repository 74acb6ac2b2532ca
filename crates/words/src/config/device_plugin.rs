//! The configs of NVIDIA's device plugin: how it shares what it hands out.
//!
//! ```yaml
//! version: v1
//! flags: {migStrategy: mixed}
//! sharing:
//!   timeSlicing:                       # or mps
//!     renameByDefault: true            # nvidia.com/gpu.shared instead of nvidia.com/gpu
//!     failRequestsGreaterThanOne: true
//!     resources:
//!     - {name: nvidia.com/gpu, replicas: 4}
//! ```
//!
//! What the plugin refuses is refused here; what it passes over is listed, so that nobody waits for it.

use super::{ConfigError, join, show};
use crate::documents::untyped;
use crate::node::unshared;
use crate::problem::short;
use divvy_ledger::{Division, Gpus, Pool};
use serde_json::{Map, Value};
use std::fmt;

const SHARING: &str = "sharing";
const TIME_SLICING: &str = "timeSlicing";
const MPS: &str = "mps";
const MIG_STRATEGY: &str = "migStrategy";
const ALL: &str = "all";
/// What the names of resources begin with, if they do not say it.
const VENDOR: &str = "nvidia.com/";
/// Nobody has more kinds of resources.
const MOST_RESOURCES: usize = 256;

/// A config of the device plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginConfig {
    /// How MIG slices are called, if it says so.
    pub strategy: Option<MigStrategy>,
    /// What is shared, and how.
    pub sharing: Option<Sharing>,
    /// Fields that are given and that the plugin passes over.
    pub ignored: Vec<String>,
}

/// What the device plugin hands out several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// How cards are divided.
    pub by: Division,
    /// Whether replicas have a name of their own.
    pub renames: bool,
    /// Whether a container that asks more than one is refused.
    pub one_each: bool,
    /// How many replicas there are of one, by resource.
    pub resources: Vec<(String, u32)>,
}

impl Sharing {
    /// How often one of a resource is handed out; 1 if it is not shared.
    pub fn replicas(&self, resource: &str) -> u32 {
        self.resources.iter().find(|(name, _)| name == resource).map_or(1, |(_, n)| *n)
    }

    /// Enters which replicas of a node a container gets one of.
    pub fn enter(&self, gpus: &mut Gpus) {
        gpus.pools.iter_mut().for_each(|pool| pool.one_each |= self.gives_one_each(pool));
    }

    /// Whether a container gets one of these, as far as they are what this makes.
    fn gives_one_each(&self, pool: &Pool) -> bool {
        let replicas = self.replicas(&unshared(pool.device));
        self.one_each && replicas > 1 && replicas == pool.replicas
    }
}

/// How MIG slices are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigStrategy {
    /// They are not handed out.
    None,
    /// As whole GPUs, which takes slices of one profile on every card.
    Single,
    /// Each profile by its own name.
    Mixed,
}

impl MigStrategy {
    /// Reads it as it stands in configs and labels.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Single, Self::Mixed].into_iter().find(|s| s.as_str() == text)
    }

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Single => "single",
            Self::Mixed => "mixed",
        }
    }
}

impl fmt::Display for MigStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The config that nodes get which name none, if there are several and nobody says which.
const DEFAULT: &str = "default";

/// The config that the plugin takes on a node that names none, where nobody says another.
pub fn usual_config<T>(configs: &[T], name: impl Fn(&T) -> &str) -> Option<&T> {
    match configs {
        [only] => Some(only),
        several => several.iter().find(|config| name(config) == DEFAULT),
    }
}

/// The configs of the device plugin that a ConfigMap has, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginConfigs(Vec<(String, PluginConfig)>);

impl PluginConfigs {
    /// Reads them; what is wrong is told with the key.
    pub fn read<'a>(data: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self, ConfigError> {
        let named = |(key, text): (&str, &str)| match plugin_config(text) {
            Ok(config) => Ok((key.to_owned(), config)),
            Err(why) => Err(ConfigError(format!("data[{:?}]: {why}", short(key)))),
        };
        data.map(named).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the plugin refuses a container of a node more than one replica of a kind. `named` is
    /// what the node's label says.
    pub fn give_one_each(&self, named: Option<&str>, gpus: &Gpus) -> bool {
        let config = match named {
            Some(named) => self.0.iter().find(|(name, _)| name == named),
            None => usual_config(&self.0, |(name, _)| name),
        };
        let sharing = config.and_then(|(_, config)| config.sharing.as_ref());
        sharing.is_some_and(|it| gpus.pools.iter().any(|pool| it.gives_one_each(pool)))
    }
}

/// Whether a text, as it stands in a ConfigMap, is meant to be a config of the device plugin.
pub fn is_device_plugin_config(text: &str) -> bool {
    if ![TIME_SLICING, MPS, MIG_STRATEGY].into_iter().any(|word| text.contains(word)) {
        return false;
    }
    let Ok(documents) = untyped(text) else { return text.contains(TIME_SLICING) };
    let has = |value: &Value, outer: &str, inner: &str| {
        value.get(outer).is_some_and(|outer| outer.get(inner).is_some())
    };
    documents.iter().any(|value| {
        has(value, SHARING, TIME_SLICING)
            || has(value, SHARING, MPS)
            || has(value, "flags", MIG_STRATEGY)
    })
}

/// Reads a config of the device plugin; an empty text is a config, too.
pub fn plugin_config(text: &str) -> Result<PluginConfig, ConfigError> {
    let mut documents = untyped(text).map_err(ConfigError)?;
    let value = match documents.len() {
        0 => return Ok(PluginConfig::default()),
        1 => documents.swap_remove(0),
        n => return Err(ConfigError(format!("{n} documents are given; allowed is one"))),
    };
    let mut ignored = Vec::new();
    let root = Fields::of(String::new(), &value)?;
    root.pass_over(&["version", "flags", SHARING, "resources", "imex"], &mut ignored);
    match root.get("version") {
        None => {}
        Some(Value::String(version)) if matches!(version.as_str(), "v1" | "") => {}
        Some(other) => return Err(root.wrong("version", other, "is v1")),
    }
    let strategy = match root.section("flags")? {
        None => None,
        Some(flags) => match flags.get(MIG_STRATEGY) {
            None => None,
            Some(value) => {
                Some(value.as_str().and_then(MigStrategy::parse).ok_or_else(|| {
                    flags.wrong(MIG_STRATEGY, value, "are none, single and mixed")
                })?)
            }
        },
    };
    if root.get("resources").is_some() {
        ignored.push("resources".to_owned());
    }
    let sharing = match root.section(SHARING)? {
        None => None,
        Some(section) => {
            section.pass_over(&[TIME_SLICING, MPS], &mut ignored);
            let slices = section.section(TIME_SLICING)?;
            let slices = slices.map(|s| replicated(&s, Division::TimeSlices, &mut ignored));
            let mps = section.section(MPS)?;
            let mps = mps.map(|s| replicated(&s, Division::Mps, &mut ignored));
            match (slices.transpose()?, mps.transpose()?) {
                // The plugin does not say so; it only looks at MPS then.
                (Some(_), Some(mps)) => {
                    ignored.push(join(&section.path, TIME_SLICING));
                    Some(mps)
                }
                (slices, mps) => mps.or(slices),
            }
        }
    };
    Ok(PluginConfig { strategy, sharing, ignored })
}

fn replicated(
    section: &Fields<'_>,
    by: Division,
    ignored: &mut Vec<String>,
) -> Result<Sharing, ConfigError> {
    let fail = "failRequestsGreaterThanOne";
    section.pass_over(&["renameByDefault", fail, "resources"], ignored);
    let renames = section.boolean("renameByDefault")?;
    let asked = section.boolean(fail)?;
    let allowed = "is a list of resources, each with name and replicas";
    let list = match section.get("resources") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        given => return Err(section.wrong("resources", given.unwrap_or(&Value::Null), allowed)),
    };
    if list.len() > MOST_RESOURCES {
        let path = join(&section.path, "resources");
        return Err(ConfigError(format!("{path}: allowed are up to {MOST_RESOURCES}")));
    }
    let mut resources: Vec<(String, u32)> = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let entry = Fields::of(format!("{}[{at}]", join(&section.path, "resources")), value)?;
        entry.pass_over(&["name", "rename", "devices", "replicas"], ignored);
        let name = entry.name("name")?.ok_or_else(|| {
            entry.wrong("name", &Value::Null, "are resources such as nvidia.com/gpu")
        })?;
        let replicas = entry.get("replicas").unwrap_or(&Value::Null);
        let number = replicas.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n >= 2);
        let number =
            number.ok_or_else(|| entry.wrong("replicas", replicas, "are whole numbers from 2"))?;
        let usual = if renames { format!("{name}.shared") } else { String::new() };
        if entry.name("rename")?.is_some_and(|rename| rename != usual) {
            ignored.push(join(&entry.path, "rename"));
        }
        if entry.names_devices()? {
            ignored.push(join(&entry.path, "devices"));
        }
        if resources.iter().any(|(known, _)| *known == name) {
            return Err(ConfigError(format!("{}: {name:?} is given twice", entry.path)));
        }
        resources.push((name, number));
    }
    // The server of MPS takes one client for each request, whatever the config says.
    Ok(Sharing { by, renames, one_each: asked || by == Division::Mps, resources })
}

/// A map of the config, and where it stands.
struct Fields<'a> {
    path: String,
    map: Option<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    fn of(path: String, value: &'a Value) -> Result<Self, ConfigError> {
        match value {
            Value::Null => Ok(Self { path, map: None }),
            Value::Object(map) => Ok(Self { path, map: Some(map) }),
            other => {
                let place = if path.is_empty() { "the config" } else { &path };
                Err(ConfigError(format!("{place}: {}; allowed is a map", show(other))))
            }
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    fn section(&self, name: &str) -> Result<Option<Self>, ConfigError> {
        self.get(name).map(|value| Self::of(join(&self.path, name), value)).transpose()
    }

    fn wrong(&self, name: &str, given: &Value, allowed: &str) -> ConfigError {
        let given = if given.is_null() { "missing".to_owned() } else { show(given) };
        ConfigError(format!("{}: {given}; allowed {allowed}", join(&self.path, name)))
    }

    fn boolean(&self, name: &str) -> Result<bool, ConfigError> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(boolean)) => Ok(*boolean),
            Some(other) => Err(self.wrong(name, other, "are true and false")),
        }
    }

    /// The name of a resource, with its vendor.
    fn name(&self, name: &str) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.as_str().filter(|text| is_resource(text)).ok_or_else(|| {
            self.wrong(name, value, "are resources of nvidia.com, up to 63 characters")
        })?;
        let vendor = if text.starts_with(VENDOR) { "" } else { VENDOR };
        Ok(Some(format!("{vendor}{text}")))
    }

    /// Whether only some devices are named.
    fn names_devices(&self) -> Result<bool, ConfigError> {
        match self.get("devices") {
            None => Ok(false),
            Some(Value::String(all)) if all == ALL => Ok(false),
            Some(Value::Number(count)) if count.as_u64().is_some_and(|n| n > 0) => Ok(true),
            Some(Value::Array(_)) => Ok(true),
            Some(other) => Err(self.wrong("devices", other, "are all, a number and a list")),
        }
    }

    fn pass_over(&self, known: &[&str], ignored: &mut Vec<String>) {
        let keys = self.map.into_iter().flat_map(Map::keys);
        let unknown = keys.filter(|key| !known.contains(&key.as_str()));
        ignored.extend(unknown.map(|key| join(&self.path, &short(key).to_string())));
    }
}

fn is_resource(text: &str) -> bool {
    let name = text.strip_prefix(VENDOR).unwrap_or(text);
    let is_part = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.".contains(&c);
    let is_end = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    VENDOR.len() + name.len() <= 63
        && bytes.iter().all(|c| is_part(*c))
        && is_end(bytes.first())
        && is_end(bytes.last())
}

#[cfg(test)]
mod tests;
