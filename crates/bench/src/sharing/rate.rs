//! Shares bound per second, with the reservation pods that they need, beside the bare writes.

use super::{HALF, cards, delete_reservations, reservations, spread};
use crate::e2e::cost::{cpu_ms, median};
use crate::e2e::observer::Observer;
use crate::e2e::pods::{self, Asked, DIVVY};
use crate::e2e::stage::{AT_A_TIME, NAMESPACE, Stage};
use crate::e2e::throughput::{clear, say, start_raw};
use anyhow::{Context, ensure};
use divvy_testbed::Program;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
enum Who<'a> {
    Divvy,
    /// The writes of an earlier run.
    Raw(&'a [Value]),
}

struct Run {
    /// Shares bound per second.
    rate: f64,
    /// CPU milliseconds per share, of itself and of [`SERVERS`].
    cpu: [f64; 4],
}

const SERVERS: [Program; 3] = [Program::ApiServer, Program::Etcd, Program::Kwok];

pub async fn measure(stage: &Stage, rounds: usize) -> anyhow::Result<()> {
    say("warming up");
    let (_, plan) = run(stage, Who::Divvy).await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        say(&format!("round {} of {rounds}", round + 1));
        bare.push(run(stage, Who::Raw(&plan)).await?.0);
        ours.push(run(stage, Who::Divvy).await?.0);
    }
    say("");
    println!(
        "\n{} halves made beforehand, on {} cards that reservation pods have to be made for; median (least to \
         most) of {rounds}, from the first reservation to the last binding:\n",
        2 * cards(stage),
        cards(stage)
    );
    println!("| who | shares/s | CPU ms per share | API server | etcd | kwok |");
    println!("|---|---|---|---|---|---|");
    let rates = |runs: &[Run]| runs.iter().map(|run| run.rate).collect::<Vec<_>>();
    for (name, runs) in [("raw", &bare), ("divvy", &ours)] {
        let cpu = |at: usize| runs.iter().filter_map(move |run| run.cpu.get(at).copied());
        let cpu = [0, 1, 2, 3].map(|at| format!("{:.2}", median(&cpu(at).collect::<Vec<_>>())));
        println!("| {name} | {} | {} |", spread(&rates(runs)), cpu.join(" | "));
    }
    let [bare, ours] = [&bare, &ours].map(|runs| median(&rates(runs)));
    println!("\ndivvy: {:.2} of raw", ours / bare);
    Ok(())
}

/// A run, and its writes.
async fn run(stage: &Stage, who: Who<'_>) -> anyhow::Result<(Run, Vec<Value>)> {
    let (open, count) = (cards(stage), 2 * cards(stage));
    let made = (0..count).map(|i| pods::make(i, Asked::Part(HALF), DIVVY)).collect();
    stage.api.create_all(made, AT_A_TIME).await?;
    let mut observer = Observer::start(&stage.api).await?;
    let before = SERVERS.map(|program| cpu_ms(stage.id(program)));
    let process = match who {
        Who::Divvy => stage.start_divvy()?.process,
        Who::Raw(plan) => start_raw(stage, &as_they_are(stage, plan).await?)?,
    };
    // Reservation pods have a node from the start, so they are seen too.
    let span = observer.span(open + count).await?;
    let mut cpu = [cpu_ms(process.id())?; 4];
    for ((cpu, program), before) in cpu.iter_mut().skip(1).zip(SERVERS).zip(before) {
        *cpu = cpu_ms(stage.id(program))? - before?;
    }
    let cpu = cpu.map(|ms| ms / count as f64);
    drop(process);
    let made = reservations(stage).await?;
    ensure!(made.len() == open, "{} reservation pods for {open} cards", made.len());
    let plan = plan(stage, &made).await?;
    clear(stage, count).await?;
    delete_reservations(stage).await?;
    Ok((Run { rate: count as f64 / span.as_secs_f64(), cpu }, plan))
}

/// The writes that made what is there.
async fn plan(stage: &Stage, made: &[Value]) -> anyhow::Result<Vec<Value>> {
    let mut steps = Vec::new();
    for pod in made {
        let owner = &pod["metadata"]["ownerReferences"][0];
        steps.push(json!({
            "reserve": true, "node": owner["name"], "node_uid": owner["uid"],
            "group": pod["metadata"]["labels"]["runai-gpu-group"],
        }));
    }
    for pod in shares(stage).await? {
        let metadata = &pod["metadata"];
        steps.push(json!({
            "name": metadata["name"], "node": pod["spec"]["nodeName"],
            "cards": metadata["annotations"]["divvy.dev/cards"],
            "portion": metadata["annotations"]["divvy.dev/portion"],
            "group": metadata["labels"]["runai-gpu-group"],
        }));
    }
    Ok(steps)
}

/// The same writes for the pods that wait now.
async fn as_they_are(stage: &Stage, plan: &[Value]) -> anyhow::Result<Vec<Value>> {
    let pods = shares(stage).await?;
    let by_name: BTreeMap<Option<&str>, &Value> =
        pods.iter().map(|pod| (pod["metadata"]["name"].as_str(), &pod["metadata"])).collect();
    let mut steps = plan.to_vec();
    for step in steps.iter_mut().filter(|step| step["reserve"].is_null()) {
        let metadata = *by_name.get(&step["name"].as_str()).context("a pod is missing")?;
        step["uid"] = metadata["uid"].clone();
        step["version"] = metadata["resourceVersion"].clone();
    }
    Ok(steps)
}

async fn shares(stage: &Stage) -> anyhow::Result<Vec<Value>> {
    let list = stage.api.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}
