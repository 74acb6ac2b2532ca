//! The same workload twice, side by side: with two strategies, or on two clusters.

use crate::API_VERSION;
use crate::options::TextOptions;
use crate::paint::Tint;
use crate::simulation::{Simulation, Summary};
use crate::table::{Cell, Table};
use crate::top::{TopPod, TopPods, memory};
use crate::wording::{count, labels, thousands};
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
    /// The pods of the workload, and those with GPUs, that have another place, or none, on the other
    /// side.
    pub differences: Vec<Difference<'a>>,
    /// How many more of each object of the workload would fit on each side, if that was asked.
    pub more: Option<Vec<MoreOnSide<'a>>>,
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
    /// Whether it waits for one, on each side.
    pub pending: [bool; 2],
}

/// How many more pods of an object fit.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MoreOnSide<'a> {
    /// Its kind.
    pub kind: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// How many more on each side.
    pub more: [usize; 2],
    /// Whether more than that may fit: it was not counted to the end.
    pub at_least: [bool; 2],
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

/// Compares two simulations, and what pods hold after each.
pub fn comparison<'a>(
    names: [&'a str; 2],
    [first, second]: [&'a Simulation<'a>; 2],
    held: [&'a TopPods<'a>; 2],
) -> Comparison<'a> {
    let mut pods: BTreeMap<(&str, &str), Difference<'_>> = BTreeMap::new();
    let unseen = |(namespace, name)| Difference {
        namespace,
        name,
        places: [None, None],
        pending: [false; 2],
    };
    for (side, simulation) in [first, second].into_iter().enumerate() {
        for pod in &simulation.pods {
            let key = (pod.namespace, pod.name);
            pods.entry(key).or_insert_with(|| unseen(key)).pending[side] = pod.node.is_none();
        }
    }
    for (side, held) in held.into_iter().enumerate() {
        for pod in &held.items {
            let key = (pod.namespace, pod.name);
            if !pod.request.is_none() || pods.contains_key(&key) {
                pods.entry(key).or_insert_with(|| unseen(key)).places[side] = place(pod);
            }
        }
    }
    let differences = pods.into_values().filter(|pod| pod.places[0] != pod.places[1]);
    let side =
        |name, simulation: &'a Simulation<'a>| ComparedSide { name, summary: &simulation.summary };
    Comparison {
        api_version: API_VERSION,
        kind: "Comparison",
        sides: [side(names[0], first), side(names[1], second)],
        differences: differences.collect(),
        more: more([first, second]),
    }
}

fn more<'a>(sides: [&'a Simulation<'a>; 2]) -> Option<Vec<MoreOnSide<'a>>> {
    let mut all: BTreeMap<(&str, &str, &str), MoreOnSide<'_>> = BTreeMap::new();
    for (side, simulation) in sides.into_iter().enumerate() {
        for of in simulation.more.as_ref()? {
            for object in &of.objects {
                let (namespace, name, kind) = (&*object.namespace, &*object.name, &*object.kind);
                let of_object = all.entry((namespace, name, kind)).or_insert(MoreOnSide {
                    kind,
                    namespace,
                    name,
                    more: [0; 2],
                    at_least: [false; 2],
                });
                (of_object.more[side], of_object.at_least[side]) = (of.more, of.at_least);
            }
        }
    }
    Some(all.into_values().collect())
}

fn place<'a>(pod: &TopPod<'a>) -> Option<ComparedPlacement<'a>> {
    let own = pod.cards.iter().map(|card| (card.index, card.number));
    let label = labels(own.chain(pod.on.iter().copied()));
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
    let sides = ["POD", &heading(first.name), &heading(second.name)];
    if let Some(more) = comparison.more.as_ref().filter(|more| !more.is_empty()) {
        let mut table = Table::new(&["MORE-OF", sides[1], sides[2]]);
        for of in more {
            let count = |side: usize| {
                let plus = if of.at_least[side] { "+" } else { "" };
                format!("{}{plus}", of.more[side])
            };
            let name = format!("{}/{}", of.namespace, of.name);
            table.push(vec![name.into(), count(0).into(), count(1).into()]);
        }
        out.push('\n');
        out.push_str(&table.render(options));
    }
    let differences = comparison.differences.len();
    if differences == 0 {
        return out + "\nEvery pod with a GPU or to be placed has the same place on both sides.\n";
    }
    let differ = if differences == 1 { "differs" } else { "differ" };
    out.push_str(&format!("\n{} {differ}:\n", count(differences, "pod")));
    let mut table = Table::new(&sides);
    let most = if options.wide { usize::MAX } else { MOST_PODS };
    for difference in comparison.differences.iter().take(most) {
        let cells = difference.places.iter().zip(difference.pending).map(cell);
        let name = format!("{}/{}", difference.namespace, difference.name);
        table.push(std::iter::once(name.into()).chain(cells).collect());
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

/// A strategy or a file as the name of a column. Files are called by their names: those have cases.
fn heading(name: &str) -> String {
    let name = crate::wording::clean(name).replace(' ', "-");
    if name.bytes().all(|b| b.is_ascii_lowercase()) { name.to_uppercase() } else { name }
}

fn cell((place, is_pending): (&Option<ComparedPlacement<'_>>, bool)) -> Cell {
    match place {
        None if is_pending => Cell::tinted("pending", Tint::Waiting),
        None => "-".into(),
        Some(place) if place.label == "-" => place.node.into(),
        Some(place) => format!("{}:{}", place.node, place.label).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::simulation;
    use crate::testing::{Cluster, fraction, mib, node, pod, recorded};
    use crate::top::top_pods;

    #[test]
    fn two_simulations_are_shown_side_by_side_with_the_pods_that_differ() {
        let on = |name: &str| {
            Cluster::new()
                .with(node(name, "x", 1, 80))
                .ask("ml/a", fraction("0.5", 1))
                .ask("ml/b", fraction("0.6", 1))
        };
        let (first, second) = (on("n1"), on("n2"));
        let held = [&first, &second].map(|of| top_pods(&of.scheduler));
        let first = simulation(&first.scheduler, &first.pods);
        let second = simulation(&second.scheduler, &second.pods);
        let compared = comparison(["binpack", "spread"], [&first, &second], [&held[0], &held[1]]);
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

        1 pod differs:
        POD   BINPACK  SPREAD
        ml/a  n1:0     n2:0
        ");
        let json = serde_json::to_value(&compared).unwrap();
        assert_eq!(json["sides"][1]["summary"]["pending"], 1);
        assert_eq!(json["differences"][0]["places"][1]["node"], "n2");
        let same = comparison(["a", "b"], [&first, &first], [&held[0], &held[0]]);
        let text = comparison_text(&same, TextOptions::default());
        let told = "Every pod with a GPU or to be placed has the same place on both sides.\n";
        assert!(text.ends_with(told), "{text}");
    }

    #[test]
    fn a_file_is_the_name_of_its_column_as_it_is_written() {
        assert_eq!(heading("binpack"), "BINPACK");
        assert_eq!(heading("/tmp/My Cluster.yaml"), "/tmp/My-Cluster.yaml");
    }

    #[test]
    fn pods_that_run_already_are_compared_too() {
        let running = |name: &str, on: &str| {
            let pod = recorded(pod(name, fraction("0.5", 1)), on, 0, 40_960);
            Cluster::new().with(node("n1", "x", 1, 80)).with(node("n2", "x", 1, 80)).add(pod)
        };
        let (first, second) = (running("ml/a", "n1"), running("ml/a", "n2"));
        let other = running("ml/b", "n1").ask("ml/c", mib(204_800, 1));
        let text = |first: &Cluster, second: &Cluster| {
            let held = [first, second].map(|of| top_pods(&of.scheduler));
            let pods = &second.pods[1..];
            let sides = [(first, &[][..]), (second, pods)];
            let sides = sides.map(|(of, pods)| simulation(&of.scheduler, pods));
            let compared = comparison(["x", "y"], [&sides[0], &sides[1]], [&held[0], &held[1]]);
            let text = comparison_text(&compared, TextOptions::default());
            text.split_once("\n\n").unwrap().1.to_owned()
        };
        assert_eq!(text(&first, &second), "1 pod differs:\nPOD   X     Y\nml/a  n1:0  n2:0\n");
        assert_eq!(
            text(&first, &other),
            "2 pods differ:\nPOD   X     Y\nml/a  n1:0  -\nml/b  -     n1:0\n"
        );
    }
}
