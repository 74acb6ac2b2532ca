//! A snapshot of pods and nodes that follows the cluster.

use super::{HOLDINGS, Reader, Snapshot, strip};
use divvy_api::Api;
use divvy_api::watch::{Batch, Change, Item, Pace, watch};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// What is kept of an object of `HOLDINGS[N]`.
struct Held<const N: usize>(Value);

impl<'de, const N: usize> Deserialize<'de> for Held<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(strip(&HOLDINGS[N], Value::deserialize(deserializer)?)))
    }
}

impl<const N: usize> Item for Held<N> {
    fn version(&self) -> &str {
        metadata(&self.0, "resourceVersion")
    }

    fn unreadable(_: &str, _: &str) -> Option<Self> {
        None
    }
}

fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn key(object: &Value) -> String {
    format!("{}/{}", metadata(object, "namespace"), metadata(object, "name"))
}

/// The objects of one collection, by namespace and name.
#[derive(Default)]
struct Collection {
    objects: BTreeMap<String, String>,
    /// What a list that is under way has told so far.
    fresh: Option<BTreeMap<String, String>>,
    /// Whether all of it has been told once.
    is_known: bool,
}

impl Collection {
    fn apply(&mut self, change: Change<Value>) {
        let objects = self.fresh.as_mut().unwrap_or(&mut self.objects);
        match change {
            Change::Relisting => self.fresh = Some(BTreeMap::new()),
            Change::Seen(object) => {
                objects.insert(key(&object), object.to_string());
            }
            Change::Gone(object) => {
                objects.remove(&key(&object));
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
    collections: [Collection; 2],
    changes: Receiver<(usize, Vec<Change<Value>>)>,
    _watches: JoinSet<()>,
}

/// A watch that is silent for so long is opened anew; bookmarks come every minute.
const SILENCE: Duration = Duration::from_secs(90);

impl Reader {
    /// Follows pods and nodes from now on.
    pub fn follow(&self) -> Follower {
        let pace = Pace { page: super::PAGE, silence: SILENCE };
        let (forward, changes) = mpsc::channel(1);
        let mut watches = JoinSet::new();
        watches.spawn(one::<0>(self.api.clone(), pace, forward.clone()));
        watches.spawn(one::<1>(self.api.clone(), pace, forward));
        let collections = HOLDINGS.map(|_| Collection::default());
        Follower { collections, changes, _watches: watches }
    }
}

/// Watches `HOLDINGS[N]` and forwards what is kept, until nobody listens.
async fn one<const N: usize>(api: Api, pace: Pace, forward: Sender<(usize, Vec<Change<Value>>)>) {
    let (tell, mut told) = mpsc::channel::<Batch<_>>(1);
    let kept = |change: Change<Held<N>>| match change {
        Change::Relisting => Change::Relisting,
        Change::Seen(Held(object)) => Change::Seen(object),
        Change::Gone(Held(object)) => Change::Gone(object),
        Change::Listed => Change::Listed,
    };
    let forward = async move {
        while let Some(Batch { changes, .. }) = told.recv().await {
            let changes: Vec<_> = changes.into_iter().map(kept).collect();
            if !changes.is_empty() && forward.send((N, changes)).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(watch(api, HOLDINGS[N].resource, pace, tell), forward);
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

    fn pod(name: &str, phase: &str) -> Value {
        json!({"metadata": {"namespace": "ml", "name": name}, "status": {"phase": phase}})
    }

    #[test]
    fn an_object_is_stripped_when_it_is_read() {
        let mut secret = pod("a", "Running");
        secret["metadata"]["resourceVersion"] = "7".into();
        secret["metadata"]["annotations"] = json!({"token": "hunter2"});
        let held: Held<0> = serde_json::from_value(secret).unwrap();
        assert_eq!((held.version(), &*key(&held.0)), ("7", "ml/a"));
        assert!(!held.0.to_string().contains("hunter2"), "{}", held.0);
    }

    #[test]
    fn a_new_list_replaces_what_was_known_once_it_is_complete() {
        let mut pods = Collection::default();
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
