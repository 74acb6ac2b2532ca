//! The configuration file, alone or as the ConfigMap it comes in.
//!
//! ```yaml
//! scheduling:
//!   strategy: binpack
//!   binpacking:
//!     weights: {gpu: 10, cpu: 2, memory: 1}
//!     thresholds: {gpu: 0.8, cpu: 0.9, memory: 0.9}
//! gpuSharing:
//!   strategy: binpack
//! isolationProviders:
//! - name: HAMi-core
//!   levels: [Isolated]
//!   device: divvy.dev/provider=HAMi-core
//!   memory: {variable: CUDA_DEVICE_MEMORY_LIMIT, unit: bytes}
//!   compute: {variable: CUDA_DEVICE_SM_LIMIT}
//!   library: /usr/local/vgpu
//!   environment: {CUDA_DISABLE_CONTROL: "false"}
//!   emptyFiles: [/overrideEnv]
//!   freshFiles: [/tmp/cudevshr.cache]
//! ```

mod device_plugin;
mod mig_parted;
mod providers;

pub use device_plugin::{
    MigStrategy, PluginConfig, PluginConfigs, Sharing, is_device_plugin_config, plugin_config,
    usual_config,
};
pub use mig_parted::{is_mig_config, mig_configs, mig_configs_text};

use crate::documents::untyped;
use crate::isolation::Provider;
use crate::keys;
use crate::problem::short;
use crate::quantity::{Quantity, WrittenAmount};
use crate::strategy;
use divvy_engine::{Config, PerResource, Strategy};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What is wrong with a configuration: field, what was given, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The highest weight; only ratios matter.
const MAX_WEIGHT: u64 = 1000;

/// Reads a configuration; what is not given stays as it is by default.
pub fn config(text: &str) -> Result<Config, ConfigError> {
    let value = inner(text)?;
    let mut config = Config::default();
    let root = Section::root(&value, &FIELDS)?;
    providers::read(&root)?;
    if let Some(scheduling) = root.section("scheduling", &["strategy", "binpacking"])? {
        scheduling.strategy(&mut config.node)?;
        if let Some(packing) = scheduling.section("binpacking", &["weights", "thresholds"])? {
            packing.per_resource("weights", &mut config.weights, weight)?;
            packing.per_resource("thresholds", &mut config.thresholds, threshold)?;
        }
    }
    if let Some(sharing) = root.section("gpuSharing", &["enabled", "strategy"])? {
        sharing.strategy(&mut config.card)?;
        sharing.enabled()?;
    }
    let PerResource { gpu, cpu, memory } = config.weights;
    if gpu == 0 && cpu == 0 && memory == 0 {
        let field = "scheduling.binpacking.weights";
        return Err(ConfigError(format!("{field}: all are 0; at least one must be more")));
    }
    Ok(config)
}

/// The providers of isolation that a configuration has; the usual ones if it names none.
pub fn isolation_providers(text: &str) -> Result<Vec<Provider>, ConfigError> {
    let value = inner(text)?;
    let given = providers::read(&Section::root(&value, &FIELDS)?)?;
    Ok(given.unwrap_or_else(|| vec![Provider::hami_core()]))
}

const FIELDS: [&str; 3] = ["scheduling", "gpuSharing", "isolationProviders"];

/// The configuration itself, also out of a ConfigMap.
fn inner(text: &str) -> Result<Value, ConfigError> {
    let value = document(text)?;
    if value.get("kind").is_some() { document(&config_map(&value)?) } else { Ok(value) }
}

/// The only document of the text, or nothing.
fn document(text: &str) -> Result<Value, ConfigError> {
    let mut documents = untyped(text).map_err(ConfigError)?;
    match documents.len() {
        0 => Ok(Value::Null),
        1 => Ok(documents.swap_remove(0)),
        n => Err(ConfigError(format!("{n} documents are given; allowed is one"))),
    }
}

/// The configuration inside a ConfigMap.
fn config_map(value: &Value) -> Result<String, ConfigError> {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind != "ConfigMap" {
        let kind = short(kind);
        return Err(ConfigError(format!(
            "kind: {kind:?} is no configuration; allowed is ConfigMap"
        )));
    }
    let file = value.get("data").and_then(|data| data.get(keys::CONFIG_FILE));
    let problem = match file {
        Some(Value::String(text)) => return Ok(text.clone()),
        None | Some(Value::Null) => "missing; it holds the configuration".to_owned(),
        Some(Value::Array(_)) => "a list, expected text".to_owned(),
        Some(Value::Object(_)) => "a map, expected text".to_owned(),
        Some(number @ Value::Number(_)) => format!("{number} is a number, expected text"),
        Some(Value::Bool(boolean)) => format!("{boolean} is a boolean, expected text"),
    };
    Err(ConfigError(format!("data[\"{}\"]: {problem}", keys::CONFIG_FILE)))
}

/// A map of the configuration and where it stands.
struct Section<'a> {
    path: String,
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> Section<'a> {
    fn root(value: &'a Value, allowed: &[&str]) -> Result<Self, ConfigError> {
        Self::new(String::new(), value, allowed)
    }

    fn new(path: String, value: &'a Value, allowed: &[&str]) -> Result<Self, ConfigError> {
        let place = if path.is_empty() { "the configuration" } else { &path };
        let allowed_text = || allowed.join(", ");
        let fields = match value {
            Value::Null => None,
            Value::Object(fields) => Some(fields),
            other => {
                let (given, allowed) = (show(other), allowed_text());
                return Err(ConfigError(format!(
                    "{place}: {given}; allowed is a map of {allowed}"
                )));
            }
        };
        let unknown = fields.and_then(|f| f.keys().find(|key| !allowed.contains(&key.as_str())));
        match unknown {
            Some(key) => {
                let field = join(&path, &short(key).to_string());
                Err(ConfigError(format!("{field}: unknown field; allowed are {}", allowed_text())))
            }
            None => Ok(Self { path, fields }),
        }
    }

    /// A field that is given and not `null`.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields?.get(name).filter(|value| !value.is_null())
    }

    fn section(&self, name: &str, allowed: &[&str]) -> Result<Option<Self>, ConfigError> {
        self.get(name).map(|value| Self::new(join(&self.path, name), value, allowed)).transpose()
    }

    fn strategy(&self, into: &mut Strategy) -> Result<(), ConfigError> {
        let Some(value) = self.get("strategy") else { return Ok(()) };
        *into = value.as_str().and_then(strategy::parse).ok_or_else(|| {
            let (field, given) = (join(&self.path, "strategy"), show(value));
            ConfigError(format!("{field}: {given}; allowed are {}", strategy::ALLOWED))
        })?;
        Ok(())
    }

    /// Sharing is what is rehearsed, so it cannot be off.
    fn enabled(&self) -> Result<(), ConfigError> {
        let given = self.get("enabled");
        if given.is_none_or(|value| *value == Value::Bool(true)) {
            return Ok(());
        }
        let (field, given) = (join(&self.path, "enabled"), given.map(show).unwrap_or_default());
        Err(ConfigError(match given.as_str() {
            "false" => format!(
                "{field}: false: a rehearsal with sharing disabled is not supported, remove the \
                 field or set true"
            ),
            _ => format!("{field}: {given}; allowed is true"),
        }))
    }

    fn per_resource(
        &self,
        name: &str,
        into: &mut PerResource,
        read: fn(&Value) -> Result<u32, &'static str>,
    ) -> Result<(), ConfigError> {
        let Some(section) = self.section(name, &["gpu", "cpu", "memory"])? else { return Ok(()) };
        let PerResource { gpu, cpu, memory } = into;
        for (name, number) in [("gpu", gpu), ("cpu", cpu), ("memory", memory)] {
            let Some(value) = section.get(name) else { continue };
            *number = read(value).map_err(|allowed| {
                let (field, given) = (join(&section.path, name), show(value));
                ConfigError(format!("{field}: {given}; allowed {allowed}"))
            })?;
        }
        Ok(())
    }
}

fn weight(value: &Value) -> Result<u32, &'static str> {
    value
        .as_u64()
        .filter(|weight| *weight <= MAX_WEIGHT)
        .and_then(|weight| u32::try_from(weight).ok())
        .ok_or("are whole numbers from 0 to 1000")
}

/// Millionths, exactly.
fn threshold(value: &Value) -> Result<u32, &'static str> {
    let allowed = "are numbers above 0 and up to 1 with at most 6 decimals";
    let number = value.is_number().then(|| WrittenAmount::deserialize(value).ok()).flatten();
    let Some(WrittenAmount(Ok(part))) = number else { return Err(allowed) };
    let in_range = part > Quantity::ZERO && part <= Quantity::from_units(1);
    let millionths = part.micro_exact().filter(|_| in_range);
    millionths.and_then(|n| u32::try_from(n).ok()).ok_or(allowed)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn show(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list is given".to_owned(),
        Value::Object(_) => "a map is given".to_owned(),
        other => short(&other.to_string()).to_string(),
    }
}

#[cfg(test)]
mod tests;
