//! `divvy scheduler`: places the pods of a live cluster.

use crate::DONE;
use crate::cli::{GateArgs, PlacementArgs};
use crate::daemon::{LogArgs, runtime, signals};
use crate::input::isolation;
use crate::live::config_map;
use clap::{ArgAction, Args};
use divvy_cluster::{HandOffSettings, Lease, Overrides, Settings};
use divvy_engine::ObjectKey;
use divvy_words::keys;
use divvy_words::reservation::{self, Bytes, MilliCpu, Opening};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy scheduler --kubeconfig ~/.kube/config --leader-elect=false
  divvy scheduler --config settings.yaml --log-format json

Pods ask for it with spec.schedulerName: divvy-scheduler. Health is on /healthz and /readyz, \
metrics on /metrics. It stops on SIGTERM after the writes under way.

Exit codes: 0 stopped as told, 1 wrong settings or lost lease.")]
pub struct SchedulerArgs {
    /// The kubeconfig; without it as kubectl finds it, else the pod's own service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long)]
    pub context: Option<String>,
    /// Pods with these scheduler names are placed
    ///
    /// While KAI's or Koordinator's scheduler runs in the cluster, pods with schedulerName
    /// kai-scheduler or koord-scheduler are left to it.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = keys::SCHEDULER_NAMES)]
    pub scheduler_names: Vec<String>,
    /// Whether one of several replicas works at a time
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub leader_elect: bool,
    /// The namespace of the lease
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    pub lease_namespace: String,
    /// The name of the lease
    #[arg(long, value_name = "NAME", default_value = "divvy-scheduler")]
    pub lease_name: String,
    /// How long the lease holds without being renewed, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub lease_duration: u64,
    /// Without leader election: how long to wait at the start, in seconds, until nothing that an
    /// earlier process has sent can take effect
    ///
    /// Use the same for all that run one after the other: no write takes longer. 0 is for a
    /// cluster in which no divvy scheduler has run yet.
    #[arg(long, value_name = "SECONDS", default_value_t = Settings::TAKEOVER_WAIT.as_secs(), value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub takeover_wait: u64,
    /// Where health and metrics are served; port 0 takes a free one, and the log says which
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:10259")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub placement: PlacementArgs,
    #[command(flatten)]
    pub gates: GateArgs,
    /// A ConfigMap whose key config.yaml says how to place, instead of --config, once it is there
    ///
    /// It is read again every few seconds. What is wrong with it is an event on it. Recipes for KAI call
    /// it kai-scheduler/kai-scheduler-config. isolationProviders are read from --config only.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = config_map)]
    pub config_map: Option<ObjectKey>,
    /// The ConfigMap of NVIDIA's device plugin: what it says of failRequestsGreaterThanOne keeps pods
    /// from nodes that would refuse them
    ///
    /// A node gets the config that its label nvidia.com/device-plugin.config names, else the only one, else
    /// the one called default. It is read again every few seconds. Without it a pod that was refused says
    /// so for those that come.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = config_map)]
    pub device_plugin_config_map: Option<ObjectKey>,
    /// How many bindings are written at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub bind_concurrency: u16,
    /// How long cards of a pod that was deleted by force stay closed after its grace period, in
    /// seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub quarantine: u64,
    /// Whether shares are handed to their containers, on cards that reservation pods hold
    ///
    /// Needs divvy admission, and the namespace kai-resource-reservation. Without it the cards of a
    /// share are only recorded on its pod.
    #[arg(
        long, value_name = "BOOL", default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set
    )]
    pub gpu_sharing: bool,
    /// The image of reservation pods, which holds divvy
    #[arg(long, value_name = "IMAGE", default_value = concat!("divvy:", env!("CARGO_PKG_VERSION")))]
    pub reservation_image: String,
    /// The runtime class of reservation pods; empty leaves them without
    #[arg(long, value_name = "NAME", default_value = "nvidia")]
    pub reservation_runtime_class: String,
    /// The CPU that each reservation pod asks
    #[arg(long, value_name = "QUANTITY", default_value = "1m", value_parser = reservation::cpu)]
    pub reservation_cpu: MilliCpu,
    /// The memory that each reservation pod asks
    #[arg(long, value_name = "QUANTITY", default_value = "16Mi", value_parser = reservation::memory)]
    pub reservation_memory: Bytes,
    /// The longest terminationGracePeriodSeconds of pods with a share, as divvy admission has it
    #[arg(long, value_name = "SECONDS", default_value_t = divvy_words::MAX_GRACE_PERIOD, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub max_grace_period: u32,
    /// Whether the container runtime wants CDI names of cards, as nodes with CDI only do
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    pub cdi: bool,
    /// A watch that is silent for so long is opened anew, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 90, hide = true)]
    pub watch_silence: u64,
    #[command(flatten)]
    pub log: LogArgs,
}

pub fn run(args: &SchedulerArgs) -> anyhow::Result<u8> {
    args.log.start()?;
    let config_file = args.placement.config.clone();
    let settings = Settings {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        scheduler_names: args.scheduler_names.clone(),
        lease: args.leader_elect.then(|| Lease {
            namespace: args.lease_namespace.clone(),
            name: args.lease_name.clone(),
            duration: Duration::from_secs(args.lease_duration),
        }),
        takeover_wait: Duration::from_secs(args.takeover_wait),
        listen: Some(args.listen),
        isolation: isolation(args.gates.feature_gates, config_file.as_deref())?,
        config_file,
        config_map: args.config_map.clone(),
        plugin_config_map: args.device_plugin_config_map.clone(),
        overrides: Overrides {
            node: args.placement.strategy.map(Into::into),
            card: args.placement.card_strategy.map(Into::into),
        },
        writes: args.bind_concurrency.into(),
        quarantine: Duration::from_secs(args.quarantine),
        watch_silence: Duration::from_secs(args.watch_silence.max(1)),
        hand_off: args.gpu_sharing.then(|| HandOffSettings {
            reservation: reservation::Settings {
                image: args.reservation_image.clone(),
                runtime_class: args.reservation_runtime_class.clone(),
                resources: Opening { cpu: args.reservation_cpu, memory: args.reservation_memory },
            },
            cdi: args.cdi,
            max_grace_period: args.max_grace_period,
        }),
    };
    runtime()?.block_on(async {
        let stop = signals()?;
        // On a worker, where most of what wakes it runs: this thread would have to be woken anew
        // for each answer.
        tokio::spawn(divvy_cluster::run(settings, stop)).await?.map_err(anyhow::Error::from)
    })?;
    Ok(DONE)
}
