//! One API server for all tests, which take turns, with all of `deploy/` and one server of
//! webhooks that runs in this process with the rights it has in a cluster.

use divvy_admission::{Certificates, Settings};
use divvy_api::Fence;
use divvy_testbed::api::{Api, ApiError, JSON};
use divvy_testbed::manifests::webhooks_at;
use divvy_testbed::{ControlPlane, Programs, free_ports};
use http::Method;
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

pub struct Cluster {
    pub plane: ControlPlane,
    pub runtime: Runtime,
    /// The administrator.
    pub admin: Api,
    /// Where the webhooks are.
    pub address: SocketAddr,
    tenants: usize,
}

/// The cluster; nothing if there is none on this machine.
pub fn cluster() -> Option<MutexGuard<'static, Cluster>> {
    static CLUSTER: OnceLock<Option<Mutex<Cluster>>> = OnceLock::new();
    let made = CLUSTER.get_or_init(|| {
        // A set-up that failed once would fail once more for every test.
        static TRIED: AtomicBool = AtomicBool::new(false);
        assert!(
            !TRIED.swap(true, Ordering::Relaxed),
            "see the first test for why there is no cluster"
        );
        // Nothing drops what is in a static, so the files of the last run go now.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("admission");
        let _ = std::fs::remove_dir_all(&folder);
        let programs = Programs::build(&mut |_| {});
        match programs.and_then(|p| ControlPlane::start_with_controllers(&p, &folder)) {
            Ok(plane) => Some(Mutex::new(Cluster::set_up(plane))),
            Err(why) => {
                // Not by println, which the test runner hides.
                let _ = writeln!(std::io::stdout(), "skipped: {why}");
                None
            }
        }
    });
    Some(made.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
}

pub const WEBHOOKS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/divvy",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/divvy",
];
pub const SECRET: &str = "/api/v1/namespaces/divvy-system/secrets/divvy-admission-tls";

impl Cluster {
    fn set_up(plane: ControlPlane) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let admin = runtime.block_on(Api::connect(&plane)).unwrap();
        let [port] = free_ports().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let cluster = Self { plane, runtime, admin, address, tenants: 0 };
        for file in [
            "namespaces",
            "admission",
            "policy-hand-off",
            "policy-reservations",
            "policy-visible-devices",
            "policy-deletions",
        ] {
            cluster.apply(&manifest(file));
        }
        // The API server refuses pods of a class that is not there.
        cluster.admin_create(&json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"}, "handler": "nvidia"}));
        cluster.point_webhooks_to(address);
        cluster.start_webhooks(address);
        cluster.wait_until_guarded();
        cluster
    }

    pub fn apply(&self, text: &str) {
        let file = self.plane.folder().join("applied.yaml");
        std::fs::write(&file, text).unwrap();
        let output = self.plane.kubectl().args(["apply", "-f"]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn point_webhooks_to(&self, address: SocketAddr) {
        self.apply(&webhooks_at(address, &manifest("webhooks")));
    }

    /// Starts a replica, as the ServiceAccount that it has in a cluster.
    pub fn start_webhooks(&self, address: SocketAddr) -> tokio::task::AbortHandle {
        self.start_webhooks_for(address, None)
    }

    /// The same; it takes reviews only from clients of this CA, if there is one.
    pub fn start_webhooks_for(
        &self,
        address: SocketAddr,
        client_ca: Option<PathBuf>,
    ) -> tokio::task::AbortHandle {
        let kubeconfig = self.kubeconfig_of("divvy-system", "divvy-admission");
        let settings = Settings {
            gpu_sharing: true,
            block_visible_devices: true,
            runtime_class: "nvidia".to_owned(),
            scheduler_names: vec!["divvy-scheduler".to_owned(), "kai-scheduler".to_owned()],
            max_grace_period: 600,
            isolation: None,
        };
        let certificates = Certificates::Own {
            namespace: "divvy-system".to_owned(),
            secret: "divvy-admission-tls".to_owned(),
            names: vec!["divvy-admission.divvy-system.svc".to_owned(), "127.0.0.1".to_owned()],
            mutating: "divvy".to_owned(),
            validating: "divvy".to_owned(),
        };
        let task = self.runtime.spawn(async move {
            let config = divvy_api::config(Some(&kubeconfig), None).await.unwrap();
            let api = divvy_api::Api::connect(config, Fence::open()).unwrap();
            let stop = std::future::pending();
            let client_ca = client_ca.as_deref();
            divvy_admission::run(api, settings, certificates, client_ca, address, stop)
                .await
                .unwrap();
        });
        task.abort_handle()
    }

    /// Policies and webhooks take a moment to be known to the API server.
    fn wait_until_guarded(&self) {
        self.runtime.block_on(self.admin.policies_act()).unwrap();
        self.admin_create(&namespace("guarded"));
        self.wait_for_account("guarded", "default");
        let share = with_share(pod("guarded", "share", "divvy-scheduler"), "7");
        let refused = "smaller than 1.0";
        eventually(refused, || is_about(&self.dry_create(&self.admin, &share), refused));
    }

    /// What would come of making a pod: the API server asks webhooks and policies, and stores nothing.
    pub fn dry_create(&self, api: &Api, pod: &Value) -> Result<Value, ApiError> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
        self.runtime.block_on(api.send(Method::POST, &path, JSON, Some(pod)))
    }

    pub fn admin_create(&self, object: &Value) -> Value {
        self.runtime.block_on(self.admin.create(object)).unwrap()
    }

    pub fn wait_for_account(&self, namespace: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}");
        eventually("the account is there", || self.runtime.block_on(self.admin.get(&path)).is_ok());
    }

    /// A kubeconfig with a token of a ServiceAccount.
    fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        self.wait_for_account(namespace, account);
        self.plane.kubeconfig_as(namespace, account).unwrap()
    }

    pub fn api_of(&self, namespace: &str, account: &str) -> Api {
        let kubeconfig = self.kubeconfig_of(namespace, account);
        self.runtime.block_on(Api::from_kubeconfig(&kubeconfig)).unwrap()
    }

    /// A fresh namespace with a ServiceAccount that may do what `edit` allows there, and debug.
    pub fn tenant(&mut self) -> (String, Api) {
        self.tenants += 1;
        let name = format!("tenant-{}", self.tenants);
        self.admin_create(&namespace(&name));
        self.admin_create(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": name, "name": "tenant"}}));
        self.admin_create(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"namespace": name, "name": "debug"},
            "rules": [{"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]}],
        }));
        self.grant(&name, "Role", "debug", &name, "tenant");
        self.grant(&name, "ClusterRole", "edit", &name, "tenant");
        self.wait_for_account(&name, "default");
        let api = self.api_of(&name, "tenant");
        (name, api)
    }

    /// Gives a ServiceAccount the rights of a role in a namespace, and waits until it has them.
    pub fn grant(&self, place: &str, kind: &str, role: &str, namespace: &str, account: &str) {
        self.admin_create(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"namespace": place, "name": format!("{namespace}-{account}-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
        }));
        let roles = "/apis/rbac.authorization.k8s.io/v1";
        let role = match kind {
            "ClusterRole" => format!("{roles}/clusterroles/{role}"),
            _ => format!("{roles}/namespaces/{place}/roles/{role}"),
        };
        let read = || self.runtime.block_on(self.admin.get(&role)).unwrap();
        // A controller gathers the rules of `edit`.
        eventually("the role allows something", || read()["rules"][0].is_object());
        self.wait_for_rights(place, &read(), namespace, account);
    }

    /// The API server hears of roles and of their bindings in its own time, and in no order. Who may do
    /// one thing that a role allows may do all of it.
    pub fn wait_for_rights(&self, place: &str, role: &Value, namespace: &str, account: &str) {
        let rule = &role["rules"][0];
        let (resource, part) = match rule["resources"][0].as_str().unwrap().split_once('/') {
            Some((resource, part)) => (json!(resource), part),
            None => (rule["resources"][0].clone(), ""),
        };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": format!("system:serviceaccount:{namespace}:{account}"),
                "resourceAttributes": {
                    "namespace": place, "verb": rule["verbs"][0], "group": rule["apiGroups"][0],
                    "resource": resource, "subresource": part,
                },
            },
        });
        eventually("it has its rights", || self.admin_create(&review)["status"]["allowed"] == true);
    }
}

/// A file of `deploy/`.
pub fn manifest(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join("deploy").join(format!("{name}.yaml"))).unwrap()
}

/// A webhook configuration or a policy is known within a second or two, a new CA within ten.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that the API server does in its own time.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not in {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub fn pod(namespace: &str, name: &str, scheduler: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "x"}]},
    })
}

pub fn with_share(mut pod: Value, fraction: &str) -> Value {
    pod["metadata"]["annotations"]["gpu-fraction"] = json!(fraction);
    pod
}

/// Whether it was refused with this text.
pub fn is_about(result: &Result<Value, ApiError>, text: &str) -> bool {
    matches!(result, Err(why) if why.to_string().contains(text))
}
