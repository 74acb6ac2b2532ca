//! An explanation on the terminal: the answer first, then the nodes, then what to do.

use super::{Explanation, NearestFit, NodesByReason, State};
use crate::card_map::CardMap;
use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::wording::{Names, asked, clean, count, ranges};
use divvy_ledger::{Portion, Request};
use std::fmt::Write;

/// The explanation as text.
pub fn explanation_text(explanation: &Explanation<'_>, options: TextOptions) -> String {
    let painter = Painter::new(options.colour);
    let pod = format!("{}/{}", explanation.namespace, explanation.name);
    let pod = painter.paint(&clean(&pod), Tint::Strong);
    let mut out = match explanation.state {
        State::Placed => {
            let verb = if explanation.already_bound { "runs on" } else { "would go to" };
            format!("{pod} {verb} {}\n", place(explanation))
        }
        State::Pending => {
            let is_own = explanation.reasons.iter().all(|r| r.nodes.is_empty());
            let tint = if is_own { Tint::Bad } else { Tint::Waiting };
            let pending = painter.paint("pending", tint);
            format!("{pod} is {pending}: {}\n", reason(explanation))
        }
        State::UnknownNode => format!("{pod} is {}\n", reason(explanation)),
    };
    write_reasons(&mut out, &explanation.reasons, options);
    if let Some(nearest) = &explanation.nearest {
        out.push_str(&painter.paint("Nearest:", Tint::Strong));
        let _ = writeln!(out, " {}", clean(&nearest_line(nearest)));
    }
    if let Some(node) = &explanation.picture {
        let holders = node.cards.iter().flat_map(|card| &card.shares);
        let map = CardMap { names: Names::among(holders.map(|s| s.pod)), options };
        out.push_str(&map.cards(&node.cards));
    }
    if let Some(next) = &explanation.next {
        let _ = writeln!(out, "{} {}", painter.paint("Next:", Tint::Strong), clean(next));
    }
    out
}

fn reason(explanation: &Explanation<'_>) -> String {
    clean(explanation.reason.as_deref().unwrap_or_default()).into_owned()
}

/// `a100-1 card 4 (0.25, 20.0 GiB)`.
fn place(explanation: &Explanation<'_>) -> String {
    let node = clean(explanation.node.unwrap_or("-"));
    let cards = &explanation.cards;
    let what = match (explanation.request, cards.first()) {
        (None | Some(Request::None), _) => "no GPU".to_owned(),
        (Some(request @ Request::Share { portion: Portion::Fraction(_), .. }), Some(card))
            if card.bytes.bytes().is_some() =>
        {
            let each = if cards.len() > 1 { " each" } else { "" };
            format!("{request}, {}{each}", card.bytes)
        }
        (Some(request @ Request::Whole(_)), None) => format!("{request}, the card is not known"),
        (request, _) => asked(request, cards),
    };
    let noun = if cards.len() > 1 { "cards" } else { "card" };
    match cards.is_empty() {
        true => format!("{node} ({what})"),
        false => format!("{node} {noun} {} ({what})", ranges(cards.iter().map(|c| c.index))),
    }
}

fn write_reasons(out: &mut String, reasons: &[NodesByReason], options: TextOptions) {
    let rows: Vec<(String, String, &[String])> = reasons
        .iter()
        .filter(|r| !r.nodes.is_empty())
        .map(|r| (count(r.nodes.len(), "node"), clean(&r.message).into_owned(), &r.nodes[..]))
        .collect();
    let nodes = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let message = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or(0);
    for row in &rows {
        let start = format!("  {:<nodes$}  {:<message$}   ", row.0, row.1);
        out.push_str(&start);
        let room = options.width.saturating_sub(start.chars().count());
        let fits_all = options.wide || options.width == 0;
        out.push_str(&names(row.2, if fits_all { usize::MAX } else { room }));
        out.push('\n');
    }
}

/// As many names as fit, at least one, and how many are left out.
fn names(nodes: &[String], room: usize) -> String {
    let mut out = String::new();
    for (i, name) in nodes.iter().enumerate() {
        let left = nodes.len() - i;
        let name = clean(name);
        // Unless this is the last, there must be room to say how many follow.
        let tail = if left > 1 { format!(" +{} more", left - 1).len() } else { 0 };
        let end = out.chars().count() + usize::from(i > 0) + name.chars().count() + tail;
        if i > 0 && end > room {
            let _ = write!(out, " +{left} more");
            break;
        }
        if i > 0 {
            out.push(' ');
        }
        out.push_str(&name);
    }
    out
}

/// `a100-1 card 4 lacks 10.0 GiB. It is free when ml/notebook-a (20.0 GiB) ends.`
fn nearest_line(nearest: &NearestFit) -> String {
    let card = nearest.card.map_or_else(String::new, |card| format!(" card {card}"));
    let mut line = format!("{}{card} lacks {}.", nearest.node, nearest.missing);
    let holders: Vec<String> =
        nearest.holders.iter().map(|h| format!("{} ({})", h.pod, h.bytes)).collect();
    let Some((last, others)) = holders.split_last() else { return line };
    let (it, end) = (
        if nearest.plural { "They are" } else { "It is" },
        if others.is_empty() { "ends" } else { "end" },
    );
    let who = match others {
        [] => last.clone(),
        others => format!("{} and {last}", others.join(", ")),
    };
    let _ = write!(line, " {it} free when {who} {end}.");
    line
}
