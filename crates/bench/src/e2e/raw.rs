//! The bare writes: bindings, events and reservation pods of an earlier run, with divvy's own client and watches but
//! without deciding anything. A process of its own, so that its cost can be told apart.

use super::stage::{IMAGE, NAMESPACE};
use anyhow::{Context, ensure};
use divvy_cluster::replay::{Repeated, RepeatedBinding, replay};
use serde_json::Value;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Options {
    /// The cluster
    #[arg(long)]
    kubeconfig: PathBuf,
    /// What to write: a list of pods as they were, and are, and of reservations, in JSON
    #[arg(long)]
    plan: PathBuf,
    /// Writes at a time
    #[arg(long, default_value_t = 32)]
    writes: usize,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let plan: Vec<Value> = serde_json::from_slice(&std::fs::read(&options.plan)?)?;
    let text = |step: &Value, key: &str| step[key].as_str().map(str::to_owned);
    let steps = plan.iter().map(|step| {
        if step["reserve"] == true {
            return Some(Repeated::Reservation {
                node: text(step, "node")?,
                node_uid: text(step, "node_uid")?,
                group: text(step, "group")?,
            });
        }
        Some(Repeated::Binding(RepeatedBinding {
            namespace: NAMESPACE.to_owned(),
            name: text(step, "name")?,
            uid: text(step, "uid")?,
            version: text(step, "version")?,
            node: text(step, "node")?,
            cards: text(step, "cards"),
            group: text(step, "group"),
            portion: text(step, "portion").unwrap_or_default(),
        }))
    });
    let steps: Option<Vec<_>> = steps.collect();
    let steps = steps.context("the plan cannot be read")?;
    let count = steps.len();
    // As many threads as divvy has.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = replay(&options.kubeconfig, options.writes, IMAGE, steps);
    let done = runtime.block_on(done)?;
    ensure!(done == count, "{done} of {count} writes were accepted");
    // Whoever measures reads what it has cost, then ends it.
    println!("done");
    std::thread::park();
    Ok(())
}
