use super::*;
use divvy_engine::Strategy;
use proptest::prelude::{prop_assert_eq, proptest};

const PAGE: &str = "scheduling:
  strategy: spread
  binpacking:
    weights:
      gpu: 10        # Highest priority to pack GPUs
      cpu: 0
    thresholds:
      gpu: 0.8
      cpu: 1
      memory: 0.000001
gpuSharing:
  enabled: true
  strategy: spread
";

#[test]
fn every_setting_is_read_exactly() {
    let expected = Config {
        node: Strategy::Spread,
        card: Strategy::Spread,
        weights: PerResource { gpu: 10, cpu: 0, memory: 1 },
        thresholds: PerResource { gpu: 800_000, cpu: 1_000_000, memory: 1 },
        hand_off: None,
    };
    assert_eq!(config(PAGE), Ok(expected));
    let indented: String = PAGE.lines().map(|line| format!("    {line}\n")).collect();
    let pasted = format!(
        "# bin-packing-config.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kai-scheduler-config\ndata:\n  config.yaml: |\n{indented}"
    );
    assert_eq!(config(&pasted), Ok(expected));
}

#[test]
fn what_is_not_given_stays_at_its_default() {
    for text in
        ["", "# nothing\n", "---\n", "null", "{}", "scheduling:\n", "scheduling: {binpacking: {}}"]
    {
        assert_eq!(config(text), Ok(Config::default()), "{text}");
    }
}

#[test]
fn errors_name_the_field_and_what_is_allowed() {
    let weight = "allowed are whole numbers from 0 to 1000";
    let part = "allowed are numbers above 0 and up to 1 with at most 6 decimals";
    let packing = |text: &str| format!("scheduling: {{binpacking: {{{text}}}}}");
    let at = "scheduling.binpacking";
    for (text, expected) in [
        ("a: b".to_owned(), "a: unknown field; allowed are scheduling, gpuSharing, isolationProviders".to_owned()),
        (
            "[]".to_owned(),
            "the configuration: a list is given; allowed is a map of scheduling, gpuSharing, isolationProviders"
                .to_owned(),
        ),
        (
            "scheduling: {strategy: pack}".to_owned(),
            "scheduling.strategy: \"pack\"; allowed are binpack, spread".to_owned(),
        ),
        (
            "gpuSharing: {strategy: 1}".to_owned(),
            "gpuSharing.strategy: 1; allowed are binpack, spread".to_owned(),
        ),
        (
            "scheduling: {binpack: {}}".to_owned(),
            "scheduling.binpack: unknown field; allowed are strategy, binpacking".to_owned(),
        ),
        (packing("weights: {gpu: -1}"), format!("{at}.weights.gpu: -1; {weight}")),
        (packing("weights: {gpu: 1.5}"), format!("{at}.weights.gpu: 1.5; {weight}")),
        (packing("weights: {cpu: 1001}"), format!("{at}.weights.cpu: 1001; {weight}")),
        (packing("weights: {cpu: many}"), format!("{at}.weights.cpu: \"many\"; {weight}")),
        (
            packing("weights: {gpus: 1}"),
            format!("{at}.weights.gpus: unknown field; allowed are gpu, cpu, memory"),
        ),
        (
            packing("weights: {gpu: 0, cpu: 0, memory: 0}"),
            format!("{at}.weights: all are 0; at least one must be more"),
        ),
        (packing("thresholds: {gpu: 0}"), format!("{at}.thresholds.gpu: 0; {part}")),
        (packing("thresholds: {gpu: 1.1}"), format!("{at}.thresholds.gpu: 1.1; {part}")),
        (
            packing("thresholds: {gpu: 0.1234567}"),
            format!("{at}.thresholds.gpu: 0.1234567; {part}"),
        ),
        (packing("thresholds: {gpu: 80%}"), format!("{at}.thresholds.gpu: \"80%\"; {part}")),
        (
            packing("thresholds: 3"),
            format!("{at}.thresholds: 3; allowed is a map of gpu, cpu, memory"),
        ),
        (
            "kind: Pod".to_owned(),
            "kind: \"Pod\" is no configuration; allowed is ConfigMap".to_owned(),
        ),
        (
            "kind: ConfigMap".to_owned(),
            "data[\"config.yaml\"]: missing; it holds the configuration".to_owned(),
        ),
        (
            "kind: ConfigMap\ndata: {config.yaml: 5}".to_owned(),
            "data[\"config.yaml\"]: 5 is a number, expected text".to_owned(),
        ),
        (
            "kind: ConfigMap\ndata: {config.yaml: {a: b}}".to_owned(),
            "data[\"config.yaml\"]: a map, expected text".to_owned(),
        ),
        (
            "gpuSharing: {enabled: 1}".to_owned(),
            "gpuSharing.enabled: 1; allowed is true".to_owned(),
        ),
        (
            "gpuSharing: {enabled: 'false'}".to_owned(),
            "gpuSharing.enabled: \"false\"; allowed is true".to_owned(),
        ),
        (
            "gpuSharing: {enabled: false}".to_owned(),
            "gpuSharing.enabled: false: a rehearsal with sharing disabled is not supported, \
             remove the field or set true"
                .to_owned(),
        ),
        ("{}\n---\n{}".to_owned(), "2 documents are given; allowed is one".to_owned()),
        ("a: [".to_owned(), "line 1: unclosed bracket '['".to_owned()),
    ] {
        assert_eq!(config(&text).map_err(|e| e.to_string()), Err(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".*|[a-z:{}\\[\\] \n]{0,60}") {
        let _ = config(&text);
    }

    #[test]
    fn thresholds_are_exact_to_the_millionth(n in 1u32..=1_000_000) {
        let text = format!("scheduling: {{binpacking: {{thresholds: {{gpu: {}.{:06}}}}}}}", n / 1_000_000, n % 1_000_000);
        prop_assert_eq!(config(&text).unwrap().thresholds.gpu, n);
    }
}

const PROVIDER: &str = "isolationProviders:
- name: MPS
  levels: [Shared, Isolated]
  device: divvy.dev/provider=MPS
  memory: {variable: CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, unit: MiB, format: \"{card}={}M\"}
  compute: {variable: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE}
  environment: {OFF: \"0\"}
  freshFiles: [/tmp/mps]
";

#[test]
fn providers_of_isolation_are_those_of_the_list_or_the_usual_one() {
    use crate::isolation::{Level, LimitUnit, MemoryLimit, Provider};
    assert_eq!(isolation_providers(""), Ok(vec![Provider::hami_core()]));
    assert_eq!(isolation_providers("isolationProviders: []"), Ok(Vec::new()));
    let expected = Provider {
        name: "MPS".to_owned(),
        levels: vec![Level::Isolated, Level::Shared],
        device: "divvy.dev/provider=MPS".to_owned(),
        memory: MemoryLimit {
            variable: "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT".to_owned(),
            unit: LimitUnit::Mib,
            format: "{card}={}M".to_owned(),
        },
        compute: Some("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE".to_owned()),
        library: None,
        environment: [("OFF".to_owned(), "0".to_owned())].into(),
        empty_files: Vec::new(),
        fresh_files: vec!["/tmp/mps".to_owned()],
    };
    assert_eq!(isolation_providers(PROVIDER), Ok(vec![expected]));
    assert_eq!(config(PROVIDER), Ok(Config::default()));
}

#[test]
fn what_makes_no_sense_in_a_provider_is_told_with_its_field() {
    let at = "isolationProviders[0]";
    for (from, to, expected) in [
        ("name: MPS", "name: \"-\"", format!("{at}.name: \"-\"; allowed is a label value")),
        (
            "- name: MPS\n  levels",
            "- levels",
            format!("{at}.name: missing; allowed is a label value"),
        ),
        (
            "[Shared, Isolated]",
            "[]",
            format!("{at}.levels: no list is given; allowed is a list of Isolated and Shared"),
        ),
        (
            "[Shared, Isolated]",
            "[Half]",
            format!("{at}.levels: \"Half\"; allowed is a list of Isolated and Shared"),
        ),
        ("unit: MiB", "unit: GiB", format!("{at}.memory.unit: \"GiB\"; allowed are bytes and MiB")),
        (
            "environment: {OFF: \"0\"}",
            "library: mps",
            format!("{at}.library: \"mps\"; allowed is an absolute path"),
        ),
        (
            "  environment: {OFF: \"0\"}\n",
            "",
            format!(
                "{at}: a container gets nothing of it; allowed is a provider with library, environment or emptyFiles"
            ),
        ),
        (
            "{card}={}M",
            "{card}=M",
            format!(
                "{at}.memory.format: \"{{card}}=M\"; allowed is a text with {{}} once and without commas"
            ),
        ),
        (
            "[/tmp/mps]",
            "[mps]",
            format!("{at}.freshFiles: \"mps\"; allowed is a list of absolute paths"),
        ),
        (
            "device: divvy.dev/provider=MPS",
            "device: all",
            format!("{at}.device: \"all\"; allowed is <vendor>/<class>=<name>"),
        ),
        (
            "{OFF: \"0\"}",
            "{OFF: 0}",
            format!("{at}.environment: OFF: 0; allowed is a map of strings without $"),
        ),
        (
            "{OFF: \"0\"}",
            "{OFF: $(ON)}",
            format!("{at}.environment: OFF: \"$(ON)\"; allowed is a map of strings without $"),
        ),
    ] {
        let text = PROVIDER.replace(from, to);
        assert_eq!(isolation_providers(&text).unwrap_err().to_string(), expected, "{text}");
        assert!(config(&text).is_err());
    }
    let twice = PROVIDER.to_owned() + PROVIDER.split_once('\n').unwrap().1;
    let why = isolation_providers(&twice).unwrap_err().to_string();
    assert_eq!(why, "isolationProviders[1].name: MPS is given twice");
}
