use super::*;
use crate::{Priorities, pod, testing};
use divvy_engine::PodSpec;

fn read(text: &str) -> (PodSpec, Option<String>) {
    let (metadata, spec) = testing::pod(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{text}}}\n"
    ));
    let record = pod(&metadata, &spec, None, None, &Priorities::default());
    (record.spec, record.invalid)
}

/// What a pod of one container with these limits asks, or what is wrong with it.
fn one(limits: &str) -> Result<Request, String> {
    several(&[limits])
}

fn several(limits: &[&str]) -> Result<Request, String> {
    let container = |(at, limits): (usize, &&str)| {
        let limits: Vec<String> = limits
            .split_whitespace()
            .map(|l| format!("koordinator.sh/{l}").replace('=', ": "))
            .collect();
        format!("{{name: c{at}, resources: {{limits: {{{}}}}}}}", limits.join(", "))
    };
    let all: Vec<String> = limits.iter().enumerate().map(container).collect();
    let (spec, invalid) = read(&format!("containers: [{}]", all.join(", ")));
    assert_eq!(spec.extended, [], "no node has to offer it");
    invalid.map_or(Ok(spec.request), Err)
}

fn share(cards: u32, portion: &str, compute: u8) -> Request {
    let portion = match portion.strip_suffix(" bytes") {
        Some(bytes) => Portion::Memory(Bytes(bytes.parse().unwrap())),
        None => Portion::Fraction(Fraction::parse(portion).unwrap()),
    };
    Request::share(cards, Part { compute: Percent(compute), ..Part::of(portion) })
}

#[test]
fn every_combination_that_koordinator_allows_is_read() {
    for (limits, expected) in [
        ("gpu=50", share(1, "0.5", 50)),
        ("gpu=5", share(1, "0.05", 5)),
        ("gpu=100", Request::whole(1)),
        ("gpu=300", Request::whole(3)),
        ("gpu-memory=8Gi", share(1, "8589934592 bytes", 0)),
        ("gpu-memory-ratio=33", share(1, "0.33", 0)),
        ("gpu-memory-ratio=200", Request::whole(2)),
        ("gpu-core=30 gpu-memory=1", share(1, "1 bytes", 30)),
        ("gpu-core=200 gpu-memory=16Gi", share(2, "8589934592 bytes", 100)),
        ("gpu-core=30 gpu-memory-ratio=50", share(1, "0.5", 30)),
        ("gpu-core=100 gpu-memory-ratio=100", Request::whole(1)),
        ("gpu.shared=1 gpu-core=50 gpu-memory-ratio=50", share(1, "0.5", 50)),
        ("gpu.shared=2 gpu-core=100 gpu-memory-ratio=100", share(2, "0.5", 50)),
        ("gpu.shared=3 gpu-memory=10", share(3, "3 bytes", 0)),
        ("gpu.shared=3 gpu-core=90 gpu-memory=9", share(3, "3 bytes", 30)),
        ("gpu.shared=2 gpu-memory-ratio=200", Request::whole(2)),
        ("gpu=0 gpu-core=0 gpu-memory-ratio=50", share(1, "0.5", 0)),
        ("gpu=0", Request::none()),
    ] {
        assert_eq!(one(limits), Ok(expected), "{limits}");
    }
}

#[test]
fn what_koordinator_refuses_is_refused_with_field_value_and_what_is_allowed() {
    let at = "spec.containers[0].resources: koordinator.sh/";
    for (limits, expected) in [
        ("gpu=150", "gpu: 150; allowed are 1 to 100, and multiples of 100"),
        (
            "gpu-core=150 gpu-memory=1Gi",
            "gpu-core: 150; allowed are 1 to 100, and multiples of 100",
        ),
        (
            "gpu-memory-ratio=101",
            "gpu-memory-ratio: 101; allowed are 1 to 100, and multiples of 100",
        ),
        ("gpu-core=200 gpu-memory-ratio=50", "gpu-core: 200; allowed are 1 to 100 for one card"),
        (
            "gpu.shared=2 gpu-memory-ratio=75",
            "gpu-memory-ratio: 75; allowed are multiples of 2 up to 200 for 2 cards (koordinator.sh/gpu.shared), \
             which get the same part each",
        ),
        (
            "gpu.shared=2 gpu-core=300 gpu-memory=1Gi",
            "gpu-core: 300; allowed are multiples of 2 up to 200 for 2 cards (koordinator.sh/gpu.shared), which get \
             the same part each",
        ),
        (
            "gpu.shared=1 gpu-memory-ratio=101",
            "gpu-memory-ratio: 101; allowed are 1 to 100 for one card",
        ),
        (
            "gpu.shared=65 gpu-memory=1Gi",
            "gpu.shared: 65 is too many cards for one node; allowed are 1 to 64",
        ),
        ("gpu.shared=3 gpu-memory=2", "gpu-memory: 2 bytes on 3 cards leave nothing for each"),
        (
            "gpu=50 gpu.shared=1",
            "gpu stands for koordinator.sh/gpu-core and koordinator.sh/gpu-memory-ratio; allowed is that alone, or \
             the others without it",
        ),
        (
            "gpu-memory=1Gi gpu-memory-ratio=50",
            "gpu-memory and koordinator.sh/gpu-memory-ratio both say how much memory; allowed is one",
        ),
    ] {
        assert_eq!(one(limits), Err(format!("{at}{expected}")), "{limits}");
    }
    let no_memory = "spec.containers[0].resources: no memory is asked for; set koordinator.sh/gpu-memory or \
                     koordinator.sh/gpu-memory-ratio";
    for limits in ["gpu-core=50", "gpu.shared=1", "gpu.shared=1 gpu-core=50"] {
        assert_eq!(one(limits), Err(no_memory.to_owned()), "{limits}");
    }
    let half = one("gpu-memory-ratio=0.5").unwrap_err();
    assert!(half.contains("koordinator.sh/gpu-memory-ratio\"]: 0.5 must be an integer"), "{half}");
}

#[test]
fn several_containers_ask_in_sum_each_completed_for_itself() {
    for (limits, expected) in [
        (&["gpu=50", "gpu=50"] as &[&str], share(2, "0.5", 50)),
        (&["gpu=100", "gpu=200"], Request::whole(3)),
        (&["gpu-memory=1Gi", "gpu-memory=3Gi"], share(2, "2147483648 bytes", 0)),
        (&["gpu=50", ""], share(1, "0.5", 50)),
        (&["gpu=100", "gpu=50"], share(2, "0.75", 75)),
    ] {
        assert_eq!(several(limits), Ok(expected), "{limits:?}");
    }
    assert_eq!(
        several(&["gpu-memory=1Gi", "gpu-memory-ratio=50"]),
        Err("spec.containers[*].resources, in sum: koordinator.sh/gpu-memory and koordinator.sh/gpu-memory-ratio \
             both say how much memory; allowed is one"
            .to_owned())
    );
    assert_eq!(
        several(&["gpu-memory-ratio=50", "gpu-memory-ratio=51"]),
        Err("spec.containers[*].resources, in sum: koordinator.sh/gpu-memory-ratio: 101; allowed are multiples of 2 \
             up to 200 for 2 cards (koordinator.sh/gpu.shared), which get the same part each"
            .to_owned())
    );
}

#[test]
fn an_init_container_has_its_card_before_the_others_and_not_beside_them() {
    let (spec, invalid) = read(
        "containers: [{name: c, resources: {limits: {koordinator.sh/gpu: 50}}}], \
         initContainers: [{name: i, resources: {limits: {koordinator.sh/gpu: 50}}}]",
    );
    assert_eq!((spec.request, invalid), (share(1, "0.5", 50), None));
}

#[test]
fn other_ways_to_ask_for_gpus_do_not_go_with_it() {
    let limits = |other: &str| {
        let text = format!(
            "containers: [{{name: c, resources: {{limits: {{koordinator.sh/gpu: 50, {other}: 1}}}}}}]"
        );
        read(&text).1.unwrap()
    };
    assert_eq!(
        limits("nvidia.com/gpu"),
        "cannot have both resources koordinator.sh/gpu... and nvidia.com/gpu"
    );
    assert_eq!(
        limits("nvidia.com/mig-1g.5gb"),
        "cannot have both a GPU share (resources koordinator.sh/gpu...) and the MIG resource \
         nvidia.com/mig-1g.5gb of container c"
    );
    let (metadata, spec) = testing::pod(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {gpu-fraction: \"0.5\"}}\n\
         spec: {containers: [{name: c, resources: {limits: {koordinator.sh/gpu: 50}}}]}\n",
    );
    let record = pod(&metadata, &spec, None, None, &Priorities::default());
    assert_eq!(
        record.invalid.unwrap(),
        "cannot have both resources koordinator.sh/gpu... and annotation gpu-fraction or gpu-memory"
    );
}
