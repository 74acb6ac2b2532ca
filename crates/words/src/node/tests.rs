use super::*;
use crate::testing;

fn parsed(labels: &str, rest: &str) -> Result<(NodeRecord, Vec<String>), String> {
    node(&testing::object(&format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  labels: {{{labels}}}\n{rest}\n"
    )))
}

fn gpus_of(labels: &str, allocatable: &str) -> (Gpus, usize) {
    let (record, warnings) =
        parsed(labels, &format!("status: {{allocatable: {{cpu: 1, {allocatable}}}}}")).unwrap();
    (record.gpus, warnings.len())
}

#[test]
fn a_node_becomes_a_record() {
    let (record, warnings) = parsed(
        r#"z: "1", a: b, nvidia.com/gpu.product: H100"#,
        "spec: {unschedulable: true, taints: [
            {key: divvy.dev/unsettled, effect: NoSchedule}, {key: gpu, effect: NoSchedule}]}
status: {capacity: {cpu: 99}, allocatable: {cpu: 7910m, memory: 1Gi, pods: 20, ephemeral-storage: 5k, amd.com/gpu: 2, hugepages-2Mi: 0, nvidia.com/gpu: 1}}",
    )
    .unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!((record.cpu.0, record.memory.0, record.ephemeral.0), (7910, 1 << 30, 5000));
    assert_eq!((record.pods, record.facts.unschedulable), (20, true));
    assert_eq!(record.extended, [("amd.com/gpu".to_owned(), 2)]);
    assert_eq!(record.model.as_deref(), Some("H100"));
    assert_eq!(record.facts.taints[0].key.as_ref(), "gpu");
    let keys: Vec<_> = record.facts.labels.iter().map(|(key, _)| key.as_ref()).collect();
    assert_eq!(keys, ["a", "nvidia.com/gpu.product", "z"]);
}

#[test]
fn what_a_node_leaves_out_has_a_meaning() {
    let (record, warnings) = parsed("", "status: {capacity: {cpu: 4}}").unwrap();
    assert_eq!((record.cpu.0, record.memory.0, record.pods, warnings.len()), (4000, 0, 110, 0));
    assert_eq!(record.ephemeral.0, i64::MAX as u64);
    let (record, warnings) = parsed("", "").unwrap();
    let all = (record.cpu.0, record.ephemeral.0, record.pods);
    assert_eq!(
        all,
        (0, 0, 0),
        "a node that has reported nothing takes not even a pod without needs"
    );
    assert_eq!(
        warnings,
        ["node n1: status.allocatable and status.capacity are missing: no pod fits"]
    );
}

#[test]
fn gpus_are_cards_replicas_or_none() {
    let cards =
        |count, usable, mib: Option<u64>| Gpus::cards(count, usable, mib.map(Bytes::from_mib));
    let pool = |name: &str, n| Pool::of(Device::of_resource(name).unwrap_or(Device::Gpu), n);
    let pools = |pools: &[(&str, u32)]| Gpus {
        pools: pools.iter().map(|(name, n)| pool(name, *n)).collect(),
        ..Gpus::none()
    };
    let seven = Pool {
        by: Some(Division::Mig),
        profile: Profile::parse("1g.5gb"),
        each: Some(Bytes::from_mib(5 * 1024)),
        replicas: 1,
        ..pool("", 7)
    };
    let shared = Pool { by: None, each: None, replicas: 0, ..seven.clone() };
    let gpu = |n: &str| format!("nvidia.com/gpu: {n}");
    for (labels, allocatable, expected) in [
        ("", String::new(), Gpus::none()),
        ("", gpu("0"), Gpus::none()),
        ("", gpu("8"), cards(8, 8, None)),
        (r#"nvidia.com/gpu.count: "8""#, String::new(), cards(8, 0, None)),
        (r#"nvidia.com/gpu.count: "8""#, gpu("6"), cards(8, 6, None)),
        (r#"nvidia.com/gpu.count: "8""#, gpu("0"), cards(8, 0, None)),
        (r#"nvidia.com/gpu.memory: "81559""#, gpu("1"), cards(1, 1, Some(81_559))),
        // Bytes instead of MiB.
        (r#"nvidia.com/gpu.memory: "85899345920""#, gpu("1"), cards(1, 1, Some(81_920))),
        (
            r#"nvidia.com/gpu.replicas: "4""#,
            gpu("32"),
            Gpus { pools: vec![Pool { replicas: 4, ..pool("", 32) }], ..Gpus::none() },
        ),
        // All that is said is that they are no cards.
        ("nvidia.com/gpu.product: NVIDIA-A100-SHARED", gpu("32"), Gpus::replicas(32)),
        (
            r#"nvidia.com/gpu.product: A100-SHARED, nvidia.com/gpu.memory: "40960", nvidia.com/gpu.count: "8""#,
            gpu("32"),
            Gpus { pools: vec![Pool { cards: 8, ..pool("", 32) }], ..Gpus::none() },
        ),
        (r#"nvidia.com/gpu.replicas: "1""#, gpu("8"), cards(8, 8, None)),
        (
            r#"nvidia.com/gpu.count: "2""#,
            gpu("8"),
            Gpus { pools: vec![Pool { cards: 2, ..pool("", 8) }], ..Gpus::none() },
        ),
        (
            "nvidia.com/gpu.product: A100-MIG-1g.5gb",
            gpu("7"),
            Gpus { pools: vec![seven], ..Gpus::none() },
        ),
        (
            "nvidia.com/gpu.product: A100-MIG-1g.5gb-SHARED",
            gpu("7"),
            Gpus { pools: vec![shared], ..Gpus::none() },
        ),
        (
            "",
            "nvidia.com/mig-2g.10gb: 2, nvidia.com/mig-1g.5gb: 3".to_owned(),
            pools(&[("nvidia.com/mig-1g.5gb", 3), ("nvidia.com/mig-2g.10gb", 2)]),
        ),
        (
            r#"nvidia.com/gpu.replicas: "4""#,
            "nvidia.com/gpu.shared: 32".to_owned(),
            Gpus {
                pools: vec![Pool { replicas: 4, ..pool("nvidia.com/gpu.shared", 32) }],
                ..Gpus::none()
            },
        ),
        ("", "nvidia.com/gpu.shared: 32".to_owned(), pools(&[("nvidia.com/gpu.shared", 32)])),
        (
            "",
            "nvidia.com/gpu.shared: 32, nvidia.com/mig-1g.5gb: 7".to_owned(),
            pools(&[("nvidia.com/gpu.shared", 32), ("nvidia.com/mig-1g.5gb", 7)]),
        ),
        ("", format!("{}, nvidia.com/mig-1g.5gb: 0", gpu("2")), cards(2, 2, None)),
        ("nvidia.com/mig.strategy: single", gpu("2"), cards(2, 2, None)),
    ] {
        assert_eq!(gpus_of(labels, &allocatable), (expected, 0), "{labels} {allocatable}");
    }
}

#[test]
fn feature_discovery_says_what_is_behind_time_slices() {
    let labels = "nvidia.com/gpu.count: '8', nvidia.com/gpu.replicas: '4', \
        nvidia.com/gpu.memory: '40960', nvidia.com/gpu.sharing-strategy: time-slicing";
    for (device, resource) in
        [(Device::Gpu, "nvidia.com/gpu"), (Device::Replica, "nvidia.com/gpu.shared")]
    {
        let (gpus, warnings) = gpus_of(labels, &format!("{resource}: 32"));
        let quarter = Some(Bytes::from_mib(10_240));
        let by = Some(Division::TimeSlices);
        let pool = Pool { by, each: quarter, cards: 8, replicas: 4, ..Pool::of(device, 32) };
        assert_eq!(gpus.pools, [pool]);
        let memory = Some(Bytes::from_mib(40_960));
        let into = [(device, 4)].into_iter().collect();
        let card = DividedCard { memory, by: Division::TimeSlices, into };
        assert_eq!((gpus.divided, gpus.cards, warnings), (vec![card; 8], Vec::new(), 0));
    }
    let mps = labels.replace("time-slicing", "mps");
    let (gpus, _) = gpus_of(&mps, "nvidia.com/gpu: 32");
    let is = |pool: &Pool| pool.by == Some(Division::Mps) && pool.one_each;
    assert!(gpus.pools.iter().all(is), "its server refuses two for one container: {gpus:?}");
}

#[test]
fn feature_discovery_says_how_large_slices_are() {
    let labels = "nvidia.com/gpu.count: '4', nvidia.com/gpu.memory: '40960', \
        nvidia.com/mig-1g.5gb.memory: '4864', nvidia.com/mig-1g.5gb.count: '7', \
        nvidia.com/mig-2g.10gb.memory: '9856', nvidia.com/mig-2g.10gb.replicas: '2'";
    let (gpus, warnings) =
        gpus_of(labels, "nvidia.com/gpu: 2, nvidia.com/mig-1g.5gb: 7, nvidia.com/mig-2g.10gb: 6");
    assert_eq!(gpus.cards, [Some(Bytes::from_mib(40_960)); 2], "the label counts sliced cards too");
    let each: Vec<_> = gpus.pools.iter().map(|pool| pool.each.map(Bytes::mib)).collect();
    assert_eq!((each, warnings), (vec![Some(4864), Some(4928)], 0));
    // While the device plugin registers again, sliced cards are not taken for whole ones.
    let (gpus, _) = gpus_of(labels, "nvidia.com/gpu: 0, nvidia.com/mig-1g.5gb: 0");
    assert_eq!((gpus.cards, gpus.pools), (Vec::new(), Vec::new()));
}

#[test]
fn time_slices_of_mig_slices_are_time_slices() {
    let shared = |resource: &str, product: &str| {
        format!(
            "{resource}.replicas: '2', {resource}.sharing-strategy: time-slicing, {resource}.product: \
             {product}, {resource}.memory: '4864'"
        )
    };
    let profile = Profile::parse("1g.5gb");
    let half = Some(Bytes::from_mib(2432));
    let own = shared("nvidia.com/mig-1g.5gb", "A100-MIG-1g.5gb-SHARED");
    let single = shared("nvidia.com/gpu", "A100-MIG-1g.5gb-SHARED");
    for (labels, resource) in [
        (&own, "nvidia.com/mig-1g.5gb"),
        (&own, "nvidia.com/mig-1g.5gb.shared"),
        (&single, "nvidia.com/gpu"),
    ] {
        let (gpus, _) = gpus_of(labels, &format!("{resource}: 14"));
        let pool = &gpus.pools[0];
        assert_eq!((pool.by, pool.replicas), (Some(Division::TimeSlices), 2), "{resource}");
        assert_eq!((pool.profile, pool.each, gpus.pools.len()), (profile, half, 1), "{resource}");
    }
    let (gpus, _) = gpus_of("", "nvidia.com/mig-1g.5gb.shared: 14");
    let pool = &gpus.pools[0];
    assert_eq!((pool.by, pool.replicas, pool.each), (None, 0, None), "nobody says what they are");
}

/// As the device plugin and feature discovery do it: three cards, of which one is divided.
#[test]
fn time_slices_beside_mig_slices_are_of_the_cards_that_are_not_divided() {
    let labels = "nvidia.com/gpu.count: '3', nvidia.com/gpu.replicas: '4', \
        nvidia.com/gpu.sharing-strategy: time-slicing, nvidia.com/mig-1g.5gb.count: '7'";
    for resource in ["nvidia.com/gpu: 8", "nvidia.com/gpu: 0, nvidia.com/gpu.shared: 8"] {
        let (gpus, _) = gpus_of(labels, &format!("{resource}, nvidia.com/mig-1g.5gb: 7"));
        let sliced = gpus.pools.iter().find(|pool| pool.profile.is_none()).unwrap();
        assert_eq!((sliced.count, sliced.cards, gpus.divided.len()), (8, 2, 2), "{resource}");
    }
}

/// The kubelet takes a card that is not well off what is allocatable, and leaves it in the capacity.
#[test]
fn a_card_that_fails_beside_divided_ones_is_still_there() {
    let labels = "nvidia.com/gpu.count: '4', nvidia.com/gpu.replicas: '1', \
        nvidia.com/mig-1g.5gb.count: '7'";
    let gpus = |labels: &str, allocatable: &str, capacity: &str| {
        let slices = "nvidia.com/mig-1g.5gb: 7";
        let status = format!(
            "status: {{allocatable: {{{allocatable}, {slices}}}, capacity: {{{capacity}, {slices}}}}}"
        );
        parsed(labels, &status).unwrap().0.gpus
    };
    for (usable, allocatable) in [(3, "nvidia.com/gpu: 3"), (2, "nvidia.com/gpu: 2"), (0, "cpu: 1")]
    {
        let gpus = gpus(labels, allocatable, "nvidia.com/gpu: 3");
        assert_eq!((gpus.cards.len(), gpus.usable, gpus.pools.len()), (3, usable, 1));
    }
    let strategy = "replicas: '4', nvidia.com/gpu.sharing-strategy: time-slicing";
    let shared = labels.replace("replicas: '1'", strategy);
    for name in ["nvidia.com/gpu", "nvidia.com/gpu.shared"] {
        let gpus = gpus(&shared, &format!("{name}: 8"), &format!("{name}: 12"));
        assert_eq!((gpus.pools[0].count, gpus.pools[0].cards, gpus.divided.len()), (8, 3, 3));
        assert_eq!(gpus.pools[0].replicas, 4, "what is not well invents no replicas");
    }
    // All are divided now, and the kubelet still knows of those that were whole.
    let divided = labels.replace("replicas: '1'", "replicas: '0'");
    let gpus = gpus(&divided, "nvidia.com/gpu: 0", "nvidia.com/gpu: 3");
    assert_eq!((gpus.cards, gpus.pools.len()), (Vec::new(), 1));
}

#[test]
fn odd_gpu_labels_are_ignored_with_a_warning() {
    let unknown = || Gpus::cards(1, 1, None);
    for value in ["0", "80GB", "-1", "1.5", "", "2251799813685248", "99999999999999999999"] {
        let label = format!("nvidia.com/gpu.memory: {value:?}");
        assert_eq!(gpus_of(&label, "nvidia.com/gpu: 1"), (unknown(), 1), "{value}");
        let (_, warnings) = parsed(&label, "status: {allocatable: {nvidia.com/gpu: 1}}").unwrap();
        assert!(warnings[0].starts_with("node n1: label nvidia.com/gpu.memory: "), "{warnings:?}");
    }
    assert_eq!(gpus_of("nvidia.com/gpu.count: many", "nvidia.com/gpu: 1"), (unknown(), 1));
    assert_eq!(gpus_of("", "nvidia.com/gpu: 1025"), (Gpus::none(), 1));
    assert_eq!(gpus_of("nvidia.com/gpu.count: '18446744073709551615'", ""), (Gpus::none(), 1));
    let (many, _) = gpus_of("nvidia.com/gpu.replicas: '9'", "nvidia.com/gpu: 9e18");
    assert_eq!((many.pools[0].count, many.pools[0].replicas), (u32::MAX, 9));
}

#[test]
fn what_is_wrong_with_a_node_is_named_with_its_field() {
    for (labels, rest, expected) in [
        (
            "a: 1",
            "",
            "metadata.labels[\"a\"]: 1 is a number; label values are strings, write \"1\"",
        ),
        (
            "",
            "spec: {taints: [{key: a, effect: x}]}",
            "spec.taints[0].effect: \"x\" is no effect; allowed are NoSchedule, PreferNoSchedule, NoExecute",
        ),
        (
            "",
            "status: {allocatable: {cpu: lots}}",
            "status.allocatable[\"cpu\"]: \"lots\" is no quantity; allowed are numbers like 2, 0.5, 500m, 1Gi or 1e9",
        ),
        (
            "",
            "status: {capacity: {cpu: -1}}",
            "status.capacity[\"cpu\"]: -1 is negative; allowed is 0 or more",
        ),
    ] {
        assert_eq!(parsed(labels, rest).unwrap_err(), expected);
    }
    let error = node(&testing::object("kind: Pod\nmetadata: {name: a}")).unwrap_err();
    assert_eq!(error, "kind: \"Pod\" is no Node");
}
