//! `cargo xtask bench e2e`: the scheduler on a real API server.
//!
//! ```text
//!   etcd, kube-apiserver, kwok nodes ◄── pods, made beforehand
//!        ▲            │
//!        │            └─► a watch of bound pods: when the first and the last came
//!        └── one of: bare writes, divvy, kube-scheduler
//! ```
//!
//! Runs alternate, medians count, and ratios are printed: machines are noisy.

pub mod cost;
mod idle;
pub mod latency;
mod memory;
pub mod observer;
pub mod pods;
pub mod raw;
pub mod stage;
pub mod throughput;

use anyhow::Context;
use clap::ValueEnum;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Options {
    /// Sizes of the clusters in which bindings per second are measured
    #[arg(long, value_delimiter = ',', default_values_t = [500, 5000])]
    nodes: Vec<usize>,
    /// Pods of a run
    #[arg(long, default_value_t = 2000)]
    pods: usize,
    /// Runs of each kind
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Pods, ten a second, whose time from creation to binding is measured
    #[arg(long, default_value_t = 300)]
    latency_pods: usize,
    /// Nodes of the cluster in which memory is measured
    #[arg(long, default_value_t = 5000)]
    memory_nodes: usize,
    /// Bound pods in that cluster
    #[arg(long, default_value_t = 50_000)]
    memory_pods: usize,
    /// How long an idle scheduler is looked at
    #[arg(long, default_value_t = 60)]
    idle_seconds: u64,
    /// What to measure
    #[arg(long, value_delimiter = ',', default_values_t = [Part::Throughput, Part::Latency, Part::Memory])]
    parts: Vec<Part>,
    /// The binary to measure; by default the release build beside this one
    #[arg(long)]
    divvy: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Bindings per second
    Throughput,
    /// Create-to-bound at ten pods a second
    Latency,
    /// Peak memory of a cold start, then CPU of an idle scheduler
    Memory,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// The binary to measure.
pub fn divvy(chosen: Option<&Path>) -> anyhow::Result<PathBuf> {
    let divvy = match chosen {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("divvy"),
    };
    anyhow::ensure!(divvy.exists(), "{} is not built", divvy.display());
    Ok(divvy)
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let divvy = divvy(options.divvy.as_deref())?;
    let runtime = tokio::runtime::Runtime::new().context("failed to start")?;
    runtime.block_on(async {
        let has = |part| options.parts.contains(&part);
        for (i, nodes) in options.nodes.iter().enumerate() {
            let has_latency = has(Part::Latency) && i == 0;
            if !has(Part::Throughput) && !has_latency {
                continue;
            }
            let mut stage = stage::Stage::set(*nodes, &divvy, None).await?;
            if has(Part::Throughput) {
                throughput::measure(&mut stage, options.pods, options.rounds).await?;
            }
            if has_latency {
                latency::measure(&mut stage, options.latency_pods).await?;
            }
        }
        if has(Part::Memory) {
            let stage = stage::Stage::set(options.memory_nodes, &divvy, None).await?;
            let scheduler = memory::measure(&stage, options.memory_pods).await?;
            idle::measure(&scheduler, options.idle_seconds).await?;
        }
        Ok(())
    })
}
