//! A simulation on the terminal: what became of each pod, a map of the cards in use, the sums.

use crate::card_map::CardMap;
use crate::cards::NodeCards;
use crate::more::more_text;
use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::repartition::repartition_text;
use crate::simulation::{PodOutcome, Simulation};
use crate::slices::plural;
use crate::table::{Cell, Table};
use crate::totals::Totals;
use crate::wording::{Names, asked, clean, count, labels, thousands};
use divvy_ledger::Bytes;
use std::fmt::Write;

/// Rows that are still read; beyond it a table is a file.
const MOST_PODS: usize = 200;
/// Of those, so many are kept for pods that wait: they are what a reader looks for.
const MOST_PENDING: usize = 100;
/// Nodes on the map.
const MOST_NODES: usize = 40;

/// The simulation as text.
pub fn simulation_text(sim: &Simulation<'_>, options: TextOptions) -> String {
    let painter = Painter::new(options.colour);
    let mut out = String::new();
    let first = repartition_text(&sim.repartition, options);
    write_pods(&mut out, sim, options);
    write_map(&mut out, sim, options);
    paragraph(&mut out);
    let _ = writeln!(out, "{}", totals(sim));
    if let Some(more) = sim.more.as_ref().filter(|more| !more.is_empty()) {
        paragraph(&mut out);
        out.push_str(&more_text(more, options));
    }
    if let Some(pod) = sim.pods.iter().find(|p| p.node.is_none()) {
        let next = painter.paint("Next:", Tint::Strong);
        let name = clean(pod.name);
        let _ = writeln!(
            out,
            "{next} divvy explain pod {}/{name}   (with the same -f, --cluster and other options)",
            clean(pod.namespace)
        );
    }
    first + &out
}

/// An empty line, unless this is where the text begins.
fn paragraph(out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
}

pub(crate) fn write_pods(out: &mut String, sim: &Simulation<'_>, options: TextOptions) {
    let mut table = if options.wide {
        Table::new(&["POD", "NODE", "CARD", "ASKED", "BYTES", "STATUS", "REASONS"])
    } else {
        Table::new(&["POD", "NODE", "CARD", "ASKED", "STATUS"])
    };
    let most = if options.wide { usize::MAX } else { MOST_PODS };
    let (mut placed, mut pending) = quota(sim, most);
    for pod in &sim.pods {
        let left = if pod.node.is_some() { &mut placed } else { &mut pending };
        if *left > 0 {
            *left -= 1;
            table.push(row(pod, options.wide));
        }
    }
    if table.is_empty() {
        return;
    }
    out.push_str(&table.render(options));
    let hidden = sim.pods.len().saturating_sub(most);
    if hidden > 0 {
        let _ = writeln!(out, "... and {}: -o wide or -o json shows all", more(hidden, "pod"));
    }
}

/// How many placed and how many pending pods are shown.
fn quota(sim: &Simulation<'_>, most: usize) -> (usize, usize) {
    let (placed, pending) = (sim.summary.placed, sim.summary.pending);
    let waiting = pending.min(MOST_PENDING.max(most.saturating_sub(placed)));
    (placed.min(most - waiting.min(most)), waiting)
}

fn more(n: usize, noun: &str) -> String {
    count(n, &format!("more {noun}"))
}

fn row(pod: &PodOutcome<'_>, wide: bool) -> Vec<Cell> {
    let status = match &pod.reason {
        None => Cell::tinted("placed", Tint::Good),
        Some(reason) => {
            let is_own = pod.reasons.iter().all(|r| r.nodes == 0);
            let tint = if is_own { Tint::Bad } else { Tint::Waiting };
            Cell::tinted(&format!("pending: {reason}"), tint)
        }
    };
    let mut row = vec![
        pod.key.to_string().into(),
        pod.node.unwrap_or("-").into(),
        labels(pod.cards.iter().map(|c| (c.index, c.number))).into(),
        asked(pod.request, &pod.cards).into(),
    ];
    if wide {
        let bytes = pod.cards.first().and_then(|c| c.bytes.bytes());
        row.push(bytes.map_or_else(|| "-".into(), |bytes| bytes.to_string().into()));
    }
    row.push(status);
    if wide {
        row.push(reasons(pod).into());
    }
    row
}

fn reasons(pod: &PodOutcome<'_>) -> String {
    let nodes = pod.reasons.iter().filter(|r| r.nodes > 0);
    let nodes: Vec<String> =
        nodes.map(|r| format!("{}: {}", count(r.nodes, "node"), r.message)).collect();
    if nodes.is_empty() { "-".to_owned() } else { nodes.join("; ") }
}

fn write_map(out: &mut String, sim: &Simulation<'_>, options: TextOptions) {
    let holders = sim.nodes.iter().flat_map(NodeCards::holders);
    let map = CardMap { names: Names::among(holders), options };
    let most = if options.wide { usize::MAX } else { MOST_NODES };
    let (mut used, mut idle, mut idle_cards) = (0, 0, 0);
    for node in &sim.nodes {
        if !node.is_worth_a_look() {
            idle += 1;
            idle_cards += node.cards.iter().filter(|card| card.slices.is_none()).count();
            continue;
        }
        used += 1;
        if used <= most {
            paragraph(out);
            out.push_str(&map.node(node));
        }
    }
    if used > most {
        let hidden = more(used - most, "node");
        paragraph(out);
        let _ = writeln!(out, "... and {hidden} with cards in use: -o wide or -o json shows all");
    }
    if idle > 0 {
        let nodes = if used > 0 { more(idle, "node") } else { count(idle, "node") };
        let have = if idle == 1 { "has" } else { "have" };
        let cards = match idle_cards {
            0 => String::new(),
            n => format!(" ({})", count(n, "free card")),
        };
        paragraph(out);
        let _ = writeln!(out, "{nodes} {have} no card in use{cards}");
    }
}

/// All in one line.
pub(crate) fn totals(sim: &Simulation<'_>) -> String {
    let sum = &sim.summary;
    let n = |n: usize| thousands(n as u128);
    let pods = count(sim.pods.len(), "pod");
    let mut line = format!("{} of {pods} placed", n(sum.placed));
    if sum.pending > 0 {
        let _ = write!(line, ", {} pending", n(sum.pending));
    }
    format!("{line}. {}", cards_line(sim))
}

/// The part of it that is about cards.
pub(crate) fn cards_line(sim: &Simulation<'_>) -> String {
    let sum = &sim.summary;
    let gib = |bytes: u128| thousands(bytes >> 30);
    let cards_in_use = thousands(sum.cards_in_use as u128);
    let mut line = format!("{cards_in_use} of {} in use", count(sum.cards, "card"));
    let Totals { capacity_bytes, held_bytes, stranded_bytes, .. } = sum.totals;
    if capacity_bytes > 0 {
        let (used, all) = (gib(held_bytes), gib(capacity_bytes));
        let _ = write!(line, ", {used} of {all} GiB allocated");
    }
    if stranded_bytes > 0 {
        let _ = write!(line, ", {} stranded on shared cards", stranded(stranded_bytes));
    }
    if sum.totals.slices > 0 {
        let (taken, all) = (sum.totals.slices_taken, sum.totals.slices);
        let (taken, all) = (thousands(taken.into()), thousands(all.into()));
        let _ = write!(line, ", {taken} of {all} {} taken", slices_of(sim));
    }
    line.push('.');
    line
}

/// `time slices` if they are all of one kind.
fn slices_of(sim: &Simulation<'_>) -> &'static str {
    let mut kinds = sim.nodes.iter().flat_map(|node| &node.slices).map(|slices| slices.by);
    match kinds.next() {
        Some(first) if kinds.all(|by| by == first) => plural(first),
        _ => "slices",
    }
}

/// In the unit of what stands beside it, unless it would then be 0.
fn stranded(bytes: u128) -> String {
    match (bytes * 10) >> 30 {
        0 => Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)).to_string(),
        tenths => format!("{}.{} GiB", thousands(tenths / 10), tenths % 10),
    }
}

#[cfg(test)]
mod tests;
