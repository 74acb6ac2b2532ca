//! What is to stand on nodes and pods about their cards: it is written until it does, whoever
//! changes it.

use crate::place::Place;
use crate::state::action::{Action, Target};
use crate::state::context::Context;
use crate::state::timers::{self, Timer};
use divvy_api::Failure;
use std::collections::BTreeMap;

/// All places where something stands, or should.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    places: BTreeMap<Place, Entry>,
}

/// What is wanted in a place, and what is there as far as we heard.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    wanted: Option<Box<str>>,
    there: Option<Box<str>>,
    /// Whether a write is under way, or waits to be made again.
    writing: bool,
}

impl Wanted {
    pub(super) fn want(&mut self, place: Place, text: Option<Box<str>>) {
        self.change(place, |entry| entry.wanted = text);
    }

    /// What is there, as the object says itself.
    pub(super) fn seen(&mut self, place: Place, text: Option<Box<str>>) {
        self.change(place, |entry| entry.there = text);
    }

    /// The object is gone, or nobody minds any more what stands there.
    pub(super) fn forget(&mut self, place: &Place) {
        self.places.remove(place);
    }

    /// Whether something is wanted, there or being written.
    pub(super) fn contains(&self, place: &Place) -> bool {
        self.places.contains_key(place)
    }

    /// Whether nothing is there, and nothing is being written.
    pub(super) fn is_bare(&self, place: &Place) -> bool {
        self.places.get(place).is_none_or(|entry| entry.there.is_none() && !entry.writing)
    }

    fn change(&mut self, place: Place, change: impl FnOnce(&mut Entry)) {
        let mut entry = self.places.remove(&place).unwrap_or_default();
        change(&mut entry);
        let is_done = place.is_written_once() && entry.there.is_some();
        if entry != Entry::default() && !is_done {
            self.places.insert(place, entry);
        }
    }

    /// Writes what is not as it should be.
    pub(super) fn write(&mut self, cx: &mut Context) {
        for (place, entry) in &mut self.places {
            if entry.writing || entry.wanted == entry.there {
                continue;
            }
            let Some(uid) = place.uid(&cx.scheduler) else { continue };
            entry.writing = true;
            if let (Some((key, reason)), Some(note), None) =
                (place.warns(), &entry.wanted, &entry.there)
            {
                let pod = Target { key: key.clone(), uid: uid.clone() };
                cx.act(Action::Warn { pod, reason, note: note.to_string() });
            }
            cx.act(Action::Write { place: place.clone(), uid, text: entry.wanted.clone() });
        }
    }

    /// What became of [`Action::Write`].
    pub(super) fn written(
        &mut self,
        place: Place,
        text: Option<Box<str>>,
        result: Result<(), Failure>,
        cx: &mut Context,
    ) {
        if !self.contains(&place) {
            return;
        }
        match result.err().filter(|why| !place.is_over(why)) {
            None => self.change(place, |entry| (entry.there, entry.writing) = (text, false)),
            Some(why) => {
                tracing::warn!(%why, "failed to write {place}, will try again");
                cx.after(timers::wait(&why), Timer::WriteAgain(place));
            }
        }
    }

    /// Some time has passed since a write failed.
    pub(super) fn write_again(&mut self, place: &Place) {
        if let Some(entry) = self.places.get_mut(place) {
            entry.writing = false;
        }
    }
}
