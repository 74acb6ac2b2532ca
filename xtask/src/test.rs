//! `cargo xtask test`: everything that must hold, in one go.

use crate::report::{Part, render};
use crate::{cargo, root};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A part of the tests and how to run it.
type Step = (&'static str, fn(&'static str) -> anyhow::Result<Part>);

const STEPS: [Step; 6] = [
    ("format", |name| check(name, cargo(&["fmt", "--all", "--check"]))),
    ("lint", |name| {
        let lint = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
        check(name, cargo(&lint))
    }),
    ("testbed", testbed),
    ("unit", unit),
    ("main job", main_job),
    ("supply", supply),
];

pub fn run() -> anyhow::Result<()> {
    let mut parts = Vec::new();
    for (i, (name, step)) in STEPS.iter().enumerate() {
        println!("[{}/{}] {name}", i + 1, STEPS.len());
        let start = Instant::now();
        parts.push(step(name)?);
        println!("[{}/{}] {name}: {} s\n", i + 1, STEPS.len(), start.elapsed().as_secs());
    }
    println!("{}", render(&parts));
    if parts.iter().any(|p| p.failed > 0) {
        bail!("some tests failed");
    }
    Ok(())
}

fn check(name: &'static str, mut command: Command) -> anyhow::Result<Part> {
    Ok(Part::check(name, command.status()?.success()))
}

/// The programs that tests with a real API server or a real node need; they find them in the cache.
fn testbed(name: &'static str) -> anyhow::Result<Part> {
    let mut say = |line: &str| println!("{line}");
    let plane = divvy_testbed::Programs::build(&mut say).map(|_| ());
    let mut part = Part { name, ..Part::default() };
    for built in [plane, divvy_testbed::node::prepare(&mut say)] {
        match built {
            Ok(()) => part.passed += 1,
            Err(why) => part.skipped.push(why.to_string()),
        }
    }
    Ok(part)
}

/// All tests of the workspace, shown as they run and counted.
fn unit(name: &'static str) -> anyhow::Result<Part> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("no output of cargo test")?;
    let mut part = Part { name, ..Part::default() };
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        part.read_line(&line);
    }
    if !child.wait()?.success() && part.failed == 0 {
        // It did not even compile.
        part.failed = 1;
    }
    Ok(part)
}

/// The README's first command, as written there.
fn main_job(name: &'static str) -> anyhow::Result<Part> {
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    let line = readme.lines().find(|l| l.starts_with("cargo run -- simulate"));
    let line = line.context("README.md has no line `cargo run -- simulate ...`")?;
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    check(name, cargo(&words))
}

fn supply(name: &'static str) -> anyhow::Result<Part> {
    let is_there = Command::new("cargo-deny").arg("--version").output().is_ok();
    if !is_there {
        return Ok(Part::skip(name, "cargo-deny is not installed (cargo install cargo-deny)"));
    }
    check(name, cargo(&["deny", "check", "bans", "licenses", "sources"]))
}
