//! What is watched, and how it reaches the loop.
//!
//! Pods have a channel of their own: they are taken in only when all else is known, so that a pod
//! never waits for an object that is merely listed later.

use crate::listing::{Keyed, Listing, News};
use crate::objects::{
    BindRequestItem, NamespaceItem, NodeItem, PodGroupItem, PodItem, StorageItem,
};
use crate::state::State;
use divvy_api::resources::{self, KAI_BIND_REQUESTS, NAMESPACES, NODES, PODS};
use divvy_api::watch::{Batch, Item, Pace, Seen, watch};
use divvy_api::{Api, Resource};
use divvy_words::keys;
use divvy_words::manifest::StorageKind;
use foldhash::HashMap;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(crate) const STORAGE: [(StorageKind, Resource); 7] = [
    (StorageKind::Claim, resources::VOLUME_CLAIMS),
    (StorageKind::Volume, resources::VOLUMES),
    (StorageKind::Class, resources::STORAGE_CLASSES),
    (StorageKind::CsiNode, resources::CSI_NODES),
    (StorageKind::Driver, resources::CSI_DRIVERS),
    (StorageKind::Capacity, resources::STORAGE_CAPACITIES),
    (StorageKind::Attachment, resources::VOLUME_ATTACHMENTS),
];

/// Pod groups of KAI, of the scheduler plugins, and of Kubernetes itself.
pub(crate) const GROUPS: [(&str, Resource); 3] = [
    (keys::KAI_GROUPS, resources::KAI_POD_GROUPS),
    (keys::PLUGIN_GROUPS, resources::PLUGIN_POD_GROUPS),
    (keys::KUBERNETES_GROUPS, resources::POD_GROUPS),
];

/// The names of all watches.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let storage = STORAGE.iter().map(|(_, resource)| resource);
    let groups = GROUPS.iter().map(|(_, resource)| resource);
    [&PODS, &NODES, &NAMESPACES, &KAI_BIND_REQUESTS]
        .into_iter()
        .chain(storage)
        .chain(groups)
        .map(|resource| resource.name)
}

/// Batches that wait for the loop, per watch: few, so that a list is not held twice.
const BATCHES: usize = 4;

/// News of everything but pods.
pub(crate) enum Heard {
    Nodes(Batch<NodeItem>),
    Namespaces(Batch<NamespaceItem>),
    Storage(StorageKind, Batch<StorageItem>),
    /// Of this API group.
    Groups(&'static str, Batch<PodGroupItem>),
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
    groups: HashMap<&'static str, Listing<PodGroupItem>>,
    bind_requests: Listing<BindRequestItem>,
}

impl Lists {
    /// Takes in news of pods.
    pub(crate) fn pods(&mut self, batch: Batch<PodItem>, state: &mut State, now: Instant) -> Seen {
        enter(batch, &mut self.pods, state, now, |state, news| state.pod_changed(news, now))
    }

    /// Takes in news of anything else; or gives the name of a watch that has ended.
    pub(crate) fn others(
        &mut self,
        heard: Heard,
        state: &mut State,
        now: Instant,
    ) -> Result<Seen, &'static str> {
        Ok(match heard {
            Heard::Ended(watch) => return Err(watch),
            Heard::Nodes(batch) => enter(batch, &mut self.nodes, state, now, State::node_changed),
            Heard::Namespaces(batch) => {
                enter(batch, &mut self.namespaces, state, now, State::namespace_changed)
            }
            Heard::Storage(kind, batch) => {
                let listing = self.storage.entry(kind).or_default();
                enter(batch, listing, state, now, |state, n| state.storage_changed(kind, n))
            }
            Heard::BindRequests(batch) => {
                enter(batch, &mut self.bind_requests, state, now, State::bind_request_changed)
            }
            Heard::Groups(group, batch) => {
                let listing = self.groups.entry(group).or_default();
                enter(batch, listing, state, now, |state, n| state.group_changed(group, n))
            }
        })
    }
}

fn enter<T: Keyed>(
    batch: Batch<T>,
    listing: &mut Listing<T>,
    state: &mut State,
    now: Instant,
    tell: impl Fn(&mut State, News<T>),
) -> Seen {
    batch.enter(|watch, change| {
        if listing.enter(change, |news| tell(state, news)) {
            state.listed(watch, now);
        }
    })
}

/// How watches are started.
#[derive(Clone)]
pub(crate) struct Watches {
    pub(crate) api: Api,
    pub(crate) pace: Pace,
}

impl Watches {
    /// Watches everything but pods.
    pub(crate) fn start(&self) -> mpsc::Receiver<Heard> {
        let (tell, hear) = mpsc::channel(BATCHES);
        self.forward(NODES, &tell, Heard::Nodes);
        self.forward(NAMESPACES, &tell, Heard::Namespaces);
        for (kind, resource) in STORAGE {
            self.forward(resource, &tell, move |batch| Heard::Storage(kind, batch));
        }
        for (api_group, resource) in GROUPS {
            self.forward(resource, &tell, move |batch| Heard::Groups(api_group, batch));
        }
        self.forward(KAI_BIND_REQUESTS, &tell, Heard::BindRequests);
        hear
    }

    /// Watches the pods until the handle is aborted.
    pub(crate) fn start_pods(&self) -> (mpsc::Receiver<Batch<PodItem>>, JoinHandle<()>) {
        self.watch(PODS)
    }

    fn watch<T: Item>(&self, resource: Resource) -> (mpsc::Receiver<Batch<T>>, JoinHandle<()>) {
        let (tell, hear) = mpsc::channel(BATCHES);
        (hear, tokio::spawn(watch(self.api.clone(), resource, self.pace, tell)))
    }

    fn forward<T: Item>(
        &self,
        resource: Resource,
        tell: &mpsc::Sender<Heard>,
        heard: impl Fn(Batch<T>) -> Heard + Send + 'static,
    ) {
        let name = resource.name;
        let (mut hear, _) = self.watch(resource);
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
