//! Volumes: what the watches tell of them, and pods whose claims are bound before they are.

use super::failures::Blame;
use super::timers::Timer;
use super::{Action, Binding, State, Target};
use crate::objects::StorageItem;
use crate::watch::Change;
use divvy_engine::{ClaimKey, Event, PodKey, StorageEvent};
use divvy_words::manifest::StorageKind;
use std::time::{Duration, Instant};

/// A pod that has a place, and whose claims are not all bound yet.
#[derive(Debug)]
pub(super) struct Providing {
    binding: Binding,
    /// Whether what has to be written for its claims is written.
    written: bool,
}

impl Providing {
    pub(super) fn is_for(&self, pod: &Target) -> bool {
        self.binding.pod == *pod
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
        now: Instant,
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
        self.provide(now);
    }

    fn storage_gone(&mut self, kind: StorageKind, key: ClaimKey) {
        self.storage.entry(kind).or_default().forget(&key);
        self.apply(Event::Storage(gone(kind, key)));
    }

    /// Binds a pod, or first its claims.
    pub(super) fn bind_with_claims(&mut self, binding: Binding, now: Instant) {
        let key = binding.pod.key.clone();
        if binding.volumes.is_empty() && self.scheduler.claims_bound(&key) == Ok(true) {
            return self.write_binding(binding);
        }
        let pod = binding.pod.clone();
        let written = binding.volumes.is_empty();
        if !written {
            let (node, steps) = (binding.placement.node.clone(), binding.volumes.clone());
            self.actions.push(Action::Provide { pod: pod.clone(), node, steps });
        }
        self.timers.add(now + PATIENCE, Timer::NotProvided(pod));
        self.providing.insert(key, Providing { binding, written });
        self.provide(now);
    }

    /// What its claims need is written, or could not be.
    pub(super) fn provided(&mut self, pod: &Target, result: Result<(), String>, now: Instant) {
        let providing = self.providing.get_mut(&pod.key).filter(|p| p.is_for(pod));
        let Some(providing) = providing else { return };
        match result {
            Ok(()) => providing.written = true,
            Err(why) => return self.not_provided(pod, &why, now),
        }
        self.provide(now);
    }

    /// Goes on with the pods whose claims are bound now.
    pub(super) fn provide(&mut self, now: Instant) {
        if self.providing.is_empty() {
            return;
        }
        let written = self.providing.iter().filter(|(_, p)| p.written);
        let keys: Vec<PodKey> = written.map(|(key, _)| key.clone()).collect();
        for key in keys {
            match self.scheduler.claims_bound(&key) {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(Providing { binding, .. }) = self.providing.remove(&key) {
                        self.write_binding(binding);
                    }
                }
                Err(why) => {
                    let Some(pod) = self.providing.get(&key).map(|p| p.binding.pod.clone()) else {
                        continue;
                    };
                    self.not_provided(&pod, &why.to_string(), now);
                }
            }
        }
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
