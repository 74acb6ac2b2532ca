//! `isolationProviders`: what enforces a level on nodes.

use super::{ConfigError, Section, show};
use crate::isolation::{Level, LimitUnit, MemoryLimit, Provider};
use serde_json::Value;
use std::collections::BTreeMap;

const FIELDS: [&str; 9] = [
    "name",
    "levels",
    "device",
    "memory",
    "compute",
    "library",
    "environment",
    "emptyFiles",
    "freshFiles",
];
/// More are a mistake; each is a class of cards.
const MOST: usize = 64;

/// The list, if one is given.
pub(super) fn read(root: &Section<'_>) -> Result<Option<Vec<Provider>>, ConfigError> {
    let Some(value) = root.get("isolationProviders") else { return Ok(None) };
    let Value::Array(list) = value else {
        return Err(ConfigError(format!("isolationProviders: {}; allowed is a list", show(value))));
    };
    if list.len() > MOST {
        return Err(ConfigError(format!(
            "isolationProviders: {} are given; allowed are up to {MOST}",
            list.len()
        )));
    }
    let mut providers: Vec<Provider> = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let section = Section::new(format!("isolationProviders[{at}]"), value, &FIELDS)?;
        let provider = provider(&section)?;
        if providers.iter().any(|other| other.name == provider.name) {
            return Err(ConfigError(format!(
                "isolationProviders[{at}].name: {} is given twice",
                provider.name
            )));
        }
        providers.push(provider);
    }
    Ok(Some(providers))
}

fn provider(section: &Section<'_>) -> Result<Provider, ConfigError> {
    let name = section.text("name", "is a label value", is_label)?;
    let levels = levels(section)?;
    let is_device = |text: &str| text.contains('/') && text.contains('=') && !text.contains(',');
    let device = section.text("device", "is <vendor>/<class>=<name>", is_device)?;
    let memory = memory(section)?;
    let compute = match section.section("compute", &["variable"])? {
        Some(compute) => Some(compute.variable()?),
        None => None,
    };
    let library = match section.get("library") {
        Some(_) => Some(section.text("library", "is an absolute path", is_path)?),
        None => None,
    };
    let environment = environment(section)?;
    let empty_files = paths(section, "emptyFiles")?;
    let fresh_files = paths(section, "freshFiles")?;
    if library.is_none() && environment.is_empty() && empty_files.is_empty() {
        let path = &section.path;
        return Err(ConfigError(format!(
            "{path}: a container gets nothing of it; allowed is a provider with library, environment or emptyFiles"
        )));
    }
    Ok(Provider {
        name,
        levels,
        device,
        memory,
        compute,
        library,
        environment,
        empty_files,
        fresh_files,
    })
}

fn memory(section: &Section<'_>) -> Result<MemoryLimit, ConfigError> {
    let path = format!("{}.memory", section.path);
    let memory = section.section("memory", &["variable", "unit", "format"])?;
    let memory =
        memory.ok_or_else(|| ConfigError(format!("{path}: missing; it names a variable")))?;
    let unit = memory.text("unit", "are bytes and MiB", |text| matches!(text, "bytes" | "MiB"))?;
    let unit = if unit == "MiB" { LimitUnit::Mib } else { LimitUnit::Bytes };
    let limit = MemoryLimit::usual(&memory.variable()?, unit);
    if memory.get("format").is_none() {
        return Ok(limit);
    }
    let is_format =
        |text: &str| text.matches(MemoryLimit::AMOUNT).count() == 1 && !text.contains(',');
    let format = memory.text("format", "is a text with {} once and without commas", is_format)?;
    Ok(MemoryLimit { format, ..limit })
}

fn paths(section: &Section<'_>, name: &str) -> Result<Vec<String>, ConfigError> {
    let wrong = |given: String| {
        let path = &section.path;
        ConfigError(format!("{path}.{name}: {given}; allowed is a list of absolute paths"))
    };
    let list = match section.get(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong(show(other))),
    };
    let path = |value: &Value| {
        let text = value.as_str().filter(|text| is_path(text)).map(str::to_owned);
        text.ok_or_else(|| wrong(show(value)))
    };
    list.iter().map(path).collect()
}

fn levels(section: &Section<'_>) -> Result<Vec<Level>, ConfigError> {
    let wrong = |given: String| {
        let path = &section.path;
        ConfigError(format!("{path}.levels: {given}; allowed is a list of {}", Level::ALLOWED))
    };
    let given = section.get("levels").and_then(Value::as_array).filter(|list| !list.is_empty());
    let list = given.ok_or_else(|| wrong("no list is given".to_owned()))?;
    let level =
        |value: &Value| value.as_str().and_then(Level::parse).ok_or_else(|| wrong(show(value)));
    let mut levels = list.iter().map(level).collect::<Result<Vec<_>, _>>()?;
    levels.sort_unstable();
    levels.dedup();
    Ok(levels)
}

fn environment(section: &Section<'_>) -> Result<BTreeMap<String, String>, ConfigError> {
    let wrong = |given: String| {
        let path = &section.path;
        ConfigError(format!("{path}.environment: {given}; allowed is a map of strings without $"))
    };
    match section.get("environment") {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(map)) => {
            let entry = |(name, value): (&String, &Value)| match value.as_str() {
                // The kubelet would put another variable there.
                Some(text) if is_variable(name) && !text.contains('$') => {
                    Ok((name.clone(), text.to_owned()))
                }
                _ => Err(wrong(format!("{name}: {}", show(value)))),
            };
            map.iter().map(entry).collect()
        }
        Some(other) => Err(wrong(show(other))),
    }
}

impl Section<'_> {
    /// The name of a variable.
    fn variable(&self) -> Result<String, ConfigError> {
        self.text("variable", "is the name of a variable", is_variable)
    }

    /// A text that is required.
    fn text(
        &self,
        name: &str,
        allowed: &str,
        is_allowed: impl Fn(&str) -> bool,
    ) -> Result<String, ConfigError> {
        let path = format!("{}.{name}", self.path);
        let Some(value) = self.get(name) else {
            return Err(ConfigError(format!("{path}: missing; allowed {allowed}")));
        };
        let text = value.as_str().filter(|text| is_allowed(text)).map(str::to_owned);
        text.ok_or_else(|| ConfigError(format!("{path}: {}; allowed {allowed}", show(value))))
    }
}

fn is_path(text: &str) -> bool {
    text.len() > 1 && text.starts_with('/')
}

/// What a label may be set to.
fn is_label(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text.chars().all(is_plain)
}

fn is_variable(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| !c.is_ascii_digit()) && text.chars().all(is_plain)
}
