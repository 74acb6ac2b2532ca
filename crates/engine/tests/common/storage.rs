//! Small builders for storage objects and pods that use them.

use super::*;
use std::sync::Arc;

pub fn claim_key(name: &str) -> ObjectKey {
    ObjectKey::new("ml", name)
}

/// A claim of 10 GiB that is not bound.
pub fn claim(name: &str, class: &str) -> ClaimRecord {
    ClaimRecord {
        key: claim_key(name),
        uid: format!("uid-{name}").into(),
        owner: None,
        terms: Terms {
            class: class.into(),
            size: Some(Bytes(10 * GIB)),
            modes: AccessModes::READ_WRITE_ONCE,
            ..Terms::default()
        },
        selector: Selector::all([]),
        volume: None,
        bind_completed: false,
        selected_node: None,
        lost: false,
        deleting: false,
    }
}

/// A claim that is bound to a volume.
pub fn bound_claim(name: &str, volume: &str) -> ClaimRecord {
    ClaimRecord { volume: Some(volume.into()), bind_completed: true, ..claim(name, "") }
}

/// A volume of 10 GiB that nobody has and every node reaches.
pub fn volume(name: &str, class: &str) -> VolumeRecord {
    VolumeRecord {
        name: name.into(),
        terms: Terms {
            class: class.into(),
            size: Some(Bytes(10 * GIB)),
            modes: AccessModes::READ_WRITE_ONCE,
            ..Terms::default()
        },
        labels: Labels::default(),
        claim: None,
        available: true,
        deleting: false,
        affinity: None,
        migrated: None,
        attached: None,
    }
}

/// A volume of a driver.
pub fn csi_volume(name: &str, driver: &str) -> VolumeRecord {
    let attached = Attached { driver: driver.into(), handle: name.into(), in_tree: false };
    VolumeRecord { attached: Some(attached), ..volume(name, "") }
}

pub fn term(key: &str, value: &str) -> Term {
    Term { labels: vec![requirement(key, value)], fields: Vec::new() }
}

pub fn requirement(key: &str, value: &str) -> Requirement {
    Requirement { key: key.into(), test: Test::In(vec![value.into()].into()) }
}

/// A volume that only nodes with this label reach.
pub fn local_volume(name: &str, class: &str, key: &str, value: &str) -> VolumeRecord {
    VolumeRecord { affinity: Some([term(key, value)].into()), ..volume(name, class) }
}

/// A class that waits for the first pod and makes volumes.
pub fn class(name: &str, provisioner: &str) -> ClassRecord {
    ClassRecord {
        name: name.into(),
        provisioner: Some(provisioner.into()),
        driver: Some(provisioner.into()),
        in_tree: false,
        waits_for_pod: true,
        topologies: Box::default(),
    }
}

/// A class that waits for the first pod, of volumes that are made by hand.
pub fn local_class(name: &str) -> ClassRecord {
    ClassRecord { provisioner: None, driver: None, ..class(name, "") }
}

pub fn csi_node(node: &str, driver: &str, limit: Option<u32>) -> CsiNodeRecord {
    CsiNodeRecord {
        node: node.into(),
        drivers: [(driver.into(), limit)].into(),
        migrated: Box::default(),
    }
}

/// What can be told of storage.
pub trait Tell {
    fn event(self) -> StorageEvent;
}

macro_rules! tell {
    ($($record:ty => $variant:ident),* $(,)?) => {$(
        impl Tell for $record {
            fn event(self) -> StorageEvent {
                StorageEvent::$variant(self.into())
            }
        }
    )*};
}
tell! {
    ClaimRecord => Claim, VolumeRecord => Volume, ClassRecord => Class, CsiNodeRecord => CsiNode,
    DriverRecord => Driver, CapacityRecord => Capacity, AttachmentRecord => Attachment,
}

impl Tell for StorageEvent {
    fn event(self) -> StorageEvent {
        self
    }
}

pub fn tell(scheduler: &mut Scheduler, object: impl Tell) {
    scheduler.apply(Event::Storage(object.event())).unwrap();
}

pub fn using(volumes: impl IntoIterator<Item = VolumeUse>) -> PodSpec {
    let volumes = volumes.into_iter().collect();
    let relations = Some(Arc::new(Relations { volumes, ..Relations::default() }));
    PodSpec { relations, ..PodSpec::default() }
}

/// A pod that uses claims and nothing else.
pub fn claiming<const N: usize>(names: [&str; N]) -> PodSpec {
    using(names.map(|name| VolumeUse::Claim(claim_key(name))))
}

/// A node with this label.
pub fn labelled(name: &str, key: &str, value: &str) -> NodeRecord {
    let mut record = node(name, Gpus::none());
    record.facts.labels = vec![(key.into(), value.into())];
    record
}

/// The nodes that a pod of this spec may go to now, and why not to the others.
pub fn feasible(scheduler: &Scheduler, spec: &PodSpec) -> String {
    let names = scheduler.feasible(&pod("asked", spec.clone()));
    names.iter().map(|name| &**name).collect::<Vec<_>>().join(" ")
}

/// Why a pod of this spec waits: the reasons of all refusals, one after another.
pub fn why(scheduler: &Scheduler, spec: &PodSpec) -> String {
    let mut copy = scheduler.clone();
    assert_eq!(place(&mut copy, "asked", spec.clone()), "asked waits");
    let refusals = waiting(&copy, "asked").refusals;
    refusals.iter().map(|refusals| refusals.reason.to_string()).collect::<Vec<_>>().join("; ")
}
