//! Where volumes let a pod run: a table for each predicate of kube-scheduler's volume plugins.
#![allow(clippy::unwrap_used)]

mod common;
use common::storage::*;
use common::*;
use divvy_engine::*;
use divvy_ledger::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";

/// Nodes `a` and `b` in the zones of their names.
fn two_zones() -> Scheduler {
    cluster(Config::default(), [labelled("a", ZONE, "a"), labelled("b", ZONE, "b")])
}

#[test]
fn a_claim_that_cannot_be_used_keeps_its_pod_off_every_node() {
    let cases = [
        (None, "claim ml/data does not exist"),
        (
            Some(ClaimRecord { deleting: true, ..bound_claim("data", "v") }),
            "claim ml/data is being deleted",
        ),
        (
            Some(ClaimRecord { lost: true, ..bound_claim("data", "v") }),
            "claim ml/data is bound to volume v, which does not exist",
        ),
        (
            Some(bound_claim("data", "unknown")),
            "claim ml/data is bound to volume unknown, which does not exist",
        ),
        (Some(claim("data", "")), "claim ml/data is not bound yet"),
        (Some(claim("data", "unknown")), "claim ml/data is not bound yet"),
        (Some(claim("data", "immediate")), "claim ml/data is not bound yet"),
        (
            Some(ClaimRecord { bind_completed: false, ..bound_claim("data", "v") }),
            "claim ml/data is not bound yet",
        ),
        (
            // Named by hand: the volume controller binds it, not the scheduler.
            Some(ClaimRecord { volume: Some("v".into()), ..claim("data", "late") }),
            "claim ml/data is not bound yet",
        ),
    ];
    for (record, reason) in cases {
        let mut s = two_zones();
        tell(&mut s, volume("v", ""));
        tell(&mut s, class("late", "d"));
        tell(&mut s, ClassRecord { waits_for_pod: false, ..class("immediate", "d") });
        if let Some(record) = record {
            tell(&mut s, record);
        }
        assert_eq!(feasible(&s, &claiming(["data"])), "", "{reason}");
        assert_eq!(why(&s, &claiming(["data"])), reason);
    }
}

#[test]
fn a_reason_that_holds_everywhere_is_told_once_and_without_nodes() {
    let mut s = two_zones();
    add(&mut s, "p", claiming(["data"]));
    assert_eq!(pass(&mut s), ["p waits"]);
    assert_eq!(reasons(&s, "p"), ["0 x claim ml/data does not exist"]);
    assert_eq!(waiting(&s, "p").headline(), "claim ml/data does not exist");
}

#[test]
fn an_ephemeral_volume_waits_for_its_own_claim() {
    let claim = claim_key("p-scratch");
    let spec = using([VolumeUse::Ephemeral { claim, pod: "uid-of-pod".into() }]);
    let owned = |owner: Option<&str>| ClaimRecord {
        owner: owner.map(Into::into),
        ..bound_claim("p-scratch", "v")
    };
    let cases = [
        (None, "", "claim ml/p-scratch of an ephemeral volume is not created yet"),
        (
            Some(owned(None)),
            "",
            "claim ml/p-scratch was not created for this pod's ephemeral volume",
        ),
        (
            Some(owned(Some("uid-of-another"))),
            "",
            "claim ml/p-scratch was not created for this pod's ephemeral volume",
        ),
        (Some(owned(Some("uid-of-pod"))), "a b", ""),
    ];
    for (record, nodes, reason) in cases {
        let mut s = two_zones();
        tell(&mut s, volume("v", ""));
        if let Some(record) = record {
            tell(&mut s, record);
        }
        assert_eq!(feasible(&s, &spec), nodes);
        if nodes.is_empty() {
            assert_eq!(why(&s, &spec), reason);
        }
    }
}

#[test]
fn a_bound_volume_is_used_where_it_can_be_reached() {
    let named = |name: &str| Requirement {
        key: "metadata.name".into(),
        test: Test::In(vec![name.into()].into()),
    };
    let by_name = Term { labels: Vec::new(), fields: vec![named("a")] };
    let not_b = Term {
        labels: vec![Requirement { key: ZONE.into(), test: Test::NotIn(vec!["b".into()].into()) }],
        fields: Vec::new(),
    };
    let cases: [(Option<Vec<Term>>, &str, &str); 8] = [
        (None, "a b", ""),
        (Some(vec![term(ZONE, "a")]), "a", "topology.kubernetes.io/zone=a"),
        (Some(vec![term(ZONE, "a"), term(ZONE, "b")]), "a b", ""),
        (Some(vec![not_b]), "a", "topology.kubernetes.io/zone not b"),
        (
            Some(vec![term(ZONE, "c"), term("rack", "r")]),
            "",
            "topology.kubernetes.io/zone=c, or rack=r",
        ),
        (Some(vec![]), "", "no node"),
        (Some(vec![Term::default()]), "", "no node"),
        // A volume knows nodes by their labels only.
        (Some(vec![by_name]), "", "no node"),
    ];
    for (affinity, nodes, from) in cases {
        let mut s = two_zones();
        tell(&mut s, VolumeRecord { affinity: affinity.map(Into::into), ..volume("v", "") });
        tell(&mut s, bound_claim("data", "v"));
        assert_eq!(feasible(&s, &claiming(["data"])), nodes, "{from}");
        if nodes.is_empty() {
            assert_eq!(
                why(&s, &claiming(["data"])),
                format!("volume v is only reachable from {from}")
            );
        }
    }
}

#[test]
fn zone_labels_of_a_bound_volume_must_be_those_of_the_node() {
    let labels = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Labels>();
    let bare = || node("bare", Gpus::none());
    let old = || labelled("old", OLD_ZONE, "a");
    let other = || labelled("other", "topology.kubernetes.io/region", "r");
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[], "a b bare old other"),
        (&[(ZONE, "a")], "a bare"),
        (&[(ZONE, "a__b")], "a b bare"),
        (&[(ZONE, " a __ c ")], "a bare"),
        (&[(ZONE, "")], "a b bare old other"),
        (&[(ZONE, "a__")], "a b bare old other"),
        (&[(OLD_ZONE, "a")], "a bare old"),
        (&[(ZONE, "a"), ("topology.kubernetes.io/region", "r")], "bare"),
        (&[("disk", "ssd")], "a b bare old other"),
    ];
    for (pairs, nodes) in cases {
        let mut s = two_zones();
        for record in [bare(), old(), other()] {
            s.apply(Event::Node(Box::new(record))).unwrap();
        }
        tell(&mut s, VolumeRecord { labels: labels(pairs), ..volume("v", "") });
        tell(&mut s, bound_claim("data", "v"));
        assert_eq!(feasible(&s, &claiming(["data"])), nodes, "{pairs:?}");
        // The zones of an ephemeral volume are left to its affinity.
        tell(&mut s, ClaimRecord { owner: Some("u".into()), ..bound_claim("e", "v") });
        let ephemeral = VolumeUse::Ephemeral { claim: claim_key("e"), pod: "u".into() };
        assert_eq!(feasible(&s, &using([ephemeral])), "a b bare old other", "{pairs:?}");
    }
}

#[test]
fn the_zone_of_a_volume_is_told() {
    let mut s = cluster(Config::default(), [labelled("b", ZONE, "b")]);
    let labels = [(ZONE, "a__c")].into_iter().collect();
    tell(&mut s, VolumeRecord { labels, ..volume("pv-3", "") });
    tell(&mut s, bound_claim("data", "pv-3"));
    let reason = "volume pv-3 is only reachable from topology.kubernetes.io/zone=a or c";
    assert_eq!(why(&s, &claiming(["data"])), reason);
}

#[test]
fn a_volume_of_an_in_tree_plugin_follows_its_driver_where_that_has_taken_over() {
    let mut s = two_zones();
    let migrated = Migrated { plugin: "kubernetes.io/aws-ebs".into(), affinity: None };
    tell(
        &mut s,
        VolumeRecord { migrated: Some(Box::new(migrated)), ..local_volume("v", "", ZONE, "c") },
    );
    tell(&mut s, bound_claim("data", "v"));
    assert_eq!(feasible(&s, &claiming(["data"])), "");
    let taken_over = ["kubernetes.io/aws-ebs".into()].into();
    tell(&mut s, CsiNodeRecord { migrated: taken_over, ..csi_node("b", "d", None) });
    assert_eq!(feasible(&s, &claiming(["data"])), "b");
}

#[test]
fn an_unbound_claim_takes_a_volume_that_matches() {
    let bytes = |gib| Some(Bytes(gib * GIB));
    let labels = |value: &str| [("tier", value)].into_iter().collect::<Labels>();
    let base = || volume("v", "local");
    let terms = |change: fn(&mut Terms)| {
        let mut record = base();
        change(&mut record.terms);
        record
    };
    let plain = || claim("data", "local");
    let other = ClaimRef { key: claim_key("other"), uid: "uid-other".into() };
    let own = |uid: &str| ClaimRef { key: claim_key("data"), uid: uid.into() };
    let gold = ClaimRecord { selector: Selector::all([requirement("tier", "gold")]), ..plain() };
    let asks = |change: fn(&mut Terms)| {
        let mut record = plain();
        change(&mut record.terms);
        record
    };
    let cases: Vec<(&str, ClaimRecord, VolumeRecord, bool)> = vec![
        ("as asked", plain(), base(), true),
        (
            "larger",
            plain(),
            VolumeRecord { terms: Terms { size: bytes(11), ..base().terms }, ..base() },
            true,
        ),
        (
            "smaller",
            plain(),
            VolumeRecord { terms: Terms { size: bytes(9), ..base().terms }, ..base() },
            false,
        ),
        ("another class", plain(), volume("v", "other"), false),
        ("not available", plain(), VolumeRecord { available: false, ..base() }, false),
        ("being deleted", plain(), VolumeRecord { deleting: true, ..base() }, false),
        ("a block device", plain(), terms(|t| t.block = true), false),
        ("a block device for one", asks(|t| t.block = true), terms(|t| t.block = true), true),
        ("no access mode", plain(), terms(|t| t.modes = AccessModes::READ_ONLY_MANY), false),
        (
            "more access modes",
            plain(),
            terms(|t| t.modes = AccessModes::READ_ONLY_MANY.and(AccessModes::READ_WRITE_ONCE)),
            true,
        ),
        ("other attributes", plain(), terms(|t| t.attributes_class = "gold".into()), false),
        ("no label", gold.clone(), base(), false),
        ("another label", gold.clone(), VolumeRecord { labels: labels("tin"), ..base() }, false),
        ("its label", gold.clone(), VolumeRecord { labels: labels("gold"), ..base() }, true),
        ("of another", plain(), VolumeRecord { claim: Some(other), ..base() }, false),
        ("reserved by name", plain(), VolumeRecord { claim: Some(own("")), ..base() }, true),
        ("reserved", plain(), VolumeRecord { claim: Some(own("uid-data")), ..base() }, true),
        (
            "of a namesake",
            plain(),
            VolumeRecord { claim: Some(own("uid-before")), ..base() },
            false,
        ),
        (
            "reserved, though neither label nor phase match",
            gold,
            VolumeRecord { claim: Some(own("")), available: false, ..base() },
            true,
        ),
        (
            "reserved, but too small",
            plain(),
            VolumeRecord {
                claim: Some(own("")),
                terms: Terms { size: bytes(9), ..base().terms },
                ..base()
            },
            false,
        ),
        ("elsewhere", plain(), local_volume("v", "local", ZONE, "c"), false),
    ];
    for (name, claim, volume, matches) in cases {
        let mut s = two_zones();
        tell(&mut s, local_class("local"));
        tell(&mut s, claim);
        tell(&mut s, volume);
        let nodes = if matches { "a b" } else { "" };
        assert_eq!(feasible(&s, &claiming(["data"])), nodes, "{name}");
        if !matches {
            let reason =
                "no volume of class local matches claim ml/data here, and none is provisioned";
            assert_eq!(why(&s, &claiming(["data"])), reason, "{name}");
        }
    }
}

#[test]
fn each_claim_of_a_pod_needs_a_volume_of_its_own() {
    let mut s = two_zones();
    tell(&mut s, local_class("local"));
    tell(&mut s, claim("one", "local"));
    tell(&mut s, claim("two", "local"));
    tell(&mut s, local_volume("v1", "local", ZONE, "a"));
    tell(&mut s, local_volume("v2", "local", ZONE, "b"));
    assert_eq!(feasible(&s, &claiming(["one"])), "a b");
    assert_eq!(feasible(&s, &claiming(["one", "two"])), "");
    tell(&mut s, local_volume("v3", "local", ZONE, "b"));
    assert_eq!(feasible(&s, &claiming(["one", "two"])), "b");
}

#[test]
fn the_smaller_claim_leaves_the_larger_volume_to_the_other() {
    let mut s = cluster(Config::default(), [labelled("a", ZONE, "a")]);
    tell(&mut s, local_class("local"));
    let large = ClaimRecord {
        terms: Terms { size: Some(Bytes(20 * GIB)), ..claim("large", "local").terms },
        ..claim("large", "local")
    };
    tell(&mut s, large);
    tell(&mut s, claim("small", "local"));
    tell(&mut s, volume("v10", "local"));
    let v20 = volume("v20", "local");
    tell(
        &mut s,
        VolumeRecord { terms: Terms { size: Some(Bytes(20 * GIB)), ..v20.terms.clone() }, ..v20 },
    );
    assert_eq!(feasible(&s, &claiming(["large", "small"])), "a");
}

#[test]
fn a_volume_is_provisioned_where_the_class_allows() {
    let in_a = || [term(ZONE, "a")].into();
    let cases = [
        (class("late", "d"), "a b", ""),
        (ClassRecord { topologies: in_a(), ..class("late", "d") }, "a", ""),
        (
            ClassRecord {
                topologies: [term(ZONE, "c"), Term::default()].into(),
                ..class("late", "d")
            },
            "",
            "storage class late provisions no volumes here (allowedTopologies)",
        ),
        (
            ClassRecord { topologies: in_a(), ..local_class("late") },
            "",
            "no volume of class late matches claim ml/data here, and none is provisioned",
        ),
    ];
    for (record, nodes, reason) in cases {
        let mut s = two_zones();
        tell(&mut s, record);
        tell(&mut s, claim("data", "late"));
        assert_eq!(feasible(&s, &claiming(["data"])), nodes, "{reason}");
        if nodes.is_empty() {
            assert_eq!(why(&s, &claiming(["data"])), reason);
        }
    }
}

#[test]
fn a_volume_that_is_being_made_for_a_node_ties_its_pods_to_it() {
    let mut s = two_zones();
    tell(&mut s, ClassRecord { topologies: [term(ZONE, "a")].into(), ..class("late", "d") });
    tell(&mut s, ClaimRecord { selected_node: Some("a".into()), ..claim("data", "late") });
    // A volume that would match is of no use any more.
    tell(&mut s, local_volume("v", "late", ZONE, "b"));
    assert_eq!(feasible(&s, &claiming(["data"])), "a");
    tell(&mut s, ClaimRecord { selected_node: Some("b".into()), ..claim("data", "late") });
    assert_eq!(feasible(&s, &claiming(["data"])), "", "the class does not make volumes there");
    assert_eq!(
        why(&s, &claiming(["data"])),
        "the volume of claim ml/data is being made for node b; \
         storage class late provisions no volumes here (allowedTopologies)"
    );
}

#[test]
fn space_counts_if_the_driver_tells_of_it() {
    let capacity = |gib: Option<u64>, nodes| CapacityRecord {
        key: "ns/c".into(),
        class: "late".into(),
        largest: gib.map(|gib| Bytes(gib * GIB)),
        nodes,
    };
    let zone = |value| Selector::all([requirement(ZONE, value)]);
    let cases = [
        (None, None, "a b"),
        (Some(false), None, "a b"),
        (Some(true), None, ""),
        (Some(true), Some(capacity(Some(10), zone("a"))), "a"),
        (Some(true), Some(capacity(Some(10), Selector::all([]))), "a b"),
        (Some(true), Some(capacity(Some(10), Selector::NOTHING)), ""),
        (Some(true), Some(capacity(Some(9), zone("a"))), ""),
        (Some(true), Some(capacity(None, zone("a"))), ""),
        (
            Some(true),
            Some(CapacityRecord { class: "other".into(), ..capacity(Some(10), zone("a")) }),
            "",
        ),
    ];
    for (tells, capacity, nodes) in cases {
        let mut s = two_zones();
        tell(&mut s, class("late", "d"));
        tell(&mut s, claim("data", "late"));
        if let Some(tells_capacity) = tells {
            let name = "d".into();
            tell(&mut s, DriverRecord { name, tells_capacity, must_be_installed: false });
        }
        if let Some(capacity) = capacity.clone() {
            tell(&mut s, capacity);
        }
        assert_eq!(feasible(&s, &claiming(["data"])), nodes, "{tells:?} {capacity:?}");
        if nodes.is_empty() {
            let reason = "storage class late has no 10.0 GiB here for claim ml/data";
            assert_eq!(why(&s, &claiming(["data"])), reason);
        }
        // Without a size there is nothing to compare.
        let any = Terms { size: None, ..claim("any", "late").terms };
        tell(&mut s, ClaimRecord { terms: any, ..claim("any", "late") });
        assert_eq!(feasible(&s, &claiming(["any"])), "a b");
    }
}

#[test]
fn a_claim_for_one_pod_takes_one_pod_in_the_whole_cluster() {
    let mut s = two_zones();
    tell(&mut s, volume("v", ""));
    for (name, modes) in
        [("one", AccessModes::READ_WRITE_ONCE_POD), ("many", AccessModes::READ_WRITE_ONCE)]
    {
        let terms = Terms { modes, ..Terms::default() };
        tell(&mut s, ClaimRecord { terms, ..bound_claim(name, "v") });
    }
    place(&mut s, "first", claiming(["one", "many"]));
    assert_eq!(feasible(&s, &claiming(["many"])), "a b");
    assert_eq!(feasible(&s, &claiming(["one"])), "");
    let reason = "claim ml/one is ReadWriteOncePod and used by ml/first";
    assert_eq!(why(&s, &claiming(["one"])), reason);
    add(&mut s, "second", claiming(["one"]));
    assert_eq!(pass(&mut s), ["second waits"]);
    gone(&mut s, "first");
    assert_eq!(pass(&mut s).len(), 1, "it is woken");
}

#[test]
fn disks_that_pods_name_themselves_are_not_shared() {
    let gce = |read_only| Disk::Gce { name: "d".into(), read_only };
    let iscsi = |iqn: &str, read_only| Disk::Iscsi { iqn: iqn.into(), read_only };
    let ebs = |id: &str| Disk::Ebs { id: id.into() };
    let rbd = |monitors: &[&str], image: &str, read_only| Disk::Rbd {
        monitors: monitors.iter().copied().map(Into::into).collect(),
        pool: "rbd".into(),
        image: image.into(),
        read_only,
    };
    let cases = [
        (gce(false), gce(false), Some("gcePersistentDisk d")),
        (gce(true), gce(false), Some("gcePersistentDisk d")),
        (gce(true), gce(true), None),
        (ebs("v"), ebs("v"), Some("awsElasticBlockStore v")),
        (ebs("v"), ebs("w"), None),
        (ebs("d"), gce(false), None),
        (iscsi("q", false), iscsi("q", true), Some("iscsi q")),
        (iscsi("q", true), iscsi("q", true), None),
        (iscsi("q", false), iscsi("r", false), None),
        (rbd(&["m", "n"], "i", false), rbd(&["n", "o"], "i", true), Some("rbd rbd/i")),
        (rbd(&["m"], "i", false), rbd(&["n"], "i", false), None),
        (rbd(&["m"], "i", false), rbd(&["m"], "j", false), None),
        (rbd(&["m"], "i", true), rbd(&["m"], "i", true), None),
    ];
    for (held, asked, conflict) in cases {
        let mut s = cluster(Config::default(), [labelled("a", ZONE, "a")]);
        place(&mut s, "first", using([VolumeUse::Disk(held.clone())]));
        let spec = using([VolumeUse::Disk(asked.clone())]);
        let nodes = if conflict.is_some() { "" } else { "a" };
        assert_eq!(feasible(&s, &spec), nodes, "{held} {asked}");
        if let Some(disk) = conflict {
            assert_eq!(why(&s, &spec), format!("{disk} is used by ml/first here"));
            s.apply(Event::Node(Box::new(node("b", Gpus::none())))).unwrap();
            assert_eq!(feasible(&s, &spec), "b");
        }
    }
}

#[test]
fn share_pods_wait_where_cards_are_replicas_and_are_told_why() {
    let mut s = cluster(Config::default(), [node("sliced", Gpus::replicas(4))]);
    for (name, spec) in [("fraction", fraction("0.5")), ("memory", memory(1000))] {
        assert_eq!(place(&mut s, name, spec), format!("{name} waits"));
        assert_eq!(
            reasons(&s, name),
            ["1 x its GPUs are time-sliced or MIG replicas, which take no shares"]
        );
    }
    assert_eq!(place(&mut s, "whole", whole(1)), "whole sliced");
}
