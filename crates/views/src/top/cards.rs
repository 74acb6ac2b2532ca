//! One row a card.

use crate::API_VERSION;
use crate::amount::Amount;
use crate::bar::degree;
use crate::cards::{CardUse, CardUseState, NodeCards, ShareUse};
use crate::model::short_model;
use crate::options::TextOptions;
use crate::paint::Tint;
use crate::slices::SliceHolders;
use crate::stranded::ShareSizes;
use crate::table::{Cell, Table};
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
    /// Whether the device plugin hands it out; null if it does not hand out all, and nobody says which.
    pub allocatable: Option<bool>,
    /// Whether a bound pod claims more of it than there is: then it takes nobody new.
    pub overbooked: bool,
    /// How much more.
    #[serde(rename = "overbookedBytes")]
    pub overbooked_by: Amount,
    /// Who claims what others hold, and how much.
    pub claims: Vec<ShareUse<'a>>,
}

/// Who holds every card.
pub fn top_cards(scheduler: &Scheduler) -> TopCards<'_> {
    let mut sizes = ShareSizes::held(scheduler);
    let holders = SliceHolders::of(scheduler);
    let nodes = scheduler.nodes();
    let nodes = nodes.filter_map(|(_, id)| NodeCards::of(scheduler, id, &mut sizes, &holders));
    let items = nodes.flat_map(|NodeCards { name, model, cards, .. }| {
        cards.into_iter().map(move |card| {
            let (overbooked, overbooked_by) = (card.overbooked, card.overbooked_by());
            let (allocatable, claims) = (card.allocatable, card.claims.clone());
            TopCard { node: name, model, card, allocatable, overbooked, overbooked_by, claims }
        })
    });
    TopCards { api_version: API_VERSION, kind: "TopCards", items: items.collect() }
}

/// The cards as a table; wide has exact bytes and UUIDs, and cuts no list of pods.
pub fn top_cards_table(cards: &TopCards<'_>, wide: bool) -> Table {
    let mut header = vec!["NODE", "CARD", "MODEL", "STATE", "SHARES", "USED", "FREE"];
    let has_classes = cards.items.iter().any(|item| item.card.class.is_some());
    if has_classes {
        header.insert(4, "CLASS");
    }
    if wide {
        header.extend(["USED-BYTES", "UUID"]);
    }
    header.push("PODS");
    let mut table =
        Table::new(&header).or_say("The cluster has no cards.").least(&["MODEL", "SHARES", "FREE"]);
    for TopCard { node, model, card, overbooked_by, .. } in &cards.items {
        let shares = match card.state {
            CardUseState::Shared => (card.shares.len() + card.claims.len()).to_string(),
            CardUseState::Free | CardUseState::Whole => "-".to_owned(),
            CardUseState::TimeSliced | CardUseState::Mps | CardUseState::Sliced => degree(card),
        };
        let is_told = card.slices.is_none_or(|slices| slices.taken.is_some());
        let used = card.claimed();
        let free = match overbooked_by.raw() {
            _ if !is_told => "-".to_owned(),
            0 if card.overbooked => "0".to_owned(),
            0 => card.free().cell(),
            _ => format!("-{}", overbooked_by.cell()),
        };
        let mut row = vec![
            (*node).into(),
            card.label().into(),
            model.map_or_else(|| "-".to_owned(), short_model).into(),
            state(card),
            shares.into(),
            if is_told { used.cell_of(card.capacity) } else { "-".to_owned() }.into(),
            free.into(),
        ];
        if has_classes {
            row.insert(4, card.class.unwrap_or("-").into());
        }
        if wide {
            let bytes = used.bytes().map(|bytes| bytes.to_string());
            row.push(bytes.unwrap_or_else(|| "-".to_owned()).into());
            row.push(card.uuid.unwrap_or("-").into());
        }
        let pods = card.shares.iter().chain(&card.claims).map(|share| share.pod.to_string());
        row.push(Cell::list(pods));
        table.push(row);
    }
    table
}

/// The same as text.
pub fn top_cards_text(cards: &TopCards<'_>, options: TextOptions) -> String {
    top_cards_table(cards, options.wide).render(options)
}

fn state(card: &CardUse<'_>) -> Cell {
    match card.state {
        _ if card.overbooked_by().raw() > 0 => Cell::tinted("overbooked", Tint::Bad),
        _ if card.overbooked => Cell::tinted("claimed", Tint::Bad),
        CardUseState::Free if card.allocatable == Some(false) => {
            Cell::tinted("withheld", Tint::Bad)
        }
        CardUseState::Free if card.allocatable.is_none() => {
            Cell::tinted("withheld?", Tint::Waiting)
        }
        state if !card.closed.is_empty() => {
            Cell::tinted(&format!("{},{}", state.as_str(), card.closed.join(",")), Tint::Bad)
        }
        state @ CardUseState::Free => Cell::tinted(state.as_str(), Tint::Faint),
        state @ CardUseState::Whole => Cell::tinted(state.as_str(), Tint::Share(0)),
        state => Cell::tinted(state.as_str(), Tint::Share(1)),
    }
}
