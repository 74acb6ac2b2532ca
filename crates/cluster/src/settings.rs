//! How a scheduler is to run.

use divvy_engine::{Config, ObjectKey, Strategy};
use divvy_words::isolation::Isolation;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that `divvy scheduler` can be told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The kubeconfig, or where kubectl would look, or the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    pub context: Option<String>,
    /// The pods with these scheduler names are ours.
    pub scheduler_names: Vec<String>,
    /// The lease by which one of several replicas works; `None` if there is only one.
    pub lease: Option<Lease>,
    /// Without a lease: how long to wait at the start until nothing that an earlier process has sent
    /// can take effect; zero where none has run.
    pub takeover_wait: Duration,
    /// Where health and metrics are served.
    pub listen: Option<SocketAddr>,
    /// A file that says how to place, read again whenever it changes.
    pub config_file: Option<PathBuf>,
    /// A ConfigMap that says it instead, if it is there.
    pub config_map: Option<ObjectKey>,
    /// What wins over both.
    pub overrides: Overrides,
    /// The ConfigMap of the device plugin, which says whether it refuses several replicas.
    pub plugin_config_map: Option<ObjectKey>,
    /// How many bindings are written at a time.
    pub writes: usize,
    /// How long cards of a pod that vanished without ending stay closed, after its grace period.
    pub quarantine: Duration,
    /// A watch that says nothing for so long is opened anew.
    pub watch_silence: Duration,
    /// How shares are handed to their containers; `None` if nobody does.
    pub hand_off: Option<HandOffSettings>,
    /// What keeps isolated shares to their part; `None` if levels of isolation are not told apart.
    pub isolation: Option<Isolation>,
}

impl Settings {
    /// The usual one: as long as the usual lease.
    pub const TAKEOVER_WAIT: Duration = Duration::from_secs(15);
}

/// How shares are handed to their containers.
#[derive(Clone, Debug)]
pub struct HandOffSettings {
    /// How reservation pods are made.
    pub reservation: divvy_words::reservation::Settings,
    /// Whether the container runtime wants CDI names instead of UUIDs.
    pub cdi: bool,
    /// How long the containers of a share may take to end, in seconds.
    pub max_grace_period: u32,
}

/// Strategies that were asked for on the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides {
    /// Among nodes.
    pub node: Option<Strategy>,
    /// Among cards.
    pub card: Option<Strategy>,
}

impl Overrides {
    /// The configuration with these in force.
    #[must_use]
    pub fn over(self, config: Config) -> Config {
        let Self { node, card } = self;
        let (node, card) = (node.unwrap_or(config.node), card.or(node).unwrap_or(config.card));
        Config { node, card, ..config }
    }
}

/// The lease of a leader.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How long it holds without being renewed.
    pub duration: Duration,
}
