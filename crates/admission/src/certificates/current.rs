//! The certificate that handshakes use now; it changes without a restart.

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, PoisonError, RwLock};

/// Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current(Arc<RwLock<Option<Arc<CertifiedKey>>>>);

impl Current {
    /// From now on this one.
    pub(crate) fn set(&self, key: CertifiedKey) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|now| now.cert != key.cert) {
            tracing::info!("a new certificate is in use");
            *current = Some(Arc::new(key));
        }
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A certificate with its chain, and its key.
pub(crate) fn certified_key(chain: &str, key: &str) -> Result<CertifiedKey, String> {
    let chain: Vec<CertificateDer<'static>> = certificates(chain)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|why| format!("the key cannot be read: {why}"))?;
    let key = any_supported_type(&key).map_err(|why| format!("the key cannot be used: {why}"))?;
    let pair = CertifiedKey::new(chain, key);
    pair.keys_match().map_err(|why| format!("the key is not that of the certificate: {why}"))?;
    Ok(pair)
}

/// All certificates of a PEM text; at least one.
pub(super) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let all = all.map_err(|why| format!("the certificate cannot be read: {why}"))?;
    if all.is_empty() { Err("there is no certificate".to_owned()) } else { Ok(all) }
}
