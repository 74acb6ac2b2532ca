//! The cluster that a kubeconfig names, read and never written.

use crate::output;
use crate::progress::Bar;
use anyhow::{Context, anyhow};
use clap::Args;
use divvy_cluster::snapshot::{Reader, SavedCollection, Snapshot, SnapshotError};
use divvy_doctor::{ClusterSource, Observed};
use divvy_engine::ObjectKey;
use divvy_sim::{Input, Progress};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Said of each option by itself: a heading of the whole would be that of all options after it.
const LIVE_CLUSTER: &str = "Live cluster";

/// Which live cluster, and how patient to be with it.
#[derive(Args, Clone)]
pub struct LiveArgs {
    /// The kubeconfig; without it as kubectl finds it, else the pod's own service account
    #[arg(long, value_name = "FILE", help_heading = LIVE_CLUSTER)]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = LIVE_CLUSTER)]
    pub context: Option<String>,
    /// How long one answer of the API server may take, such as 5s or 2m; 0 for ever
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    #[arg(help_heading = LIVE_CLUSTER)]
    pub request_timeout: Duration,
}

impl LiveArgs {
    /// The first option that only makes sense with a live cluster.
    pub fn given(&self) -> Option<&'static str> {
        let kubeconfig = self.kubeconfig.is_some().then_some("--kubeconfig");
        kubeconfig.or(self.context.is_some().then_some("--context"))
    }
}

/// What the device plugin is told.
#[derive(Args, Clone)]
pub struct PluginArgs {
    /// Also read this ConfigMap of NVIDIA's device plugin: what it says of failRequestsGreaterThanOne keeps
    /// pods from nodes that would refuse them, as the scheduler does
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = config_map)]
    #[arg(help_heading = LIVE_CLUSTER)]
    pub device_plugin_config_map: Option<ObjectKey>,
}

/// `NAMESPACE/NAME`.
pub fn config_map(text: &str) -> Result<ObjectKey, String> {
    match text.split_once('/') {
        Some((namespace, name)) if ![namespace, name].contains(&"") && !name.contains('/') => {
            Ok(ObjectKey::new(namespace, name))
        }
        _ => {
            Err("allowed is NAMESPACE/NAME, for example gpu-operator/time-slicing-config"
                .to_owned())
        }
    }
}

fn not_read(key: &ObjectKey, why: &SnapshotError) -> anyhow::Error {
    let why = match why {
        SnapshotError::Absent { .. } => "there is no such ConfigMap".to_owned(),
        SnapshotError::Forbidden { .. } => {
            format!(
                "not allowed to read it; ask for the verb `get` on configmaps in {}",
                key.namespace()
            )
        }
        other => other.to_string(),
    };
    anyhow!("--device-plugin-config-map {key}: {why}")
}

/// Whoever looks at a screen needs it no more often.
const PAUSE: Duration = Duration::from_secs(2);

/// A connection to a live cluster.
pub struct Live {
    runtime: Runtime,
    reader: Reader,
}

impl Live {
    /// Finds out which cluster; nothing is asked of it yet.
    pub fn connect(args: &LiveArgs) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot start")?;
        let (kubeconfig, context) = (args.kubeconfig.as_deref(), args.context.as_deref());
        let reader = Reader::connect(kubeconfig, context, args.request_timeout);
        let reader = runtime.block_on(reader)?;
        Ok(Self { runtime, reader })
    }

    /// The namespace of the context.
    pub fn namespace(&self) -> &str {
        self.reader.namespace()
    }

    /// Reads collections, with a bar for each, and the ConfigMap of the device plugin if it is named.
    pub fn read(
        &self,
        collections: &[SavedCollection],
        plugin: &PluginArgs,
        bar: &Bar,
    ) -> anyhow::Result<Snapshot> {
        let current = Mutex::new("");
        let on_page = on_page(&current, bar);
        let mut snapshot = self.runtime.block_on(self.reader.read(collections, &on_page))?;
        if let Some(key) = &plugin.device_plugin_config_map {
            let added = self.reader.add_plugin_config_map(key, &mut snapshot);
            self.runtime.block_on(added).map_err(|why| not_read(key, &why))?;
        }
        for note in &snapshot.notes {
            output::note(&format!("note: {note}"));
        }
        Ok(snapshot)
    }

    /// Looks at what may be wrong, with a bar for each kind of object.
    pub fn observe(&self, now: i64, bar: &Bar) -> anyhow::Result<Observed> {
        let current = Mutex::new("");
        let on_page = on_page(&current, bar);
        let source = ClusterSource::Live(&self.reader, &on_page);
        Ok(self.runtime.block_on(Observed::look(&source, now))?)
    }

    /// Calls `draw` with pods and nodes, now as `snapshot` and again when they have changed, until
    /// ctrl-C, or until `draw` says that nobody looks any more.
    pub fn follow(
        &self,
        mut snapshot: Snapshot,
        mut draw: impl FnMut(Input) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt()).context("cannot hear ctrl-C")?;
            let mut follower = self.reader.follow();
            while draw(self.input(&snapshot))? {
                snapshot = tokio::select! {
                    _ = interrupt.recv() => break,
                    snapshot = follower.next(PAUSE) => snapshot,
                };
            }
            Ok(())
        })
    }

    /// A snapshot as a rehearsal reads it.
    pub fn input(&self, snapshot: &Snapshot) -> Input {
        Input { name: self.reader.server().to_owned(), text: snapshot.to_json() }
    }
}

/// Shows each page on the bar; `current` is the kind that is being read.
fn on_page<'a>(
    current: &'a Mutex<&'static str>,
    bar: &'a Bar,
) -> impl Fn(&'static str, u64, u64) + Sync + 'a {
    |kind, read, left| {
        if let Ok(mut current) = current.lock()
            && std::mem::replace(&mut *current, kind) != kind
        {
            bar.begin(kind, read + left);
        }
        bar.advance(read);
    }
}

/// `5s`, `2m`, `1h`, `250ms`; a number alone is seconds, as for kubectl.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    match number.parse::<u32>() {
        Ok(number) if millis > 0 => Ok(Duration::from_millis(u64::from(number) * millis)),
        _ => Err("write a number with a unit, such as 5s, 2m or 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_for_kubectl() {
        let cases = [("0", 0), ("5", 5_000), ("5s", 5_000), ("250ms", 250), ("2m", 120_000)];
        for (text, millis) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "1d", "1.5s", "99999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
