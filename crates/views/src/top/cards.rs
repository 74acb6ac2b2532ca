//! One row a card.

use crate::API_VERSION;
use crate::cards::{CardUse, CardUseState, NodeCards};
use crate::model::short_model;
use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::stranded::ShareSizes;
use crate::table::{Cell, Table};
use crate::wording::amount_of;
use divvy_engine::Scheduler;
use serde::Serialize;

/// Who holds every card.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopCards<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `TopCards`.
    pub kind: &'static str,
    /// The cards by node and index.
    pub items: Vec<TopCard<'a>>,
}

/// Who holds one card.
#[derive(Clone, Debug, Serialize)]
pub struct TopCard<'a> {
    /// Its node.
    pub node: &'a str,
    /// Its model as the node names it.
    pub model: Option<&'a str>,
    /// The card.
    #[serde(flatten)]
    pub card: CardUse<'a>,
}

/// Who holds every card.
pub fn top_cards(scheduler: &Scheduler) -> TopCards<'_> {
    let mut sizes = ShareSizes::default();
    let nodes = scheduler.nodes().filter_map(|(_, id)| NodeCards::of(scheduler, id, &mut sizes));
    let items = nodes.flat_map(|NodeCards { name, model, cards }| {
        cards.into_iter().map(move |card| TopCard { node: name, model, card })
    });
    TopCards { api_version: API_VERSION, kind: "TopCards", items: items.collect() }
}

/// The cards as a table; wide names the pods.
pub fn top_cards_text(cards: &TopCards<'_>, options: TextOptions) -> String {
    let mut header = vec!["NODE", "CARD", "MODEL", "STATE", "SHARES", "USED", "FREE"];
    header.extend(options.wide.then_some("PODS"));
    let mut table = Table::new(&header);
    for TopCard { node, model, card } in &cards.items {
        let shares = match card.state {
            CardUseState::Shared => card.shares.len().to_string(),
            CardUseState::Free | CardUseState::Whole => "-".to_owned(),
        };
        let tint = match card.state {
            CardUseState::Free => Tint::Faint,
            CardUseState::Whole => Tint::Share(0),
            CardUseState::Shared => Tint::Share(1),
        };
        let mut row = vec![
            (*node).into(),
            card.index.to_string().into(),
            model.map_or_else(|| "-".to_owned(), short_model).into(),
            Cell::tinted(card.state.as_str(), tint),
            shares.into(),
            amount_of(card.used, card.capacity).into(),
            card.free().number().into(),
        ];
        if options.wide {
            let pods: Vec<String> = card.shares.iter().map(|s| s.pod.to_string()).collect();
            row.push(if pods.is_empty() { "-".into() } else { pods.join(",").into() });
        }
        table.push(row);
    }
    if table.is_empty() {
        return "The cluster has no cards.\n".to_owned();
    }
    table.render(Painter::new(options.colour))
}
