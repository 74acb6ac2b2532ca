//! `cargo xtask chart`: the manifests of `deploy/` are what `charts/divvy` makes.

use crate::root;
use anyhow::{Context, ensure};
use divvy_testbed::chart::{helm, render};

/// Renders the chart with the values of `deploy/` into it.
pub fn write() -> anyhow::Result<()> {
    let folder = root().join("deploy");
    let helm = helm(&mut |line| println!("{line}"))?;
    let (chart, values) = (root().join("charts/divvy"), folder.join("values.yaml"));
    let files = render(helm, &chart, &values, "divvy-system")?;
    ensure!(!files.is_empty(), "the chart makes nothing");
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
