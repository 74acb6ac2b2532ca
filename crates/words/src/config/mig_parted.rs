//! The files of mig-parted: named configs that divide the cards of a node.
//!
//! ```yaml
//! version: v1
//! mig-configs:
//!   mixed:
//!   - devices: [0, 1]          # or all
//!     device-filter: "0x20B210DE"
//!     mig-enabled: true
//!     mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}
//! ```

use super::{ConfigError, Section, join, show};
use crate::documents::untyped;
use crate::problem::short;
use divvy_ledger::Profile;
use divvy_ledger::mig::{CardIndexes, MigConfig, MigEntry};
use serde_json::Value;
use std::fmt::Write;

const CONFIGS: &str = "mig-configs";
const FIELDS: [&str; 4] = ["devices", "device-filter", "mig-enabled", "mig-devices"];

/// More configs in a file than this are a mistake.
const MOST_CONFIGS: usize = 1000;
/// The same for lists in a config.
const MOST_ENTRIES: usize = 64;
/// More cards than any machine has.
const MOST_DEVICES: usize = 1024;
/// A card has room for seven slices, and each has room for seven compute instances.
const MOST_SLICES: u64 = 49;

/// The configs of all files of mig-parted in a text: as they are, or in ConfigMaps. Other objects
/// are passed over.
pub fn mig_configs(text: &str) -> Result<Vec<MigConfig>, ConfigError> {
    let mut configs = Vec::new();
    for document in untyped(text).map_err(ConfigError)? {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => items.iter().try_for_each(|item| object(item, &mut configs))?,
            None => object(&document, &mut configs)?,
        }
    }
    Ok(configs)
}

/// Whether a text, as it stands in a ConfigMap, is meant to be a file of mig-parted.
pub fn is_mig_config(text: &str) -> bool {
    text.contains(CONFIGS)
}

fn object(value: &Value, configs: &mut Vec<MigConfig>) -> Result<(), ConfigError> {
    if value.get("kind").is_none() {
        return if value.get(CONFIGS).is_some() { file(value, configs) } else { Ok(()) };
    }
    let is_map = value.get("kind").and_then(Value::as_str) == Some("ConfigMap");
    let data = value.get("data").and_then(Value::as_object).filter(|_| is_map);
    let texts = data.into_iter().flatten().filter_map(|(key, text)| Some((key, text.as_str()?)));
    for (key, text) in texts.filter(|(_, text)| is_mig_config(text)) {
        let inside = |error: ConfigError| ConfigError(format!("data[{:?}]: {error}", short(key)));
        for document in untyped(text).map_err(ConfigError).map_err(inside)? {
            file(&document, configs).map_err(inside)?;
        }
    }
    Ok(())
}

fn file(value: &Value, configs: &mut Vec<MigConfig>) -> Result<(), ConfigError> {
    let root = Section::root(value, &["version", CONFIGS])?;
    match root.get("version") {
        Some(Value::String(version)) if version == "v1" => {}
        Some(other) => {
            return Err(ConfigError(format!("version: {}; allowed is v1", show(other))));
        }
        None => return Err(ConfigError("version: missing; allowed is v1".to_owned())),
    }
    let named = match root.get(CONFIGS) {
        Some(Value::Object(named)) if !named.is_empty() => named,
        other => {
            let given = other.map_or_else(|| "missing".to_owned(), show);
            let allowed = "a map from names to lists of entries";
            return Err(ConfigError(format!("{CONFIGS}: {given}; allowed is {allowed}")));
        }
    };
    for (name, value) in named {
        let path = join(CONFIGS, &short(name).to_string());
        if configs.iter().any(|other| other.name == *name) {
            return Err(ConfigError(format!("{path}: given twice")));
        }
        if configs.len() == MOST_CONFIGS {
            return Err(ConfigError(format!("{path}: allowed are up to {MOST_CONFIGS} configs")));
        }
        let entries = list(&path, value, MOST_ENTRIES)?;
        let entry = |(at, value): (usize, &Value)| entry(format!("{path}[{at}]"), value);
        let entries = entries.iter().enumerate().map(entry).collect::<Result<_, _>>()?;
        configs.push(MigConfig { name: name.clone(), entries });
    }
    Ok(())
}

fn list<'a>(path: &str, value: &'a Value, most: usize) -> Result<&'a [Value], ConfigError> {
    let given = match value {
        Value::Array(list) if (1..=most).contains(&list.len()) => return Ok(list),
        Value::Array(list) => format!("{} are given", list.len()),
        other => show(other),
    };
    Err(ConfigError(format!("{path}: {given}; allowed is a list of 1 to {most}")))
}

fn entry(path: String, value: &Value) -> Result<MigEntry, ConfigError> {
    let section = Section::new(path, value, &FIELDS)?;
    let wrong = |name: &str, allowed: &str| {
        let given = section.get(name).map_or_else(|| "missing".to_owned(), show);
        ConfigError(format!("{}: {given}; allowed {allowed}", join(&section.path, name)))
    };
    let Some(enabled) = section.get("mig-enabled").and_then(Value::as_bool) else {
        return Err(wrong("mig-enabled", "are true and false"));
    };
    let devices = match section.get("devices") {
        Some(Value::String(all)) if all == "all" => CardIndexes::All,
        Some(value @ Value::Array(_)) => {
            let path = join(&section.path, "devices");
            let index = |value: &Value| u32::try_from(value.as_u64()?).ok();
            let numbers = list(&path, value, MOST_DEVICES)?.iter().map(index);
            CardIndexes::These(numbers.collect::<Option<_>>().ok_or_else(|| {
                ConfigError(format!("{path}: allowed are the numbers of cards, from 0"))
            })?)
        }
        _ => return Err(wrong("devices", "are all and a list of numbers")),
    };
    let filter = match section.get("device-filter") {
        None => Vec::new(),
        Some(one @ Value::String(_)) => vec![one],
        Some(value) => {
            list(&join(&section.path, "device-filter"), value, MOST_ENTRIES)?.iter().collect()
        }
    };
    let id = |value: &Value| value.as_str().filter(|text| is_pci_id(text)).map(str::to_owned);
    let filter = filter.into_iter().map(id).collect::<Option<Vec<_>>>().ok_or_else(|| {
        wrong("device-filter", "is a PCI id of device and vendor such as \"0x20B210DE\", or a list")
    })?;
    let profiles = match section.get("mig-devices") {
        None if enabled => {
            return Err(wrong("mig-devices", "is a map of profiles, empty for none"));
        }
        None => Vec::new(),
        Some(Value::Object(map)) if enabled || map.is_empty() => {
            let path = join(&section.path, "mig-devices");
            let most = MOST_ENTRIES;
            if map.len() > most {
                return Err(ConfigError(format!("{path}: allowed are up to {most} profiles")));
            }
            map.iter().map(|(name, count)| slices(&path, name, count)).collect::<Result<_, _>>()?
        }
        Some(Value::Object(_)) => {
            return Err(wrong("mig-devices", "is no profile where mig-enabled is false"));
        }
        Some(_) => return Err(wrong("mig-devices", "is a map from profiles to numbers")),
    };
    Ok(MigEntry { filter, devices, enabled, profiles })
}

/// Eight hexadecimal digits.
fn is_pci_id(text: &str) -> bool {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    digits.is_some_and(|id| id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn slices(path: &str, name: &str, count: &Value) -> Result<(Profile, u32), ConfigError> {
    let path = format!("{path}[{:?}]", short(name));
    let Some(profile) = Profile::from_config(name) else {
        // As the resource is called, which the device plugin does not accept here.
        let meant = Profile::parse(name).map(Profile::in_config);
        let meant = meant.map(|name| format!("; this one is written {name:?} here"));
        let like = "such as 1g.10gb, 3g.40gb, 1g.10gb+me and 1c.3g.40gb";
        let meant = meant.unwrap_or_default();
        return Err(ConfigError(format!("{path}: no profile; allowed are names {like}{meant}")));
    };
    let number = count.as_u64().filter(|count| (1..=MOST_SLICES).contains(count));
    let number = number.and_then(|count| u32::try_from(count).ok()).ok_or_else(|| {
        let given = show(count);
        ConfigError(format!("{path}: {given}; allowed are whole numbers from 1 to {MOST_SLICES}"))
    })?;
    Ok((profile, number))
}

/// The file of mig-parted that holds these configs.
pub fn mig_configs_text(configs: &[MigConfig]) -> String {
    let mut text = format!("version: v1\n{CONFIGS}:\n");
    for MigConfig { name, entries } in configs {
        let _ = writeln!(text, "  {name}:");
        for MigEntry { filter, devices, enabled, profiles } in entries {
            let devices = match devices {
                CardIndexes::All => "all".to_owned(),
                CardIndexes::These(cards) => format!("{cards:?}"),
            };
            let _ = writeln!(text, "  - devices: {devices}");
            if !filter.is_empty() {
                let _ = writeln!(text, "    device-filter: {filter:?}");
            }
            let _ = writeln!(text, "    mig-enabled: {enabled}");
            if *enabled {
                let _ = writeln!(text, "    mig-devices:");
            }
            for (profile, count) in profiles {
                let _ = writeln!(text, "      \"{}\": {count}", profile.in_config());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
