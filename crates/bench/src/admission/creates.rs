//! What the webhooks and policies add to the creation of share pods on a real API server.

use super::pace::{Pace, ms};
use super::{Options, divvy};
use crate::e2e::cost::{cpu_ms, quantile};
use anyhow::{Context, ensure};
use divvy_testbed::api::Api;
use divvy_testbed::manifests::webhooks_at;
use divvy_testbed::{ControlPlane, Process, Program, Programs, free_ports};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests to the API server that may be under way.
const AT_A_TIME: usize = 32;
const POLICIES: [&str; 3] = ["policy-hand-off", "policy-reservations", "policy-visible-devices"];

pub async fn measure(options: &Options, folder: &Path) -> anyhow::Result<()> {
    let Options { creates, seconds, .. } = options;
    println!("\n{creates} share pods a second created on a real API server for {seconds} s; ms\n");
    let programs = Programs::build(&mut |line| println!("{line}"))?;
    let plane = ControlPlane::start(&programs, &folder.join("cluster"))?;
    let api = Api::connect(&plane).await?;
    api.create(&json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"}, "handler": "nvidia"}))
        .await?;
    println!(
        "{:<24} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10}",
        "with", "done/s", "p50", "p99", "most", "server CPU", "divvy CPU"
    );
    let server = plane.id(Program::ApiServer).context("no API server")?;
    let bare = create(&api, options, "bare", &[server]).await?;
    for name in ["namespaces"].iter().chain(&POLICIES) {
        apply(&plane, &manifest(name)?)?;
    }
    wait_for(&api, "policies", "divvy.dev/cards").await?;
    let policies = create(&api, options, "policies", &[server]).await?;
    let divvy = start(options, &plane, folder)?;
    wait_for(&api, "webhooks", "gpu-fraction").await?;
    let with = "policies-and-webhooks";
    let webhooks = create(&api, options, with, &[server, divvy.id()]).await?;
    println!(
        "\nthe policies add {:.2} ms to the median, the webhooks {:.2} ms",
        policies - bare,
        webhooks - policies
    );
    Ok(())
}

/// Creates pods at the rate, and returns the median; also says what that cost these processes.
async fn create(
    api: &Api,
    options: &Options,
    with: &'static str,
    processes: &[u32],
) -> anyhow::Result<f64> {
    let cpu = || processes.iter().map(|id| cpu_ms(*id)).collect::<anyhow::Result<Vec<f64>>>();
    let before = cpu()?;
    let pace = Arc::new(Pace::start(options.creates, options.creates * options.seconds));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (api, pace) = (api.clone(), Arc::clone(&pace));
        tasks.spawn(async move {
            let mut late = Vec::new();
            while let Some((at, begin)) = pace.due().await {
                api.create(&pod(&format!("{with}-{at}"), "gpu-fraction", "0.5")).await?;
                late.push(ms(begin));
            }
            anyhow::Ok(late)
        });
    }
    let mut late = Vec::new();
    while let Some(done) = tasks.join_next().await {
        late.extend(done??);
    }
    let part = |part| quantile(&late, part);
    let count = f64::from(options.creates * options.seconds);
    let each = cpu()?.into_iter().zip(before).map(|(after, before)| (after - before) / count);
    let each: String = each.map(|ms| format!(" {ms:>10.2}")).collect();
    println!(
        "{with:<24} {:>8.0} {:>8.2} {:>8.2} {:>8.2}{each}",
        pace.done_per_second(),
        part(0.5),
        part(0.99),
        part(1.0)
    );
    Ok(part(0.5))
}

fn pod(name: &str, annotation: &str, value: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "annotations": {annotation: value}},
        "spec": {"schedulerName": "divvy-scheduler",
            "containers": [{"name": "main", "image": "x"}, {"name": "log", "image": "x"}]},
    })
}

/// Starts `divvy admission` and shows it to the API server, by address.
fn start(options: &Options, plane: &ControlPlane, folder: &Path) -> anyhow::Result<Process> {
    let [port] = free_ports()?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut command = Command::new(divvy(options)?);
    command.args(["admission", "--gpu-sharing", "--tls-names=127.0.0.1"]);
    command.arg("--listen").arg(address.to_string());
    command.arg("--kubeconfig").arg(plane.kubeconfig());
    apply(plane, &webhooks_at(address, &manifest("webhooks")?))?;
    Ok(Process::start(command, "divvy-admission-2", folder)?)
}

/// Waits until a pod with a wrong annotation is refused: the API server takes a moment to know `by`
/// what.
async fn wait_for(api: &Api, by: &str, annotation: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let name = format!("is-there-{by}-{}", start.elapsed().as_micros());
        let refused =
            api.create(&pod(&name, annotation, "7")).await.err().map(|why| why.to_string());
        let is_meant = |why: &String| why.contains("by divvy") || why.contains("smaller than 1.0");
        if refused.as_ref().is_some_and(is_meant) {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_secs(60), "no {by}: {refused:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn manifest(name: &str) -> anyhow::Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("deploy").join(format!("{name}.yaml"));
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

fn apply(plane: &ControlPlane, text: &str) -> anyhow::Result<()> {
    let file = plane.folder().join("applied.yaml");
    std::fs::write(&file, text)?;
    let output = plane.kubectl().args(["apply", "-f"]).arg(&file).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
