//! What MIG is to divide cards into, and who gets no slice then.

use crate::API_VERSION;
use crate::mig_check::{ProfileCount, Unused, counted, unused, unused_memory};
use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::table::{Cell, Table};
use crate::wording::{clean, count, labels};
use divvy_engine::division::{DividedNode, SlicePlan};
use divvy_ledger::Profile;
use divvy_ledger::mig::{Geometry, Left, listed};
use serde::Serialize;

/// What is to be divided.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigPlan {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `MigPlan`.
    pub kind: &'static str,
    /// The nodes with cards to divide, by name.
    pub nodes: Vec<MigPlanNode>,
    /// Pods that ask for slices and have none then.
    pub pending: Vec<MigPlanPod>,
    /// Nodes with such cards that are not divided, and why.
    pub left_out: Vec<LeftOut>,
    /// The file of mig-parted.
    pub config: String,
    /// The plan in numbers.
    pub summary: MigPlanSummary,
}

/// A node with cards to divide.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigPlanNode {
    /// Its name.
    pub name: String,
    /// The model of its cards.
    pub model: &'static str,
    /// The config that its label `nvidia.com/mig.config` is to name.
    pub config: String,
    /// The cards that are divided.
    pub cards: Vec<MigPlanCard>,
}

/// A card that is divided.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigPlanCard {
    /// Its index on the node.
    pub index: u32,
    /// Into what.
    pub profiles: Vec<ProfileCount>,
    /// What that leaves.
    pub unused: Unused,
}

/// A pod without slices.
#[derive(Clone, Debug, Serialize)]
pub struct MigPlanPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A node that is not divided.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub node: String,
    /// Why.
    pub reason: String,
}

/// The plan in numbers.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigPlanSummary {
    /// Pods that get their slices by it.
    pub helped: u32,
    /// Pods that do not.
    pub pending: usize,
    /// Cards that are divided.
    pub cards: usize,
    /// No fewer cards hold as much; the same number if the plan is the best there is.
    pub at_least: u32,
    /// Cards that could be divided.
    pub free_cards: u32,
}

/// The plan, for programs; `config` is its file of mig-parted.
pub fn mig_plan(plan: &SlicePlan, config: &str) -> MigPlan {
    let node = |node: &DividedNode| {
        let geometry = Geometry::of(node.model);
        let card = |(index, slices): &(u32, Vec<(Profile, u32)>)| MigPlanCard {
            index: *index,
            profiles: counted(slices),
            unused: unused(&left(&geometry, slices)),
        };
        MigPlanNode {
            name: node.name.to_string(),
            model: node.model.name,
            config: plan.configs[node.config].name.clone(),
            cards: node.cards.iter().map(card).collect(),
        }
    };
    let pending = plan.pending.iter().map(|(key, reason)| MigPlanPod {
        namespace: key.namespace().to_owned(),
        name: key.name().to_owned(),
        reason: reason.clone(),
    });
    let left_out = plan
        .left_out
        .iter()
        .map(|(node, reason)| LeftOut { node: node.to_string(), reason: reason.clone() });
    MigPlan {
        api_version: API_VERSION,
        kind: "MigPlan",
        nodes: plan.nodes.iter().map(node).collect(),
        pending: pending.collect(),
        left_out: left_out.collect(),
        config: config.to_owned(),
        summary: MigPlanSummary {
            helped: plan.helped,
            pending: plan.pending.len(),
            cards: cards(plan),
            at_least: plan.at_least,
            free_cards: plan.free_cards,
        },
    }
}

fn cards(plan: &SlicePlan) -> usize {
    plan.nodes.iter().map(|node| node.cards.len()).sum()
}

fn left(geometry: &Geometry, slices: &[(Profile, u32)]) -> Left {
    geometry.left(&geometry.place(slices).unwrap_or_default())
}

/// How to bring a plan about: what its file and the labels of its nodes are for.
pub fn mig_plan_commands(plan: &SlicePlan) -> String {
    let command = |node: &DividedNode| {
        let (name, config) = (clean(&node.name), &plan.configs[node.config].name);
        format!("kubectl label node {name} nvidia.com/mig.config={config} --overwrite\n")
    };
    plan.nodes.iter().map(command).collect()
}

/// The answer, the cards, the file and the commands, and who waits.
pub fn mig_plan_text(plan: &SlicePlan, config: &str, options: TextOptions) -> String {
    let painter = Painter::new(options.colour);
    let mut text = headline(plan);
    if !plan.nodes.is_empty() {
        text.push('\n');
        text.push_str(&table(plan).render(painter));
        text.push_str(&format!("\n{config}\n{}", mig_plan_commands(plan)));
    }
    if !plan.pending.is_empty() {
        let mut table = Table::new(&["PENDING", "REASON"]);
        for (key, reason) in &plan.pending {
            table.push(vec![
                Cell::tinted(&clean(&key.to_string()), Tint::Waiting),
                reason.as_str().into(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render(painter));
    }
    if !plan.left_out.is_empty() {
        text.push('\n');
    }
    for (node, why) in &plan.left_out {
        text.push_str(&format!("Left as it is: {}: {why}.\n", clean(node)));
    }
    text
}

fn headline(plan: &SlicePlan) -> String {
    let (cards, helped) = (cards(plan), plan.helped as usize);
    let mut text = match (cards, plan.pending.len()) {
        (0, 0) => return "No pod waits for MIG slices.\n".to_owned(),
        (0, pending) => {
            return format!("No card can be divided for {}.\n", count(pending, "pod"));
        }
        (cards, _) => {
            let cards = count(cards, "card");
            format!("{cards}, divided, of {} free for {}", plan.free_cards, count(helped, "pod"))
        }
    };
    match cards.saturating_sub(plan.at_least as usize) {
        0 => text.push_str("; fewer cannot do"),
        _ => text.push_str(&format!("; fewer than {} cannot do", plan.at_least)),
    }
    match plan.pending.len() {
        0 => text.push_str(".\n"),
        pending => text.push_str(&format!(". {} pending.\n", count(pending, "pod"))),
    }
    text
}

/// A row for cards of a node that are divided alike.
fn table(plan: &SlicePlan) -> Table {
    let header = ["NODE", "MODEL", "CARDS", "SLICES", "UNUSED-MEMORY", "UNUSED-COMPUTE", "CONFIG"];
    let mut table = Table::new(&header);
    for node in &plan.nodes {
        let geometry = Geometry::of(node.model);
        let mut alike: Vec<(&[(Profile, u32)], Vec<u32>)> = Vec::new();
        for (index, slices) in &node.cards {
            match alike.iter_mut().find(|(other, _)| other == slices) {
                Some((_, cards)) => cards.push(*index),
                None => alike.push((slices, vec![*index])),
            }
        }
        for (slices, cards) in alike {
            let left = left(&geometry, slices);
            let (memory, compute) = (node.model.memory_slices(), node.model.compute_slices());
            table.push(vec![
                node.name.as_ref().into(),
                node.model.name.into(),
                labels(cards.into_iter().map(|card| (card, Some(card)))).into(),
                listed(slices).into(),
                unused_memory(left.memory_slices, memory, left.memory).into(),
                format!("{}/{compute}", left.compute_slices).into(),
                plan.configs[node.config].name.as_str().into(),
            ]);
        }
    }
    table
}
