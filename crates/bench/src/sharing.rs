//! `cargo xtask bench sharing`: shares on cards that reservation pods hold.
//!
//! ```text
//!   joins   shares of a card that is open already, beside plain pods and whole GPUs
//!   burst   two halves for every card of the cluster at once, beside one share that opens a card
//!   rate    the same shares, made beforehand, beside the bare writes
//! ```
//!
//! kwok plays the kubelets: a reservation pod runs, with a card of its own, so long after it was
//! made.

mod burst;
mod joins;
mod rate;

use crate::e2e::divvy;
use crate::e2e::stage::{AT_A_TIME, RESERVATIONS, Stage};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Options {
    /// Nodes with eight cards each
    #[arg(long, default_value_t = 8)]
    nodes: usize,
    /// Runs of each kind
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// How long a reservation pod takes to start in `burst`, in milliseconds
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1000])]
    starts: Vec<u64>,
    /// Pods of each kind whose time from creation to binding is measured, in each round of `joins`;
    /// at most as many as there are cards less ten
    #[arg(long, default_value_t = 50)]
    pods: usize,
    /// How many of them come a second
    #[arg(long, default_value_t = 20)]
    pods_per_second: u32,
    /// What to measure
    #[arg(long, value_delimiter = ',', default_values = ["joins", "burst", "rate"])]
    parts: Vec<Part>,
    /// The binary to measure; by default the release build beside this one
    #[arg(long)]
    divvy: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Create-to-bound of shares that join an open card
    Joins,
    /// Shares that open all cards at once
    Burst,
    /// Shares bound per second
    Rate,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let divvy = divvy(options.divvy.as_deref())?;
    let has = |part| options.parts.contains(&part);
    let runtime = tokio::runtime::Runtime::new().context("failed to start")?;
    runtime.block_on(async {
        if has(Part::Joins) || has(Part::Rate) {
            let stage = Stage::set(options.nodes, &divvy, Some(Duration::ZERO)).await?;
            if has(Part::Joins) {
                joins::measure(&stage, options).await?;
            }
            if has(Part::Rate) {
                rate::measure(&stage, options.rounds).await?;
            }
        }
        for start in options.starts.iter().filter(|_| has(Part::Burst)) {
            let start = Duration::from_millis(*start);
            let stage = Stage::set(options.nodes, &divvy, Some(start)).await?;
            burst::measure(&stage, start, options.rounds).await?;
        }
        Ok(())
    })
}

/// Half a card.
const HALF: &str = "0.5";
const PATIENCE: Duration = Duration::from_secs(60);

/// How many cards there are.
const fn cards(stage: &Stage) -> usize {
    stage.nodes * 8
}

async fn reservations(stage: &Stage) -> anyhow::Result<Vec<Value>> {
    let list = stage.api.get(&format!("/api/v1/namespaces/{RESERVATIONS}/pods")).await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Waits until no more reservation pods are left than these.
async fn until_returned(stage: &Stage, left: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let count = reservations(stage).await?.len();
        if count <= left {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "{count} reservation pods are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Deletes all reservation pods; nobody else does while no scheduler runs.
async fn delete_reservations(stage: &Stage) -> anyhow::Result<()> {
    let name = |pod: &Value| pod["metadata"]["name"].as_str().map(str::to_owned);
    let names = reservations(stage).await?.iter().filter_map(name).collect::<Vec<_>>();
    let path = |name: String| format!("/api/v1/namespaces/{RESERVATIONS}/pods/{name}");
    stage.api.delete_all(names.into_iter().map(path).collect(), AT_A_TIME).await?;
    Ok(())
}

/// The middle one, and how far the others are from it.
fn spread(values: &[f64]) -> String {
    use crate::e2e::cost::quantile;
    let at = |part| quantile(values, part);
    format!("{:.0} ({:.0} to {:.0})", at(0.5), at(0.0), at(1.0))
}
