//! How many volumes of a driver a node takes.
#![allow(clippy::unwrap_used)]

mod common;
use common::storage::*;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;

/// Node `a`, where driver `d` takes this many volumes.
fn limited(limit: Option<u32>) -> Scheduler {
    let mut s = cluster(Config::default(), [node("a", Gpus::none())]);
    tell(&mut s, csi_node("a", "d", limit));
    for name in ["one", "two", "three"] {
        tell(&mut s, csi_volume(name, "d"));
        tell(&mut s, bound_claim(name, name));
    }
    s
}

fn attachment(name: &str, volume: &str) -> AttachmentRecord {
    AttachmentRecord {
        name: name.into(),
        node: "a".into(),
        driver: "d".into(),
        volume: volume.into(),
    }
}

#[test]
fn a_node_takes_no_more_volumes_than_its_driver_says() {
    let cases = [
        (None, "a", "a"),
        (Some(3), "a", "a"),
        (Some(2), "a", ""),
        (Some(1), "", ""),
        (Some(0), "", ""),
    ];
    for (limit, two, three) in cases {
        let s = limited(limit);
        assert_eq!(feasible(&s, &claiming(["one", "two"])), two, "{limit:?}");
        assert_eq!(feasible(&s, &claiming(["one", "two", "three"])), three, "{limit:?}");
    }
    let s = limited(Some(2));
    assert_eq!(why(&s, &claiming(["one", "two", "three"])), "node takes 2 volumes of d");
}

#[test]
fn a_volume_counts_once_however_many_pods_use_it() {
    let mut s = limited(Some(2));
    place(&mut s, "p", claiming(["one"]));
    place(&mut s, "q", claiming(["one"]));
    assert_eq!(feasible(&s, &claiming(["one", "two"])), "a");
    assert_eq!(feasible(&s, &claiming(["two", "three"])), "");
    gone(&mut s, "p");
    assert_eq!(feasible(&s, &claiming(["two", "three"])), "");
    gone(&mut s, "q");
    assert_eq!(feasible(&s, &claiming(["two", "three"])), "a");
}

#[test]
fn a_full_node_takes_pods_with_volumes_it_has_and_with_none() {
    let mut s = limited(Some(1));
    place(&mut s, "p", claiming(["one"]));
    assert_eq!(feasible(&s, &claiming(["one"])), "a");
    assert_eq!(feasible(&s, &cpu(1)), "a");
    tell(&mut s, csi_volume("other", "e"));
    tell(&mut s, bound_claim("other", "other"));
    assert_eq!(feasible(&s, &claiming(["other"])), "a", "another driver has no limit");
}

#[test]
fn a_volume_that_is_still_attached_counts() {
    let mut s = limited(Some(2));
    tell(&mut s, attachment("x", "three"));
    assert_eq!(feasible(&s, &claiming(["one"])), "a");
    assert_eq!(feasible(&s, &claiming(["one", "two"])), "");
    // One that a pod on the node uses is not counted again.
    place(&mut s, "p", claiming(["three"]));
    assert_eq!(feasible(&s, &claiming(["one"])), "a");
    gone(&mut s, "p");
    tell(&mut s, attachment("y", "unknown"));
    assert_eq!(feasible(&s, &claiming(["one"])), "a", "nobody knows what that is");
    tell(&mut s, StorageEvent::AttachmentGone("x".into()));
    assert_eq!(feasible(&s, &claiming(["one", "two"])), "a");
}

#[test]
fn volumes_that_will_be_made_count_for_their_driver() {
    let mut s = limited(Some(1));
    tell(&mut s, class("late", "d"));
    tell(&mut s, claim("new", "late"));
    tell(&mut s, claim("newer", "late"));
    assert_eq!(feasible(&s, &claiming(["new"])), "a");
    assert_eq!(feasible(&s, &claiming(["new", "newer"])), "");
    place(&mut s, "p", claiming(["new"]));
    assert_eq!(feasible(&s, &claiming(["new"])), "a");
    assert_eq!(feasible(&s, &claiming(["newer"])), "");
}

#[test]
fn disks_of_in_tree_plugins_count_where_their_driver_is_known() {
    let disk = |handle: &str| {
        VolumeUse::Attached(Attached { driver: "d".into(), handle: handle.into(), in_tree: true })
    };
    let mut s = limited(Some(1));
    s.apply(Event::Node(Box::new(node("b", Gpus::none())))).unwrap();
    assert_eq!(feasible(&s, &using([disk("x")])), "a b");
    assert_eq!(feasible(&s, &using([disk("x"), disk("y")])), "b");
    let attached = Attached { driver: "d".into(), handle: "x".into(), in_tree: true };
    tell(&mut s, VolumeRecord { attached: Some(attached), ..volume("v", "") });
    tell(&mut s, bound_claim("data", "v"));
    let both = using([disk("x"), VolumeUse::Claim(claim_key("data"))]);
    assert_eq!(feasible(&s, &both), "a b", "both are the same volume");
    let in_tree = ClassRecord { in_tree: true, ..class("late", "d") };
    tell(&mut s, in_tree);
    tell(&mut s, claim("new", "late"));
    let both = using([disk("x"), VolumeUse::Claim(claim_key("new"))]);
    assert_eq!(feasible(&s, &both), "b");
}

#[test]
fn a_driver_that_must_be_installed_keeps_pods_off_nodes_without_it() {
    let mut s = limited(None);
    for (name, driver) in [("b", Some("e")), ("c", None)] {
        s.apply(Event::Node(Box::new(node(name, Gpus::none())))).unwrap();
        if let Some(driver) = driver {
            tell(&mut s, csi_node(name, driver, Some(9)));
        }
    }
    assert_eq!(feasible(&s, &claiming(["one"])), "a b c");
    let driver = |must_be_installed| DriverRecord {
        name: "d".into(),
        tells_capacity: false,
        must_be_installed,
    };
    tell(&mut s, driver(true));
    assert_eq!(feasible(&s, &claiming(["one"])), "a");
    tell(&mut s, StorageEvent::CsiNodeGone("a".into()));
    assert_eq!(why(&s, &claiming(["one"])), "CSI driver d is not installed");
    tell(&mut s, driver(false));
    assert_eq!(feasible(&s, &claiming(["one"])), "a b c");
}
