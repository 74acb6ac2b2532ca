//! `divvy admission` in a process of its own, under reviews that come at a steady rate whether it
//! keeps up or not. What is late because all connections were busy counts as late.

mod creates;
mod pace;

use crate::e2e::cost::{cpu_ms, peak_mb, quantile};
use anyhow::ensure;
use clap::Args;
use divvy_testbed::manifests::hand_off_variables;
use divvy_testbed::{Process, free_ports};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use pace::{Pace, ms};
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[derive(Args)]
pub struct Options {
    /// Reviews a second
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// For how many seconds
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Connections that are kept open
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// The size of a review in bytes
    #[arg(long, default_value_t = 8192)]
    bytes: usize,
    /// Pods a second that are created on a real API server, with and without the webhooks; 0 for
    /// none
    #[arg(long, default_value_t = 200)]
    creates: u32,
    /// The binary [default: the one beside this]
    #[arg(long)]
    divvy: Option<PathBuf>,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("divvy-admission-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let measured = runtime.block_on(async {
        measure(options, &folder).await?;
        if options.creates > 0 {
            creates::measure(options, &folder).await?;
        }
        Ok(())
    });
    std::fs::remove_dir_all(&folder)?;
    measured
}

async fn measure(options: &Options, folder: &Path) -> anyhow::Result<()> {
    let Options { rate, seconds, connections, bytes, .. } = options;
    let server = Server::start(options, folder)?;
    server.until_ready().await?;
    println!(
        "{rate} reviews/s of {bytes} bytes for {seconds} s over {connections} TLS connections; ms\n"
    );
    println!(
        "{:<10} {:>8} {:>8} {:>8} {:>8} {:>10}",
        "page", "done/s", "p50", "p99", "most", "CPU each"
    );
    let mut bare = None;
    for (page, body) in [
        ("livez", None),
        ("mutate", Some(review(*bytes, false))),
        ("validate", Some(review(*bytes, true))),
    ] {
        let before = cpu_ms(server.process.id())?;
        let (late, done) = server.bear(options, page, body).await?;
        let cpu = (cpu_ms(server.process.id())? - before) / f64::from(rate * seconds);
        let part = |part| quantile(&late, part);
        println!(
            "{page:<10} {done:>8.0} {:>8.2} {:>8.2} {:>8.2} {cpu:>10.3}",
            part(0.5),
            part(0.99),
            part(1.0)
        );
        match bare {
            None => bare = Some(cpu),
            Some(bare) => println!("{:<10} {:.1} times the CPU of livez", "", cpu / bare),
        }
    }
    println!("\npeak memory {:.0} MB", peak_mb(server.process.id())?);
    Ok(())
}

fn divvy(options: &Options) -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("divvy");
    Ok(options.divvy.clone().unwrap_or(beside))
}

struct Server {
    process: Process,
    address: SocketAddr,
    tls: TlsConnector,
}

impl Server {
    fn start(options: &Options, folder: &Path) -> anyhow::Result<Self> {
        let [port] = free_ports()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).map(|()| path)
        };
        // It wants to know a cluster, and with a certificate from files never asks it.
        let nobody = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "none",
            "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "none", "user": {}}],
            "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        });
        let mut command = Command::new(divvy(options)?);
        command.args(["admission", "--gpu-sharing", "--log-level=warn", "--listen"]);
        command.arg(address.to_string());
        command.arg("--kubeconfig").arg(file("kubeconfig", &nobody.to_string())?);
        command.arg("--tls-cert").arg(file("tls.crt", &made.cert.pem())?);
        command.arg("--tls-key").arg(file("tls.key", &made.signing_key.serialize_pem())?);
        let process = Process::start(command, "divvy-admission", folder)?;
        Ok(Self { process, address, tls: client(made.cert.der())? })
    }

    async fn until_ready(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        while let Err(why) = self.connect().await {
            ensure!(start.elapsed() < Duration::from_secs(30), "divvy admission: {why:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// How late each answer was, in milliseconds, and how many there were a second.
    async fn bear(
        &self,
        options: &Options,
        page: &'static str,
        body: Option<Bytes>,
    ) -> anyhow::Result<(Vec<f64>, f64)> {
        let mut senders = Vec::new();
        for _ in 0..options.connections {
            senders.push(self.connect().await?);
        }
        let pace = Pace::start(options.rate, options.rate * options.seconds);
        let load = Arc::new(Load { page, body, pace });
        let mut tasks = tokio::task::JoinSet::new();
        for sender in senders {
            tasks.spawn(Arc::clone(&load).send(sender));
        }
        let mut late = Vec::new();
        while let Some(done) = tasks.join_next().await {
            late.extend(done??);
        }
        Ok((late, load.pace.done_per_second()))
    }
}

fn client(ca: &CertificateDer<'static>) -> anyhow::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

struct Load {
    page: &'static str,
    body: Option<Bytes>,
    pace: Pace,
}

impl Load {
    /// Sends whatever is due next until all is sent.
    async fn send(
        self: Arc<Self>,
        mut sender: SendRequest<Full<Bytes>>,
    ) -> anyhow::Result<Vec<f64>> {
        let mut late = Vec::new();
        while let Some((at, begin)) = self.pace.due().await {
            let method = if self.body.is_some() { "POST" } else { "GET" };
            let request = Request::builder()
                .method(method)
                .uri(format!("/{}", self.page))
                .header("host", "divvy-admission")
                .body(Full::new(self.body.clone().unwrap_or_default()))?;
            let response = sender.send_request(request).await?;
            ensure!(response.status().is_success(), "/{}: {}", self.page, response.status());
            let text = response.into_body().collect().await?.to_bytes();
            late.push(ms(begin));
            if at == 0 && self.body.is_some() {
                let answer: Value = serde_json::from_slice(&text)?;
                let is_allowed = answer["response"]["allowed"].as_bool();
                ensure!(is_allowed == Some(true), "the pod was refused: {answer}");
            }
        }
        Ok(late)
    }
}

/// A review of a share pod of two containers, as large as asked for by what else pods carry. With
/// its variables if it is to be accepted.
fn review(bytes: usize, is_prepared: bool) -> Bytes {
    let (share, void) = if is_prepared {
        (hand_off_variables(), json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]))
    } else {
        (json!([]), json!([]))
    };
    let build = |fields: usize| {
        let managed: Vec<Value> = (0..fields)
            .map(|i| json!({format!("k:{{\"name\":\"field-{i}\"}}"): {".": {}, "f:name": {}, "f:value": {}}}))
            .collect();
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "5d3b5b0e-7c1e-4a6f-9d0b-0d2f5b8f4c11", "operation": "CREATE",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "namespace": "ml", "name": "trainer-0",
                "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
                "object": {
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {
                        "namespace": "ml", "name": "trainer-0", "labels": {"app": "trainer"},
                        "annotations": {"gpu-fraction": "0.5"},
                        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": managed}}],
                    },
                    "spec": {
                        "schedulerName": "divvy-scheduler",
                        "containers": [
                            {"name": "main", "image": "trainer:1", "env": share,
                                "resources": {"requests": {"cpu": "2", "memory": "8Gi"}}},
                            {"name": "log", "image": "log:1", "env": void},
                        ],
                    },
                },
            },
        })
        .to_string()
    };
    let mut text = build(0);
    let mut fields = 0;
    while text.len() < bytes {
        fields += 1;
        text = build(fields);
    }
    Bytes::from(text)
}
