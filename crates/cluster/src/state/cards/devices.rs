//! Which cards whole-GPU pods were given, where the kubelet tells.

use crate::objects::PodItem;
use divvy_engine::ObjectKey;
use foldhash::HashMap;

/// The cards of pods, and the pods of cards.
#[derive(Debug, Default)]
pub(super) struct Devices {
    of_pods: HashMap<ObjectKey, Box<[Box<str>]>>,
    owners: HashMap<Box<str>, Vec<ObjectKey>>,
}

impl Devices {
    /// Takes note of the cards that a pod was given. Whether that is new.
    pub(super) fn notice(&mut self, key: &ObjectKey, pod: &PodItem) -> bool {
        let card = |id: &str| -> Box<str> { id.split("::").next().unwrap_or(id).into() };
        let devices: Box<[Box<str>]> = pod.status.devices().map(card).collect();
        if devices.is_empty() || self.of_pods.get(key).is_some_and(|known| *known == devices) {
            return false;
        }
        self.remove(key);
        for device in &devices {
            self.owners.entry(device.clone()).or_default().push(key.clone());
        }
        self.of_pods.insert(key.clone(), devices);
        true
    }

    /// Whether there was something to forget.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> bool {
        let Some(devices) = self.of_pods.remove(key) else { return false };
        for device in devices {
            if let Some(owners) = self.owners.get_mut(&device) {
                owners.retain(|owner| owner != key);
                if owners.is_empty() {
                    self.owners.remove(&device);
                }
            }
        }
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of_pods.is_empty()
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.of_pods.contains_key(key)
    }

    /// The pods that were given this card.
    pub(super) fn owners(&self, uuid: &str) -> &[ObjectKey] {
        self.owners.get(uuid).map_or(&[], Vec::as_slice)
    }
}
