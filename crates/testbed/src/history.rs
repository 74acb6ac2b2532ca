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
    /// When we heard of it.
    pub heard: Instant,
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
    /// Up to which version all of a path is known.
    versions: BTreeMap<&'static str, u64>,
    /// Why the history has a gap.
    gap: Option<String>,
}

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/pods";

/// A running record of all pods and nodes.
pub struct History {
    api: Api,
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
        for path in [NODES, PODS] {
            let list = api.get(path).await?;
            for item in list["items"].as_array().into_iter().flatten() {
                let mut object = item.clone();
                object["kind"] = if path == PODS { "Pod" } else { "Node" }.into();
                lock(&book).enter(object, false);
            }
            lock(&book).versions.insert(path, version(&list));
            let (api, book, news) = (api.clone(), Arc::clone(&book), Arc::clone(&news));
            tasks.push(tokio::spawn(async move {
                let why = follow(&api, path, &book, &news).await;
                lock(&book).gap = Some(format!("{path}: {why}"));
                news.notify_waiters();
            }));
        }
        Ok(Self { api: api.clone(), book, news, tasks })
    }

    /// Waits until all is recorded that has happened by now: pods and nodes come by two watches,
    /// and either may be behind.
    pub async fn catch_up(&self, patience: Duration) -> Result<(), String> {
        for path in [NODES, PODS] {
            let list = self.api.get(path).await.map_err(|why| why.to_string())?;
            let items = list["items"].as_array().into_iter().flatten();
            let there: BTreeMap<_, _> = items.map(|item| (key(item), version(item))).collect();
            // A watch says nothing of versions in which nothing changed.
            let is_same = |book: &Book| {
                let known = if path == PODS { &book.now.pods } else { &book.now.nodes };
                let is_there = |(key, object): (_, _)| there.get(key) == Some(&version(object));
                known.len() == there.len() && known.iter().all(is_there)
            };
            let what = format!("all that {path} had is recorded");
            self.wait(&what, patience, |book| {
                book.versions[path] >= version(&list) || is_same(book)
            })
            .await?;
        }
        Ok(())
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

    /// The same, and next time only what happens from now on.
    pub fn take(&self) -> Result<Vec<Happened>, String> {
        let mut book = lock(&self.book);
        let happened = book.happened()?;
        book.happened.clear();
        Ok(happened)
    }

    /// Waits until something is true; `what` is said if it does not come true in time.
    pub async fn until(
        &self,
        what: &str,
        patience: Duration,
        mut is_true: impl FnMut(&Now) -> bool,
    ) -> Result<(), String> {
        self.wait(what, patience, |book| is_true(&book.now)).await
    }

    async fn wait(
        &self,
        what: &str,
        patience: Duration,
        mut is_true: impl FnMut(&Book) -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + patience;
        loop {
            let news = self.news.notified();
            if is_true(&lock(&self.book)) {
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
        let is_pod = object["kind"] == "Pod";
        let objects = if is_pod { &mut self.now.pods } else { &mut self.now.nodes };
        if gone {
            objects.remove(&key(&object));
        } else {
            objects.insert(key(&object), object.clone());
        }
        let (version, heard) = (version(&object), Instant::now());
        self.happened.push(Happened { version, gone, object, heard });
    }
}

/// `namespace/name`, or the name of what is in no namespace.
fn key(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str();
    let name = text("name").unwrap_or_default();
    text("namespace").map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Watches without end, from the version on that is known; gives the reason if that is impossible.
async fn follow(api: &Api, path: &'static str, book: &Mutex<Book>, news: &Notify) -> String {
    loop {
        let from = lock(book).versions[path];
        let uri = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
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
            let mut book = lock(book);
            if version(&object) > 0 {
                book.versions.insert(path, version(&object));
            }
            match event["type"].as_str() {
                Some("BOOKMARK") => {}
                Some("ADDED" | "MODIFIED") => book.enter(object, false),
                Some("DELETED") => book.enter(object, true),
                _ => return object.to_string(),
            }
            drop(book);
            news.notify_waiters();
        }
    }
}

fn lock(book: &Mutex<Book>) -> std::sync::MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}
