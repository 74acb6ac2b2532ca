//! `divvy doctor`

use crate::cli::Format;
use crate::live::{Live, LiveArgs};
use crate::progress::Bar;
use crate::{BAD_INPUT, DONE, output};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use divvy_doctor::{ClusterSource, DoctorReport, Observed, Saved};
use divvy_node::look::look;
use divvy_node::provider::Host;
use divvy_sim::read_inputs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tokio::runtime::Builder;

/// Something is wrong.
const FOUND: u8 = 2;

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy doctor  in the cluster of your kubeconfig
  divvy doctor -o json | jq '.findings[].fix'
  divvy doctor --node  on a node: its driver, cards, NVIDIA's runtime, isolation providers
  kubectl get nodes,pods,deploy,ds -A -o yaml | divvy doctor --cluster -

Nothing is written. What you may not list is left out and named; of Secrets only divvy-admission-tls \
is read, and of ConfigMaps only those in namespaces whose pods manage GPUs.

Exit codes: 0 nothing is wrong, 2 something is, 1 nobody could look.")]
pub struct DoctorArgs {
    /// Look at what `kubectl get ... -A -o yaml` printed, instead of a live cluster; - reads standard
    /// input
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Look at this node, instead of a cluster
    #[arg(long, conflicts_with_all = ["cluster", "kubeconfig", "context"])]
    pub node: bool,
    /// Where the root of the node is mounted
    #[arg(long, value_name = "FOLDER", default_value = "/", requires = "node")]
    pub host_root: PathBuf,
    /// The configuration of NVIDIA's container runtime on the node, if it is not where it usually is
    #[arg(long, value_name = "FILE", requires = "node")]
    pub runtime_config: Option<PathBuf>,
    /// How to print what was found
    #[arg(short, long, default_value = "table")]
    pub output: Format,
    #[command(flatten)]
    pub live: LiveArgs,
}

pub fn run(args: &DoctorArgs) -> anyhow::Result<u8> {
    if args.node {
        let (root, runtime) = (args.host_root.clone(), args.runtime_config.clone());
        let node = look(&Host { root, folder: PathBuf::new(), runtime });
        return told(args, &divvy_doctor::diagnose_node(&node));
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("no clock")?;
    let now = i64::try_from(now.as_secs()).context("no clock")?;
    let observed = match &args.cluster {
        Some(path) => saved(args, path, now)?,
        None => {
            let bar = Bar::new();
            let observed = Live::connect(&args.live)?.observe(now, &bar)?;
            bar.finish();
            observed
        }
    };
    told(args, &divvy_doctor::diagnose(&observed))
}

fn told(args: &DoctorArgs, report: &DoctorReport) -> anyhow::Result<u8> {
    output::print(args.output, report, |_| divvy_doctor::report_text(report))?;
    Ok(code(report))
}

fn saved(args: &DoctorArgs, path: &Path, now: i64) -> anyhow::Result<Observed> {
    if let Some(option) = args.live.given() {
        bail!("--cluster {} is read instead of a live cluster: drop {option}", path.display());
    }
    let input = read_inputs([path], false)?.into_iter().next();
    let input = input.ok_or_else(|| anyhow!("--cluster {}: give a file", path.display()))?;
    let saved = Saved::parse(&input.name, &input.text).map_err(|why| anyhow!(why))?;
    let runtime = Builder::new_current_thread().build().context("cannot start")?;
    Ok(runtime.block_on(Observed::look(&ClusterSource::Saved(&saved), now))?)
}

fn code(report: &DoctorReport) -> u8 {
    match (report.findings.is_empty(), report.looked_at.is_empty()) {
        (false, _) => FOUND,
        (true, false) => DONE,
        (true, true) => BAD_INPUT,
    }
}
