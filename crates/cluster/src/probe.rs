//! The edge without its connections, for who tries it with inputs (crates/fuzz): what an API server
//! would say goes in as text, and what is to be written comes out as requests.
//!
//! ```text
//!   text ─► decode ─► State ─► Write ─► writer ─► Asked ─► a function instead of a server
//!                       ▲                                      │
//!                       └────────────── Outcome ◄──────────────┘
//! ```

use crate::api::Api;
use crate::fence::Fence;
use crate::metrics::Metrics;
use crate::settings::HandOffSettings;
use crate::sources::{self, Heard, Lists};
use crate::state::{Action, Clock, Rules, State};
use crate::watch::{Batch, Change, Item, Source, Split, decode, read_lines};
use crate::writer::Writer;
use divvy_engine::{Config, Scheduler};
use divvy_words::{keys, reservation};
use http::{Request, Response};
use kube::client::Body;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The objects of a list that comes in pieces, and the rest of it.
pub fn split<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(Vec<Vec<u8>>, Vec<u8>), &'static str> {
    let (mut split, mut items) = (Split::default(), Vec::new());
    for piece in pieces {
        split.push(piece, |item| items.push(item.to_vec()))?;
    }
    Ok((items, split.rest().to_vec()))
}

/// The names of all watches.
pub fn watches() -> impl Iterator<Item = &'static str> {
    sources::names()
}

/// A request that a server would get.
#[derive(Clone, Debug)]
pub struct Asked {
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
pub type Server = Arc<dyn Fn(Asked) -> Answered + Send + Sync>;

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
enum Told<'a> {
    Lines(&'a [u8]),
    List(&'a [String]),
}

impl Told<'_> {
    fn batch<T: Item>(&self, source: &Source) -> Batch<T> {
        let changes = match self {
            Self::Lines(text) => {
                let mut changes = Vec::new();
                // A line that makes no sense ends the watch; what was told before it counts.
                let _ = read_lines(source, text, &mut String::new(), &mut changes);
                changes
            }
            Self::List(objects) => {
                let seen = objects.iter().filter_map(|text| decode(source, text));
                let all = [Change::Relisting].into_iter().chain(seen.map(Change::Seen));
                all.chain([Change::Listed]).collect()
            }
        };
        source.batch(changes, None)
    }
}

impl Live {
    /// One that knows nothing yet, and hands cards to containers if `hand_off`.
    pub fn new(hand_off: bool, server: Server) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let reservation = reservation::Settings {
            image: "divvy".to_owned(),
            runtime_class: String::new(),
            resources: reservation::USUAL,
        };
        let hand_off =
            hand_off.then_some(HandOffSettings { reservation, cdi: false, max_grace_period: 600 });
        let now = Instant::now();
        let rules = Rules {
            names: keys::SCHEDULER_NAMES.map(str::to_owned).to_vec(),
            writes: 4,
            quarantine: Duration::from_secs(10),
            max_grace_period: 600,
            clock: Clock { moment: now, unix: BEGIN },
        };
        let opening = hand_off.as_ref().map(|h| h.reservation.resources);
        let config = Config { hand_off: opening, ..Config::default() };
        let state = State::new(Scheduler::taped(config), rules, sources::names());
        let service = tower::service_fn(move |request| respond(Arc::clone(&server), request));
        let client = runtime.block_on(async { kube::Client::new(service, "default") });
        let api = Api::new(client, Fence::open(), Metrics::new());
        let writer = Writer::new(api, "probe", Metrics::new(), hand_off);
        Ok(Self { lists: Lists::default(), state, writer, runtime, now })
    }

    /// Hears lines of a watch.
    pub fn hear(&mut self, watch: &str, lines: &[u8]) {
        self.take_in(watch, &Told::Lines(lines));
    }

    /// Hears of all objects of a collection.
    pub fn list(&mut self, watch: &str, objects: &[String]) {
        self.take_in(watch, &Told::List(objects));
    }

    fn take_in(&mut self, watch: &str, told: &Told<'_>) {
        if watch == sources::PODS.name {
            // They are not read before all else is known.
            if self.state.takes_pods() {
                self.lists.pods(told.batch(&sources::PODS), &mut self.state, self.now);
            }
        } else if let Some(heard) = heard(watch, told) {
            // None of them ends.
            let _ = self.lists.others(heard, &mut self.state);
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

fn heard(watch: &str, told: &Told<'_>) -> Option<Heard> {
    let is_it = |source: &Source| source.name == watch;
    Some(if is_it(&sources::NODES) {
        Heard::Nodes(told.batch(&sources::NODES))
    } else if is_it(&sources::NAMESPACES) {
        Heard::Namespaces(told.batch(&sources::NAMESPACES))
    } else if is_it(&sources::BIND_REQUESTS) {
        Heard::BindRequests(told.batch(&sources::BIND_REQUESTS))
    } else if let Some((kind, source)) = sources::STORAGE.iter().find(|(_, source)| is_it(source)) {
        Heard::Storage(*kind, told.batch(source))
    } else {
        let (api_group, source) = sources::GROUPS.iter().find(|(_, source)| is_it(source))?;
        Heard::Groups(api_group, told.batch(source))
    })
}

async fn respond(server: Server, request: Request<Body>) -> Result<Response<Body>, &'static str> {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await.map_err(|_| "the body cannot be read")?;
    let (method, path) = (parts.method.to_string(), parts.uri.path().to_owned());
    let (status, body) = server(Asked { method, path, body: body.into() }).ok_or("no answer")?;
    let response = Response::builder().status(status).body(Body::from(body));
    response.map_err(|_| "the answer makes no sense")
}
