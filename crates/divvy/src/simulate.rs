//! `divvy simulate`

use crate::cli::{Format, SimulateArgs};
use crate::progress::Bar;
use crate::{DONE, PENDING, compare, input, output};
use anyhow::{Context, bail, ensure};
use divvy_sim::{EMBEDDED_CLUSTER, Progress, Rehearsal};
use std::collections::BTreeMap;

pub fn run(args: &SimulateArgs) -> anyhow::Result<u8> {
    if args.print_cluster {
        output::write(EMBEDDED_CLUSTER)?;
        return Ok(DONE);
    }
    let has_cluster = args.rehearsal.cluster.cluster.is_some()
        || args.rehearsal.from_cluster
        || !args.rehearsal.drain.is_empty()
        || !args.rehearsal.remove_node.is_empty();
    if !args.rehearsal.has_workload() && !has_cluster {
        bail!(
            "nothing to place: give manifests with -f FILE (a folder or - work too), or --demo \
             to try it with examples"
        );
    }
    ensure!(
        args.fill.is_none() || args.rehearsal.has_workload(),
        "--fill counts more of what is given with -f, -k or --demo, and nothing is"
    );
    if let Some(with) = &args.compare {
        return compare::run(args, with);
    }
    let bar = Bar::new();
    let mut rehearsal = input::rehearsal(&args.rehearsal, false, &bar)?.rehearsal;
    rehearsal.run(&bar);
    let more = args.fill.map(|most| rehearsal.fill(most, &bar));
    bar.begin("explaining", 0);
    let mut simulation = divvy_views::simulation(&rehearsal.scheduler, &rehearsal.pods);
    simulation.repartition = output::repartition(&rehearsal);
    simulation.more = more.map(|more| output::more(&more));
    bar.begin("printing", 0);
    bar.finish();
    if let Some(path) = &args.svg {
        ensure!(path.as_os_str() != "-", "--svg -: give the name of a file");
        let picture = divvy_views::card_map_svg(&simulation);
        std::fs::write(path, picture)
            .with_context(|| format!("cannot write --svg {}", path.display()))?;
    }
    let ignored = ignored_line(&rehearsal.ignored);
    output::print(args.output, &simulation, |options| {
        let text = divvy_views::simulation_text(&simulation, options);
        ignored
            .as_ref()
            .map_or_else(|| text.clone(), |line| format!("{}\n{line}\n", text.trim_end()))
    })?;
    if let Some(line) = ignored.filter(|_| matches!(args.output, Format::Json | Format::Yaml)) {
        output::note(&line);
    }
    note_others(&rehearsal);
    if args.timings {
        bar.print_timings();
    }
    Ok(if simulation.summary.pending == 0 { DONE } else { PENDING })
}

/// Pending pods of the cluster that were not placed, because they wait for another scheduler.
fn note_others(rehearsal: &Rehearsal) {
    let mut pending: BTreeMap<&str, usize> = BTreeMap::new();
    for (pod, scheduler) in &rehearsal.others {
        if rehearsal.scheduler.holding(pod).is_none() {
            *pending.entry(scheduler).or_default() += 1;
        }
    }
    for (scheduler, pods) in pending {
        output::note(&format!("note: left to {scheduler}: {pods} of the pending pods"));
    }
}

fn ignored_line(ignored: &BTreeMap<String, usize>) -> Option<String> {
    let kinds: Vec<String> =
        ignored.iter().map(|(kind, n)| format!("{n} {}", divvy_views::clean(kind))).collect();
    (!kinds.is_empty())
        .then(|| format!("Not placed, as divvy makes no pods of them: {}.", kinds.join(", ")))
}
