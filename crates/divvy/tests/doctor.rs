//! `divvy doctor` on a real API server with all of `deploy/`: one thing after the other is broken,
//! found, and mended, by the command that was printed where that is one.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "common/output.rs"]
mod output;
#[path = "common/program.rs"]
mod program;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_testbed::api::Api;
use divvy_testbed::manifests::{GpuNode, foreign_kind, pod};
use divvy_testbed::node::{Card, Inventory};
use divvy_testbed::{ControlPlane, Programs};
use http::Method;
use output::{code, stderr, stdout};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DIVVY: &str = "/apis/apps/v1/namespaces/divvy-system/deployments/divvy";
const NODES: &str = "/api/v1/nodes";
const OPERATOR: &str = "gpu-operator";
const POLICY: &str = "/apis/nvidia.com/v1/clusterpolicies/policy";
const RESERVATIONS: &str = "kai-resource-reservation";
const SECRET: &str = "/api/v1/namespaces/divvy-system/secrets/divvy-admission-tls";

/// Long enough for a busy machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(180);

struct Cluster {
    plane: ControlPlane,
    api: Api,
    /// Who may write to reservations.
    scheduler: Option<Api>,
    /// Helm, where a test needs it.
    helm: Option<PathBuf>,
}

/// Something that is written to the cluster.
enum Write {
    Create(Value),
    /// By divvy's scheduler.
    Reserve(Value),
    Patch(String, Value),
    /// As `kubectl patch` does: lists by their keys.
    Merge(String, Value),
    Delete(String),
    /// By a line of the shell.
    Shell(&'static str),
}
use Write::{Create, Delete, Merge, Patch, Reserve, Shell};

/// How it is mended.
enum Mend {
    /// By the fix, as it is printed.
    Fix,
    /// By what the fix has others do.
    By(Vec<Write>),
}
use Mend::{By, Fix};

impl Cluster {
    async fn start(name: &str) -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let programs = Programs::build(&mut |_| {});
        match programs.and_then(|programs| ControlPlane::start(&programs, &folder)) {
            Ok(plane) => {
                let api = Api::connect(&plane).await.unwrap();
                Some(Self { plane, api, scheduler: None, helm: None })
            }
            Err(why) => {
                // Not by println, which the test runner hides.
                let _ = writeln!(std::io::stdout(), "skipped: {why}");
                None
            }
        }
    }

    fn doctor(&self, kubeconfig: &Path, args: &[&str]) -> Output {
        let mut command = program::divvy();
        command.env_remove("HTTPS_PROXY").env_remove("https_proxy").env("KUBECONFIG", kubeconfig);
        command.arg("doctor").args(args).output().unwrap()
    }

    /// What is found: names and fixes. The text says it too, and the exit code.
    fn found(&self) -> Vec<(String, String)> {
        let output = self.doctor(&self.plane.kubeconfig(), &["-o", "json"]);
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|e| {
            panic!("{e}: {} {}", stdout(&output), stderr(&output));
        });
        assert_eq!(report["notLookedAt"], json!([]), "an administrator may look at all");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let of = |finding: &Value| (text(&finding["name"]), text(&finding["fix"]));
        let found: Vec<_> = report["findings"].as_array().unwrap().iter().map(of).collect();
        assert_eq!(code(&output), if found.is_empty() { 0 } else { 2 }, "{report}");
        found
    }

    fn names(&self) -> Vec<String> {
        self.found().into_iter().map(|(name, _)| name).collect()
    }

    /// Runs a line of the shell as an administrator does, in the folder of the project.
    fn shell(&self, line: &str) {
        let kubectl = PathBuf::from(self.plane.kubectl().get_program());
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let beside = kubectl.parent().unwrap().to_owned();
        let helm = self.helm.as_ref().and_then(|helm| Some(helm.parent()?.to_owned()));
        let paths = std::iter::once(beside).chain(helm).chain(std::env::split_paths(&paths));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(root)
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("KUBECONFIG", self.plane.kubeconfig())
            // Nothing of the machine's own.
            .env("HELM_CACHE_HOME", self.plane.folder().join("helm/cache"))
            .env("HELM_CONFIG_HOME", self.plane.folder().join("helm/config"))
            .env("HELM_DATA_HOME", self.plane.folder().join("helm/data"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {}", stderr(&output));
    }

    async fn write(&self, write: &Write) {
        let written = match write {
            Create(object) => self.api.create(object).await,
            Reserve(object) => self.scheduler.as_ref().unwrap().create(object).await,
            // Of a reservation as its kubelet would.
            Patch(path, patch) if path.contains("/kai-resource-reservation/pods/") => {
                self.scheduler.as_ref().unwrap().patch(path, patch).await
            }
            Patch(path, patch) => self.api.patch(path, patch).await,
            Merge(path, patch) => {
                let kind = "application/strategic-merge-patch+json";
                self.api.send(Method::PATCH, path, kind, Some(patch)).await
            }
            Delete(path) => self.api.delete(path).await,
            Shell(line) => {
                self.shell(line);
                return;
            }
        };
        if let Err(why) = written {
            panic!("{why}");
        }
    }

    /// Waits until somebody may read what is at a path: the API server hears of kinds and roles a
    /// little later.
    async fn until(api: &Api, path: &str) {
        let start = Instant::now();
        while let Err(why) = api.get(path).await {
            assert!(start.elapsed() < PATIENCE, "{path}: {why}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the webhooks' server writes, with a certificate of its own that is valid until this year.
    fn trust(year: i32) -> Vec<Write> {
        let text = certificate(year);
        let mut writes =
            vec![Patch(SECRET.to_owned(), json!({"data": {"ca.crt": text, "tls.crt": text}}))];
        writes.extend(Self::bundles(&text));
        writes
    }

    /// Puts a bundle into all webhooks.
    fn bundles(text: &str) -> Vec<Write> {
        let file = include_str!("../../../deploy/webhooks.yaml");
        let documents = divvy_words::untyped(file).unwrap();
        let patch = |mut document: Value| {
            let plural = document["kind"].as_str().unwrap().to_lowercase() + "s";
            for webhook in document["webhooks"].as_array_mut().unwrap() {
                webhook["clientConfig"]["caBundle"] = json!(text);
            }
            let path = format!("{ADMISSION}/{plural}/divvy");
            Patch(path, json!({"webhooks": document["webhooks"]}))
        };
        documents.into_iter().map(patch).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_thing_that_breaks_is_found_alone_and_is_mended_as_it_says() {
    let Some(mut cluster) = Cluster::start("doctor").await else { return };
    let found = cluster.found();
    assert!(matches!(&*found, [(name, _)] if name == "not-installed"), "{found:?}");
    cluster.shell(&found[0].1);
    let kubeconfig = cluster.plane.kubeconfig_as("divvy-system", "divvy-scheduler").unwrap();
    let scheduler = Api::from_kubeconfig(&kubeconfig).await.unwrap();
    Cluster::until(&scheduler, "/api/v1/pods").await;
    cluster.scheduler = Some(scheduler);
    let mut found = cluster.names();
    found.sort();
    // Of what a bare API server lacks: nobody runs pods, and nobody has a GPU.
    let bare =
        ["no-runtime-class", "not-running", "not-running", "webhook-ca", "webhook-unreachable"];
    assert_eq!(found, bare);
    cluster.fill().await;
    let output = cluster.doctor(&cluster.plane.kubeconfig(), &[]);
    assert!(
        stdout(&output).starts_with("nothing is wrong: looked at 3 nodes"),
        "{}",
        stdout(&output)
    );
    assert_eq!(code(&output), 0);
    for (name, broken, mend) in divvys().into_iter().chain(nodes()).chain(reservations()) {
        for write in &broken {
            cluster.write(write).await;
        }
        // What was broken before is found no more.
        let found = cluster.found();
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, [name]);
        match mend {
            Fix => cluster.shell(&found[0].1),
            By(writes) => {
                for write in &writes {
                    cluster.write(write).await;
                }
            }
        }
    }
    assert_eq!(cluster.names(), [""; 0]);
    what_may_not_be_listed_is_said(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_release_of_helm_only_what_is_true_is_found_and_is_mended_where_it_is() {
    const RELEASE: &str = "helm upgrade shares charts/divvy -n gpus --reuse-values";
    let Some(mut cluster) = Cluster::start("doctor-helm").await else { return };
    let helm = divvy_testbed::chart::helm(&mut |_| {}).unwrap();
    cluster.helm = Some(PathBuf::from(helm.get_program()));
    cluster.shell(
        "helm install shares charts/divvy -n gpus --create-namespace --set gpuSharing.enabled=true \
         --set 'schedulerNames={divvy-scheduler,mine}' --set runtimeClass.create=true \
         --set 'gpuSystemNamespaces={nvidia,monitoring,gpu-operator}'",
    );
    let mut found = cluster.names();
    found.sort();
    assert_eq!(found, ["not-running", "not-running", "webhook-ca", "webhook-unreachable"]);
    cluster.serve_in_gpus().await;
    assert_eq!(cluster.found(), []);
    // A value that is wrong.
    cluster.shell(&format!("{RELEASE} --set gpuSharing.enabled=false"));
    let found = cluster.found();
    let fix = format!("{RELEASE} --set gpuSharing.enabled=true");
    assert_eq!(found, [("sharing-disabled".to_owned(), fix)]);
    cluster.shell(&found[0].1);
    assert_eq!(cluster.found(), []);
    // What somebody has taken away or changed by hand.
    for (name, broken) in [
        (
            "policy-missing",
            Delete(format!("{ADMISSION}/validatingadmissionpolicybindings/divvy-hand-off")),
        ),
        (
            "webhook-changed",
            Merge(
                format!("{ADMISSION}/validatingwebhookconfigurations/divvy"),
                json!({"webhooks": [{"name": "validate.divvy.dev", "failurePolicy": "Ignore"}]}),
            ),
        ),
    ] {
        cluster.write(&broken).await;
        let found = cluster.found();
        assert!(
            matches!(&*found, [(one, fix)] if one == name && fix.starts_with(RELEASE)),
            "{found:?}"
        );
        cluster.shell(&found[0].1);
        assert_eq!(cluster.found(), [], "after {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_helm_in_another_namespace_what_breaks_is_mended_by_what_is_printed() {
    let Some(mut cluster) = Cluster::start("doctor-elsewhere").await else { return };
    let helm = divvy_testbed::chart::helm(&mut |_| {}).unwrap();
    cluster.helm = Some(PathBuf::from(helm.get_program()));
    cluster.shell(
        "helm template divvy charts/divvy -n gpus --no-hooks --set namespace.create=true --set gpuSharing.enabled=true \
         --set 'schedulerNames={divvy-scheduler,mine}' --set runtimeClass.create=true --set runtimeClass.name=gpu \
         --set 'gpuSystemNamespaces={nvidia,monitoring}' --set image.repository=r.example:5000/divvy | kubectl apply -f -",
    );
    cluster.serve_in_gpus().await;
    assert_eq!(cluster.found(), []);
    let policy = |name: &str| format!("{ADMISSION}/validatingadmissionpolicies/{name}");
    let binding = |name: &str| format!("{ADMISSION}/validatingadmissionpolicybindings/{name}");
    let deployment =
        |which: &str| format!("/apis/apps/v1/namespaces/gpus/deployments/divvy-{which}");
    let of = |which: &str, field: &str, value: &Value| {
        let spec = json!({"template": {"spec": {"containers": [{"name": which, field: value}]}}});
        Merge(deployment(which), json!({ "spec": spec }))
    };
    let args = cluster.api.get(&deployment("admission")).await.unwrap();
    let args = &args["spec"]["template"]["spec"]["containers"][0]["args"];
    let gated = |gate: &[&str]| {
        let all: Vec<Value> =
            args.as_array().unwrap().iter().cloned().chain(gate.iter().map(|g| json!(g))).collect();
        of("admission", "args", &json!(all))
    };
    let webhooks = |kind: &str| format!("{ADMISSION}/{kind}webhookconfigurations/divvy");
    let broken = [
        ("policy-missing", Delete(binding("divvy-hand-off"))),
        ("policy-missing", Delete(binding("divvy-visible-devices"))),
        ("policy-missing", Delete(policy("divvy-deletions"))),
        (
            "policy-changed",
            Patch(policy("divvy-visible-devices"), json!({"spec": {"failurePolicy": "Ignore"}})),
        ),
        ("webhook-missing", Delete(webhooks("validating"))),
        ("webhook-missing", Delete(webhooks("mutating"))),
        (
            "webhook-changed",
            Merge(
                webhooks("mutating"),
                json!({"webhooks": [{"name": "mutate.divvy.dev", "failurePolicy": "Ignore"}]}),
            ),
        ),
        ("version-skew", of("admission", "image", &json!("r.example:5000/divvy:0.0.9"))),
        ("version-skew", of("scheduler", "image", &json!("r.example:5000/divvy:0.0.9"))),
        ("gates-differ", gated(&[GATE])),
        ("gates-differ", gated(&["--feature-gates", "GPUIsolationLevel=true"])),
        (
            "sharing-disabled",
            of("admission", "args", &json!(["admission", "--gpu-sharing", "false"])),
        ),
        (
            "no-priority-class",
            Delete("/apis/scheduling.k8s.io/v1/priorityclasses/divvy-reservation".to_owned()),
        ),
        ("no-runtime-class", Delete("/apis/node.k8s.io/v1/runtimeclasses/gpu".to_owned())),
        ("no-admission", Delete(deployment("admission"))),
        ("not-installed", Delete(deployment("scheduler"))),
    ];
    for (name, write) in broken {
        cluster.write(&write).await;
        let found = cluster.found();
        let (_, fix) = found
            .iter()
            .find(|(found, _)| found == name)
            .unwrap_or_else(|| panic!("{name}: {found:?}"));
        cluster.shell(fix);
        // What its controllers and the webhooks' server do about it.
        cluster.serve_in_gpus().await;
        assert_eq!(cluster.found(), [], "after {name}: {fix}");
    }
}

impl Cluster {
    /// What controllers and the webhooks' server write in the namespace `gpus`.
    async fn serve_in_gpus(&self) {
        let ready = json!({"status": {"replicas": 2, "readyReplicas": 2}});
        let deployments = "/apis/apps/v1/namespaces/gpus/deployments/divvy";
        let secret = SECRET.replace("divvy-system", "gpus");
        let text = match self.api.get(&secret).await {
            Ok(there) if there["data"]["ca.crt"].is_string() => {
                there["data"]["ca.crt"].as_str().unwrap().to_owned()
            }
            _ => certificate(2100),
        };
        let mut endpoints = endpoints(true);
        endpoints["metadata"]["namespace"] = json!("gpus");
        let slices = "/apis/discovery.k8s.io/v1/namespaces/gpus/endpointslices/admission";
        let mut writes = vec![
            Patch(format!("{deployments}-scheduler/status"), ready.clone()),
            Patch(format!("{deployments}-admission/status"), ready),
            Patch(secret, json!({"data": {"ca.crt": text, "tls.crt": text}})),
        ];
        if self.api.get(slices).await.is_err() {
            writes.push(Create(endpoints));
        }
        for kind in ["mutating", "validating"] {
            let path = format!("{ADMISSION}/{kind}webhookconfigurations/divvy");
            let there = self.api.get(&path).await.unwrap();
            let bundle = |webhook: &Value| json!({"name": webhook["name"], "clientConfig": {"caBundle": text}});
            let webhooks: Vec<Value> =
                there["webhooks"].as_array().unwrap().iter().map(bundle).collect();
            writes.push(Merge(path, json!({ "webhooks": webhooks })));
        }
        for write in &writes {
            self.write(write).await;
        }
    }

    /// What kubelets, controllers and the webhooks' server would write, and nodes with GPUs.
    async fn fill(&self) {
        let (_, fix) =
            self.found().into_iter().find(|(name, _)| name == "no-runtime-class").unwrap();
        self.shell(&fix);
        let mut crd = foreign_kind("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies");
        crd["spec"]["scope"] = json!("Cluster");
        self.write(&Create(crd)).await;
        Self::until(&self.api, "/apis/nvidia.com/v1/clusterpolicies").await;
        let ready = json!({"status": {"replicas": 2, "readyReplicas": 2}});
        let sliced = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n";
        let mig = "version: v1\nmig-configs:\n  all-1g: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n  \
                   wrong: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 8}}]\n";
        let mut writes = vec![
            Patch(format!("{DIVVY}-scheduler/status"), ready.clone()),
            Patch(format!("{DIVVY}-admission/status"), ready),
            Create(endpoints(true)),
            Create(namespace(OPERATOR)),
            Create(namespace("ml")),
            Create(map("slices", &json!({"plain": "version: v1\n", "sliced": sliced}))),
            Create(map("mig", &json!({"config.yaml": mig}))),
            Create(set("plugin", "k8s-device-plugin", "slices")),
            Create(set("mig", "k8s-mig-manager", "mig")),
            Create(
                json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "policy"},
                "spec": {"devicePlugin": {"config": {"name": "slices", "default": "plain"}}}}),
            ),
            Create(json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
                "metadata": {"name": "gpu.nvidia.com"}, "spec": {}})),
            Create(resource_slice()),
        ];
        for (name, labels, resource, amount) in [
            ("plain", json!({}), "nvidia.com/gpu", "8"),
            (
                "sliced",
                json!({"nvidia.com/device-plugin.config": "sliced"}),
                "nvidia.com/gpu",
                "32",
            ),
            (
                "mig",
                json!({"nvidia.com/mig.config": "all-1g", "nvidia.com/mig.config.state": "success",
                "nvidia.com/mig.strategy": "mixed"}),
                "nvidia.com/mig-1g.5gb",
                "56",
            ),
        ] {
            let mut node =
                GpuNode { model: "NVIDIA-A100-PCIE-40GB", cards: 8, mib: 40_960, ..GpuNode::T4 }
                    .node(name);
            node["metadata"]["labels"]
                .as_object_mut()
                .unwrap()
                .extend(labels.as_object().unwrap().clone());
            for list in ["capacity", "allocatable"] {
                let amounts = node["status"][list].as_object_mut().unwrap();
                amounts.remove("nvidia.com/gpu");
                amounts.insert(resource.to_owned(), json!(amount));
            }
            writes.push(Create(node));
        }
        writes.extend(Self::trust(2100));
        for write in &writes {
            self.write(write).await;
        }
    }
}

/// One that is valid until this year, as a Secret has it.
fn certificate(year: i32) -> String {
    let mut params = CertificateParams::new(["x".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 2, 1);
    let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    BASE64_STANDARD.encode(pem)
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": OPERATOR, "name": name}, "data": data})
}

fn set(name: &str, image: &str, map: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": OPERATOR, "name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {
                "containers": [{"name": "c", "image": format!("nvcr.io/nvidia/{image}:v1")}],
                "volumes": [{"name": "v", "configMap": {"name": map}}],
            },
        }},
    })
}

fn endpoints(ready: bool) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"namespace": "divvy-system", "name": "admission",
            "labels": {"kubernetes.io/service-name": "divvy-admission"}},
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
    })
}

fn resource_slice() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "slice"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "plain", "devices": [{"name": "gpu-0"}],
            "pool": {"name": "plain", "generation": 1, "resourceSliceCount": 1}},
    })
}

type Step = (&'static str, Vec<Write>, Mend);

/// Other arguments or another image of a Deployment of divvy.
fn container(which: &str, field: &str, value: &Value) -> Write {
    let container = json!({"name": which, field: value});
    let spec = json!({"template": {"spec": {"containers": [container]}}});
    Merge(format!("{DIVVY}-{which}"), json!({ "spec": spec }))
}

fn args(which: &str, args: &[&str]) -> Write {
    let all: Vec<&str> = [which].iter().chain(args).copied().collect();
    container(which, "args", &json!(all))
}

const LEASE: &str = "--lease-namespace=divvy-system";
const GATE: &str = "--feature-gates=GPUIsolationLevel=true";

fn divvys() -> Vec<Step> {
    let policy = |name: &str| format!("{ADMISSION}/validatingadmissionpolicies/{name}");
    let binding = format!("{ADMISSION}/validatingadmissionpolicybindings/divvy-hand-off");
    let slice = "/apis/discovery.k8s.io/v1/namespaces/divvy-system/endpointslices/admission";
    let webhooks = format!("{ADMISSION}/validatingwebhookconfigurations/divvy");
    let mut other = divvy_words::untyped(include_str!("../../../deploy/scheduler.yaml")).unwrap();
    let mut other = other.pop().unwrap();
    assert_eq!(other["kind"], "Deployment");
    other["metadata"]["name"] = json!("divvy-scheduler-2");
    other["spec"]["template"]["spec"]["containers"][0]["args"] =
        json!(["scheduler", "--gpu-sharing", "--lease-name=another"]);
    let ready = json!({"status": {"replicas": 2, "readyReplicas": 2}});
    let none = json!({"status": {"replicas": 0, "readyReplicas": 0}});
    vec![
        ("sharing-disabled", vec![args("scheduler", &[LEASE])], Fix),
        ("sharing-disabled", vec![args("scheduler", &[LEASE, "--gpu-sharing=false"])], Fix),
        ("sharing-disabled", vec![args("admission", &[])], Fix),
        ("no-admission", vec![Delete(format!("{DIVVY}-admission"))], Fix),
        (
            "not-running",
            vec![],
            By(vec![Patch(format!("{DIVVY}-admission/status"), ready.clone())]),
        ),
        (
            "not-running",
            vec![Patch(format!("{DIVVY}-scheduler"), json!({"spec": {"replicas": 0}}))],
            Fix,
        ),
        (
            "several-schedulers",
            vec![args("scheduler", &["--gpu-sharing", LEASE, "--leader-elect=false"])],
            By(vec![args("scheduler", &["--gpu-sharing", LEASE])]),
        ),
        (
            "several-schedulers",
            vec![Create(other), Patch(format!("{DIVVY}-scheduler-2/status"), ready.clone())],
            Fix,
        ),
        ("version-skew", vec![container("admission", "image", &json!("divvy:9"))], Fix),
        ("gates-differ", vec![args("admission", &["--gpu-sharing", GATE])], Fix),
        (
            "not-running",
            vec![Patch(format!("{DIVVY}-scheduler/status"), none)],
            By(vec![Patch(format!("{DIVVY}-scheduler/status"), ready)]),
        ),
        (
            "webhook-unreachable",
            vec![Delete(slice.to_owned()), Create(endpoints(false))],
            By(vec![Delete(slice.to_owned()), Create(endpoints(true))]),
        ),
        ("webhook-missing", vec![Delete(webhooks.clone())], Fix),
        // It has no bundle yet.
        ("webhook-ca", vec![], By(Cluster::trust(2100))),
        (
            "webhook-changed",
            vec![Merge(
                webhooks,
                json!({"webhooks": [{"name": "validate.divvy.dev", "failurePolicy": "Ignore"}]}),
            )],
            Fix,
        ),
        ("webhook-ca", Cluster::bundles(""), By(Cluster::trust(2100))),
        // Of another CA than that of the Secret.
        ("webhook-ca", Cluster::trust(2101).split_off(1), By(Cluster::trust(2100))),
        (
            "webhook-certificate",
            vec![Patch(SECRET.to_owned(), json!({"data": {"tls.crt": certificate(2020)}}))],
            By(Cluster::trust(2100)),
        ),
        ("policy-missing", vec![Delete(binding)], Fix),
        (
            "policy-changed",
            vec![Patch(policy("divvy-hand-off"), json!({"spec": {"failurePolicy": "Ignore"}}))],
            Fix,
        ),
        (
            "another-scheduler",
            vec![Create(second_scheduler())],
            By(vec![Delete("/api/v1/namespaces/kube-system/configmaps/my-scheduler".to_owned())]),
        ),
        (
            "kai-beside",
            vec![
                Create(namespace("kai-scheduler")),
                Create(labelled(pod("kai-scheduler", "kai", "x"), "app", "kai-scheduler-default")),
            ],
            By(vec![Delete("/api/v1/namespaces/kai-scheduler/pods/kai".to_owned())]),
        ),
        (
            "koordinator-beside",
            vec![
                Create(namespace("koordinator-system")),
                Create(labelled(
                    pod("koordinator-system", "k", "x"),
                    "koord-app",
                    "koord-scheduler",
                )),
            ],
            By(vec![Delete("/api/v1/namespaces/koordinator-system/pods/k".to_owned())]),
        ),
    ]
}

/// The config of a second scheduler, as Kubernetes' documentation has one.
fn second_scheduler() -> Value {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                  profiles: [{schedulerName: divvy-scheduler}]\n";
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"my-scheduler-config.yaml": config},
        "metadata": {"namespace": "kube-system", "name": "my-scheduler"}})
}

fn labelled(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["labels"] = json!({ key: value });
    object["spec"]["serviceAccountName"] = json!("default");
    object
}

fn nodes() -> Vec<Step> {
    let label = |node: &str, key: &str, value: Value| {
        Patch(format!("{NODES}/{node}"), json!({"metadata": {"labels": {key: value}}}))
    };
    let amounts = |node: &str, lists: &[&str], amounts: &Value| {
        let status: serde_json::Map<String, Value> =
            lists.iter().map(|list| ((*list).to_owned(), amounts.clone())).collect();
        Patch(format!("{NODES}/{node}/status"), json!({ "status": status }))
    };
    let both = ["capacity", "allocatable"];
    let (config, state) = ("nvidia.com/mig.config", "nvidia.com/mig.config.state");
    let slices = format!("/api/v1/namespaces/{OPERATOR}/configmaps/slices");
    let policy = POLICY.to_owned();
    let plugin = format!("/apis/apps/v1/namespaces/{OPERATOR}/daemonsets/plugin");
    let default_of_policy = || {
        let config = json!({"config": {"default": "plain"}});
        Patch(POLICY.to_owned(), json!({"spec": {"devicePlugin": config}}))
    };
    let taints =
        |taints: Value| Patch(format!("{NODES}/plain"), json!({"spec": {"taints": taints}}));
    let of_slice = "/apis/resource.k8s.io/v1/resourceslices/slice".to_owned();
    vec![
        ("no-gpu-memory", vec![label("plain", "nvidia.com/gpu.memory", Value::Null)], Fix),
        (
            "devices-unhealthy",
            vec![amounts("plain", &["allocatable"], &json!({"nvidia.com/gpu": "7"}))],
            By(vec![amounts("plain", &["allocatable"], &json!({"nvidia.com/gpu": "8"}))]),
        ),
        (
            "unsettled",
            vec![taints(json!([{"key": "divvy.dev/unsettled", "effect": "NoSchedule"}]))],
            By(vec![taints(Value::Null)]),
        ),
        (
            "label-without-provider",
            vec![label("plain", "koordinator.sh/gpu-isolation-provider", json!("HAMi-core"))],
            Fix,
        ),
        (
            "no-plugin-config",
            vec![Patch(
                policy.clone(),
                json!({"spec": {"devicePlugin": {"config": {"name": "none"}}}}),
            )],
            By(vec![Patch(
                policy.clone(),
                json!({"spec": {"devicePlugin": {"config": {"name": "slices"}}}}),
            )]),
        ),
        (
            "no-default-config",
            vec![Patch(
                policy.clone(),
                json!({"spec": {"devicePlugin": {"config": {"default": null}}}}),
            )],
            By(vec![default_of_policy()]),
        ),
        (
            "unused-plugin-config",
            vec![
                Patch(policy, json!({"spec": {"devicePlugin": {"config": null}}})),
                Patch(plugin, json!({"spec": {"template": {"spec": {"volumes": null}}}})),
            ],
            Fix,
        ),
        // The plugin is given it, and has not read it yet where no label says another.
        ("slices-not-there", vec![], By(vec![default_of_policy()])),
        (
            "unknown-plugin-config",
            vec![label("sliced", "nvidia.com/device-plugin.config", json!("slice"))],
            Fix,
        ),
        (
            "wrong-plugin-config",
            vec![Patch(slices.clone(), json!({"data": {"plain": "version: v9\n"}}))],
            By(vec![Patch(slices, json!({"data": {"plain": "version: v1\n"}}))]),
        ),
        (
            "slices-not-there",
            vec![
                label("sliced", "nvidia.com/device-plugin.config", json!("sliced")),
                amounts("sliced", &both, &json!({"nvidia.com/gpu": "8"})),
            ],
            By(vec![amounts("sliced", &both, &json!({"nvidia.com/gpu": "32"}))]),
        ),
        ("mig-failed", vec![label("mig", state, json!("failed"))], By(vec![])),
        (
            "mig-pending",
            vec![label("mig", state, json!("pending"))],
            By(vec![label("mig", state, json!("success"))]),
        ),
        ("unknown-mig-config", vec![label("mig", config, json!("all-2g"))], Fix),
        (
            "mig-illegal",
            vec![label("mig", config, json!("wrong"))],
            By(vec![label("mig", config, json!("all-1g"))]),
        ),
        (
            "mig-off",
            vec![amounts("mig", &both, &json!({"nvidia.com/mig-1g.5gb": null}))],
            By(vec![amounts("mig", &both, &json!({"nvidia.com/mig-1g.5gb": "56"}))]),
        ),
        ("driver-without-slices", vec![Delete(of_slice)], By(vec![Create(resource_slice())])),
    ]
}

fn reservations() -> Vec<Step> {
    let of = format!("/api/v1/namespaces/{RESERVATIONS}/pods/r");
    let mut reservation = pod(RESERVATIONS, "r", "x");
    reservation["spec"]["nodeName"] = json!("plain");
    reservation["spec"]["serviceAccountName"] = json!("divvy-reserve");
    reservation["spec"]["automountServiceAccountToken"] = json!(false);
    let status = |status: Value| Patch(format!("{of}/status"), json!({ "status": status }));
    let waits = json!({"name": "main", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not there"}}});
    let share = "/api/v1/namespaces/ml/pods/share/status".to_owned();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": RESERVATIONS, "name": "few"}, "spec": {"hard": {"pods": "1"}}});
    let used = json!({"status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}});
    let of_quota = format!("/api/v1/namespaces/{RESERVATIONS}/resourcequotas/few/status");
    let condition = |kind: &str| {
        let condition =
            json!({"type": format!("divvy.dev/{kind}"), "status": "True", "message": "m"});
        Patch(share.clone(), json!({"status": {"conditions": [condition]}}))
    };
    let well = || Patch(share.clone(), json!({"status": {"conditions": []}}));
    let mut bound = labelled(pod("ml", "share", "divvy-scheduler"), "a", "b");
    bound["spec"]["nodeName"] = json!("plain");
    let class = "/apis/scheduling.k8s.io/v1/priorityclasses/divvy-reservation".to_owned();
    let runtime = "/apis/node.k8s.io/v1/runtimeclasses/nvidia".to_owned();
    vec![
        (
            "no-reservation-namespace",
            // Nobody runs the controller that empties it.
            vec![Shell(
                "kubectl delete namespace kai-resource-reservation --wait=false && \
                 echo '{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"kai-resource-reservation\"}}' | \
                 kubectl replace --raw /api/v1/namespaces/kai-resource-reservation/finalize -f -",
            )],
            Fix,
        ),
        ("no-priority-class", vec![Delete(class)], Fix),
        ("no-runtime-class", vec![Delete(runtime)], Fix),
        (
            "reservation-image",
            vec![
                Reserve(reservation),
                status(json!({"phase": "Pending", "containerStatuses": [waits]})),
            ],
            By(vec![]),
        ),
        (
            "reservation-room",
            vec![status(
                json!({"phase": "Failed", "reason": "OutOfpods", "containerStatuses": null}),
            )],
            By(vec![]),
        ),
        (
            "reservation-failing",
            vec![status(json!({"reason": "UnexpectedAdmissionError"}))],
            By(vec![Delete(of)]),
        ),
        ("reservation-quota", vec![Create(quota), Patch(of_quota, used)], Fix),
        ("card-conflict", vec![Create(bound), condition("CardConflict")], By(vec![])),
        ("card-missing", vec![condition("CardMissing")], By(vec![])),
        ("card-mixed", vec![condition("CardMixed")], By(vec![])),
        ("provider-missing", vec![condition("ProviderMissing")], By(vec![well()])),
    ]
}

async fn what_may_not_be_listed_is_said(cluster: &Cluster) {
    cluster.shell("kubectl create serviceaccount looker");
    let kubeconfig = cluster.plane.kubeconfig_as("default", "looker").unwrap();
    let output = cluster.doctor(&kubeconfig, &[]);
    assert_eq!(code(&output), 1, "{}", stdout(&output));
    assert!(stdout(&output).starts_with("nothing could be looked at\n"), "{}", stdout(&output));
    cluster.shell(
        "kubectl create clusterrole looker --verb=list --resource=nodes,pods && \
         kubectl create clusterrolebinding looker --clusterrole=looker --serviceaccount=default:looker",
    );
    let looker = Api::from_kubeconfig(&kubeconfig).await.unwrap();
    for path in [NODES, "/api/v1/pods"] {
        Cluster::until(&looker, path).await;
    }
    let output = cluster.doctor(&kubeconfig, &[]);
    let text = stdout(&output);
    assert_eq!(code(&output), 0, "{text}");
    assert!(text.starts_with("nothing is wrong: looked at 3 nodes"), "{text}");
    assert!(text.contains(" deployments.apps, daemonsets.apps, "), "{text}");
    assert!(text.ends_with(": forbidden\n"), "{text}");
    let dead = cluster.plane.kubeconfig_through("dead", "https://127.0.0.1:1").unwrap();
    let output = cluster.doctor(&dead, &[]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("cannot reach the API server"), "{}", stderr(&output));
}

/// A node as files, and the mock in the place of the driver's library.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor-node");
        let _ = std::fs::remove_dir_all(&folder);
        let machine = Self { folder };
        let library = divvy_testbed::node::library().unwrap();
        machine.write("lib/libnvidia-ml.so.1", &std::fs::read(library).unwrap());
        machine.cards(2);
        let uuids = (0..2).map(|at| json!({"name": Card::a100(at).uuid, "containerEdits": {}}));
        let cards = json!({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": uuids.collect::<Vec<_>>()});
        machine.write("host/etc/cdi/nvidia.json", cards.to_string().as_bytes());
        machine.write("host/var/lib/divvy/p/lib.so", b"x");
        let edits =
            json!({"mounts": [{"hostPath": "/var/lib/divvy/p/lib.so", "containerPath": "/x"}]});
        let provider = json!({"cdiVersion": "0.5.0", "kind": "divvy.dev/provider",
            "devices": [{"name": "HAMi-core", "containerEdits": edits}]});
        let file = "host/etc/cdi/divvy.dev-provider-HAMi-core.json";
        machine.write(file, provider.to_string().as_bytes());
        machine.runtime("auto");
        machine
    }

    fn write(&self, path: &str, text: &[u8]) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn cards(&self, count: u32) {
        let inventory = Inventory::new((0..count).map(Card::a100).collect());
        inventory.write(&self.folder.join("cards.json")).unwrap();
    }

    fn runtime(&self, mode: &str) {
        let text = format!("[nvidia-container-runtime]\nmode = \"{mode}\"\n");
        self.write("host/etc/nvidia-container-runtime/config.toml", text.as_bytes());
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.folder.join(path)).unwrap();
    }

    fn doctor(&self, more: &[&str]) -> Output {
        let mut command = program::divvy();
        command.args(["doctor", "--node", "--host-root"]).arg(self.folder.join("host")).args(more);
        command.env("LD_LIBRARY_PATH", self.folder.join("lib"));
        command.env("DIVVY_MOCK_NVML", self.folder.join("cards.json"));
        command.output().unwrap()
    }

    fn names(&self) -> Vec<String> {
        let output = self.doctor(&["-o", "json"]);
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(code(&output), if findings.is_empty() { 0 } else { 2 }, "{report}");
        findings.iter().map(|finding| finding["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_node_says_what_only_it_can_tell() {
    let machine = Machine::new();
    let output = machine.doctor(&[]);
    let text = stdout(&output);
    assert!(
        text.starts_with("nothing is wrong: looked at 2 cards, 1 config, 1 provider\n\ndriver 580.95.05\ncard 0: NVIDIA A100-SXM4-40GB, "),
        "{text}"
    );
    assert!(text.ends_with("runtime /etc/nvidia-container-runtime/config.toml: auto\n"), "{text}");
    assert_eq!(code(&output), 0);

    machine.cards(0);
    assert_eq!(machine.names(), ["no-cards"]);
    machine.cards(2);
    machine.runtime("legacy");
    assert_eq!(machine.names(), ["runtime-refuses"]);
    machine.remove("host/etc/nvidia-container-runtime/config.toml");
    assert_eq!(machine.names(), ["no-runtime"]);
    machine.runtime("cdi");
    machine.remove("host/var/lib/divvy/p/lib.so");
    assert_eq!(machine.names(), ["provider-incomplete"]);
    machine.write("host/var/lib/divvy/p/lib.so", b"x");
    let cards = std::fs::read(machine.folder.join("host/etc/cdi/nvidia.json")).unwrap();
    machine.remove("host/etc/cdi/nvidia.json");
    assert_eq!(machine.names(), ["no-specification"]);
    // As most nodes have it, and their root is mounted somewhere else here.
    machine.write("host/run/cdi/nvidia.json", &cards);
    std::os::unix::fs::symlink("/run", machine.folder.join("host/var/run")).unwrap();
    assert_eq!(machine.names(), [""; 0]);
    machine.remove("host/run/cdi/nvidia.json");
    machine.remove("lib/libnvidia-ml.so.1");
    assert_eq!(machine.names(), ["no-driver", "no-specification"]);
    let output = machine.doctor(&["--cluster", "x.yaml"]);
    assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
}
