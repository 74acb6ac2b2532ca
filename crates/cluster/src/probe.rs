//! The edge without its connections, for who tries it with inputs (crates/fuzz): what an API server
//! would say goes in as text, and what is to be written comes out as requests.
//!
//! ```text
//!   text ─► decode ─► State ─► Write ─► writer ─► Requested ─► a function instead of a server
//!                       ▲                                      │
//!                       └────────────── Outcome ◄──────────────┘
//! ```

use crate::metrics::Metrics;
use crate::settings::HandOffSettings;
use crate::sources::{self, Heard, Lists};
use crate::state::{Action, Clock, State, StateSettings};
use crate::writer::Writer;
use divvy_api::resources::{KAI_BIND_REQUESTS, NAMESPACES, NODES, PODS};
use divvy_api::watch::{Batch, Change, Item, decode, read_lines};
use divvy_api::{Api, Resource};
use divvy_engine::{Config, Scheduler};
use divvy_words::isolation::Isolation;
use divvy_words::{keys, reservation};
use http::{Request, Response};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The names of all watches.
pub fn watches() -> impl Iterator<Item = &'static str> {
    sources::names()
}

/// A request that a server would get.
#[derive(Clone, Debug)]
pub struct Requested {
    /// `GET`, `POST`, `PATCH`, `PUT` or `DELETE`.
    pub method: String,
    /// Its path without what follows the question mark.
    pub path: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// The status of an answer and its body; `None` if none came.
pub type Answered = Option<(u16, Vec<u8>)>;

/// What answers instead of a server.
pub type Server = Arc<dyn Fn(Requested) -> Answered + Send + Sync>;

/// Something that the scheduler wants to have written.
#[derive(Debug)]
pub struct Write(Action);

impl Write {
    /// Whether nothing is to be written, but the pods are to be listed anew.
    pub const fn is_relist(&self) -> bool {
        matches!(self.0, Action::RelistPods)
    }
}

/// A scheduler that hears and writes only what it is told to.
pub struct Live {
    lists: Lists,
    state: State,
    writer: Writer,
    runtime: Runtime,
    now: Instant,
}

/// What time it is for others when it begins, in seconds since 1970.
pub const BEGIN: i64 = 1_800_000_000;

/// What is told of a collection.
enum Delivery<'a> {
    Lines(&'a [u8]),
    List(&'a [String]),
}

impl Delivery<'_> {
    fn batch<T: Item>(&self, resource: &Resource) -> Batch<T> {
        let changes = match self {
            Self::Lines(text) => {
                let mut changes = Vec::new();
                // A line that makes no sense ends the watch; what was told before it counts.
                let _ = read_lines(resource, text, &mut String::new(), &mut changes);
                changes
            }
            Self::List(objects) => {
                let seen = objects.iter().filter_map(|text| decode(resource, text));
                let all = [Change::Relisting].into_iter().chain(seen.map(Change::Seen));
                all.chain([Change::Listed]).collect()
            }
        };
        Batch::new(resource, changes, None)
    }
}

impl Live {
    /// One that knows nothing yet, hands cards to containers if `hand_off`, and tells levels of
    /// isolation apart if there is something to isolate by.
    pub fn new(
        hand_off: bool,
        isolation: Option<Isolation>,
        server: Server,
    ) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let reservation = reservation::Settings {
            image: "divvy".to_owned(),
            runtime_class: String::new(),
            resources: reservation::USUAL,
        };
        let hand_off =
            hand_off.then_some(HandOffSettings { reservation, cdi: false, max_grace_period: 600 });
        let now = Instant::now();
        let settings = StateSettings {
            names: keys::SCHEDULER_NAMES.map(str::to_owned).to_vec(),
            writes: 4,
            quarantine: Duration::from_secs(10),
            max_grace_period: 600,
            isolation,
            clock: Clock { moment: now, unix: BEGIN },
        };
        let opening = hand_off.as_ref().map(|h| h.reservation.resources);
        let config = Config { hand_off: opening, ..Config::default() };
        let state = State::new(Scheduler::taped(config), settings, sources::names());
        let answer = move |request| respond(&server, request);
        let api = runtime.block_on(async { Api::answered_by(answer) });
        let writer = Writer::new(api, "probe", Metrics::new(), hand_off);
        Ok(Self { lists: Lists::default(), state, writer, runtime, now })
    }

    /// Hears lines of a watch.
    pub fn hear(&mut self, watch: &str, lines: &[u8]) {
        self.take_in(watch, &Delivery::Lines(lines));
    }

    /// Hears of all objects of a collection.
    pub fn list(&mut self, watch: &str, objects: &[String]) {
        self.take_in(watch, &Delivery::List(objects));
    }

    fn take_in(&mut self, watch: &str, told: &Delivery<'_>) {
        if watch == PODS.name {
            // They are not read before all else is known.
            if self.state.takes_pods() {
                self.lists.pods(told.batch(&PODS), &mut self.state, self.now);
            }
        } else if let Some(heard) = heard(watch, told) {
            // None of them ends.
            let _ = self.lists.others(heard, &mut self.state, self.now);
        }
    }

    /// Lets time pass.
    pub fn wait(&mut self, time: Duration) {
        self.now += time;
        self.state.tick(self.now);
        self.state.refresh(self.now);
    }

    /// Decides what can be decided, slice by slice, and gives what is to be written.
    pub fn pass(&mut self) -> Vec<Write> {
        self.state.pass(self.now);
        while self.state.is_behind() {
            self.state.pass(self.now);
        }
        self.state.take_actions().into_iter().map(Write).collect()
    }

    /// Writes something, and takes in what became of it.
    pub fn perform(&mut self, write: Write) {
        let Write(mut action) = write;
        if self.state.is_due(&mut action)
            && let Some(outcome) = self.runtime.block_on(self.writer.perform(action))
        {
            self.state.outcome(outcome, self.now);
        }
    }

    /// The engine.
    pub const fn scheduler(&self) -> &Scheduler {
        self.state.scheduler()
    }
}

fn heard(watch: &str, told: &Delivery<'_>) -> Option<Heard> {
    let is_it = |resource: &Resource| resource.name == watch;
    Some(if is_it(&NODES) {
        Heard::Nodes(told.batch(&NODES))
    } else if is_it(&NAMESPACES) {
        Heard::Namespaces(told.batch(&NAMESPACES))
    } else if is_it(&KAI_BIND_REQUESTS) {
        Heard::BindRequests(told.batch(&KAI_BIND_REQUESTS))
    } else if let Some((kind, resource)) = sources::STORAGE.iter().find(|(_, r)| is_it(r)) {
        Heard::Storage(*kind, told.batch(resource))
    } else {
        let (api_group, resource) = sources::GROUPS.iter().find(|(_, r)| is_it(r))?;
        Heard::Groups(api_group, told.batch(resource))
    })
}

fn respond(server: &Server, request: Request<Vec<u8>>) -> Option<Response<Vec<u8>>> {
    let (parts, body) = request.into_parts();
    let (method, path) = (parts.method.to_string(), parts.uri.path().to_owned());
    let (status, body) = server(Requested { method, path, body })?;
    Response::builder().status(status).body(body).ok()
}
