//! `divvy admission`, with the webhooks of `deploy/` before the pods of both tenants.

use super::watcher::Door;
use crate::arena::{Arena, PATIENCE, pod_of};
use crate::program;
use crate::tls::trusting;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_testbed::api::JSON;
use divvy_testbed::manifests::{webhooks_at, with_fraction};
use divvy_testbed::{Process, free_ports};
use http::Method;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/divvy";

/// Namespaces with this label are guarded: the API server may go on asking the webhooks of a test that
/// is over.
pub const GUARDED: &str = "besieged";

pub struct Webhooks {
    pub process: Process,
    pub door: Door,
}

impl Webhooks {
    /// Starts one replica and waits until pods of this namespace go through it.
    pub async fn start(arena: &Arena, namespace: &str) -> Self {
        let metadata = json!({"namespace": "divvy-system", "name": "divvy-admission-tls"});
        for object in [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "divvy-system"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}),
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
                "metadata": {"name": "nvidia"}, "handler": "nvidia"}),
        ] {
            arena.api.create(&object).await.unwrap();
        }
        let [port] = free_ports().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        register(arena, address);
        let mut command = program::divvy();
        command.arg("admission").arg("--kubeconfig").arg(arena.plane.kubeconfig());
        command.args(["--gpu-sharing", "--tls-names=127.0.0.1", "--listen"]);
        command.arg(address.to_string());
        let process = Process::start(command, "admission", arena.plane.folder()).unwrap();
        let known = until_known(arena, namespace);
        let waited = tokio::time::timeout(PATIENCE, known).await;
        assert!(waited.is_ok(), "no pod goes through the webhooks: {}", log(&process));
        let configuration = arena.api.get(CONFIGURATION).await.unwrap();
        let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap();
        let ca = CertificateDer::from_pem_slice(&BASE64_STANDARD.decode(bundle).unwrap()).unwrap();
        Self { process, door: Door { address, tls: Some(trusting(ca)) } }
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.process.kill();
        let log = log(&self.process);
        if !std::thread::panicking() {
            assert!(!log.contains("panicked at"), "{log}");
        }
    }
}

fn log(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap_or_default()
}

fn register(arena: &Arena, address: SocketAddr) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/webhooks.yaml");
    let text = webhooks_at(address, &std::fs::read_to_string(manifest).unwrap());
    let selector = "namespaceSelector:\n";
    let guarded = format!("{selector}    matchLabels: {{{GUARDED}: \"yes\"}}\n");
    let file = arena.plane.folder().join("webhooks.yaml");
    std::fs::write(&file, text.replace(selector, &guarded)).unwrap();
    let applied = arena.plane.kubectl().args(["apply", "-f"]).arg(&file).output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
}

/// Asks, and stores nothing, until a share that makes no sense is refused by divvy and one that does
/// comes back prepared: each webhook is known by itself.
async fn until_known(arena: &Arena, namespace: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let share = |name: &str, fraction| with_fraction(pod_of(namespace, name), fraction, 1);
    let (wrong, right) = (share("wrong", "7"), share("right", "0.5"));
    loop {
        let wrong = arena.api.send(Method::POST, &path, JSON, Some(&wrong)).await;
        let right = arena.api.send(Method::POST, &path, JSON, Some(&right)).await;
        let is_refused = wrong.is_err_and(|why| why.to_string().contains("smaller than 1.0"));
        let is_prepared =
            right.is_ok_and(|pod: Value| !pod["spec"]["containers"][0]["env"].is_null());
        if is_refused && is_prepared {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
