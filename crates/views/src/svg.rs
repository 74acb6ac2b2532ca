//! The card map as a picture: self-contained SVG, one row a node, one vessel a card.

mod card;
mod label;
mod legend;
mod palette;

use crate::card_map::hardware;
use crate::cards::{CardUse, NodeCards};
use crate::simulate_text::{cards_line, totals};
use crate::simulation::Simulation;
use crate::slices::{SliceHolder, SliceUse};
use crate::wording::{Names, count};
use crate::xml;
use card::{CardStyle, HEAD, HEIGHT};
use label::Type;
use palette::{EDGE, EMPTY, INK, LINE, MUTED, PAGE, Palette, WARN};
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
pub fn card_map_svg(sim: &Simulation<'_>) -> String {
    let used = |node: &&NodeCards<'_>| node.is_worth_a_look();
    let in_use: Vec<&NodeCards<'_>> = sim.nodes.iter().filter(used).collect();
    let shown = &in_use[..in_use.len().min(MOST_NODES)];
    let most_cards = shown.iter().map(|node| cards(node).count()).max().unwrap_or(0);
    let columns = most_cards.clamp(FEWEST_COLUMNS, MOST_COLUMNS);
    let room = WIDTH - 2.0 * MARGIN - GUTTER;
    let holders = sim.nodes.iter().flat_map(NodeCards::holders);
    let look = CardStyle {
        palette: Palette::of(sim),
        names: Names::among(holders),
        width: (room + GAP) / columns as f64 - GAP,
    };

    let mut body = String::new();
    let any_overbooked = shown.iter().flat_map(|node| &node.cards).any(|card| card.overbooked);
    let line = if sim.pods.is_empty() { cards_line(sim) } else { totals(sim) };
    let mut y = legend::header(&mut body, &line, any_overbooked);
    for node in shown {
        y = row(&mut body, &look, node, columns, y);
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
    let font = Type::bold(14.0);
    let name = font.two_lines(node.name, room);
    let (name, more) = name.unwrap_or_else(|| (font.fit(node.name, room), String::new()));
    let (top, below) = if more.is_empty() { (y + 38.0, 0.0) } else { (y + 30.0, 16.0) };
    let _ = writeln!(
        out,
        "<line x1=\"{MARGIN}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{EDGE}\" \
         stroke-opacity=\"0.6\"/>\n\
         <g><title>{}</title><text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"14\" \
         font-weight=\"600\" fill=\"{INK}\">{name}</text>",
        WIDTH - MARGIN,
        escape(node.name),
        top
    );
    if !more.is_empty() {
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"14\" font-weight=\"600\" \
             fill=\"{INK}\">{more}</text>",
            top + below
        );
    }
    for (i, line) in lines.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"12\" fill=\"{MUTED}\">{}</text>",
            top + below + 18.0 + 16.0 * i as f64,
            Type::plain(12.0).fit(line, room)
        );
    }
    out.push_str("</g>\n");
}

/// The cards that are drawn: those behind slices only where somebody says what is on each.
fn cards<'n, 'a>(node: &'n NodeCards<'a>) -> impl Iterator<Item = &'n CardUse<'a>> {
    node.cards.iter().filter(|card| card.slices.is_none_or(|slices| slices.taken.is_some()))
}

fn row(
    out: &mut String,
    look: &CardStyle<'_>,
    node: &NodeCards<'_>,
    columns: usize,
    y: f64,
) -> f64 {
    let hardware = hardware(node);
    let (what, size) = hardware.split_once(" (").unwrap_or((&hardware, ""));
    let size = size.trim_end_matches(')');
    gutter(out, node, [what, size.split(',').next().unwrap_or_default()], y);
    let mut top = y + 6.0;
    let line = HEAD + HEIGHT + GAP;
    let (mut count, mut any_told) = (0, false);
    for (i, card) in cards(node).enumerate() {
        let x = MARGIN + GUTTER + (i % columns) as f64 * (look.width + GAP);
        look.card(out, card, x, top + (i / columns) as f64 * line);
        count = i + 1;
        any_told |= card.slices.is_some();
    }
    top += count.div_ceil(columns) as f64 * line + 6.0;
    if !any_told {
        for slices in &node.slices {
            top = strip(out, look, slices, top);
        }
    }
    top.max(y + 80.0)
}

/// The slices of one kind: a strip with a field for each, in the colour of the pod that holds it.
fn strip(out: &mut String, look: &CardStyle<'_>, slices: &SliceUse<'_>, y: f64) -> f64 {
    let (left, room) = (MARGIN + GUTTER, WIDTH - 2.0 * MARGIN - GUTTER);
    let each = room / f64::from(slices.total.max(slices.taken).max(1));
    let _ = writeln!(
        out,
        "<text x=\"{left}\" y=\"{:.1}\" font-size=\"12\" fill=\"{MUTED}\">{}</text>\
         <rect x=\"{left}\" y=\"{:.1}\" width=\"{room:.1}\" height=\"24\" rx=\"4\" \
         fill=\"{EMPTY}\" stroke=\"{EDGE}\"/>",
        y + 14.0,
        escape(&format!("{}: {}", slices.short(), slices.summary())),
        y + 20.0,
    );
    let mut x = left;
    for SliceHolder { pod, count } in &slices.pods {
        let width = each * f64::from(*count);
        let name = Type::plain(11.0)
            .first_that_fits(&[&look.names.of(pod), &Names::Short.of(pod)], width - 6.0);
        let _ = writeln!(
            out,
            "<g><title>{}: {count} of {}</title><rect x=\"{x:.1}\" y=\"{:.1}\" \
             width=\"{width:.1}\" height=\"24\" fill=\"{}\" stroke=\"{PAGE}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"{INK}\">{name}</text></g>",
            escape(&pod.to_string()),
            escape(&slices.resource),
            y + 20.0,
            look.palette.colour(pod),
            x + 4.0,
            y + 36.0,
        );
        x += width;
    }
    y + 56.0
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
