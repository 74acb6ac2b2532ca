//! Each check: what is as it should be is not found, and what is broken is found alone.

use super::diagnose;
use crate::finding::DoctorReport;
use crate::looked::Looked;
use crate::observed::Observed;
use crate::source::{ClusterSource, Saved};
use crate::text::report_text;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000;

const DEPLOY: [&str; 11] = [
    include_str!("../../../../deploy/namespaces.yaml"),
    include_str!("../../../../deploy/scheduler.yaml"),
    include_str!("../../../../deploy/admission.yaml"),
    include_str!("../../../../deploy/webhooks.yaml"),
    include_str!("../../../../deploy/policy-deletions.yaml"),
    include_str!("../../../../deploy/policy-hand-off.yaml"),
    include_str!("../../../../deploy/policy-nodes.yaml"),
    include_str!("../../../../deploy/policy-provider.yaml"),
    include_str!("../../../../deploy/policy-reservations.yaml"),
    include_str!("../../../../deploy/policy-visible-devices.yaml"),
    include_str!("../../../../deploy/provider.yaml"),
];

/// All that a cluster with divvy has, as `kubectl get` prints it.
struct Cluster(Vec<Value>);

impl Cluster {
    fn healthy() -> Self {
        let deployed = DEPLOY.into_iter().flat_map(|text| divvy_words::untyped(text).unwrap());
        let mut cluster = Self(deployed.collect());
        for name in ["divvy-scheduler", "divvy-admission"] {
            cluster.the("Deployment", name)["status"] = json!({"readyReplicas": 2});
        }
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["x".to_owned()]).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        cluster.trust(&pem);
        let text = json!(BASE64_STANDARD.encode(&pem));
        cluster.the("Secret", "divvy-admission-tls")["data"] =
            json!({"ca.crt": text, "tls.crt": text});
        let sliced = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}";
        let mig = "version: v1\nmig-configs:\n  all-1g: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n  \
                   wrong: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 8}}]";
        let set = |name: &str, image: &str, map: &str| {
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"namespace": "gpu-operator", "name": name},
                "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}],
                    "volumes": [{"name": "v", "configMap": {"name": map}}]}}}})
        };
        let map = |name: &str, data: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "gpu-operator", "name": name}, "data": data})
        };
        let node = |name: &str, labels: Value, devices: Value| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                "status": {"capacity": devices, "allocatable": devices}})
        };
        let memory = json!({"nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.count": "2",
            "nvidia.com/gpu.product": "NVIDIA-A100-PCIE-40GB"});
        let with = |more: Value| {
            let mut labels = memory.clone();
            labels.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            labels
        };
        cluster.0.extend([
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}),
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"namespace": "divvy-system", "name": "a",
                    "labels": {"kubernetes.io/service-name": "divvy-admission"}},
                "endpoints": [{"conditions": {"ready": true}}]}),
            set("plugin", "nvcr.io/nvidia/k8s-device-plugin:v1", "slices"),
            set("mig", "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v1", "mig"),
            map("slices", json!({"plain": "version: v1", "sliced": sliced})),
            map("mig", json!({"config.yaml": mig})),
            json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
                "spec": {"devicePlugin": {"config": {"name": "slices", "default": "plain"}}}}),
            node("plain", memory.clone(), json!({"nvidia.com/gpu": "2", "cpu": "8"})),
            node("sliced", with(json!({"nvidia.com/device-plugin.config": "sliced"})), json!({"nvidia.com/gpu": "8"})),
            node("mig", with(json!({"nvidia.com/mig.config": "all-1g", "nvidia.com/mig.config.state": "success",
                "nvidia.com/mig.strategy": "mixed"})), json!({"nvidia.com/mig-1g.5gb": "14"})),
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}}),
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
                "spec": {"driver": "gpu.nvidia.com"}}),
        ]);
        cluster
    }

    /// Puts a CA into all webhooks.
    fn trust(&mut self, pem: &str) {
        let bundle = json!(BASE64_STANDARD.encode(pem));
        for object in &mut self.0 {
            for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                webhook["clientConfig"]["caBundle"] = bundle.clone();
            }
        }
    }

    fn the(&mut self, kind: &str, name: &str) -> &mut Value {
        let is_it =
            |object: &&mut Value| object["kind"] == kind && object["metadata"]["name"] == name;
        self.0.iter_mut().find(is_it).unwrap_or_else(|| panic!("{kind} {name}"))
    }

    fn label(&mut self, node: &str, key: &str, value: &str) {
        self.the("Node", node)["metadata"]["labels"][key] = json!(value);
    }

    fn without(&mut self, kind: &str, name: &str) {
        self.0.retain(|object| object["kind"] != kind || object["metadata"]["name"] != name);
    }

    fn args(&mut self, name: &str, change: impl Fn(&mut Vec<Value>)) {
        let args =
            &mut self.the("Deployment", name)["spec"]["template"]["spec"]["containers"][0]["args"];
        change(args.as_array_mut().unwrap());
    }

    /// A reservation on a node, with this status.
    fn reserve(&mut self, status: &Value) {
        self.0.push(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "kai-resource-reservation", "name": "r"},
            "spec": {"nodeName": "plain", "containers": [{"name": "c", "image": "divvy:0"}]}, "status": status}));
    }

    /// A second scheduler as Kubernetes' documentation makes one, with this name.
    fn schedule(&mut self, namespace: &str, name: &str, runs: bool) {
        let config = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
             - schedulerName: mine\n- schedulerName: {name}\n"
        );
        self.0.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"c.yaml": config},
            "metadata": {"namespace": namespace, "name": "my-config"}}));
        let image = if runs { "registry.k8s.io/kube-scheduler:v1" } else { "other:v1" };
        self.0.push(json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
            "metadata": {"namespace": namespace, "name": "mine"},
            "spec": {"containers": [{"name": "c", "image": image}],
                "volumes": [{"name": "v", "configMap": {"name": "my-config"}}]}}));
    }

    /// As Helm installs it as `shares` in the namespace `gpus`, with other values.
    fn installed_by_helm() -> Self {
        let text = serde_json::to_string(&Self::healthy().0).unwrap();
        let text = text
            .replace("divvy-system", "gpus")
            .replace(
                "'divvy-scheduler', 'kai-scheduler', 'koord-scheduler'",
                "'divvy-scheduler', 'mine'",
            )
            .replace("\"gpu-operator\"]", "\"nvidia\",\"gpu-operator\"]");
        let mut cluster = Self(serde_json::from_str(&text).unwrap());
        for name in ["divvy-scheduler", "divvy-admission"] {
            let names = json!("--scheduler-names=divvy-scheduler,mine");
            cluster.args(name, |args| args.push(names.clone()));
        }
        for object in &mut cluster.0 {
            object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("Helm");
            object["metadata"]["annotations"]["meta.helm.sh/release-name"] = json!("shares");
            object["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = json!("gpus");
        }
        cluster
    }

    /// A pod that says what is wrong with its card.
    fn trouble(&mut self, reason: &str) {
        let condition = |status: &str, reason: &str| json!({"type": format!("divvy.dev/{reason}"), "status": status, "message": "m"});
        let conditions = json!([condition("True", reason), condition("False", "CardConflict")]);
        let conditions = if reason == "CardConflict" { json!([conditions[0]]) } else { conditions };
        self.0.push(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ml", "name": "p"},
            "status": {"conditions": conditions}}),
        );
    }

    /// What is found if all kinds may be listed.
    async fn report(&self) -> DoctorReport {
        let text = serde_json::to_string(&json!({"kind": "List", "items": self.0})).unwrap();
        let saved = Saved::parse("test", &text).unwrap();
        let mut seen = Observed::look(&ClusterSource::Saved(&saved), NOW).await.unwrap();
        macro_rules! unhide {
            ($($field:ident)*) => {$(
                if seen.$field.why_hidden().is_some() {
                    seen.$field = Looked::default();
                }
            )*};
        }
        unhide!(nodes pods namespaces deployments runtime_classes priority_classes mutating validating
            policies policy_bindings endpoint_slices quotas device_classes resource_slices);
        diagnose(&seen)
    }
}

/// What was found, by name.
fn names(report: &DoctorReport) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.name).collect()
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_wrong() {
    let report = Cluster::healthy().report().await;
    assert_eq!(report.findings, []);
    let counts: Vec<&str> = report.looked_at.iter().map(|looked| looked.resource).collect();
    assert!(counts.contains(&"nodes") && counts.contains(&"secrets"), "{counts:?}");
}

type Break = fn(&mut Cluster);

const BROKEN: [(&str, Break); 42] = [
    ("not-installed", |c| c.without("Deployment", "divvy-scheduler")),
    ("sharing-disabled", |c| {
        c.args("divvy-scheduler", |args| args.retain(|a| a != "--gpu-sharing"));
    }),
    ("sharing-disabled", |c| {
        c.args("divvy-admission", |args| args[1] = json!("--gpu-sharing=false"));
    }),
    ("no-admission", |c| c.without("Deployment", "divvy-admission")),
    ("not-running", |c| c.the("Deployment", "divvy-admission")["status"] = json!({})),
    ("not-running", |c| c.the("Deployment", "divvy-scheduler")["spec"]["replicas"] = json!(0)),
    ("several-schedulers", |c| {
        c.args("divvy-scheduler", |args| args.push(json!("--leader-elect=false")));
    }),
    ("several-schedulers", |c| {
        let mut other = c.the("Deployment", "divvy-scheduler").clone();
        other["metadata"]["name"] = json!("another");
        c.0.push(other);
        c.args("another", |args| args.push(json!("--lease-name=another")));
    }),
    ("version-skew", |c| {
        c.the("Deployment", "divvy-admission")["spec"]["template"]["spec"]["containers"][0]["image"] =
            json!("divvy:9");
    }),
    ("kai-beside", |c| {
        c.0.push(json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
            "metadata": {"namespace": "kai-scheduler", "name": "k", "labels": {"app": "kai-scheduler-default"}}}));
    }),
    ("koordinator-beside", |c| {
        c.0.push(json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
            "metadata": {"namespace": "koordinator-system", "name": "k", "labels": {"koord-app": "koord-scheduler"}}}));
    }),
    ("another-scheduler", |c| c.schedule("kube-system", "divvy-scheduler", true)),
    ("another-scheduler", |c| c.schedule("kube-system", "kai-scheduler", false)),
    ("webhook-missing", |c| c.without("ValidatingWebhookConfiguration", "divvy")),
    ("webhook-changed", |c| {
        c.the("MutatingWebhookConfiguration", "divvy")["webhooks"][0]["failurePolicy"] =
            json!("Ignore");
    }),
    ("webhook-unreachable", |c| {
        c.the("EndpointSlice", "a")["endpoints"] = json!([{"conditions": {"ready": false}}]);
    }),
    ("webhook-ca", |c| {
        c.the("MutatingWebhookConfiguration", "divvy")["webhooks"][0]["clientConfig"]["caBundle"] =
            json!("");
    }),
    ("webhook-ca", |c| c.trust("not a certificate")),
    ("webhook-ca", |c| {
        let mut params = CertificateParams::new(["x".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2020, 2, 1);
        c.trust(&params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem());
    }),
    ("webhook-ca", |c| {
        let params = CertificateParams::new(["y".to_owned()]).unwrap();
        c.trust(&params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem());
    }),
    ("webhook-certificate", |c| {
        let mut params = CertificateParams::new(["x".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2020, 2, 1);
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        c.the("Secret", "divvy-admission-tls")["data"]["tls.crt"] =
            json!(BASE64_STANDARD.encode(pem));
    }),
    ("policy-missing", |c| c.without("ValidatingAdmissionPolicyBinding", "divvy-hand-off")),
    ("policy-changed", |c| {
        c.the("ValidatingAdmissionPolicy", "divvy-hand-off")["spec"]["failurePolicy"] =
            json!("Ignore");
    }),
    ("policy-changed", |c| {
        c.0.push(json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gpu"}}));
        c.args("divvy-admission", |args| args.push(json!("--runtime-class=gpu")));
        let configuration = c.the("MutatingWebhookConfiguration", "divvy");
        let text = configuration.to_string().replace(
            "startsWith('nvidia')",
            "startsWith('nvidia') || object.spec.?runtimeClassName.orValue('') == 'gpu'",
        );
        *configuration = serde_json::from_str(&text).unwrap();
    }),
    ("no-runtime-class", |c| {
        c.args("divvy-scheduler", |args| {
            args.push(json!("--reservation-runtime-class=nvidia-'; touch x; '"));
        });
    }),
    ("no-reservation-namespace", |c| c.without("Namespace", "kai-resource-reservation")),
    ("no-priority-class", |c| c.without("PriorityClass", "divvy-reservation")),
    ("no-runtime-class", |c| c.without("RuntimeClass", "nvidia")),
    ("reservation-quota", |c| {
        c.0.push(json!({"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"namespace": "kai-resource-reservation", "name": "q"},
            "status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}}));
    }),
    ("reservation-image", |c| {
        c.reserve(&json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}));
    }),
    ("reservation-room", |c| c.reserve(&json!({"phase": "Failed", "reason": "OutOfpods"}))),
    ("reservation-failing", |c| {
        c.reserve(&json!({"phase": "Failed", "reason": "UnexpectedAdmissionError"}));
    }),
    ("no-gpu-memory", |c| c.label("plain", "nvidia.com/gpu.memory", "0")),
    ("devices-unhealthy", |c| {
        c.the("Node", "plain")["status"]["allocatable"]["nvidia.com/gpu"] = json!("1");
    }),
    ("unsettled", |c| {
        c.the("Node", "plain")["spec"] =
            json!({"taints": [{"key": "divvy.dev/unsettled", "effect": "NoSchedule"}]});
    }),
    ("label-without-provider", |c| {
        c.label("plain", "koordinator.sh/gpu-isolation-provider", "HAMi-core");
    }),
    ("card-conflict", |c| c.trouble("CardConflict")),
    ("card-missing", |c| c.trouble("CardMissing")),
    ("card-mixed", |c| c.trouble("CardMixed")),
    ("provider-missing", |c| c.trouble("ProviderMissing")),
    ("driver-without-slices", |c| c.without("ResourceSlice", "s")),
    ("gates-differ", |c| {
        c.args("divvy-admission", |args| {
            args.push(json!("--feature-gates=GPUIsolationLevel=true"));
        });
    }),
];

const DIVIDED: [(&str, Break); 13] = [
    ("no-plugin-config", |c| c.without("ConfigMap", "slices")),
    ("unused-plugin-config", |c| {
        c.the("ClusterPolicy", "cluster-policy")["spec"] = json!({});
        c.the("DaemonSet", "plugin")["spec"]["template"]["spec"]["volumes"] =
            json!([{"name": "v", "configMap": {"name": "nvidia-device-plugin-entrypoint"}}]);
    }),
    ("unused-plugin-config", |c| {
        c.without("ClusterPolicy", "cluster-policy");
        c.the("DaemonSet", "plugin")["spec"]["template"]["spec"]["volumes"] = json!([]);
    }),
    ("no-default-config", |c| {
        c.the("ClusterPolicy", "cluster-policy")["spec"]["devicePlugin"]["config"]["default"] =
            json!("");
    }),
    ("unknown-plugin-config", |c| c.label("sliced", "nvidia.com/device-plugin.config", "slice")),
    ("wrong-plugin-config", |c| {
        c.the("ConfigMap", "slices")["data"]["plain"] = json!("version: v9");
    }),
    ("slices-not-there", |c| {
        for of in ["capacity", "allocatable"] {
            c.the("Node", "sliced")["status"][of]["nvidia.com/gpu"] = json!("2");
        }
    }),
    ("mig-failed", |c| c.label("mig", "nvidia.com/mig.config.state", "failed")),
    ("mig-pending", |c| c.label("mig", "nvidia.com/mig.config.state", "pending")),
    ("unknown-mig-config", |c| c.label("mig", "nvidia.com/mig.config", "all-2g")),
    ("mig-illegal", |c| c.label("mig", "nvidia.com/mig.config", "wrong")),
    ("mig-off", |c| {
        for of in ["capacity", "allocatable"] {
            c.the("Node", "mig")["status"][of] = json!({"nvidia.com/gpu": "2"});
        }
    }),
    ("no-gpu-memory", |c| {
        c.the("Node", "sliced")["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove("nvidia.com/gpu.memory");
    }),
];

#[tokio::test]
async fn what_is_broken_is_found_alone_with_evidence_and_a_fix() {
    for (name, break_it) in BROKEN.into_iter().chain(DIVIDED) {
        let mut cluster = Cluster::healthy();
        break_it(&mut cluster);
        let report = cluster.report().await;
        assert_eq!(names(&report), [name], "{report:#?}");
        let finding = &report.findings[0];
        assert!(!finding.evidence.is_empty() && !finding.fix.is_empty(), "{finding:?}");
    }
}

/// What a tenant can make in its own namespace, with divvy's labels and NVIDIA's names.
#[tokio::test]
async fn what_a_tenant_makes_is_nothing_of_divvys_and_nothing_of_nvidias() {
    let mut cluster = Cluster::healthy();
    for name in ["divvy-scheduler", "divvy-admission"] {
        let mut own = cluster.the("Deployment", name).clone();
        own["metadata"]["namespace"] = json!("a-team");
        own["spec"]["template"]["spec"]["containers"][0]["image"] = json!("divvy:9");
        own["spec"]["template"]["spec"]["containers"][0]["args"] = json!([
            "--lease-name=mine",
            "--block-nvidia-visible-devices=false",
            "--gpu-sharing=false",
            "--reservation-runtime-class=x'; id; '",
            "--namespace=ml",
            "--secret=theirs"
        ]);
        cluster.0.insert(0, own);
    }
    let volumes: Vec<Value> = (0..16)
        .map(|nth| json!({"name": "v", "configMap": {"name": format!("../../secrets/{nth}")}}))
        .collect();
    cluster.0.insert(0, json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"namespace": "a-team", "name": "plugin", "labels": {"app.kubernetes.io/name": "divvy-provider"}},
        "spec": {"template": {"spec": {"containers": [{"image": "k8s-device-plugin"}], "volumes": volumes}}}}));
    for kind in ["DaemonSet", "ValidatingAdmissionPolicy"] {
        cluster.without(kind, "divvy-provider");
    }
    assert_eq!(cluster.report().await.findings, []);
    // What is wrong is still found.
    cluster.without("ValidatingAdmissionPolicy", "divvy-visible-devices");
    assert_eq!(names(&cluster.report().await), ["policy-missing"]);
}

#[tokio::test]
async fn the_device_plugin_is_found_where_administrators_say_that_pods_manage_gpus() {
    for (place, is_found) in [("kube-system", true), ("nvidia", false), ("labelled", true)] {
        let mut cluster = Cluster::healthy();
        for (kind, name) in [("DaemonSet", "plugin"), ("ConfigMap", "slices")] {
            cluster.the(kind, name)["metadata"]["namespace"] = json!(place);
        }
        cluster.0.push(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "labelled", "labels": {"divvy.dev/gpu-system": "true"}}}));
        let report = cluster.report().await;
        let names = names(&report);
        assert_eq!(names.is_empty(), is_found, "{place}: {names:?}");
        let policy =
            &mut cluster.the("ValidatingAdmissionPolicyBinding", "divvy-visible-devices")["spec"];
        let exempt =
            &mut policy["matchResources"]["namespaceSelector"]["matchExpressions"][0]["values"];
        exempt.as_array_mut().unwrap().push(json!(place));
        let names = self::names(&cluster.report().await);
        assert!(!names.iter().any(|name| name.contains("plugin")), "{place}: {names:?}");
    }
}

#[tokio::test]
async fn where_divvy_is_is_said_by_its_webhooks_or_by_who_has_its_role() {
    let mut cluster = Cluster::healthy();
    let text = serde_json::to_string(&cluster.0).unwrap();
    cluster.0 = serde_json::from_str(&text.replace("divvy-system", "gpus")).unwrap();
    assert_eq!(cluster.report().await.findings, []);
    cluster.0.retain(|object| !object["kind"].as_str().unwrap().ends_with("WebhookConfiguration"));
    assert_eq!(names(&cluster.report().await), ["webhook-missing"]);
    cluster.without("ClusterRoleBinding", "divvy-scheduler");
    assert_eq!(names(&cluster.report().await), ["not-installed"]);
}

#[tokio::test]
async fn of_a_release_of_helm_nothing_is_mended_by_the_files_of_another_namespace() {
    assert_eq!(Cluster::installed_by_helm().report().await.findings, []);
    for (name, break_it) in BROKEN.into_iter().chain(DIVIDED) {
        let mut cluster = Cluster::installed_by_helm();
        break_it(&mut cluster);
        for finding in cluster.report().await.findings {
            let (found, fix) = (finding.name, finding.fix);
            assert!(!fix.contains("deploy/") && !fix.contains("divvy-system"), "{found}: {fix}");
            let is_of_chart = ["missing", "changed", "skew", "differ", "disabled", "not-installed"];
            if is_of_chart.iter().any(|part| name == found && found.ends_with(part))
                && found != "card-missing"
                && found != "provider-missing"
            {
                let upgrade = "helm upgrade shares charts/divvy -n gpus --reuse-values";
                assert!(fix.starts_with(upgrade), "{found}: {fix}");
            }
        }
    }
    // A list that is another in one place is still found.
    let mut cluster = Cluster::installed_by_helm();
    let webhooks = &mut cluster.the("MutatingWebhookConfiguration", "divvy")["webhooks"];
    let rules = &mut webhooks[1]["namespaceSelector"]["matchExpressions"][0]["values"];
    rules.as_array_mut().unwrap().push(json!("ml"));
    assert_eq!(names(&cluster.report().await), ["webhook-changed"]);
}

#[tokio::test]
async fn a_scheduler_of_another_name_or_of_a_tenant_is_not_in_the_way() {
    for (namespace, name) in [("kube-system", "theirs"), ("ml", "divvy-scheduler")] {
        let mut cluster = Cluster::healthy();
        cluster.schedule(namespace, name, true);
        assert_eq!(cluster.report().await.findings, [], "{namespace} {name}");
    }
}

/// How parts of a cluster come to differ.
type Skew<'a> = &'a dyn Fn(&mut Cluster);

#[tokio::test]
async fn parts_of_several_versions_are_found_wherever_they_are() {
    let image = |c: &mut Cluster, kind: &str, name: &str, image: &str| {
        c.the(kind, name)["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    };
    let reserve = |c: &mut Cluster, image: &str| {
        c.reserve(&json!({"phase": "Running"}));
        let pod = c.the("Pod", "r");
        pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("divvy");
        pod["spec"]["containers"][0]["image"] = json!(image);
    };
    let ours = concat!("divvy:", env!("CARGO_PKG_VERSION"));
    let mut cluster = Cluster::healthy();
    reserve(&mut cluster, ours);
    assert_eq!(cluster.report().await.findings, []);
    let cases: [(Skew<'_>, &str, &str); 5] = [
        (
            &|c| image(c, "DaemonSet", "divvy-provider", "divvy:9"),
            "daemonset divvy-system/divvy-provider: divvy:9",
            "kubectl -n divvy-system set image daemonset/divvy-provider provider=divvy:",
        ),
        (
            &|c| reserve(c, "divvy:0.0.9"),
            "pod kai-resource-reservation/r: divvy:0.0.9",
            "# nothing: a reservation keeps its image",
        ),
        (
            &|c| {
                image(c, "Deployment", "divvy-scheduler", "divvy:0.0.9");
                image(c, "Deployment", "divvy-admission", "divvy:0.0.9");
                image(c, "DaemonSet", "divvy-provider", "divvy:0.0.9");
            },
            "this divvy, which looks at the cluster: ",
            "# look with divvy 0.0.9: ",
        ),
        // Half of an upgrade to this version.
        (
            &|c| image(c, "Deployment", "divvy-scheduler", "divvy:0.0.9"),
            "deployment divvy-system/divvy-scheduler: divvy:0.0.9",
            "kubectl -n divvy-system set image deployment/divvy-scheduler scheduler=divvy:",
        ),
        (
            &|c| {
                reserve(c, "mirror.example/divvy:0.0.9");
                c.args("divvy-scheduler", |args| {
                    args.push(json!("--reservation-image=mirror.example/divvy:0.1.0"));
                });
            },
            "the scheduler makes reservations with mirror.example/divvy:0.1.0",
            "# nothing: a reservation keeps its image",
        ),
    ];
    for (skew, seen, fix) in cases {
        let mut cluster = Cluster::healthy();
        skew(&mut cluster);
        let report = cluster.report().await;
        assert_eq!(names(&report), ["version-skew"], "{seen}");
        let finding = &report.findings[0];
        assert!(finding.evidence.iter().any(|one| one.starts_with(seen)), "{finding:?}");
        assert!(finding.fix.starts_with(fix), "{finding:?}");
    }
}

/// A tenant who takes part in a conflict has no say in whose pod an administrator deletes.
#[tokio::test]
async fn of_pods_with_one_card_that_is_named_to_be_deleted_which_began_last() {
    let mut cluster = Cluster::healthy();
    for (name, start) in [
        ("a", "2026-01-01T00:00:00Z"),
        ("z", "2026-01-03T00:00:00Z"),
        ("b", "2026-01-02T00:00:00Z"),
    ] {
        cluster.trouble("CardConflict");
        let pod = cluster.0.last_mut().unwrap();
        pod["metadata"]["name"] = json!(name);
        pod["status"]["startTime"] = json!(start);
    }
    let report = cluster.report().await;
    assert_eq!(names(&report), ["card-conflict"]);
    let fix = &report.findings[0].fix;
    assert!(fix.starts_with("kubectl delete pod -n ml z "), "{fix}");
}

#[tokio::test]
async fn namespaces_that_see_all_cards_are_known_by_the_webhook_where_their_policy_is_gone() {
    let mut cluster = Cluster::healthy();
    let text = serde_json::to_string(&cluster.0).unwrap();
    cluster.0 = serde_json::from_str(&text.replace("\"gpu-operator\"]", "\"nvidia\"]")).unwrap();
    cluster.without("DaemonSet", "plugin");
    cluster.without("ValidatingAdmissionPolicyBinding", "divvy-visible-devices");
    let report = cluster.report().await;
    let finding = report.findings.iter().find(|one| one.name == "policy-missing").unwrap();
    let values = r#"--set-json 'gpuSystemNamespaces=["nvidia"]'"#;
    assert!(finding.fix.contains(values), "{finding:?}");
}

/// A text without what is quoted for the shell.
fn bare(line: &str) -> String {
    let line = line.replace(r"'\''", "");
    line.split('\'').step_by(2).collect()
}

#[tokio::test]
async fn no_name_is_a_command_in_a_fix() {
    for (name, break_it) in BROKEN.into_iter().chain(DIVIDED) {
        let mut cluster = Cluster::healthy();
        break_it(&mut cluster);
        let mut text = serde_json::to_string(&cluster.0).unwrap();
        // Nodes, configs and their keys, pods, quotas, images, whom to call.
        let own = [
            "plain",
            "sliced",
            "mig",
            "slices",
            "all-1g",
            "wrong",
            "p",
            "q",
            "r",
            "s",
            "another",
            "plugin",
            "cluster-policy",
            "config.yaml",
            "divvy:0",
            "ml",
        ];
        for word in own {
            for (begin, end) in [("\"", "\""), ("  ", ":")] {
                let evil = format!("{begin}{word}';$(id)`id`\\n|id>x&#'{end}");
                text = text.replace(&format!("{begin}{word}{end}"), &evil);
            }
        }
        cluster.0 = serde_json::from_str(&text).unwrap();
        for finding in cluster.report().await.findings {
            // What follows is a remark of ours.
            for line in finding.fix.lines() {
                let bare = bare(line);
                let bare = bare.split("   #").next().unwrap();
                let remark = line.starts_with('#');
                assert!(remark || !bare.contains(['$', '`', ';', '>', '&']), "{name}: {line}");
                assert!(!remark || !bare.contains('$'), "{name}: {line}");
            }
        }
    }
}

#[tokio::test]
async fn what_may_not_be_looked_at_is_said_and_is_no_finding() {
    let text = "{kind: Node, apiVersion: v1, metadata: {name: n}}";
    let saved = Saved::parse("some.yaml", text).unwrap();
    let seen = Observed::look(&ClusterSource::Saved(&saved), NOW).await.unwrap();
    let report = diagnose(&seen);
    assert_eq!(names(&report), [""; 0]);
    assert_eq!(
        report.looked_at.iter().map(|looked| looked.resource).collect::<Vec<_>>(),
        ["nodes"]
    );
    let said = "deployments.apps, daemonsets.apps, ";
    let text = report_text(&report);
    assert!(text.contains(said) && text.ends_with(": there are none in some.yaml\n"), "{text}");
}

#[tokio::test]
async fn a_thousand_nodes_with_the_same_wrong_are_one_finding_of_some_lines() {
    let mut cluster = Cluster::healthy();
    let mut node = cluster.the("Node", "plain").clone();
    node["metadata"]["labels"] = json!({});
    for nth in 0..1000 {
        node["metadata"]["name"] = json!(format!("n{nth}"));
        cluster.0.push(node.clone());
    }
    let report = cluster.report().await;
    assert_eq!(names(&report), ["no-gpu-memory"]);
    let evidence = &report.findings[0].evidence;
    assert!(
        evidence.len() < 12 && evidence.last().unwrap().ends_with("and 992 more"),
        "{evidence:?}"
    );
}
