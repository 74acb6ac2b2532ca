//! All that the API says about pods and nodes from a moment on: its own lists and watches, which
//! know nothing of who schedules.

use crate::api::{Api, ApiError, JSON};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// One thing that happened. The numbers of all objects count the same writes, so they order pods
/// and nodes among each other.
#[derive(Clone, Debug)]
pub struct Happened {
    /// When, as the number of the write.
    pub version: u64,
    /// Whether the object is gone since then.
    pub gone: bool,
    /// The object as it was then.
    pub object: Value,
}

/// What is there now: objects by `namespace/name`, nodes by name.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// Pods.
    pub pods: BTreeMap<String, Value>,
    /// Nodes.
    pub nodes: BTreeMap<String, Value>,
}

impl Now {
    /// How many pods of a namespace are bound.
    pub fn bound(&self, namespace: &str) -> usize {
        let of = |pod: &&Value| pod["metadata"]["namespace"] == namespace;
        self.pods.values().filter(of).filter(|pod| pod["spec"]["nodeName"].is_string()).count()
    }

    /// The node of a pod, if it is bound.
    pub fn node_of(&self, pod: &str) -> Option<&str> {
        self.pods.get(pod)?["spec"]["nodeName"].as_str()
    }

    /// The message of a pod's condition PodScheduled.
    pub fn message(&self, pod: &str) -> Option<&str> {
        let conditions = self.pods.get(pod)?["status"]["conditions"].as_array()?;
        conditions.iter().find(|c| c["type"] == "PodScheduled")?["message"].as_str()
    }
}

#[derive(Default)]
struct Book {
    now: Now,
    happened: Vec<Happened>,
    /// Why the history has a gap.
    gap: Option<String>,
}

/// A running record of all pods and nodes.
pub struct History {
    book: Arc<Mutex<Book>>,
    news: Arc<Notify>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for History {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl History {
    /// Records from now on.
    pub async fn record(api: &Api) -> Result<Self, ApiError> {
        let (book, news) = (Arc::new(Mutex::new(Book::default())), Arc::new(Notify::new()));
        let mut tasks = Vec::new();
        for path in ["/api/v1/nodes", "/api/v1/pods"] {
            let list = api.get(path).await?;
            let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
            for item in list["items"].as_array().into_iter().flatten() {
                let mut object = item.clone();
                object["kind"] = if path.ends_with("pods") { "Pod" } else { "Node" }.into();
                lock(&book).enter(object, false);
            }
            let (api, book, news) = (api.clone(), Arc::clone(&book), Arc::clone(&news));
            tasks.push(tokio::spawn(async move {
                let why = follow(&api, path, version, &book, &news).await;
                lock(&book).gap = Some(format!("{path}: {why}"));
                news.notify_waiters();
            }));
        }
        Ok(Self { book, news, tasks })
    }

    /// What is there now.
    pub fn now(&self) -> Now {
        lock(&self.book).now.clone()
    }

    /// Something computed from what is there now.
    pub fn look<T>(&self, look: impl FnOnce(&Now) -> T) -> T {
        look(&lock(&self.book).now)
    }

    /// All that happened, in order. Nothing if the record has a gap.
    pub fn happened(&self) -> Result<Vec<Happened>, String> {
        lock(&self.book).happened()
    }

    /// The same, and from now on only what is there now and what happens next.
    pub fn take(&self) -> Result<Vec<Happened>, String> {
        let mut book = lock(&self.book);
        let happened = book.happened()?;
        let Book { now, happened: kept, .. } = &mut *book;
        kept.clear();
        kept.extend(now.nodes.values().chain(now.pods.values()).map(|object| Happened {
            version: version(object),
            gone: false,
            object: object.clone(),
        }));
        Ok(happened)
    }

    /// Waits until something is true; `what` is said if it does not come true in time.
    pub async fn until(
        &self,
        what: &str,
        patience: Duration,
        mut is_true: impl FnMut(&Now) -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + patience;
        loop {
            let news = self.news.notified();
            if self.look(&mut is_true) {
                return Ok(());
            }
            if let Some(gap) = &lock(&self.book).gap {
                return Err(gap.clone());
            }
            // Not after every single event: what is asked may look at thousands of pods.
            let _ = tokio::time::timeout_at(end, news).await;
            if Instant::now() >= end {
                return Err(format!("waited {} s in vain: {what}", patience.as_secs()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or(0)
}

impl Book {
    fn happened(&self) -> Result<Vec<Happened>, String> {
        if let Some(gap) = &self.gap {
            return Err(gap.clone());
        }
        let mut happened = self.happened.clone();
        happened.sort_by_key(|h| h.version);
        Ok(happened)
    }

    fn enter(&mut self, object: Value, gone: bool) {
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let version = version(&object);
        let is_pod = object["kind"] == "Pod";
        let (key, objects) = if is_pod {
            (format!("{}/{}", text("namespace"), text("name")), &mut self.now.pods)
        } else {
            (text("name").to_owned(), &mut self.now.nodes)
        };
        if gone {
            objects.remove(&key);
        } else {
            objects.insert(key, object.clone());
        }
        self.happened.push(Happened { version, gone, object });
    }
}

/// Watches without end, from a version on; gives the reason if that is impossible.
async fn follow(
    api: &Api,
    path: &str,
    mut version: String,
    book: &Mutex<Book>,
    news: &Notify,
) -> String {
    loop {
        let uri = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        let mut lines = match api.watch(&uri, JSON).await {
            Ok(lines) => lines,
            Err(e) => return e.to_string(),
        };
        while let Some(line) = lines.next().await {
            let mut event: Value = match serde_json::from_slice(&line) {
                Ok(event) => event,
                Err(e) => return e.to_string(),
            };
            let object = event["object"].take();
            if let Some(text) = object["metadata"]["resourceVersion"].as_str() {
                text.clone_into(&mut version);
            }
            match event["type"].as_str() {
                Some("BOOKMARK") => {}
                Some("ADDED" | "MODIFIED") => lock(book).enter(object, false),
                Some("DELETED") => lock(book).enter(object, true),
                _ => return object.to_string(),
            }
            news.notify_waiters();
        }
    }
}

fn lock(book: &Mutex<Book>) -> std::sync::MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}
