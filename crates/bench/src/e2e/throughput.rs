//! Bindings per second.

use super::cost::{cpu_ms, median};
use super::observer::Observer;
use super::pods::{self, Asked, DIVVY, KUBE};
use super::stage::{AT_A_TIME, NAMESPACE, Stage};
use anyhow::{Context, ensure};
use divvy_testbed::{Process, Program};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::Command;
use std::time::{Duration, Instant};

/// Who binds, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Raw(Asked),
    Divvy(Asked),
    Kube,
}

const KINDS: [(&str, Kind); 6] = [
    ("raw, whole GPUs", Kind::Raw(Asked::Whole)),
    ("divvy, whole GPUs", Kind::Divvy(Asked::Whole)),
    ("kube-scheduler, whole GPUs", Kind::Kube),
    ("raw, shares", Kind::Raw(Asked::Shares)),
    ("divvy, shares", Kind::Divvy(Asked::Shares)),
    ("divvy, 10 % spread or anti-affinity", Kind::Divvy(Asked::Related)),
];

/// One run.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Bindings per second.
    rate: f64,
    /// CPU milliseconds per binding.
    scheduler: f64,
    api_server: f64,
    etcd: f64,
}

/// Where pods went: name to node and record.
type Plan = BTreeMap<String, (String, Option<String>)>;

pub async fn measure(stage: &mut Stage, count: usize, rounds: usize) -> anyhow::Result<()> {
    let mut plans: BTreeMap<&str, Plan> = BTreeMap::new();
    let key = |asked| if asked == Asked::Shares { "shares" } else { "whole" };
    // A first run of each that is not counted: it warms up, and gives the plans to repeat.
    for asked in [Asked::Whole, Asked::Shares] {
        say(&format!("warming up, {}", key(asked)));
        let (_, plan) = run(stage, Kind::Divvy(asked), count, None).await?;
        plans.insert(key(asked), plan);
    }
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); KINDS.len()];
    for round in 0..rounds {
        for step in 0..KINDS.len() {
            // There and back, so that nobody is always the first.
            let at = if round % 2 == 0 { step } else { KINDS.len() - 1 - step };
            let (Some((name, kind)), Some(of)) = (KINDS.get(at), runs.get_mut(at)) else { break };
            say(&format!("round {} of {rounds}: {name}", round + 1));
            let plan = match kind {
                Kind::Raw(asked) => plans.get(key(*asked)),
                Kind::Divvy(_) | Kind::Kube => None,
            };
            of.push(run(stage, *kind, count, plan).await?.0);
        }
    }
    report(stage.nodes, count, &runs);
    Ok(())
}

async fn run(
    stage: &mut Stage,
    kind: Kind,
    count: usize,
    plan: Option<&Plan>,
) -> anyhow::Result<(Run, Plan)> {
    let (asked, scheduler) = match kind {
        Kind::Raw(asked) | Kind::Divvy(asked) => (asked, DIVVY),
        Kind::Kube => (Asked::Whole, KUBE),
    };
    let made = (0..count).map(|i| pods::make(i, asked, scheduler)).collect();
    stage.api.create_all(made, AT_A_TIME).await?;
    let mut observer = Observer::start(&stage.api).await?;
    let servers = [stage.id(Program::ApiServer), stage.id(Program::Etcd)];
    let [api_server, etcd] = servers.map(cpu_ms);
    let (api_server, etcd) = (api_server?, etcd?);
    let mut started = None;
    let id = match kind {
        Kind::Raw(_) => {
            let steps = steps(stage, plan.context("nothing to repeat")?).await?;
            let process = start_raw(stage, &steps)?;
            started.insert(process).id()
        }
        Kind::Divvy(_) => started.insert(stage.start_divvy()?.process).id(),
        Kind::Kube => {
            stage.plane.start_kube_scheduler()?;
            stage.id(Program::Scheduler)
        }
    };
    let span = observer.span(count).await?;
    until_announced(stage, count).await?;
    let each = |ms: f64| ms / count as f64;
    let run = Run {
        rate: (count - 1) as f64 / span.as_secs_f64(),
        scheduler: each(cpu_ms(id)?),
        api_server: each(cpu_ms(stage.id(Program::ApiServer))? - api_server),
        etcd: each(cpu_ms(stage.id(Program::Etcd))? - etcd),
    };
    drop(started);
    stage.plane.stop(Program::Scheduler);
    let plan = read_plan(stage).await?;
    clear(stage, count).await?;
    Ok((run, plan))
}

/// The bindings to repeat, with the pods as they are now.
async fn steps(stage: &Stage, plan: &Plan) -> anyhow::Result<Vec<Value>> {
    let list = stage.api.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).await?;
    let steps = list["items"].as_array().into_iter().flatten().map(|pod| {
        let metadata = &pod["metadata"];
        let (node, cards) = plan.get(metadata["name"].as_str()?)?;
        Some(json!({
            "name": metadata["name"], "uid": metadata["uid"],
            "version": metadata["resourceVersion"], "node": node, "cards": cards,
        }))
    });
    Ok(steps.flatten().collect())
}

/// The bare writes as a process.
pub fn start_raw(stage: &Stage, steps: &[Value]) -> anyhow::Result<Process> {
    let file = stage.plane.folder().join("plan.json");
    std::fs::write(&file, serde_json::to_vec(steps)?)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("raw").arg("--kubeconfig").arg(stage.plane.kubeconfig()).arg("--plan").arg(file);
    Ok(Process::start(command, "raw", stage.plane.folder())?)
}

/// Events are written behind the bindings; they belong to the cost.
async fn until_announced(stage: &Stage, count: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/events?limit=1");
        let list = stage.api.get(&path).await?;
        let rest = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        if rest + 1 >= count as u64 {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_secs(60), "{rest} events for {count} pods");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn read_plan(stage: &Stage) -> anyhow::Result<Plan> {
    let list = stage.api.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).await?;
    let step = |pod: &Value| {
        let cards = pod["metadata"]["annotations"]["divvy.dev/cards"].as_str();
        let node = pod["spec"]["nodeName"].as_str()?.to_owned();
        Some((pod["metadata"]["name"].as_str()?.to_owned(), (node, cards.map(str::to_owned))))
    };
    Ok(list["items"].as_array().into_iter().flatten().filter_map(step).collect())
}

/// Deletes all pods and events of a run.
pub async fn clear(stage: &Stage, count: usize) -> anyhow::Result<()> {
    let path = |i| format!("/api/v1/namespaces/{NAMESPACE}/pods/{}", pods::name(i));
    stage.api.delete_all((0..count).map(path).collect(), AT_A_TIME).await?;
    stage.api.delete(&format!("/api/v1/namespaces/{NAMESPACE}/events")).await?;
    Ok(())
}

fn report(nodes: usize, count: usize, runs: &[Vec<Run>]) {
    say("");
    println!(
        "{count} pods on {nodes} nodes, median of {} runs:\n",
        runs.iter().map(Vec::len).max().unwrap_or(0)
    );
    println!("| who, what | bindings/s | runs | CPU ms per binding | API server | etcd |");
    println!("|---|---|---|---|---|---|");
    let of =
        |runs: &[Run], field: fn(&Run) -> f64| median(&runs.iter().map(field).collect::<Vec<_>>());
    let mut rates = BTreeMap::new();
    for ((name, _), runs) in KINDS.iter().zip(runs) {
        let all: Vec<String> = runs.iter().map(|run| format!("{:.0}", run.rate)).collect();
        let rate = of(runs, |run| run.rate);
        rates.insert(*name, rate);
        println!(
            "| {name} | {rate:.0} | {} | {:.2} | {:.2} | {:.2} |",
            all.join(" "),
            of(runs, |run| run.scheduler),
            of(runs, |run| run.api_server),
            of(runs, |run| run.etcd),
        );
    }
    println!();
    for (ours, theirs) in [
        ("divvy, whole GPUs", "raw, whole GPUs"),
        ("divvy, shares", "raw, shares"),
        ("divvy, 10 % spread or anti-affinity", "raw, whole GPUs"),
        ("divvy, whole GPUs", "kube-scheduler, whole GPUs"),
        ("divvy, 10 % spread or anti-affinity", "kube-scheduler, whole GPUs"),
    ] {
        let rate = |name| rates.get(name).copied().unwrap_or(f64::NAN);
        println!("{ours}: {:.2} of {theirs}", rate(ours) / rate(theirs));
    }
}

/// How far it is, on the screen only.
pub fn say(text: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{text}");
    } else if !text.is_empty() {
        let _ = writeln!(out, "{text}");
    }
}
