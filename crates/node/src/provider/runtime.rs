//! NVIDIA's container runtime: whether it grants what a binding names, and where it looks for it.

use super::{Host, ProviderError};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Where its configuration is: as the packages put it, and as the GPU operator does.
const PLACES: [&str; 2] = [
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
];
/// Modes in which the names of all devices are taken from specifications. `auto` does so if all of
/// them are full names, as those of a binding are.
const MODES: [&str; 3] = ["auto", "cdi", "jit-cdi"];
/// The mode, unless it says otherwise.
const USUAL: &str = "auto";
/// Where specifications are, unless it says otherwise.
const FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// As much of it as matters here.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Configuration {
    #[serde(default = "yes")]
    accept_nvidia_visible_devices_envvar_when_unprivileged: bool,
    #[serde(default)]
    swarm_resource: String,
    #[serde(default)]
    nvidia_container_runtime: Runtime,
}

#[derive(Deserialize, Default)]
struct Runtime {
    mode: Option<String>,
    #[serde(default)]
    modes: Modes,
}

#[derive(Deserialize, Default)]
struct Modes {
    #[serde(default)]
    cdi: Cdi,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct Cdi {
    spec_dirs: Option<Vec<PathBuf>>,
}

fn yes() -> bool {
    true
}

pub(super) fn usual_folders() -> Vec<PathBuf> {
    FOLDERS.map(PathBuf::from).into()
}

/// The folders in which the runtime looks for specifications, if it does as a binding needs it.
/// Which of several configurations counts is not known here, so all of them have to do.
pub(crate) fn specification_folders(host: &Host) -> Result<Vec<PathBuf>, ProviderError> {
    let places = places(host);
    let mut folders: Option<Vec<PathBuf>> = None;
    for place in &places {
        let path = host.at(place);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(_) if host.runtime.is_none() && is_absent(&path) => continue,
            Err(error) => return Err(ProviderError::File { what: "read", path, error }),
        };
        let these = read(&text).map_err(|why| ProviderError::Runtime { path, why })?;
        folders = Some(match folders {
            Some(others) => others.into_iter().filter(|folder| these.contains(folder)).collect(),
            None => these,
        });
    }
    let folders = folders.unwrap_or_else(usual_folders);
    if folders.is_empty() {
        let path = places.last().map(|place| host.at(place)).unwrap_or_default();
        let why = "it has no folder for CDI specifications that all configurations have".to_owned();
        return Err(ProviderError::Runtime { path, why });
    }
    Ok(folders)
}

fn places(host: &Host) -> Vec<PathBuf> {
    let given = host.runtime.clone();
    given.map_or_else(|| PLACES.map(PathBuf::from).into(), |place| vec![place])
}

/// The configurations that are there and can be read, each with the mode of the runtime.
pub(crate) fn modes(host: &Host) -> Vec<(PathBuf, String)> {
    let mode = |place: PathBuf| {
        let text = std::fs::read_to_string(host.at(&place)).ok()?;
        let configuration: Configuration = toml::from_str(&text).ok()?;
        let mode = configuration.nvidia_container_runtime.mode;
        Some((place, mode.unwrap_or_else(|| USUAL.to_owned())))
    };
    places(host).into_iter().filter_map(mode).collect()
}

/// Whether nothing is there. A link that leads nowhere from here may lead somewhere on the node.
fn is_absent(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn read(text: &str) -> Result<Vec<PathBuf>, String> {
    let configuration: Configuration =
        toml::from_str(text).map_err(|why| format!("cannot be read: {}", why.message()))?;
    if !configuration.accept_nvidia_visible_devices_envvar_when_unprivileged {
        return Err(
            "accept-nvidia-visible-devices-envvar-when-unprivileged is false: the runtime \
             ignores NVIDIA_VISIBLE_DEVICES, by which cards and providers are granted"
                .to_owned(),
        );
    }
    if !configuration.swarm_resource.is_empty() {
        return Err(format!(
            "swarm-resource is {:?}: the runtime takes devices from other variables than \
             NVIDIA_VISIBLE_DEVICES, which anybody may set",
            configuration.swarm_resource
        ));
    }
    let Runtime { mode, modes } = configuration.nvidia_container_runtime;
    let mode = mode.as_deref().unwrap_or(USUAL);
    if !MODES.contains(&mode) {
        return Err(format!(
            "the runtime's mode is {mode:?}, in which it knows no CDI devices; set {}",
            MODES.join(", ")
        ));
    }
    Ok(modes.cdi.spec_dirs.unwrap_or_else(usual_folders).iter().map(|f| clean(f)).collect())
}

/// Without slashes that say nothing, as the others are written.
fn clean(path: &Path) -> PathBuf {
    path.components().collect()
}
