//! What a node can say of itself, to whoever is on it: the driver and its cards, NVIDIA's runtime and
//! the specifications that it takes devices from, and the files of isolation providers.
//!
//! Nothing is judged here, and nothing is written.

use crate::provider::{Host, kind_of_cards, modes, specification_folders};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How the specifications of providers begin, as [`crate::provider`] writes them.
const PROVIDERS: &str = "divvy.dev-provider-";
/// More files than these are no folder of specifications.
const MOST_FILES: usize = 1000;

/// A node as it is seen from itself.
#[derive(Clone, Debug)]
pub struct ObservedNode {
    /// What the driver says, or why nobody can ask it.
    pub driver: Result<ObservedDriver, String>,
    /// The configurations of NVIDIA's runtime, each with its mode.
    pub configs: Vec<(PathBuf, String)>,
    /// Where the runtime looks for specifications, or why it does not grant what bindings name.
    pub folders: Result<Vec<PathBuf>, String>,
    /// The kind under which specifications have the cards by UUID, or why there is none.
    pub kind: Result<String, String>,
    /// Isolation providers that have a specification.
    pub providers: Vec<ObservedProvider>,
}

/// The driver, by NVML.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObservedDriver {
    /// Its version.
    pub version: String,
    /// Its cards, by number.
    pub cards: Vec<ObservedCard>,
}

/// A card, by NVML.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObservedCard {
    /// Its UUID.
    pub uuid: String,
    /// Its model.
    pub model: String,
    /// Its memory.
    pub bytes: u64,
}

/// An isolation provider of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedProvider {
    /// Its specification.
    pub specification: PathBuf,
    /// What it mounts and is not there; all of it, if it cannot be read.
    pub missing: Vec<PathBuf>,
}

/// Looks at the node.
pub fn look(host: &Host) -> ObservedNode {
    let folders = specification_folders(host);
    let searched = folders.as_ref().map_or_else(|_| Vec::new(), Clone::clone);
    let kind = match &folders {
        Ok(folders) => kind_of_cards(host, folders).map_err(|why| why.to_string()),
        Err(why) => Err(why.to_string()),
    };
    ObservedNode {
        driver: driver().map_err(|why| why.to_string()),
        configs: modes(host),
        folders: folders.map_err(|why| why.to_string()),
        kind,
        providers: searched.iter().flat_map(|folder| providers(host, folder)).collect(),
    }
}

fn driver() -> Result<ObservedDriver, NvmlError> {
    let nvml = Nvml::init()?;
    let card = |at: u32| {
        let card = nvml.device_by_index(at)?;
        let (uuid, model, bytes) = (card.uuid()?, card.name()?, card.memory_info()?.total);
        Ok::<_, NvmlError>(ObservedCard { uuid, model, bytes })
    };
    let cards = (0..nvml.device_count()?).map(card).collect::<Result<_, _>>()?;
    Ok(ObservedDriver { version: nvml.sys_driver_version()?, cards })
}

fn providers(host: &Host, folder: &Path) -> Vec<ObservedProvider> {
    let Ok(entries) = std::fs::read_dir(host.at(folder)) else { return Vec::new() };
    let names =
        entries.take(MOST_FILES).flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(PROVIDERS)).collect();
    names.sort();
    let provider = |name: String| {
        let specification = folder.join(name);
        let missing = missing(host, &host.at(&specification));
        ObservedProvider {
            missing: missing.unwrap_or_else(|| vec![specification.clone()]),
            specification,
        }
    };
    names.into_iter().map(provider).collect()
}

/// What a specification mounts and is not there; nothing if it cannot be read.
fn missing(host: &Host, specification: &Path) -> Option<Vec<PathBuf>> {
    let text = std::fs::read_to_string(specification).ok()?;
    let read: Specification = serde_json::from_str(&text).ok()?;
    let mounts = read.devices.into_iter().flat_map(|device| device.container_edits.mounts);
    let paths = mounts.map(|mount| mount.host_path);
    Some(paths.filter(|path| !host.at(path).exists()).collect())
}

#[derive(Deserialize)]
struct Specification {
    devices: Vec<Device>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    #[serde(default)]
    container_edits: Edits,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Edits {
    mounts: Vec<Mount>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: PathBuf,
}
