//! divvy by its chart and the real Helm, with its image on the real node: what runs, runs on through all
//! that an operator does, and in the end nothing is left.

use crate::cluster::{Cluster, half};
use crate::program;
use divvy_testbed::{Program, Programs};
use serde_json::Value;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NAMESPACE: &str = "divvy-system";
const PERIOD: &str = "--timeout=5m";

/// Helm against the cluster, with the chart.
struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Helm {
    /// Runs it to its end, and gives what it said.
    fn run(&self, arguments: &[&str]) -> String {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/divvy");
        let mut helm = Command::new(&self.program);
        helm.args(arguments).arg("--namespace").arg(NAMESPACE);
        helm.arg("--kubeconfig").arg(&self.kubeconfig);
        if ["install", "upgrade"].contains(&arguments[0]) {
            helm.arg(chart);
        }
        // Nothing of the machine's own.
        for (name, folder) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
        ] {
            helm.env(name, self.kubeconfig.with_file_name("helm").join(folder));
        }
        let output = helm.output().unwrap();
        assert!(output.status.success(), "helm {arguments:?}: {}", both(&output));
        both(&output)
    }
}

fn is_ours(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flat_map(|labels| labels.values());
    let name = metadata["name"].as_str().unwrap();
    name != NAMESPACE
        && (name.contains("divvy") || labels.into_iter().any(|value| value == "divvy"))
}

fn both(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

impl Cluster {
    /// The pods of one of divvy's Deployments that stay.
    async fn ours(&self, name: &str) -> Vec<Value> {
        let pods = self.pods(NAMESPACE).await.into_iter();
        let is_its = |pod: &Value| {
            pod["metadata"]["labels"]["app.kubernetes.io/name"] == name
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        pods.filter(is_its).collect()
    }

    /// There is no kube-proxy: the service of the webhooks is one of their pods.
    async fn serve(&mut self) {
        let address = |text: &Value| text.as_str().unwrap().parse::<Ipv4Addr>().unwrap();
        let service = format!("/api/v1/namespaces/{NAMESPACE}/services/divvy-admission");
        let service = self.api.get(&service).await.unwrap();
        let service = SocketAddrV4::new(address(&service["spec"]["clusterIP"]), 443);
        let by = self.ours("divvy-admission").await;
        let by = SocketAddrV4::new(address(&by[0]["status"]["podIP"]), 8443);
        self.node().serve(service, by).unwrap();
        self.until_guarded().await;
    }

    /// Which container a share is, and how often it has started.
    async fn container(&self, name: &str) -> (Value, Value) {
        let pod = self.until_running("team", name).await;
        let status = &pod["status"]["containerStatuses"][0];
        (status["containerID"].clone(), status["restartCount"].clone())
    }

    /// All of any kind that has divvy's name or label, but for what tells of the past and the namespace
    /// that was there before.
    async fn of_divvy(&self) -> Vec<String> {
        let mut found = Vec::new();
        let groups = self.api.get("/apis").await.unwrap();
        let groups = groups["groups"].as_array().unwrap().iter();
        let version =
            |group: &Value| group["preferredVersion"]["groupVersion"].as_str().map(str::to_owned);
        let groups = groups.map(|group| format!("/apis/{}", version(group).unwrap()));
        for group in ["/api/v1".to_owned()].into_iter().chain(groups) {
            let kinds = self.api.get(&group).await.unwrap();
            for kind in kinds["resources"].as_array().unwrap() {
                let name = kind["name"].as_str().unwrap();
                let can_be_listed = kind["verbs"].as_array().unwrap().contains(&"list".into());
                if can_be_listed && name != "events" {
                    let list = self.api.get(&format!("{group}/{name}")).await.unwrap();
                    let ours =
                        list["items"].as_array().unwrap().iter().filter(|item| is_ours(item));
                    found.extend(ours.map(|item| format!("{name} {}", item["metadata"])));
                }
            }
        }
        found
    }

    /// What `divvy uninstall` says, and its exit code.
    fn uninstall(&mut self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut divvy = program::divvy();
        divvy.arg("uninstall").args(arguments).arg("--kubeconfig").arg(self.plane().kubeconfig());
        let output = divvy.output().unwrap();
        (output.status.code(), both(&output))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_run_on_through_install_upgrade_rollback_and_uninstall_and_then_nothing_is_left() {
    let Some(mut cluster) = Cluster::enter().await else { return };
    let programs = match Programs::build_one(Program::Helm, &mut |_| {}) {
        Ok(programs) => programs,
        Err(why) => {
            // Not by println, which the test runner hides.
            let _ = writeln!(std::io::stdout(), "skipped: {why}");
            return;
        }
    };
    let kubeconfig = cluster.plane().kubeconfig();
    let helm = Helm { program: programs.path(Program::Helm), kubeconfig };
    cluster.without_divvy();
    // As in every cluster; helm waits for pods to be ready.
    cluster.plane().start_kube_scheduler().unwrap();
    let namespace = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "divvy-system",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}"#;
    cluster.kubectl(&["apply", "-f", "-"], namespace);
    let values =
        "global.gpuSharing=true,networkPolicy.enabled=true,monitoring.dashboard.enabled=true";
    let sharing = ["--set", values, "--wait", PERIOD];

    let said = helm.run(&[&["install", "divvy"][..], &sharing].concat());
    assert!(said.contains("helm test"), "it says what to do next: {said}");
    cluster.serve().await;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(&["label", "namespace", "kai-resource-reservation", restricted], "");
    cluster.create(&half("team", "a")).await;
    let card = cluster.card_of("team", "a").await;
    let first = cluster.container("a").await;
    assert_eq!(first.1, 0);

    // The ConfigMap of KAI's recipe is read; what is wrong with it stands on it.
    let recipe = r#"{"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "divvy-system", "name": "kai-scheduler-config"},
        "data": {"config.yaml": "scheduling:\n  strategy: best\n"}}"#;
    cluster.kubectl(&["apply", "-f", "-"], recipe);
    let events = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
    cluster
        .until("the wrong strategy is said on the ConfigMap", async || {
            let events = cluster.api.get(&events).await.unwrap();
            let about = |event: &Value| {
                event["regarding"]["name"] == "kai-scheduler-config"
                    && event["note"].as_str().unwrap().contains("scheduling.strategy")
            };
            events["items"].as_array().unwrap().iter().any(about)
        })
        .await;
    cluster.kubectl(&["delete", "-f", "-"], recipe);

    // Another value takes effect, and what runs does not notice.
    helm.run(
        &[&["upgrade", "divvy", "--set", "gpuSharing.strategy=spread"][..], &sharing].concat(),
    );
    cluster.until_guarded().await;
    cluster.create(&half("team", "b")).await;
    let other = cluster.card_of("team", "b").await;
    assert_ne!(card, other, "shares are spread over cards now");
    let second = cluster.container("b").await;
    helm.run(&["rollback", "divvy", "1", "--wait", PERIOD]);
    cluster.until_guarded().await;
    cluster.create(&half("team", "c")).await;
    let third = cluster.card_of("team", "c").await;
    assert!(third == card || third == other, "shares are packed again");
    let said = helm.run(&["test", "divvy", PERIOD]);
    assert!(said.contains("Succeeded"), "{said}");
    // The card that the test opened is given back.
    cluster.until_reservations(2).await;

    // Without divvy the shares run on, and what guards them is there.
    helm.run(&["uninstall", "divvy", "--wait", PERIOD]);
    cluster
        .until("nothing of divvy works", async || cluster.pods(NAMESPACE).await.is_empty())
        .await;
    let annotations =
        serde_json::json!({"metadata": {"annotations": {"divvy.dev/visible-devices": "all"}}});
    let refused = cluster.api.patch("/api/v1/namespaces/team/pods/a", &annotations).await;
    assert!(refused.unwrap_err().to_string().contains("come with the binding by divvy"));
    let (code, said) = cluster.uninstall(&[]);
    assert!(code == Some(2) && said.starts_with("3 shares still run"), "{code:?}: {said}");
    assert_eq!(cluster.reservations().await.len(), 2);

    // Installed again, it goes on where it was.
    helm.run(&[&["install", "divvy"][..], &sharing].concat());
    let (code, said) = cluster.uninstall(&[]);
    assert!(code == Some(1) && said.contains("still installed"), "{code:?}: {said}");
    cluster.serve().await;
    cluster.delete("team", "c").await;
    cluster.create(&half("team", "d")).await;
    let fourth = cluster.card_of("team", "d").await;
    assert!(fourth == card || fourth == other, "the cards are known");
    assert_eq!(
        (cluster.container("a").await, cluster.container("b").await),
        (first.clone(), second)
    );
    cluster.check().await;
    helm.run(&["uninstall", "divvy", "--wait", PERIOD]);
    for name in ["b", "d"] {
        cluster.delete("team", name).await;
    }
    cluster
        .until("nothing of divvy works", async || cluster.pods(NAMESPACE).await.is_empty())
        .await;

    // By force while one runs: it runs on, and what that breaks is said.
    let (code, said) = cluster.uninstall(&[]);
    assert!(code == Some(2) && said.starts_with("1 share still runs"), "{code:?}: {said}");
    assert_ne!(cluster.of_divvy().await, Vec::<String>::new(), "it is looked for rightly");
    let (code, said) = cluster.uninstall(&["--force"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("but 1 share that runs on; nothing keeps its card from others"),
        "{said}"
    );
    let place = "/api/v1/namespaces/kai-resource-reservation";
    cluster
        .until("the namespace of reservations is gone", async || {
            cluster.api.get(place).await.is_err()
        })
        .await;
    assert_eq!(cluster.of_divvy().await, Vec::<String>::new());
    assert_eq!(cluster.container("a").await, first);
    cluster.delete("team", "a").await;
    let (code, said) = cluster.uninstall(&[]);
    assert!(code == Some(0) && said.contains("Nothing of divvy is left in"), "{code:?}: {said}");
    cluster.plane().stop(Program::Scheduler);
    cluster.restore().await;
}
