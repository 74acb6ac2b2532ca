//! The bare writes: bindings and events of an earlier run, with divvy's own client and watches but
//! without deciding anything. A process of its own, so that its cost can be told apart.

use anyhow::{Context, ensure};
use divvy_cluster::replay::{Repeated, replay};
use serde_json::Value;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Options {
    /// The cluster
    #[arg(long)]
    kubeconfig: PathBuf,
    /// What to bind where: a list of pods as they were, and are, in JSON
    #[arg(long)]
    plan: PathBuf,
    /// Bindings at a time
    #[arg(long, default_value_t = 32)]
    writes: usize,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let plan: Vec<Value> = serde_json::from_slice(&std::fs::read(&options.plan)?)?;
    let text = |step: &Value, key: &str| step[key].as_str().map(str::to_owned);
    let bindings = plan.iter().map(|step| {
        Some(Repeated {
            namespace: super::stage::NAMESPACE.to_owned(),
            name: text(step, "name")?,
            uid: text(step, "uid")?,
            version: text(step, "version")?,
            node: text(step, "node")?,
            cards: text(step, "cards"),
        })
    });
    let bindings: Option<Vec<_>> = bindings.collect();
    let bindings = bindings.context("the plan cannot be read")?;
    let count = bindings.len();
    // As many threads as divvy has.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let bound = runtime.block_on(replay(&options.kubeconfig, options.writes, bindings))?;
    ensure!(bound == count, "{bound} of {count} bindings were accepted");
    // Whoever measures reads what it has cost, then ends it.
    println!("done");
    std::thread::park();
    Ok(())
}
