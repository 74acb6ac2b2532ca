//! A snapshot of pods and nodes that follows the cluster.

use super::{HOLDINGS, Reader, Resource, Snapshot, strip};
use crate::api::Api;
use crate::fence::Fence;
use crate::metrics::Metrics;
use crate::watch::{Change, Item, Pace, Source, watch};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// An object as the API has it.
#[derive(Deserialize)]
#[serde(transparent)]
struct Whole(Value);

impl Item for Whole {
    fn version(&self) -> &str {
        self.0["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }

    fn unreadable(_: &str, _: &str) -> Option<Self> {
        None
    }
}

impl Whole {
    fn key(&self) -> String {
        let part = |name: &str| self.0["metadata"][name].as_str().unwrap_or_default();
        format!("{}/{}", part("namespace"), part("name"))
    }
}

/// The objects of one collection, by namespace and name.
struct Collection {
    resource: &'static Resource,
    objects: BTreeMap<String, String>,
    /// What a list that is under way has told so far.
    fresh: Option<BTreeMap<String, String>>,
    /// Whether all of it has been told once.
    is_known: bool,
}

impl Collection {
    fn apply(&mut self, change: Change<Whole>) {
        let objects = self.fresh.as_mut().unwrap_or(&mut self.objects);
        match change {
            Change::Relisting => self.fresh = Some(BTreeMap::new()),
            Change::Seen(object) => {
                let key = object.key();
                objects.insert(key, strip(self.resource, object.0).to_string());
            }
            Change::Gone(object) => {
                objects.remove(&object.key());
            }
            Change::Listed => {
                self.objects = self.fresh.take().unwrap_or_default();
                self.is_known = true;
            }
        }
    }
}

/// Keeps up with [`HOLDINGS`]. Dropping it ends its watches.
pub struct Follower {
    collections: Vec<Collection>,
    changes: Receiver<(usize, Vec<Change<Whole>>)>,
    _watches: JoinSet<()>,
}

/// A watch that is silent for so long is opened anew; bookmarks come every minute.
const SILENCE: Duration = Duration::from_secs(90);

impl Reader {
    /// Follows pods and nodes from now on.
    pub fn follow(&self) -> Follower {
        let api = Api::new(self.client.clone(), Fence::open(), Metrics::new());
        let pace = Pace { page: super::PAGE, silence: SILENCE };
        let (forward, changes) = mpsc::channel(1);
        let mut watches = JoinSet::new();
        for (i, path) in ["/api/v1/pods", "/api/v1/nodes"].into_iter().enumerate() {
            let source = Source { name: HOLDINGS[i].plural, path, optional: false };
            let (tell, mut told) = mpsc::channel(1);
            watches.spawn(watch::<Whole>(api.clone(), source, pace, Metrics::new(), tell));
            let forward = forward.clone();
            watches.spawn(async move {
                while let Some(batch) = told.recv().await {
                    if forward.send((i, batch)).await.is_err() {
                        return;
                    }
                }
            });
        }
        let collection = |resource: &'static Resource| Collection {
            resource,
            objects: BTreeMap::new(),
            fresh: None,
            is_known: false,
        };
        let collections = HOLDINGS.iter().map(collection).collect();
        Follower { collections, changes, _watches: watches }
    }
}

impl Follower {
    /// Waits until something has changed, and for at least `pause`; what changes meanwhile
    /// counts. All that there is counts as changed the first time.
    pub async fn next(&mut self, pause: Duration) -> Snapshot {
        let end = Instant::now() + pause;
        let mut has_changed = false;
        loop {
            let is_known = self.collections.iter().all(|c| c.is_known && c.fresh.is_none());
            let received = if has_changed && is_known {
                timeout_at(end, self.changes.recv()).await
            } else {
                Ok(self.changes.recv().await)
            };
            let Ok(Some((i, batch))) = received else { return self.snapshot() };
            if let Some(collection) = self.collections.get_mut(i) {
                batch.into_iter().for_each(|change| collection.apply(change));
            }
            has_changed = true;
        }
    }

    fn snapshot(&self) -> Snapshot {
        let objects = self.collections.iter().flat_map(|c| c.objects.values().cloned()).collect();
        Snapshot { objects, ..Snapshot::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, phase: &str) -> Whole {
        Whole(json!({"metadata": {"namespace": "ml", "name": name}, "status": {"phase": phase}}))
    }

    #[test]
    fn a_new_list_replaces_what_was_known_once_it_is_complete() {
        let mut pods = Collection {
            resource: &HOLDINGS[0],
            objects: BTreeMap::new(),
            fresh: None,
            is_known: false,
        };
        let names = |pods: &Collection| pods.objects.keys().cloned().collect::<Vec<_>>();
        pods.apply(Change::Relisting);
        pods.apply(Change::Seen(pod("a", "Pending")));
        pods.apply(Change::Seen(pod("b", "Pending")));
        assert!(names(&pods).is_empty() && !pods.is_known);
        pods.apply(Change::Listed);
        assert_eq!(names(&pods), ["ml/a", "ml/b"]);
        pods.apply(Change::Gone(pod("a", "Pending")));
        pods.apply(Change::Seen(pod("b", "Running")));
        assert!(pods.objects["ml/b"].contains("Running"));
        pods.apply(Change::Relisting);
        pods.apply(Change::Seen(pod("c", "Pending")));
        assert_eq!(names(&pods), ["ml/b"]);
        pods.apply(Change::Listed);
        assert_eq!(names(&pods), ["ml/c"]);
    }
}
