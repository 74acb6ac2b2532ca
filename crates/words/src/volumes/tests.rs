use super::*;
use crate::manifest::Content;
use crate::{Priorities, pod, testing};

fn event(text: &str) -> StorageEvent {
    let object = testing::object(text);
    match &object.content {
        Content::Storage(kind, manifest) => storage(*kind, manifest).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn volume(spec: &str) -> VolumeRecord {
    labelled_volume("{}", spec)
}

fn labelled_volume(labels: &str, spec: &str) -> VolumeRecord {
    let head = "apiVersion: v1\nkind: PersistentVolume";
    let text = format!("{head}\nmetadata: {{name: v, labels: {labels}}}\nspec: {spec}");
    match event(&text) {
        StorageEvent::Volume(record) => *record,
        other => panic!("{other:?}"),
    }
}

fn class(text: &str) -> ClassRecord {
    let head = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: c}";
    match event(&format!("{head}\n{text}")) {
        StorageEvent::Class(record) => *record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_a_claim_little_is_kept_however_much_it_names() {
    let of = |expressions: usize, name: usize| {
        let expressions = "{key: a, operator: Exists},".repeat(expressions);
        let name = "n".repeat(name);
        let text = format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, annotations: \
             {{volume.kubernetes.io/selected-node: {name}}}}}\nspec: {{volumeName: {name}, selector: \
             {{matchExpressions: [{expressions}]}}}}\n"
        );
        let StorageEvent::Claim(record) = event(&text) else { panic!() };
        record
    };
    let usual = of(100, 253);
    assert_eq!(usual.selector.requirements(), 100);
    assert_eq!(usual.volume.map(|name| name.len()), Some(253));
    let large = of(90_000, 100_000);
    assert_eq!(large.selector, Selector::NOTHING, "it matches no volume");
    assert_eq!(large.volume.as_deref(), Some("/"));
    assert_eq!(large.selected_node.as_deref(), Some("/"));
}

#[test]
fn a_claim_becomes_a_record() {
    let text = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  namespace: ml
  uid: u1
  annotations:
    volume.kubernetes.io/selected-node: n1
    pv.kubernetes.io/bind-completed: "yes"
    example.com/large: not kept
  deletionTimestamp: "2024-02-29T12:30:15Z"
  ownerReferences: [{kind: Pod, name: p, uid: other}, {kind: Pod, name: q, uid: owner, controller: true}]
spec:
  storageClassName: fast
  volumeAttributesClassName: gold
  accessModes: [ReadWriteOnce, ReadWriteOncePod]
  volumeMode: Block
  volumeName: pv-1
  resources: {requests: {storage: 10Gi}}
  selector: {matchLabels: {tier: a}, matchExpressions: [{key: old, operator: DoesNotExist}]}
status: {phase: Lost}
"#;
    let StorageEvent::Claim(record) = event(text) else { panic!() };
    let modes = AccessModes::READ_WRITE_ONCE.and(AccessModes::READ_WRITE_ONCE_POD);
    let selector = Selector::all([
        one_of("tier", vec!["a".into()]),
        Requirement { key: "old".into(), test: Test::DoesNotExist },
    ]);
    let expected = ClaimRecord {
        key: ObjectKey::new("ml", "data"),
        uid: "u1".into(),
        owner: Some("owner".into()),
        terms: Terms {
            class: "fast".into(),
            attributes_class: "gold".into(),
            size: Some(Bytes(10 << 30)),
            modes,
            block: true,
        },
        selector,
        volume: Some("pv-1".into()),
        bind_completed: true,
        selected_node: Some("n1".into()),
        lost: true,
        deleting: true,
    };
    assert_eq!(*record, expected);
}

#[test]
fn a_claim_that_says_little_asks_little() {
    let text = "kind: PersistentVolumeClaim\nmetadata: {name: data}";
    let StorageEvent::Claim(record) = event(text) else { panic!() };
    assert_eq!(record.key, ObjectKey::new("default", "data"));
    assert_eq!((record.terms, record.volume, record.owner), (Terms::default(), None, None));
    assert!(record.selector.is_everything() && !record.bind_completed && !record.lost);
}

#[test]
fn the_old_annotation_of_a_class_goes_before_the_field() {
    let text = "kind: PersistentVolumeClaim
metadata: {name: data, annotations: {volume.beta.kubernetes.io/storage-class: old}}
spec: {storageClassName: new}";
    let StorageEvent::Claim(record) = event(text) else { panic!() };
    assert_eq!(&*record.terms.class, "old");
}

#[test]
fn a_size_that_is_none_is_told_with_its_field() {
    let object = testing::object(
        "kind: PersistentVolumeClaim\nspec: {resources: {requests: {storage: ten}}}",
    );
    let Content::Storage(kind, manifest) = &object.content else { panic!() };
    let error = storage(*kind, manifest).unwrap_err();
    assert!(error.starts_with("spec.resources.requests[\"storage\"]: \"ten\" is no"), "{error}");
}

#[test]
fn a_volume_becomes_a_record() {
    let text = r#"
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1, labels: {topology.kubernetes.io/zone: a}}
spec:
  storageClassName: fast
  capacity: {storage: 20Gi}
  accessModes: [ReadWriteMany]
  claimRef: {namespace: ml, name: data, uid: u1}
  csi: {driver: disk.example.com, volumeHandle: h1}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: zone, operator: In, values: [a]}]
      - matchExpressions: [{key: zone, operator: Between, values: [a]}]
status: {phase: Available}
"#;
    let StorageEvent::Volume(record) = event(text) else { panic!() };
    let zone = Term { labels: vec![one_of("zone", vec!["a".into()])], fields: Vec::new() };
    let attached =
        Attached { driver: "disk.example.com".into(), handle: "h1".into(), in_tree: false };
    assert_eq!(record.terms.size, Some(Bytes(20 << 30)));
    assert_eq!(
        record.claim,
        Some(ClaimRef { key: ObjectKey::new("ml", "data"), uid: "u1".into() })
    );
    assert_eq!(record.affinity.as_deref(), Some(&[zone][..]), "a term that is wrong holds nowhere");
    assert_eq!((record.attached, record.migrated), (Some(attached), None));
    assert!(record.available && record.labels.get("topology.kubernetes.io/zone").is_some());
}

#[test]
fn disks_of_in_tree_plugins_get_the_drivers_name() {
    let gce = |zones: &str| {
        labelled_volume(
            &format!("{{topology.kubernetes.io/zone: \"{zones}\"}}"),
            "{gcePersistentDisk: {pdName: d}}",
        )
    };
    let disk = |place: &str| Some(format!("projects/UNSPECIFIED/{place}/disks/d"));
    let id = |spec: &str| volume(spec);
    let plain = |text: &str| Some(text.to_owned());
    let cases = [
        (gce(""), disk("zones/UNSPECIFIED")),
        (gce("eu-west1-b"), disk("zones/eu-west1-b")),
        (gce("eu-west1-b__eu-west1-c"), disk("regions/eu-west1")),
        (gce("eu-west1-b__us-west1-c"), None),
        (gce("a__b"), None),
        (id("{awsElasticBlockStore: {volumeID: vol-1}}"), plain("vol-1")),
        (id("{awsElasticBlockStore: {volumeID: \"aws:///vol-1\"}}"), plain("vol-1")),
        (id("{awsElasticBlockStore: {volumeID: \"aws://eu-1a/vol-1\"}}"), plain("vol-1")),
        (id("{awsElasticBlockStore: {volumeID: \"aws://eu-1a/snap-1\"}}"), None),
        (id("{azureDisk: {diskURI: /d, kind: managed}}"), plain("/d")),
        (id("{azureDisk: {diskURI: /d, kind: Dedicated}}"), None),
        (id("{cinder: {volumeID: c1}}"), plain("c1")),
        (id("{portworxVolume: {volumeID: p1}}"), plain("p1")),
        (id("{nfs: {server: s}}"), None),
    ];
    for (record, handle) in cases {
        let attached = record.attached.as_ref().map(|a| a.handle.to_string());
        assert_eq!(attached, handle, "{record:?}");
        assert!(record.attached.is_none_or(|a| a.in_tree));
    }
}

#[test]
fn zones_of_in_tree_disks_become_the_drivers_label() {
    let ebs = "topology.ebs.csi.aws.com/zone";
    let affinity = |key: &str, value: &str| {
        format!(
            "{{awsElasticBlockStore: {{volumeID: vol-1}}, nodeAffinity: {{required: {{nodeSelectorTerms: \
             [{{matchExpressions: [{{key: {key}, operator: In, values: [{value}]}}]}}]}}}}}}"
        )
    };
    let bare = "{awsElasticBlockStore: {volumeID: vol-1}}";
    let old = "failure-domain.beta.kubernetes.io";
    let cases = [
        ("{}".to_owned(), bare.to_owned(), None),
        ("{}".to_owned(), affinity("topology.kubernetes.io/zone", "a"), Some(vec![(ebs, "a")])),
        ("{}".to_owned(), affinity(&format!("{old}/zone"), "a"), Some(vec![(ebs, "a")])),
        ("{topology.kubernetes.io/zone: a}".to_owned(), bare.to_owned(), Some(vec![(ebs, "a")])),
        (format!("{{{old}/zone: a}}"), bare.to_owned(), Some(vec![(ebs, "a")])),
        (
            "{topology.kubernetes.io/zone: a}".to_owned(),
            affinity("rack", "r"),
            Some(vec![("rack", "r"), (ebs, "a")]),
        ),
        (
            format!("{{{old}/zone: a}}"),
            affinity(&format!("{old}/region"), "r"),
            Some(vec![("topology.kubernetes.io/region", "r"), (ebs, "a")]),
        ),
    ];
    for (labels, spec, expected) in cases {
        let record = labelled_volume(&labels, &spec);
        let migrated = record.migrated.unwrap();
        let expected = expected.map(|pairs| {
            let labels = pairs.into_iter().map(|(key, value)| one_of(key, vec![value.into()]));
            vec![Term { labels: labels.collect(), fields: Vec::new() }]
        });
        assert_eq!(migrated.affinity.map(Vec::from), expected, "{labels} {spec}");
        assert_eq!(&*migrated.plugin, "kubernetes.io/aws-ebs");
    }
}

#[test]
fn a_class_says_who_makes_its_volumes_and_who_attaches_them() {
    let cases = [
        ("disk.example.com", Some("disk.example.com"), Some("disk.example.com"), false),
        ("kubernetes.io/no-provisioner", None, Some("kubernetes.io/no-provisioner"), false),
        ("kubernetes.io/gce-pd", Some("kubernetes.io/gce-pd"), Some("pd.csi.storage.gke.io"), true),
        ("kubernetes.io/azure-file", Some("kubernetes.io/azure-file"), None, true),
    ];
    for (name, provisioner, driver, in_tree) in cases {
        let record = class(&format!("provisioner: {name}"));
        let found = (record.provisioner.as_deref(), record.driver.as_deref(), record.in_tree);
        assert_eq!(found, (provisioner, driver, in_tree));
    }
    let waits = |mode| class(&format!("volumeBindingMode: {mode}")).waits_for_pod;
    assert!(waits("WaitForFirstConsumer") && !waits("Immediate") && !waits("null"));
    let record = class("allowedTopologies: [{matchLabelExpressions: [{key: z, values: [a, b]}]}]");
    let labels = vec![one_of("z", vec!["a".into(), "b".into()])];
    assert_eq!(*record.topologies, [Term { labels, fields: Vec::new() }]);
}

#[test]
fn drivers_nodes_space_and_attachments_become_records() {
    let head = "apiVersion: storage.k8s.io/v1";
    let node = format!(
        "{head}\nkind: CSINode
metadata: {{name: n1, annotations: {{storage.alpha.kubernetes.io/migrated-plugins: \"a,b\"}}}}
spec: {{drivers: [{{name: d, nodeID: x, allocatable: {{count: 25}}}}, {{name: e, nodeID: x}}]}}"
    );
    assert_eq!(
        event(&node),
        StorageEvent::CsiNode(Box::new(CsiNodeRecord {
            node: "n1".into(),
            drivers: [("d".into(), Some(25)), ("e".into(), None)].into(),
            migrated: ["a".into(), "b".into()].into(),
        }))
    );
    let driver =
        format!("{head}\nkind: CSIDriver\nmetadata: {{name: d}}\nspec: {{storageCapacity: true}}");
    assert_eq!(
        event(&driver),
        StorageEvent::Driver(DriverRecord {
            name: "d".into(),
            tells_capacity: true,
            must_be_installed: false
        })
    );
    let capacity = |text: &str| {
        let text = format!(
            "{head}\nkind: CSIStorageCapacity\nmetadata: {{name: s, namespace: ns}}\nstorageClassName: c\n{text}"
        );
        match event(&text) {
            StorageEvent::Capacity(record) => *record,
            other => panic!("{other:?}"),
        }
    };
    let record =
        capacity("capacity: 10Gi\nmaximumVolumeSize: 5Gi\nnodeTopology: {matchLabels: {z: a}}");
    assert_eq!((&*record.key, &*record.class, record.largest), ("ns/s", "c", Some(Bytes(5 << 30))));
    assert_eq!(record.nodes, Selector::all([one_of("z", vec!["a".into()])]));
    let record = capacity("capacity: 10Gi");
    assert_eq!((record.largest, record.nodes), (Some(Bytes(10 << 30)), Selector::NOTHING));
    let attachment = format!(
        "{head}\nkind: VolumeAttachment\nmetadata: {{name: a}}
spec: {{attacher: d, nodeName: n1, source: {{persistentVolumeName: v}}}}"
    );
    assert_eq!(
        event(&attachment),
        StorageEvent::Attachment(Box::new(AttachmentRecord {
            name: "a".into(),
            node: "n1".into(),
            driver: "d".into(),
            volume: "v".into(),
        }))
    );
}

#[test]
fn a_pods_volumes_become_uses() {
    let cases = [
        (
            "{persistentVolumeClaim: {claimName: c}}",
            vec![VolumeUse::Claim(ObjectKey::new("ml", "c"))],
        ),
        (
            "{name: scratch, ephemeral: {volumeClaimTemplate: {}}}",
            vec![VolumeUse::Ephemeral {
                claim: ObjectKey::new("ml", "p-scratch"),
                pod: "u".into(),
            }],
        ),
        (
            "{gcePersistentDisk: {pdName: d, readOnly: true}}",
            vec![
                VolumeUse::Disk(Disk::Gce { name: "d".into(), read_only: true }),
                VolumeUse::Attached(Attached {
                    driver: "pd.csi.storage.gke.io".into(),
                    handle: "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d".into(),
                    in_tree: true,
                }),
            ],
        ),
        (
            "{awsElasticBlockStore: {volumeID: \"aws://z/vol-1\"}}",
            vec![
                VolumeUse::Disk(Disk::Ebs { id: "aws://z/vol-1".into() }),
                VolumeUse::Attached(Attached {
                    driver: "ebs.csi.aws.com".into(),
                    handle: "vol-1".into(),
                    in_tree: true,
                }),
            ],
        ),
        (
            "{iscsi: {iqn: q}}",
            vec![VolumeUse::Disk(Disk::Iscsi { iqn: "q".into(), read_only: false })],
        ),
        (
            "{rbd: {monitors: [m], image: i}}",
            vec![VolumeUse::Disk(Disk::Rbd {
                monitors: vec!["m".into()],
                pool: "rbd".into(),
                image: "i".into(),
                read_only: false,
            })],
        ),
        (
            "{cinder: {volumeID: c1}}",
            vec![VolumeUse::Attached(Attached {
                driver: "cinder.csi.openstack.org".into(),
                handle: "c1".into(),
                in_tree: true,
            })],
        ),
        ("{emptyDir: {}}", vec![]),
        ("{configMap: {name: c}}", vec![]),
    ];
    for (volume, expected) in cases {
        let (metadata, spec) = testing::pod(&format!(
            "kind: Pod\nmetadata: {{name: p, namespace: ml, uid: u}}\nspec: {{volumes: [{volume}, {volume}]}}"
        ));
        let record = pod(&metadata, &spec, None, None, &Priorities::default());
        let found = record.spec.relations.map(|r| r.volumes.clone()).unwrap_or_default();
        assert_eq!(found, expected, "{volume}");
    }
}

#[test]
fn what_a_volume_asks_of_the_name_of_a_node_holds_everywhere() {
    let named = "{key: metadata.name, operator: In, values: [elsewhere]}";
    let of = |terms: &str| {
        let spec = format!("{{nodeAffinity: {{required: {{nodeSelectorTerms: [{terms}]}}}}}}");
        volume(&spec).affinity.unwrap()
    };
    let [only_name] = &*of(&format!("{{matchFields: [{named}]}}")) else { panic!() };
    assert_eq!((only_name.labels.len(), only_name.fields.len()), (1, 0));
    assert_eq!(only_name.labels[0].test, Test::NotIn(Vec::new().into()));
    let rack = "{key: rack, operator: Exists}";
    let [both] = &*of(&format!("{{matchFields: [{named}], matchExpressions: [{rack}]}}")) else {
        panic!()
    };
    assert_eq!((both.labels.len(), &*both.labels[0].key), (1, "rack"));
}
