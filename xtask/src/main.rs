//! Project tasks: `cargo xtask test`, `cargo xtask bench`, `cargo xtask cluster`,
//! `cargo xtask differential`, `cargo xtask fuzz`, `cargo xtask soak`, `cargo xtask docs`,
//! `cargo xtask chart`, `cargo xtask image`, `cargo xtask monitoring`.

mod architecture;
mod chart;
mod cluster;
mod contract;
mod fuzz;
mod image;
mod soak;
mod test;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project tasks")]
enum Task {
    /// Set up what the tests need, run them all, and say what passed, failed and was skipped
    Test,
    /// Measure speed; prints ratios against a reference in the same run
    Bench {
        /// What to measure
        what: Bench,
        /// Passed on to the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Compare divvy with kube-scheduler's own filters on random clusters
    Differential {
        /// How many clusters for each group of predicates
        #[arg(long, default_value_t = 12_500)]
        cases: u64,
        /// The seed of the first; the others follow
        #[arg(long, default_value_t = 1_000_000)]
        seed: u64,
        /// Only tests whose name has this in it, such as `resources`
        #[arg(long)]
        group: Option<String>,
    },
    /// Try inputs on every reader that faces a tenant or a file, guided by coverage
    ///
    /// Builds crates/fuzz with instrumentation into target/fuzz (minutes the first time; needs a C++
    /// compiler), runs each target in turn, and says every few seconds how far it is. Ends with 1 if
    /// something does not hold: the input is kept, and the command that repeats it is said. Inputs
    /// that reach something new stay in target/fuzz/corpus, where the next run begins.
    Fuzz(fuzz::Options),
    /// Let everything go wrong at once for a long time, on simulated nodes and on the real one
    Soak {
        /// How long, such as 60m
        #[arg(long = "for", value_parser = fuzz::duration, default_value = "60m")]
        span: std::time::Duration,
    },
    /// Start a cluster to play with, divvy and nodes with GPUs of several models in it, or stop it
    Cluster {
        /// What to do
        #[command(subcommand)]
        what: Cluster,
    },
    /// Write the pages and pictures that are made from the code: docs/cli.md, docs/card-map.svg
    Docs,
    /// Write the manifests of deploy/, which the chart makes; builds Helm the first time
    Chart,
    /// Check the chart's rules and dashboard with Prometheus and Grafana's linter, which are built first
    Monitoring,
    /// Make divvy's container image, an archive of the OCI layout; needs no Docker
    Image(image::Options),
}

#[derive(Clone, Copy, ValueEnum)]
enum Bench {
    /// Decisions per second beside a plain scan of all nodes
    Engine,
    /// `divvy simulate` with 100,000 pods on 10,000 nodes
    Simulate,
    /// `divvy scheduler` on a real API server, beside its bare writes and beside kube-scheduler
    E2e,
    /// `divvy admission` under reviews that come at a steady rate
    Admission,
    /// Shares that open cards and join them, on a real API server
    Sharing,
}

#[derive(Clone, Copy, Subcommand)]
enum Cluster {
    /// Build what is needed, start it, and say how to reach it
    Up {
        /// One real node instead, on which pods run as containers and shares see their card (needs root)
        #[arg(long)]
        node: bool,
    },
    /// Stop it and delete its files
    Down,
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Test => test::run(),
        Task::Bench { what, options } => {
            let what = what.to_possible_value().map_or_else(String::new, |v| v.get_name().into());
            // Both at once: one after the other would build much of it twice.
            run(cargo(&["build", "--release", "--package=divvy", "--package=divvy-bench"]))?;
            let own = std::env::current_exe()?;
            let target = own.parent().and_then(Path::parent).context("xtask is not in target/")?;
            let mut bench = Command::new(target.join("release/divvy-bench"));
            bench.arg(what).args(options).current_dir(root());
            run(bench)
        }
        Task::Differential { cases, seed, group } => {
            let mut test = cargo(&["test", "--package", "divvy-differential", "--test", "filters"]);
            test.args(["--", "--nocapture"]).args(group);
            test.env("DIVVY_CASES", cases.to_string()).env("DIVVY_SEED", seed.to_string());
            run(test)
        }
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Soak { span } => soak::soak(span),
        Task::Cluster { what: Cluster::Up { node } } => cluster::up(node),
        Task::Cluster { what: Cluster::Down } => cluster::down(),
        Task::Docs => docs(),
        Task::Chart => chart::write(),
        Task::Monitoring => {
            let test = ["test", "--package", "divvy", "--test", "installed", "monitoring::", "--"];
            run(cargo(&[&test[..], &["--ignored", "--nocapture"]].concat()))
        }
        Task::Image(options) => image::write(&options),
    }
}

/// A cargo command at the root of the workspace.
fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// Where cargo builds to.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn run(mut command: Command) -> anyhow::Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}

fn docs() -> anyhow::Result<()> {
    let page = cargo(&["run", "--quiet", "--", "reference"]).output()?;
    ensure!(page.status.success(), "divvy reference failed");
    std::fs::write(root().join("docs/cli.md"), page.stdout)?;
    run(cargo(&[
        "run",
        "--quiet",
        "--",
        "simulate",
        "-f",
        "examples/",
        "--svg",
        "docs/card-map.svg",
    ]))
}
