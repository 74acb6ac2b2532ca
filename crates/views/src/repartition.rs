//! What configs that were rehearsed would make of the nodes, before what became of the pods.

use crate::options::TextOptions;
use crate::paint::{Painter, Tint};
use crate::wording::clean;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Pods that are named where all would be too many.
const MOST_PODS: usize = 8;
/// Lines of each kind.
const MOST_LINES: usize = 20;

/// What configs would make of the nodes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Repartition {
    /// What pods hold that the nodes would not have.
    pub displaced: Vec<Displaced>,
    /// What each config would do.
    pub partitions: Vec<Partition>,
}

/// What pods hold of a node that it would not have.
#[derive(Clone, Debug, Serialize)]
pub struct Displaced {
    /// The node.
    pub node: String,
    /// The resource.
    pub resource: String,
    /// Whether these are cards that are not divided now.
    pub undivided: bool,
    /// How many pods hold.
    pub held: u32,
    /// How many there would be.
    pub left: u32,
    /// Who holds them.
    pub pods: Vec<DisplacedPod>,
}

/// A pod that may lose what it holds.
#[derive(Clone, Debug, Serialize)]
pub struct DisplacedPod {
    /// `namespace/name`.
    pub pod: String,
    /// What it asked for.
    pub request: String,
}

/// What a config would do.
#[derive(Clone, Debug, Serialize)]
pub struct Partition {
    /// Its ConfigMap, with its name there if there are several.
    pub config: String,
    /// What comes of it: `applied`, `unchanged`, `withheld`.
    pub effect: &'static str,
    /// On which nodes.
    pub nodes: Vec<String>,
    /// What these hand out then, all together.
    pub resources: BTreeMap<String, u64>,
    /// In one sentence.
    pub message: String,
}

impl Displaced {
    /// `a100-1: pods hold 3 undivided cards, and 0 would be left: ml/a (2 GPUs), ml/b (0.5)`.
    fn line(&self, all: bool) -> String {
        let Self { node, resource, undivided, held, left, pods } = self;
        let what = match (undivided, held) {
            (true, 1) => "1 undivided card".to_owned(),
            (true, n) => format!("{n} undivided cards"),
            (false, n) => format!("{n} {resource}"),
        };
        let shown = if all { pods.len() } else { MOST_PODS };
        let named = pods.iter().take(shown).map(|p| format!("{} ({})", p.pod, p.request));
        let named: Vec<String> = named.collect();
        let more = match pods.len().saturating_sub(shown) {
            0 => String::new(),
            n => format!(" +{n} more"),
        };
        format!("{node}: pods hold {what}, and {left} would be left: {}{more}", named.join(", "))
    }
}

/// The lines, with an empty one behind them; nothing if there is nothing to say.
pub(crate) fn repartition_text(repartition: &Repartition, options: TextOptions) -> String {
    let Repartition { displaced, partitions } = repartition;
    let painter = Painter::new(options.colour);
    let mut out = String::new();
    if !displaced.is_empty() {
        let title = "Pods hold now what would not be there:";
        let _ = writeln!(out, "{}", painter.paint(title, Tint::Bad));
        lines(&mut out, displaced.iter().map(|d| format!("  {}", d.line(options.wide))), options);
    }
    lines(&mut out, partitions.iter().map(|p| p.message.clone()), options);
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn lines(out: &mut String, all: impl ExactSizeIterator<Item = String>, options: TextOptions) {
    let most = if options.wide { usize::MAX } else { MOST_LINES };
    let hidden = all.len().saturating_sub(most);
    for line in all.take(most) {
        let _ = writeln!(out, "{}", clean(&line));
    }
    if hidden > 0 {
        let _ = writeln!(out, "... and {hidden} more like these: -o wide or -o json shows all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(wide: bool) -> TextOptions {
        TextOptions { wide, ..TextOptions::default() }
    }

    #[test]
    fn what_pods_lose_is_said_before_what_configs_do() {
        let pod = |n: usize| DisplacedPod { pod: format!("ml/p{n}"), request: "1 GPU".to_owned() };
        let displaced = Displaced {
            node: "n1".to_owned(),
            resource: "nvidia.com/gpu".to_owned(),
            undivided: true,
            held: 10,
            left: 0,
            pods: (0..10).map(pod).collect(),
        };
        let partition = Partition {
            config: "map".to_owned(),
            effect: "applied",
            nodes: vec!["n1".to_owned()],
            resources: BTreeMap::new(),
            message: "map: 4 replicas on n1\u{1b}".to_owned(),
        };
        let repartition = Repartition { displaced: vec![displaced], partitions: vec![partition] };
        let text = repartition_text(&repartition, options(false));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Pods hold now what would not be there:");
        assert!(lines[1].starts_with(
            "  n1: pods hold 10 undivided cards, and 0 would be left: ml/p0 (1 GPU), "
        ));
        assert!(lines[1].ends_with("ml/p7 (1 GPU) +2 more"), "{text}");
        assert!(lines[2].starts_with("map: 4 replicas on n1") && !text.contains('\u{1b}'));
        assert!(repartition_text(&repartition, options(true)).contains("ml/p9"));
        assert_eq!(repartition_text(&Repartition::default(), options(false)), "");
    }
}
