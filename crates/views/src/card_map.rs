//! The cards of a node as lines of bars.

use crate::bar::{CELLS, bar, degree, legend};
use crate::cards::{CardUse, CardUseState, NodeCards};
use crate::model::short_model;
use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::wording::{Names, clean, count, cut_middle, labels};

/// Where there is less behind a bar, its legend goes on below it.
const ROOM: usize = 32;
/// Of a name so much is always shown.
const LEAST_NAME: usize = 16;

/// How a map is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CardMap {
    pub(crate) names: Names,
    pub(crate) options: TextOptions,
}

impl CardMap {
    fn painter(self) -> Painter {
        Painter::new(self.options.colour)
    }

    /// The node's heading, and a line for each run of equal cards, or for each kind of slices if it
    /// is not known which card they are on.
    pub(crate) fn node(self, node: &NodeCards<'_>) -> String {
        let (name, hardware) = (clean(node.name), hardware(node));
        let room = self.options.width.saturating_sub(2 + hardware.chars().count()).max(LEAST_NAME);
        let name = if self.options.cuts() { cut_middle(&name, room) } else { name };
        let name = self.painter().paint(&name, Tint::Strong);
        let is_told = |card: &&CardUse<'_>| {
            card.slices.is_none_or(|slices| slices.taken.is_some()) && !card.shares.is_empty()
        };
        let told: Vec<CardUse<'_>> = node
            .cards
            .iter()
            .filter(|card| card.slices.is_none() || is_told(card))
            .cloned()
            .collect();
        let cards = self.cards(&told);
        let slices = if told.iter().any(|card| card.slices.is_some()) {
            String::new()
        } else {
            self.slices(node)
        };
        format!("{name}  {hardware}\n{cards}{slices}")
    }

    /// A line for each kind of slices.
    fn slices(self, node: &NodeCards<'_>) -> String {
        let width = node.slices.iter().map(|slices| slices.short().len()).max().unwrap_or(0);
        let mut out = String::new();
        for slices in &node.slices {
            let (bar, legend) = slices.drawn(self.painter(), self.names, self.options.wide);
            let degree = slices.summary();
            out.push_str(&format!("  {:<width$}  {bar}  {degree}", slices.short()));
            self.write_legend(&mut out, legend, (2 + width + 2, CELLS + 2 + degree.len()));
            out.push('\n');
        }
        out
    }

    /// A line for each run of equal cards.
    pub(crate) fn cards(self, cards: &[CardUse<'_>]) -> String {
        let runs: Vec<&[CardUse<'_>]> = cards.chunk_by(is_same_line).collect();
        let labels: Vec<String> = runs
            .iter()
            .map(|run| labels(run.iter().map(|card| (card.index, card.number))))
            .collect();
        let width = labels.iter().map(String::len).max().unwrap_or(0);
        let mut out = String::new();
        for (run, label) in runs.iter().zip(&labels) {
            let Some(card) = run.first() else { continue };
            let (bar, degree) = (bar(card, self.painter()), degree(card));
            let line = format!("  {label:<width$}  {bar}  {degree}");
            out.push_str(&line);
            // "  4    aaaaabbbbb··········   50 %   ": what stands before the legend.
            let legend = legend(card, self.names, self.options.wide);
            self.write_legend(&mut out, legend, (2 + width + 2, CELLS + 2 + degree.len()));
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out
    }

    /// Breaks the legend between entries where the terminal ends. It stands behind the bar, which begins
    /// at a column and is so long; what does not fit there stands below, where there is room for it.
    fn write_legend(
        self,
        out: &mut String,
        legend: Vec<(String, Option<Tint>)>,
        (bar, length): (usize, usize),
    ) {
        const GAP: usize = 3;
        let width = self.options.map_width();
        let mut column = bar + length;
        let below = if column + ROOM > width { bar.saturating_sub(GAP) } else { column };
        let room = width.saturating_sub(below + GAP).max(LEAST_NAME);
        for (text, tint) in legend {
            let text = if self.options.cuts() { cut_middle(&text, room) } else { text.into() };
            let length = text.chars().count();
            if column + GAP + length > width && column > below {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', below));
                column = below;
            }
            out.extend(std::iter::repeat_n(' ', GAP));
            column += GAP + length;
            // The letter has its colour; what it stands for stays readable.
            match (tint, text.split_once(' ')) {
                (Some(tint), Some((letter, rest))) => {
                    out.push_str(&self.painter().paint(letter, tint));
                    out.push(' ');
                    out.push_str(rest);
                }
                _ => out.push_str(&text),
            }
        }
    }
}

/// Free cards in a row make one line; so do whole cards of one pod.
fn is_same_line(a: &CardUse<'_>, b: &CardUse<'_>) -> bool {
    let adjacent = a.index.checked_add(1) == Some(b.index);
    let same_holder = || a.shares.first().map(|s| s.pod) == b.shares.first().map(|s| s.pod);
    adjacent
        && a.overbooked == b.overbooked
        && match (a.state, b.state) {
            (CardUseState::Free, CardUseState::Free) => !a.overbooked,
            (CardUseState::Whole, CardUseState::Whole) => same_holder(),
            _ => false,
        }
}

/// `8 x A100-80GB (80.0 GiB each)`.
pub(crate) fn hardware(node: &NodeCards<'_>) -> String {
    let Some(card) = node.cards.first() else {
        let model = node.model.filter(|_| !node.slices.is_empty());
        return model.map_or_else(|| "no GPU".to_owned(), |m| clean(&short_model(m)).into_owned());
    };
    let cards = match node.model {
        Some(model) => format!("{} x {}", node.cards.len(), clean(&short_model(model))),
        None => count(node.cards.len(), "card"),
    };
    match card.capacity.bytes() {
        Some(_) => format!("{cards} ({} each)", card.capacity),
        None => format!("{cards} (memory unknown, in parts of a card)"),
    }
}
