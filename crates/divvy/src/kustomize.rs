//! What a kustomization makes, as `kubectl apply -k` has it: by kubectl itself, which has kustomize in it.

use anyhow::{Context, anyhow, bail};
use divvy_sim::Input;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// What such manifests are called.
pub fn name(folder: &Path) -> String {
    format!("-k {}", folder.display())
}

/// The manifests of a folder with a kustomization.
pub fn build(folder: &Path) -> anyhow::Result<Input> {
    let name = name(folder);
    if !folder.is_dir() {
        bail!("{name}: there is no such folder; a folder with a kustomization.yaml is meant");
    }
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
            said(&String::from_utf8_lossy(&output.stderr))
        );
    }
    let text = String::from_utf8(output.stdout).context(name.clone())?;
    Ok(Input { name, text })
}

/// What kubectl says without what its log puts around it: `E1119 ... run.go:72] "command failed" err="..."`.
fn said(stderr: &str) -> String {
    let stderr = stderr.trim();
    let logged = stderr.split_once("] \"command failed\" err=").map(|(_, quoted)| quoted);
    let error = logged.and_then(|quoted| serde_json::from_str::<String>(quoted).ok());
    error.unwrap_or_else(|| stderr.strip_prefix("error: ").unwrap_or(stderr).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_says_is_told_without_its_log() {
        let logged =
            "E1119 20:19:30.1 42 run.go:72] \"command failed\" err=\"no 'a' in \\\"b\\\"\"\n";
        assert_eq!(said(logged), "no 'a' in \"b\"");
        assert_eq!(said("error: plain\n"), "plain");
    }
}
