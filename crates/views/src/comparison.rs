//! The same workload twice, side by side: with two strategies, or on two clusters.

use crate::API_VERSION;
use crate::options::TextOptions;
use crate::simulation::{PodOutcome, Simulation, Summary};
use crate::table::{Cell, Table};
use crate::top::memory;
use crate::wording::{count, labels, thousands};
use divvy_engine::ObjectKey;
use serde::Serialize;
use std::collections::BTreeMap;

/// Rows of pods that are still read.
const MOST_PODS: usize = 100;

/// Two simulations, side by side.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison<'a> {
    /// `divvy.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `Comparison`.
    pub kind: &'static str,
    /// The two sides.
    pub sides: [ComparedSide<'a>; 2],
    /// The pods of the workload that have another place, or none, on the other side.
    pub differences: Vec<Difference<'a>>,
}

/// One side.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedSide<'a> {
    /// What it is: a strategy, or a file.
    pub name: &'a str,
    /// The sums.
    pub summary: &'a Summary,
}

/// A pod that fares differently.
#[derive(Clone, Debug, Serialize)]
pub struct Difference<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its place on each side; null where it has none, or does not exist.
    pub places: [Option<ComparedPlacement<'a>>; 2],
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedPlacement<'a> {
    /// The node.
    pub node: &'a str,
    /// The cards, by index.
    pub cards: Vec<u32>,
    #[serde(skip)]
    label: String,
}

/// Compares two simulations.
pub fn comparison<'a>(
    names: [&'a str; 2],
    [first, second]: [&'a Simulation<'a>; 2],
) -> Comparison<'a> {
    let mut pods: BTreeMap<&ObjectKey, [Option<ComparedPlacement<'_>>; 2]> = BTreeMap::new();
    let sides = first.pods.iter().map(|pod| (0, pod)).chain(second.pods.iter().map(|pod| (1, pod)));
    for (side, pod) in sides {
        if let Some(own) = pods.entry(pod.key).or_default().get_mut(side) {
            *own = place(pod);
        }
    }
    let differences = pods.into_iter().filter(|(_, [first, second])| first != second);
    let differences = differences.map(|(key, places)| Difference {
        namespace: key.namespace(),
        name: key.name(),
        places,
    });
    let side =
        |name, simulation: &'a Simulation<'a>| ComparedSide { name, summary: &simulation.summary };
    Comparison {
        api_version: API_VERSION,
        kind: "Comparison",
        sides: [side(names[0], first), side(names[1], second)],
        differences: differences.collect(),
    }
}

fn place<'a>(pod: &PodOutcome<'a>) -> Option<ComparedPlacement<'a>> {
    let label = labels(pod.cards.iter().map(|card| (card.index, card.number)));
    let cards = pod.cards.iter().map(|card| card.index).collect();
    Some(ComparedPlacement { node: pod.node?, cards, label })
}

/// The comparison as text: the sums, then who fares differently.
pub fn comparison_text(comparison: &Comparison<'_>, options: TextOptions) -> String {
    let [first, second] = &comparison.sides;
    let mut sums = Table::new(&["", &heading(first.name), &heading(second.name)]);
    for (what, of) in MEASURES {
        sums.push(vec![what.into(), of(first.summary).into(), of(second.summary).into()]);
    }
    let mut out = sums.render(options);
    let differences = comparison.differences.len();
    if differences == 0 {
        return out + "\nEvery pod has the same place on both sides.\n";
    }
    out.push_str(&format!("\n{} elsewhere:\n", count(differences, "pod")));
    let mut table = Table::new(&["POD", &heading(first.name), &heading(second.name)]);
    let most = if options.wide { usize::MAX } else { MOST_PODS };
    for difference in comparison.differences.iter().take(most) {
        let [first, second] = &difference.places;
        table.push(vec![
            format!("{}/{}", difference.namespace, difference.name).into(),
            cell(first.as_ref()),
            cell(second.as_ref()),
        ]);
    }
    out.push_str(&table.render(options));
    if differences > most {
        let more = count(differences - most, "more pod");
        out.push_str(&format!("... and {more}: -o wide or -o json shows all\n"));
    }
    out
}

/// How a sum is written.
type Measure = fn(&Summary) -> String;

/// What is compared.
const MEASURES: [(&str, Measure); 9] = [
    ("pods-placed", |sum| sum.placed.to_string()),
    ("pods-pending", |sum| sum.pending.to_string()),
    ("nodes", |sum| sum.totals.nodes.to_string()),
    ("cards", |sum| sum.cards.to_string()),
    ("cards-in-use", |sum| sum.cards_in_use.to_string()),
    ("memory-allocated", |sum| format!("{}GiB", thousands(sum.totals.held_bytes >> 30))),
    ("packing", |sum| sum.totals.packing_ratio().map_or("-".to_owned(), percent)),
    ("fragmented", |sum| memory(clip(sum.totals.fragmented_bytes))),
    ("stranded", |sum| memory(clip(sum.totals.stranded_bytes))),
];

fn clip(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn percent(ratio: f64) -> String {
    format!("{:.1}%", ratio * 100.0)
}

/// A strategy or a file as the name of a column.
fn heading(name: &str) -> String {
    crate::wording::clean(name).replace(' ', "-").to_uppercase()
}

fn cell(place: Option<&ComparedPlacement<'_>>) -> Cell {
    match place {
        None => Cell::tinted("-", crate::paint::Tint::Waiting),
        Some(place) if place.cards.is_empty() => place.node.into(),
        Some(place) => format!("{}:{}", place.node, place.label).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::simulation;
    use crate::testing::{Cluster, fraction, node};

    #[test]
    fn two_simulations_are_shown_side_by_side_with_the_pods_that_differ() {
        let on = |name: &str| {
            Cluster::new()
                .with(node(name, "x", 1, 80))
                .ask("ml/a", fraction("0.5", 1))
                .ask("ml/b", fraction("0.6", 1))
        };
        let (first, second) = (on("n1"), on("n2"));
        let first = simulation(&first.scheduler, &first.pods);
        let second = simulation(&second.scheduler, &second.pods);
        let compared = comparison(["binpack", "spread"], [&first, &second]);
        insta::assert_snapshot!(comparison_text(&compared, TextOptions::default()), @"
                          BINPACK  SPREAD
        pods-placed       1        1
        pods-pending      1        1
        nodes             1        1
        cards             1        1
        cards-in-use      1        1
        memory-allocated  40GiB    40GiB
        packing           50.0%    50.0%
        fragmented        40.0Gi   40.0Gi
        stranded          0        0

        1 pod elsewhere:
        POD   BINPACK  SPREAD
        ml/a  n1:0     n2:0
        ");
        let json = serde_json::to_value(&compared).unwrap();
        assert_eq!(json["sides"][1]["summary"]["pending"], 1);
        assert_eq!(json["differences"][0]["places"][1]["node"], "n2");
        let same = comparison(["a", "b"], [&first, &first]);
        let text = comparison_text(&same, TextOptions::default());
        assert!(text.ends_with("Every pod has the same place on both sides.\n"), "{text}");
    }
}
