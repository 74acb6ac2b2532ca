//! Who believes a server's certificate.

use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// A client that believes servers of this CA, and shows no certificate of its own.
pub fn trusting(ca: CertificateDer<'static>) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
