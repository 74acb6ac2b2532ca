//! What a kustomization makes, as `kubectl apply -k` has it: by kubectl itself, which has kustomize in it.

use anyhow::{Context, anyhow, bail};
use divvy_sim::Input;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// The manifests of a folder with a kustomization.
pub fn build(folder: &Path) -> anyhow::Result<Input> {
    let name = format!("-k {}", folder.display());
    let output = Command::new("kubectl").arg("kustomize").arg(folder).output();
    let output = output.map_err(|why| match why.kind() {
        ErrorKind::NotFound => anyhow!(
            "{name}: kubectl is not on the PATH, and it is what makes manifests of kustomizations; install \
             it, or give what `kustomize build {}` prints with -f -",
            folder.display()
        ),
        _ => anyhow!("{name}: kubectl cannot be started: {why}"),
    })?;
    if !output.status.success() {
        bail!(
            "{name}: kubectl kustomize failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = String::from_utf8(output.stdout).context(name.clone())?;
    Ok(Input { name, text })
}
