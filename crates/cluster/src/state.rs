//! What this process knows of the cluster, and what follows from each thing that it hears.
//!
//! Everything here is synchronous and owns no connection: changes and outcomes of writes go in,
//! [`Action`]s come out, and time is an argument.
//!
//! ```text
//!   Change (watch) ──┐                         ┌─► Bind ─► bound, or failed ─┐
//!   Outcome (write) ─┼─► State ─► Scheduler ─► ├─► Tell (condition, event)   │
//!   time ────────────┘      ▲                  └─► Look / Settle ─► the pod ─┤
//!                           └────────────────────────────────────────────────┘
//! ```

mod adopt;
mod bounds;
mod devices;
mod failures;
mod ghosts;
mod groups;
mod hand_off;
mod held_back;
mod listing;
mod marks;
mod nodes;
mod outcome;
mod records;
mod reservations;
mod reserved;
mod settle;
mod slots;
mod storage;
mod taints;
mod timers;
mod told;
mod trouble;
mod unseen;
mod wanted;
mod win_back;

pub(crate) use hand_off::HandOff;
pub(crate) use outcome::Outcome;

use crate::objects::PodItem;
use crate::watch::Change;
use divvy_engine::{ClaimKey, Placement, Scheduler, VolumeStep};
use divvy_engine::{Config, Event, PlanEffect, PodKey};
use divvy_words::cards::NamedShare;
use divvy_words::manifest::StorageKind;
use divvy_words::{Groups, keys, reservation};
use failures::Failures;
use foldhash::{HashMap, HashSet};
use listing::Listing;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::Providing;
use timers::Timers;

/// What to do in the cluster.
#[derive(Debug)]
pub(crate) enum Action {
    /// Bind a pod; [`Outcome::Bound`] or [`Outcome::BindFailed`] follows.
    Bind(Box<Binding>),
    /// Write what makes the claims of a pod be bound; [`Outcome::Provided`] follows.
    Provide { pod: Target, node: Arc<str>, steps: Vec<VolumeStep> },
    /// Say on this version of a pod why it waits, `again` if it says so already with another
    /// reason: condition and event. [`Outcome::Told`] follows.
    Tell { pod: Target, version: Box<str>, text: Arc<str>, again: bool },
    /// Write on a pod that its binding failed, which makes any binding that is still under way
    /// void, and look at it. [`Outcome::Looked`] follows.
    Settle { pod: Target, text: Arc<str>, tries: u32 },
    /// Make a reservation pod. [`Outcome::Reserved`] follows.
    Reserve { key: PodKey, node: Arc<str>, node_uid: Box<str>, group: Box<str> },
    /// Delete a reservation pod, whichever has that name if `uid` is empty.
    /// [`Outcome::Unreserved`] follows.
    Unreserve { key: PodKey, uid: Box<str> },
    /// Look at a pod. [`Outcome::Looked`] follows.
    Look { pod: Target },
    /// Write on a reservation pod what is left of pods on its card. [`Outcome::Remembered`] follows.
    Remember { key: PodKey, ghosts: String },
    /// Name a reservation pod's group anew.
    Relabel { key: PodKey, group: Box<str> },
    /// Write on a share that KAI bound which cards it has. [`Outcome::Recorded`] follows.
    Record { pod: Target, cards: Vec<NamedShare> },
    /// Record a warning about a pod.
    Warn { pod: Target, reason: &'static str, note: String },
    /// Say in a condition of a pod what is wrong with its cards, or that it is over.
    /// [`Outcome::Marked`] follows.
    Mark { pod: Target, reason: &'static str, note: Option<Box<str>> },
    /// Taint a node, or remove the taint. [`Outcome::Tainted`] follows.
    Taint { node: Box<str>, on: bool },
    /// Say on a pod that it is bound.
    Announce { pod: Target, node: Arc<str> },
    /// List the pods anew: which of them are ours has changed.
    RelistPods,
}

/// A pod as a write names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) key: PodKey,
    pub(crate) uid: Box<str>,
}

/// A decision to be written.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) pod: Target,
    /// The version that was decided on: a pod that has changed since is decided on anew.
    pub(crate) version: Box<str>,
    pub(crate) placement: Placement,
    pub(crate) grant: Grant,
    /// What has to be written for its claims before.
    pub(crate) volumes: Vec<VolumeStep>,
}

/// What a binding says of the pod's cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Nothing: it has none, or the device plugin chooses them.
    Nothing,
    /// Which they are, by index; nobody hands them out.
    Indexes,
    /// Which they are, by name, and all that its containers need to see them; once they are held.
    HandOff(Option<HandOff>),
}

/// A pod of ours that is not bound, as far as we heard.
#[derive(Debug)]
struct Waiting {
    uid: Box<str>,
    version: Box<str>,
    created: i64,
    /// What was last said on it, by us or by who led before.
    told: Option<Arc<str>>,
    /// Whether its condition already says that it waits.
    refused: bool,
    /// The name of the reason.
    reason: Option<&'static str>,
    /// The pod groups that it names.
    groups: Vec<Box<str>>,
    stage: Stage,
}

/// How far a pod is that is not bound, as far as we heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing is assumed of it.
    #[default]
    Waits,
    /// It has a place, and its binding can be done any moment, or was.
    Placed,
    /// Its binding was not done because the pod had changed: any look at it tells how.
    Changed,
    /// Its binding failed and may yet be done: [`Action::Settle`] is to make it void.
    Failed,
}

/// How many nodes are looked at in one go, each as often as it takes to judge it: some 20 ms.
const SLICE: u64 = 1 << 19;

/// How the state is to behave.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The scheduler names that are ours.
    pub(crate) names: Vec<String>,
    /// How many bindings are written at a time.
    pub(crate) writes: usize,
    /// How long the cards of a pod that vanished without ending stay closed, after its grace
    /// period.
    pub(crate) quarantine: Duration,
    /// How long the containers of such a share may take to end, in seconds.
    pub(crate) max_grace_period: u32,
    /// What time it is for others.
    pub(crate) clock: Clock,
}

/// A moment on our own clock, and what time it was for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) moment: Instant,
    /// Seconds since 1970.
    pub(crate) unix: i64,
}

impl Clock {
    fn unix(self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.moment).as_secs();
        self.unix.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// When it is that time; `now` if that is over.
    fn instant(self, unix: i64, now: Instant) -> Instant {
        let left = u64::try_from(unix.saturating_sub(self.unix(now))).unwrap_or(0);
        now.checked_add(Duration::from_secs(left)).unwrap_or(now)
    }
}

/// The state of the cluster, and of what we are doing in it.
pub(crate) struct State {
    pub(crate) scheduler: Scheduler,
    rules: Rules,
    pods: Listing<PodKey>,
    nodes: Listing<Box<str>>,
    namespaces: Listing<Box<str>>,
    storage: HashMap<StorageKind, Listing<ClaimKey>>,
    group_lists: HashMap<&'static str, Listing<ClaimKey>>,
    groups: Groups,
    /// The watches that have not told all yet.
    missing: HashSet<&'static str>,
    waiting: HashMap<PodKey, Waiting>,
    failures: HashMap<PodKey, Failures>,
    /// Pods whose claims are being bound.
    providing: HashMap<PodKey, Providing>,
    /// Whether something has changed that they may wait for.
    stirred: bool,
    slots: slots::Slots,
    reservations: reserved::Reservations,
    unseen: unseen::Unseen,
    adoption: adopt::Adoption,
    ghosts: ghosts::Ghosts,
    bounds: bounds::Bounds,
    held_back: held_back::HeldBack,
    /// The cards of whole-GPU pods, where the kubelet tells.
    devices: devices::Devices,
    searches: HashMap<Box<str>, win_back::Search>,
    taints: taints::Taints,
    marks: marks::Marks,
    /// Nodes on which cards are missing, as they were when that was found.
    grounds: HashMap<Box<str>, trouble::Ground>,
    /// Nodes whose shared cards are to be looked at.
    unsettled: HashSet<Box<str>>,
    /// Nodes whose reservations may not be needed any more.
    idle: HashSet<Box<str>>,
    /// The uids of nodes.
    node_uids: HashMap<Box<str>, Box<str>>,
    timers: Timers,
    /// Pods that are KAI's own scheduler.
    kai: HashSet<PodKey>,
    writing: usize,
    is_cut_off: bool,
    told: told::Told,
    pub(crate) actions: Vec<Action>,
    /// When pods that have been bound since somebody looked were created, in seconds since 1970.
    pub(crate) bound_after: Vec<i64>,
}

impl State {
    pub(crate) fn new(
        config: Config,
        rules: Rules,
        watches: impl Iterator<Item = &'static str>,
    ) -> Self {
        Self {
            scheduler: Scheduler::new(config),
            rules,
            pods: Listing::default(),
            nodes: Listing::default(),
            namespaces: Listing::default(),
            storage: HashMap::default(),
            group_lists: HashMap::default(),
            groups: Groups::default(),
            missing: watches.collect(),
            waiting: HashMap::default(),
            failures: HashMap::default(),
            providing: HashMap::default(),
            stirred: false,
            slots: slots::Slots::default(),
            reservations: reserved::Reservations::default(),
            unseen: unseen::Unseen::default(),
            adoption: adopt::Adoption::default(),
            ghosts: ghosts::Ghosts::default(),
            bounds: bounds::Bounds::default(),
            held_back: held_back::HeldBack::default(),
            devices: devices::Devices::default(),
            searches: HashMap::default(),
            taints: taints::Taints::default(),
            marks: marks::Marks::default(),
            grounds: HashMap::default(),
            unsettled: HashSet::default(),
            idle: HashSet::default(),
            node_uids: HashMap::default(),
            timers: Timers::default(),
            kai: HashSet::default(),
            writing: 0,
            is_cut_off: false,
            told: told::Told::default(),
            actions: Vec::new(),
            bound_after: Vec::new(),
        }
    }

    /// Whether a watch has told all at least once.
    pub(crate) fn is_known(&self, watch: &str) -> bool {
        !self.missing.contains(watch)
    }

    /// Whether all is known that pods may refer to.
    pub(crate) fn takes_pods(&self) -> bool {
        self.missing.iter().all(|watch| *watch == "pods")
    }

    /// Whether every watch has told all at least once.
    pub(crate) fn is_listed(&self) -> bool {
        self.missing.is_empty()
    }

    /// How many bindings are on their way.
    pub(crate) const fn writing(&self) -> usize {
        self.writing
    }

    /// Whether a KAI scheduler runs, whose pods are left alone.
    pub(crate) fn kai_runs(&self) -> bool {
        !self.kai.is_empty()
    }

    pub(crate) fn apply(&mut self, mut event: Event) {
        match &mut event {
            Event::Pod(record) => {
                self.cards_may_go(&record.key);
                self.bounds.enter(record, self.scheduler.matches_in(record.key.namespace()));
                if record.held_back.is_some() {
                    self.held_back.add(&record.key);
                }
            }
            Event::PodGone(key) => {
                self.cards_may_go(key);
                self.bounds.leave(key);
                self.held_back.may_go_on(key.namespace());
            }
            _ => {}
        }
        if let Err(problem) = self.scheduler.apply(event) {
            tracing::warn!("{problem}");
        }
    }

    pub(crate) fn pod_changed(&mut self, change: Change<PodItem>, now: Instant) {
        match change {
            Change::Relisting => self.pods.begin(),
            Change::Seen(pod) => self.pod_seen(&pod, now),
            Change::Gone(pod) => self.pod_gone(&pod, now),
            Change::Listed => {
                for key in self.pods.gone() {
                    // Nobody saw how it went.
                    if !self.reservations.contains_key(&key) {
                        self.quarantine(&key, now);
                    }
                    self.forget(&key, now);
                }
                self.forget_unseen(now);
                self.missing.remove("pods");
                self.adoption.stir();
            }
        }
    }

    fn pod_seen(&mut self, pod: &PodItem, now: Instant) {
        self.pods.see(pod.key());
        self.take_in(pod, now);
    }

    /// Takes in what is known of a pod.
    fn take_in(&mut self, pod: &PodItem, now: Instant) {
        let key = pod.key();
        self.adoption.seen(&key);
        let group = reservation::group(&pod.metadata).filter(|_| pod.node().is_some());
        if let Some(group) = group.filter(|_| self.is_to_keep(&key, pod, now)) {
            return self.reservation_seen(pod, group, now);
        }
        self.notice_kai(&key, divvy_words::is_kai_scheduler(&pod.metadata, &pod.status), now);
        self.notice_binder(&key, divvy_words::is_kai_binder(&pod.metadata, &pod.status), now);
        if self.scheduler.uid(&key).is_some_and(|known| *known != *pod.metadata.uid) {
            // Another pod of that name, and nobody saw how the first one went.
            self.quarantine(&key, now);
            self.ghosts.forget(&key);
        }
        if pod.status.has_ended() {
            if pod.is_given_up() {
                self.ghosts.seen(&key, pod);
                self.quarantine(&key, now);
            }
            self.stop_waiting(&key);
            self.forget_devices(&key);
            self.marks.forget(&key);
            self.ghosts.forget(&key);
            return self.apply(Event::PodGone(key));
        }
        if pod.node().is_some() {
            let placed = self.waiting.get(&key).filter(|w| w.stage != Stage::Waits);
            self.bound_after.extend(placed.map(|w| w.created));
            self.stop_waiting(&key);
            let record = self.bound_record(pod);
            if !record.spec.request.is_none() {
                self.ghosts.seen(&key, pod);
            }
            self.apply(Event::Pod(Box::new(record)));
            self.meet(&key, pod);
            self.notice_marks(&key, pod);
            return self.notice_devices(&key, pod);
        }
        let ours = self.is_ours(&pod.spec.scheduler_name) || self.may_be_bound(&key, pod);
        if pod.is_ending() || !ours {
            self.stop_waiting(&key);
            return self.apply(match records::nominated(pod) {
                Some(record) => Event::Pod(Box::new(record)),
                None => Event::PodGone(key),
            });
        }
        let mut record = records::waiting(pod);
        if let Some(failures) = self.failures.get(&key).filter(|f| *f.uid == *pod.metadata.uid) {
            record.paused = failures.paused(now);
            Arc::make_mut(&mut record.spec.rules).avoid = failures.avoid(now);
        } else {
            self.failures.remove(&key);
        }
        let known = self.waiting.remove(&key).filter(|w| *w.uid == *pod.metadata.uid);
        let (told, reason, stage) =
            known.map_or((None, None, Stage::Waits), |w| (w.told, w.reason, w.stage));
        let refused = pod.told().is_some();
        let told = told.or_else(|| pod.told().map(Arc::from));
        let (uid, version) = (pod.metadata.uid.clone(), pod.metadata.resource_version.clone());
        let groups = Groups::named_by(&pod.metadata, &pod.spec).map(Into::into).collect();
        self.groups.refuse(&pod.metadata, &pod.spec, &mut record);
        if self.hands_off() && record.invalid.is_none() {
            record.invalid = divvy_words::hand_off_ready(&pod.metadata, &pod.spec).err();
            if record.invalid.is_none() && record.spec.request.is_share() {
                let most = self.rules.max_grace_period;
                record.invalid = divvy_words::grace_period_allowed(&pod.spec, most).err();
            }
        }
        self.held_back.remove(&key);
        record.held_back = self.haunted(&key, &record.spec.request);
        let created = record.created;
        let waiting = Waiting { uid, version, created, told, refused, reason, groups, stage };
        self.waiting.insert(key, waiting);
        self.apply(Event::Pod(Box::new(record)));
    }

    fn pod_gone(&mut self, pod: &PodItem, now: Instant) {
        let key = pod.key();
        let is_reservation = self.reservations.contains_key(&key);
        // Of one that cannot be read nobody knows whether it has been started.
        let is_started = !pod.status.start_time.is_empty() || pod.unreadable.is_some();
        if !is_reservation && pod.node().is_some() && !pod.status.has_ended() && is_started {
            self.ghosts.seen(&key, pod);
            self.quarantine(&key, now);
        }
        self.forget(&key, now);
    }

    fn forget(&mut self, key: &PodKey, now: Instant) {
        self.pods.forget(key);
        self.notice_kai(key, false, now);
        self.notice_binder(key, false, now);
        self.stop_waiting(key);
        self.adoption.forget(key);
        self.marks.forget(key);
        self.ghosts.forget(key);
        self.reservation_gone(key, now);
        self.forget_devices(key);
        self.apply(Event::PodGone(key.clone()));
    }

    fn stop_waiting(&mut self, key: &PodKey) {
        self.waiting.remove(key);
        self.failures.remove(key);
        self.providing.remove(key);
        self.held_back.remove(key);
    }

    /// Whether shares are handed to their containers.
    fn hands_off(&self) -> bool {
        self.scheduler.config().hand_off.is_some()
    }

    fn is_ours(&self, name: &str) -> bool {
        let left_alone = name == keys::KAI_SCHEDULER && self.kai_runs();
        !left_alone && self.rules.names.iter().any(|ours| ours == name)
    }

    /// Whether a binding of this pod may be done any moment, whoever it belongs to now.
    fn may_be_bound(&self, key: &PodKey, pod: &PodItem) -> bool {
        let waiting = self.waiting.get(key).filter(|w| *w.uid == *pod.metadata.uid);
        waiting.is_some_and(|w| w.stage != Stage::Waits) && !self.providing.contains_key(key)
    }

    fn notice_kai(&mut self, key: &PodKey, runs: bool, now: Instant) {
        let before = self.kai_runs();
        if runs {
            self.kai.insert(key.clone());
        } else {
            self.kai.remove(key);
        }
        if before && !self.kai_runs() {
            self.kai_left(now);
        }
        if before == self.kai_runs() || !self.rules.names.iter().any(|n| n == keys::KAI_SCHEDULER) {
            return;
        }
        if runs {
            tracing::warn!(pod = %key, "a KAI scheduler runs: pods with schedulerName {} are left to it", keys::KAI_SCHEDULER);
        } else {
            tracing::info!("no KAI scheduler runs any more: its pods are scheduled by divvy now");
        }
        self.actions.push(Action::RelistPods);
    }

    /// Decides what fits, as far as there are writers for it, and only for so long that whoever
    /// has something else to tell is heard in between.
    pub(crate) fn pass(&mut self, now: Instant) {
        if !self.is_listed() {
            return;
        }
        self.adopt(now);
        self.go_on_soon(now);
        self.settle_cards(now);
        self.write_taints();
        self.write_marks();
        self.provide(now);
        self.place(now);
        self.tell_new();
    }

    fn place(&mut self, now: Instant) {
        let mut work = SLICE;
        while self.writing < self.rules.writes && work > 0 {
            let plan = self.scheduler.slice(self.rules.writes - self.writing, &mut work);
            if plan.units.is_empty() && work > 0 {
                // Only now: a reservation that nobody used may have found its share.
                self.return_cards(now);
                break;
            }
            for effect in plan.into_effects() {
                match effect {
                    // Cards that nobody keeps are asked for with the binding, whoever opened them.
                    PlanEffect::Open { .. } => {}
                    PlanEffect::Bind { pod, placement, volumes } => {
                        self.bind(pod, placement, volumes, now);
                    }
                    PlanEffect::Report { pod } => self.told.waits(pod),
                }
            }
        }
        self.is_cut_off = work == 0;
    }

    /// Whether the last pass was cut off so that others have their turn, and has to go on.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_listed() && (self.is_cut_off || self.told.is_behind())
    }

    /// How many pods wait for which reason.
    pub(crate) fn reasons(&self) -> HashMap<&'static str, usize> {
        let mut reasons = HashMap::default();
        for reason in self.waiting.values().filter_map(|w| w.reason) {
            *reasons.entry(reason).or_default() += 1;
        }
        reasons
    }

    fn bind(&mut self, key: PodKey, placement: Placement, volumes: Vec<VolumeStep>, now: Instant) {
        let Some(waiting) = self.waiting.get(&key) else {
            // Not ours any more: what was assumed is undone.
            return self.apply(Event::PodGone(key));
        };
        let request = self.scheduler.request(&key).cloned().unwrap_or_default();
        if self.haunted(&key, &request).is_some() {
            // Since it was last looked at; now it is held back.
            let pod = Target { uid: waiting.uid.clone(), key };
            self.apply(Event::PodGone(pod.key.clone()));
            return self.actions.push(Action::Look { pod });
        }
        let hands_off = self.hands_off();
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        waiting.stage = Stage::Placed;
        let grant = match request.is_share() {
            true if hands_off => Grant::HandOff(None),
            true => Grant::Indexes,
            false => Grant::Nothing,
        };
        let (pod, version) = (Target { key, uid: waiting.uid.clone() }, waiting.version.clone());
        self.prepare(Binding { pod, version, placement, grant, volumes }, now);
    }

    fn write_binding(&mut self, binding: Binding) {
        self.writing += 1;
        self.actions.push(Action::Bind(Box::new(binding)));
    }
}

#[cfg(test)]
mod tests;
