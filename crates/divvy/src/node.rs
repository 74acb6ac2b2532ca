//! `divvy node`: what is done on a node, by a pod of divvy there.

use crate::daemon::{LogArgs, runtime, signals};
use crate::input::providers;
use crate::{DONE, PENDING, output};
use anyhow::Context;
use clap::{Args, Subcommand};
use divvy_api::{Api, Fence, config};
use divvy_node::limit;
use divvy_node::provider::{Host, ToInstall, put, take_away};
use divvy_words::keys;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args)]
pub struct NodeArgs {
    #[command(subcommand)]
    pub what: NodeCommand,
}

#[derive(Subcommand)]
pub enum NodeCommand {
    /// Put an isolation provider on this node, or take it away
    InstallProvider(Box<InstallArgs>),
    /// Say, inside of a container, which card it has
    Card(CardArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples, in a pod on the node (deploy/provider.yaml):
  divvy node install-provider --library-dir /library --host-root /host --keep
  divvy node install-provider --host-root /host --remove

The provider is a CDI device, divvy.dev/provider=<name>, that mounts its library, the check of its \
limit and /etc/ld.so.preload. Only when all is in place the node gets the label \
koordinator.sh/gpu-isolation-provider, and with it the annotation divvy.dev/cdi-kind. Where it \
cannot work, the label is taken off first, and the reason is the error.

Exit codes: 0 as told, 1 the node has no provider now.")]
pub struct InstallArgs {
    /// The provider
    #[arg(long, value_name = "NAME", default_value = "HAMi-core")]
    pub provider: String,
    /// Settings, of which the list of providers is read (the file of divvy scheduler --config)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A folder with the provider's library, which divvy does not have; all its files are mounted.
    /// Left out for a provider without one
    #[arg(long, value_name = "FOLDER")]
    pub library_dir: Option<PathBuf>,
    /// The checker [default: divvy-isolation-check beside this program]
    #[arg(long, value_name = "FILE")]
    pub checker: Option<PathBuf>,
    /// Where the root of the node is mounted
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub host_root: PathBuf,
    /// Where the provider's files go on the node; programs can be loaded from there
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/divvy/providers")]
    pub install_dir: PathBuf,
    /// The configuration of NVIDIA's runtime on the node [default: those of its packages and of the
    /// GPU operator, if they are there]
    #[arg(long, value_name = "FILE")]
    pub runtime_config: Option<PathBuf>,
    /// The name of the node
    #[arg(long, value_name = "NAME", env = "NODE_NAME", hide_env_values = true)]
    pub node_name: String,
    /// Stay, and look every minute whether it is still so
    #[arg(long, conflicts_with = "remove")]
    pub keep: bool,
    /// Take the label off, then the device; files that running containers have mounted stay
    #[arg(long)]
    pub remove: bool,
    /// The kubeconfig; without it as kubectl finds it, else the pod's own service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Args)]
#[command(after_help = "\
What the container was booked stands in its variable DIVVY_CARDS; what it has is in /dev. `helm test` \
runs this in a share.

Exit codes: 0 it has the card that was booked, 2 it has none.")]
pub struct CardArgs {}

/// How often a node is looked at again.
const PAUSE: Duration = Duration::from_secs(60);

pub fn run(args: &NodeArgs) -> anyhow::Result<u8> {
    let args = match &args.what {
        NodeCommand::InstallProvider(args) => args,
        NodeCommand::Card(CardArgs {}) => return card(),
    };
    args.log.start()?;
    let providers = providers(args.config.as_deref())?;
    let provider = providers.named(&args.provider).map_err(anyhow::Error::msg)?;
    let host = Host {
        root: args.host_root.clone(),
        folder: args.install_dir.clone(),
        runtime: args.runtime_config.clone(),
    };
    runtime()?.block_on(async {
        let mut stop = Box::pin(signals()?);
        let config = config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        let api = Api::connect(config, Fence::open())?;
        if args.remove {
            take_away(&api, &args.node_name, provider, &host).await?;
            tracing::info!(provider = provider.name, "removed");
            return Ok(DONE);
        }
        let source = ToInstall { library: args.library_dir.clone(), checker: checker(args)? };
        loop {
            match put(&api, &args.node_name, provider, &source, &host).await {
                Err(why) if args.keep => tracing::error!(%why, "the node has no provider"),
                Err(why) => return Err(why.into()),
                Ok(installed) => {
                    let (kind, version) = (installed.kind, installed.version.display().to_string());
                    tracing::info!(provider = provider.name, kind, version, "installed");
                }
            }
            if !args.keep {
                return Ok(DONE);
            }
            tokio::select! {
                () = &mut stop => return Ok(DONE),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    })
}

/// What is booked is read from the binding's annotations; nothing of it is there in a pod without a
/// share.
fn card() -> anyhow::Result<u8> {
    let booked = std::env::var(keys::ENV_CARDS).unwrap_or_default();
    if booked.is_empty() {
        output::write("This container has no share of a card.\n")?;
        return Ok(PENDING);
    }
    let Some(number) = divvy_node::own_number(Path::new("/dev")) else {
        output::write(&format!("{booked} was booked, and not one card is in /dev.\n"))?;
        return Ok(PENDING);
    };
    output::write(&format!("This container has {booked} on /dev/nvidia{number}.\n"))?;
    Ok(DONE)
}

fn checker(args: &InstallArgs) -> anyhow::Result<PathBuf> {
    match &args.checker {
        Some(path) => Ok(path.clone()),
        None => {
            let own = std::env::current_exe().context("failed to find this program")?;
            Ok(own.with_file_name(limit::CHECKER))
        }
    }
}
