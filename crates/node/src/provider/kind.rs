//! The kind under which specifications of the node have its cards.

use super::{Host, ProviderError};
use divvy_words::cards::is_uuid;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Kinds of cards: what NVIDIA's toolkit writes, and what its device plugin does.
const KINDS: [&str; 2] = ["nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu"];

/// As much of a specification as matters here.
#[derive(Deserialize)]
struct Specification {
    kind: String,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    name: String,
}

/// The kind with most cards by UUID; the first of them if they have as many.
pub(crate) fn of_cards(host: &Host, folders: &[PathBuf]) -> Result<String, ProviderError> {
    let specifications: Vec<Specification> =
        folders.iter().flat_map(|folder| read_all(&host.at(folder))).collect();
    let count = |kind: &&str| {
        let of_kind = specifications.iter().filter(|specification| specification.kind == *kind);
        let names = of_kind.flat_map(|of_kind| &of_kind.devices).map(|device| &device.name);
        names.filter(|name| is_uuid(name)).collect::<BTreeSet<_>>().len()
    };
    // Of equals the last is the greatest.
    let kind = KINDS.into_iter().rev().max_by_key(count).filter(|kind| count(kind) > 0);
    kind.map(str::to_owned).ok_or_else(|| {
        let folders = folders.iter().map(|folder| folder.display().to_string()).collect();
        ProviderError::NoKind { folders }
    })
}

/// What can be read: the runtime leaves out what cannot, too.
fn read_all(folder: &Path) -> Vec<Specification> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        path.extension().is_some_and(|end| ["json", "yaml"].iter().any(|known| end == *known))
    };
    paths.filter(is_one).filter_map(|path| read(&path)).collect()
}

fn read(path: &Path) -> Option<Specification> {
    let text = std::fs::read_to_string(path).ok()?;
    let read = serde_saphyr::from_str(&text);
    read.inspect_err(|why| tracing::warn!(path = %path.display(), %why, "is no specification")).ok()
}
