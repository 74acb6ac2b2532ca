//! `divvy top`

use crate::cli::{Format, TopArgs, TopKind};
use crate::daemon::is_news;
use crate::progress::Bar;
use crate::{DONE, input, output};
use anyhow::bail;
use divvy_cluster::snapshot::HOLDINGS;
use divvy_sim::Rehearsal;
use std::io::IsTerminal;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const KAI_RUNS: &str = "KAI's scheduler runs in this cluster: pods with schedulerName \
    kai-scheduler are left to it";

pub fn run(args: &TopArgs) -> anyhow::Result<u8> {
    if args.namespace.is_some() && !matches!(args.what, TopKind::Pods) {
        bail!("-n is for `top pods`: nodes, cards and slices belong to no namespace");
    }
    let bar = Bar::new();
    if args.watch {
        watch(args, &bar)?;
        return Ok(DONE);
    }
    let rehearsal = input::cluster(&args.cluster, &bar)?;
    bar.finish();
    output::write(&list(args, &rehearsal)?)?;
    if rehearsal.running.kai {
        output::note(&format!("note: {KAI_RUNS}"));
    }
    Ok(DONE)
}

fn list(args: &TopArgs, rehearsal: &Rehearsal) -> anyhow::Result<String> {
    let scheduler = &rehearsal.scheduler;
    match args.what {
        TopKind::Nodes => {
            let top = divvy_views::top_nodes(scheduler);
            output::render(args.output, &top, |options| divvy_views::top_nodes_text(&top, options))
        }
        TopKind::Cards => {
            let top = divvy_views::top_cards(scheduler);
            output::render(args.output, &top, |options| divvy_views::top_cards_text(&top, options))
        }
        TopKind::Slices => {
            let top = divvy_views::top_slices(scheduler);
            let text = |options| divvy_views::top_slices_text(&top, options);
            output::render(args.output, &top, text)
        }
        TopKind::Pods => {
            let mut top = divvy_views::top_pods(scheduler);
            if let Some(namespace) = &args.namespace {
                top.items.retain(|pod| pod.namespace == *namespace);
            }
            output::render(args.output, &top, |options| divvy_views::top_pods_text(&top, options))
        }
    }
}

/// Prints the list again whenever it is another: over the old one on a terminal, below it and a
/// blank line in a pipe.
fn watch(args: &TopArgs, bar: &Bar) -> anyhow::Result<()> {
    let live = input::connect(&args.cluster)?;
    // Once by the usual way, which says what is wrong; from then on, what breaks is mended.
    let snapshot = live.read(&HOLDINGS, bar)?;
    bar.finish();
    start_log();
    let is_terminal = std::io::stdout().is_terminal();
    let mut shown = String::new();
    live.follow(snapshot, |source| {
        let rehearsal = input::holdings(&args.cluster, source)?;
        let mut text = list(args, &rehearsal)?;
        if rehearsal.running.kai && matches!(args.output, Format::Table | Format::Wide) {
            text.push_str(&format!("\n{KAI_RUNS}\n"));
        }
        if text == shown {
            return Ok(true);
        }
        let separator = if shown.is_empty() { "" } else { "\n" };
        let frame = match is_terminal {
            true => format!("{CLEAR}{}", cut(&text, output::height())),
            false => format!("{separator}{text}"),
        };
        shown = text;
        output::write_if_read(&frame)
    })
}

/// Clears the terminal and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// As many lines as a terminal shows, the last of which says what is missing.
fn cut(text: &str, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // One line is left for the cursor.
    if height < 3 || lines.len() < height {
        return text.to_owned();
    }
    let (shown, hidden) = lines.split_at(height - 2);
    format!("{}\n({} more lines)\n", shown.join("\n"), hidden.len())
}

/// What goes wrong with the watches, for people.
fn start_log() {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
    let log = log.with_writer(std::io::stderr).without_time().with_target(false);
    log.finish().with(filter_fn(is_news)).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_longer_than_the_terminal_is_cut_and_counted() {
        assert_eq!(cut("a\nb\nc\n", 4), "a\nb\nc\n");
        assert_eq!(cut("a\nb\nc\nd\n", 4), "a\nb\n(2 more lines)\n");
        assert_eq!(cut("a\nb\nc\n", 0), "a\nb\nc\n", "unknown height");
    }
}
