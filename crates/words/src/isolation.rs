//! Levels of isolation: which a pod has, what sees to it, and what a binding writes for it.
//!
//! ```text
//!   labels of a pod ─► level and provider ─► class, a number ─► ledger: one class on a card
//!                       ▲ table of providers   ▼
//!                       config file          annotations of the binding
//! ```
//!
//! Shared is one class, whatever the label of the provider says; Isolated is one for each provider.

use crate::keys;
use crate::manifest::Metadata;
use crate::problem::short;
use divvy_engine::{ClassName, NodeRecord, PodRecord, PodSpec};
use divvy_ledger::{Bytes, Class, Each, Percent};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Whether a share may use more of its card than it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It may not.
    Isolated,
    /// It may.
    Shared,
}

/// What the name of a provider stands behind in a record.
const ISOLATED_BY: &str = "Isolated/";

impl Level {
    /// The values of the label.
    pub const ALLOWED: &str = "Isolated and Shared";

    /// Reads the label.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "Isolated" => Some(Self::Isolated),
            "Shared" => Some(Self::Shared),
            _ => None,
        }
    }

    /// As in the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Isolated => "Isolated",
            Self::Shared => "Shared",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The unit of a limit of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitUnit {
    /// Written `2097152000`.
    #[serde(rename = "bytes")]
    Bytes,
    /// Written `2000m`, unless the provider wants something else.
    #[serde(rename = "MiB")]
    Mib,
}

/// How a provider is told the limit of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// By this variable.
    pub variable: String,
    /// In this unit.
    pub unit: LimitUnit,
    /// What the variable says, with [`Self::AMOUNT`] for the amount. If [`Self::CARD`] is in it, it is
    /// said for each card.
    pub format: String,
}

impl MemoryLimit {
    /// Stands for the amount.
    pub const AMOUNT: &str = "{}";
    /// Stands for the number of a card in its container, from 0.
    pub const CARD: &str = "{card}";

    /// As most read it.
    pub fn usual(variable: &str, unit: LimitUnit) -> Self {
        let format = match unit {
            LimitUnit::Bytes => "{}",
            LimitUnit::Mib => "{}m",
        };
        Self { variable: variable.to_owned(), unit, format: format.to_owned() }
    }

    /// So many bytes of each of so many cards.
    pub fn print(&self, bytes: Bytes, cards: usize) -> String {
        let amount = match self.unit {
            LimitUnit::Bytes => bytes.0,
            LimitUnit::Mib => bytes.mib(),
        };
        // To some providers 0 is no limit.
        let text = self.format.replace(Self::AMOUNT, &amount.max(1).to_string());
        let cards = if text.contains(Self::CARD) { cards } else { 1 };
        let of_card = |card: usize| text.replace(Self::CARD, &card.to_string());
        (0..cards).map(of_card).collect::<Vec<_>>().join(",")
    }

    /// What was printed; `None` is no limit.
    pub fn parse(&self, text: &str) -> Option<Bytes> {
        let first = self.format.replace(Self::CARD, "0");
        let (before, after) = first.split_once(Self::AMOUNT)?;
        let parts = text.split(',').count();
        let amount = text.split(',').next()?.strip_prefix(before)?.strip_suffix(after)?;
        let amount: u64 = amount.parse().ok()?;
        let bytes = match self.unit {
            LimitUnit::Bytes => Bytes(amount),
            LimitUnit::Mib => Bytes(amount.checked_mul(1 << 20)?),
        };
        (self.print(bytes, parts) == text).then_some(bytes)
    }
}

/// What the loader of a container is told to load into every process.
pub const PRELOAD: &str = "/etc/ld.so.preload";

/// What enforces a level on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// As in the labels.
    pub name: String,
    /// The levels that it can keep.
    pub levels: Vec<Level>,
    /// The CDI device that a binding grants beside the card.
    pub device: String,
    /// How it is told the limit of memory.
    pub memory: MemoryLimit,
    /// The variable that limits compute, in percent of a card.
    pub compute: Option<String>,
    /// The folder of a container that its library is mounted to, if it has one.
    pub library: Option<String>,
    /// Variables that could switch it off, at values that do not: admission and its specification set
    /// them, and pods must not set them to anything else.
    pub environment: BTreeMap<String, String>,
    /// Files that could switch it off: its specification mounts empty ones there.
    pub empty_files: Vec<String>,
    /// Files of its own that a container must start without: of volumes only an `emptyDir` may be
    /// there.
    pub fresh_files: Vec<String>,
}

/// The cards of one container that HAMi-core knows, each with variables of its own.
const HAMI_CARDS: u32 = 16;

impl Provider {
    /// What there is if nobody says otherwise. Its library looks for itself at
    /// `/usr/local/vgpu/libvgpu.so`.
    pub fn hami_core() -> Self {
        let safe = [
            ("CUDA_DISABLE_CONTROL", "false"),
            // Where the library would look for itself instead.
            ("CUDA_REDIRECT", ""),
            // The one that processes without any variables take: all of a container share one.
            ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/cudevshr.cache"),
            ("CUDA_OVERSUBSCRIBE", "false"),
            ("CUDA_TASK_PRIORITY", "1"),
            ("GPU_CORE_UTILIZATION_POLICY", "default"),
            ("ACTIVE_OOM_KILLER", "true"),
        ];
        let safe = safe.map(|(name, value)| (name.to_owned(), value.to_owned()));
        // An empty one does not count; any other would win over the one that is granted.
        let of_card = |name: &str, card| (format!("{name}_{card}"), String::new());
        let of_cards = ["CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT"]
            .into_iter()
            .flat_map(|name| (0..HAMI_CARDS).map(move |card| of_card(name, card)));
        Self {
            name: "HAMi-core".to_owned(),
            levels: vec![Level::Isolated],
            device: "divvy.dev/provider=HAMi-core".to_owned(),
            memory: MemoryLimit::usual("CUDA_DEVICE_MEMORY_LIMIT", LimitUnit::Bytes),
            compute: Some("CUDA_DEVICE_SM_LIMIT".to_owned()),
            library: Some("/usr/local/vgpu".to_owned()),
            environment: safe.into_iter().chain(of_cards).collect(),
            // Older ones set the variables that it has, after all.
            empty_files: vec!["/overrideEnv".to_owned()],
            // The limits that are in it hold, whatever the variables say.
            fresh_files: vec!["/tmp/cudevshr.cache".to_owned()],
        }
    }

    /// The variables of a container with a limit, and the annotations that they are read from.
    pub fn variables(&self, asks_compute: bool) -> impl Iterator<Item = (&str, &'static str)> {
        let compute = self.compute.as_deref().filter(|_| asks_compute);
        let memory = [(&*self.memory.variable, keys::MEMORY_LIMIT)];
        memory.into_iter().chain(compute.map(|name| (name, keys::COMPUTE_LIMIT)))
    }

    /// The files and folders that its specification mounts.
    pub fn mounted(&self) -> impl Iterator<Item = &str> {
        let library = self.library.iter().flat_map(|library| [&**library, PRELOAD]);
        library.chain(self.empty_files.iter().map(String::as_str))
    }
}

/// What a share pod has: its level, and the place of its provider if that is to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It may use all of its card.
    Shared,
    /// It is kept to its part by this provider of the table.
    Isolated(usize),
}

/// The levels are told apart, with this table of providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    providers: Vec<Provider>,
    /// Providers that only records name: their shares have a class with a name, and nobody joins them.
    recorded: Vec<String>,
}

/// More providers than a cluster has; those beyond have one class without a name.
const MOST_RECORDED: usize = 64;

impl Default for Isolation {
    fn default() -> Self {
        Self::new(vec![Provider::hami_core()])
    }
}

impl Isolation {
    /// With these providers.
    pub fn new(providers: Vec<Provider>) -> Self {
        Self { providers, recorded: Vec::new() }
    }

    /// Knows the providers that these values of [`keys::CLASS`] name, too, as far as their name goes:
    /// so that a cluster can be looked at without its config file.
    #[must_use]
    pub fn and_recorded<'a>(self, records: impl Iterator<Item = &'a str>) -> Self {
        let names = records.filter_map(|text| text.strip_prefix(ISOLATED_BY));
        let unknown: BTreeSet<&str> = names.filter(|name| self.find(name).is_none()).collect();
        let recorded = unknown.into_iter().take(MOST_RECORDED).map(str::to_owned).collect();
        Self { recorded, ..self }
    }

    /// All providers.
    pub fn providers(&self) -> &[Provider] {
        &self.providers
    }

    /// The provider of this name, or what is wrong with it.
    pub fn named(&self, name: &str) -> Result<&Provider, String> {
        let found = self.find(name).and_then(|at| self.providers.get(at));
        found.ok_or_else(|| format!("{:?} is no provider; known are {}", short(name), self.known()))
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.providers.iter().position(|provider| provider.name == name)
    }

    fn known(&self) -> String {
        let names: Vec<&str> = self.providers.iter().map(|provider| &*provider.name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// The level of a pod that says none, if there is only one that it can mean.
    pub fn default_level(&self, provider: Option<&str>) -> Option<Level> {
        let Some(name) = provider else { return Some(Level::Shared) };
        match &*self.providers.get(self.find(name)?)?.levels {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// What the labels of a share pod say, or what is wrong with them.
    pub fn choice(&self, level: Option<&str>, provider: Option<&str>) -> Result<Choice, String> {
        let field = |label: &str| format!("metadata.labels[\"{label}\"]");
        let (of_level, of_provider) =
            (field(keys::ISOLATION_LEVEL), field(keys::ISOLATION_PROVIDER));
        let given = level.map(|text| {
            let unknown =
                || format!("{of_level}: {:?}; allowed are {}", short(text), Level::ALLOWED);
            Level::parse(text).ok_or_else(unknown)
        });
        let given = given.transpose()?;
        let Some(name) = provider else {
            return match given {
                None | Some(Level::Shared) => Ok(Choice::Shared),
                Some(Level::Isolated) => Err(format!(
                    "{of_provider}: missing; {} needs a provider, known are {}",
                    Level::Isolated,
                    self.known()
                )),
            };
        };
        let found = self.find(name).and_then(|at| Some((at, self.providers.get(at)?)));
        let Some((at, provider)) = found else {
            let (name, known) = (short(name), self.known());
            return Err(format!("{of_provider}: {name:?} is no provider; known are {known}"));
        };
        let levels = || provider.levels.iter().map(|l| l.as_str()).collect::<Vec<_>>().join(", ");
        let Some(level) = given.or_else(|| self.default_level(Some(name))) else {
            return Err(format!(
                "{of_level}: missing; provider {} has several levels, allowed are {}",
                provider.name,
                levels()
            ));
        };
        match (provider.levels.contains(&level), level) {
            (false, _) => {
                Err(format!("{of_level}: {level}; provider {} allows {}", provider.name, levels()))
            }
            (true, Level::Isolated) => Ok(Choice::Isolated(at)),
            (true, Level::Shared) => Ok(Choice::Shared),
        }
    }

    /// The number of a choice in the ledger.
    pub fn class(&self, choice: Choice) -> Class {
        match choice {
            Choice::Shared => Class::default(),
            Choice::Isolated(at) => Class(u16::try_from(at + 1).unwrap_or(u16::MAX)),
        }
    }

    /// The provider of a class.
    pub fn provider(&self, class: Class) -> Option<&Provider> {
        self.providers.get(usize::from(class.0).checked_sub(1)?)
    }

    /// The class of shares that some provider isolates which is not in the table: nobody joins them.
    fn unknown(&self) -> Class {
        self.class(Choice::Isolated(self.providers.len()))
    }

    /// The provider that only records name.
    fn only_recorded(&self, class: Class) -> Option<&str> {
        let at = usize::from(class.0).checked_sub(self.providers.len() + 2)?;
        self.recorded.get(at).map(String::as_str)
    }

    /// What the classes are called, for [`divvy_engine::Event::Classes`].
    pub fn class_names(&self) -> Arc<[ClassName]> {
        let shared = ClassName { name: Level::Shared.as_str().into(), provider: None };
        let of = |name: &str| ClassName {
            name: format!("{ISOLATED_BY}{name}").into(),
            provider: Some(name.into()),
        };
        let unknown = ClassName { name: Level::Isolated.as_str().into(), provider: None };
        let known = self.providers.iter().map(|provider| of(&provider.name));
        let recorded = self.recorded.iter().map(|name| of(name));
        [shared].into_iter().chain(known).chain([unknown]).chain(recorded).collect()
    }

    /// Gives a pod that waits its class, or says what is wrong with its labels.
    pub fn enter_pod(&self, metadata: &Metadata, record: &mut PodRecord) {
        if !record.spec.request.is_share() {
            return;
        }
        match self.choice_of(metadata) {
            Ok(choice) => set_class(&mut record.spec, self.class(choice)),
            Err(why) => {
                record.invalid.get_or_insert(why);
            }
        }
    }

    /// Gives a bound pod the class that its binding recorded. Of one from before the levels were told
    /// apart its labels say it, and if they make no sense nothing isolates it.
    pub fn enter_bound(&self, metadata: &Metadata, spec: &mut PodSpec) {
        let class = match metadata.annotations.get(keys::CLASS) {
            Some(text) => self.recorded(text),
            None => self.class(self.choice_of(metadata).unwrap_or(Choice::Shared)),
        };
        set_class(spec, class);
    }

    fn choice_of(&self, metadata: &Metadata) -> Result<Choice, String> {
        let label = |key| metadata.labels.get(key);
        self.choice(label(keys::ISOLATION_LEVEL), label(keys::ISOLATION_PROVIDER))
    }

    /// Reads what [`Self::recorded_as`] wrote.
    pub fn recorded(&self, text: &str) -> Class {
        if text == Level::Shared.as_str() {
            return Class::default();
        }
        let Some(name) = text.strip_prefix(ISOLATED_BY) else { return self.unknown() };
        if let Some(at) = self.find(name) {
            return self.class(Choice::Isolated(at));
        }
        // After those of the table, and the one for all that nobody knows.
        let at = self.recorded.iter().position(|recorded| recorded == name);
        let beyond = |at| self.class(Choice::Isolated(self.providers.len() + 1 + at));
        at.map_or_else(|| self.unknown(), beyond)
    }

    /// What is recorded of a class, in the annotation [`keys::CLASS`] among others.
    pub fn recorded_as(&self, class: Class) -> String {
        let name = self.provider(class).map(|provider| &*provider.name);
        match name.or_else(|| self.only_recorded(class)) {
            Some(name) => format!("{ISOLATED_BY}{name}"),
            None if class == Class::default() => Level::Shared.to_string(),
            None => Level::Isolated.to_string(),
        }
    }

    /// Says of a node which classes it takes: the provider is there, and it is known by which kind its
    /// cards are granted beside it.
    pub fn enter_node(&self, metadata: &Metadata, record: &mut NodeRecord) {
        let provider = metadata.labels.get(keys::ISOLATION_PROVIDER);
        let offered = provider.filter(|_| cdi_kind(metadata).is_some());
        let at = offered.and_then(|name| self.find(name));
        record.gpus.classes = at.map(|at| self.class(Choice::Isolated(at))).into_iter().collect();
    }

    /// What a binding writes besides the cards, for a share of so many bytes of each of so many: the
    /// annotations of [`keys::CLASS`], [`keys::MEMORY_LIMIT`] and [`keys::COMPUTE_LIMIT`].
    pub fn annotations(
        &self,
        class: Class,
        cards: usize,
        bytes: Bytes,
        compute: Percent,
    ) -> Vec<(&'static str, String)> {
        let recorded = (keys::CLASS, self.recorded_as(class));
        let Some(provider) = self.provider(class) else { return vec![recorded] };
        let mut all = vec![recorded, (keys::MEMORY_LIMIT, provider.memory.print(bytes, cards))];
        if compute.0 > 0 && provider.compute.is_some() {
            all.push((keys::COMPUTE_LIMIT, compute.0.to_string()));
        }
        all
    }

    /// The devices of a container whose pod a provider isolates: qualified names alone. `kind` is that
    /// of the node's cards. `None` if the class is Shared.
    pub fn devices<'a>(
        &self,
        class: Class,
        kind: &str,
        cards: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        let provider = self.provider(class)?;
        let cards = cards.map(|uuid| format!("{kind}={uuid}"));
        Some(cards.chain([provider.device.clone()]).collect::<Vec<_>>().join(","))
    }
}

/// The kind of a node's cards for the container runtime, if a provider was installed there. It is put
/// where devices are listed: what is no `<vendor>/<class>` could mean others.
pub fn cdi_kind(metadata: &Metadata) -> Option<&str> {
    let is_plain =
        |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let is_part =
        |part: &str| part.starts_with(|c: char| c.is_ascii_alphanumeric()) && is_plain(part);
    let is_kind = |kind: &&str| {
        kind.split_once('/').is_some_and(|(vendor, class)| is_part(vendor) && is_part(class))
    };
    metadata.annotations.get(keys::CDI_KIND).filter(is_kind)
}

fn set_class(spec: &mut PodSpec, class: Class) {
    let Some(part) = spec.request.part() else { return };
    let cards = spec.request.cards();
    let part = divvy_ledger::Part { class, ..part };
    spec.request = std::mem::take(&mut spec.request).and(cards, Each::Share(part));
}

#[cfg(test)]
mod tests;
