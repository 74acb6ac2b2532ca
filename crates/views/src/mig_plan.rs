//! What MIG is to divide cards into, and who gets no slice then.

use crate::API_VERSION;
use crate::mig_check::{ProfileCount, Unused, counted, devices, unused, unused_memory};
use crate::options::TextOptions;
use crate::paint::Tint;
use crate::table::{Cell, Table};
use crate::wording::{clean, count, thousands};
use divvy_engine::slicing::{DividedNode, SlicePlan};
use divvy_ledger::Profile;
use divvy_ledger::mig::{Geometry, Leftover, listed};
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

/// As many pending pods are listed if nobody asks for all.
const MOST_PENDING: usize = 20;

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

fn left(geometry: &Geometry, slices: &[(Profile, u32)]) -> Leftover {
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
    let mut text = headline(plan);
    if !plan.nodes.is_empty() {
        text.push('\n');
        text.push_str(&table(plan).render(options));
        text.push_str(&format!("\n{config}\n{}", mig_plan_commands(plan)));
    }
    if !plan.pending.is_empty() {
        let mut table = Table::new(&["PENDING", "REASON"]);
        let shown = if options.wide { plan.pending.len() } else { MOST_PENDING };
        for (key, reason) in plan.pending.iter().take(shown) {
            table.push(vec![
                Cell::tinted(&clean(&key.to_string()), Tint::Waiting),
                reason.as_str().into(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render(options));
        if let Some(more) = plan.pending.len().checked_sub(shown).filter(|more| *more > 0) {
            text.push_str(&format!("and {} more: -o wide lists all\n", thousands(more as u128)));
        }
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
    let (cards, pending) = (cards(plan), plan.pending.len());
    if cards == 0 {
        return match pending {
            0 => "No pod waits for MIG slices.\n".to_owned(),
            _ => format!("No card can be divided for {}.\n", count(pending, "pod")),
        };
    }
    let pods = count(plan.helped as usize, "pod");
    let get = if plan.helped == 1 { "gets its" } else { "get their" };
    let free = count(plan.free_cards as usize, "free card");
    let fewest = match cards > plan.at_least as usize {
        true => format!("at least {} are needed", plan.at_least),
        false => "fewer cannot do".to_owned(),
    };
    let waiting = match pending {
        0 => String::new(),
        _ => format!(" {} pending.", count(pending, "pod")),
    };
    format!("{pods} {get} MIG slices on {cards} of {free}; {fewest}.{waiting}\n")
}

/// A row for cards of a node that are divided alike.
fn table(plan: &SlicePlan) -> Table {
    let header = ["NODE", "MODEL", "CARDS", "SLICES", "UNUSED-MEMORY", "UNUSED-COMPUTE", "CONFIG"];
    let mut table = Table::new(&header).least(&["UNUSED-COMPUTE", "MODEL"]);
    for node in &plan.nodes {
        let geometry = Geometry::of(node.model);
        let config = &plan.configs[node.config];
        for entry in &config.entries {
            let left = left(&geometry, &entry.profiles);
            let (memory, compute) = (node.model.memory_slices(), node.model.compute_slices());
            table.push(vec![
                node.name.as_ref().into(),
                node.model.name.into(),
                devices(&entry.devices).into(),
                listed(&entry.profiles).into(),
                unused_memory(left.memory_slices, memory, left.memory).into(),
                format!("{}/{compute}", left.compute_slices).into(),
                config.name.as_str().into(),
            ]);
        }
    }
    table
}
