//! `divvy uninstall`: what `helm uninstall` leaves for shares that run on, taken away.

use crate::{DONE, PENDING, output};
use anyhow::bail;
use clap::Args;
use divvy_api::{Api, Fence, config};
use divvy_cluster::uninstall::{LiveShare, Remains, look, remove};
use divvy_views::clean;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
#[command(after_help = "\
Examples:
  helm uninstall -n divvy-system divvy  shares run on, with what they need
  divvy uninstall                       takes that away once no share runs
  divvy uninstall --wait                the same, once the last share has ended

It deletes reservation pods and their namespace, divvy's policies, roles, priority class and lease, and \
lifts the taint divvy.dev/unsettled. It needs the rights of an administrator, and that divvy itself was \
uninstalled before. Pods of users are never deleted.

Exit codes: 0 nothing of divvy is left, 2 shares still run and all stays, 1 something went wrong.")]
pub struct UninstallArgs {
    /// Wait until the last share has ended
    #[arg(long, conflicts_with = "force")]
    pub wait: bool,
    /// Take all away though shares run
    ///
    /// They run on, but the device plugin may give their cards to whole-GPU pods too, and who may edit
    /// these pods can give their containers other cards at the next start.
    #[arg(long)]
    pub force: bool,
    /// The namespace that divvy was installed in
    #[arg(short, long, value_name = "NAME", default_value = "divvy-system")]
    pub namespace: String,
    /// The kubeconfig; without it as kubectl finds it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

pub fn run(args: &UninstallArgs) -> anyhow::Result<u8> {
    crate::daemon::runtime()?.block_on(async {
        let config = config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        let api = Api::connect(config, Fence::open())?;
        let mut waits = false;
        let remains = loop {
            let remains = look(&api, &args.namespace).await?;
            if let Some(first) = remains.working.first() {
                bail!(
                    "divvy is still installed ({first}): uninstall it first, with `helm uninstall -n {} \
                     divvy`, or what was applied of deploy/ with `kubectl delete -f`",
                    args.namespace
                );
            }
            if remains.shares.is_empty() || args.force {
                break remains;
            }
            if !waits {
                output::write(&waiting(&remains))?;
            }
            if !args.wait {
                output::note("Next: `divvy uninstall --wait`, or end them. --force takes all away now: see --help.");
                return Ok(PENDING);
            }
            waits = true;
            tokio::time::sleep(PAUSE).await;
        };
        remove(&api, &remains, &args.namespace, &mut output::note).await?;
        output::write(&done(&remains))?;
        Ok(DONE)
    })
}

fn waiting(remains: &Remains) -> String {
    let widest = |texts: fn(&LiveShare) -> &str| {
        remains.shares.iter().map(|share| texts(share).len()).max().unwrap_or_default()
    };
    let (pod, node) = (widest(|share| &share.pod).max(3), widest(|share| &share.node).max(4));
    let mut text = match remains.shares.len() {
        1 => "1 share still runs: its reservation and the policies stay.\n".to_owned(),
        count => format!("{count} shares still run: their reservations and the policies stay.\n"),
    };
    text += &format!("{:pod$}  {:node$}  CARDS\n", "POD", "NODE");
    for share in &remains.shares {
        // An annotation is as somebody wrote it.
        text += &format!("{:pod$}  {:node$}  {}\n", share.pod, share.node, clean(&share.cards));
    }
    text
}

fn done(remains: &Remains) -> String {
    let mut text = "Nothing of divvy is left in the cluster.\n".to_owned();
    match remains.shares.len() {
        0 => {}
        1 => {
            text = "Nothing of divvy is left but 1 share that runs on; nothing keeps its card from others now.\n"
                .to_owned();
        }
        count => {
            text = format!(
                "Nothing of divvy is left but {count} shares that run on; nothing keeps their cards from others now.\n"
            );
        }
    }
    if let Some(first) = remains.provided.first() {
        let count = remains.provided.len();
        text += &format!(
            "{count} nodes, {first} first, have an isolation provider: `divvy node install-provider --remove` there.\n"
        );
    }
    text
}
