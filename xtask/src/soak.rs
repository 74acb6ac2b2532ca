//! `cargo xtask soak`: everything at once for a long time, on simulated nodes and on the real one.

use crate::{cargo, run};
use anyhow::{Context, bail};
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

/// Reads `90s`, `60m` or `2h`.
pub fn span(text: &str) -> anyhow::Result<Duration> {
    let wrong = || format!("{text:?} is no time: give a number and s, m or h, such as 60m");
    let (number, unit) = text.split_at(text.char_indices().last().map_or(0, |(at, _)| at));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => bail!(wrong()),
    };
    let number: u64 = number.parse().ok().with_context(wrong)?;
    Ok(Duration::from_secs(number.checked_mul(seconds).with_context(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them_and_nothing_else_is() {
        for (text, seconds) in [("90s", 90), ("60m", 3600), ("2h", 7200)] {
            assert_eq!(span(text).unwrap(), Duration::from_secs(seconds));
        }
        for text in ["", "m", "60", "1d", "-1m", "1.5h", "99999999999999999999h", "1é"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
