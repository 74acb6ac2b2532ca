//! The report on the terminal: the answer first, then its parts, each a table with a heading.

use super::{Report, ReportCard, ReportPart, ReportTotals};
use crate::API_VERSION;
use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::simulate_text::cards_line;
use crate::table::{Cell, Table};
use crate::top::{TopPending, TopQueues, top_pending_table, top_queues_table};
use crate::wording::{count, gib_of, labels, used_of};

/// A part of the report, under a heading that says what it is.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// What the numbers mean, or what to do.
    pub(super) about: &'static str,
    pub(super) table: Table,
}

/// The report as text.
pub fn report_text(report: &Report<'_>, options: TextOptions) -> String {
    let painter = Painter::new(options.colour);
    let mut out = headline(report) + "\n";
    for section in sections(report, options.wide) {
        let title = painter.paint(section.title, Tint::Strong);
        out.push_str(&format!("\n{title}: {}\n", section.about));
        out.push_str(&section.table.render(options));
    }
    out
}

/// All in a few sentences.
pub(super) fn headline(report: &Report<'_>) -> String {
    let packing = report
        .summary
        .packing_ratio
        .map_or_else(String::new, |ratio| format!(" Cards in use are {} full.", percent(ratio)));
    let waiting = count(report.pending.len(), "pod");
    format!("{}{packing} {waiting} pending.", cards_line(&report.map))
}

pub(super) fn sections(report: &Report<'_>, wide: bool) -> Vec<Section> {
    let mut sections = vec![
        Section {
            title: "Pools",
            about: "PACKING is how full cards in use are; FRAGMENTED is free on shared cards, STRANDED that of \
                    it which no known share can have",
            table: parts("POOL", &report.node_pools).or_say("No node has GPUs."),
        },
        Section {
            title: "Nodes",
            about: "the same by node",
            table: parts("NODE", &report.nodes).or_say("No node has GPUs."),
        },
    ];
    if !report.idle_cards.is_empty() {
        let table = idle(&report.idle_cards);
        sections.push(Section { title: "Idle cards", about: "nobody holds them", table });
    }
    if !report.unguarded_cards.is_empty() {
        sections.push(Section {
            title: "Unguarded cards",
            about: "their shares may use more than they asked for, and together outgrow the card; \
                    level Isolated keeps shares to their part",
            table: unguarded(&report.unguarded_cards),
        });
    }
    if !report.slices.is_empty() {
        sections.push(Section { title: "Slices", about: "by resource", table: slices(report) });
    }
    if report.queues.iter().any(|queue| queue.queue.is_some()) {
        let items = report.queues.clone();
        let queues = TopQueues { api_version: API_VERSION, kind: "TopQueues", items };
        sections.push(Section {
            title: "Queues",
            about: "what their pods hold in whole GPUs; quotas are not enforced yet",
            table: top_queues_table(&queues, wide),
        });
    }
    if !report.pending.is_empty() {
        let items = report.pending.clone();
        let pending = TopPending { api_version: API_VERSION, kind: "TopPending", items };
        sections.push(Section {
            title: "Pending",
            about: "in the order of their turns; divvy explain pod NAMESPACE/NAME says more",
            table: top_pending_table(&pending, wide),
        });
    }
    sections
}

fn parts(name: &'static str, parts: &[ReportPart]) -> Table {
    let mut header = vec![name, "CARDS", "IDLE", "WHOLE", "SHARED"];
    let has_slices = parts.iter().any(|part| part.totals.slices > 0);
    header.extend(has_slices.then_some("SLICES"));
    header.extend(["GPU-MEM", "PACKING", "FRAGMENTED", "STRANDED", "UNGUARDED"]);
    let mut table = Table::new(&header).least(&["UNGUARDED", "WHOLE", "SHARED", "IDLE"]);
    for ReportPart { name, totals } in parts {
        let ReportTotals { cards, cards_in_use, cards_idle, .. } = *totals;
        let mut row = vec![
            name.as_str().into(),
            used_of(cards_in_use, cards).into(),
            cards_idle.to_string().into(),
            totals.cards_whole.to_string().into(),
            totals.cards_shared.to_string().into(),
        ];
        row.extend(has_slices.then(|| match totals.slices {
            0 => "-".into(),
            slices => used_of(totals.slices_taken, slices).into(),
        }));
        let memory = |bytes: u64| crate::top::memory(bytes);
        row.extend([
            gib_of(totals.held_bytes, totals.capacity_bytes).into(),
            totals.packing_ratio.map_or("-".to_owned(), percent).into(),
            memory(totals.fragmented_bytes).into(),
            memory(totals.stranded_bytes).into(),
            totals.cards_unguarded.to_string().into(),
        ]);
        table.push(row);
    }
    table
}

/// A row for each node.
fn idle(cards: &[ReportCard<'_>]) -> Table {
    let mut table = Table::new(&["NODE", "IDLE", "CARD"]);
    for run in cards.chunk_by(|a, b| a.node == b.node) {
        let Some(first) = run.first() else { continue };
        let numbers = labels(run.iter().map(|card| (card.index, card.number)));
        table.push(vec![first.node.into(), run.len().to_string().into(), numbers.into()]);
    }
    table
}

fn unguarded(cards: &[ReportCard<'_>]) -> Table {
    let mut table = Table::new(&["NODE", "CARD", "SHARES", "PODS"]);
    for card in cards {
        table.push(vec![
            card.node.into(),
            labels([(card.index, card.number)]).into(),
            card.pods.len().to_string().into(),
            Cell::list(card.pods.iter().cloned()),
        ]);
    }
    table
}

fn slices(report: &Report<'_>) -> Table {
    let mut table = Table::new(&["RESOURCE", "KIND", "NODES", "TAKEN", "FREE"]);
    for slices in &report.slices {
        table.push(vec![
            slices.resource.as_str().into(),
            slices.kind.unwrap_or("-").into(),
            slices.nodes.to_string().into(),
            used_of(slices.taken, slices.total).into(),
            slices.total.saturating_sub(slices.taken).to_string().into(),
        ]);
    }
    table
}

/// `87.5%`, without a space: it stands in tables.
fn percent(ratio: f64) -> String {
    let text = format!("{:.1}", ratio * 100.0);
    format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
}
