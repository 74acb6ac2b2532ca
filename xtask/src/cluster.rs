//! `cargo xtask cluster up [--node]|down`: the cluster of the tests, for a person to play with.

use crate::{cargo, image, root, run, target};
use anyhow::{Context, bail, ensure};
use divvy_testbed::manifests::{GpuNode, cpu_node};
use divvy_testbed::node::{self, Node, Options};
use divvy_testbed::{ControlPlane, Kwok, KwokPods, Process, Program, Programs, cache, free_ports};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Names and process ids, in the order in which they are to be stopped.
type Running = Vec<(String, u32)>;

/// The program that a real node is below.
const NODE: &str = "unshare";

fn folder() -> PathBuf {
    cache().join("cluster")
}

pub fn up(with_node: bool) -> anyhow::Result<()> {
    let folder = folder();
    let mut say = |line: &str| println!("{line}");
    let programs = Programs::build(&mut say)?;
    if read(&folder).iter().any(|(name, id)| is_running(name, *id)) {
        println!("The cluster runs already; `cargo xtask cluster down` stops it.\n");
        say_how(&folder, &programs);
        return Ok(());
    }
    if with_node {
        node::prepare(&mut say)?;
    }
    println!("[1/4] building divvy");
    run(cargo(&["build", "--release", "--package", "divvy", "--bins"]))?;
    let divvy = target().join("release/divvy");
    println!("[2/4] starting etcd, the API server, controllers and kube-scheduler");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let mut plane = ControlPlane::start_with_controllers(&programs, &folder)?;
    // For pods that name no scheduler, as in every cluster.
    plane.start_kube_scheduler()?;
    let mut running = Running::new();
    if with_node {
        println!("[3/4] starting a node");
        create(&plane, &namespaces())?;
        let node = start_node(&plane, &divvy)?;
        println!("[4/4] applying deploy/");
        deploy(&plane, &node)?;
        running.push(node.detach());
    } else {
        println!("[3/4] making nodes");
        let kwok = Kwok { pods: KwokPods::Run, heartbeat: Duration::from_secs(15) };
        plane = plane.with_kwok(kwok)?;
        create(&plane, &objects())?;
        println!("[4/4] starting divvy");
        let scheduler = start_divvy(&divvy, &folder)?;
        running.push((scheduler.name().to_owned(), scheduler.id()));
        scheduler.detach();
    }
    running.extend(plane.ids());
    std::fs::write(folder.join("running.json"), serde_json::to_string(&running)?)?;
    plane.detach();
    println!();
    say_how(&folder, &programs);
    Ok(())
}

pub fn down() -> anyhow::Result<()> {
    let folder = folder();
    let running = read(&folder);
    if running.is_empty() {
        println!("No cluster is there.");
        return Ok(());
    }
    for (name, id) in &running {
        if is_running(name, *id) {
            kill(name, *id)?;
            if name == NODE {
                node::clean()?;
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;
    println!("The cluster is stopped and its files are deleted.");
    Ok(())
}

/// Several models, one node without GPUs, and one whose GPUs are time-sliced.
fn objects() -> Vec<Value> {
    let sliced = GpuNode { replicas: 4, ..GpuNode::T4 };
    let mut objects = vec![
        GpuNode::A100.node("a100-1"),
        GpuNode::A100.node("a100-2"),
        GpuNode::H100.node("h100-1"),
        GpuNode::L40S.node("l40s-1"),
        GpuNode::L40S.node("l40s-2"),
        GpuNode::T4.node("t4-1"),
        sliced.node("t4-sliced-1"),
        cpu_node("cpu-1"),
    ];
    objects.extend(namespaces());
    objects
}

/// Where the examples live.
fn namespaces() -> [Value; 2] {
    let namespace =
        |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    ["ml", "web"].map(namespace)
}

/// The real node, with busybox in the place of the images of the examples: none can be pulled.
fn start_node(plane: &ControlPlane, divvy: &Path) -> anyhow::Result<Node> {
    let node = Node::start(plane, Options::default())?;
    node.import(&image::of(image::NAME, divvy))?;
    let mut images = BTreeSet::new();
    for file in std::fs::read_dir(root().join("examples"))? {
        let text = std::fs::read_to_string(file?.path()).unwrap_or_default();
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("image: "));
        images.extend(names.map(with_registry));
    }
    for image in images {
        node.add_stand_in(&image)?;
    }
    Ok(node)
}

/// Deploys divvy into the cluster, as deploy/README.md says.
fn deploy(plane: &ControlPlane, node: &Node) -> anyhow::Result<()> {
    let mut files = vec!["namespaces".to_owned()];
    for file in std::fs::read_dir(root().join("deploy"))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        files.extend(
            name.strip_suffix(".yaml").filter(|n| n.starts_with("policy-")).map(Into::into),
        );
    }
    files.extend(["admission", "webhooks", "scheduler"].map(Into::into));
    for file in files {
        let file = root().join(format!("deploy/{file}.yaml"));
        let mut kubectl = plane.kubectl();
        kubectl.args(["apply", "-f"]).arg(&file).stdout(Stdio::null());
        ensure!(kubectl.status()?.success(), "kubectl apply -f {} failed", file.display());
    }
    for name in ["divvy-admission", "divvy-scheduler"] {
        let mut kubectl = plane.kubectl();
        kubectl.args([
            "rollout",
            "status",
            "--timeout=60s",
            "-n",
            "divvy-system",
            "deployment",
            name,
        ]);
        ensure!(kubectl.stdout(Stdio::null()).status()?.success(), "{name} does not run");
    }
    // There is no kube-proxy: the first of the two is the service.
    let service = get(plane, "service/divvy-admission", "{.spec.clusterIP}")?;
    let pods = "pods --selector=app.kubernetes.io/name=divvy-admission";
    let by = get(plane, pods, "{.items[0].status.podIP}")?;
    node.serve(SocketAddrV4::new(service.parse()?, 443), SocketAddrV4::new(by.parse()?, 8443))?;
    Ok(())
}

/// A field of an object of divvy's.
fn get(plane: &ControlPlane, what: &str, field: &str) -> anyhow::Result<String> {
    let mut kubectl = plane.kubectl();
    kubectl.args(["get", "-n", "divvy-system"]).args(what.split(' '));
    let output = kubectl.arg(format!("--output=jsonpath={field}")).output()?;
    ensure!(output.status.success(), "kubectl get {what} failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// An image's name with the registry that is meant where none is named.
fn with_registry(name: &str) -> String {
    match name.split_once('/') {
        None => format!("docker.io/library/{name}"),
        Some((registry, _)) if registry.contains('.') => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    }
}

fn create(plane: &ControlPlane, objects: &[Value]) -> anyhow::Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let mut kubectl = plane.kubectl();
    kubectl.args(["create", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut kubectl = kubectl.spawn()?;
    kubectl.stdin.take().context("kubectl takes no input")?.write_all(list.as_bytes())?;
    ensure!(kubectl.wait()?.success(), "kubectl create failed");
    Ok(())
}

fn start_divvy(divvy: &Path, folder: &Path) -> anyhow::Result<Process> {
    let [port] = free_ports()?;
    let mut command = Command::new(divvy);
    command.arg("scheduler").arg("--kubeconfig").arg(folder.join("kubeconfig"));
    command.args(["--leader-elect=false", "--takeover-wait=0"]);
    command.arg(format!("--listen=127.0.0.1:{port}"));
    let mut process = Process::start(command, "divvy", folder)?;
    let start = Instant::now();
    while !is_ready(port) {
        if let Some(status) = process.exited() {
            bail!("divvy ended with {status}; see {}", process.log().display());
        }
        ensure!(start.elapsed() < PATIENCE, "divvy is not ready; see {}", process.log().display());
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(process)
}

fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.lines().next().is_some_and(|line| line.contains(" 200 ")))
}

fn say_how(folder: &Path, programs: &Programs) {
    let kubectl = programs.path(Program::Kubectl);
    let divvy = target().join("release/divvy");
    println!("export KUBECONFIG={}", folder.join("kubeconfig").display());
    println!("export PATH={}:{}:$PATH", parent(&kubectl), parent(&divvy));
    println!("\nThen try:");
    let has_node = read(folder).iter().any(|(name, _)| name == NODE);
    let examples = match has_node {
        true => "examples/gpu-sharing.yaml -f examples/gpu-memory.yaml",
        false => "examples/",
    };
    println!("  kubectl apply -f {examples} && kubectl get pods -A -o wide");
    println!("  divvy top cards");
    if has_node {
        println!("  kubectl exec gpu-sharing -- ls /dev");
        println!("  kubectl get pods -n kai-resource-reservation -o wide");
        println!("\n{} is a real node with mock cards, and divvy runs on it.", Node::NAME);
    }
    println!("\nLogs are in {}.", folder.display());
}

fn parent(path: &Path) -> String {
    path.parent().map_or_else(String::new, |parent| parent.display().to_string())
}

/// What was started and not stopped, as far as is known.
fn read(folder: &Path) -> Running {
    let text = std::fs::read_to_string(folder.join("running.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Whether this process is still the program that was started: ids are used again.
fn is_running(name: &str, id: u32) -> bool {
    let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let program = command.split(|b| *b == 0).next().unwrap_or_default();
    Path::new(&*String::from_utf8_lossy(program)).file_name().is_some_and(|file| file == name)
}

fn kill(name: &str, id: u32) -> anyhow::Result<()> {
    ensure!(Command::new("kill").args(["-9", &id.to_string()]).status()?.success(), "kill failed");
    let start = Instant::now();
    while is_running(name, id) {
        ensure!(start.elapsed() < PATIENCE, "{name}, process {id}, does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
