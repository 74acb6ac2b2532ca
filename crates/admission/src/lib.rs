//! The admission webhooks: they prepare pods for their cards and refuse those that make no sense.
//!
//! ```text
//!   API server ─► TLS ─► pages ─► bodies ─► review ─► divvy_words::admission: mutate, void, template, validate, warn
//!                  ▲        │
//!            certificates   └─► metrics
//! ```
//!
//! No decision is made here, and nothing is remembered: two replicas need to agree on nothing but
//! their certificate.

mod bodies;
mod certificates;
mod metrics;
mod pages;
mod review;
mod server;

pub use certificates::Certificates;
pub use divvy_words::admission::Settings;

use bodies::Bodies;
use certificates::{Current, client_verifier};
use divvy_api::Api;
use metrics::Metrics;
use pages::Pages;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// What the webhook of this name (`mutate`, `void`, `template`, `validate` or `warn`) answers to a review,
/// as its page does; an error says what is wrong with the body. Who tries bodies needs no server for it.
pub fn answer(webhook: &str, body: &[u8], settings: &Settings) -> Result<Vec<u8>, String> {
    let found = review::Webhook::ALL.into_iter().find(|known| known.name() == webhook);
    let found = found.ok_or_else(|| format!("{webhook:?} is no webhook"))?;
    review::answer(found, body, settings).map(|(answer, _)| answer)
}

/// Why the server ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address cannot be used.
    #[error("failed to listen on {address}: {why}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        why: std::io::Error,
    },
    /// There is no CA of clients in its file.
    #[error("failed to read the client CA {path}: {why}")]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// TLS cannot be set up.
    #[error("failed to set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Endpoints are taken out of a Service while the pod ends: reviews come for so long after that.
const LINGER: Duration = Duration::from_secs(5);

/// Serves until `stop`, and then for a few seconds more. If there is a CA of clients, reviews are
/// taken only from those with a certificate that it has signed.
pub async fn run(
    api: Api,
    settings: Settings,
    certificates: Certificates,
    client_ca: Option<&Path>,
    listen: SocketAddr,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let failed = |why| RunError::Listen { address: listen, why };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let current = Current::default();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(client_verifier(client_ca)?)
        .with_cert_resolver(Arc::new(current.clone()));
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];

    let metrics = Metrics::new();
    let (unready, is_unready) = watch::channel(Some("starting".to_owned()));
    let pages = Pages {
        settings: Arc::new(settings),
        metrics: metrics.clone(),
        bodies: Arc::new(Bodies::new()),
        asks_certificate: client_ca.is_some(),
        unready: is_unready,
    };
    let (end, ended) = watch::channel(false);
    let tls = TlsAcceptor::from(Arc::new(tls));
    let serving = server::serve(listener, tls, pages.router(), metrics.clone(), ended);
    tracing::info!("admission webhooks on https://{address}");
    let ending = async {
        stop.await;
        tracing::info!("stopping");
        tokio::time::sleep(LINGER).await;
        let _ = end.send(true);
    };
    let keeping = certificates.keep(&api, &current, &metrics, &unready);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return Ok(()),
        () = keeping => {}
        () = ending => {}
    }
    serving.await;
    Ok(())
}
