//! `divvy report`

use crate::cli::{ClusterArgs, Format};
use crate::progress::Bar;
use crate::{DONE, input, output};
use anyhow::Context;
use clap::{Args, ValueEnum};
use divvy_cluster::snapshot::EVERYTHING;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy report                            of the cluster of your kubeconfig
  divvy report --output-file report.html  a page to hand on; it loads nothing
  divvy report --cluster now.yaml -o json
  divvy report --pool-label kai.scheduler/node-pool

How full the cards in use are, which are idle, what is free in pieces that nobody can use, which shares \
could together outgrow their card, slices by resource, what queues hold, and who waits since when.

Exit codes: 0 printed or saved, 1 bad input or no cluster.")]
pub struct ReportArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The label of nodes by which they are in pools [default: the model of their cards]
    #[arg(long, value_name = "LABEL")]
    pub pool_label: Option<String>,
    /// How to print the report [default: html if the name of --output-file ends in .html, json if in
    /// .json, else table]
    #[arg(short, long)]
    pub output: Option<ReportFormat>,
    /// Where to save it [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Tables for people
    Table,
    /// More columns, nothing cut short
    Wide,
    /// A page with the card map; it needs nothing else
    Html,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

pub fn run(args: &ReportArgs) -> anyhow::Result<u8> {
    let bar = Bar::new();
    let mut rehearsal = input::cluster(&args.cluster, &EVERYTHING, &bar)?;
    // Who waits is found by a pass, what is held is reported as it is.
    let now = output::now();
    let held = rehearsal.scheduler.clone();
    rehearsal.run(&bar);
    bar.finish();
    let others = rehearsal.others.iter().map(|(pod, scheduler)| (pod, &**scheduler));
    let pending = divvy_views::top_pending(&rehearsal.scheduler, &rehearsal.placed, others, now);
    let report = divvy_views::report(&held, pending, args.pool_label.as_deref(), now);
    let text = |options| divvy_views::report_text(&report, options);
    let file = args.output_file.as_deref().filter(|path| path.as_os_str() != "-");
    let extension = file.and_then(|path| path.extension()).and_then(|e| e.to_str());
    let rendered = match (args.output, extension) {
        (Some(ReportFormat::Html), _) | (None, Some("html")) => divvy_views::report_page(&report),
        (Some(ReportFormat::Json), _) | (None, Some("json")) => {
            output::render(Format::Json, &report, text)?
        }
        (Some(ReportFormat::Yaml), _) => output::render(Format::Yaml, &report, text)?,
        (Some(ReportFormat::Wide), _) => output::render(Format::Wide, &report, text)?,
        (Some(ReportFormat::Table) | None, _) => output::render(Format::Table, &report, text)?,
    };
    match file {
        None => output::write(&rendered)?,
        Some(path) => {
            std::fs::write(path, rendered)
                .with_context(|| format!("cannot write --output-file {}", path.display()))?;
            output::note(&format!("saved the report in {}", path.display()));
        }
    }
    Ok(DONE)
}
