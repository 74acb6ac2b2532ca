//! `divvy isolation check`: whether the limit of a container is in force.

use crate::{BAD_INPUT, DONE, output};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use divvy_node::limit;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

#[derive(Args)]
pub struct IsolationArgs {
    #[command(subcommand)]
    pub what: IsolationCommand,
}

#[derive(Subcommand)]
pub enum IsolationCommand {
    /// Say whether a provider keeps a container to its limit, and why not
    Check(CheckArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy isolation check pod ml/model -c server  by kubectl exec
  divvy isolation check                         inside of the container

It runs the checker that the provider's CDI device mounts, which needs nothing of divvy:
  kubectl exec -n ml model -c server -- /usr/local/vgpu/divvy-isolation-check

Exit codes: 0 the limit is in force, 2 it is not, 1 that cannot be found out.")]
pub struct CheckArgs {
    #[command(subcommand)]
    pub of: Option<Checked>,
    /// The folder in the container that the provider's device mounts
    #[arg(long, value_name = "FOLDER", default_value = "/usr/local/vgpu", global = true)]
    pub library: PathBuf,
}

#[derive(Subcommand)]
pub enum Checked {
    /// A container of a running pod, by `kubectl exec`
    Pod(CheckPodArgs),
}

#[derive(Args)]
pub struct CheckPodArgs {
    /// The pod; without a namespace, the one in that of -n
    #[arg(value_name = "NAMESPACE/NAME")]
    pub pod: String,
    /// The namespace [default: that of the context]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The container [default: the first one]
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// The kubeconfig; without it as kubectl finds it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// What the checker answers too.
const NOT_IN_FORCE: u8 = 2;

pub fn run(args: &IsolationArgs) -> anyhow::Result<u8> {
    let IsolationCommand::Check(args) = &args.what;
    let checker = args.library.join(limit::CHECKER);
    let mut command = match &args.of {
        None => Command::new(&checker),
        Some(Checked::Pod(pod)) => {
            let mut kubectl = kubectl(pod);
            kubectl.arg("--").arg(&checker);
            kubectl
        }
    };
    let ended = match command.status() {
        Err(why) if why.kind() == ErrorKind::NotFound && args.of.is_some() => {
            bail!("kubectl is not installed here; where it is: {}", line(&command));
        }
        Err(why) if why.kind() == ErrorKind::NotFound => bail!(
            "{} is not here: this is no container with a provider, or one without the loader of \
             glibc, which nothing limits",
            checker.display()
        ),
        ended => ended.with_context(|| format!("failed to run {}", line(&command)))?,
    };
    match ended.code() {
        Some(0) => Ok(DONE),
        Some(2) => Ok(NOT_IN_FORCE),
        _ => {
            output::note(
                "that cannot be found out; a container in which the checker is not there, or does \
                 not start, has no provider or no glibc to load it",
            );
            Ok(BAD_INPUT)
        }
    }
}

fn kubectl(args: &CheckPodArgs) -> Command {
    let mut kubectl = Command::new("kubectl");
    let mut option = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            kubectl.arg(format!("--{name}={value}"));
        }
    };
    let (namespace, pod) = match args.pod.split_once('/') {
        Some((namespace, pod)) => (Some(namespace), pod),
        None => (args.namespace.as_deref(), args.pod.as_str()),
    };
    option("kubeconfig", args.kubeconfig.as_ref().and_then(|path| path.to_str()));
    option("context", args.context.as_deref());
    option("namespace", namespace);
    option("container", args.container.as_deref());
    kubectl.args(["exec", pod]);
    kubectl
}

/// A command as it is typed.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
