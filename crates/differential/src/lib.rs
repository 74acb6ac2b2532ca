//! Random clusters through kube-scheduler's own filter plugins and through divvy: both must name
//! the same nodes.
//!
//! ```text
//!   seed ─► generate ─► Case (manifests) ─┬─► kubernetes: the Go program's filters ─┐
//!                                         └─► divvy: words ─► engine ───────────────┴─► same?
//!                                                                   no ─► shrink ─► report
//! ```
//!
//! Where divvy means to differ is written down in docs/differences.md, and the generator makes no
//! such cases.

mod case;
mod divvy;
mod generate;
mod kubernetes;
mod meant;
mod shrink;

pub use case::Case;
pub use divvy::Answer;
pub use generate::{Topic, generate};
pub use kubernetes::{Filters, Verdict};

use std::fmt::Write;

/// How many cases were compared, and what they were like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All.
    pub cases: usize,
    /// Those that the API server would not let in, so that there is nothing to compare.
    pub invalid: usize,
    /// Those where some nodes are feasible and some are not: the ones that tell most.
    pub divided: usize,
}

/// Compares cases of a topic with the seeds from `seed` on. The error is a report of the first
/// difference, made as small as possible.
pub fn compare(
    filters: &mut Filters,
    topic: Topic,
    seed: u64,
    cases: usize,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for seed in (seed..).take(cases) {
        let case = generate(topic, seed);
        tally.cases += 1;
        match differ(filters, &case)? {
            Found::Invalid => tally.invalid += 1,
            Found::Same { divided } => tally.divided += usize::from(divided),
            Found::Different(how) => {
                let mut differs = |case: &Case| matches!(differ(filters, case), Ok(Found::Different(now)) if now.is_like(&how));
                let small = shrink::shrink(case, &mut differs);
                return Err(report(topic, seed, &small, filters));
            }
        }
    }
    Ok(tally)
}

enum Found {
    Invalid,
    Same { divided: bool },
    Different(Difference),
}

#[derive(Debug)]
enum Difference {
    /// divvy cannot read the case.
    Unreadable,
    /// The feasible nodes are not the same.
    Nodes,
    /// The engine's own search, for which ranking and journal are used, finds something else
    /// than the plain list of feasible nodes.
    Placement,
}

impl Difference {
    /// Whether it is of the same kind, so that shrinking does not end at another difference.
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

fn differ(filters: &mut Filters, case: &Case) -> Result<Found, String> {
    if meant::is_meant(case) {
        return Ok(Found::Invalid);
    }
    let verdict = filters.ask(case).map_err(|e| e.to_string())?;
    let Verdict::Nodes { feasible, .. } = verdict else { return Ok(Found::Invalid) };
    let Ok(answer) = divvy::ask(case) else {
        return Ok(Found::Different(Difference::Unreadable));
    };
    if answer.feasible != feasible {
        return Ok(Found::Different(Difference::Nodes));
    }
    let is_right = match &answer.placed {
        Some(node) => feasible.contains(node),
        None => feasible.is_empty(),
    };
    if !is_right {
        return Ok(Found::Different(Difference::Placement));
    }
    let nodes = case.objects.iter().filter(|object| object["kind"] == "Node").count();
    Ok(Found::Same { divided: !feasible.is_empty() && feasible.len() < nodes })
}

fn report(topic: Topic, seed: u64, case: &Case, filters: &mut Filters) -> String {
    let mut text = format!("{topic}: kube-scheduler and divvy differ, seed {seed}\n");
    if let Ok(Found::Different(how)) = differ(filters, case) {
        let _ = writeln!(text, "{how:?}");
    }
    for object in case.objects.iter().chain([&case.pod]) {
        let _ = writeln!(text, "  {object}");
    }
    let _ = writeln!(text, "kube-scheduler: {:#?}", filters.ask(case));
    let _ = writeln!(text, "divvy: {:#?} {:#?}", divvy::ask(case), divvy::reasons(case));
    text
}
