//! What the subcommands read: cluster, manifests and settings.

use crate::cli::{ClusterArgs, PlacementArgs, RehearsalArgs, StrategyArg};
use crate::output;
use crate::progress::Bar;
use anyhow::{Context, bail};
use divvy_engine::{Config, Strategy};
use divvy_sim::{Rehearsal, Setup, Source, read_sources};
use std::path::{Path, PathBuf};

/// A rehearsal with everything read and nothing placed. Warnings have been printed.
pub fn rehearsal(args: &RehearsalArgs, bar: &Bar) -> anyhow::Result<Rehearsal> {
    let config = config(&args.placement)?;
    let (cluster, workload) = read(args.cluster.cluster.as_deref(), &args.files)?;
    load(&Setup { cluster, workload, replicas: args.replicas, config, ..Setup::default() }, bar)
}

/// A cluster with nothing to place.
pub fn cluster(args: &ClusterArgs, bar: &Bar) -> anyhow::Result<Rehearsal> {
    let (cluster, _) = read(args.cluster.as_deref(), &[])?;
    load(&Setup { cluster, ..Setup::default() }, bar)
}

fn load(setup: &Setup, bar: &Bar) -> anyhow::Result<Rehearsal> {
    let rehearsal = Rehearsal::load(setup, bar)?;
    warn(&rehearsal.warnings);
    Ok(rehearsal)
}

fn read(
    cluster: Option<&Path>,
    files: &[PathBuf],
) -> anyhow::Result<(Option<Source>, Vec<Source>)> {
    // One list, so that standard input is not read twice.
    let paths = cluster.into_iter().chain(files.iter().map(PathBuf::as_path));
    let mut sources = read_sources(paths)?.into_iter();
    let Some(path) = cluster else { return Ok((None, sources.collect())) };
    if path.is_dir() {
        bail!("--cluster {}: give a file, not a folder", path.display());
    }
    Ok((sources.next(), sources.collect()))
}

/// The settings: the file's, overruled by the flags.
fn config(args: &PlacementArgs) -> anyhow::Result<Config> {
    let mut config = Config::default();
    if let Some(path) = &args.config {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --config {}", path.display()))?;
        config = divvy_words::config(&text).with_context(|| path.display().to_string())?;
    }
    if let Some(strategy) = args.strategy {
        config.node = strategy.into();
        config.card = strategy.into();
    }
    if let Some(strategy) = args.card_strategy {
        config.card = strategy.into();
    }
    Ok(config)
}

impl From<StrategyArg> for Strategy {
    fn from(strategy: StrategyArg) -> Self {
        match strategy {
            StrategyArg::Binpack => Self::Binpack,
            StrategyArg::Spread => Self::Spread,
        }
    }
}

const MOST_WARNINGS: usize = 20;

fn warn(warnings: &[String]) {
    for warning in warnings.iter().take(MOST_WARNINGS) {
        output::note(&format!("warning: {warning}"));
    }
    if warnings.len() > MOST_WARNINGS {
        let more = warnings.len() - MOST_WARNINGS;
        output::note(&format!("warning: and {more} more like these"));
    }
}
