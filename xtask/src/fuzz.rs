//! `cargo xtask fuzz`: the targets of crates/fuzz under libFuzzer, guided by coverage.
//!
//! The instrumentation is LLVM's, by options of rustc that are stable, and libFuzzer's runtime comes
//! with a crate: nothing is installed, but a C++ compiler must be there. All of it is built into a
//! folder of its own, as the flags would have everything else built anew.

mod run;

use crate::{cargo, root, run as finish};
use anyhow::{Context, bail, ensure};
use run::{Outcome, Run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What to try, and for how long.
#[derive(clap::Args)]
pub struct Options {
    /// How long in all, such as 90s, 10m or 2h; each target gets the same part of it
    #[arg(long = "for", default_value = "10m", value_parser = duration)]
    time: Duration,
    /// Only this target; can be given several times
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    /// Where choices begin; without it each run makes others
    #[arg(long)]
    seed: Option<u32>,
    /// Try this input again, and nothing else; needs one --target
    #[arg(long, value_name = "FILE", requires = "targets")]
    input: Option<PathBuf>,
}

/// Where all of it is: what is built, inputs that reach something new, and those that fail.
fn folder() -> PathBuf {
    root().join("target/fuzz")
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let all = targets()?;
    let chosen = match &options.targets[..] {
        [] => all,
        names => {
            let unknown = names.iter().find(|name| !all.contains(name));
            let known = all.join(", ");
            ensure!(unknown.is_none(), "{unknown:?} is no target; there are {known}");
            names.to_vec()
        }
    };
    let program = build()?;
    if let Some(input) = &options.input {
        let mut again = Command::new(program);
        again.env(TARGET, &chosen[0]).arg(input);
        return finish(again);
    }
    let share = options.time / u32::try_from(chosen.len())?;
    let mut outcomes = Vec::new();
    for target in &chosen {
        let run = Run { program: &program, target, time: share, seed: options.seed };
        outcomes.push(run.go()?);
    }
    println!("\n{}", table(&outcomes));
    let findings: Vec<&Outcome> = outcomes.iter().filter(|o| o.finding.is_some()).collect();
    for Outcome { target, finding, .. } in &findings {
        let input = finding.as_deref().unwrap_or(Path::new("")).display();
        println!("{target}: {input} fails; try it again with");
        println!("  cargo xtask fuzz --target {target} --input {input}");
    }
    if !findings.is_empty() {
        bail!("{} of {} targets have a finding", findings.len(), outcomes.len());
    }
    Ok(())
}

/// The variable that says which target the program is to run.
const TARGET: &str = "DIVVY_FUZZ_TARGET";

/// The names of the targets: each has a corpus.
fn targets() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("crates/fuzz/corpus"))? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Builds the program and gives its path.
fn build() -> anyhow::Result<PathBuf> {
    // Counters at every edge, and what is compared with what: LLVM's own names for it.
    const FLAGS: [&str; 5] = [
        "-Cpasses=sancov-module",
        "-Cllvm-args=-sanitizer-coverage-level=4",
        "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
        "-Cllvm-args=-sanitizer-coverage-pc-table",
        "-Cllvm-args=-sanitizer-coverage-trace-compares",
    ];
    // With the target named, build scripts and macros go without the flags.
    let host = host()?;
    let mut build =
        cargo(&["build", "--package=divvy-fuzz", "--features=guided", "--profile=fuzz"]);
    build.args(["--target", &host, "--target-dir"]).arg(folder());
    build.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    finish(build).context("failed to build crates/fuzz; its C++ part needs g++ or clang++")?;
    Ok(folder().join(host).join("fuzz/divvy-fuzz"))
}

fn host() -> anyhow::Result<String> {
    let told = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("-vV")
        .output()?;
    let told = String::from_utf8(told.stdout)?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it compiles for")?.to_owned())
}

/// `90s`, `10m` or `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time; allowed is a number of s, m or h, such as 10m");
    let unit = text.char_indices().last().ok_or_else(wrong)?;
    let seconds = match unit.1 {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..unit.0].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

fn table(outcomes: &[Outcome]) -> String {
    let mut lines = vec![format!(
        "{:<12} {:>12} {:>10} {:>8} {:>10}",
        "target", "inputs", "inputs/s", "edges", "finding"
    )];
    for o in outcomes {
        let finding = if o.finding.is_some() { "yes" } else { "none" };
        let rate = o.inputs * 1000 / u64::try_from(o.time.as_millis()).unwrap_or(1).max(1);
        let (target, inputs, edges) = (&o.target, o.inputs, o.edges);
        lines.push(format!("{target:<12} {inputs:>12} {rate:>10} {edges:>8} {finding:>10}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_a_number_and_a_unit() {
        for (text, seconds) in [("90s", Some(90)), ("10m", Some(600)), ("2h", Some(7200))] {
            assert_eq!(duration(text).ok().map(|time| time.as_secs()), seconds, "{text}");
        }
        for text in ["", "m", "10", "1.5h", "-1s", "10 m", "1é", "99999999999999999999h"] {
            assert!(duration(text).unwrap_err().contains("allowed"), "{text}");
        }
    }
}
