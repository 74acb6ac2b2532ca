//! An explanation on the terminal: the answer first, then the nodes, then what to do.

use super::{ExplainedState, Explanation, NearestFit, NodesByReason};
use crate::card_map::CardMap;
use crate::cards::{CardUse, NodeCards};
use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::repartition::repartition_text;
use crate::wording::{Names, asked, clean, count, in_other_words, labels};
use std::fmt::Write;

/// The explanation as text.
pub fn explanation_text(explanation: &Explanation<'_>, options: TextOptions) -> String {
    let painter = Painter::new(options.colour);
    let pod = format!("{}/{}", explanation.namespace, explanation.name);
    let pod = painter.paint(&clean(&pod), Tint::Strong);
    let mut out = match explanation.state {
        ExplainedState::Placed => {
            let verb = match (explanation.already_bound, explanation.terminating) {
                (_, true) => "is terminating, and until it has ended holds",
                (true, false) => "runs on",
                (false, false) => "would go to",
            };
            let by = match &explanation.scheduler {
                Some(scheduler) => format!(", placed by {}", clean(scheduler)),
                None => String::new(),
            };
            format!("{pod} {verb} {}{by}\n", place(explanation))
        }
        ExplainedState::Pending => {
            let is_own = explanation.reasons.iter().all(|r| r.nodes == 0);
            let tint = if is_own { Tint::Bad } else { Tint::Waiting };
            let pending = painter.paint("pending", tint);
            format!("{pod} is {pending}: {}\n", message(explanation))
        }
        ExplainedState::UnknownNode | ExplainedState::OtherScheduler => {
            format!("{pod} is {}\n", message(explanation))
        }
    };
    write_reasons(&mut out, &explanation.reasons, options);
    if let Some(nearest) = &explanation.nearest {
        out.push_str(&painter.paint("Nearest:", Tint::Strong));
        let _ = writeln!(out, " {}", clean(&nearest_line(nearest, explanation.picture.as_ref())));
    }
    if let Some(node) = &explanation.picture {
        write_picture(&mut out, node, &explanation.pictured, options);
    }
    if let Some(line) = placed_first(explanation, options) {
        let _ = writeln!(out, "{} {line}", painter.paint("Before it:", Tint::Strong));
    }
    if let Some(note) = &explanation.note {
        let note = clean(note);
        let _ = writeln!(out, "{} {note}", painter.paint("Note:", Tint::Strong));
    }
    if let Some(next) = &explanation.next {
        let _ = writeln!(out, "{} {}", painter.paint("Next:", Tint::Strong), clean(next));
    }
    repartition_text(&explanation.repartition, options) + &out
}

/// The other pods that waited and were given a place first.
fn placed_first(explanation: &Explanation<'_>, options: TextOptions) -> Option<String> {
    let pods = &explanation.placed_first;
    if pods.is_empty() {
        return None;
    }
    let others = count(pods.len(), "other pending pod");
    let start = format!("{others}, by priority, age and name: ");
    let room = options.list_width().saturating_sub("Before it: ".len() + start.chars().count());
    Some(start + &names(pods, room))
}

/// The cards in question; wide shows all cards of the node.
fn write_picture(out: &mut String, node: &NodeCards<'_>, cards: &[u32], options: TextOptions) {
    let is_shown = |card: &&CardUse<'_>| options.wide || cards.contains(&card.index);
    let shown: Vec<CardUse<'_>> = node.cards.iter().filter(is_shown).cloned().collect();
    let holders = shown.iter().flat_map(|card| &card.shares);
    let map = CardMap { names: Names::among(holders.map(|s| s.pod)), options };
    match (options.wide, shown.is_empty()) {
        (_, true) => {}
        (true, false) => out.push_str(&map.node(node)),
        (false, false) => out.push_str(&map.cards(&shown)),
    }
}

fn message(explanation: &Explanation<'_>) -> String {
    clean(explanation.message.as_deref().unwrap_or_default()).into_owned()
}

/// `a100-1 card 4 (0.25, 20.0 GiB)`.
fn place(explanation: &Explanation<'_>) -> String {
    let node = clean(explanation.node.unwrap_or("-"));
    let cards = &explanation.cards;
    let words = explanation.request.and_then(|request| in_other_words(request, cards));
    let what = match (explanation.request, words) {
        (None, _) => "no GPU".to_owned(),
        (Some(request), _) if request.is_none() => "no GPU".to_owned(),
        (Some(request), Some(same)) => format!("{request}, {same}"),
        (Some(request), None) if explanation.slices.is_some() => {
            format!("{request}: {}", explanation.slices.as_deref().unwrap_or_default())
        }
        (Some(request), None) if cards.is_empty() && request.whole_cards() > 0 => {
            format!("{request}, the card is not known")
        }
        (request, None) => asked(request, cards),
    };
    let noun = if cards.len() > 1 { "cards" } else { "card" };
    match cards.is_empty() {
        true => format!("{node} ({what})"),
        false => {
            format!("{node} {noun} {} ({what})", labels(cards.iter().map(|c| (c.index, c.number))))
        }
    }
}

/// How many nodes, why, and which; wide has the stable name of the reason and all nodes.
fn write_reasons(out: &mut String, reasons: &[NodesByReason], options: TextOptions) {
    let rows: Vec<([String; 3], &[String])> = reasons
        .iter()
        .filter(|r| r.nodes > 0)
        .map(|r| {
            let name = if options.wide { format!("{}  ", r.reason) } else { String::new() };
            ([count(r.nodes, "node"), name, clean(&r.message).into_owned()], &r.node_names[..])
        })
        .collect();
    let width = |i: usize| rows.iter().map(|row| row.0[i].chars().count()).max().unwrap_or(0);
    let (nodes, name, message) = (width(0), width(1), width(2));
    for (cells, node_names) in &rows {
        let mut start =
            format!("  {:<nodes$}  {:<name$}{:<message$}   ", cells[0], cells[1], cells[2]);
        let mut column = start.chars().count();
        let first = node_names.first().map_or(0, |name| name.chars().count());
        if options.cuts() && column + first > options.width {
            // Below it, where the sentences begin.
            column = 2 + nodes + 2;
            start = format!("{}\n{:column$}", start.trim_end(), "");
        }
        out.push_str(&start);
        out.push_str(&names(node_names, options.list_width().saturating_sub(column)));
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
fn nearest_line(nearest: &NearestFit, node: Option<&NodeCards<'_>>) -> String {
    let cards = node.map_or(&[][..], |node| &node.cards);
    let card = cards.iter().find(|card| nearest.card == Some(card.index));
    let card = card.map_or_else(String::new, |card| format!(" card {}", card.label()));
    let mut line = format!("{}{card} lacks {}.", nearest.node, nearest.missing);
    let holders: Vec<String> =
        nearest.holders.iter().map(|h| format!("{} ({})", h.pod, h.amount)).collect();
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
