//! Keeps up with one kind of object: a list in pages, then a watch from there, for ever.
//!
//! ```text
//!   list, page by page ─► Relisting, Seen.., Listed ─► watch ─► Seen, Gone ...
//!        ▲                                               │ ended, broken or silent: watch again
//!        └────────────── version expired ────────────────┘ from the last version
//! ```
//!
//! Each object is decoded straight into what a decision needs; its text is not kept.

mod back_off;

use crate::failure::Failure;
use crate::list::{List, ListMetadata, ListProgress};
use crate::observer::{Restart, Verb};
use crate::request::{Api, next_piece};
use crate::resources::Resource;
use back_off::BackOff;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::sync::mpsc;

/// What a watch tells.
#[derive(Debug)]
pub enum Change<T> {
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
pub struct Batch<T> {
    /// Which watch.
    pub watch: &'static str,
    /// In their order.
    pub changes: Vec<Change<T>>,
    /// With these all is told that happened up to this version; not so in the middle of a list.
    pub version: Option<u64>,
}

/// Up to which version all is known that a watch tells.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Which watch.
    pub watch: &'static str,
    /// `None` in the middle of a list.
    pub version: Option<u64>,
}

impl<T> Batch<T> {
    /// What a watch of this resource tells.
    pub fn new(resource: &Resource, changes: Vec<Change<T>>, version: Option<&str>) -> Self {
        let version = version.and_then(|version| version.parse().ok());
        Self { watch: resource.name, changes, version }
    }

    /// Gives each change, with the name of the watch.
    pub fn enter(self, mut change: impl FnMut(&'static str, Change<T>)) -> Seen {
        let Self { watch, changes, version } = self;
        changes.into_iter().for_each(|c| change(watch, c));
        Seen { watch, version }
    }
}

/// Objects as a list or a watch gives them.
pub trait Item: DeserializeOwned + Send + 'static {
    /// The object's version.
    fn version(&self) -> &str;
    /// What to make of an object that cannot be read, from its text.
    fn unreadable(text: &str, why: &str) -> Option<Self>;
}

/// How a watch is kept up.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Objects in a page of a list.
    pub page: usize,
    /// A watch that says nothing for so long, not even a bookmark, is taken for hung.
    pub silence: Duration,
}

/// So much text of objects is decoded before they are handed on.
const BATCH: usize = 256 * 1024;
/// What a cluster lacks, or keeps from us, is looked for again so often.
const ABSENCE: Duration = Duration::from_secs(300);

/// Watches until the receiver is gone.
pub async fn watch<T: Item>(
    api: Api,
    resource: Resource,
    pace: Pace,
    tell: mpsc::Sender<Batch<T>>,
) {
    let restart = |why| api.observer().watch_restart(resource.name, why);
    let mut back_off = BackOff::new(resource.path().len() as u64 + u64::from(std::process::id()));
    loop {
        let mut version = match list(&api, &resource, pace, &tell).await {
            Ok(version) => version,
            Err(failure) if resource.optional && failure.is_absence() => {
                let (name, why) = (resource.name, failure.to_string());
                match failure {
                    Failure::NotFound(_) => {
                        tracing::debug!(resource = name, why, "not there to watch");
                    }
                    _ => tracing::warn!(
                        resource = name,
                        why,
                        "not watched: the server keeps it from us"
                    ),
                }
                // An empty list: nothing of it is known, and nobody waits for it.
                let empty = vec![Change::Relisting, Change::Listed];
                let _ = tell.send(Batch::new(&resource, empty, None)).await;
                tokio::time::sleep(ABSENCE).await;
                continue;
            }
            Err(failure) => {
                if tell.is_closed() {
                    return;
                }
                tracing::warn!(resource = resource.name, why = %failure, "failed to list, will try again");
                restart(Restart::Failed);
                back_off.wait(after(&failure)).await;
                continue;
            }
        };
        loop {
            let (told, end) = follow(&api, &resource, pace, &mut version, &tell).await;
            if told {
                back_off.reset();
            }
            match end {
                End::NobodyListens => return,
                // One that ends at once, time and again, must not become a hot loop.
                End::TimedOut => {
                    restart(Restart::Ended);
                    if !told {
                        back_off.wait(Duration::ZERO).await;
                    }
                }
                End::Silent => {
                    let seconds = pace.silence.as_secs();
                    tracing::warn!(
                        resource = resource.name,
                        seconds,
                        "watch is silent, watching again"
                    );
                    restart(Restart::Silent);
                    back_off.wait(Duration::ZERO).await;
                }
                End::Failed(Failure::Expired(why)) => {
                    tracing::info!(resource = resource.name, %why, "watch expired, listing again");
                    restart(Restart::Expired);
                    back_off.wait(Duration::ZERO).await;
                    break;
                }
                End::Failed(failure) => {
                    tracing::warn!(resource = resource.name, why = %failure, "watch broke, watching again");
                    restart(Restart::Failed);
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

/// Tells every object, and returns the version from which to watch.
async fn list<T: Item>(
    api: &Api,
    resource: &Resource,
    pace: Pace,
    tell: &mpsc::Sender<Batch<T>>,
) -> Result<String, Failure> {
    let mut list = List::new(api, resource.path(), pace.page);
    let (mut changes, mut bytes) = (vec![Change::Relisting], 0);
    loop {
        let progress = list.next(|item| {
            bytes += item.len();
            let text = std::str::from_utf8(item).unwrap_or_default();
            changes.extend(decode(resource, text).map(Change::Seen));
        });
        let version = match progress.await? {
            ListProgress::Piece if bytes < BATCH => continue,
            ListProgress::Piece | ListProgress::Page { .. } => None,
            ListProgress::End { version } => {
                changes.push(Change::Listed);
                Some(version)
            }
        };
        bytes = 0;
        let batch = Batch::new(resource, std::mem::take(&mut changes), version.as_deref());
        if tell.send(batch).await.is_err() {
            return Err(Failure::Fenced);
        }
        if let Some(version) = version {
            return Ok(version);
        }
    }
}

/// An object of its text; one that cannot be read is what its kind makes of it.
pub fn decode<T: Item>(resource: &Resource, text: &str) -> Option<T> {
    serde_json::from_str(text).map_or_else(
        |error| {
            let why = error.to_string();
            tracing::warn!(resource = resource.name, %why, "an object cannot be read");
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
    resource: &Resource,
    pace: Pace,
    version: &mut String,
    tell: &mpsc::Sender<Batch<T>>,
) -> (bool, End) {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={version}",
        resource.path()
    );
    let mut body = tokio::select! {
        opened = api.open(Verb::Watch, &path) => match opened {
            Ok(body) => body,
            Err(failure) => return (false, End::Failed(failure)),
        },
        () = tell.closed() => return (false, End::NobodyListens),
    };
    let mut lines = Lines::default();
    let mut told = false;
    loop {
        let data = tokio::select! {
            data = tokio::time::timeout(pace.silence, next_piece(&mut body)) => data,
            () = tell.closed() => return (told, End::NobodyListens),
        };
        let Ok(data) = data else { return (told, End::Silent) };
        let data = match data {
            Ok(Some(data)) => data,
            Ok(None) => return (told, End::TimedOut),
            Err(why) => return (told, End::Failed(Failure::Unclear(why.to_string()))),
        };
        let mut changes = Vec::new();
        let read = lines.push(&data, |text| read_lines(resource, text, version, &mut changes));
        let Some(read) = read else { continue };
        told = true;
        // A bookmark changes nothing, but says how far this is.
        if tell.send(Batch::new(resource, changes, Some(version))).await.is_err() {
            return (told, End::NobodyListens);
        }
        if let Err(failure) = read {
            return (told, End::Failed(failure));
        }
    }
}

/// Lines that come in pieces. An object of megabytes comes in hundreds of them, each of which is
/// looked through once.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Takes the next piece; the lines that are whole now go to `read`, if there are any.
    fn push<T>(&mut self, piece: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let end = piece.iter().rposition(|b| *b == b'\n').map(|at| self.0.len() + at);
        self.0.extend_from_slice(piece);
        let end = end?;
        let read = read(self.0.get(..end).unwrap_or_default());
        self.0.drain(..=end);
        Some(read)
    }
}

/// Reads whole lines of a watch. `version` follows.
pub fn read_lines<T: Item>(
    resource: &Resource,
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
            "ERROR" => return Err(Failure::of_event(object)),
            kind => {
                let Some(item) = decode::<T>(resource, object) else { continue };
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
    metadata: ListMetadata,
}

fn bookmark(text: &str) -> Option<String> {
    let bookmark: Bookmark = serde_json::from_str(text).ok()?;
    Some(bookmark.metadata.resource_version).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests;
