//! What the API says, in any order, twice, deleted and back, and any answer to any write: the
//! ledger agrees with itself after each, and two schedulers that hear the same want the same.

mod things;

use super::clusters::classes::{provided, told_apart};
use crate::edit::edit;
use crate::input::Input;
use divvy_cluster::probe::{Answered, Live, Server, Write, watches};
use divvy_engine::Scheduler;
use divvy_words::isolation::Isolation;
use divvy_words::reservation;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use things::{node, other, pod, with_level};

/// So many steps are enough for anything.
const MOST_STEPS: usize = 120;

/// Steps of a cluster that need not make sense.
pub fn events(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let hand_off = input.once_in(2);
    let twin = || Twin::new(hand_off, told_apart(bytes));
    let Ok(twins) = [twin(), twin()].into_iter().collect() else { return };
    let mut twins: Vec<Twin> = twins;
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            return;
        }
        let step = Step::read(&mut input, bytes.last().is_some_and(|last| last % 2 == 1));
        twins.iter_mut().for_each(|twin| twin.take(&step));
        if let [one, other] = &twins[..] {
            assert_eq!(one.wants, other.wants, "after {step:?}");
            one.deletes_only_its_own();
            let (one, other) = (one.live.scheduler(), other.live.scheduler());
            assert_eq!(one.ledger().audit(), Ok(()), "after {step:?}");
            assert_eq!(held(one), held(other), "after {step:?}");
        }
    }
}

/// Who holds what.
fn held(scheduler: &Scheduler) -> BTreeMap<String, String> {
    let node = |holding: &divvy_ledger::Holding| {
        scheduler.ledger().node(holding.node).map(|node| node.name().clone())
    };
    let holders = scheduler.holders().into_iter();
    holders.map(|(key, h)| (key.to_string(), format!("{:?} {:?}", node(h), h.cards))).collect()
}

#[derive(Debug)]
enum Step {
    Hear(&'static str, String),
    List(&'static str, Vec<String>),
    Pass,
    Wait(Duration),
    /// Which of the writes, and what each of its requests is answered.
    Perform(usize, VecDeque<Answered>),
}

impl Step {
    /// With levels told apart pods and nodes have some.
    fn read(input: &mut Input<'_>, has_levels: bool) -> Self {
        let pod = |input: &mut Input<'_>| if has_levels { with_level(input) } else { pod(input) };
        let node = |input: &mut Input<'_>| match node(input) {
            node if has_levels && input.once_in(2) => provided(node),
            node => node,
        };
        match input.below(16) {
            0..5 => Self::Hear("pods", line(input, pod)),
            5 => Self::Hear("nodes", line(input, node)),
            6 => {
                let (watch, object) = other(input);
                Self::Hear(watch, line(input, |_| object))
            }
            7 => {
                let pods = (0..input.below(6)).map(|_| pod(input).to_string()).collect();
                Self::List("pods", pods)
            }
            8 => {
                let nodes = (0..input.below(4)).map(|_| node(input).to_string()).collect();
                Self::List("nodes", nodes)
            }
            9 => {
                let watch = input.pick(&watches().collect::<Vec<_>>());
                Self::Hear(watch, input.text(60) + "\n")
            }
            10 => Self::Wait(Duration::from_secs(input.pick(&[1, 5, 30, 61, 700, 100_000]))),
            11 | 12 => Self::Pass,
            _ => {
                let which = input.below(8);
                Self::Perform(which, (0..input.below(4)).map(|_| answered(input)).collect())
            }
        }
    }
}

/// A line of a watch; now and then of an object that was changed.
fn line(input: &mut Input<'_>, object: impl FnOnce(&mut Input<'_>) -> serde_json::Value) -> String {
    let kind = input.pick(&["ADDED", "MODIFIED", "DELETED"]);
    let mut object = object(input);
    if input.once_in(6) {
        edit(input, &mut object);
    }
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn answered(input: &mut Input<'_>) -> Answered {
    // Not 429: the writer would wait for a while, and then do the same again.
    let status = input.pick(&[200, 201, 404, 409, 403, 410, 500]);
    let body = match input.below(4) {
        0 => "{}".to_owned(),
        1 | 2 => pod(input).to_string(),
        _ => node(input).to_string(),
    };
    (!input.once_in(8)).then_some((status, body.into_bytes()))
}

/// One of two schedulers that are told the same.
struct Twin {
    live: Live,
    /// What is to be written, and how it is shown.
    writes: Vec<Write>,
    wants: Vec<String>,
    script: Arc<Mutex<Script>>,
}

/// What the next requests are answered, and what was to be deleted.
#[derive(Default)]
struct Script {
    answers: VecDeque<Answered>,
    deleted: Vec<String>,
}

fn lock(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Twin {
    fn new(hand_off: bool, isolation: Option<Isolation>) -> std::io::Result<Self> {
        let script = Arc::new(Mutex::new(Script::default()));
        let told = Arc::clone(&script);
        let server: Server = Arc::new(move |asked| {
            let mut told = lock(&told);
            told.deleted.extend((asked.method == "DELETE").then_some(asked.path));
            told.answers.pop_front().flatten()
        });
        let mut live = Live::new(hand_off, isolation, server)?;
        watches().filter(|watch| *watch != "pods").for_each(|watch| live.list(watch, &[]));
        live.list("pods", &[]);
        Ok(Self { live, writes: Vec::new(), wants: Vec::new(), script })
    }

    /// No pod is deleted to repair what is known of it.
    fn deletes_only_its_own(&self) {
        let own = format!("/api/v1/namespaces/{}/pods/", reservation::NAMESPACE);
        let deleted = &lock(&self.script).deleted;
        assert!(deleted.iter().all(|path| path.starts_with(&own)), "{deleted:?}");
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Hear(watch, lines) => self.live.hear(watch, lines.as_bytes()),
            Step::List(watch, objects) => self.live.list(watch, objects),
            Step::Pass => {}
            Step::Wait(time) => self.live.wait(*time),
            Step::Perform(which, answers) if !self.writes.is_empty() => {
                let write = self.writes.remove(which % self.writes.len());
                lock(&self.script).answers.clone_from(answers);
                self.live.perform(write);
            }
            Step::Perform(..) => {}
        }
        self.writes.extend(self.live.pass());
        // Which of two things is written first is nobody's business.
        self.writes.sort_by_cached_key(|write| format!("{write:?}"));
        self.wants = self.writes.iter().map(|write| format!("{write:?}")).collect();
    }
}
