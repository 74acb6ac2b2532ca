//! How many more of each pod of the workload would fit.

use crate::{Progress, Rehearsal};
use divvy_engine::{Diagnosis, Fill, ObjectKey, PodRecord, PodSpec, Reason, Scheduler};
use std::collections::HashMap;

/// Nobody counts further: pods that ask nothing fit until all pod slots are taken.
pub const MAX_FILL: u32 = 1_000_000;

/// How many nodes may be looked at for all pods together; some seconds.
const WORK: u64 = 1_000_000_000;

/// What one more pod of an object of the workload would be.
#[derive(Clone, Debug)]
pub struct OneMore {
    /// The kind of the object.
    pub kind: Box<str>,
    /// The pod, under the name of the object.
    pub record: PodRecord,
}

/// How many more pods of some objects fit, which all ask the same.
#[derive(Clone, Debug)]
pub struct More {
    /// Kind and name of each.
    pub objects: Vec<(Box<str>, ObjectKey)>,
    /// Where, and why no more.
    pub fill: Fill,
}

impl Rehearsal {
    /// How many more pods of each object of the workload fit besides all that have a place, each for
    /// itself: at most so many.
    pub fn fill(&mut self, most: u32, progress: &dyn Progress) -> Vec<More> {
        let templates = std::mem::take(&mut self.templates);
        let mut known: HashMap<(&str, &PodSpec, Option<&str>), usize> = HashMap::new();
        let mut alike: Vec<Vec<&OneMore>> = Vec::new();
        for template in &templates {
            let PodRecord { key, spec, invalid, .. } = &template.record;
            let ask = (key.namespace(), spec, invalid.as_deref());
            let at = *known.entry(ask).or_insert(alike.len());
            match alike.get_mut(at) {
                Some(same) => same.push(template),
                None => alike.push(vec![template]),
            }
        }
        progress.begin("filling", alike.len() as u64);
        let work = WORK / (alike.len() as u64).max(1);
        let more = alike.into_iter().filter_map(|same| {
            let record = &same.first()?.record;
            let fill = fill(&mut self.scheduler, self.quotas.room(record), record, most, work);
            progress.advance(1);
            let object = |t: &&OneMore| (t.kind.clone(), t.record.key.clone());
            Some(More { objects: same.iter().map(object).collect(), fill })
        });
        let more = more.collect();
        self.templates = templates;
        more
    }
}

/// No more than the quotas of the namespace leave room for.
fn fill(
    scheduler: &mut Scheduler,
    room: Option<(u128, String)>,
    record: &PodRecord,
    most: u32,
    work: u64,
) -> Fill {
    let Some((room, why)) = room.filter(|(room, _)| *room <= most.into()) else {
        return scheduler.fill(record, most as usize, work);
    };
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    let mut fill = scheduler.fill(record, room, work);
    let count: usize = fill.nodes.iter().map(|(_, count)| count).sum();
    if count == room && fill.why.is_none() {
        fill.why = Some(Diagnosis::of(Reason::Invalid(why.into())));
    }
    fill
}
