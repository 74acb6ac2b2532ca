//! The card map as a picture: self-contained SVG, one row a node, one vessel a card.

mod card;
mod label;
mod legend;
mod palette;
mod xml;

use crate::card_map::hardware;
use crate::cards::{NodeCards, replicas_of};
use crate::model::short_model;
use crate::simulate_text::totals;
use crate::simulation::Simulation;
use crate::wording::{Names, count};
use card::{HEAD, HEIGHT, Look};
use divvy_engine::Scheduler;
use label::Type;
use palette::{EDGE, EMPTY, INK, LINE, MUTED, NEUTRAL_DARK, PAGE, Palette, WARN};
use std::fmt::Write;
use xml::escape;

const WIDTH: f64 = 1180.0;
const MARGIN: f64 = 28.0;
/// Left of the cards, for the node's name.
const GUTTER: f64 = 170.0;
const GAP: f64 = 10.0;
/// Cards side by side; a node with more has them in several lines.
const MOST_COLUMNS: usize = 8;
const FEWEST_COLUMNS: usize = 4;
/// Beyond these, a picture is no longer looked at.
const MOST_NODES: usize = 40;
const MOST_PENDING: usize = 6;

/// The map of all cards in use.
pub fn card_map_svg(sim: &Simulation<'_>, scheduler: &Scheduler) -> String {
    let used = |node: &&NodeCards<'_>| {
        node.is_worth_a_look()
            || replicas_of(scheduler, node.name).is_some_and(|(taken, _)| taken > 0)
    };
    let in_use: Vec<&NodeCards<'_>> = sim.nodes.iter().filter(used).collect();
    let shown = &in_use[..in_use.len().min(MOST_NODES)];
    let most_cards = shown.iter().map(|node| node.cards.len()).max().unwrap_or(0);
    let columns = most_cards.clamp(FEWEST_COLUMNS, MOST_COLUMNS);
    let room = WIDTH - 2.0 * MARGIN - GUTTER;
    let holders = sim.nodes.iter().flat_map(|node| &node.cards).flat_map(|card| &card.shares);
    let look = Look {
        palette: Palette::of(sim),
        names: Names::among(holders.map(|share| share.pod)),
        width: (room + GAP) / columns as f64 - GAP,
    };

    let mut body = String::new();
    let any_overbooked = shown.iter().flat_map(|node| &node.cards).any(|card| card.overbooked);
    let mut y = legend::header(&mut body, &totals(sim, scheduler), any_overbooked);
    for node in shown {
        y = match replicas_of(scheduler, node.name) {
            Some(replicas) if node.cards.is_empty() => replica_row(&mut body, node, replicas, y),
            _ => card_row(&mut body, &look, node, columns, y),
        };
    }
    y = notes(&mut body, sim, in_use.len(), y);
    page(&body, look.width, y + MARGIN - 8.0)
}

fn page(body: &str, card_width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"divvy card map\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif\">\n\
         <defs>\n\
         <clipPath id=\"card\"><rect width=\"{card_width:.1}\" height=\"{HEIGHT}\" rx=\"8\"/></clipPath>\n\
         <pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"{EMPTY}\"/>\
         <rect width=\"2\" height=\"6\" fill=\"{LINE}\" fill-opacity=\"0.6\"/></pattern>\n\
         </defs>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"12\" fill=\"{PAGE}\" \
         stroke=\"{EDGE}\"/>\n{body}</svg>\n",
        WIDTH - 1.0,
        height - 1.0
    )
}

fn gutter(out: &mut String, node: &NodeCards<'_>, lines: [&str; 2], y: f64) {
    let room = GUTTER - 12.0;
    let _ = writeln!(
        out,
        "<line x1=\"{MARGIN}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{EDGE}\" \
         stroke-opacity=\"0.6\"/>\n\
         <g><title>{}</title><text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"14\" \
         font-weight=\"600\" fill=\"{INK}\">{}</text>",
        WIDTH - MARGIN,
        escape(node.name),
        y + 38.0,
        Type::bold(14.0).fit(node.name, room)
    );
    for (i, line) in lines.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"12\" fill=\"{MUTED}\">{}</text>",
            y + 56.0 + 16.0 * i as f64,
            Type::plain(12.0).fit(line, room)
        );
    }
    out.push_str("</g>\n");
}

fn card_row(
    out: &mut String,
    look: &Look<'_>,
    node: &NodeCards<'_>,
    columns: usize,
    y: f64,
) -> f64 {
    let hardware = hardware(node);
    let (what, size) = hardware.split_once(" (").unwrap_or((&hardware, ""));
    let size = size.trim_end_matches(')');
    gutter(out, node, [what, size.split(',').next().unwrap_or_default()], y);
    let top = y + 6.0;
    let line = HEAD + HEIGHT + GAP;
    for (i, card) in node.cards.iter().enumerate() {
        let x = MARGIN + GUTTER + (i % columns) as f64 * (look.width + GAP);
        look.card(out, card, x, top + (i / columns) as f64 * line);
    }
    top + node.cards.len().div_ceil(columns) as f64 * line + 6.0
}

fn replica_row(out: &mut String, node: &NodeCards<'_>, (taken, total): (u64, u64), y: f64) -> f64 {
    let model = node.model.map_or_else(|| "GPU replicas".to_owned(), short_model);
    gutter(out, node, [&model, ""], y);
    let (x, room) = (MARGIN + GUTTER, WIDTH - 2.0 * MARGIN - GUTTER);
    let held = room * taken as f64 / total.max(1) as f64;
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{top:.1}\" width=\"{room:.1}\" height=\"24\" rx=\"6\" \
         fill=\"{EMPTY}\" stroke=\"{EDGE}\"/>\
         <rect x=\"{x}\" y=\"{top:.1}\" width=\"{held:.1}\" height=\"24\" rx=\"6\" \
         fill=\"{}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"12\" fill=\"{INK}\">\
         {taken} of {total} replicas taken</text>",
        NEUTRAL_DARK,
        x + 10.0,
        y + 44.0,
        top = y + 28.0,
    );
    y + 80.0
}

/// What the rows do not show: more nodes, and pods that wait.
fn notes(out: &mut String, sim: &Simulation<'_>, in_use: usize, mut y: f64) -> f64 {
    let mut line = |text: &str, colour: &str, y: f64| {
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{y:.1}\" font-size=\"13\" fill=\"{colour}\">{}</text>",
            Type::plain(13.0).fit(text, WIDTH - 2.0 * MARGIN)
        );
    };
    let more = in_use.saturating_sub(MOST_NODES);
    let idle = sim.nodes.len() - in_use;
    let mut texts = Vec::new();
    if more > 0 {
        texts.push((format!("{} with cards in use", count(more, "more node")), MUTED));
    }
    if idle > 0 {
        texts.push((format!("{} without a card in use", count(idle, "node")), MUTED));
    }
    let pending = sim.pods.iter().filter(|pod| pod.node.is_none());
    for pod in pending.take(MOST_PENDING) {
        let reason = pod.reason.as_deref().unwrap_or_default();
        texts.push((format!("pending  {}: {reason}", pod.key), WARN));
    }
    let unsaid = sim.summary.pending.saturating_sub(MOST_PENDING);
    if unsaid > 0 {
        texts.push((format!("{} pending", count(unsaid, "more pod")), WARN));
    }
    y += 6.0;
    for (text, colour) in texts {
        y += 20.0;
        line(&text, colour, y);
    }
    y
}

#[cfg(test)]
mod tests;
