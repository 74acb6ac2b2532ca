//! What is watched, and how it reaches the loop.
//!
//! Pods have a channel of their own: they are taken in only when all else is known, so that a pod
//! never waits for an object that is merely listed later.

use crate::api::Api;
use crate::listing::{Keyed, Listing, News};
use crate::metrics::Metrics;
use crate::objects::{BindRequestItem, GroupItem, NamespaceItem, NodeItem, PodItem, StorageItem};
use crate::state::State;
use crate::watch::{Batch, Item, Pace, Seen, Source, watch};
use divvy_words::keys;
use divvy_words::manifest::StorageKind;
use foldhash::HashMap;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(crate) const PODS: Source = required("pods", "/api/v1/pods");
pub(crate) const NODES: Source = required("nodes", "/api/v1/nodes");
pub(crate) const NAMESPACES: Source = optional("namespaces", "/api/v1/namespaces");

pub(crate) const STORAGE: [(StorageKind, Source); 7] = [
    (StorageKind::Claim, optional("persistentvolumeclaims", "/api/v1/persistentvolumeclaims")),
    (StorageKind::Volume, optional("persistentvolumes", "/api/v1/persistentvolumes")),
    (StorageKind::Class, optional("storageclasses", "/apis/storage.k8s.io/v1/storageclasses")),
    (StorageKind::CsiNode, optional("csinodes", "/apis/storage.k8s.io/v1/csinodes")),
    (StorageKind::Driver, optional("csidrivers", "/apis/storage.k8s.io/v1/csidrivers")),
    (
        StorageKind::Capacity,
        optional("csistoragecapacities", "/apis/storage.k8s.io/v1/csistoragecapacities"),
    ),
    (
        StorageKind::Attachment,
        optional("volumeattachments", "/apis/storage.k8s.io/v1/volumeattachments"),
    ),
];

/// Pod groups of KAI, of the scheduler plugins, and of Kubernetes itself.
pub(crate) const GROUPS: [(&str, Source); 3] = [
    (
        keys::KAI_GROUPS,
        optional("podgroups.scheduling.run.ai", "/apis/scheduling.run.ai/v2alpha2/podgroups"),
    ),
    (
        keys::PLUGIN_GROUPS,
        optional("podgroups.scheduling.x-k8s.io", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"),
    ),
    (
        keys::KUBERNETES_GROUPS,
        optional("podgroups.scheduling.k8s.io", "/apis/scheduling.k8s.io/v1beta1/podgroups"),
    ),
];

/// What KAI decided, which tells of the cards of pods that it bound.
pub(crate) const BIND_REQUESTS: Source =
    optional("bindrequests.scheduling.run.ai", "/apis/scheduling.run.ai/v1alpha2/bindrequests");

/// The names of all watches.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let storage = STORAGE.iter().map(|(_, source)| source);
    let groups = GROUPS.iter().map(|(_, source)| source);
    [&PODS, &NODES, &NAMESPACES, &BIND_REQUESTS]
        .into_iter()
        .chain(storage)
        .chain(groups)
        .map(|s| s.name)
}

/// Batches that wait for the loop, per watch: few, so that a list is not held twice.
const BATCHES: usize = 4;

const fn required(name: &'static str, path: &'static str) -> Source {
    Source { name, path, optional: false }
}

const fn optional(name: &'static str, path: &'static str) -> Source {
    Source { name, path, optional: true }
}

/// News of everything but pods.
pub(crate) enum Heard {
    Nodes(Batch<NodeItem>),
    Namespaces(Batch<NamespaceItem>),
    Storage(StorageKind, Batch<StorageItem>),
    /// Of this API group.
    Groups(&'static str, Batch<GroupItem>),
    BindRequests(Batch<BindRequestItem>),
    /// This watch has ended, which none does by itself.
    Ended(&'static str),
}

/// What the watches have told so far.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pods: Listing<PodItem>,
    nodes: Listing<NodeItem>,
    namespaces: Listing<NamespaceItem>,
    storage: HashMap<StorageKind, Listing<StorageItem>>,
    groups: HashMap<&'static str, Listing<GroupItem>>,
    bind_requests: Listing<BindRequestItem>,
}

impl Lists {
    /// Takes in news of pods.
    pub(crate) fn pods(&mut self, batch: Batch<PodItem>, state: &mut State, now: Instant) -> Seen {
        enter(batch, &mut self.pods, |_, news| state.pod_changed(news, now))
    }

    /// Takes in news of anything else; or gives the name of a watch that has ended.
    pub(crate) fn others(&mut self, heard: Heard, state: &mut State) -> Result<Seen, &'static str> {
        Ok(match heard {
            Heard::Ended(watch) => return Err(watch),
            Heard::Nodes(batch) => enter(batch, &mut self.nodes, |_, n| state.node_changed(n)),
            Heard::Namespaces(batch) => {
                enter(batch, &mut self.namespaces, |_, n| state.namespace_changed(n))
            }
            Heard::Storage(kind, batch) => {
                let listing = self.storage.entry(kind).or_default();
                enter(batch, listing, |watch, n| state.storage_changed(kind, watch, n))
            }
            Heard::BindRequests(batch) => {
                let listing = &mut self.bind_requests;
                enter(batch, listing, |watch, n| state.bind_request_changed(watch, n))
            }
            Heard::Groups(group, batch) => {
                let listing = self.groups.entry(group).or_default();
                enter(batch, listing, |watch, n| state.group_changed(group, watch, n))
            }
        })
    }
}

fn enter<T: Keyed>(
    batch: Batch<T>,
    listing: &mut Listing<T>,
    mut tell: impl FnMut(&'static str, News<T>),
) -> Seen {
    batch.enter(|watch, change| listing.enter(change, |news| tell(watch, news)))
}

/// How watches are started.
#[derive(Clone)]
pub(crate) struct Watches {
    pub(crate) api: Api,
    pub(crate) pace: Pace,
    pub(crate) metrics: Metrics,
}

impl Watches {
    /// Watches everything but pods.
    pub(crate) fn start(&self) -> mpsc::Receiver<Heard> {
        let (tell, hear) = mpsc::channel(BATCHES);
        self.forward(NODES, &tell, Heard::Nodes);
        self.forward(NAMESPACES, &tell, Heard::Namespaces);
        for (kind, source) in STORAGE {
            self.forward(source, &tell, move |batch| Heard::Storage(kind, batch));
        }
        for (api_group, source) in GROUPS {
            self.forward(source, &tell, move |batch| Heard::Groups(api_group, batch));
        }
        self.forward(BIND_REQUESTS, &tell, Heard::BindRequests);
        hear
    }

    /// Watches the pods until the handle is aborted.
    pub(crate) fn start_pods(&self) -> (mpsc::Receiver<Batch<PodItem>>, JoinHandle<()>) {
        self.watch(PODS)
    }

    fn watch<T: Item>(&self, source: Source) -> (mpsc::Receiver<Batch<T>>, JoinHandle<()>) {
        let (tell, hear) = mpsc::channel(BATCHES);
        let watching = watch(self.api.clone(), source, self.pace, self.metrics.clone(), tell);
        (hear, tokio::spawn(watching))
    }

    fn forward<T: Item>(
        &self,
        source: Source,
        tell: &mpsc::Sender<Heard>,
        heard: impl Fn(Batch<T>) -> Heard + Send + 'static,
    ) {
        let name = source.name;
        let (mut hear, _) = self.watch(source);
        let tell = tell.clone();
        tokio::spawn(async move {
            while let Some(batch) = hear.recv().await {
                if tell.send(heard(batch)).await.is_err() {
                    return;
                }
            }
            let _ = tell.send(Heard::Ended(name)).await;
        });
    }
}
