//! One row a node.

use crate::API_VERSION;
use crate::amount::Amount;
use crate::cards::{CardUseState, NodeCards};
use crate::model::short_model;
use crate::options::TextOptions;
use crate::paint::Tint;
use crate::slices::{SliceHolders, SliceUse};
use crate::stranded::ShareSizes;
use crate::table::{Cell, Table};
use crate::totals::sliced_in_use;
use crate::wording::{gib_of, used_of};
use divvy_engine::{Scheduler, Taint};
use divvy_ledger::{MilliCpu, NodeId};
use serde::Serialize;

/// What is in use on every node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopNodes<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `TopNodes`.
    pub kind: &'static str,
    /// The nodes by name.
    pub items: Vec<TopNode<'a>>,
}

/// What is in use on one node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopNode<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its GPU model as the node names it.
    pub model: Option<&'a str>,
    /// How many cards it has.
    pub cards: usize,
    /// How many of them the device plugin does not hand out.
    pub cards_withheld: u32,
    /// How many of them somebody holds.
    pub cards_in_use: usize,
    /// How many one pod holds whole.
    pub whole: usize,
    /// How many are shared.
    pub shared: usize,
    /// How many shares there are on those.
    pub shares: usize,
    /// Memory of all cards, if it is known.
    pub gpu_memory_bytes: Option<u64>,
    /// Memory held of it.
    pub gpu_memory_used_bytes: Option<u64>,
    /// The largest share that one card could still give; null without cards.
    pub largest_free_share_bytes: Option<Amount>,
    /// Slices under the names of whole GPUs, or of replicas of those.
    pub replicas: Option<Replicas>,
    /// Time slices, MPS replicas and MIG slices by kind.
    pub slices: Vec<SliceUse<'a>>,
    /// CPU for pods, in thousandths of a core.
    pub cpu_milli: u64,
    /// CPU that pods ask.
    pub cpu_used_milli: u64,
    /// Memory for pods.
    pub memory_bytes: u64,
    /// Memory that pods ask.
    pub memory_used_bytes: u64,
    /// Pods on it.
    pub pods: u32,
    /// Pod slots.
    pub pod_slots: u32,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints, `key=value:Effect`.
    pub taints: Vec<String>,
}

/// GPUs that are only counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Replicas {
    /// How many are advertised.
    pub total: u64,
    /// How many pods hold.
    pub taken: u64,
}

/// What is in use on every node.
pub fn top_nodes(scheduler: &Scheduler) -> TopNodes<'_> {
    let mut sizes = ShareSizes::held(scheduler);
    let holders = SliceHolders::of(scheduler);
    let nodes = scheduler.nodes();
    let items = nodes.filter_map(|(_, id)| top_node(scheduler, id, &mut sizes, &holders));
    let items = items.collect();
    TopNodes { api_version: API_VERSION, kind: "TopNodes", items }
}

fn top_node<'a>(
    scheduler: &'a Scheduler,
    id: NodeId,
    sizes: &mut ShareSizes,
    holders: &SliceHolders<'a>,
) -> Option<TopNode<'a>> {
    let node = scheduler.ledger().node(id)?;
    let facts = scheduler.facts(id)?;
    let view = NodeCards::of(scheduler, id, sizes, holders)?;
    let in_state = |state| view.cards.iter().filter(|c| c.state == state).count();
    let shared = view.cards.iter().filter(|c| c.state == CardUseState::Shared);
    let (size, gpus) = (node.card_size(), &node.capacity().gpus);
    let known = node.knows_card_memory() && gpus.pools.iter().all(|pool| pool.each.is_some());
    let replicas = gpus.pools.iter().filter(|pool| pool.device.profile().is_none());
    let replicas = replicas.filter_map(|pool| node.devices(pool.device)).next();
    // A free card gives a share of all of it.
    let largest = if node.room().whole > 0 { size } else { node.room().share };
    let (has_cards, has_gpus) = (node.card_count() > 0, node.has_gpus());
    let whole_or_shared = view.in_use().filter(|card| card.slices.is_none()).count();
    let (cpu, memory, pods) = node.taken();
    Some(TopNode {
        name: view.name,
        model: view.model,
        cards: view.cards.len(),
        cards_withheld: node.card_count().saturating_sub(gpus.usable),
        cards_in_use: whole_or_shared + sliced_in_use(node),
        whole: in_state(CardUseState::Whole),
        shared: in_state(CardUseState::Shared),
        shares: shared.map(|c| c.shares.len()).sum(),
        gpu_memory_bytes: (has_gpus && known).then_some(node.room().gpu_total),
        gpu_memory_used_bytes: (has_gpus && known).then_some(node.room().gpu_used),
        largest_free_share_bytes: has_cards.then_some(Amount::new(
            largest,
            size,
            node.knows_card_memory(),
        )),
        replicas: replicas
            .map(|(free, total)| Replicas { total: total.into(), taken: u64::from(total - free) }),
        slices: view.slices,
        cpu_milli: node.capacity().cpu.0,
        cpu_used_milli: cpu.0,
        memory_bytes: node.capacity().memory.0,
        memory_used_bytes: memory.0,
        pods,
        pod_slots: node.capacity().pods,
        unschedulable: facts.unschedulable,
        taints: facts.taints.iter().map(taint).collect(),
    })
}

/// The nodes as a table. Slices have a column if there are any, and so has how many cards are handed out
/// if some are not; wide has what keeps pods off.
pub fn top_nodes_table(nodes: &TopNodes<'_>, wide: bool) -> Table {
    let slices = nodes.items.iter().any(|node| !node.slices.is_empty());
    let withholds = nodes.items.iter().any(|node| node.cards_withheld > 0);
    let mut header = vec!["NODE", "MODEL", "CARDS", "WHOLE", "SHARED", "SHARES"];
    header.extend(withholds.then_some("WITHHELD"));
    header.extend(slices.then_some("SLICES"));
    header.extend(["GPU-MEM", "FREE-SHARE", "CPU", "MEMORY", "PODS"]);
    if wide {
        header.extend(["STATUS", "TAINTS"]);
    }
    let mut table = Table::new(&header)
        .or_say("The cluster has no nodes.")
        .least(&["PODS", "MEMORY", "CPU", "SHARES", "SHARED", "WHOLE"]);
    for node in &nodes.items {
        let mut row = on_cards(node);
        if withholds {
            let withheld = (node.cards > 0).then(|| node.cards_withheld.to_string());
            row.push(withheld.unwrap_or_else(dash).into());
        }
        if slices {
            row.push(slices_of(node, wide).into());
        }
        let memory = node.gpu_memory_used_bytes.zip(node.gpu_memory_bytes);
        row.push(memory.map_or_else(dash, |(used, all)| gib_of(used, all)).into());
        row.push(node.largest_free_share_bytes.map_or_else(dash, Amount::cell).into());
        row.push(used_of(MilliCpu(node.cpu_used_milli), MilliCpu(node.cpu_milli)).into());
        row.push(gib_of(node.memory_used_bytes, node.memory_bytes).into());
        row.push(used_of(node.pods, node.pod_slots).into());
        if wide {
            row.push(match node.unschedulable {
                true => Cell::tinted("cordoned", Tint::Waiting),
                false => "schedulable".into(),
            });
            let taints = node.taints.join(",");
            row.push(if taints.is_empty() { dash() } else { taints }.into());
        }
        table.push(row);
    }
    table
}

/// The same as text.
pub fn top_nodes_text(nodes: &TopNodes<'_>, options: TextOptions) -> String {
    top_nodes_table(nodes, options.wide).render(options)
}

/// `20/32`, or wide by kind: `mig-1g.10gb:3/7,mig-2g.20gb:0/3`.
fn slices_of(node: &TopNode<'_>, by_kind: bool) -> String {
    let all = |count: fn(&SliceUse<'_>) -> u32| {
        node.slices.iter().map(count).fold(0, u32::saturating_add)
    };
    match &node.slices[..] {
        [] => dash(),
        slices if by_kind => {
            let each =
                slices.iter().map(|s| format!("{}:{}", s.short(), used_of(s.taken, s.total)));
            each.collect::<Vec<_>>().join(",")
        }
        _ => used_of(all(|slices| slices.taken), all(|slices| slices.total)),
    }
}

fn on_cards(node: &TopNode<'_>) -> Vec<Cell> {
    let on_cards = |text: String| if node.cards > 0 { text } else { dash() };
    vec![
        node.name.into(),
        node.model.map_or_else(dash, short_model).into(),
        on_cards(used_of(node.cards_in_use, node.cards)).into(),
        on_cards(node.whole.to_string()).into(),
        on_cards(node.shared.to_string()).into(),
        on_cards(node.shares.to_string()).into(),
    ]
}

fn dash() -> String {
    "-".to_owned()
}

/// `key=value:Effect`, as kubectl writes it.
fn taint(Taint { key, value, effect }: &Taint) -> String {
    let equals = if value.is_empty() { "" } else { "=" };
    format!("{key}{equals}{value}:{}", effect.as_str())
}
