//! The command line: what there is to say, and nothing else.

use crate::admission::AdmissionArgs;
use crate::doctor::DoctorArgs;
use crate::isolation::IsolationArgs;
use crate::live::LiveArgs;
use crate::mig::MigArgs;
use crate::node::NodeArgs;
use crate::reserve::ReserveArgs;
use crate::scheduler::SchedulerArgs;
use crate::snapshot::SnapshotArgs;
use clap::builder::RangedI64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use divvy_words::{FeatureGates, keys};
use std::path::PathBuf;

/// Divide GPUs among Kubernetes pods: fractions, memory shares and whole cards, on one exact
/// ledger.
///
/// simulate, explain, top, mig, doctor and snapshot change nothing: they rehearse, on manifests or on a copy
/// of a live cluster, with the same engine that schedules.
#[derive(Parser)]
#[command(
    name = "divvy",
    version,
    max_term_width = 100,
    after_help = "\
Try it, with nothing but this binary:
  divvy simulate -f examples/
On the cluster of your kubeconfig:
  divvy top cards
  divvy explain pod ml/triton-9
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
    /// Show what is on which node, card or pod
    Top(TopArgs),
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
    /// Print the completion script of a shell
    Completion(CompletionArgs),
    /// Print this reference as Markdown
    #[command(hide = true)]
    Reference,
}

/// How to place.
#[derive(Args)]
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
#[derive(Args)]
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
    pub live: LiveArgs,
}

/// What is switched on by name.
#[derive(Args)]
pub struct GateArgs {
    /// Features to switch on or off: GPUIsolationLevel=true tells the isolation levels of shares
    /// apart (docs/isolation.md)
    #[arg(long, value_name = "NAME=BOOL,...", default_value = "", hide_default_value = true)]
    pub feature_gates: FeatureGates,
}

/// What to place, where and how.
#[derive(Args)]
pub struct RehearsalArgs {
    /// Manifests to place: a file, a folder of .yaml, .yml and .json files, or - for standard
    /// input; may be given more than once
    ///
    /// Pods are taken as they are, and Deployments, StatefulSets, ReplicaSets, Jobs and
    /// DaemonSets as the pods they would make. ConfigMaps of NVIDIA's device plugin and MIG manager
    /// change the nodes as the GPU operator would (docs/partitions.md). Other kinds are counted and
    /// left alone.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
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
    #[arg(long, value_name = "N", value_parser = replicas())]
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
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy simulate -f examples/                          on the embedded cluster
  divvy simulate -f pod.yaml --replicas 12             what if there were twelve of it
  divvy simulate -f pods.yaml --strategy spread --svg map.svg
  divvy simulate --from-cluster -f new.yaml            on a copy of the live cluster
  divvy simulate -f mig.yaml --partition n1=all-1g.10gb  what if node n1 had that MIG config
  divvy snapshot -o now.yaml
  divvy simulate --cluster now.yaml -f new.yaml -o json

Exit codes: 0 all placed, 2 something is pending, 1 bad input.")]
pub struct SimulateArgs {
    #[command(flatten)]
    pub rehearsal: RehearsalArgs,
    /// How to print the outcome
    #[arg(short, long, default_value = "table")]
    pub output: Format,
    /// Also draw the card map as a picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
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
    Pod(ExplainPodArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy explain pod ml/triton-9                        in the cluster of your kubeconfig
  divvy explain pod triton-9 -n ml --cluster now.yaml
  divvy explain pod gpu-sharing -f examples/           on the embedded cluster

A pod alone is looked for in the live cluster. With -f, manifests are rehearsed as simulate does:
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
  divvy top cards                                      in the cluster of your kubeconfig
  divvy top pods -n ml -o wide
  divvy top nodes --watch
  divvy top cards --cluster now.yaml
  divvy top nodes --cluster embedded")]
pub struct TopArgs {
    /// What to list
    #[arg(default_value = "nodes")]
    pub what: TopKind,
    /// Only pods of this namespace
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,
    /// Pods of all namespaces, as without -n
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Print again whenever something changes, at most every 2 s, until ctrl-C
    #[arg(short, long, conflicts_with = "cluster")]
    pub watch: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How to print the list
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

#[derive(Clone, Copy, ValueEnum)]
pub enum TopKind {
    /// One row a node
    Nodes,
    /// One row a card
    Cards,
    /// One row a kind of slices: time slices, MPS replicas, MIG slices
    Slices,
    /// One row a pod that holds GPUs; wide lists the others too
    Pods,
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
        _ => Err("allowed is the name of a node, =, and that of a config".to_owned()),
    }
}

fn replicas() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=i64::from(divvy_sim::MAX_REPLICAS))
}
