//! Where the server's certificate comes from, and who keeps it fresh.
//!
//! ```text
//!   Secret, shared by the replicas ─► Material ─┬─► Current: what handshakes use
//!      ▲ renewed long before its end            └─► caBundle of the webhook configurations
//!   files (cert-manager) ──────────────────────────► Current
//! ```

mod bundle;
mod clients;
mod current;
mod material;
mod secret;

pub(crate) use clients::client_verifier;
pub(crate) use current::Current;

use crate::metrics::Metrics;
use current::certified_key;
use http::{Method, Request, StatusCode};
use kube::Client;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// How often the certificate is looked at: a Secret or a file that somebody else has renewed, a
/// webhook configuration that somebody has written anew.
const PERIOD: Duration = Duration::from_secs(10);

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// From a CA of our own.
    Own {
        /// The namespace of the Secret.
        namespace: String,
        /// The Secret that keeps CA and certificate.
        secret: String,
        /// The names by which the API server reaches the server.
        names: Vec<String>,
        /// The MutatingWebhookConfiguration to put the CA into; empty for none.
        mutating: String,
        /// The ValidatingWebhookConfiguration to put the CA into; empty for none.
        validating: String,
    },
    /// From files that somebody else renews, who also tells the API server.
    Files {
        /// The certificate, with its chain.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
}

/// Why there is no fresh certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{method} {path}: {status}: {message}")]
    Refused { method: Method, path: String, status: StatusCode, message: String },
    #[error("{method} {path}: {why}")]
    NoAnswer { method: Method, path: String, why: String },
    #[error("failed to make a certificate: {0}")]
    Certificate(String),
    #[error("failed to read {path}: {why}")]
    File { path: PathBuf, why: String },
}

impl Certificates {
    /// Looks after the certificate for ever. `unready` is told what is missing until all was in
    /// order once: a server that cannot look after its certificate for a while still answers, and
    /// must not be taken for dead together with the API server.
    pub(crate) async fn keep(
        &self,
        client: &Client,
        current: &Current,
        metrics: &Metrics,
        unready: &watch::Sender<Option<String>>,
    ) {
        let mut told = None;
        loop {
            let failure = self.refresh(client, current).await.err().map(|why| why.to_string());
            metrics.certificate_check(failure.is_none());
            if let Some(why) = failure.as_ref().filter(|_| failure != told) {
                tracing::warn!("the certificate is not in order: {why}");
            }
            if unready.borrow().is_some() {
                unready.send_replace(failure.clone());
            }
            told = failure;
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn refresh(&self, client: &Client, current: &Current) -> Result<(), Failure> {
        match self {
            Self::Files { certificate, key } => {
                let read = |path: &PathBuf| {
                    std::fs::read_to_string(path)
                        .map_err(|why| Failure::File { path: path.clone(), why: why.to_string() })
                };
                let pair = certified_key(&read(certificate)?, &read(key)?);
                let failed = |why| Failure::File { path: certificate.clone(), why };
                current.set(pair.map_err(failed)?);
            }
            Self::Own { namespace, secret, names, mutating, validating } => {
                let place = secret::Place { namespace, name: secret };
                let material = place.ensure(client, names).await?;
                let pair = certified_key(&material.chain, &material.key);
                current.set(pair.map_err(Failure::Certificate)?);
                for (plural, name) in [
                    ("mutatingwebhookconfigurations", mutating),
                    ("validatingwebhookconfigurations", validating),
                ] {
                    if !name.is_empty() {
                        bundle::publish(client, plural, name, &material.ca).await?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A request that is given up does not keep the next one waiting.
const PATIENCE: Duration = Duration::from_secs(30);

async fn api(
    client: &Client,
    method: Method,
    path: &str,
    kind: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let no_answer =
        |why: String| Failure::NoAnswer { method: method.clone(), path: path.to_owned(), why };
    let text = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let mut request = Request::builder().method(method.clone()).uri(path);
    if body.is_some() {
        request = request.header(http::header::CONTENT_TYPE, kind);
    }
    let request = request.body(text).map_err(|why| no_answer(why.to_string()))?;
    match tokio::time::timeout(PATIENCE, client.request::<Value>(request)).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(kube::Error::Api(status))) => Err(Failure::Refused {
            method: method.clone(),
            path: path.to_owned(),
            status: StatusCode::from_u16(status.code).unwrap_or_default(),
            message: status.message.clone(),
        }),
        Ok(Err(why)) => Err(no_answer(why.to_string())),
        Err(_) => Err(no_answer(format!("no answer in {} s", PATIENCE.as_secs()))),
    }
}
