//! One row a kind of slices of a node.

use crate::API_VERSION;
use crate::model::short_model;
use crate::options::TextOptions;
use crate::slices::{SliceHolder, SliceHolders, SliceUse};
use crate::table::{Cell, Table};
use divvy_engine::Scheduler;
use serde::Serialize;

/// Who holds time slices, MPS replicas and MIG slices.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopSlices<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `TopSlices`.
    pub kind: &'static str,
    /// By node and kind.
    pub items: Vec<TopSlice<'a>>,
}

/// Who holds the slices of one kind on a node.
#[derive(Clone, Debug, Serialize)]
pub struct TopSlice<'a> {
    /// Their node.
    pub node: &'a str,
    /// The model of its cards as the node names it.
    pub model: Option<&'a str>,
    /// The slices.
    #[serde(flatten)]
    pub slices: SliceUse<'a>,
}

/// Who holds the slices of all nodes.
pub fn top_slices(scheduler: &Scheduler) -> TopSlices<'_> {
    let holders = SliceHolders::of(scheduler);
    let ledger = scheduler.ledger();
    let nodes = scheduler.nodes().filter_map(|(_, id)| Some((id, ledger.node(id)?)));
    let items = nodes.flat_map(|(id, node)| {
        let model = scheduler.model(id).map(|model| &**model);
        let slices = holders.on(id, node).into_iter();
        slices.map(move |slices| TopSlice { node: node.name(), model, slices })
    });
    TopSlices { api_version: API_VERSION, kind: "TopSlices", items: items.collect() }
}

/// The slices as a table.
pub fn top_slices_table(slices: &TopSlices<'_>) -> Table {
    let header = ["NODE", "MODEL", "RESOURCE", "KIND", "CARDS", "EACH", "TAKEN", "FREE", "PODS"];
    let mut table = Table::new(&header)
        .or_say("No node hands out slices of cards.")
        .least(&["FREE", "CARDS", "MODEL"]);
    let dash = || "-".to_owned();
    for TopSlice { node, model, slices } in &slices.items {
        let free = i64::from(slices.total) - i64::from(slices.taken);
        table.push(vec![
            (*node).into(),
            model.map_or_else(dash, short_model).into(),
            slices.resource.as_str().into(),
            slices.kind.unwrap_or("-").into(),
            slices.cards.map_or_else(dash, |cards| cards.to_string()).into(),
            slices.each().into(),
            format!("{}/{}", slices.taken, slices.total).into(),
            free.to_string().into(),
            pods(slices),
        ]);
    }
    table
}

/// The same as text.
pub fn top_slices_text(slices: &TopSlices<'_>, options: TextOptions) -> String {
    top_slices_table(slices).render(options)
}

fn pods(slices: &SliceUse<'_>) -> Cell {
    let name = |holder: &SliceHolder<'_>| match holder.count {
        1 => holder.pod.to_string(),
        count => format!("{}:{count}", holder.pod),
    };
    Cell::list(slices.pods.iter().map(name))
}
