//! `cargo xtask soak`: everything at once for a long time, on simulated nodes and on the real one.

use crate::{cargo, run};
use anyhow::bail;
use std::process::Child;
use std::time::Duration;

/// Both at the same time, each for so long.
pub fn soak(span: Duration) -> anyhow::Result<()> {
    run(cargo(&["test", "--package", "divvy", "--tests", "--no-run"]))?;
    let start = |suite: &str, test: &str| -> anyhow::Result<Child> {
        let mut command = cargo(&["test", "--quiet", "--package", "divvy", "--test", suite]);
        command.args(["--", "--ignored", "--nocapture", "--exact", test]);
        command.env("DIVVY_SOAK", span.as_secs().to_string());
        Ok(command.spawn()?)
    };
    let simulated = start("stress", "soak::nothing_is_given_twice_or_lost_or_grows")?;
    let node = start(
        "sharing",
        "soak::while_everything_on_the_node_is_restarted_every_container_has_its_own_cards",
    )?;
    let mut failed = Vec::new();
    for (name, mut child) in [("simulated nodes", simulated), ("the real node", node)] {
        if !child.wait()?.success() {
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("the soak failed on {}", failed.join(" and on "));
    }
    Ok(())
}
