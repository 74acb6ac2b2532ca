//! What a server does with bodies that are no review; and with certificates from files.

use divvy_admission::{Certificates, Settings};
use divvy_api::Api;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
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

fn settings() -> Settings {
    Settings {
        gpu_sharing: true,
        block_visible_devices: true,
        runtime_class: String::new(),
        scheduler_names: Vec::new(),
        max_grace_period: 600,
        isolation: None,
    }
}

/// A server with a certificate from files; it needs no API server.
async fn start(certificate: PathBuf, key: PathBuf, client_ca: Option<PathBuf>) -> SocketAddr {
    let settings = settings();
    let [port] = divvy_testbed::free_ports().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let api = Api::answered_by(|_| None);
    let files = Certificates::Files { certificate, key };
    let stop = std::future::pending();
    tokio::spawn(async move {
        let client_ca = client_ca.as_deref();
        divvy_admission::run(api, settings, files, client_ca, address, stop).await.unwrap();
    });
    address
}

/// One request on a connection of its own, which trusts `ca` and shows nothing.
async fn ask(
    address: SocketAddr,
    ca: &str,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, String), String> {
    ask_as(None, address, ca, request).await
}

/// The same, with a certificate and its key.
async fn ask_as(
    identity: Option<&CertifiedKey<KeyPair>>,
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
        .with_root_certificates(roots);
    let tls = match identity {
        None => tls.with_no_client_auth(),
        Some(CertifiedKey { cert, signing_key }) => {
            let key = PrivateKeyDer::from_pem_slice(signing_key.serialize_pem().as_bytes());
            tls.with_client_auth_cert(vec![cert.der().clone()], key.unwrap()).unwrap()
        }
    };
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
    let address = start(certificate, key, None).await;
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
    let address = start(certificate.clone(), key, None).await;
    wait_until_ready(address, &first).await;
    write_certificate(&folder);
    let second = std::fs::read_to_string(&certificate).unwrap();
    wait_until_ready(address, &second).await;
    let old = ask(address, &first, get("/readyz")).await;
    assert!(old.is_err(), "the old one is not in use any more: {old:?}");
}

#[tokio::test]
async fn with_a_client_ca_reviews_need_its_certificate_and_probes_do_not() {
    let folder = folder("clients");
    let (certificate, key) = write_certificate(&folder);
    let ca = std::fs::read_to_string(&certificate).unwrap();
    let [server, stranger] = ["kube-apiserver", "stranger"]
        .map(|name| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap());
    let client_ca = folder.join("clients.crt");
    std::fs::write(&client_ca, server.cert.pem()).unwrap();
    let address = start(certificate, key, Some(client_ca)).await;
    wait_until_ready(address, &ca).await;
    for page in ["/livez", "/metrics"] {
        assert_eq!(ask(address, &ca, get(page)).await.unwrap().0, StatusCode::OK, "{page}");
    }
    let body = r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE"}}"#;
    let review = || post("/validate", body.into());
    let (status, told) = ask(address, &ca, review()).await.unwrap();
    assert_eq!(status, StatusCode::FORBIDDEN, "{told}");
    assert!(told.contains("reviews need a client certificate"), "{told}");
    let (status, told) = ask_as(Some(&server), address, &ca, review()).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{told}");
    let unknown = ask_as(Some(&stranger), address, &ca, review()).await;
    assert!(unknown.is_err(), "{unknown:?}");
}

#[tokio::test]
async fn a_client_ca_that_cannot_be_read_ends_the_server_with_its_name() {
    let folder = folder("no-clients");
    let (certificate, key) = write_certificate(&folder);
    let api = Api::answered_by(|_| None);
    let files = Certificates::Files { certificate, key: key.clone() };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let stop = std::future::pending();
    let run = divvy_admission::run(api, settings(), files, Some(&key), address, stop);
    let why = run.await.unwrap_err().to_string();
    assert!(why.ends_with("tls.key: there is no certificate"), "{why}");
}
