//! Our own specification: what a container gets that is granted the provider.

use super::files;
use divvy_words::isolation::{PRELOAD, Provider};
use serde_json::json;
use std::path::{Path, PathBuf};

/// In the first folder that the runtime looks into, which by default outlives a reboot.
pub(super) fn path(folders: &[PathBuf], provider: &Provider) -> PathBuf {
    let folder = folders.first().map(PathBuf::as_path).unwrap_or(Path::new("/etc/cdi"));
    folder.join(format!("divvy.dev-provider-{}.json", provider.name))
}

/// Mounts what is in the folder of a version, and sets the variables, which replace those of the pod
/// and of the image.
pub(super) fn text(provider: &Provider, version: &Path) -> String {
    let mount = |from: &Path, to: &str| {
        json!({
            "hostPath": from, "containerPath": to,
            "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
        })
    };
    let (kind, name) =
        provider.device.split_once('=').unwrap_or((&provider.device, &provider.name));
    let library = provider.library.iter().flat_map(|library| {
        [mount(version, library), mount(&version.join(files::PRELOAD), PRELOAD)]
    });
    let empty = provider.empty_files.iter().map(|file| mount(&version.join(files::EMPTY), file));
    let variables = provider.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let specification = json!({
        "cdiVersion": "0.5.0", "kind": kind,
        "devices": [{
            "name": name,
            "containerEdits": {
                "env": variables.collect::<Vec<_>>(),
                "mounts": library.chain(empty).collect::<Vec<_>>(),
            },
        }],
    });
    format!("{specification:#}\n")
}
