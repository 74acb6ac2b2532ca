//! The command line: what there is to say, and nothing else.

use crate::admission::AdmissionArgs;
use crate::doctor::DoctorArgs;
use crate::isolation::IsolationArgs;
use crate::lint::LintArgs;
use crate::live::{LiveArgs, PluginArgs};
use crate::mig::MigArgs;
use crate::node::NodeArgs;
use crate::report::ReportArgs;
use crate::reserve::ReserveArgs;
use crate::scheduler::SchedulerArgs;
use crate::snapshot::SnapshotArgs;
use crate::top::TopArgs;
use crate::uninstall::UninstallArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use divvy_words::{FeatureGates, keys};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Divide GPUs among Kubernetes pods: fractions, memory shares and whole cards, on one exact
/// ledger.
///
/// simulate, explain, top, report, mig, lint, doctor and snapshot change nothing (but lint --fix): they
/// rehearse, on manifests or on a copy of a live cluster, with the same engine that schedules.
#[derive(Parser)]
#[command(
    name = "divvy",
    version,
    max_term_width = 100,
    after_help = "\
Try it, with nothing but this binary:
  divvy simulate --demo
  divvy explain pod ml/notebook-0 --demo
On the cluster of your kubeconfig:
  divvy top cards
  divvy explain pod ml/triton-9
  divvy report --output-file report.html
  divvy doctor

Exit codes: 0 all placed or answered, 2 something is pending, 1 bad input."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Place manifests on a cluster and show which pod gets which card
    Simulate(SimulateArgs),
    /// Say where a pod goes, or why it waits
    Explain(ExplainArgs),
    /// Find mistakes in manifests before the API server does, or does not, and mend them
    Lint(LintArgs),
    /// Show what is on which node, card or pod, and who waits
    Top(TopArgs),
    /// Report how well cards are used, what is left of them, and who waits
    Report(ReportArgs),
    /// Check what MIG divides cards into, and plan it for workloads
    Mig(Box<MigArgs>),
    /// Say what is wrong with a cluster, and what mends it
    Doctor(DoctorArgs),
    /// Save what a rehearsal reads of a live cluster
    Snapshot(SnapshotArgs),
    /// Place the pods of a live cluster
    Scheduler(Box<SchedulerArgs>),
    /// Prepare pods of a live cluster for their cards, and refuse those that make no sense
    Admission(Box<AdmissionArgs>),
    /// Hold a card in a reservation pod; started by the scheduler
    Reserve(ReserveArgs),
    /// Do something on a node
    Node(NodeArgs),
    /// See whether containers are kept to their part of a card
    Isolation(IsolationArgs),
    /// Take away what shares that outlived divvy no longer need
    Uninstall(UninstallArgs),
    /// Print the completion script of a shell
    Completion(CompletionArgs),
    /// Print this reference as Markdown
    #[command(hide = true)]
    Reference,
}

/// How to place.
#[derive(Args, Clone)]
pub struct PlacementArgs {
    /// Strategy for nodes and cards: binpack fills one after another, spread takes the emptiest
    ///
    /// Wins over --config. A pod's own annotation scheduling.run.ai/scheduling-strategy wins over
    /// both.
    #[arg(long, value_name = "STRATEGY")]
    pub strategy: Option<StrategyArg>,
    /// Strategy for the cards of a node, where it differs from the one for nodes
    #[arg(long, value_name = "STRATEGY")]
    pub card_strategy: Option<StrategyArg>,
    /// Settings: strategies, weights and thresholds (see examples/config/bin-packing.yaml)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Which cluster.
#[derive(Args, Clone)]
pub struct ClusterArgs {
    /// The cluster as a file: what `divvy snapshot` or `kubectl get nodes,pods -A -o yaml` prints;
    /// - reads standard input, and `embedded` is a small cluster in this binary
    ///
    /// Bound pods hold what they hold. Pending pods wait if their schedulerName is one of
    /// --scheduler-names, or if they name none; the others are left to their scheduler.
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Pending pods of the cluster with these scheduler names wait for divvy
    ///
    /// While KAI's or Koordinator's scheduler runs in the cluster, pods with schedulerName
    /// kai-scheduler or koord-scheduler are left to it.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_values = keys::SCHEDULER_NAMES
    )]
    pub scheduler_names: Vec<String>,
    #[command(flatten)]
    pub gates: GateArgs,
    #[command(flatten)]
    pub plugin: PluginArgs,
    #[command(flatten)]
    pub live: LiveArgs,
}

/// What is switched on by name.
#[derive(Args, Clone)]
pub struct GateArgs {
    /// Features to switch on or off: GPUIsolationLevel=true tells the isolation levels of shares
    /// apart (docs/isolation.md)
    #[arg(long, value_name = "NAME=BOOL,...", default_value = "", hide_default_value = true)]
    pub feature_gates: FeatureGates,
}

/// What to place, where and how.
#[derive(Args, Clone)]
pub struct RehearsalArgs {
    /// Manifests to place: a file, a folder of .yaml, .yml and .json files, or - for standard
    /// input; may be given more than once
    ///
    /// Pods are taken as they are, and Deployments, StatefulSets, ReplicaSets, Jobs, DaemonSets and the
    /// kinds of --pods-of as the pods they would make. ConfigMaps of NVIDIA's device plugin and MIG manager
    /// change the nodes as the GPU operator would (docs/partitions.md). Other kinds are counted and
    /// left alone.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Also read folders in folders of -f
    #[arg(short = 'R', long, requires = "files")]
    pub recursive: bool,
    /// A folder with a kustomization, as `kubectl apply -k` takes it; kubectl makes the manifests
    #[arg(short = 'k', long, value_name = "DIR")]
    pub kustomize: Option<PathBuf>,
    /// Where the pods stand in objects of kinds that divvy does not know: a table like that of divvy
    /// itself (crates/words/pods-of.yaml), which comes before it; may be given more than once
    ///
    /// Known without it: CronJob, JobSet, LeaderWorkerSet, Volcano's Job, RayCluster, RayJob,
    /// RayService, and Kubeflow's PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob and JAXJob.
    #[arg(long, value_name = "FILE")]
    pub pods_of: Vec<PathBuf>,
    /// What if there were so many more nodes like this one, empty: 3=a100-1; may be given more than
    /// once
    #[arg(long, value_name = "COUNT=NODE", value_parser = new_nodes)]
    pub add_nodes: Vec<(u32, String)>,
    /// What if this node were drained: its pods, except those of DaemonSets, are placed elsewhere;
    /// may be given more than once
    #[arg(long, value_name = "NODE")]
    pub drain: Vec<String>,
    /// What if this node were gone: its pods, except those of DaemonSets, are placed elsewhere; may
    /// be given more than once
    #[arg(long, value_name = "NODE")]
    pub remove_node: Vec<String>,
    /// Place the examples that are in this binary: those of the folder examples/ of its source
    #[arg(long)]
    pub demo: bool,
    /// Try a config of the ConfigMaps given with -f on a node that has no label for it: CONFIG, or
    /// CONFIGMAP/CONFIG; may be given more than once
    ///
    /// A node gets the config that its label nvidia.com/device-plugin.config or nvidia.com/mig.config
    /// names; of the device plugin else the default of the ClusterPolicy given with -f, or the only
    /// one.
    #[arg(long = "partition", value_name = "NODE=CONFIG", value_parser = partition)]
    pub partitions: Vec<(String, String)>,
    /// Place on a copy of the live cluster that the kubeconfig names; nothing there is changed
    ///
    /// Without this and --cluster, manifests are placed on the small cluster that is embedded in
    /// the binary, and nothing is contacted.
    #[arg(long, conflicts_with = "cluster")]
    pub from_cluster: bool,
    /// The namespace of manifests that name none [default: that of the context, or `default`]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Make N pods of each pod and controller, whatever their manifests say (not of DaemonSets)
    #[arg(long, value_name = "N", value_parser = replicas)]
    pub replicas: Option<u32>,
    /// Whether shared cards are kept by reservation pods, as with divvy scheduler --gpu-sharing:
    /// each asks some CPU, memory and a pod slot [default: as seen in the cluster, else true]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub gpu_sharing: Option<bool>,
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// Take the mistakes that `divvy lint` finds in the manifests for errors: nothing is placed
    #[arg(long)]
    pub strict: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy simulate --demo                           the examples
  divvy simulate -f pods.yaml                     on the embedded cluster
  divvy simulate -f pod.yaml --replicas 12        what if there were twelve
  divvy simulate -f pod.yaml --replicas 0 --fill  how many of it fit
  divvy simulate -f pods.yaml --strategy spread --svg map.svg
  divvy simulate --from-cluster -f new.yaml       on a copy of the live cluster
  divvy simulate --from-cluster --drain a100-1    where would its pods go
  divvy simulate --cluster now.yaml -f new.yaml --add-nodes 2=a100-1
  divvy simulate -f pods.yaml --compare spread    two strategies side by side
  divvy simulate --cluster now.yaml -f new.yaml --compare then.yaml
  divvy simulate -k overlays/prod                 what a kustomization makes
  divvy simulate -f mig.yaml --partition n1=all-1g.10gb
  divvy snapshot > now.yaml
  divvy simulate --cluster now.yaml -f new.yaml -o json

Exit codes: 0 all placed, 2 something is pending, 1 bad input.")]
pub struct SimulateArgs {
    #[command(flatten)]
    pub rehearsal: RehearsalArgs,
    /// Also say how many more pods of each object given with -f, -k or --demo would fit, each for
    /// itself, besides all that has a place
    ///
    /// Counted up to MOST [default: 10000]. Not of DaemonSets, which have one pod on each node.
    #[arg(
        long,
        value_name = "MOST",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10000",
        value_parser = most
    )]
    pub fill: Option<u32>,
    /// How to print the outcome
    #[arg(short, long, default_value = "table")]
    pub output: Format,
    /// Also draw the card map as a picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The same again side by side: with this strategy (binpack, spread) or on this cluster (a file, or
    /// `embedded`)
    #[arg(long, value_name = "STRATEGY|FILE", conflicts_with = "svg")]
    pub compare: Option<String>,
    /// Print the embedded cluster, to edit, and stop
    #[arg(long)]
    pub print_cluster: bool,
    /// Say on standard error where the time went
    #[arg(long)]
    pub timings: bool,
}

#[derive(Args)]
pub struct ExplainArgs {
    #[command(subcommand)]
    pub what: Explained,
}

#[derive(Subcommand)]
pub enum Explained {
    /// Say where a pod goes, or why it waits: by node, with the numbers and the nearest fit
    #[command(aliases = ["pods", "po"])]
    Pod(ExplainPodArgs),
    /// Say how the pods of a Deployment stand, and why the first that waits does
    #[command(aliases = ["deploy", "deployments"])]
    Deployment(ExplainWorkloadArgs),
    /// Say how the pods of a StatefulSet stand, and why the first that waits does
    #[command(name = "statefulset", aliases = ["sts", "statefulsets"])]
    StatefulSet(ExplainWorkloadArgs),
    /// Say how the pods of a Job stand, and why the first that waits does
    #[command(alias = "jobs")]
    Job(ExplainWorkloadArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy explain deployment ml/server           in the cluster of your kubeconfig
  divvy explain job train -n ml -f train.yaml  on the embedded cluster

Exit codes: 0 all its pods have a place, 2 one is pending, 1 bad input or it has no pods.")]
pub struct ExplainWorkloadArgs {
    /// Its name; without a namespace, in that of -n
    #[arg(value_name = "NAMESPACE/NAME")]
    pub name: String,
    #[command(flatten)]
    pub rehearsal: RehearsalArgs,
    /// How to print the answer
    #[arg(short, long, default_value = "table")]
    pub output: Format,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy explain pod ml/triton-9           in the cluster of your kubeconfig
  divvy explain pod triton-9 -n ml --cluster now.yaml
  divvy explain pod ml/notebook-0 --demo  with nothing but this binary

A pod alone is looked for in the live cluster. With -f, manifests are rehearsed as simulate does: \
on the embedded cluster, unless --from-cluster or --cluster says otherwise.

Exit codes: 0 it has a place, 2 it is pending, 1 bad input or no such pod.")]
pub struct ExplainPodArgs {
    /// The pod; without a namespace, the one in that of -n
    #[arg(value_name = "NAMESPACE/NAME")]
    pub pod: String,
    #[command(flatten)]
    pub rehearsal: RehearsalArgs,
    /// How to print the answer
    #[arg(short, long, default_value = "table")]
    pub output: Format,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(divvy completion bash)
  divvy completion zsh > \"${fpath[1]}/_divvy\"

As `kubectl divvy`: link the binary as kubectl-divvy and, for completion, as kubectl_complete-divvy,
both on the PATH.")]
pub struct CompletionArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people
    Table,
    /// More columns, nothing cut short
    Wide,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum StrategyArg {
    /// The fullest that fits
    Binpack,
    /// The emptiest
    Spread,
}

fn partition(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((node, config)) if !node.is_empty() && !config.is_empty() => {
            Ok((node.to_owned(), config.to_owned()))
        }
        _ => Err("allowed is the name of a node, =, and that of a config, for example a100-1=all-1g.10gb".to_owned()),
    }
}

fn most(text: &str) -> Result<u32, String> {
    number(text, 1..=divvy_sim::MAX_FILL, "--fill=100")
}

/// A number, or what is allowed, with an example.
pub fn number(text: &str, allowed: RangeInclusive<u32>, example: &str) -> Result<u32, String> {
    text.parse().ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
        let (least, most) = (allowed.start(), allowed.end());
        format!("allowed is a whole number from {least} to {most}, for example {example}")
    })
}

fn new_nodes(text: &str) -> Result<(u32, String), String> {
    let most = divvy_sim::MAX_NEW_NODES;
    let parts = text.split_once('=').filter(|(_, node)| !node.is_empty());
    let parts = parts.and_then(|(count, node)| Some((count.parse::<u32>().ok()?, node.to_owned())));
    let wrong = || {
        format!(
            "allowed is a number from 1 to {most}, =, and the name of a node that is there, for example 2=a100-1"
        )
    };
    parts.filter(|(count, _)| (1..=most).contains(count)).ok_or_else(wrong)
}

fn replicas(text: &str) -> Result<u32, String> {
    number(text, 0..=divvy_sim::MAX_REPLICAS, "--replicas 12")
}
