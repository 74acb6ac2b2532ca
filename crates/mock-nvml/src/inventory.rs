//! The cards of the machine and what is wrong with them, as a file says.

use crate::mig::Slice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The environment variable that names the file.
pub const FILE: &str = "DIVVY_MOCK_NVML";
/// Where the file is in containers: their processes may have an environment without the variable.
pub const INSIDE: &str = "/run/mock-nvml/cards.json";

/// All that the library knows, as JSON in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inventory {
    /// Such as `580.95.05`.
    pub driver_version: String,
    /// Such as 13000 for 13.0.
    pub cuda_version: i32,
    /// By index.
    pub cards: Vec<Card>,
    /// Functions that fail, by name, and the code that they return: `{"nvmlInit_v2": 9}`.
    #[serde(default)]
    pub failing: BTreeMap<String, u32>,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Card {
    /// Such as `GPU-6f2a...`.
    pub uuid: String,
    /// Such as `NVIDIA A100-SXM4-40GB`.
    pub name: String,
    /// The number of its device node, `/dev/nvidia<minor>`.
    pub minor: u32,
    /// Its memory.
    pub mib: u64,
    /// CUDA compute capability: major and minor.
    pub compute: (i32, i32),
    /// What it is divided into, if MIG is on.
    #[serde(default)]
    pub slices: Option<Vec<Slice>>,
    /// It has fallen off the bus: calls on it say so, and whoever waits for events hears of it once.
    #[serde(default)]
    pub lost: bool,
    /// It has reported a critical error: whoever waits for events hears of it once, and calls on it
    /// answer as before.
    #[serde(default)]
    pub failed: bool,
}

impl Inventory {
    /// A machine with these cards and nothing wrong.
    pub fn new(cards: Vec<Card>) -> Self {
        let driver_version = "580.95.05".to_owned();
        Self { driver_version, cuda_version: 13_000, cards, failing: BTreeMap::new() }
    }

    /// What the file says that the environment names, or the one of a container.
    pub(crate) fn read() -> Option<Self> {
        let path = std::env::var_os(FILE).map_or_else(|| INSIDE.into(), PathBuf::from);
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Writes it to a file at once, so that no call reads half of it.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(fresh, path)
    }
}

impl Card {
    /// An A100 with 40 GiB. The UUID is made of the index, the same in each run.
    pub fn a100(index: u32) -> Self {
        Self {
            uuid: format!("GPU-{index:08x}-d1d1-4a10-8000-{index:012x}"),
            name: "NVIDIA A100-SXM4-40GB".to_owned(),
            minor: index,
            mib: 40_960,
            compute: (8, 0),
            slices: None,
            lost: false,
            failed: false,
        }
    }

    /// An A100 with 80 GiB.
    pub fn a100_80(index: u32) -> Self {
        Self { name: "NVIDIA A100-SXM4-80GB".to_owned(), mib: 81_920, ..Self::a100(index) }
    }
}
