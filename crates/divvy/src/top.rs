//! `divvy top`

use crate::cli::{ClusterArgs, Format};
use crate::daemon::is_news;
use crate::progress::Bar;
use crate::{DONE, input, output};
use anyhow::{anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use divvy_cluster::snapshot::{EVERYTHING, HOLDINGS};
use divvy_engine::{Labels, ObjectKey, Selector};
use divvy_sim::Rehearsal;
use divvy_views::Table;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy top cards    in the cluster of your kubeconfig
  divvy top pods -n ml -o wide
  divvy top pod trainer-0 -n ml
  divvy top node a100-1
  divvy top nodes -l gpu=a100 --sort-by gpu-mem
  divvy top pending  who waits, since when and why
  divvy top queues -o csv
  divvy top nodes --watch
  divvy top cards --cluster now.yaml
  divvy top nodes --cluster embedded")]
pub struct TopArgs {
    /// What to list
    #[arg(default_value = "nodes")]
    pub what: TopKind,
    /// Only these: nodes, cards and slices by the name of the node, pods by name or
    /// namespace/name, queues by name
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Only pods of this namespace
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,
    /// Pods of all namespaces, as without -n
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only pods, or nodes and what is on them, with such labels: app=web,tier!=test,env in (a,b),!old
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = divvy_words::selector)]
    pub selector: Option<Selector>,
    /// By which column of the table: the largest amounts first, names by letter
    #[arg(long, value_name = "COLUMN")]
    pub sort_by: Option<String>,
    /// Leave out the line with the names of columns
    #[arg(long)]
    pub no_headers: bool,
    /// Print again whenever something changes, at most every 2 s, until ctrl-C
    #[arg(short, long, conflicts_with = "cluster")]
    pub watch: bool,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How to print the list
    #[arg(short, long, default_value = "table")]
    pub output: ListFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TopKind {
    /// One row a node
    #[value(aliases = ["node", "no"])]
    Nodes,
    /// One row a card
    #[value(alias = "card")]
    Cards,
    /// One row a kind of slices: time slices, MPS replicas, MIG slices
    #[value(alias = "slice")]
    Slices,
    /// One row a pod that holds GPUs; wide lists the others too
    #[value(aliases = ["pod", "po"])]
    Pods,
    /// One row a pod that waits: since when, and why
    Pending,
    /// One row a queue that pods name: what they hold in whole GPUs
    #[value(alias = "queue")]
    Queues,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// Columns for people
    Table,
    /// More columns, nothing cut short
    Wide,
    /// All columns, for spreadsheets
    Csv,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

const KAI_RUNS: &str = "KAI's scheduler runs in this cluster: pods with schedulerName \
    kai-scheduler are left to it";
const NO_QUOTAS: &str = "quotas of queues are not enforced yet";

pub fn run(args: &TopArgs) -> anyhow::Result<u8> {
    check(args)?;
    let bar = Bar::new();
    if args.watch {
        watch(args, &bar)?;
        return Ok(DONE);
    }
    let reads = if args.what == TopKind::Pending { &EVERYTHING[..] } else { &HOLDINGS[..] };
    let mut rehearsal = input::cluster(&args.cluster, reads, &bar)?;
    if args.what == TopKind::Pending {
        rehearsal.run(&bar);
    }
    bar.finish();
    let listed = list(args, &rehearsal)?;
    output::write(&listed.text)?;
    if rehearsal.running.kai {
        output::note(&format!("note: {KAI_RUNS}"));
    }
    if args.what == TopKind::Queues && is_table(args) {
        output::note(&format!("note: {NO_QUOTAS}"));
    }
    ensure!(listed.missing.is_empty(), not_there(args, &listed.missing));
    Ok(DONE)
}

/// What does not go together.
fn check(args: &TopArgs) -> anyhow::Result<()> {
    let is_of_pods = matches!(args.what, TopKind::Pods | TopKind::Pending);
    if args.namespace.is_some() && !is_of_pods {
        bail!("-n is for `top pods` and `top pending`: the others belong to no namespace");
    }
    ensure!(
        args.selector.is_none() || args.what != TopKind::Queues,
        "-l is for pods, and for nodes and what is on them: queues have no labels here"
    );
    ensure!(
        !args.watch || args.what != TopKind::Pending,
        "--watch cannot say why pods wait: it follows pods and nodes, and that depends on more"
    );
    ensure!(
        args.sort_by.is_none() || !matches!(args.output, ListFormat::Json | ListFormat::Yaml),
        "--sort-by is for tables and csv: json and yaml are sorted by name"
    );
    Ok(())
}

const fn is_table(args: &TopArgs) -> bool {
    matches!(args.output, ListFormat::Table | ListFormat::Wide)
}

/// A list, and the names that were asked for and are not in it.
struct Listed {
    text: String,
    missing: Vec<String>,
}

fn list(args: &TopArgs, rehearsal: &Rehearsal) -> anyhow::Result<Listed> {
    let scheduler = &rehearsal.scheduler;
    let node = |name: &str| {
        let labels = || {
            let facts = scheduler.facts(scheduler.ledger().find(name)?)?;
            Some(facts.labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect::<Labels>())
        };
        is_asked(args, name)
            && args.selector.as_ref().is_none_or(|s| labels().is_some_and(|l| s.matches(&l)))
    };
    let pod = |namespace: &str, name: &str| {
        let key = ObjectKey::new(namespace, name);
        let facts = || scheduler.pod_facts(&key);
        args.namespace.as_deref().is_none_or(|asked| asked == namespace)
            && (is_asked(args, name) || args.names.contains(&key.to_string()))
            && args.selector.as_ref().is_none_or(|s| facts().is_some_and(|f| s.matches(f.labels)))
    };
    let called = |name: &str| vec![name.to_owned()];
    let called_pod =
        |namespace: &str, name: &str| vec![name.to_owned(), format!("{namespace}/{name}")];
    match args.what {
        TopKind::Nodes => {
            let mut top = divvy_views::top_nodes(scheduler);
            top.items.retain(|item| node(item.name));
            let names = top.items.iter().flat_map(|item| called(item.name)).collect();
            print(args, &top, &names, |wide| divvy_views::top_nodes_table(&top, wide))
        }
        TopKind::Cards => {
            let mut top = divvy_views::top_cards(scheduler);
            top.items.retain(|item| node(item.node));
            let names = top.items.iter().flat_map(|item| called(item.node)).collect();
            print(args, &top, &names, |wide| divvy_views::top_cards_table(&top, wide))
        }
        TopKind::Slices => {
            let mut top = divvy_views::top_slices(scheduler);
            top.items.retain(|item| node(item.node));
            let names = top.items.iter().flat_map(|item| called(item.node)).collect();
            print(args, &top, &names, |_| divvy_views::top_slices_table(&top))
        }
        TopKind::Pods => {
            let mut top = divvy_views::top_pods(scheduler);
            top.items.retain(|item| pod(item.namespace, item.name));
            let names = top.items.iter().flat_map(|item| called_pod(item.namespace, item.name));
            let names = names.collect();
            // Whoever names a pod wants to see it, with a GPU or without.
            let all = !args.names.is_empty();
            print(args, &top, &names, |wide| divvy_views::top_pods_table(&top, wide, all))
        }
        TopKind::Pending => {
            let others = rehearsal.others.iter().map(|(pod, scheduler)| (pod, &**scheduler));
            let mut top =
                divvy_views::top_pending(scheduler, &rehearsal.placed, others, output::now());
            top.items.retain(|item| pod(item.namespace, item.name));
            let names = top.items.iter().flat_map(|item| called_pod(item.namespace, item.name));
            let names = names.collect();
            print(args, &top, &names, |wide| divvy_views::top_pending_table(&top, wide))
        }
        TopKind::Queues => {
            let mut top = divvy_views::top_queues(scheduler);
            top.items.retain(|item| is_asked(args, item.queue.unwrap_or_default()));
            let names = top.items.iter().flat_map(|item| called(item.queue.unwrap_or_default()));
            let names = names.collect();
            print(args, &top, &names, |wide| divvy_views::top_queues_table(&top, wide))
        }
    }
}

fn is_asked(args: &TopArgs, name: &str) -> bool {
    args.names.is_empty() || args.names.iter().any(|asked| asked == name)
}

fn not_there(args: &TopArgs, names: &[String]) -> String {
    let what = args.what.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
    let namespace =
        args.namespace.as_ref().map_or_else(String::new, |n| format!(" in namespace {n}"));
    let be = if names.len() == 1 { "is" } else { "are" };
    let names = names.join(", ");
    format!("{names} {be} not among the {what}{namespace}; `divvy top {what}` lists them")
}

/// What is said of an empty list that is only a part of all there is.
fn nothing_selected(args: &TopArgs) -> Option<String> {
    let namespace = args.namespace.as_ref().map(|name| format!(" in namespace {name}"));
    let selected = args.selector.as_ref().map(|_| " that -l selects".to_owned());
    let whose: Vec<String> = namespace.into_iter().chain(selected).collect();
    let (one, has) = match args.what {
        TopKind::Nodes => ("node", "is there"),
        TopKind::Cards => ("node", "has a card"),
        TopKind::Slices => ("node", "hands out slices of cards"),
        TopKind::Pods if args.output == ListFormat::Wide => ("pod", "holds anything"),
        TopKind::Pods => ("pod", "holds a GPU"),
        TopKind::Pending => ("pod", "waits"),
        TopKind::Queues => return None,
    };
    (!whose.is_empty()).then(|| format!("No {one}{} {has}.", whose.concat()))
}

/// The list as asked, of items with these names. What is asked by name has to be there.
fn print<T: Serialize>(
    args: &TopArgs,
    top: &T,
    names: &BTreeSet<String>,
    table: impl Fn(bool) -> Table,
) -> anyhow::Result<Listed> {
    if names.is_empty() && !args.names.is_empty() && !args.watch {
        bail!(not_there(args, &args.names));
    }
    let sorted = |wide: bool| -> anyhow::Result<Table> {
        let mut table = table(wide);
        if let Some(nothing) = nothing_selected(args) {
            table = table.or_say(nothing);
        }
        if let Some(column) = &args.sort_by {
            table.sort_by(column).map_err(|why| anyhow!("--sort-by: {why}"))?;
        }
        Ok(table)
    };
    let text = match args.output {
        ListFormat::Csv => sorted(true)?.csv(args.no_headers),
        ListFormat::Table => text(args, Format::Table, &sorted(false)?)?,
        ListFormat::Wide => text(args, Format::Wide, &sorted(true)?)?,
        ListFormat::Json => output::render(Format::Json, top, |_| String::new())?,
        ListFormat::Yaml => output::render(Format::Yaml, top, |_| String::new())?,
    };
    let missing = args.names.iter().filter(|name| !names.contains(*name)).cloned().collect();
    Ok(Listed { text, missing })
}

fn text(args: &TopArgs, format: Format, table: &Table) -> anyhow::Result<String> {
    output::render(format, &(), |mut options| {
        options.no_headers = args.no_headers;
        table.render(options)
    })
}

/// Prints the list again whenever it is another: over the old one on a terminal, below it and a
/// blank line in a pipe.
fn watch(args: &TopArgs, bar: &Bar) -> anyhow::Result<()> {
    let live = input::connect(&args.cluster)?;
    // Once by the usual way, which says what is wrong; from then on, what breaks is mended.
    let snapshot = live.read(&HOLDINGS, &args.cluster.plugin, bar)?;
    bar.finish();
    start_log();
    let is_terminal = std::io::stdout().is_terminal();
    let mut shown = String::new();
    live.follow(snapshot, |source| {
        let rehearsal = input::holdings(&args.cluster, source)?;
        let mut text = list(args, &rehearsal)?.text;
        if rehearsal.running.kai && is_table(args) {
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
