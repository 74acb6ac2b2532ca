//! `divvy top`

use crate::cli::{TopArgs, TopKind};
use crate::progress::Bar;
use crate::{DONE, input, output};

pub fn run(args: &TopArgs) -> anyhow::Result<u8> {
    let bar = Bar::new();
    let rehearsal = input::cluster(&args.cluster, &bar)?;
    bar.finish();
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
            let top = divvy_views::top_pods(scheduler);
            output::print(args.output, &top, |options| divvy_views::top_pods_text(&top, options))?;
        }
    }
    Ok(DONE)
}
