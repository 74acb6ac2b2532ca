//! `divvy scheduler`: the loop around the state.
//!
//! ```text
//!   lease ─► watches ─► State ─► actions ─► writers ─► outcomes ─► State ...
//! ```
//!
//! One task owns the state. Watches decode in tasks of their own, every write is a task of its
//! own, and their number is bounded: of bindings by the state, of all else here.

use crate::config_map::{self, ConfigMap};
use crate::health::Health;
use crate::lease::{self, Leadership, LeaseError, LeaseSettings, Lost};
use crate::metrics::Metrics;
use crate::objects::PodItem;
use crate::reload::reload;
use crate::serve;
use crate::settings::{Lease, Overrides, Settings};
use crate::side::Side;
use crate::sources::{self, Heard, Lists, Watches};
use crate::state::{Action, Clock, Outcome, State, StateSettings};
use crate::writer::{Writer, is_binding};
use divvy_api::resources::PODS;
use divvy_api::watch::{Batch, Pace, Seen};
use divvy_api::{Api, ClientError, Fence, writing_part};
use divvy_engine::{Config, Event, Scheduler};
use divvy_ledger::Position;
use divvy_views::{Totals, slice_totals, top_queues};
use divvy_words::PluginConfigs;
use k8s_openapi::jiff::Timestamp;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Why the scheduler stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no way to the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Health and metrics cannot be served.
    #[error("failed to listen on {address}: {why}")]
    Listen {
        /// Where.
        address: String,
        /// Why not.
        why: std::io::Error,
    },
    /// Another replica leads now, or may lead.
    #[error("{0}: another replica may lead now")]
    LostLease(Lost),
    /// Leadership could not even be asked for.
    #[error(transparent)]
    Election(#[from] LeaseError),
    /// A part of this process has died: what it would have told is not known any more.
    #[error("the watch of {0} has died, see the log: start divvy again")]
    Watch(&'static str),
    /// The first settings are wrong.
    #[error("{0}")]
    Config(String),
}

/// Conditions and events that are written at a time.
pub(crate) const SIDE_WRITES: usize = 16;
/// Of these, how many are left to events while bindings are written, which somebody waits for.
const EVENTS_BESIDE_BINDINGS: usize = 2;
/// A loop that has not turned for so long hangs.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How long a stop waits for writes under way.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// How long it starts those that still wait for their turn.
const LAST_STARTS: Duration = Duration::from_secs(3);
/// How often gauges and reasons are brought up to date.
const SECOND: Duration = Duration::from_secs(1);
/// How often what queues hold is counted.
const QUEUES_EVERY: Duration = Duration::from_secs(15);

/// Runs until it is told to stop, or may not go on.
pub async fn run(settings: Settings, stop: impl Future<Output = ()>) -> Result<(), RunError> {
    tokio::pin!(stop);
    let metrics = Metrics::new();
    let health = Health::new(sources::names(), HEARTBEAT);
    if let Some(address) = settings.listen {
        let listen = |why| RunError::Listen { address: address.to_string(), why };
        let listener = tokio::net::TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        tracing::info!(%address, "serving health and metrics");
        tokio::spawn(serve::serve(listener, metrics.clone(), health.clone()));
    }
    let placing = placing(&settings, &metrics)?;
    let config =
        divvy_api::config(settings.kubeconfig.as_deref(), settings.context.as_deref()).await?;
    let (fence, identity, mut leadership) = match &settings.lease {
        None => {
            let wait = settings.takeover_wait;
            if !wait.is_zero() {
                let seconds = wait.as_secs();
                tracing::info!(
                    seconds,
                    "waiting until nothing that an earlier process has sent can take effect"
                );
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = &mut stop => return Ok(()),
                }
            }
            // Where nobody waited, the next one may.
            let wait = if wait.is_zero() { Settings::TAKEOVER_WAIT } else { wait };
            (Fence::alone(wait), format!("divvy_{}", std::process::id()), None)
        }
        Some(lease) => {
            let fence = Fence::elected(lease.duration);
            let unfenced = Api::connect(config.clone(), Fence::open())?;
            let asked = election(lease)?;
            let identity = asked.identity.clone();
            let lease = format!("{}/{}", lease.namespace, lease.name);
            tracing::info!(%lease, %identity, "waiting to lead");
            health.waits();
            let leadership = tokio::select! {
                led = lease::lead(unfenced, asked, fence.clone()) => led?,
                () = &mut stop => return Ok(()),
            };
            tracing::info!(%lease, %identity, "leading");
            (fence, identity, Some(leadership))
        }
    };
    metrics.set_leader(true);
    health.leads();
    // Only now: what was written by who led before is in the lists.
    let api = Api::connect(config, fence.clone())?.observed(metrics.clone());
    let placing = match settings.config_map.clone() {
        Some(key) => {
            let read = config_map::placing;
            let map = ConfigMap::new(api.clone(), key, &identity, metrics.clone(), read);
            map.follow(placing).await
        }
        None => placing,
    };
    let plugin = watch::channel(PluginConfigs::default()).1;
    let plugin = match settings.plugin_config_map.clone() {
        Some(key) => {
            let read = config_map::plugin_configs;
            let map = ConfigMap::new(api.clone(), key, &identity, metrics.clone(), read);
            map.follow(plugin).await
        }
        None => plugin,
    };
    let mut scheduler = Loop::new(&settings, placing, plugin, api, &identity, metrics, health);
    let ended = scheduler.run(&mut stop, &mut leadership).await;
    let answered = scheduler.finish().await;
    match leadership {
        Some(leadership) if ended.is_ok() && answered => leadership.release().await,
        // The lease runs out by itself: a write that is still under way arrives before that.
        _ => fence.shut(),
    }
    ended
}

/// How to place: as the file says, which is read again when it changes.
fn placing(settings: &Settings, metrics: &Metrics) -> Result<watch::Receiver<Config>, RunError> {
    match settings.config_file.clone() {
        Some(file) => reload(file, metrics.clone()).map_err(RunError::Config),
        None => Ok(watch::channel(Config::default()).1),
    }
}

/// The usual times of an election, in proportion to how long the lease holds.
fn election(lease: &Lease) -> Result<LeaseSettings, LeaseError> {
    let duration = lease.duration;
    let retry = (duration / 6).min(Duration::from_secs(2));
    let usual = LeaseSettings::new(&lease.namespace, &lease.name)?;
    Ok(LeaseSettings { duration, renew_deadline: writing_part(duration), retry, ..usual })
}

/// What the loop hears of.
struct Loop {
    state: State,
    writer: Writer,
    watches: Watches,
    lists: Lists,
    metrics: Metrics,
    health: Health,
    pods: mpsc::Receiver<Batch<PodItem>>,
    pod_watch: JoinHandle<()>,
    placing: watch::Receiver<Config>,
    plugin: watch::Receiver<PluginConfigs>,
    overrides: Overrides,
    others: mpsc::Receiver<Heard>,
    outcomes: mpsc::UnboundedReceiver<Outcome>,
    tell: mpsc::UnboundedSender<Outcome>,
    side: Side,
    side_done: mpsc::UnboundedReceiver<()>,
    tell_side: mpsc::UnboundedSender<()>,
    side_writes: usize,
    /// Up to where the ledger's gauges have followed.
    measured: Position,
    /// When queues were counted: who waits, and in which queue, changes without the ledger.
    counted_at: Instant,
    /// Slices and models are counted in the second after queues.
    counts_slices: bool,
    /// A watch that has died.
    dead: Option<&'static str>,
}

impl Loop {
    fn new(
        settings: &Settings,
        placing: watch::Receiver<Config>,
        mut plugin: watch::Receiver<PluginConfigs>,
        api: Api,
        identity: &str,
        metrics: Metrics,
        health: Health,
    ) -> Self {
        let of_state = StateSettings {
            names: settings.scheduler_names.clone(),
            writes: settings.writes,
            quarantine: settings.quarantine,
            max_grace_period: settings.hand_off.as_ref().map_or(0, |h| h.max_grace_period),
            isolation: settings.isolation.clone(),
            clock: Clock { moment: Instant::now(), unix: Timestamp::now().as_second() },
        };
        let hand_off = settings.hand_off.as_ref().map(|h| h.reservation.resources);
        let config = Config { hand_off, ..settings.overrides.over(*placing.borrow()) };
        let pace = Pace { page: 500, silence: settings.watch_silence };
        let watches = Watches { api: api.clone(), pace };
        let (pods, pod_watch) = watches.start_pods();
        let others = watches.start();
        let (tell, outcomes) = mpsc::unbounded_channel();
        let (tell_side, side_done) = mpsc::unbounded_channel();
        let mut state = State::new(Scheduler::new(config), of_state, sources::names());
        state.plugin_configured(plugin.borrow_and_update().clone());
        Self {
            state,
            writer: Writer::new(api, identity, metrics.clone(), settings.hand_off.clone()),
            watches,
            lists: Lists::default(),
            metrics,
            health,
            pods,
            pod_watch,
            placing,
            plugin,
            overrides: settings.overrides,
            others,
            outcomes,
            tell,
            side: Side::default(),
            side_done,
            tell_side,
            side_writes: 0,
            measured: Position::default(),
            counted_at: Instant::now(),
            counts_slices: false,
            dead: None,
        }
    }

    async fn run(
        &mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
        leadership: &mut Option<Leadership>,
    ) -> Result<(), RunError> {
        let lost = async {
            match leadership {
                Some(leadership) => leadership.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(lost);
        let mut next_second = Instant::now();
        loop {
            let due = match self.state.next_timer() {
                _ if self.state.is_behind() => Instant::now(),
                due => due.map_or(next_second, |due| due.min(next_second)),
            };
            tokio::select! {
                // Writes first: they make room for the next ones.
                biased;
                () = &mut *stop => {
                    tracing::info!("stopping");
                    return Ok(());
                }
                lost = &mut lost => return Err(RunError::LostLease(lost)),
                Some(outcome) = self.outcomes.recv() => self.state.outcome(outcome, Instant::now()),
                Some(()) = self.side_done.recv() => self.side_writes -= 1,
                Some(heard) = self.others.recv() => self.on_others(heard),
                batch = self.pods.recv(), if self.state.takes_pods() => match batch {
                    Some(batch) => self.on_pods(batch),
                    None => self.dead = Some(PODS.name),
                },
                () = tokio::time::sleep_until(due.into()) => {}
                Ok(()) = self.placing.changed() => self.configure(),
                Ok(()) = self.plugin.changed() => {
                    let configs = self.plugin.borrow_and_update().clone();
                    self.state.plugin_configured(configs);
                }
            }
            self.health.beat("taking in what changed");
            self.drain();
            if let Some(watch) = self.dead {
                return Err(RunError::Watch(watch));
            }
            self.state.tick(Instant::now());
            if Instant::now() >= next_second {
                self.each_second();
                next_second = Instant::now() + SECOND;
            }
            self.health.beat("deciding");
            let start = Instant::now();
            self.state.pass(Instant::now());
            let actions = self.state.take_actions();
            if !actions.is_empty() {
                self.metrics.pass(start.elapsed());
            }
            self.act(actions);
            self.health.beat("waiting for changes");
        }
    }

    /// Takes in whatever else has come by now, so that one pass sees all of it; not what comes
    /// meanwhile, for there may be no end of that.
    fn drain(&mut self) {
        while let Ok(outcome) = self.outcomes.try_recv() {
            self.state.outcome(outcome, Instant::now());
        }
        while let Ok(()) = self.side_done.try_recv() {
            self.side_writes -= 1;
        }
        for _ in 0..self.others.len() {
            if let Ok(heard) = self.others.try_recv() {
                self.on_others(heard);
            }
        }
        if self.state.takes_pods()
            && let Ok(batch) = self.pods.try_recv()
        {
            self.on_pods(batch);
        }
    }

    fn on_pods(&mut self, batch: Batch<PodItem>) {
        let seen = self.lists.pods(batch, &mut self.state, Instant::now());
        self.has_seen(seen);
    }

    fn on_others(&mut self, heard: Heard) {
        match self.lists.others(heard, &mut self.state, Instant::now()) {
            Ok(seen) => self.has_seen(seen),
            Err(ended) => self.dead = Some(ended),
        }
    }

    fn has_seen(&self, seen: Seen) {
        if let Some(version) = seen.version {
            self.metrics.set_watch_version(seen.watch, version);
        }
    }

    fn configure(&mut self) {
        let hand_off = self.state.scheduler().config().hand_off;
        let config = self.overrides.over(*self.placing.borrow_and_update());
        self.state.apply(Event::Settings(Config { hand_off, ..config }));
    }

    fn each_second(&mut self) {
        self.state.refresh(Instant::now());
        for watch in sources::names().filter(|watch| self.state.is_known(watch)) {
            self.health.listed(watch);
        }
        self.measure();
    }

    /// Brings the gauges up to date, if something has changed.
    fn measure(&mut self) {
        let now = Timestamp::now().as_second();
        for created in self.state.take_bound() {
            let seconds = now.saturating_sub(created);
            self.metrics.bound(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        }
        for watch in sources::names() {
            self.metrics.set_synced(watch, self.state.is_known(watch));
        }
        self.metrics.set_pending(self.state.reasons());
        self.metrics.set_queued_writes(self.state.writing() + self.side.len() + self.side_writes);
        let (conflicting, missing) = self.state.troubled_cards();
        self.metrics.set_troubled_cards(conflicting, missing);
        self.metrics.set_ghosts(self.state.ghost_count());
        let position = self.state.scheduler().ledger().journal().end();
        if position != self.measured {
            self.measured = position;
            self.metrics.set_ledger(&Totals::of(self.state.scheduler()));
        }
        // These look at every pod, so not each second, and not both in the same.
        if std::mem::take(&mut self.counts_slices) {
            let scheduler = self.state.scheduler();
            self.metrics.set_slices(&slice_totals(scheduler));
            self.metrics.set_models(&Totals::by_model(scheduler));
            self.metrics.set_nodes(&Totals::by_node(scheduler));
        } else if self.counted_at.elapsed() >= QUEUES_EVERY {
            self.counted_at = Instant::now();
            let scheduler = self.state.scheduler();
            self.metrics.set_queues(&top_queues(scheduler).items, self.counted_at);
            self.counts_slices = true;
            self.metrics.set_oldest_pending(scheduler.oldest_waiting());
        }
    }

    /// Starts the writes that were decided.
    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            if matches!(action, Action::RelistPods) {
                self.pod_watch.abort();
                (self.pods, self.pod_watch) = self.watches.start_pods();
            } else if is_binding(&action) {
                let (writer, tell) = (self.writer.clone(), self.tell.clone());
                tokio::spawn(async move {
                    if let Some(outcome) = writer.perform(action).await {
                        let _ = tell.send(outcome);
                    }
                });
            } else {
                self.side.push(action);
            }
        }
        while self.side_writes < SIDE_WRITES
            && let Some(mut action) = self
                .side
                .pop(self.state.writing() > 0 && self.side_writes >= EVENTS_BESIDE_BINDINGS)
        {
            if !self.state.is_due(&mut action) {
                continue;
            }
            self.side_writes += 1;
            let (writer, tell, done) =
                (self.writer.clone(), self.tell.clone(), self.tell_side.clone());
            tokio::spawn(async move {
                if let Some(outcome) = writer.perform(action).await {
                    let _ = tell.send(outcome);
                }
                let _ = done.send(());
            });
        }
    }

    /// Waits for the writes under way: what was decided and not written is decided again by
    /// whoever comes next. Returns whether all were answered.
    async fn finish(&mut self) -> bool {
        let begin = tokio::time::Instant::now();
        let end = tokio::time::sleep_until(begin + LAST_WRITES);
        tokio::pin!(end);
        loop {
            let mut actions = self.state.take_actions();
            if begin.elapsed() >= LAST_STARTS {
                actions.clear();
                self.side = Side::default();
            }
            self.act(actions);
            if self.state.writing() == 0 && self.side_writes == 0 {
                return true;
            }
            tokio::select! {
                Some(outcome) = self.outcomes.recv() => {
                    self.state.outcome(outcome, Instant::now());
                }
                Some(()) = self.side_done.recv() => self.side_writes -= 1,
                () = &mut end => return false,
            }
        }
    }
}
