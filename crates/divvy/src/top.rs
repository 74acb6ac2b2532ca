//! `divvy top`

use crate::cli::{TopArgs, TopKind};
use crate::progress::Bar;
use crate::{DONE, input, output};
use anyhow::bail;
use divvy_sim::Rehearsal;

pub fn run(args: &TopArgs) -> anyhow::Result<u8> {
    if args.namespace.is_some() && !matches!(args.what, TopKind::Pods) {
        bail!("-n is for `top pods`: nodes and cards belong to no namespace");
    }
    let bar = Bar::new();
    let rehearsal = input::cluster(&args.cluster, &bar)?;
    bar.finish();
    print(args, &rehearsal)?;
    Ok(DONE)
}

fn print(args: &TopArgs, rehearsal: &Rehearsal) -> anyhow::Result<()> {
    let scheduler = &rehearsal.scheduler;
    match args.what {
        TopKind::Nodes => {
            let top = divvy_views::top_nodes(scheduler);
            output::print(args.output, &top, |options| divvy_views::top_nodes_text(&top, options))?;
        }
        TopKind::Cards => {
            let top = divvy_views::top_cards(scheduler);
            output::print(args.output, &top, |options| divvy_views::top_cards_text(&top, options))?;
        }
        TopKind::Pods => {
            let mut top = divvy_views::top_pods(scheduler);
            if let Some(namespace) = &args.namespace {
                top.items.retain(|pod| pod.namespace == *namespace);
            }
            output::print(args.output, &top, |options| divvy_views::top_pods_text(&top, options))?;
        }
    }
    if rehearsal.kai_runs {
        output::note(
            "note: KAI's scheduler runs in this cluster: pods with schedulerName kai-scheduler \
             are left to it",
        );
    }
    Ok(())
}
