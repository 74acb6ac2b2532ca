//! A `divvy` process that answers on a port, and its honest clients.

use crate::program;
use crate::tls::trusting;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_testbed::{Process, free_ports};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Against a test that hangs; a busy machine takes a while.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// As whom honest clients come.
const HONEST: [u8; 4] = [127, 0, 0, 1];

pub type Client = SendRequest<Full<Bytes>>;

pub struct Server {
    pub process: Process,
    pub address: SocketAddr,
    /// Its certificate, which is its own CA, and who believes it.
    tls: Option<(String, TlsConnector)>,
}

impl Server {
    /// `divvy admission` with a certificate from files, which knows no cluster.
    pub async fn admission(name: &str) -> Self {
        let folder = folder(name);
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut command = program::divvy();
        command.args(["admission", "--gpu-sharing"]);
        command.arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
        let tls = (made.cert.pem(), trusting(made.cert.der().clone()));
        Self::start(command, &folder, Some(tls)).await
    }

    /// `divvy scheduler`, which asks for a lease that nobody gives.
    pub async fn scheduler(name: &str) -> Self {
        let mut command = program::divvy();
        command.arg("scheduler");
        Self::start(command, &folder(name), None).await
    }

    async fn start(
        mut command: Command,
        folder: &Path,
        tls: Option<(String, TlsConnector)>,
    ) -> Self {
        let nobody = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "none",
            "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "none", "user": {}}],
            "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        });
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, nobody.to_string()).unwrap();
        let [port] = free_ports().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        command.arg("--kubeconfig").arg(kubeconfig).arg("--listen").arg(address.to_string());
        let process = Process::start(command, "divvy", folder).unwrap();
        let server = Self { process, address, tls };
        let ready = async {
            while server.page("/readyz").await.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.unwrap();
        server
    }

    /// The text of a page, asked for as a kubelet does, on a connection of its own; nothing if the
    /// answer is not 200.
    pub async fn page(&self, path: &str) -> Option<String> {
        let request = Request::get(path).header("host", "x").body(Full::default()).unwrap();
        let (status, text) = send(&mut self.connect(HONEST).await?, request).await?;
        (status == StatusCode::OK).then_some(text)
    }

    /// A connection from this address.
    pub async fn connect(&self, from: [u8; 4]) -> Option<Client> {
        match &self.tls {
            None => client(stream(from, self.address).await.ok()?).await,
            Some(_) => client(self.secured(from).await?).await,
        }
    }

    /// The same before anything is said on it, of a server with TLS.
    pub async fn secured(&self, from: [u8; 4]) -> Option<TlsStream<TcpStream>> {
        let stream = stream(from, self.address).await.ok()?;
        let (_, tls) = self.tls.as_ref().unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        tls.connect(name, stream).await.ok()
    }

    /// What an API server needs to believe it.
    pub fn ca_bundle(&self) -> String {
        let (pem, _) = self.tls.as_ref().unwrap();
        BASE64_STANDARD.encode(pem)
    }

    /// A connection as that of the API server.
    pub async fn honest(&self) -> Option<Client> {
        self.connect(HONEST).await
    }

    /// The most memory that it has ever had, in bytes.
    pub fn peak(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
    }
}

/// Sends a request; nothing if the connection is closed meanwhile.
pub async fn send(
    client: &mut Client,
    request: Request<Full<Bytes>>,
) -> Option<(StatusCode, String)> {
    let exchange = async {
        let response = client.send_request(request).await.ok()?;
        let status = response.status();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((status, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap()
}

pub async fn post(client: &mut Client, path: &str, body: Bytes) -> Option<(StatusCode, String)> {
    let request = Request::post(path).header("host", "x").body(Full::new(body)).unwrap();
    send(client, request).await
}

pub async fn stream(from: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

async fn client(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Option<Client> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ports").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Whether an answer allows the pod.
pub fn is_allowed(answer: &str) -> bool {
    let answer: Value = serde_json::from_str(answer).unwrap();
    answer["response"]["allowed"] == true
}
