//! The commands of a person on a real API server: what they read, say and leave alone.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "common/output.rs"]
mod output;
#[path = "common/program.rs"]
mod program;

use divvy_testbed::manifests::{GpuNode, cpu_node, pod, with_fraction, with_gpus, with_memory};
use divvy_testbed::{ControlPlane, Process, Programs};
use output::{code, stderr, stdout};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

/// One cluster for all tests, which take turns. `None` if there is none on this machine.
fn cluster() -> Option<MutexGuard<'static, Cluster>> {
    static CLUSTER: OnceLock<Option<Mutex<Cluster>>> = OnceLock::new();
    let made = CLUSTER.get_or_init(|| {
        // Nothing drops what is in a static, so the files of the last run go now.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live");
        let _ = std::fs::remove_dir_all(&folder);
        let programs = Programs::build(&mut |_| {});
        match programs.and_then(|programs| ControlPlane::start(&programs, &folder)) {
            Ok(plane) => Some(Mutex::new(Cluster::fill(plane))),
            Err(why) => {
                // Not by println, which the test runner hides.
                let _ = writeln!(std::io::stdout(), "skipped: {why}");
                None
            }
        }
    });
    Some(made.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Cluster(ControlPlane);

impl Cluster {
    /// Two nodes with cards and one without; a share with a record, a whole card, and pods that
    /// wait for several schedulers.
    fn fill(plane: ControlPlane) -> Self {
        let cluster = Self(plane);
        let mut held = bound(with_fraction(ours("held"), "0.25", 1), "a100-1");
        held["metadata"]["annotations"]["divvy.dev/cards"] = "3:21474836480".into();
        held["spec"]["containers"][0]["env"] = json!([{"name": "TOKEN", "value": "hunter2"}]);
        held["spec"]["containers"][0]["command"] = json!(["serve", "--password=hunter2"]);
        held["spec"]["volumes"] = json!([
            {"name": "code", "gitRepo": {"repository": "https://me:hunter2@example.com/"}},
            {"name": "data", "flexVolume": {"driver": "x/y", "options": {"password": "hunter2"}}},
        ]);
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "high"}, "value": 1000});
        let namespaces = ["ml", "kai-scheduler"].map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        let mut kai = bound(pod("kai-scheduler", "kai-scheduler-default-1", "x"), "cpu-1");
        kai["metadata"]["labels"] = json!({"app": "kai-scheduler-default"});
        let objects = [
            GpuNode { cards: 4, ..GpuNode::A100 }.node("a100-1"),
            GpuNode::T4.node("t4-1"),
            cpu_node("cpu-1"),
            class,
            held,
            bound(with_gpus(pod("ml", "train", "default-scheduler"), 3), "a100-1"),
            with_memory(ours("too-large"), 98_304),
            with_fraction(ours("fits"), "0.5", 1),
            with_fraction(pod("ml", "theirs", "default-scheduler"), "0.5", 1),
            with_fraction(pod("ml", "kais", "kai-scheduler"), "0.5", 1),
            kai,
        ];
        for object in namespaces.iter().chain(&objects) {
            cluster.create(object);
        }
        cluster
    }

    fn create(&self, object: &Value) {
        let mut child = self
            .0
            .kubectl()
            .args(["create", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{object}");
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let output = self.0.kubectl().args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.folder().join(name)
    }

    fn divvy(&self, args: &[&str]) -> Output {
        run(&self.0.kubeconfig(), args)
    }

    /// A kubeconfig for a service account that may list these resources and nothing else.
    fn kubeconfig_of(&self, user: &str, resources: &str) -> PathBuf {
        self.kubectl(&["create", "serviceaccount", user]);
        let account = format!("--serviceaccount=default:{user}");
        if !resources.is_empty() {
            let resources = format!("--resource={resources}");
            self.kubectl(&["create", "clusterrole", user, "--verb=list", &resources]);
            let role = format!("--clusterrole={user}");
            self.kubectl(&["create", "clusterrolebinding", user, &role, &account]);
        }
        let token = self.kubectl(&["create", "token", user]);
        let text = std::fs::read_to_string(self.0.kubeconfig()).unwrap();
        let path = self.file(&format!("kubeconfig-{user}"));
        std::fs::write(&path, text.replace(self.0.token(), token.trim())).unwrap();
        path
    }
}

fn ours(name: &str) -> Value {
    pod("ml", name, "divvy-scheduler")
}

fn bound(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn command(kubeconfig: &Path) -> Command {
    let mut command = program::divvy();
    command.env("KUBECONFIG", kubeconfig).env_remove("HTTPS_PROXY").env_remove("https_proxy");
    command
}

fn run(kubeconfig: &Path, args: &[&str]) -> Output {
    command(kubeconfig).args(args).output().unwrap()
}

#[test]
fn a_saved_cluster_is_rehearsed_as_the_live_one_is() {
    let Some(cluster) = cluster() else { return };
    let manifest = cluster.file("new.json");
    let new = with_fraction(pod("ml", "new", "divvy-scheduler"), "0.25", 1);
    std::fs::write(&manifest, new.to_string()).unwrap();
    let manifest = manifest.to_str().unwrap();
    let live = cluster.divvy(&["simulate", "--from-cluster", "-f", manifest, "-o", "json"]);
    assert_eq!(code(&live), 2, "{}", stderr(&live));
    let outcome: Value = serde_json::from_slice(&live.stdout).unwrap();
    let names: Vec<&str> =
        outcome["pods"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    let said = stderr(&live);
    assert!(said.contains("note: left to default-scheduler: 1 of the pending pods"), "{said}");
    assert!(said.contains("note: left to kai-scheduler: 1 of the pending pods"), "{said}");
    assert_eq!(names, ["fits", "too-large", "new"], "pods of other schedulers do not wait here");
    for name in ["now.yaml", "now.json"] {
        let file = cluster.file(name);
        let file = file.to_str().unwrap();
        let saved = cluster.divvy(&["snapshot", "--output-file", file]);
        assert_eq!(code(&saved), 0, "{}", stderr(&saved));
        assert!(stderr(&saved).contains("7 Pod, 3 Node"), "{}", stderr(&saved));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("managedFields"), "{text}");
        let rehearsed =
            cluster.divvy(&["simulate", "--cluster", file, "-f", manifest, "-o", "json"]);
        assert_eq!(stdout(&rehearsed), stdout(&live), "{name}: {}", stderr(&rehearsed));
        let top = |more: &[&str]| stdout(&cluster.divvy(&[&["top", "cards"], more].concat()));
        assert_eq!(top(&["--cluster", file]), top(&[]));
    }
    let printed = cluster.divvy(&["snapshot"]);
    let saved = std::fs::read_to_string(cluster.file("now.yaml")).unwrap();
    assert_eq!(stdout(&printed), saved, "{}", stderr(&printed));
}

#[test]
fn a_live_pod_is_explained_with_the_sentence_of_its_event() {
    let Some(cluster) = cluster() else { return };
    let output = cluster.divvy(&["explain", "pod", "ml/too-large"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(
        text.lines().next().unwrap(),
        "ml/too-large is pending: 0/3 nodes are available: 1 largest card 80.0 GiB < 96.0 GiB \
         asked, 1 largest card 15.0 GiB < 96.0 GiB asked, 1 no GPU.",
    );
    let json = cluster.divvy(&["explain", "pod", "too-large", "-n", "ml", "-o", "json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(text.contains(json["message"].as_str().unwrap()));
    let placed = cluster.divvy(&["explain", "pod", "ml/held"]);
    assert!(stdout(&placed).starts_with("ml/held runs on a100-1 card 3"), "{}", stdout(&placed));
}

#[test]
fn pods_of_other_schedulers_are_said_to_be_theirs() {
    let Some(cluster) = cluster() else { return };
    for (pod, answer) in [
        ("ml/theirs", "ml/theirs is scheduled by default-scheduler, not by divvy"),
        ("ml/kais", "ml/kais is scheduled by kai-scheduler, not by divvy"),
        ("ml/train", "ml/train runs on a100-1 cards 0-2 (3 GPUs), placed by default-scheduler"),
    ] {
        let output = cluster.divvy(&["explain", "pod", pod]);
        let text = stdout(&output);
        assert_eq!(text.lines().next().unwrap_or_default(), answer, "{}", stderr(&output));
    }
    let theirs = cluster.divvy(&[
        "explain",
        "pod",
        "ml/theirs",
        "--scheduler-names",
        "default-scheduler",
        "-o",
        "json",
    ]);
    let json: Value = serde_json::from_slice(&theirs.stdout).unwrap();
    assert_eq!(json["state"], "placed");
    let top = cluster.divvy(&["top", "pods", "-n", "ml"]);
    assert!(stderr(&top).contains("KAI's scheduler runs in this cluster"), "{}", stderr(&top));
    assert!(stdout(&top).contains("held") && !stdout(&top).contains("too-large"));
    assert!(!stdout(&cluster.divvy(&["top", "pods", "-n", "default"])).contains("held"));
}

#[test]
fn a_server_that_does_not_answer_is_named_with_what_to_do() {
    let Some(cluster) = cluster() else { return };
    let [port] = divvy_testbed::free_ports().unwrap();
    let url = format!("https://127.0.0.1:{port}");
    let dead = cluster.0.kubeconfig_through("kubeconfig-dead", &url).unwrap();
    let output = run(&dead, &["top", "nodes"]);
    assert_eq!(code(&output), 1);
    let said = stderr(&output);
    for part in [&*url, "Connection refused", "--context", "--kubeconfig"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // Without --from-cluster nothing is contacted.
    let manifest = cluster.file("one.json");
    std::fs::write(&manifest, with_fraction(ours("one"), "0.5", 1).to_string()).unwrap();
    let output = run(&dead, &["simulate", "-f", manifest.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = run(&dead, &["explain", "pod", "ml/one", "-f", manifest.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn a_kubeconfig_that_is_not_there_is_told_with_the_ways_out() {
    let nowhere = Path::new("/nonexistent/kubeconfig");
    for args in [&["top"][..], &["explain", "pod", "x"], &["simulate", "--from-cluster"]] {
        let output = run(nowhere, args);
        assert_eq!(code(&output), 1, "{args:?}");
        let said = stderr(&output);
        assert!(said.contains("/nonexistent/kubeconfig"), "{said}");
        assert!(said.contains("--cluster FILE") && said.contains("--cluster embedded"), "{said}");
    }
    let output = run(nowhere, &["simulate", "-f", "x", "--context", "prod"]);
    assert!(stderr(&output).contains("add --from-cluster"), "{}", stderr(&output));
    let output = run(nowhere, &["top", "--cluster", "embedded"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

#[test]
fn a_user_who_may_not_list_is_told_which_verb_and_resource() {
    let Some(cluster) = cluster() else { return };
    let nobody = cluster.kubeconfig_of("nobody", "");
    let output = run(&nobody, &["explain", "pod", "ml/held"]);
    assert_eq!(code(&output), 1);
    let said = stderr(&output);
    assert!(said.contains("not allowed to list pods in all namespaces"), "{said}");
    assert!(said.contains("the verb `list` on pods"), "{said}");
    let viewer = cluster.kubeconfig_of("viewer", "pods,nodes,namespaces");
    assert_eq!(code(&run(&viewer, &["top", "cards"])), 0);
    let output = run(&viewer, &["snapshot"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("note: storageclasses.storage.k8s.io are left out: not allowed"),
        "{said}"
    );
    assert!(!said.contains("namespaces are left out"), "{said}");
}

#[test]
fn kubectl_finds_divvy_as_a_plugin_and_completes_it() {
    let Some(cluster) = cluster() else { return };
    let bin = cluster.file("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for name in ["kubectl-divvy", "kubectl_complete-divvy"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_divvy"), bin.join(name)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let kubectl = |args: &[&str]| {
        let program = cluster.0.kubectl().get_program().to_owned();
        let mut command = Command::new(program);
        command.args(args).env("PATH", &path).env("KUBECONFIG", cluster.0.kubeconfig());
        command.output().unwrap()
    };
    let top = kubectl(&["divvy", "top", "nodes"]);
    assert_eq!(stdout(&top), stdout(&cluster.divvy(&["top", "nodes"])), "{}", stderr(&top));
    let help = stdout(&kubectl(&["divvy", "explain", "pod", "--help"]));
    assert!(help.contains("Usage: kubectl divvy explain pod"), "{help}");
    assert!(help.contains("  kubectl divvy explain pod ml/triton-9"), "{help}");
    let wrong = stderr(&kubectl(&["divvy", "top", "sideways"]));
    assert!(wrong.contains("sideways"), "{wrong}");
    let completed = stdout(&kubectl(&["__complete", "divvy", "top", "c"]));
    assert!(completed.starts_with("cards\tOne row a card\n"), "{completed}");
}

/// A program that goes on, and its lines, each of which must come before long.
struct Lines(Child, mpsc::Receiver<String>);

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Lines {
    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (tell, told) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|l| tell.send(l))
        });
        Self(child, told)
    }

    /// Reads up to the line that contains this.
    fn until(&self, part: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.contains(part)) {
            let line = self.1.recv_timeout(Duration::from_secs(120));
            lines.push(line.unwrap_or_else(|_| panic!("no {part} in {lines:?}")));
        }
        lines
    }
}

#[test]
fn a_watched_list_is_printed_again_when_something_changes_until_ctrl_c() {
    let Some(cluster) = cluster() else { return };
    let mut top = command(&cluster.0.kubeconfig());
    top.args(["top", "pods", "-n", "ml", "--watch"]);
    let mut lines = Lines::of(top);
    lines.until("KAI's scheduler runs");
    cluster.create(&bound(with_gpus(ours("later"), 1), "t4-1"));
    let block = lines.until("later");
    assert_eq!(block[0], "", "blocks are apart: {block:?}");
    assert!(block.iter().any(|line| line.contains("held")), "all of it again: {block:?}");
    lines.until("KAI's scheduler runs");
    cluster.kubectl(&["delete", "pod", "-n", "ml", "later", "--grace-period=0", "--force"]);
    let block = lines.until("KAI's scheduler runs");
    assert!(!block.iter().any(|line| line.contains("later")), "{block:?}");
    let interrupt = ["-INT".to_owned(), lines.0.id().to_string()];
    assert!(Command::new("kill").args(interrupt).status().unwrap().success());
    assert_eq!(lines.0.wait().unwrap().code(), Some(0));
}

#[test]
fn explain_says_what_the_scheduler_wrote_on_the_pod() {
    let Some(cluster) = cluster() else { return };
    let mut scheduler = command(&cluster.0.kubeconfig());
    scheduler
        .args(["scheduler", "--leader-elect=false", "--takeover-wait=0", "--listen", "127.0.0.1:0"])
        .args(["--scheduler-names", "teller", "--log-level", "error"]);
    let scheduler = Process::start(scheduler, "scheduler", cluster.0.folder()).unwrap();
    cluster.create(&with_memory(pod("ml", "told", "teller"), 98_304));
    let jsonpath = "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].message}";
    let unscheduled = "--for=condition=PodScheduled=false";
    cluster.kubectl(&["wait", "pod/told", "-n", "ml", unscheduled, "--timeout=120s"]);
    let condition = cluster.kubectl(&["get", "pod", "told", "-n", "ml", "-o", jsonpath]);
    let of_pod = "--field-selector=involvedObject.name=told,reason=FailedScheduling";
    let message = "jsonpath={.items[0].message}";
    // Events are written beside conditions, so it may come a moment later.
    let event = wait_for(|| {
        let text = cluster.kubectl(&["get", "events", "-n", "ml", of_pod, "-o", message]);
        (!text.is_empty()).then_some(text)
    });
    let output =
        cluster.divvy(&["explain", "pod", "ml/told", "--scheduler-names", "teller", "-o", "json"]);
    let explanation: Value = serde_json::from_slice(&output.stdout).unwrap();
    drop(scheduler);
    cluster.kubectl(&["delete", "pod", "told", "-n", "ml", "--grace-period=0", "--force"]);
    assert!(condition.starts_with("0/3 nodes are available: 1 largest card 80.0"), "{condition}");
    assert_eq!(explanation["message"], *condition);
    assert_eq!(event, condition);
}

#[test]
fn a_certificate_that_is_not_checked_is_said_once_and_not_for_each_connection() {
    let Some(cluster) = cluster() else { return };
    for format in ["text", "json"] {
        let mut scheduler = command(&cluster.0.kubeconfig());
        scheduler.args(["scheduler", "--leader-elect=false", "--listen", "127.0.0.1:0"]).args([
            "--scheduler-names",
            "unchecked",
            "--log-format",
            format,
        ]);
        let name = format!("scheduler-{format}");
        let scheduler = Process::start(scheduler, &name, cluster.0.folder()).unwrap();
        // By then each watch has its connection, and the binding one more.
        let pod_name = format!("unchecked-{format}");
        cluster.create(&pod("ml", &pod_name, "unchecked"));
        let pod_name = format!("pod/{pod_name}");
        cluster.kubectl(&[
            "wait",
            &pod_name,
            "-n",
            "ml",
            "--for=condition=PodScheduled",
            "--timeout=120s",
        ]);
        let log = std::fs::read_to_string(scheduler.log()).unwrap();
        drop(scheduler);
        cluster.kubectl(&["delete", &pod_name, "-n", "ml", "--grace-period=0", "--force"]);
        assert_eq!(log.matches("certificate is not checked").count(), 1, "{log}");
        assert!(!log.contains("bypassed"), "{log}");
    }
}

/// Asks until there is an answer.
fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no answer in two minutes");
}

/// Step 9 of the recipe, and pods with mistakes that the API server refuses or accepts in silence.
const MISTAKEN: &str = r#"# Step 9 of the recipe.
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: nvidia.com/shared-gpu
spec:
  selectors:
  - cel:
      expression: 'device.driver == "nvidia.com/gpu"'
  config:
    opaque:
      driver: nvidia.com/gpu
      parameters:
        sharing:
          strategy: TimeSlicing
          replicas: 4
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: shared-gpu-claim
  namespace: ml
spec:
  spec:
    devices:
      requests:
      - name: gpu
        deviceClassName: nvidia.com/shared-gpu
        count: 1
---
apiVersion: v1
kind: Pods
metadata:
  name: notebook # a quarter
  namespace: ml
  label: {runai/queue: development}
spec:
  schedulername: kai-schedular
  containers:
  - name: jupyter
    image: jupyter
    resource:
      limit:
        nvidia.com/gpu: 0.25
---
apiVersion: extensions/v1beta1
kind: Deployment
metadata:
  name: server
  namespace: ml
  annotation:
    gpu_memory: "2000"
spec:
  template:
    metadata:
      labels: {app: server}
    spec:
      containers:
      - {name: server, image: server}
---
{"apiVersion": "v1", "kind": "pod", "metadata": {"name": "hami", "namespace": "ml"},
 "spec": {"schedulerName": "hami-scheduler", "containers": [{"name": "c", "image": "c",
  "resources": {"limits": {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: unnamed, namespace: ml}
spec:
  containers:
  - {name: c, image: c, resources: {limits: {nvidia.com/gpumem: 3000}}} # HAMi's webhook named the scheduler
"#;

#[test]
fn what_lint_mends_is_accepted_by_the_api_server() {
    let Some(cluster) = cluster() else { return };
    let path = cluster.file("mistaken.yaml");
    let path = path.to_str().unwrap();
    std::fs::write(path, MISTAKEN).unwrap();
    let dry_run = || {
        let args = ["create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", path];
        cluster.0.kubectl().args(args).output().unwrap()
    };
    assert!(!dry_run().status.success());
    let mended = cluster.divvy(&["lint", "-f", path, "--fix"]);
    assert_eq!(code(&mended), 0, "{}{}", stdout(&mended), stderr(&mended));
    let accepted = dry_run();
    assert!(
        accepted.status.success(),
        "{}\n{}",
        stderr(&accepted),
        std::fs::read_to_string(path).unwrap()
    );
    let all = stdout(&accepted);
    let kinds = [
        "deviceclass",
        "resourceclaimtemplate",
        "pod/notebook",
        "deployment",
        "pod/hami",
        "pod/unnamed",
    ];
    assert_eq!(all.lines().count(), kinds.len(), "{all}");
    assert!(kinds.into_iter().all(|kind| all.contains(kind)), "{all}");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.matches("schedulerName: divvy-scheduler").count(), 2, "{text}");
    assert_eq!(text.matches("\"schedulerName\": \"divvy-scheduler\"").count(), 1, "{text}");
}

#[test]
fn lint_knows_every_field_that_the_api_server_knows() {
    let Some(cluster) = cluster() else { return };
    let schema = |path: &str, name: &str| -> Value {
        let all = cluster.kubectl(&["get", "--raw", &format!("/openapi/v3/{path}")]);
        let all: Value = serde_json::from_str(&all).unwrap();
        all["components"]["schemas"][format!("io.k8s.{name}")]["properties"].clone()
    };
    let fields = |path: &str, name: &str| -> serde_json::Map<String, Value> {
        let properties = schema(path, name);
        let names = properties.as_object().unwrap_or_else(|| panic!("no {name}")).keys();
        names.map(|name| (name.clone(), Value::Null)).collect()
    };
    let core = |name: &str| fields("api/v1", &format!("api.core.v1.{name}"));
    let meta = fields("api/v1", "apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let mut container = core("Container");
    container.insert("resources".to_owned(), core("ResourceRequirements").into());
    let mut spec = core("PodSpec");
    spec.insert("containers".to_owned(), json!([container]));
    let mut template = core("PodTemplateSpec");
    template.insert("metadata".to_owned(), meta.clone().into());
    template.insert("spec".to_owned(), spec.into());
    let mut all = Vec::new();
    for (group, kind) in [
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "ReplicaSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
    ] {
        let (path, name) = (format!("apis/{group}/v1"), format!("api.{group}.v1.{kind}"));
        let mut spec = fields(&path, &format!("{name}Spec"));
        spec.insert("template".to_owned(), template.clone().into());
        let mut object = fields(&path, &name);
        object.insert("apiVersion".to_owned(), format!("{group}/v1").into());
        object.insert("kind".to_owned(), kind.into());
        object.insert("metadata".to_owned(), meta.clone().into());
        object.insert("spec".to_owned(), spec.into());
        all.push(Value::Object(object).to_string());
    }
    let mut claim = fields("apis/resource.k8s.io/v1", "api.resource.v1.DeviceClaim");
    let mut request = fields("apis/resource.k8s.io/v1", "api.resource.v1.DeviceRequest");
    let exact = fields("apis/resource.k8s.io/v1", "api.resource.v1.ExactDeviceRequest");
    request.insert("exactly".to_owned(), exact.into());
    claim.insert("requests".to_owned(), json!([request]));
    let object = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta,
        "spec": {"devices": claim}});
    all.push(object.to_string());
    let path = cluster.file("fields.json");
    std::fs::write(&path, all.join("\n")).unwrap();
    let output = cluster.divvy(&["lint", "-f", path.to_str().unwrap(), "-o", "json"]);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let unknown: Vec<&Value> = findings.filter(|f| f["name"] == "UnknownField").collect();
    assert_eq!(unknown, [&Value::Null; 0]);
}
