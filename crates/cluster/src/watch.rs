//! Keeps up with one kind of object: a list in pages, then a watch from there, for ever.
//!
//! ```text
//!   list, page by page ─► Relisting, Seen.., Listed ─► watch ─► Seen, Gone ...
//!        ▲                                               │ ended, broken or silent: watch again
//!        └────────────── version expired ────────────────┘ from the last version
//! ```
//!
//! Each object is decoded straight into what a decision needs; its text is not kept.

mod split;

pub(crate) use split::Split;

use crate::api::{Api, Failure};
use crate::metrics::{Metrics, Restart, Verb};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::sync::mpsc;

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// For logs and metrics.
    pub(crate) name: &'static str,
    /// The path of the collection.
    pub(crate) path: &'static str,
    /// Whether a cluster may lack it, or forbid us to read it.
    pub(crate) optional: bool,
}

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// All is told anew: what is not told again until [`Change::Listed`] is gone.
    Relisting,
    /// An object is new or has changed.
    Seen(T),
    /// An object is gone; this is the last that was known of it.
    Gone(T),
    /// All has been told.
    Listed,
}

/// What a watch tells at once.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    /// Which watch.
    pub(crate) watch: &'static str,
    /// In their order.
    pub(crate) changes: Vec<Change<T>>,
    /// With these all is told that happened up to this version; not so in the middle of a list.
    pub(crate) version: Option<u64>,
}

/// Up to which version all is known that a watch tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) watch: &'static str,
    /// `None` in the middle of a list.
    pub(crate) version: Option<u64>,
}

impl<T> Batch<T> {
    /// Gives each change, with the name of the watch.
    pub(crate) fn enter(self, mut change: impl FnMut(&'static str, Change<T>)) -> Seen {
        let Self { watch, changes, version } = self;
        changes.into_iter().for_each(|c| change(watch, c));
        Seen { watch, version }
    }
}

impl Source {
    pub(crate) fn batch<T>(&self, changes: Vec<Change<T>>, version: Option<&str>) -> Batch<T> {
        let version = version.and_then(|version| version.parse().ok());
        Batch { watch: self.name, changes, version }
    }
}

/// Objects as a list or a watch gives them.
pub(crate) trait Item: DeserializeOwned + Send + 'static {
    /// The object's version.
    fn version(&self) -> &str;
    /// What to make of an object that cannot be read, from its text.
    fn unreadable(text: &str, why: &str) -> Option<Self>;
}

/// Waits between tries: doubled from the first to the last, back to the first after a success.
#[derive(Debug)]
struct BackOff {
    next: Duration,
    seed: u64,
}

impl BackOff {
    const FIRST: Duration = Duration::from_millis(200);
    const LAST: Duration = Duration::from_secs(30);

    fn new(seed: u64) -> Self {
        Self { next: Self::FIRST, seed }
    }

    fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    /// At least `at_least`, and spread, so that replicas and watches do not come all at once.
    async fn wait(&mut self, at_least: Duration) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let spread = self.next.mul_f64((self.seed >> 40) as f64 / (1u64 << 24) as f64 / 2.0);
        tokio::time::sleep(at_least.max(self.next) + spread).await;
        self.next = (self.next * 2).min(Self::LAST);
    }
}

/// How a watch is kept up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Objects in a page of a list.
    pub(crate) page: usize,
    /// A watch that says nothing for so long, not even a bookmark, is taken for hung.
    pub(crate) silence: Duration,
}

/// So much text of objects is decoded before they are handed on.
const BATCH: usize = 256 * 1024;
/// A list of which nothing comes for so long is given up.
const LIST_SILENCE: Duration = Duration::from_secs(30);

/// Watches until the receiver is gone.
pub(crate) async fn watch<T: Item>(
    api: Api,
    source: Source,
    pace: Pace,
    metrics: Metrics,
    tell: mpsc::Sender<Batch<T>>,
) {
    let mut back_off = BackOff::new(source.path.len() as u64 + u64::from(std::process::id()));
    loop {
        let mut version = match list(&api, &source, pace, &tell).await {
            Ok(version) => version,
            Err(failure) if source.optional && failure.is_absence() => {
                let (resource, why) = (source.name, failure.to_string());
                match failure {
                    Failure::NotFound(_) => tracing::debug!(resource, why, "not there to watch"),
                    _ => tracing::warn!(resource, why, "not watched: the server keeps it from us"),
                }
                // An empty list: nothing of it is known, and nobody waits for it.
                let empty = source.batch(vec![Change::Relisting, Change::Listed], None);
                let _ = tell.send(empty).await;
                tokio::time::sleep(Duration::from_secs(300)).await;
                continue;
            }
            Err(failure) => {
                if tell.is_closed() {
                    return;
                }
                tracing::warn!(resource = source.name, why = %failure, "failed to list, will try again");
                metrics.watch_restart(source.name, Restart::Failed);
                back_off.wait(after(&failure)).await;
                continue;
            }
        };
        loop {
            let (told, end) = follow(&api, &source, pace, &mut version, &tell).await;
            if told {
                back_off.reset();
            }
            match end {
                End::NobodyListens => return,
                // One that ends at once, time and again, must not become a hot loop.
                End::TimedOut => {
                    metrics.watch_restart(source.name, Restart::Ended);
                    if !told {
                        back_off.wait(Duration::ZERO).await;
                    }
                }
                End::Silent => {
                    let seconds = pace.silence.as_secs();
                    tracing::warn!(
                        resource = source.name,
                        seconds,
                        "watch is silent, watching again"
                    );
                    metrics.watch_restart(source.name, Restart::Silent);
                    back_off.wait(Duration::ZERO).await;
                }
                End::Failed(Failure::Expired(why)) => {
                    tracing::info!(resource = source.name, %why, "watch expired, listing again");
                    metrics.watch_restart(source.name, Restart::Expired);
                    back_off.wait(Duration::ZERO).await;
                    break;
                }
                End::Failed(failure) => {
                    tracing::warn!(resource = source.name, why = %failure, "watch broke, watching again");
                    metrics.watch_restart(source.name, Restart::Failed);
                    back_off.wait(after(&failure)).await;
                }
            }
        }
    }
}

fn after(failure: &Failure) -> Duration {
    match failure {
        Failure::Busy { after, .. } => *after,
        _ => Duration::ZERO,
    }
}

/// A page of a list, without its objects.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    r#continue: Option<String>,
}

/// Tells every object, and returns the version from which to watch.
async fn list<T: Item>(
    api: &Api,
    source: &Source,
    pace: Pace,
    tell: &mpsc::Sender<Batch<T>>,
) -> Result<String, Failure> {
    let mut changes = vec![Change::Relisting];
    let mut next: Option<String> = None;
    loop {
        let mut path = format!("{}?limit={}", source.path, pace.page);
        if let Some(next) = &next {
            path = format!("{path}&continue={next}");
        }
        let page = read_page(api, source, &path, &mut changes, tell).await?;
        next = page.metadata.r#continue.filter(|token| !token.is_empty());
        let version = next.is_none().then_some(page.metadata.resource_version);
        if version.is_some() {
            changes.push(Change::Listed);
        }
        let batch = source.batch(std::mem::take(&mut changes), version.as_deref());
        if tell.send(batch).await.is_err() {
            return Err(Failure::Fenced);
        }
        if let Some(version) = version {
            return Ok(version);
        }
    }
}

/// Tells the objects of a page while they come: all of it may be more than there is memory for.
async fn read_page<T: Item>(
    api: &Api,
    source: &Source,
    path: &str,
    changes: &mut Vec<Change<T>>,
    tell: &mpsc::Sender<Batch<T>>,
) -> Result<Page, Failure> {
    let unclear = |why: String| Failure::Unclear(format!("the list cannot be read: {why}"));
    let mut body = api.open(Verb::List, path).await?;
    let (mut split, mut bytes) = (Split::default(), 0);
    loop {
        let piece = tokio::time::timeout(LIST_SILENCE, next_chunk(&mut body)).await;
        let piece = piece.map_err(|_| unclear("nothing came for a while".to_owned()))?;
        let Some(piece) = piece.map_err(unclear)? else { break };
        let pushed = split.push(&piece, |item| {
            bytes += item.len();
            let text = std::str::from_utf8(item).unwrap_or_default();
            changes.extend(decode(source, text).map(Change::Seen));
        });
        pushed.map_err(|why| unclear(why.to_owned()))?;
        if bytes >= BATCH {
            bytes = 0;
            if tell.send(source.batch(std::mem::take(changes), None)).await.is_err() {
                return Err(Failure::Fenced);
            }
        }
    }
    serde_json::from_slice(split.rest()).map_err(|why| unclear(why.to_string()))
}

pub(crate) fn decode<T: Item>(source: &Source, text: &str) -> Option<T> {
    serde_json::from_str(text).map_or_else(
        |error| {
            let why = error.to_string();
            tracing::warn!(resource = source.name, %why, "an object cannot be read");
            T::unreadable(text, &why)
        },
        Some,
    )
}

/// How a watch ended.
enum End {
    /// As it should, after its time.
    TimedOut,
    /// Nothing was heard for too long.
    Silent,
    NobodyListens,
    Failed(Failure),
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Follows a watch from `version` on until it ends; returns also whether it told anything.
async fn follow<T: Item>(
    api: &Api,
    source: &Source,
    pace: Pace,
    version: &mut String,
    tell: &mpsc::Sender<Batch<T>>,
) -> (bool, End) {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={version}",
        source.path
    );
    let mut body = tokio::select! {
        opened = api.open(Verb::Watch, &path) => match opened {
            Ok(body) => body,
            Err(failure) => return (false, End::Failed(failure)),
        },
        () = tell.closed() => return (false, End::NobodyListens),
    };
    let mut buffer: Vec<u8> = Vec::new();
    let mut told = false;
    loop {
        let data = tokio::select! {
            data = tokio::time::timeout(pace.silence, next_chunk(&mut body)) => data,
            () = tell.closed() => return (told, End::NobodyListens),
        };
        let Ok(data) = data else { return (told, End::Silent) };
        match data {
            Ok(Some(data)) => buffer.extend_from_slice(&data),
            Ok(None) => return (told, End::TimedOut),
            Err(why) => return (told, End::Failed(Failure::Unclear(why))),
        }
        let Some(end) = buffer.iter().rposition(|b| *b == b'\n') else { continue };
        let mut changes = Vec::new();
        let read = read_lines(source, &buffer[..end], version, &mut changes);
        buffer.drain(..=end);
        told = true;
        // A bookmark changes nothing, but says how far this is.
        if tell.send(source.batch(changes, Some(version))).await.is_err() {
            return (told, End::NobodyListens);
        }
        if let Err(failure) = read {
            return (told, End::Failed(failure));
        }
    }
}

async fn next_chunk(
    body: &mut Body,
) -> Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]> + use<>>, String> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Reads whole lines of a watch. `version` follows.
pub(crate) fn read_lines<T: Item>(
    source: &Source,
    text: &[u8],
    version: &mut String,
    changes: &mut Vec<Change<T>>,
) -> Result<(), Failure> {
    for line in text.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let line: Line<'_> = serde_json::from_slice(line)
            .map_err(|e| Failure::Unclear(format!("a line of the watch cannot be read: {e}")))?;
        let object = line.object.get();
        match line.r#type {
            "BOOKMARK" => {
                if let Some(bookmark) = bookmark(object) {
                    *version = bookmark;
                }
            }
            "ERROR" => return Err(error(object)),
            kind => {
                let Some(item) = decode::<T>(source, object) else { continue };
                if !item.version().is_empty() {
                    version.replace_range(.., item.version());
                }
                let gone = kind == "DELETED";
                changes.push(if gone { Change::Gone(item) } else { Change::Seen(item) });
            }
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: PageMetadata,
}

fn bookmark(text: &str) -> Option<String> {
    let bookmark: Bookmark = serde_json::from_str(text).ok()?;
    Some(bookmark.metadata.resource_version).filter(|version| !version.is_empty())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorStatus {
    code: u16,
    message: String,
}

fn error(text: &str) -> Failure {
    let status: ErrorStatus = serde_json::from_str(text).unwrap_or_default();
    match status.code {
        410 => Failure::Expired(status.message),
        _ => Failure::Unclear(status.message),
    }
}

#[cfg(test)]
mod tests;
