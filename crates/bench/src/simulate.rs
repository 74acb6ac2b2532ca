//! `cargo xtask bench simulate`: a large rehearsal as a user would run it, and where its time goes.

use crate::workload;
use anyhow::{Context, ensure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub struct Options {
    /// Nodes of the cluster
    #[arg(long, default_value_t = 10_000)]
    nodes: usize,
    /// Pods to place
    #[arg(long, default_value_t = 100_000)]
    pods: usize,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("divvy-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let result = measure(options, &folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(options: &Options, folder: &Path) -> anyhow::Result<()> {
    let cluster = folder.join("cluster.yaml");
    std::fs::write(&cluster, cluster_manifest(options.nodes)?)?;
    let one = folder.join("deployment.yaml");
    std::fs::write(&one, deployment(options.pods)?)?;
    let many = folder.join("documents.yaml");
    std::fs::write(&many, documents(options.pods)?)?;
    println!("{} pods on {} nodes, JSON out. Phases in seconds.", options.pods, options.nodes);
    println!();
    for (name, file) in [("one Deployment", &one), ("a document each", &many)] {
        let size = std::fs::metadata(file)?.len() + std::fs::metadata(&cluster)?.len();
        println!("{name}: {} MB of YAML, the cluster's included", size / 1_000_000);
        let both = simulate(&cluster, file, folder, None)?;
        let single = simulate(&cluster, file, folder, Some("0"));
        print!("{both}");
        let (all, reading) = (seconds(&both, "all")?, seconds(&both, "reading")?);
        println!(
            "  reading {:.0} MB/s, {:.0} pods/s in all",
            size as f64 / 1e6 / reading,
            options.pods as f64 / all
        );
        match single {
            Ok(single) => println!(
                "  reading on all cores is {:.2} times as fast as on one ({:.3} s)",
                seconds(&single, "reading")? / reading,
                seconds(&single, "reading")?
            ),
            Err(error) => println!("  one core not measured: {error}"),
        }
        println!();
    }
    Ok(())
}

/// Runs divvy beside this program and returns its `--timings`.
fn simulate(
    cluster: &Path,
    file: &Path,
    folder: &Path,
    core: Option<&str>,
) -> anyhow::Result<String> {
    let divvy = std::env::current_exe()?.with_file_name("divvy");
    ensure!(divvy.exists(), "build divvy first: cargo build --release");
    let mut command = match core {
        Some(core) => {
            let mut command = Command::new("taskset");
            command.args(["-c", core]).arg(&divvy);
            command
        }
        None => Command::new(&divvy),
    };
    let json: PathBuf = folder.join("out.json");
    command.args(["simulate", "-o", "json", "--timings", "--cluster"]).arg(cluster);
    command.arg("-f").arg(file).stdout(std::fs::File::create(&json)?).stderr(Stdio::piped());
    let output = command.output().context("cannot run divvy")?;
    ensure!(matches!(output.status.code(), Some(0 | 2)), "divvy failed: {:?}", output.status);
    let text = String::from_utf8_lossy(&output.stderr);
    Ok(text.lines().map(|line| format!("  {line}\n")).collect())
}

fn seconds(timings: &str, phase: &str) -> anyhow::Result<f64> {
    let line = timings.lines().find(|l| l.trim_start().starts_with(phase));
    let number = line.and_then(|l| l.split_whitespace().nth(1)).context("no such phase")?;
    Ok(number.parse()?)
}

fn cluster_manifest(nodes: usize) -> anyhow::Result<String> {
    let mut text = String::from("apiVersion: v1\nitems:\n");
    for i in 0..nodes {
        let node = workload::node(i);
        write!(text, "- apiVersion: v1\n  kind: Node\n  metadata:\n    labels:\n")?;
        for (key, value) in &node.facts.labels {
            writeln!(text, "      {key}: \"{value}\"")?;
        }
        writeln!(text, "    name: {}\n  status:\n    allocatable:", node.name)?;
        writeln!(
            text,
            "      cpu: {}m\n      memory: \"{}\"\n      pods: \"250\"",
            node.cpu.0, node.memory.0
        )?;
        if let Some((_, count)) =
            node.facts.labels.iter().find(|(k, _)| &**k == "nvidia.com/gpu.count")
        {
            writeln!(text, "      nvidia.com/gpu: \"{count}\"")?;
        }
    }
    text.push_str("kind: List\nmetadata:\n  resourceVersion: \"\"\n");
    Ok(text)
}

const POD: &str = "\
spec:
  schedulerName: divvy-scheduler
  restartPolicy: Always
  tolerations:
  - key: nvidia.com/gpu
    operator: Exists
    effect: NoSchedule
  containers:
  - name: worker
    image: registry.example.com/team/inference-server:1.24.0
    args: [\"--model\", \"/models/llama\", \"--port\", \"8000\"]
    env:
    - name: LOG_LEVEL
      value: info
    resources:
      requests:
        cpu: 500m
        memory: 2Gi
";

fn deployment(pods: usize) -> anyhow::Result<String> {
    let mut text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: load\nspec:\n  replicas: {pods}\n"
    );
    text.push_str(
        "  template:\n    metadata:\n      annotations:\n        gpu-fraction: \"0.3\"\n",
    );
    for line in POD.lines() {
        writeln!(text, "    {line}")?;
    }
    Ok(text)
}

fn documents(pods: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    for i in 0..pods {
        writeln!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: load-{i:06}\n  namespace: team-{}",
            i % 7
        )?;
        writeln!(
            text,
            "  labels:\n    app: load\n  annotations:\n    gpu-fraction: \"0.{}\"",
            i % 8 + 1
        )?;
        text.push_str(POD);
    }
    Ok(text)
}
