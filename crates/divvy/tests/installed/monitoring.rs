//! The rules and the dashboard of the chart, by Prometheus and by Grafana's linter: that they are
//! right, and that a real Prometheus finds in what divvy says all that they ask for.
//!
//! Their programs take minutes to build: `cargo xtask monitoring`.

use crate::cluster::{Cluster, NAMESPACE, PATIENCE};
use crate::pages;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_testbed::manifests::{GpuNode, pod, with_devices, with_fraction, with_gpus, with_memory};
use divvy_testbed::{Process, Program, Programs, free_ports};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const DASHBOARD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/divvy/monitoring/dashboard.json");

/// What NVIDIA's exporter would say of two cards of which the first is shared.
const DCGM: &str = r#"# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="a100-0",container="reserve",namespace="kai-resource-reservation",pod="gpu-reservation-a100-0-x"} 80
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2",device="nvidia1",modelName="NVIDIA A100-SXM4-80GB",Hostname="a100-0"} 40
"#;

/// A program, which is built first if it is not there yet.
fn program(program: Program) -> Command {
    let programs = Programs::build_one(program, &mut |line| println!("{line}"));
    Command::new(programs.unwrap().path(program))
}

fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Prometheus, which is asked as Grafana asks it.
struct Prometheus {
    _process: Process,
    address: SocketAddr,
}

impl Prometheus {
    fn start(cluster: &Cluster, config: &Value) -> Self {
        let file = cluster.folder().join("prometheus.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut promtool = program(Program::Promtool);
        promtool.args(["check", "config"]).arg(&file);
        run(promtool);
        let [port] = free_ports().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = program(Program::Prometheus);
        command.arg("--config.file").arg(&file).arg(format!("--web.listen-address={address}"));
        command.arg("--storage.tsdb.path").arg(cluster.folder().join("series"));
        let process = Process::start(command, "prometheus", cluster.folder()).unwrap();
        Self { _process: process, address }
    }

    /// What it answers; nothing as long as it does not.
    async fn ask(&self, path: &str) -> Value {
        let page = pages::page_at(self.address, path).await.unwrap_or_default();
        let body = page.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }

    /// The series that an expression of the dashboard has now.
    async fn series(&self, expression: &str) -> Vec<Value> {
        let expression = [("$job", ".+"), ("$instance", ".+"), ("$__rate_interval", "1m")]
            .iter()
            .fold(expression.to_owned(), |text, (name, value)| text.replace(name, value));
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.ask(&format!("/api/v1/query?query={encoded}")).await;
        assert_ne!(answer["status"], "error", "{expression}: {answer}");
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }
}

/// Answers whoever asks with the page of NVIDIA's exporter.
async fn serve_dcgm() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
            let _ = stream.write_all(format!("{head}{DCGM}").as_bytes()).await;
        }
    });
    address
}

/// Something of everything: shares that could outgrow their card, whole cards, time slices, queues, and
/// a pod that waits.
async fn fill(cluster: &Cluster) {
    let sliced = GpuNode { replicas: 4, ..GpuNode::T4 };
    let node = cluster.api.create(&sliced.node("t4-0")).await.unwrap();
    pages::has_seen(&cluster.scheduler, &node, PATIENCE).await;
    let of = |name: &str| pod("ml-inference", name, "divvy-scheduler");
    let mut queued = with_fraction(of("half-1"), "0.5", 1);
    queued["metadata"]["labels"] = json!({"kai.scheduler/queue": "team-a"});
    let on_t4 = |mut pod: Value| {
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "t4-0"});
        pod
    };
    let pods = [
        queued,
        with_fraction(of("half-2"), "0.4", 1),
        with_gpus(of("whole"), 2),
        on_t4(with_devices(of("slice"), "nvidia.com/gpu", 1)),
        with_memory(of("too-large"), 200_000),
    ];
    for mut pod in pods {
        pod["metadata"]["labels"]["app"] = json!("filled");
        cluster.api.create(&pod).await.unwrap();
    }
    cluster.nodes_of("ml-inference", "app=filled", 4).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "Prometheus takes minutes to build: cargo xtask monitoring"]
async fn a_real_prometheus_finds_all_that_the_dashboard_and_the_rules_ask_for() {
    let values = "global.gpuSharing=true,runtimeClass.create=true,monitoring.prometheusRule.enabled=true,\
                  monitoring.serviceMonitor.enabled=true";
    let Some(cluster) = Cluster::install("monitoring", values).await else { return };
    fill(&cluster).await;
    let rules = cluster.objects.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    let file = cluster.folder().join("rules.json");
    std::fs::write(&file, rules["spec"].to_string()).unwrap();
    let secret = format!("/api/v1/namespaces/{NAMESPACE}/secrets/divvy-admission-tls");
    let secret = cluster.api.get(&secret).await.unwrap();
    let ca = BASE64_STANDARD.decode(secret["data"]["ca.crt"].as_str().unwrap()).unwrap();
    std::fs::write(cluster.folder().join("ca.crt"), ca).unwrap();
    // As the monitors of the chart have it; the Prometheus operator finds the addresses.
    let target = |address: SocketAddr| json!([{"targets": [address.to_string()], "labels": {"pod": "divvy-0"}}]);
    let scheduler = pages::address(&cluster.scheduler).unwrap();
    let config = json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [&file],
        "scrape_configs": [
            {"job_name": "divvy-scheduler", "static_configs": target(scheduler)},
            {
                "job_name": "divvy-admission", "scheme": "https",
                "static_configs": target(cluster.admission),
                "tls_config": {
                    "ca_file": cluster.folder().join("ca.crt"),
                    "server_name": format!("divvy-admission.{NAMESPACE}.svc"),
                },
            },
            {"job_name": "dcgm", "static_configs": target(serve_dcgm().await)},
        ],
    });
    let prometheus = Prometheus::start(&cluster, &config);
    cluster
        .until("all targets are up", async || prometheus.series("up == 1").await.len() == 3)
        .await;

    let dashboard: Value = serde_json::from_slice(&std::fs::read(DASHBOARD).unwrap()).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let (title, expression) = (&panel["title"], target["expr"].as_str().unwrap());
            cluster
                .until(&format!("{title} has series: {expression}"), async || {
                    !prometheus.series(expression).await.is_empty()
                })
                .await;
        }
    }
    // What DCGM says is joined by the model that nodes name.
    let held = "sum by (model) (divvy_model_memory_bytes{kind=\"held\"}) > 0";
    let busy = dashboard["panels"].as_array().unwrap().iter();
    let mut busy = busy.filter(|panel| panel["title"] == "Held and busy by model");
    let busy = busy.next().unwrap()["targets"][1]["expr"].as_str().unwrap();
    let joined = prometheus.series(&format!("({busy}) and on (model) ({held})")).await;
    assert_eq!(joined[0]["metric"]["model"], "NVIDIA-A100-SXM4-80GB", "{joined:?}");
    assert_eq!(joined[0]["value"][1], "0.6");

    cluster
        .until("all rules are evaluated", async || {
            let answer = prometheus.ask("/api/v1/rules").await;
            let rules = answer["data"]["groups"][0]["rules"].as_array().cloned();
            rules.is_some_and(|rules| {
                rules.len() > 8 && rules.iter().all(|rule| rule["health"] == "ok")
            })
        })
        .await;
    let firing = prometheus.series("ALERTS{alertstate=\"firing\"}").await;
    assert_eq!(firing, Vec::<Value>::new());
}

#[test]
#[ignore = "promtool takes minutes to build: cargo xtask monitoring"]
fn the_rules_are_right_and_say_what_they_should() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rules");
    std::fs::create_dir_all(&folder).unwrap();
    let rules = Path::new(DASHBOARD).with_file_name("rules.yaml");
    let mut promtool = program(Program::Promtool);
    promtool.args(["check", "rules", "--lint-fatal"]).arg(&rules);
    assert!(run(promtool).contains("SUCCESS"));
    let tests = include_str!("rules.yaml").replace("RULES", rules.to_str().unwrap());
    std::fs::write(folder.join("tests.yaml"), tests).unwrap();
    let mut promtool = program(Program::Promtool);
    promtool.args(["test", "rules"]).arg(folder.join("tests.yaml"));
    assert!(run(promtool).contains("SUCCESS"));
}

#[test]
#[ignore = "Grafana's linter takes minutes to build: cargo xtask monitoring"]
fn grafanas_linter_finds_nothing_in_the_dashboard() {
    let mut linter = program(Program::DashboardLinter);
    linter.args(["lint", "--strict", "--config"]);
    linter.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/installed/linter.yaml"));
    linter.arg(DASHBOARD);
    run(linter);
}
