//! The certificates of clients: the API server's, if it was told to show one.

use super::current::certificates;
use crate::RunError;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::path::Path;
use std::sync::Arc;

/// Believes whoever was signed by one of the CAs in the file, and lets those in who show nothing:
/// the kubelet has no certificate for its probes. Without a file nobody is asked.
pub(crate) fn client_verifier(
    file: Option<&Path>,
) -> Result<Arc<dyn ClientCertVerifier>, RunError> {
    let Some(path) = file else { return Ok(WebPkiClientVerifier::no_client_auth()) };
    let failed = |why: String| RunError::ClientCa { path: path.to_owned(), why };
    let pem = std::fs::read_to_string(path).map_err(|why| failed(why.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&pem).map_err(failed)? {
        roots.add(certificate).map_err(|why| failed(why.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.allow_unauthenticated().build().map_err(|why| failed(why.to_string()))
}
