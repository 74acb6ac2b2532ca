use crate::{Priorities, pod, testing};
use divvy_ledger::{Bytes, Fraction, Part, Portion, Request};

/// The request of a pod with these annotations and this `spec`, both in YAML's flow style.
fn parsed(annotations: &str, spec: &str) -> (Request, Option<String>) {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotations}}}}}\nspec: {{{spec}}}\n"
    );
    let (metadata, spec) = testing::pod(&text);
    let record = pod(&metadata, &spec, None, None, &Priorities::default());
    (record.spec.request, record.invalid)
}

const ONE: &str = "containers: [{name: main}]";
const WHOLE: &str = r#"containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]"#;

fn fraction(text: &str, cards: u32) -> Request {
    Request::share(cards, Part::of(Portion::Fraction(Fraction::parse(text).unwrap())))
}

#[test]
fn shares_and_whole_cards_are_read() {
    let memory =
        |mib, cards| Request::share(cards, Part::of(Portion::Memory(Bytes::from_mib(mib))));
    for (annotations, spec, expected) in [
        ("", ONE, Request::none()),
        ("", WHOLE, Request::whole(1)),
        (r#"gpu-fraction: "0.5""#, ONE, fraction("0.5", 1)),
        (r#"gpu-fraction: "5e-1", mps: "true""#, ONE, fraction("0.5", 1)),
        (r#"gpu-fraction: ".25", gpu-fraction-num-devices: "4""#, ONE, fraction("0.25", 4)),
        (r#"gpu-memory: "4096""#, ONE, memory(4096, 1)),
        (r#"gpu-memory: "007", gpu-fraction-num-devices: "2""#, ONE, memory(7, 2)),
        (r#"gpu-fraction: "0.5", gpu-fraction-container-name: main"#, ONE, fraction("0.5", 1)),
        (r#"mps: "false""#, ONE, Request::none()),
    ] {
        assert_eq!(parsed(annotations, spec), (expected, None), "{annotations} {spec}");
    }
}

const MPS: &str = "MPS is only supported with GPU fraction request";
const BOTH: &str = "cannot have both GPU fraction request and whole GPU resource request/limit";
const BOTH_MEMORY: &str = "cannot request both GPU and GPU memory";
const DEVICES: &str =
    "cannot request multiple fractional devices without specifying fraction portion or gpu-memory";
const MEMORY: &str = "gpu-memory annotation value must be a positive integer greater than 0";
const FRACTION: &str = "gpu-fraction annotation value must be a positive number smaller than 1.0";
const COUNT: &str = "fraction count annotation value must be a positive integer greater than 0";

#[test]
fn errors_are_those_of_kai_in_its_order() {
    let init = r#"containers: [{name: main}], initContainers: [{resources: {limits: {nvidia.com/gpu: 1}}}]"#;
    let requests = r#"containers: [{resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}}]"#;
    for (annotations, spec, expected) in [
        (r#"mps: "true""#, ONE, MPS),
        (r#"mps: "true", gpu-fraction-num-devices: "0""#, ONE, MPS),
        (r#"gpu-fraction: "0.5""#, WHOLE, BOTH),
        (r#"gpu-fraction: "0.5""#, init, BOTH),
        (r#"gpu-fraction: "0.5""#, requests, BOTH),
        (r#"gpu-fraction: "bad", gpu-memory: "bad""#, WHOLE, BOTH),
        (r#"gpu-fraction: "bad", gpu-memory: "bad""#, ONE, BOTH_MEMORY),
        (r#"gpu-memory: "1""#, WHOLE, BOTH_MEMORY),
        (r#"gpu-fraction-num-devices: "2""#, ONE, DEVICES),
        (r#"gpu-memory: "0", gpu-fraction-num-devices: "0""#, ONE, MEMORY),
        (r#"gpu-fraction: "1", gpu-fraction-num-devices: "0""#, ONE, FRACTION),
        (r#"gpu-fraction: "0.5", gpu-fraction-num-devices: "0""#, ONE, COUNT),
    ] {
        let (_, invalid) = parsed(annotations, spec);
        begins(invalid, expected, annotations);
    }
}

/// KAI's text, and behind it what is only ours to say.
fn begins(invalid: Option<String>, words_of_kai: &str, given: &str) {
    let said = invalid.unwrap_or_default();
    let rest = said.strip_prefix(words_of_kai);
    assert!(rest.is_some_and(|rest| rest.starts_with("; ")), "{given}: {said}");
}

#[test]
fn values_are_read_as_go_reads_them() {
    let quantity = |text: &str| {
        format!(
            "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation .given value: {text}"
        )
    };
    let fractions = [
        "",
        "0",
        "0.0",
        "-0.5",
        "1",
        "1.0",
        "1.5",
        "1e0",
        "1e-400",
        "1e400",
        "NaN",
        "nan",
        "inf",
        "-Inf",
        "infinity",
        " 0.5",
        "0.5 ",
        "0,5",
        "half",
        "500m",
        "50%",
        "٠.٥",
        "0.5f",
        "0x.8",
        "0x1p0",
        "0xp-1",
        "_0.5",
        "0._5",
        "0__1.5",
        "+-0.5",
        "e-1",
        ".",
        "0x1p-9999",
        "0.99999999999999999999999999",
    ];
    for text in fractions {
        let (_, invalid) = parsed(&format!("gpu-fraction: {text:?}"), ONE);
        begins(invalid, FRACTION, text);
    }
    for text in ["0x1p-1", "0X.8P0", "0x_1p-2", "0.2_5", "+0x1p-1"] {
        let (_, invalid) = parsed(&format!("gpu-fraction: {text:?}"), ONE);
        begins(invalid, &quantity(text), text);
    }
    for text in
        ["", "0", "-1", "+1", "1.5", "1e3", "0x10", "1_000", "1Gi", " 1", "18446744073709551616"]
    {
        let (_, invalid) = parsed(&format!("gpu-memory: {text:?}"), ONE);
        begins(invalid, MEMORY, text);
        let count = format!("gpu-fraction: \"0.5\", gpu-fraction-num-devices: {text:?}");
        begins(parsed(&count, ONE).1, COUNT, text);
    }
}

#[test]
fn what_kai_lets_pass_is_refused_with_what_is_allowed() {
    let mig = "containers: [{name: main, resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}]";
    let claim = "containers: [{name: main}], resourceClaims: [{name: gpu}]";
    for (annotations, spec, expected) in [
        (
            r#"gpu-fraction: "1e-40""#,
            ONE,
            r#"metadata.annotations["gpu-fraction"]: 1e-40 has too many decimals; allowed are up to 36"#,
        ),
        (
            r#"gpu-memory: "9223372036854775807""#,
            ONE,
            r#"metadata.annotations["gpu-memory"]: 9223372036854775807 MiB is more than any card has; allowed are 1 to 8796093022207"#,
        ),
        (
            r#"gpu-fraction: "0.5", gpu-fraction-num-devices: "65""#,
            ONE,
            r#"metadata.annotations["gpu-fraction-num-devices"]: 65 is too many cards for one node; allowed are 1 to 64"#,
        ),
        (
            r#"gpu-fraction: "0.5", gpu-fraction-container-name: other"#,
            ONE,
            "failed to get fraction container ref: container with name other not found for fraction request; allowed for gpu-fraction-container-name are main",
        ),
        (
            r#"gpu-fraction: "0.5""#,
            mig,
            "cannot have both a GPU share (annotation gpu-fraction or gpu-memory) and the MIG resource nvidia.com/mig-1g.10gb of container main",
        ),
        (
            r#"gpu-memory: "5""#,
            claim,
            "cannot have both a GPU share (annotation gpu-fraction or gpu-memory) and spec.resourceClaims",
        ),
        (
            "gpu-fraction: 0.5",
            ONE,
            r#"metadata.annotations["gpu-fraction"]: 0.5 is a number; annotation values are strings, write "0.5""#,
        ),
        (
            "mps: true",
            ONE,
            r#"metadata.annotations["mps"]: true is a boolean; annotation values are strings, put it in quotes"#,
        ),
        (
            "other/port: 8080",
            ONE,
            r#"metadata.annotations["other/port"]: 8080 is a number; annotation values are strings, write "8080""#,
        ),
        (
            "gpu-fraction: [0.5]",
            ONE,
            r#"metadata.annotations["gpu-fraction"]: a list is given; annotation values are strings"#,
        ),
    ] {
        let (_, invalid) = parsed(annotations, spec);
        assert_eq!(invalid.as_deref(), Some(expected), "{annotations} {spec}");
    }
}

#[test]
fn a_limit_of_no_gpus_beside_a_share_is_refused_as_kai_refuses_it() {
    let zero = r#"containers: [{name: main, resources: {limits: {nvidia.com/gpu: "0"}}}]"#;
    let init =
        "containers: [{name: main}], initContainers: [{resources: {limits: {nvidia.com/gpu: 0}}}]";
    for spec in [zero, init] {
        begins(parsed(r#"gpu-fraction: "0.5""#, spec).1, BOTH, spec);
        begins(parsed(r#"gpu-memory: "5""#, spec).1, BOTH_MEMORY, spec);
        assert_eq!(parsed("", spec), (Request::none(), None), "{spec}");
    }
}

#[test]
fn a_container_that_does_not_exist_is_told_before_all_that_is_validated() {
    let name = "x".repeat(200);
    let expected = format!(
        "failed to get fraction container ref: container with name {name} not found for fraction request"
    );
    let wrong = "containers: [{name: main, resources: {limits: {nvidia.com/gpu: -1, a: b}}}]";
    for (share, spec) in [(r#"gpu-fraction: "7""#, wrong), (r#"gpu-memory: "", mps: "true""#, ONE)]
    {
        let annotations = format!("{share}, gpu-fraction-container-name: {name}");
        begins(parsed(&annotations, spec).1, &expected, &annotations);
    }
    assert_eq!(parsed("gpu-fraction-container-name: other", ONE), (Request::none(), None));
    let (_, invalid) = parsed(r#"gpu-fraction: "0.5", gpu-fraction-container-name: 5"#, ONE);
    assert!(invalid.unwrap().contains("annotation values are strings"));
}

#[test]
fn what_only_divvy_refuses_comes_after_all_errors_of_kai() {
    for share in [r#"gpu-fraction: "1e-40""#, r#"gpu-memory: "9223372036854775807""#] {
        let (_, invalid) = parsed(&format!(r#"{share}, gpu-fraction-num-devices: "0""#), ONE);
        begins(invalid, COUNT, share);
        let (_, invalid) = parsed(&format!(r#"{share}, gpu-fraction-num-devices: "65""#), ONE);
        assert!(invalid.unwrap().starts_with("metadata.annotations[\"gpu-"), "{share}");
    }
}

#[test]
fn hexadecimal_fractions_are_rounded_as_go_rounds_them() {
    let zeros = |n: usize| "0".repeat(n);
    let ones = |n: usize| "f".repeat(n);
    for (text, is_part) in [
        ("0x1p-1074".to_owned(), true),
        ("0x1p-1075".to_owned(), false),
        ("0x1.8p-1075".to_owned(), true),
        (format!("0x1.{}1p-1075", zeros(300)), true),
        (format!("0x1.{}p-1075", zeros(300)), false),
        ("0x1p-1076".to_owned(), false),
        ("0x1.ffffffffffffp-1076".to_owned(), false),
        (format!("0x1{}p-2000", zeros(400)), true),
        (format!("0x1{}p-1600", zeros(400)), false),
        (format!("0x.{}1p1000", zeros(300)), true),
        (format!("0x{}p-2000", ones(400)), true),
        (format!("0x.{}p0", ones(13)), true),
        ("0x.fffffffffffff8p0".to_owned(), true),
        ("0x.fffffffffffffcp0".to_owned(), false),
        ("0x.fffffffffffffbffffffp0".to_owned(), true),
        (format!("0x.{}p0", ones(14)), false),
        ("0x1p0".to_owned(), false),
        ("0x0p5".to_owned(), false),
        ("0x1p-99999999999999999999".to_owned(), false),
        ("0x1p99999999999999999999".to_owned(), false),
        ("-0x1p-1".to_owned(), false),
        ("+-0x1p-1".to_owned(), false),
    ] {
        let expected = match is_part {
            true if text.len() > 256 => format!("{QUANTITY}{}...", text.get(..256).unwrap()),
            true => format!("{QUANTITY}{text}"),
            false => FRACTION.to_owned(),
        };
        begins(parsed(&format!("gpu-fraction: {text:?}"), ONE).1, &expected, &text);
    }
}

const QUANTITY: &str = "gpu-fraction annotation value must be a float written with a decimal point or a scientific notation .given value: ";

#[test]
fn a_part_of_a_gpu_as_resource_is_no_request() {
    for spec in [
        "containers: [{resources: {limits: {nvidia.com/gpu: 0.5}}}]",
        "containers: [{resources: {limits: {nvidia.com/gpu: 0.5}}}, {resources: {limits: {nvidia.com/gpu: 1.5}}}]",
    ] {
        let (request, invalid) = parsed("", spec);
        assert_eq!(request, Request::none());
        assert!(invalid.unwrap().contains("must be an integer"));
    }
}

#[test]
fn a_share_whose_record_would_not_fit_beside_the_annotations_is_refused() {
    let noted = |bytes: usize| {
        let annotations = format!(r#"gpu-fraction: "0.5", note: "{}""#, "x".repeat(bytes));
        parsed(&annotations, ONE).1
    };
    let most = (256 << 10) - "gpu-fraction0.5note".len() - 160 - 140;
    assert_eq!(noted(most), None);
    let why = noted(most + 1).unwrap();
    assert!(why.starts_with("metadata.annotations: 261845 bytes leave no room for"), "{why}");
    let plain = format!(r#"note: "{}""#, "x".repeat(most + 200));
    assert_eq!(parsed(&plain, ONE), (Request::none(), None));
}
