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
use divvy_api::{Api, resources};
use http::{Method, StatusCode};
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
pub(crate) enum CertificateError {
    #[error("{method} {path}: {}", said(.why))]
    Api { method: Method, path: String, why: divvy_api::Failure },
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
        api: &Api,
        current: &Current,
        metrics: &Metrics,
        unready: &watch::Sender<Option<String>>,
    ) {
        let mut told = None;
        loop {
            let failure = self.refresh(api, current).await.err().map(|why| why.to_string());
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

    async fn refresh(&self, api: &Api, current: &Current) -> Result<(), CertificateError> {
        match self {
            Self::Files { certificate, key } => {
                let read = |path: &PathBuf| {
                    std::fs::read_to_string(path).map_err(|why| CertificateError::File {
                        path: path.clone(),
                        why: why.to_string(),
                    })
                };
                let pair = certified_key(&read(certificate)?, &read(key)?);
                let failed = |why| CertificateError::File { path: certificate.clone(), why };
                current.set(pair.map_err(failed)?);
            }
            Self::Own { namespace, secret, names, mutating, validating } => {
                let place = secret::SecretPlace { namespace, name: secret };
                let material = place.ensure(api, names).await?;
                let pair = certified_key(&material.chain, &material.key);
                current.set(pair.map_err(CertificateError::Certificate)?);
                for (webhooks, name) in [
                    (resources::MUTATING_WEBHOOKS, mutating),
                    (resources::VALIDATING_WEBHOOKS, validating),
                ] {
                    if !name.is_empty() {
                        bundle::publish(api, &webhooks, name, &material.ca).await?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What the API said to a request, read.
fn answer(
    method: Method,
    path: &str,
    answer: Result<Vec<u8>, divvy_api::Failure>,
) -> Result<Value, CertificateError> {
    let read = answer.and_then(|bytes| divvy_api::read(&bytes));
    read.map_err(|why| CertificateError::Api { method, path: path.to_owned(), why })
}

fn said(why: &divvy_api::Failure) -> String {
    match why.status().and_then(|code| StatusCode::from_u16(code).ok()) {
        Some(status) => format!("{status}: {why}"),
        None => why.to_string(),
    }
}
