//! What the subcommands that run until they are told to stop have in common.

use anyhow::Context;
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Args)]
pub struct LogArgs {
    /// How to write the log, which goes to standard error
    #[arg(long, default_value = "text")]
    pub log_format: LogFormat,
    /// What to log: error, warn, info, debug or trace, or a filter such as divvy_cluster=debug
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log_level: String,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum LogFormat {
    /// A line for people
    Text,
    /// A JSON object a line
    Json,
}

impl LogArgs {
    pub fn start(&self) -> anyhow::Result<()> {
        let filter = EnvFilter::try_new(&self.log_level).context("--log-level")?;
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        let log = log.with_ansi(std::io::stderr().is_terminal());
        let news = filter_fn(is_news);
        match self.log_format {
            LogFormat::Text => log.with_target(false).finish().with(news).init(),
            LogFormat::Json => log.json().flatten_event(true).finish().with(news).init(),
        }
        Ok(())
    }
}

/// Not that the API server's certificate is not checked, which kube says anew for each connection
/// and divvy once. A CA file that cannot be read again is news of the same module.
pub fn is_news(metadata: &Metadata<'_>) -> bool {
    let is_of_tls = metadata.target().starts_with("kube_client::client::tls");
    !is_of_tls || metadata.fields().field("path").is_some()
}

pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().context("failed to start")
}

/// SIGTERM or ctrl-C.
pub fn signals() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for ctrl-C")?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
