//! What went into a scheduler, and what came out: the same again gives the same plans. For whoever
//! looks for a mistake, and for tests.

use crate::event::{Event, Plan};
use crate::scheduler::Scheduler;

/// All events and passes since a scheduler was new.
#[derive(Clone, Debug, Default)]
pub struct Tape(Vec<Step>);

#[derive(Clone, Debug)]
enum Step {
    Event(Event),
    Slice { limit: usize, work: u64, plan: Plan },
}

impl Tape {
    pub(crate) fn event(&mut self, event: Event) {
        self.0.push(Step::Event(event));
    }

    pub(crate) fn slice(&mut self, limit: usize, work: u64, plan: Plan) {
        self.0.push(Step::Slice { limit, work, plan });
    }

    /// The scheduler after the same events and passes, or which pass decided something else.
    pub fn replay(&self) -> Result<Scheduler, String> {
        let mut scheduler = Scheduler::default();
        for (at, step) in self.0.iter().enumerate() {
            match step {
                // What was odd in it was told when it came.
                Step::Event(event) => drop(scheduler.apply(event.clone())),
                Step::Slice { limit, work, plan } => {
                    let again = scheduler.slice(*limit, &mut work.clone());
                    if again != *plan {
                        return Err(format!("step {at} gave {plan:?}, and now {again:?}"));
                    }
                }
            }
        }
        Ok(scheduler)
    }
}
