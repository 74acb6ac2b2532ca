//! How much memory the manifests allow.

use std::path::Path;

/// The limit of memory of the container in a manifest of `deploy/`, in bytes.
pub fn memory_limit(manifest: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(manifest);
    let text = std::fs::read_to_string(path).unwrap();
    let (_, after) = text.split_once("limits: {memory: ").unwrap();
    let (mib, _) = after.split_once("Mi}").unwrap();
    mib.parse::<u64>().unwrap() << 20
}
