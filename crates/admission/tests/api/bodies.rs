//! What a server does with bodies that are no review; and with certificates from files.

use divvy_admission::{Certificates, Settings};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// A certificate for loopback that is its own CA, and its key.
fn write_certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (certificate, key)
}

/// A server with a certificate from files; it needs no API server.
async fn start(certificate: PathBuf, key: PathBuf) -> SocketAddr {
    let settings = Settings {
        gpu_sharing: true,
        block_visible_devices: true,
        runtime_class: String::new(),
        scheduler_names: Vec::new(),
        max_grace_period: 600,
    };
    let [port] = divvy_testbed::free_ports().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let nobody = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(nobody).unwrap();
    let files = Certificates::Files { certificate, key };
    let stop = std::future::pending();
    tokio::spawn(async move {
        divvy_admission::run(client, settings, files, None, address, stop).await.unwrap();
    });
    address
}

/// One request on a connection of its own, which trusts `ca`.
async fn ask(
    address: SocketAddr,
    ca: &str,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, String), String> {
    let text = |why: &dyn std::fmt::Display| why.to_string();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.map_err(|why| text(&why))?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, stream).await;
    let stream = TokioIo::new(stream.map_err(|why| text(&why))?);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(stream).await.map_err(|why| text(&why))?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|why| text(&why))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|why| text(&why))?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn post(path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    Request::post(path).header("host", "x").body(Full::from(body)).unwrap()
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).header("host", "x").body(Full::default()).unwrap()
}

async fn wait_until_ready(address: SocketAddr, ca: &str) {
    let ready = async {
        while !matches!(ask(address, ca, get("/readyz")).await, Ok((StatusCode::OK, _))) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ready).await.unwrap();
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn wrong_bodies_are_refused_with_a_reason_and_the_server_lives_on() {
    let (certificate, key) = write_certificate(&folder("bodies"));
    let ca = std::fs::read_to_string(&certificate).unwrap();
    let address = start(certificate, key).await;
    wait_until_ready(address, &ca).await;
    for (path, body, status, text) in [
        ("/validate", Vec::new(), 400, "the body is no AdmissionReview"),
        ("/mutate", b"\xff\xfe{".to_vec(), 400, "the body is no AdmissionReview"),
        ("/void", b"{}".to_vec(), 400, "only admission.k8s.io/v1 is understood"),
        ("/validate", vec![b'['; 100_000], 400, "the body is no AdmissionReview"),
        ("/validate", vec![b' '; 10_000_000], 413, "the body is larger than 7340032 bytes"),
        ("/elsewhere", Vec::new(), 404, "try /mutate"),
        ("/readyz", Vec::new(), 405, ""),
    ] {
        let (found, told) = ask(address, &ca, post(path, body)).await.unwrap();
        assert_eq!(found.as_u16(), status, "{path}: {told}");
        assert!(told.contains(text), "{path}: {told}");
    }
    let (_, metrics) = ask(address, &ca, get("/metrics")).await.unwrap();
    let line = "divvy_admission_reviews_total{webhook=\"validate\",result=\"malformed\"} 3";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_certificate_that_is_renewed_in_its_file_is_used_without_a_restart() {
    let folder = folder("files");
    let (certificate, key) = write_certificate(&folder);
    let first = std::fs::read_to_string(&certificate).unwrap();
    let address = start(certificate.clone(), key).await;
    wait_until_ready(address, &first).await;
    write_certificate(&folder);
    let second = std::fs::read_to_string(&certificate).unwrap();
    wait_until_ready(address, &second).await;
    let old = ask(address, &first, get("/readyz")).await;
    assert!(old.is_err(), "the old one is not in use any more: {old:?}");
}
