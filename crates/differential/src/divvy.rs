//! What divvy says of a case: the same manifests through the words into the engine.

use crate::case::Case;
use divvy_engine::{Bound, BoundCards, Event, PlanEffect, PodRecord, Reason, Scheduler, Standing};
use divvy_words::{Content, Entry, Object, Priorities, read};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What divvy says of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Where the pod may go, sorted.
    pub feasible: Vec<String>,
    /// Where the engine's own search put the pod, if anywhere.
    pub placed: Option<String>,
}

/// Asks divvy, or says what it cannot read.
pub fn ask(case: &Case) -> Result<Answer, String> {
    let (mut scheduler, record) = enter(case)?;
    let feasible = feasible(&scheduler, &record);
    Ok(Answer { feasible, placed: place(&mut scheduler, record) })
}

fn feasible(scheduler: &Scheduler, record: &PodRecord) -> Vec<String> {
    scheduler.feasible(record).iter().map(ToString::to_string).collect()
}

/// The cluster in a scheduler, and the pod.
fn enter(case: &Case) -> Result<(Scheduler, PodRecord), String> {
    let mut scheduler = Scheduler::default();
    let cluster = objects(&case.cluster())?;
    for event in divvy_words::namespaces(&cluster) {
        scheduler.apply(event).map_err(|e| e.to_string())?;
    }
    for object in &cluster {
        enter_object(object, &mut scheduler)?;
    }
    let [object] = objects(&case.pod.to_string())?
        .try_into()
        .map_err(|all: Vec<Object>| format!("{} pods instead of one", all.len()))?;
    let record = record(&object).ok_or("the pod is no Pod")?;
    Ok((scheduler, record))
}

fn objects(text: &str) -> Result<Vec<Object>, String> {
    let entries = read("case", text, &|_| ()).map_err(|e| e.to_string())?;
    let object = |entry| match entry {
        Entry::Object(object) => Ok(object),
        Entry::Malformed { kind, name, error, .. } => Err(format!("{kind} {name}: {error}")),
    };
    entries.into_iter().map(object).collect()
}

fn record(object: &Object) -> Option<PodRecord> {
    let Content::Pod(spec, status) = &object.content else { return None };
    let priorities = Priorities::default();
    Some(divvy_words::pod(&object.metadata, spec, Some(status), None, &priorities))
}

fn enter_object(object: &Object, scheduler: &mut Scheduler) -> Result<(), String> {
    let event = match &object.content {
        Content::Node(_) => Event::Node(Box::new(divvy_words::node(object)?.0)),
        Content::Pod(_, status) if status.has_ended() => return Ok(()),
        Content::Pod(..) => {
            let Some(mut record) = record(object) else { return Ok(()) };
            let terminating = !object.metadata.deletion_timestamp.is_empty();
            let rules = Arc::make_mut(&mut record.spec.rules);
            let Some(node) = rules.node_name.take() else { return Ok(()) };
            let cards = match record.spec.request.whole_cards() {
                0 => BoundCards::Nothing,
                _ => BoundCards::Choose,
            };
            record.bound = Some(Bound { terminating, ..Bound::new(node, cards) });
            Event::Pod(Box::new(record))
        }
        Content::Storage(kind, manifest) => Event::Storage(divvy_words::storage(*kind, manifest)?),
        _ => return Ok(()),
    };
    // What a bound pod has wrong is told to people; the rest of it is entered.
    let _ = scheduler.apply(event);
    Ok(())
}

/// Why the nodes that are not feasible are not, by node; `*` for all nodes. The others are
/// avoided, so that the pod waits and has to say why.
pub fn reasons(case: &Case) -> Result<BTreeMap<String, String>, String> {
    let (mut scheduler, mut record) = enter(case)?;
    let feasible = feasible(&scheduler, &record);
    let avoided = feasible.iter().map(|node| (node.as_str().into(), "feasible".into()));
    Arc::make_mut(&mut record.spec.rules).avoid.extend(avoided);
    let key = record.key.clone();
    let _ = scheduler.apply(Event::Pod(Box::new(record)));
    scheduler.pass(usize::MAX);
    let Some(Standing::Waiting(why)) = scheduler.standing(&key) else {
        return Ok(BTreeMap::new());
    };
    let mut refused = BTreeMap::new();
    for group in why.refusals {
        if matches!(group.reason, Reason::Refused(_)) {
            continue;
        }
        let all = [Arc::from("*")];
        let nodes = if group.nodes.is_empty() { &all[..] } else { &group.nodes };
        refused.extend(nodes.iter().map(|node| (node.to_string(), group.reason.to_string())));
    }
    Ok(refused)
}

fn place(scheduler: &mut Scheduler, record: PodRecord) -> Option<String> {
    let key = record.key.clone();
    let _ = scheduler.apply(Event::Pod(Box::new(record)));
    scheduler.pass(usize::MAX).into_effects().find_map(|effect| match effect {
        PlanEffect::Bind { pod, placement, .. } if pod == key => Some(placement.node.to_string()),
        _ => None,
    })
}
