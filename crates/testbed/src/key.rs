//! Keys: what service account tokens are signed with, and what the API server shows to kubelets and
//! webhooks.

use crate::{Unavailable, io};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};

/// What may be shown and the private key for it, both as PEM.
pub(crate) struct Identity {
    pub public: String,
    pub key: String,
}

/// With it service account tokens are signed.
pub(crate) fn token_signer() -> Result<Identity, Unavailable> {
    let key = KeyPair::generate().map_err(wrong)?;
    Ok(Identity { public: key.public_key_pem(), key: key.serialize_pem() })
}

/// With this certificate the API server asks kubelets for logs and the like. It vouches for itself:
/// who trusts it trusts nobody else.
pub(crate) fn kubelet_client() -> Result<Identity, Unavailable> {
    client(IsCa::Ca(BasicConstraints::Unconstrained))
}

/// With this one it shows reviews to webhooks. It is no CA: rustls takes none from a client.
pub(crate) fn webhook_client() -> Result<Identity, Unavailable> {
    client(IsCa::NoCa)
}

fn client(is_ca: IsCa) -> Result<Identity, Unavailable> {
    let make = || -> Result<Identity, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new([])?;
        parameters.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        parameters.distinguished_name.push(DnType::OrganizationName, "system:masters");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        parameters.is_ca = is_ca;
        Ok(Identity { public: parameters.self_signed(&key)?.pem(), key: key.serialize_pem() })
    };
    make().map_err(wrong)
}

fn wrong(error: rcgen::Error) -> Unavailable {
    io("cannot make a key")(std::io::Error::other(error))
}
