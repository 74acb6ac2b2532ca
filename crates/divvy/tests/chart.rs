//! The chart by the real Helm, without a cluster: what it makes of which values, and that `deploy/` is
//! what it makes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use divvy_engine::{Config, Strategy};
use divvy_testbed::Unavailable;
use divvy_testbed::chart::{helm, render};
use divvy_words::isolation::Provider;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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

/// The objects that the chart makes of these values.
fn objects(values: &[&str]) -> Option<Vec<Value>> {
    let made = made(values)?.unwrap();
    let objects = divvy_words::untyped(&made).unwrap();
    Some(objects.into_iter().filter(Value::is_object).collect())
}

/// Those of a kind.
fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn deployment<'a>(objects: &'a [Value], name: &str) -> &'a Value {
    let mut all = of_kind(objects, "Deployment").into_iter();
    all.find(|deployment| deployment["metadata"]["name"] == name).unwrap()
}

/// Whether an object with these labels is selected.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
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
        ("devicePlugin.configMap=time-slicing-config", "'/devicePlugin/configMap'"),
        ("tests.fraction=1", "'/tests/fraction'"),
        ("scheduling.configMap=a/b/c", "'/scheduling/configMap'"),
        ("schedulerNames={}", "'/schedulerNames/0'"),
    ] {
        let Some(made) = made(&[value]) else { return };
        let why = made.expect_err(value);
        assert!(why.contains(named), "{value}: {why}");
    }
}

#[test]
fn globals_of_other_charts_are_left_alone() {
    let values =
        ["global.imageRegistry=example.com", "global.gpuOperator=true", "global.gpuScheduler=x"];
    let Some(made) = made(&values) else { return };
    assert!(made.is_ok_and(|made| !made.contains("--gpu-sharing")));
}

#[test]
fn a_right_that_is_taken_from_reservations_is_not_left_by_an_upgrade() {
    // Helm deletes nothing that is marked to be kept.
    let Some(objects) = objects(&["reservations.writeCard=false"]) else { return };
    let roles = of_kind(&objects, "Role");
    let role = roles.iter().find(|role| role["metadata"]["name"] == "divvy-reserve").unwrap();
    assert_eq!(role["rules"], json!([]));
}

#[test]
fn each_monitor_selects_a_service_with_its_port_and_that_the_pods_that_serve_it() {
    let Some(objects) = objects(&["monitoring.serviceMonitor.enabled=true"]) else { return };
    let monitors = of_kind(&objects, "ServiceMonitor");
    assert_eq!(monitors.len(), 2);
    for monitor in monitors {
        let name = &monitor["metadata"]["name"];
        let selector = &monitor["spec"]["selector"]["matchLabels"];
        let services = of_kind(&objects, "Service").into_iter();
        let services: Vec<&Value> =
            services.filter(|service| selects(selector, &service["metadata"]["labels"])).collect();
        let [service] = services[..] else { panic!("{name} selects {services:?}") };
        assert_eq!(service["metadata"]["namespace"], monitor["metadata"]["namespace"]);
        for endpoint in monitor["spec"]["endpoints"].as_array().unwrap() {
            let mut ports = service["spec"]["ports"].as_array().unwrap().iter();
            let port = ports.find(|port| port["name"] == endpoint["port"]);
            let target = &port.unwrap_or_else(|| panic!("{name}: {endpoint}"))["targetPort"];
            let deployments = of_kind(&objects, "Deployment").into_iter();
            let serves = |deployment: &&Value| {
                let template = &deployment["spec"]["template"];
                let mut ports =
                    template["spec"]["containers"][0]["ports"].as_array().unwrap().iter();
                selects(&service["spec"]["selector"], &template["metadata"]["labels"])
                    && ports.any(|port| port["name"] == *target)
            };
            assert_eq!(deployments.filter(serves).count(), 1, "{name}: {endpoint}");
        }
    }
    // It is read over TLS, by the name that the certificate is for.
    let text = objects.iter().map(Value::to_string).collect::<String>();
    assert!(text.contains(r#""serverName":"divvy-admission.kai-scheduler.svc""#));
}

#[test]
fn each_program_has_two_replicas_on_two_nodes_of_which_one_stays() {
    let Some(objects) = objects(&[]) else { return };
    for name in ["divvy-scheduler", "divvy-admission"] {
        let deployment = deployment(&objects, name);
        assert_eq!(deployment["spec"]["replicas"], 2);
        let template = &deployment["spec"]["template"];
        let apart = &template["spec"]["affinity"]["podAntiAffinity"];
        let apart = &apart["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
        assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
        let labels = &template["metadata"]["labels"];
        assert!(selects(&apart["labelSelector"]["matchLabels"], labels), "{apart}");
        let budgets = of_kind(&objects, "PodDisruptionBudget").into_iter();
        let its = |budget: &&Value| selects(&budget["spec"]["selector"]["matchLabels"], labels);
        let budgets: Vec<&Value> = budgets.filter(its).collect();
        assert_eq!(budgets.len(), 1);
        assert_eq!(budgets[0]["spec"]["minAvailable"], 1);
        assert_eq!(budgets[0]["metadata"]["namespace"], deployment["metadata"]["namespace"]);
    }
    // One that must stay could never be drained.
    let Some(objects) = self::objects(&["scheduler.replicas=1", "admission.replicas=1"]) else {
        return;
    };
    assert!(of_kind(&objects, "PodDisruptionBudget").is_empty());
}

#[test]
fn a_config_map_in_another_namespace_may_be_read_there_and_no_other() {
    let reads = |objects: &[Value]| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let roles = of_kind(objects, "Role").into_iter();
        let rules = roles.flat_map(|role| {
            let namespace = text(&role["metadata"]["namespace"]);
            let rules = role["rules"].as_array().unwrap().iter();
            let maps = rules.filter(|rule| rule["resources"] == json!(["configmaps"]));
            maps.map(move |rule| (namespace.clone(), rule.to_string())).collect::<Vec<_>>()
        });
        rules.collect()
    };
    let rule = |name: &str| {
        json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]})
            .to_string()
    };
    for (value, argument, namespace, name) in [
        ("", "kai-scheduler/kai-scheduler-config", "kai-scheduler", "kai-scheduler-config"),
        ("scheduling.configMap=mine", "kai-scheduler/mine", "kai-scheduler", "mine"),
        ("scheduling.configMap=kai-scheduler/x", "kai-scheduler/x", "kai-scheduler", "x"),
        ("scheduling.configMap=team/x.y", "team/x.y", "team", "x.y"),
    ] {
        let values: Vec<&str> = [value].into_iter().filter(|value| !value.is_empty()).collect();
        let Some(objects) = objects(&values) else { return };
        let scheduler = &deployment(&objects, "divvy-scheduler")["spec"]["template"]["spec"];
        let arguments = scheduler["containers"][0]["args"].as_array().unwrap();
        assert!(arguments.contains(&json!(format!("--config-map={argument}"))), "{arguments:?}");
        assert_eq!(reads(&objects), [(namespace.to_owned(), rule(name))], "{value}");
        let bindings = of_kind(&objects, "RoleBinding").into_iter();
        let is_there = |binding: &&Value| binding["metadata"]["namespace"] == namespace;
        for binding in bindings.filter(is_there) {
            assert_eq!(binding["subjects"][0]["namespace"], "kai-scheduler", "{binding}");
        }
    }
    let Some(objects) = objects(&["scheduling.configMap="]) else { return };
    assert!(reads(&objects).is_empty());
}

#[test]
fn other_scheduler_names_are_told_to_both_programs_and_to_what_guards_their_pods() {
    let Some(made) = made(&["schedulerNames={gpus,kai-scheduler}"]) else { return };
    let made = made.unwrap();
    for container in ["scheduler", "admission"] {
        let arguments = arguments(&made, container);
        let wanted = "--scheduler-names=gpus,kai-scheduler".to_owned();
        assert!(arguments.contains(&wanted), "{container}: {arguments:?}");
    }
    assert!(made.contains("'gpus', 'kai-scheduler'"), "the webhooks ask for their pods");
    assert!(!made.contains("'divvy-scheduler'"), "it is nobody's name");
}

#[test]
fn namespaces_whose_pods_may_see_all_cards_are_those_that_are_named_and_divvys() {
    let Some(objects) = objects(&["gpuSystemNamespaces={gpu-operator,dcgm}"]) else { return };
    let mut kinds = BTreeSet::new();
    for object in &objects {
        let text = object.to_string();
        if text.contains("\"gpu-operator\"") {
            let all = r#"["kube-system","kai-scheduler","kai-resource-reservation","gpu-operator","dcgm"]"#;
            assert!(text.contains(all), "{text}");
            kinds.insert(object["kind"].as_str().unwrap());
        }
    }
    let expected = ["MutatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding"];
    assert!(kinds.iter().eq(&expected), "{kinds:?}");
}

#[test]
fn metrics_are_for_those_that_are_named() {
    let from = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring";
    for (values, expected) in [
        (&["networkPolicy.enabled=true"][..], Value::Null),
        (
            &["networkPolicy.enabled=true", from],
            json!([{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]),
        ),
    ] {
        let Some(objects) = objects(values) else { return };
        let policies = of_kind(&objects, "NetworkPolicy");
        let scheduler =
            policies.iter().find(|policy| policy["metadata"]["name"] == "divvy-scheduler");
        assert_eq!(scheduler.unwrap()["spec"]["ingress"][0]["from"], expected);
    }
}

#[test]
fn the_namespace_of_reservations_can_be_made_by_somebody_else() {
    for (value, count) in [("true", 1), ("false", 0)] {
        let value = format!("reservations.createNamespace={value}");
        let Some(objects) = objects(&[&value]) else { return };
        let namespaces = of_kind(&objects, "Namespace");
        assert_eq!(namespaces.len(), count, "{namespaces:?}");
        let accounts = of_kind(&objects, "ServiceAccount").into_iter();
        let is_its =
            |account: &&Value| account["metadata"]["namespace"] == "kai-resource-reservation";
        assert_eq!(accounts.filter(is_its).count(), 1, "what is in it is made all the same");
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
fn a_runtime_class_of_another_name_is_guarded_as_nvidias_is() {
    const NVIDIAS: &str = "object.spec.?runtimeClassName.orValue('').startsWith('nvidia')";
    for (name, is_named) in [("nvidia", false), ("nvidia-cdi", false), ("gpu", true)] {
        let Some(made) = made(&[&format!("runtimeClass.name={name}")]) else { return };
        let made = made.unwrap();
        let or = format!("{NVIDIAS} || object.spec.?runtimeClassName.orValue('') == '{name}'");
        assert_eq!(made.matches(NVIDIAS).count(), 2, "{name}: webhook and policy");
        assert_eq!(made.matches(&or).count(), if is_named { 2 } else { 0 }, "{name}");
    }
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
fn the_config_map_of_the_device_plugin_may_be_read_where_it_is_named() {
    let Some(made) = made(&["devicePlugin.configMap=gpu-operator/time-slicing-config"]) else {
        return;
    };
    let made = made.unwrap();
    let wanted = "--device-plugin-config-map=gpu-operator/time-slicing-config".to_owned();
    assert!(arguments(&made, "scheduler").contains(&wanted));
    let role =
        made.split("---\n").find(|text| text.contains("resourceNames: [time-slicing-config]"));
    assert!(role.unwrap().contains("namespace: gpu-operator\n"), "{role:?}");
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
        "devicePlugin.configMap=gpu-operator/configs",
        "reservations.writeCard=false",
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

/// What divvy exports, by name: the labels, and what docs/operations.md says. Tests beside the code hold
/// the page and that together.
fn exported() -> BTreeMap<String, (BTreeSet<String>, String)> {
    let page = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let mut all = BTreeMap::new();
    for row in page.lines().filter(|row| row.starts_with("| `divvy_")) {
        let (names, rest) = row[2..].split_once(" | ").unwrap();
        for name in names.split(", `").map(|name| name.trim_matches('`')) {
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let mut labels: BTreeSet<_> =
                labels.trim_end_matches('}').split(',').map(str::to_owned).collect();
            let mut name = name.to_owned();
            if rest.starts_with("histogram") {
                name += "_bucket";
                labels.insert("le".to_owned());
            }
            all.insert(name, (labels, rest.to_owned()));
        }
    }
    all
}

/// The expressions of the rules and of the dashboard, each with what is shown of its series.
fn expressions() -> Vec<(String, String)> {
    let read = |file: &str| std::fs::read_to_string(chart().join("monitoring").join(file)).unwrap();
    let rules = divvy_words::untyped(&read("rules.yaml")).unwrap().remove(0);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rules = rules["groups"][0]["rules"].as_array().unwrap().iter();
    let rules = rules.map(|rule| (text(&rule["expr"]), rule["annotations"].to_string()));
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let targets = targets.map(|target| (text(&target["expr"]), text(&target["legendFormat"])));
    rules.chain(targets).collect()
}

/// What is between two texts, each time.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| Some(rest.split_once(after)?.0)).collect()
}

#[test]
fn every_metric_and_label_of_the_rules_and_the_dashboard_is_one_that_divvy_exports() {
    // What Prometheus adds.
    const ADDED: [&str; 3] = ["job", "instance", "pod"];
    let exported = exported();
    let mut used = BTreeSet::new();
    let all = expressions();
    assert!(all.len() > 40, "{all:?}");
    for (expression, shown) in &all {
        let mut known: BTreeSet<&str> = ADDED.into();
        for rest in expression.split("divvy_").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
            let name = format!("divvy_{name}");
            let Some((labels, row)) = exported.get(&name) else {
                panic!("{name} is not exported: {expression}")
            };
            known.extend(labels.iter().map(String::as_str));
            let selector = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let selector = selector.map_or("", |(selector, _)| selector);
            for matcher in selector.split(',').map(str::trim).filter(|matcher| !matcher.is_empty())
            {
                let (label, value) = matcher.split_once('=').unwrap();
                let is_label = ADDED.contains(&label) || labels.contains(label);
                assert!(is_label, "{name} has no label {label}: {expression}");
                let values = value.trim_start_matches('~').trim_matches('"').split('|');
                for value in values.filter(|value| !value.starts_with('$')) {
                    assert!(row.contains(&format!("`{value}`")), "{name}: {label}={value}");
                }
            }
            used.insert(name);
        }
        if expression.contains("DCGM_") {
            known.extend(["model", "Hostname", "gpu"]);
        }
        let grouped = between(expression, "by (", ")").join(",");
        let grouped: BTreeSet<&str> = grouped.split(',').map(str::trim).collect();
        for label in grouped.iter().filter(|label| !label.is_empty()) {
            assert!(known.contains(label), "nothing has a label {label}: {expression}");
        }
        let labels = between(shown, "$labels.", " ").into_iter();
        let labels = labels.map(|label| label.trim_end_matches('}'));
        let legend = between(shown, "{{", "}}").into_iter().filter(|word| !word.contains('$'));
        for label in labels.chain(legend) {
            assert!(grouped.contains(label), "{label} is not left: {expression}");
        }
    }
    // What somebody should look at is looked at.
    for name in [
        "divvy_queue_gpus",
        "divvy_queue_pods",
        "divvy_unguarded_cards",
        "divvy_oldest_pending_created_timestamp_seconds",
        "divvy_resource_slices",
        "divvy_model_memory_bytes",
        "divvy_node_memory_bytes",
    ] {
        assert!(used.contains(name), "{name} is on no panel");
    }
}

#[test]
fn a_panel_that_needs_more_than_divvy_says_so() {
    let dashboard = std::fs::read(chart().join("monitoring/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let needy: Vec<_> =
        panels.filter(|panel| panel["targets"].to_string().contains("DCGM_")).collect();
    assert_eq!(needy.len(), 2);
    for panel in needy {
        let said = panel["description"].as_str().unwrap();
        assert!(said.contains("DCGM") && said.contains("without it"), "{said}");
    }
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
