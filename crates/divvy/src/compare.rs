//! `divvy simulate --compare`: the same twice, side by side.

use crate::cli::{RehearsalArgs, SimulateArgs, StrategyArg};
use crate::progress::Bar;
use crate::{DONE, PENDING, input, output};
use anyhow::ensure;
use clap::ValueEnum;
use divvy_sim::Rehearsal;
use divvy_views::{MorePods, Simulation};
use std::path::{Path, PathBuf};

pub fn run(args: &SimulateArgs, with: &str) -> anyhow::Result<u8> {
    let first = &args.rehearsal;
    let stdin =
        first.files.iter().chain(&first.cluster.cluster).any(|path| path.as_os_str() == "-");
    ensure!(!stdin, "--compare reads everything twice: give a file instead of -");
    let mut second = first.clone();
    let names = match StrategyArg::from_str(with, false) {
        Ok(strategy) => {
            second.placement.strategy = Some(strategy);
            second.placement.card_strategy = None;
            [strategy_of(first), with.to_owned()]
        }
        Err(_) => {
            let strategies = StrategyArg::value_variants().iter();
            let strategies = strategies.filter_map(StrategyArg::to_possible_value);
            let strategies: Vec<String> = strategies.map(|s| s.get_name().to_owned()).collect();
            ensure!(
                with == input::EMBEDDED || Path::new(with).exists(),
                "--compare {with}: there is no such file; allowed are {}, {} and the file of a cluster",
                strategies.join(", "),
                input::EMBEDDED
            );
            second.cluster.cluster = Some(PathBuf::from(with));
            second.from_cluster = false;
            [cluster_of(first), with.to_owned()]
        }
    };
    let (first, first_more) = rehearsed(first, args.fill, None)?;
    let (second, second_more) = rehearsed(&second, args.fill, Some(&first))?;
    let held = [&first, &second].map(|of| divvy_views::top_pods(&of.scheduler));
    let sides = [(&first, first_more), (&second, second_more)];
    let sides = sides.map(|(of, more)| {
        let simulation = divvy_views::simulation(&of.scheduler, &of.pods);
        Simulation { more, ..simulation }
    });
    let names = [&*names[0], &*names[1]];
    let compared = divvy_views::comparison(names, [&sides[0], &sides[1]], [&held[0], &held[1]]);
    output::print(args.output, &compared, |options| {
        divvy_views::comparison_text(&compared, options)
    })?;
    let is_pending = sides.iter().any(|side| side.summary.pending > 0);
    Ok(if is_pending { PENDING } else { DONE })
}

/// One side, and how many more of its workload would fit. What is odd is not told of both.
fn rehearsed(
    args: &RehearsalArgs,
    fill: Option<u32>,
    told: Option<&Rehearsal>,
) -> anyhow::Result<(Rehearsal, Option<Vec<MorePods>>)> {
    let bar = Bar::new();
    let mut rehearsal = input::rehearsal_beside(args, told, &bar)?.rehearsal;
    rehearsal.run(&bar);
    let more = fill.map(|most| output::more(&rehearsal.fill(most, &bar)));
    bar.finish();
    Ok((rehearsal, more))
}

/// What the first side is called if strategies are compared.
fn strategy_of(args: &RehearsalArgs) -> String {
    let given = args.placement.strategy.as_ref().and_then(StrategyArg::to_possible_value);
    match (given, &args.placement.config) {
        (Some(strategy), _) => strategy.get_name().to_owned(),
        (None, Some(config)) => config.display().to_string(),
        (None, None) => "binpack".to_owned(),
    }
}

/// The same if clusters are.
fn cluster_of(args: &RehearsalArgs) -> String {
    match &args.cluster.cluster {
        Some(path) => path.display().to_string(),
        None if args.from_cluster => "live".to_owned(),
        None => input::EMBEDDED.to_owned(),
    }
}
