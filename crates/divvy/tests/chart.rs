//! The chart by the real Helm, without a cluster: what it makes of which values, and that `deploy/` is
//! what it makes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use divvy_engine::{Config, Strategy};
use divvy_testbed::Unavailable;
use divvy_testbed::chart::{helm, render};
use divvy_words::isolation::Provider;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn chart() -> PathBuf {
    root().join("charts/divvy")
}

/// Helm; nothing, and a line that says why, where it cannot be built.
fn found() -> Option<Command> {
    match helm(&mut |_| {}) {
        Ok(helm) => Some(helm),
        Err(why @ (Unavailable::NoGo(_) | Unavailable::Build { .. })) => {
            // Not by println, which the test runner hides.
            let _ = writeln!(std::io::stdout(), "skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// What the chart makes of these values, or why it does not.
fn made(values: &[&str]) -> Option<Result<String, String>> {
    let mut helm = found()?;
    helm.args(["template", "divvy", "--namespace", "kai-scheduler"]);
    values.iter().for_each(|value| {
        helm.args(["--set", value]);
    });
    let output = helm.arg(chart()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

/// The arguments of a container.
fn arguments(made: &str, container: &str) -> Vec<String> {
    let (_, rest) = made.split_once(&format!("      - name: {container}\n")).unwrap();
    let (_, rest) = rest.split_once("        args:\n").unwrap();
    let lines = rest.lines().take_while(|line| !line.ends_with("ports:"));
    lines.filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

#[test]
fn deploy_is_what_the_chart_makes() {
    let Some(helm) = found() else { return };
    let folder = root().join("deploy");
    let files = render(helm, &chart(), &folder.join("values.yaml"), "divvy-system").unwrap();
    for (name, text) in &files {
        let written = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(written == *text, "deploy/{name} is not what the chart makes: `cargo xtask chart`");
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_known = files.contains_key(&name) || ["README.md", "values.yaml"].contains(&&*name);
        assert!(is_known, "deploy/{name} is of no template");
    }
}

#[test]
fn a_typo_in_a_value_is_an_error_that_names_it() {
    for (value, named) in [
        ("schduler.replicas=3", "'schduler'"),
        ("global.gpuSharng=true", "'gpuSharng'"),
        ("gpuSharing.strategy=best", "'/gpuSharing/strategy'"),
        ("scheduling.binpacking.weights.gpus=3", "'gpus'"),
        ("scheduling.binpacking.thresholds.gpu=1.5", "'/scheduling/binpacking/thresholds/gpu'"),
        ("featureGates.GPUIsolation=true", "'GPUIsolation'"),
        ("image.pullPolicy=Sometimes", "'/image/pullPolicy'"),
        ("scheduler.resources.limits.cpu=1", "'cpu'"),
        ("tests.fraction=1", "'/tests/fraction'"),
    ] {
        let Some(made) = made(&[value]) else { return };
        let why = made.expect_err(value);
        assert!(why.contains(named), "{value}: {why}");
    }
}

#[test]
fn sharing_is_off_until_one_of_the_two_values_turns_it_on() {
    for (values, is_on) in [
        (&[][..], false),
        (&["global.gpuSharing=true"], true),
        (&["gpuSharing.enabled=true", "gpuSharing.strategy=binpack"], true),
        (&["global.gpuSharing=true", "gpuSharing.enabled=false"], false),
    ] {
        let Some(made) = made(values) else { return };
        let made = made.unwrap();
        for container in ["scheduler", "admission"] {
            let arguments = arguments(&made, container);
            assert_eq!(arguments.contains(&"--gpu-sharing".to_owned()), is_on, "{values:?}");
        }
        assert_eq!(made.contains("name: divvy-test-share"), is_on, "nothing can be tested");
    }
}

#[test]
fn what_the_recipe_sets_is_in_the_config_file_as_divvy_reads_it() {
    let values = [
        "gpuSharing.enabled=true",
        "gpuSharing.strategy=spread",
        "scheduling.strategy=binpack",
        "scheduling.binpacking.weights.gpu=10",
        "scheduling.binpacking.weights.cpu=0",
        "scheduling.binpacking.thresholds.gpu=0.8",
    ];
    let Some(made) = made(&values) else { return };
    let made = made.unwrap();
    let map = made.split("---\n").find(|text| text.contains("name: divvy-config\n")).unwrap();
    let read = divvy_words::config(map).unwrap();
    let usual = Config::default();
    assert_eq!((read.card, read.node), (Strategy::Spread, Strategy::Binpack));
    assert_eq!((read.weights.gpu, read.weights.cpu), (10, 0));
    assert_eq!(read.weights.memory, usual.weights.memory);
    assert_eq!(read.thresholds.gpu, 800_000);
    let scheduler = arguments(&made, "scheduler");
    assert!(scheduler.contains(&"--config=/etc/divvy/config.yaml".to_owned()), "{scheduler:?}");
    assert!(scheduler.contains(&"--lease-namespace=kai-scheduler".to_owned()), "{scheduler:?}");
    assert!(made.contains("'system:serviceaccount:kai-scheduler:divvy-scheduler'"));
    assert!(!made.contains("divvy-system"), "it is in another namespace");
}

#[test]
fn levels_and_their_providers_reach_both_programs_and_the_policy() {
    let values = [
        "featureGates.GPUIsolationLevel=true",
        "isolation.providers[0].name=HAMi-core",
        "isolation.providers[0].levels[0]=Isolated",
        "isolation.providers[0].device=divvy.dev/provider=HAMi-core",
        "isolation.providers[0].memory.variable=CUDA_DEVICE_MEMORY_LIMIT",
        "isolation.providers[0].memory.unit=bytes",
        "isolation.providers[0].library=/usr/local/vgpu",
    ];
    let Some(made) = made(&values) else { return };
    let made = made.unwrap();
    for container in ["scheduler", "admission"] {
        let arguments = arguments(&made, container);
        for wanted in ["--feature-gates=GPUIsolationLevel=true", "--config=/etc/divvy/config.yaml"]
        {
            assert!(arguments.contains(&wanted.to_owned()), "{container}: {arguments:?}");
        }
    }
    assert!(made.contains("name: divvy-isolation\n"));
    let map = made.split("---\n").find(|text| text.contains("name: divvy-config\n")).unwrap();
    assert_eq!(divvy_words::isolation_providers(map).unwrap().len(), 1);
}

#[test]
fn the_policy_knows_the_provider_that_divvy_knows_without_a_list() {
    let policy = std::fs::read_to_string(root().join("deploy/optional-isolation.yaml")).unwrap();
    let provider = Provider::hami_core();
    for (name, value) in &provider.environment {
        assert!(policy.contains(&format!("      \"{name}\": \"{value}\"")), "{name}={value}");
    }
    let count =
        policy.lines().filter(|line| line.starts_with("      \"") && line.contains("\": \""));
    assert_eq!(count.count(), provider.environment.len());
    for files in [
        provider.mounted().collect::<Vec<_>>(),
        provider.fresh_files.iter().map(|file| &**file).collect(),
    ] {
        let files: Vec<String> = files.iter().map(|file| format!("\"{file}/\"")).collect();
        let list = format!("{{\"{}\":[{}]}}[", provider.name, files.join(","));
        assert!(policy.contains(&list), "{list}");
    }
}

#[test]
fn the_installer_and_the_policy_have_the_providers_of_the_values() {
    let values = [
        "isolation.installer.enabled=true",
        "isolation.installer.provider=MPS",
        "isolation.installer.libraryImage=",
        "isolation.providers[0].name=MPS",
        "isolation.providers[0].levels[0]=Isolated",
        "isolation.providers[0].device=divvy.dev/provider=MPS",
        "isolation.providers[0].memory.variable=CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "isolation.providers[0].memory.unit=MiB",
        "isolation.providers[0].memory.format=0={}M",
        "isolation.providers[0].environment.OFF=no",
        "isolation.providers[0].emptyFiles[0]=/opt//off/",
        "policies.isolation=true",
    ];
    let Some(made) = made(&values) else { return };
    let made = made.unwrap();
    let named = |name: &str| made.split("---\n").find(|text| text.contains(name)).unwrap();
    let map = named("name: divvy-config\n");
    let providers = divvy_words::isolation_providers(map).unwrap();
    assert_eq!((providers.len(), &*providers[0].name), (1, "MPS"));
    let installer = named("kind: DaemonSet\n");
    for wanted in [
        "- --provider=MPS\n",
        "- --config=/etc/divvy/config.yaml\n",
        "- {name: config, mountPath: /etc/divvy, readOnly: true}\n",
        "- {name: config, configMap: {name: divvy-config}}\n",
    ] {
        assert!(installer.contains(wanted), "{wanted}: {installer}");
    }
    assert!(!installer.contains("library-dir") && !installer.contains("initContainers"));
    let policy = named("name: divvy-isolation\n");
    assert!(policy.contains("\"MPS\": {\n      \"OFF\": \"no\"}}[?"), "{policy}");
    assert!(policy.contains("{\"MPS\":[\"/opt/off/\"]}[?"), "{policy}");
    assert!(policy.contains("{\"MPS\":[]}[?") && !policy.contains("CUDA_"), "{policy}");
}

#[test]
fn all_that_is_optional_passes_the_linter_together() {
    let Some(mut helm) = found() else { return };
    let all = [
        "global.gpuSharing=true",
        "featureGates.GPUIsolationLevel=true",
        "isolation.installer.enabled=true",
        "isolation.installer.gpuOperator=true",
        "imagePullSecrets={registry}",
        "image.repository=example.com/divvy",
        "image.pullPolicy=Always",
        "scheduler.nodeSelector.pool=system",
        "scheduler.tolerations[0].operator=Exists",
        "scheduler.extraArgs={--bind-concurrency=64}",
        "admission.replicas=1",
        "maxGracePeriod=60",
        "cdi=true",
        "reservations.writeCard=true",
        "reservations.resources.requests.memory=32Mi",
        "runtimeClass.create=true",
        "policies.affinity=true",
        "policies.defaultRuntime=true",
        "policies.visibleDevices=false",
        "namespace.create=true",
        "networkPolicy.enabled=true",
        "monitoring.serviceMonitor.enabled=true",
        "monitoring.prometheusRule.enabled=true",
        "monitoring.dashboard.enabled=true",
    ];
    helm.args(["lint", "--strict"]).arg(chart()).args(["--set", &all.join(",")]);
    let output = helm.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let made = made(&all).unwrap().unwrap();
    let scheduler = arguments(&made, "scheduler");
    for wanted in
        ["--reservation-image=example.com/divvy:0.1.0", "--cdi=true", "\"--bind-concurrency=64\""]
    {
        assert!(scheduler.contains(&wanted.to_owned()), "{wanted}: {scheduler:?}");
    }
    assert!(!made.contains("void.divvy.dev"), "the webhook goes with its policy");
    assert!(!made.contains("divvy-visible-devices"), "{made}");
}

/// The names that are in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("divvy_")).map(str::to_owned).collect()
}

#[test]
fn every_metric_of_the_rules_and_the_dashboard_is_one_that_divvy_exports() {
    let written = metrics(&std::fs::read_to_string(root().join("docs/operations.md")).unwrap());
    let snapshots = root().join("crates/cluster/src/metrics/snapshots");
    let exported = "divvy_cluster__metrics__tests__everything_that_is_recorded_is_in_the_text.snap";
    let exported = metrics(&std::fs::read_to_string(snapshots.join(exported)).unwrap());
    for file in ["rules.yaml", "dashboard.json"] {
        let used = std::fs::read_to_string(chart().join("monitoring").join(file)).unwrap();
        let used = metrics(&used);
        assert!(used.len() > 5, "{file} uses {used:?}");
        for name in used {
            let whole = name.strip_suffix("_bucket").unwrap_or(&name);
            assert!(
                written.contains(whole),
                "{file} uses {name}, which docs/operations.md does not know"
            );
            let is_there = exported.contains(&name)
                || exported.contains(whole)
                || name.starts_with("divvy_admission_");
            assert!(is_there, "{file} uses {name}, which is not exported");
        }
    }
    let dashboard = std::fs::read(chart().join("monitoring/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}

#[test]
fn the_notes_say_what_to_do_next() {
    for (value, said) in [
        ("global.gpuSharing=false", "Sharing is OFF"),
        ("global.gpuSharing=true", "helm test -n gpus divvy"),
        ("isolation.installer.enabled=true", "featureGates.GPUIsolationLevel=true"),
    ] {
        let Some(mut helm) = found() else { return };
        helm.args(["install", "divvy", "--dry-run=client", "--namespace=gpus", "--set", value]);
        let output = helm.arg(chart()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let (_, notes) = text.split_once("NOTES:").unwrap();
        assert!(notes.contains(said), "{value}: {notes}");
    }
}
