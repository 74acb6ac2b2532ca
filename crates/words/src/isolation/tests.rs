use super::*;
use crate::{Priorities, pod, testing};

fn table() -> Isolation {
    let both = Provider {
        name: "MPS".to_owned(),
        levels: vec![Level::Isolated, Level::Shared],
        memory: MemoryLimit::usual("LIMIT", LimitUnit::Mib),
        compute: None,
        device: "divvy.dev/provider=MPS".to_owned(),
        ..Provider::hami_core()
    };
    Isolation::new(vec![Provider::hami_core(), both])
}

#[test]
fn every_row_of_the_matrix_has_its_answer() {
    const LEVEL: &str = "metadata.labels[\"koordinator.sh/gpu-share-isolation-level\"]: ";
    const PROVIDER: &str = "metadata.labels[\"koordinator.sh/gpu-isolation-provider\"]: ";
    let table = table();
    let (hami, mps) = (Some("HAMi-core"), Some("MPS"));
    for (provider, level, expected) in [
        (None, None, Ok(Choice::Shared)),
        (hami, None, Ok(Choice::Isolated(0))),
        (
            mps,
            None,
            Err((LEVEL, "missing; provider MPS has several levels, allowed are Isolated, Shared")),
        ),
        (Some("x"), None, Err((PROVIDER, "\"x\" is no provider; known are HAMi-core, MPS"))),
        (
            Some(""),
            Some("Shared"),
            Err((PROVIDER, "\"\" is no provider; known are HAMi-core, MPS")),
        ),
        (
            None,
            Some("Isolated"),
            Err((PROVIDER, "missing; Isolated needs a provider, known are HAMi-core, MPS")),
        ),
        (None, Some("Shared"), Ok(Choice::Shared)),
        (hami, Some("Isolated"), Ok(Choice::Isolated(0))),
        (hami, Some("Shared"), Err((LEVEL, "Shared; provider HAMi-core allows Isolated"))),
        (mps, Some("Shared"), Ok(Choice::Shared)),
        (mps, Some("Isolated"), Ok(Choice::Isolated(1))),
        (hami, Some("Isoalted"), Err((LEVEL, "\"Isoalted\"; allowed are Isolated and Shared"))),
        (None, Some(""), Err((LEVEL, "\"\"; allowed are Isolated and Shared"))),
    ] {
        let expected = expected.map_err(|(field, why)| format!("{field}{why}"));
        assert_eq!(table.choice(level, provider), expected, "{provider:?} {level:?}");
    }
    let defaults = [None, hami, mps, Some("x")].map(|provider| table.default_level(provider));
    assert_eq!(defaults, [Some(Level::Shared), Some(Level::Isolated), None, None]);
}

fn share(metadata: &str) -> (Metadata, PodRecord) {
    let (metadata, spec) = testing::pod(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, {metadata}}}\n\
         spec: {{containers: [{{name: c, resources: {{limits: {{koordinator.sh/gpu: 50}}}}}}]}}\n"
    ));
    let record = pod(&metadata, &spec, None, None, &Priorities::default());
    (metadata, record)
}

#[test]
fn a_pod_that_waits_has_the_class_of_its_labels_and_one_that_is_bound_that_of_its_record() {
    const PROVIDER: &str = "koordinator.sh/gpu-isolation-provider: HAMi-core";
    let isolated = format!("labels: {{{PROVIDER}}}");
    let class = |record: &PodRecord| record.spec.request.part().map(|p| p.class.0);
    let (metadata, mut record) = share(&isolated);
    table().enter_pod(&metadata, &mut record);
    assert_eq!((class(&record), record.spec.request.part().unwrap().compute.0), (Some(1), 50));
    let wrong = "labels: {koordinator.sh/gpu-share-isolation-level: x}";
    let (metadata, mut record) = share(wrong);
    table().enter_pod(&metadata, &mut record);
    assert!(record.invalid.unwrap().contains("\"x\"; allowed are Isolated and Shared"));
    for (metadata, expected) in [
        (isolated.clone(), 1),
        (wrong.to_owned(), 0),
        (format!("{isolated}, annotations: {{divvy.dev/class: Shared}}"), 0),
        ("annotations: {divvy.dev/class: Isolated/MPS}".to_owned(), 2),
        ("annotations: {divvy.dev/class: Isolated/gone}".to_owned(), 3),
        (String::new(), 0),
    ] {
        let (given, mut record) = share(&metadata);
        table().enter_bound(&given, &mut record.spec);
        assert_eq!(class(&record), Some(expected), "{metadata}");
    }
    let names: Vec<String> = table().class_names().iter().map(|c| c.name.to_string()).collect();
    assert_eq!(names, ["Shared", "Isolated/HAMi-core", "Isolated/MPS", "Isolated"]);
}

#[test]
fn a_node_offers_the_provider_that_is_installed_with_the_kind_of_its_cards() {
    let label = "labels: {koordinator.sh/gpu-isolation-provider: MPS}";
    let kind = "annotations: {divvy.dev/cdi-kind: nvidia.com/gpu}";
    for (metadata, expected) in [
        (format!("{label}, {kind}"), vec![Class(2)]),
        (label.to_owned(), vec![]),
        (kind.to_owned(), vec![]),
        (format!("labels: {{koordinator.sh/gpu-isolation-provider: x}}, {kind}"), vec![]),
    ] {
        let object = testing::object(&format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: node-1, {metadata}}}\n\
             status: {{allocatable: {{nvidia.com/gpu: 1}}}}\n"
        ));
        let mut record = crate::node(&object).unwrap().0;
        table().enter_node(&object.metadata, &mut record);
        assert_eq!(record.gpus.classes, expected, "{metadata}");
    }
}

#[test]
fn a_binding_writes_class_limits_and_qualified_devices() {
    let (table, compute) = (table(), Percent(30));
    let text = |class, bytes, compute| {
        let all = table.annotations(Class(class), 2, Bytes(bytes), compute);
        all.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(text(0, 1 << 30, compute), "divvy.dev/class=Shared");
    assert_eq!(
        text(1, 1 << 30, compute),
        "divvy.dev/class=Isolated/HAMi-core divvy.dev/memory-limit=1073741824 divvy.dev/compute-limit=30"
    );
    assert_eq!(
        text(1, 0, Percent(0)),
        "divvy.dev/class=Isolated/HAMi-core divvy.dev/memory-limit=1",
        "0 would be no limit"
    );
    assert_eq!(text(2, 5, compute), "divvy.dev/class=Isolated/MPS divvy.dev/memory-limit=1m");
    let devices =
        |class| table.devices(Class(class), "nvidia.com/gpu", ["GPU-1", "GPU-2"].into_iter());
    assert_eq!(devices(0), None);
    assert_eq!(
        devices(1).unwrap(),
        "nvidia.com/gpu=GPU-1,nvidia.com/gpu=GPU-2,divvy.dev/provider=HAMi-core"
    );
}

#[test]
fn a_limit_is_told_in_the_words_of_its_provider_and_read_back() {
    let mps = MemoryLimit {
        format: "{card}={}M".to_owned(),
        ..MemoryLimit::usual("LIMIT", LimitUnit::Mib)
    };
    let usual = |unit| MemoryLimit::usual("LIMIT", unit);
    for (limit, cards, text) in [
        (usual(LimitUnit::Bytes), 2, "2097152000"),
        (usual(LimitUnit::Mib), 2, "2000m"),
        (mps.clone(), 1, "0=2000M"),
        (mps.clone(), 3, "0=2000M,1=2000M,2=2000M"),
    ] {
        let bytes = Bytes::from_mib(2_000);
        assert_eq!(limit.print(bytes, cards), text);
        assert_eq!(limit.parse(text), Some(bytes), "{text}");
    }
    for none in ["", "0", "0=0M", "1=2000M", "0=2000M,1=3000M", "0=2000M,", "0=+5M", "2000M"] {
        assert_eq!(mps.parse(none), None, "{none:?}");
    }
}

#[test]
fn the_kind_of_a_nodes_cards_names_no_card() {
    let kind = |text: &str| {
        let annotations = serde_json::json!({keys::CDI_KIND: text});
        let metadata = serde_json::json!({"name": "n", "annotations": annotations});
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        cdi_kind(&metadata).map(str::to_owned)
    };
    for good in ["nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu"] {
        assert_eq!(kind(good).as_deref(), Some(good));
    }
    for bad in
        ["", "gpu", "/gpu", "nvidia.com/", "nvidia.com/gpu=all,x/y", "all,nvidia.com/gpu", "a/b/c"]
    {
        assert_eq!(kind(bad), None, "{bad}");
    }
}

#[test]
fn what_is_recorded_of_a_class_is_read_back_and_a_provider_that_is_gone_is_joined_by_nobody() {
    let isolation = Isolation::default();
    for class in [Class(0), Class(1)] {
        assert_eq!(isolation.recorded(&isolation.recorded_as(class)), class);
    }
    let gone = isolation.recorded("Isolated/gone");
    assert!(isolation.provider(gone).is_none() && gone != Class(0));
    assert_eq!(isolation.recorded(&isolation.recorded_as(gone)), gone);
    assert_eq!(isolation.named("HAMi-core"), Ok(&Provider::hami_core()));
    assert_eq!(
        isolation.named("HAMI").unwrap_err(),
        "\"HAMI\" is no provider; known are HAMi-core"
    );
}

#[test]
fn a_provider_that_only_records_name_has_a_class_of_its_own_and_is_joined_by_nobody() {
    let records = ["Isolated/MPS", "Shared", "Isolated/HAMi-core", "Isolated/CUDA", "Isolated/MPS"];
    let isolation = Isolation::default().and_recorded(records.into_iter());
    let names: Vec<String> =
        isolation.class_names().iter().map(|class| class.name.to_string()).collect();
    assert_eq!(
        names,
        ["Shared", "Isolated/HAMi-core", "Isolated", "Isolated/CUDA", "Isolated/MPS"]
    );
    for (number, name) in names.iter().enumerate() {
        let class = isolation.recorded(name);
        assert_eq!((usize::from(class.0), isolation.recorded_as(class)), (number, name.clone()));
    }
    assert_eq!(isolation.recorded("Isolated/none"), isolation.recorded("Isolated"));
    let why = isolation.choice(Some("Isolated"), Some("MPS")).unwrap_err();
    assert!(why.ends_with("\"MPS\" is no provider; known are HAMi-core"), "{why}");
    let many: Vec<String> = (0..9999).map(|n| format!("Isolated/{n}")).collect();
    let isolation = Isolation::default().and_recorded(many.iter().map(String::as_str));
    assert!(isolation.class_names().len() < 100);
}
