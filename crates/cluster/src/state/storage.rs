//! Volumes: what the watches tell of them, and pods that are bound once their claims and cards are.

use super::failures::Blame;
use super::slots::Hold;
use super::timers::Timer;
use super::{Action, Binding, Grant, State, Target};
use crate::objects::StorageItem;
use crate::watch::Change;
use divvy_engine::{ClaimKey, Event, PodKey, StorageEvent};
use divvy_ledger::{Card, CardShare};
use divvy_words::manifest::StorageKind;
use std::time::{Duration, Instant};

/// A pod that has a place, and whose claims are not all bound yet, or its cards not all held.
#[derive(Debug)]
pub(super) struct Providing {
    binding: Binding,
    /// Whether what has to be written for its claims is written.
    written: bool,
    /// Until when its claims have to be bound.
    until: Instant,
}

impl Providing {
    pub(super) fn is_for(&self, pod: &Target) -> bool {
        self.binding.pod == *pod
    }

    pub(super) const fn binding(&self) -> &Binding {
        &self.binding
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.until <= now
    }
}

/// How long claims may take to be bound, as kube-scheduler waits.
const PATIENCE: Duration = Duration::from_secs(600);

impl State {
    pub(crate) fn storage_changed(
        &mut self,
        kind: StorageKind,
        watch: &'static str,
        change: Change<StorageItem>,
    ) {
        match change {
            Change::Relisting => self.storage.entry(kind).or_default().begin(),
            Change::Seen(StorageItem(object)) => {
                let key = ClaimKey::new(&object.metadata.namespace, &object.metadata.name);
                self.storage.entry(kind).or_default().see(key.clone());
                match divvy_words::storage(kind, &object) {
                    Ok(event) => self.apply(Event::Storage(event)),
                    Err(why) => {
                        tracing::warn!(object = %key, %why, "a storage object cannot be read");
                        self.apply(Event::Storage(gone(kind, key)));
                    }
                }
            }
            Change::Gone(StorageItem(object)) => {
                let key = ClaimKey::new(&object.metadata.namespace, &object.metadata.name);
                self.storage_gone(kind, key);
            }
            Change::Listed => {
                let listing = self.storage.entry(kind).or_default();
                for key in listing.gone() {
                    self.storage_gone(kind, key);
                }
                self.missing.remove(watch);
            }
        }
        self.stirred = true;
        self.told.moved();
    }

    fn storage_gone(&mut self, kind: StorageKind, key: ClaimKey) {
        self.storage.entry(kind).or_default().forget(&key);
        self.apply(Event::Storage(gone(kind, key)));
    }

    /// Binds a pod, or first its claims and its cards.
    pub(super) fn prepare(&mut self, mut binding: Binding, now: Instant) {
        let key = binding.pod.key.clone();
        if matches!(binding.grant, Grant::HandOff(_)) {
            self.reserve(&binding, now);
        }
        if binding.volumes.is_empty()
            && self.scheduler.claims_bound(&key) == Ok(true)
            && self.has_cards(&mut binding)
        {
            return self.write_binding(binding);
        }
        let pod = binding.pod.clone();
        let written = binding.volumes.is_empty();
        if !written {
            let (node, steps) = (binding.placement.node.clone(), binding.volumes.clone());
            self.actions.push(Action::Provide { pod: pod.clone(), node, steps });
        }
        let until = now + PATIENCE;
        self.timers.add(until, Timer::NotProvided(pod));
        self.providing.insert(key.clone(), Providing { binding, written, until });
        self.go_on(&key, now);
    }

    /// What its claims need is written, or could not be.
    pub(super) fn provided(&mut self, pod: &Target, result: Result<(), String>, now: Instant) {
        let providing = self.providing.get_mut(&pod.key).filter(|p| p.is_for(pod));
        let Some(providing) = providing else { return };
        match result {
            Ok(()) => providing.written = true,
            Err(why) => return self.not_provided(pod, &why, now),
        }
        self.go_on(&pod.key, now);
    }

    /// Goes on with the pods whose claims are bound now, if something has changed for them.
    pub(super) fn provide(&mut self, now: Instant) {
        if !std::mem::take(&mut self.stirred) {
            return;
        }
        // There may be thousands that wait for something else.
        let is_due = |(key, p): &(&PodKey, &Providing)| {
            p.written && self.is_provided(key, &p.binding) != Ok(false)
        };
        let due = self.providing.iter().filter(is_due).map(|(key, _)| key.clone());
        for key in due.collect::<Vec<_>>() {
            self.go_on(&key, now);
        }
    }

    /// Goes on with a pod if its claims are bound now, or cannot be.
    fn go_on(&mut self, key: &PodKey, now: Instant) {
        let Some(Providing { binding, .. }) = self.providing.get(key).filter(|p| p.written) else {
            return;
        };
        match self.is_provided(key, binding) {
            Ok(false) => {}
            Ok(true) => {
                let Some(mut providing) = self.providing.remove(key) else { return };
                if self.has_cards(&mut providing.binding) {
                    self.write_binding(providing.binding);
                } else {
                    self.providing.insert(key.clone(), providing);
                }
            }
            Err(why) => {
                let pod = binding.pod.clone();
                self.not_provided(&pod, &why, now);
            }
        }
    }

    /// Whether a pod has all that its binding waits for, or why it will not get it.
    fn is_provided(&self, key: &PodKey, binding: &Binding) -> Result<bool, String> {
        let node = self.scheduler.holding(key).map(|holding| holding.node);
        let node = node.and_then(|id| self.scheduler.ledger().node(id));
        let Some(node) = node.filter(|node| node.is_alive()) else {
            return Err("the node is gone".to_owned());
        };
        // What was seen since it was decided counts more: a pod that is bound has its card.
        let is_taken = |share: &CardShare| {
            node.cards().get(share.index as usize).is_some_and(Card::is_disputed)
        };
        if binding.placement.cards.iter().any(is_taken) {
            return Err("its card was given to another pod meanwhile".to_owned());
        }
        let is_bound = self.scheduler.claims_bound(key).map_err(|why| why.to_string())?;
        Ok(is_bound && (!matches!(binding.grant, Grant::HandOff(_)) || self.are_held(binding)))
    }

    /// Whether all cards of a share are held by now.
    fn are_held(&self, binding: &Binding) -> bool {
        let slot = |share: &CardShare| self.slots.get(&binding.placement.node, share.index);
        let mut slots = binding.placement.cards.iter().map(slot);
        slots.all(|slot| slot.is_some_and(|slot| slot.hold == Hold::Held))
    }

    /// Whether all cards of a pod are held; then the binding says which they are.
    fn has_cards(&self, binding: &mut Binding) -> bool {
        if matches!(binding.grant, Grant::HandOff(_)) {
            let hand_off = self.hand_off(binding);
            binding.grant = Grant::HandOff(hand_off);
        }
        binding.grant != Grant::HandOff(None)
    }

    /// Gives up a place for which the claims could not be bound.
    pub(super) fn not_provided(&mut self, pod: &Target, why: &str, now: Instant) {
        let Some(Providing { binding, .. }) = self.providing.remove(&pod.key) else { return };
        let node = binding.placement.node;
        self.failed(pod, Blame::Node(&node), &format!("to {node}: {why}"), now);
    }
}

fn gone(kind: StorageKind, key: ClaimKey) -> StorageEvent {
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
