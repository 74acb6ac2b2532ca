//! What comes in: objects as the watches tell them, each given to the parts that it concerns.
//!
//! ```text
//!   pod ─┬─► holds a card ─► cards
//!        ├─► bound, ended, gone ─► bindings, cards ─► engine
//!        └─► ours, and waits ─► groups, bounds ─► bindings ─► engine
//!   node ─► cards ─► engine          storage, namespace ─► engine
//! ```

use super::cards::KnownNode;
use super::kai::{Kai, Koordinator};
use super::{State, records};
use crate::listing::{Keyed, News};
use crate::objects::{
    BindRequestItem, NamespaceItem, NodeItem, PodGroupItem, PodItem, StorageItem,
};
use divvy_api::resources::PODS;
use divvy_engine::{Event, ObjectKey, PodRecord, StorageEvent};
use divvy_words::isolation::cdi_kind;
use divvy_words::manifest::{Metadata, StorageKind};
use divvy_words::{Content, Object, OtherSchedulers, PluginConfigs, PodGroups, keys};
use foldhash::HashSet;
use std::time::Instant;

/// What has been heard of, beside what the other parts know.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The watches that have not told all yet.
    missing: HashSet<&'static str>,
    groups: PodGroups,
    kai: Kai,
    koordinator: Koordinator,
    /// The configs of the device plugin, as far as somebody says where they are.
    plugin_configs: PluginConfigs,
}

impl Incoming {
    pub(super) fn new(watches: impl Iterator<Item = &'static str>) -> Self {
        Self {
            missing: watches.collect(),
            groups: PodGroups::default(),
            kai: Kai::default(),
            koordinator: Koordinator::default(),
            plugin_configs: PluginConfigs::default(),
        }
    }

    /// Whether a watch has told all at least once.
    pub(super) fn is_known(&self, watch: &str) -> bool {
        !self.missing.contains(watch)
    }

    /// Whether all is known that pods may refer to.
    pub(super) fn takes_pods(&self) -> bool {
        self.missing.iter().all(|watch| *watch == PODS.name)
    }

    /// Whether every watch has told all at least once.
    pub(super) fn is_listed(&self) -> bool {
        self.missing.is_empty()
    }

    #[cfg(test)]
    pub(super) fn list_again(&mut self, watch: &'static str) {
        self.missing.insert(watch);
    }
}

impl State {
    /// Tells the engine, by way of the cards: those of a pod may be nobody's soon.
    pub(crate) fn apply(&mut self, event: Event) {
        self.cards.apply(event, &mut self.cx);
    }

    pub(crate) fn pod_changed(&mut self, news: News<PodItem>, now: Instant) {
        self.cx.now = now;
        match news {
            News::Seen(pod) => self.pod_seen(&pod),
            News::Gone(key, pod) => self.pod_gone(&key, pod.as_ref()),
        }
    }

    /// A watch has told all.
    pub(crate) fn listed(&mut self, watch: &'static str, now: Instant) {
        self.cx.now = now;
        self.incoming.missing.remove(watch);
        if watch == PODS.name {
            self.cards.all_seen(&mut self.bindings, &mut self.cx);
        }
    }

    /// Takes in what is known of a pod.
    pub(super) fn pod_seen(&mut self, pod: &PodItem) {
        let key = pod.key();
        self.cards.pod_seen(&key);
        if let Some(node) = pod.node().filter(|_| pod.status.has_slice_as_gpu()) {
            self.cx.apply(Event::Divided(node.into()));
        }
        if let Some(group) = self.cards.reserves(pod, self.adopts(), &self.cx) {
            return self.cards.reservation_seen(pod, group, &mut self.bindings, &mut self.cx);
        }
        let is_scheduler = divvy_words::is_kai_scheduler(&pod.metadata, &pod.status);
        let is_binder = divvy_words::is_kai_binder(&pod.metadata, &pod.status);
        self.incoming.kai.notice(&key, is_scheduler, is_binder, &mut self.cx);
        let is_koordinators = divvy_words::is_koordinator_scheduler(&pod.metadata, &pod.status);
        self.incoming.koordinator.notice(&key, is_koordinators, &mut self.cx);
        if self.cx.scheduler.uid(&key).is_some_and(|known| *known != *pod.metadata.uid) {
            self.cards.pod_replaced(&key, &mut self.cx);
        }
        if pod.status.has_ended() {
            // Of pods that failed before anybody looked it is not known how the node is since.
            let is_known = self.cx.scheduler.uid(&key).is_some();
            if let Some(node) = pod.node().filter(|_| is_known && pod.status.is_refused_several()) {
                self.apply(Event::OneEach(node.into(), true));
            }
            if pod.is_given_up() {
                self.cards.pod_vanished(&key, Some(pod), &mut self.cx);
            }
            self.stop(&key);
            self.cards.pod_ended(&key, &self.cx);
            return self.apply(Event::PodGone(key));
        }
        if pod.node().is_some() {
            self.bindings.bound(&key);
            self.stop(&key);
            let scheduler = &*pod.spec.scheduler_name;
            let gets_shares = self.is_ours(scheduler) || scheduler == keys::KAI_SCHEDULER;
            let record = records::bound(pod, gets_shares, &mut self.cards, &self.cx);
            if !record.spec.request.is_none() {
                self.cards.grace_seen(&key, pod);
            }
            self.apply(Event::Pod(Box::new(record)));
            if let Some(node) = pod.node().filter(|_| self.cx.scheduler.unentered(&key).is_some()) {
                self.cards.unsettle(node);
            }
            return self.cards.pod_bound(&key, pod, &self.cx);
        }
        let uid = &pod.metadata.uid;
        let ours = self.is_ours(&pod.spec.scheduler_name) || self.bindings.may_be_bound(&key, uid);
        if pod.is_ending() || !ours {
            self.stop(&key);
            return self.apply(match records::nominated(pod) {
                Some(record) => Event::Pod(Box::new(record)),
                None => Event::PodGone(key),
            });
        }
        let record = self.waiting_record(pod);
        self.apply(Event::Pod(Box::new(record)));
    }

    /// The record of a pod of ours that waits, with all that keeps it from being placed.
    fn waiting_record(&mut self, pod: &PodItem) -> PodRecord {
        let mut record = records::waiting(pod);
        self.bindings.seen(pod, &mut record, &self.cx);
        self.told.seen(&record.key, pod);
        self.incoming.groups.refuse(&pod.metadata, &pod.spec, &mut record);
        if let Some(isolation) = self.cx.isolation() {
            isolation.enter_pod(&pod.metadata, &mut record);
        }
        if record.invalid.is_none() {
            let (isolation, request) = (self.cx.isolation(), &record.spec.request);
            let ready = divvy_words::limits_ready(isolation, request, &pod.metadata, &pod.spec);
            record.invalid = ready.err();
        }
        if self.cx.hands_off() && record.invalid.is_none() {
            record.invalid = divvy_words::hand_off_ready(&pod.metadata, &pod.spec).err();
            if record.invalid.is_none() && record.spec.request.is_share() {
                let most = self.cx.settings.max_grace_period;
                record.invalid = divvy_words::grace_period_allowed(&pod.spec, most).err();
            }
        }
        self.cx.held_back.remove(&record.key);
        record.held_back = self.cards.haunted(&record.key, &record.spec.request);
        record
    }

    fn pod_gone(&mut self, key: &ObjectKey, pod: Option<&PodItem>) {
        let may_run = match pod {
            Some(pod) => {
                // Of one that cannot be read nobody knows whether it has been started.
                let has_started = !pod.status.start_time.is_empty() || pod.unreadable.is_some();
                pod.node().is_some() && !pod.status.has_ended() && has_started
            }
            // Nobody saw how it went.
            None => true,
        };
        if may_run && !self.cards.is_reservation(key) {
            self.cards.pod_vanished(key, pod, &mut self.cx);
        }
        self.forget(key);
    }

    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.incoming.kai.notice(key, false, false, &mut self.cx);
        self.incoming.koordinator.notice(key, false, &mut self.cx);
        self.stop(key);
        self.cards.pod_gone(key, &mut self.bindings, &mut self.cx);
        self.apply(Event::PodGone(key.clone()));
    }

    /// A pod does not wait for us any more.
    fn stop(&mut self, key: &ObjectKey) {
        self.bindings.stop(key, &mut self.cx);
        self.told.forget(key);
    }

    fn is_ours(&self, name: &str) -> bool {
        let (kai, koordinator) = (self.incoming.kai.runs(), self.incoming.koordinator.runs());
        OtherSchedulers { kai, koordinator }.is_ours(name, &self.cx.settings.names)
    }

    /// Whether KAI is gone, and what it left is taken over.
    fn adopts(&self) -> bool {
        self.incoming.kai.is_gone(self.cx.now) && self.cx.hands_off() && self.is_listed()
    }

    /// Looks again at what KAI left, if something has changed.
    pub(super) fn adopt(&mut self) {
        let adopts = self.adopts();
        let left = self.cards.take_strangers(adopts, &self.cx);
        for pod in left.reservations.iter().chain(&left.shares) {
            self.pod_seen(pod);
        }
        self.cards.looked_at(&left, adopts, &mut self.cx);
    }

    pub(crate) fn node_changed(&mut self, news: News<NodeItem>) {
        match news {
            News::Seen(node) => self.node_seen(node),
            News::Gone(name, _) => {
                self.cards.node_gone(&name);
                self.bindings.look_again();
                self.cx.apply(Event::NodeGone(name.into()));
            }
        }
    }

    fn node_seen(&mut self, node: NodeItem) {
        self.cards.node_seen(&node.metadata.name, divvy_words::is_unsettled(&node.spec));
        let object = Object {
            kind: "Node".into(),
            metadata: node.metadata,
            content: Content::Node(Box::new((node.spec, Some(node.status)))),
            ..Object::default()
        };
        let read = match node.unreadable {
            Some(why) => Err(why),
            None => divvy_words::node(&object).map_err(|e| e.to_string()),
        };
        let kind = cdi_kind(&object.metadata).map(Into::into);
        let metadata = object.metadata;
        match read {
            Ok((mut record, warnings)) => {
                if let Some(isolation) = self.cx.isolation() {
                    isolation.enter_node(&metadata, &mut record);
                    self.cards.unsettle(&metadata.name);
                }
                let Metadata { name, uid, .. } = metadata;
                for warning in warnings {
                    tracing::debug!("{warning}");
                }
                let kai_runs = self.incoming.kai.runs();
                self.cards.node_read(name.clone(), KnownNode { uid, kind }, kai_runs);
                let before = self.configs_give_one_each(&name);
                self.cx.apply(Event::Node(Box::new(record)));
                let now = self.configs_give_one_each(&name);
                // Nothing is said of a node that was taught by a pod, until a config counts for it.
                if before || now {
                    self.cx.apply(Event::OneEach(name, now));
                }
            }
            Err(why) => {
                let name = metadata.name;
                tracing::warn!(node = %name, %why, "a node cannot be read: nothing is placed there");
                self.cx.apply(Event::NodeGone(name.into()));
            }
        }
    }

    /// The device plugin has other configs now.
    pub(crate) fn plugin_configured(&mut self, configs: PluginConfigs) {
        let nodes: Vec<Box<str>> =
            self.cx.scheduler.nodes().map(|(name, _)| (&**name).into()).collect();
        let give = |state: &Self| -> Vec<bool> {
            nodes.iter().map(|node| state.configs_give_one_each(node)).collect()
        };
        let before = give(self);
        self.incoming.plugin_configs = configs;
        let now = give(self);
        for ((node, before), now) in nodes.into_iter().zip(before).zip(now) {
            if before != now {
                self.cx.apply(Event::OneEach(node, now));
            }
        }
    }

    /// Whether the device plugin of a node refuses a container more than one replica by its config.
    fn configs_give_one_each(&self, node: &str) -> bool {
        let scheduler = &self.cx.scheduler;
        let Some(id) = scheduler.ledger().find(node) else { return false };
        let named = scheduler.facts(id).and_then(|it| it.label(keys::LABEL_PLUGIN_CONFIG));
        let node = scheduler.ledger().node(id);
        node.is_some_and(|node| {
            self.incoming.plugin_configs.give_one_each(named, &node.capacity().gpus)
        })
    }

    pub(crate) fn namespace_changed(&mut self, news: News<NamespaceItem>) {
        self.told.moved();
        match news {
            News::Seen(NamespaceItem { metadata }) => {
                let labels = metadata.labels.iter().collect();
                self.cx.apply(Event::Namespace { name: metadata.name, labels });
            }
            News::Gone(name, _) => self.cx.apply(Event::NamespaceGone(name)),
        }
    }

    pub(crate) fn storage_changed(&mut self, kind: StorageKind, news: News<StorageItem>) {
        match news {
            News::Seen(item) => {
                let event = divvy_words::storage(kind, &item.0).unwrap_or_else(|why| {
                    tracing::warn!(object = %item.key(), %why, "a storage object cannot be read");
                    gone(kind, item.key())
                });
                self.cx.apply(Event::Storage(event));
            }
            News::Gone(key, _) => self.cx.apply(Event::Storage(gone(kind, key))),
        }
        self.bindings.look_again();
        self.told.moved();
    }

    /// `api_group` is the one that the group's kind belongs to.
    pub(crate) fn group_changed(&mut self, api_group: &str, news: News<PodGroupItem>) {
        match news {
            News::Seen(group) => self.set_group(api_group, &group.metadata, group.spec.minimum()),
            News::Gone(key, _) => {
                let (namespace, name) = (key.namespace().into(), key.name().into());
                let metadata = Metadata { namespace, name, ..Metadata::default() };
                self.set_group(api_group, &metadata, 0);
            }
        }
    }

    /// Enters a group; the pods that name it are looked at again if that changes something.
    fn set_group(&mut self, api_group: &str, metadata: &Metadata, minimum: u32) {
        if !self.incoming.groups.set(api_group, metadata, minimum) {
            return;
        }
        // Some at a time: whoever changes a group all the time keeps nobody else waiting.
        let members = self.bindings.members(&metadata.namespace, &metadata.name);
        members.for_each(|key| self.cx.held_back.add(key));
        self.cx.held_back.may_go_on(&metadata.namespace);
    }

    pub(crate) fn bind_request_changed(&mut self, news: News<BindRequestItem>) {
        match news {
            News::Seen(item) => self.cards.decided(item),
            News::Gone(key, _) => self.cards.undecided(&key),
        }
    }
}

fn gone(kind: StorageKind, key: ObjectKey) -> StorageEvent {
    let name = || key.name().into();
    match kind {
        StorageKind::Claim => StorageEvent::ClaimGone(key),
        StorageKind::Volume => StorageEvent::VolumeGone(name()),
        StorageKind::Class => StorageEvent::ClassGone(name()),
        StorageKind::CsiNode => StorageEvent::CsiNodeGone(name()),
        StorageKind::Driver => StorageEvent::DriverGone(name()),
        StorageKind::Capacity => StorageEvent::CapacityGone(key.to_string().into()),
        StorageKind::Attachment => StorageEvent::AttachmentGone(name()),
    }
}
