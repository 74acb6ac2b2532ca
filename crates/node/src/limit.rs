//! Whether a provider keeps this container to its limit: asked inside of it, of a process that loads
//! what every process loads.
//!
//! ```text
//!   limit.json beside the checker ─► which variable, which library ─┐
//!   environment, /etc/ld.so.preload, /proc/self/maps, NVML ─────────┴─► Enforcement
//! ```
//!
//! The checker is a program of its own, `divvy-isolation-check`, linked dynamically: a static one would
//! not load the library. It shows a mistake. It is no proof against a tenant who wants to be
//! mistaken for limited.

use divvy_words::isolation::{MemoryLimit, PRELOAD};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// The checker's file, beside the library.
pub const CHECKER: &str = "divvy-isolation-check";
/// What it reads, beside itself.
pub(crate) const PROVIDED: &str = "limit.json";

/// What the checker is told of the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provided {
    /// Its name.
    pub provider: String,
    /// How it is told the limit of each card.
    pub memory: MemoryLimit,
    /// The library in this container.
    pub library: PathBuf,
}

/// What a process finds.
#[derive(Clone, Debug)]
struct Found {
    /// The variable.
    limit: Option<String>,
    /// What the loader is told to load into every process.
    preload: String,
    /// What this process has loaded.
    maps: String,
    /// The cards and the bytes that NVML says each has, or why it says nothing.
    cards: Result<Vec<(String, u64)>, String>,
}

/// The limit of each card in force, or all that speaks against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Every card that is seen has this many bytes.
    InForce {
        /// The provider.
        provider: String,
        /// The limit.
        bytes: u64,
        /// How many cards.
        cards: usize,
    },
    /// It is not.
    NotInForce {
        /// The provider.
        provider: String,
        /// Why.
        reasons: Vec<String>,
    },
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InForce { provider, bytes, cards } => {
                let s = if *cards == 1 { "" } else { "s" };
                write!(f, "in force: {provider} limits {cards} card{s} to {bytes} bytes each")
            }
            Self::NotInForce { provider, reasons } => {
                write!(f, "not in force: {provider} does not limit this container")?;
                reasons.iter().try_for_each(|reason| write!(f, "\n  {reason}"))
            }
        }
    }
}

/// Reads what lies beside the checker and looks around in this process.
pub fn check() -> Result<Enforcement, String> {
    let own = std::env::current_exe().map_err(|why| format!("cannot find this program: {why}"))?;
    let path = own.parent().unwrap_or(Path::new("/")).join(PROVIDED);
    let wrong = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
    let text = std::fs::read(&path).map_err(|why| wrong(&why))?;
    let provided: Provided = serde_json::from_slice(&text).map_err(|why| wrong(&why))?;
    // Before the library is looked for: a program may load it when NVML is used first.
    let cards = cards().map_err(|why| why.to_string());
    let found = Found {
        limit: std::env::var(&provided.memory.variable).ok(),
        preload: std::fs::read_to_string(PRELOAD).unwrap_or_default(),
        maps: std::fs::read_to_string("/proc/self/maps").unwrap_or_default(),
        cards,
    };
    Ok(judge(&provided, &found))
}

fn cards() -> Result<Vec<(String, u64)>, NvmlError> {
    let nvml = Nvml::init()?;
    let card = |index| {
        let device = nvml.device_by_index(index)?;
        Ok((device.uuid()?, device.memory_info()?.total))
    };
    (0..nvml.device_count()?).map(card).collect()
}

fn judge(provided: &Provided, found: &Found) -> Enforcement {
    let Provided { provider, memory, library } = provided;
    let variable = &memory.variable;
    let mut reasons = Vec::new();
    let limit = match found.limit.as_deref() {
        None => Err(format!("{variable} is not set")),
        Some(text) => memory
            .parse(text)
            .map(|bytes| bytes.0)
            .ok_or_else(|| format!("{variable} is {text:?}, which is no limit")),
    };
    let limit = limit.map_err(|why| reasons.push(why)).ok();
    let library = library.display().to_string();
    if !found.preload.split([' ', ':', '\t', '\n']).any(|word| word == library) {
        reasons.push(format!("{PRELOAD} does not name {library}"));
    }
    if !found.maps.lines().any(|line| line.ends_with(&format!(" {library}"))) {
        reasons.push(format!("{library} is not loaded in this process"));
    }
    match &found.cards {
        Err(why) => reasons.push(format!("NVML says nothing: {why}")),
        Ok(cards) if cards.is_empty() => reasons.push("no card is there".to_owned()),
        Ok(cards) => reasons.extend(cards.iter().filter_map(|(uuid, total)| match limit {
            Some(limit) if limit == *total => None,
            Some(limit) => {
                Some(format!("NVML says that {uuid} has {total} bytes, the limit is {limit}"))
            }
            None => Some(format!("NVML says that {uuid} has {total} bytes")),
        })),
    }
    match (limit, &found.cards) {
        (Some(bytes), Ok(cards)) if reasons.is_empty() => {
            Enforcement::InForce { provider: provider.clone(), bytes, cards: cards.len() }
        }
        _ => Enforcement::NotInForce { provider: provider.clone(), reasons },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_words::isolation::LimitUnit;

    const LIBRARY: &str = "/usr/local/vgpu/libvgpu.so";

    fn provided(unit: LimitUnit) -> Provided {
        let memory = MemoryLimit::usual("LIMIT", unit);
        Provided { provider: "HAMi-core".to_owned(), memory, library: LIBRARY.into() }
    }

    fn found() -> Found {
        Found {
            limit: Some("1000".to_owned()),
            preload: format!("{LIBRARY}\n"),
            maps: format!("7f00-7f01 r-xp 00000000 00:1f 12                         {LIBRARY}\n"),
            cards: Ok(vec![("GPU-1".to_owned(), 1_000), ("GPU-2".to_owned(), 1_000)]),
        }
    }

    #[test]
    fn a_limit_is_in_force_if_nothing_speaks_against_it() {
        let said = judge(&provided(LimitUnit::Bytes), &found());
        assert_eq!(said.to_string(), "in force: HAMi-core limits 2 cards to 1000 bytes each");
        let mib = Found {
            limit: Some("5m".to_owned()),
            cards: Ok(vec![("GPU-1".to_owned(), 5 << 20)]),
            ..found()
        };
        let said = judge(&provided(LimitUnit::Mib), &mib);
        assert_eq!(said.to_string(), "in force: HAMi-core limits 1 card to 5242880 bytes each");
    }

    #[test]
    fn each_thing_that_speaks_against_it_is_said() {
        let one = || Ok(vec![("GPU-1".to_owned(), 4_000)]);
        let limit = |text: &str| Found { limit: Some(text.to_owned()), cards: one(), ..found() };
        let cases: [(Found, &str); 9] = [
            (
                Found { limit: None, cards: one(), ..found() },
                "LIMIT is not set\n  NVML says that GPU-1 has 4000 bytes",
            ),
            (limit(""), "LIMIT is \"\", which is no limit\n  NVML says that GPU-1 has 4000 bytes"),
            (
                limit("0"),
                "LIMIT is \"0\", which is no limit\n  NVML says that GPU-1 has 4000 bytes",
            ),
            (
                limit("5g"),
                "LIMIT is \"5g\", which is no limit\n  NVML says that GPU-1 has 4000 bytes",
            ),
            (
                Found { preload: "/other.so".to_owned(), ..found() },
                "/etc/ld.so.preload does not name /usr/local/vgpu/libvgpu.so",
            ),
            (
                Found { maps: "7f00 /usr/local/vgpu/libvgpu.so.old\n".to_owned(), ..found() },
                "/usr/local/vgpu/libvgpu.so is not loaded in this process",
            ),
            (
                Found { cards: Err("no driver".to_owned()), ..found() },
                "NVML says nothing: no driver",
            ),
            (Found { cards: Ok(Vec::new()), ..found() }, "no card is there"),
            (
                Found { cards: one(), ..found() },
                "NVML says that GPU-1 has 4000 bytes, the limit is 1000",
            ),
        ];
        for (found, reason) in cases {
            let said = judge(&provided(LimitUnit::Bytes), &found).to_string();
            let expected =
                format!("not in force: HAMi-core does not limit this container\n  {reason}");
            assert_eq!(said, expected);
        }
    }
}
