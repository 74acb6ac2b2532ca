//! A CA of our own and the certificate that it signs: made, judged, renewed.

use super::current::{certificates, certified_key};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{ServerName, UnixTime};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CA_LIFE: Duration = DAY.saturating_mul(3650);
const LEAF_LIFE: Duration = DAY.saturating_mul(90);
/// A certificate with less than this is renewed: a month in which renewal may fail.
const LEAF_RESERVE: Duration = DAY.saturating_mul(30);
/// So that a certificate never outlives its CA.
const CA_RESERVE: Duration = DAY.saturating_mul(365);
/// Clocks differ.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// All in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Material {
    /// What clients trust: the CA, and behind it the one before, which may have signed `chain`.
    pub(super) ca: String,
    /// The key of the CA.
    pub(super) ca_key: String,
    /// Until when the CA is valid, in seconds since 1970.
    pub(super) ca_until: u64,
    /// The certificate of the server.
    pub(super) chain: String,
    /// Its key.
    pub(super) key: String,
}

impl Material {
    /// What to use instead of `old` for these names; nothing if it is good for another while.
    pub(super) fn renewed(
        old: Option<&Self>,
        names: &[String],
        now: SystemTime,
    ) -> Result<Option<Self>, rcgen::Error> {
        let has_ca = |old: &&Self| {
            old.ca_until > seconds(now + CA_RESERVE)
                && KeyPair::from_pem(&old.ca_key).is_ok()
                && certificates(&old.ca).is_ok()
        };
        let (mut material, mut is_new) = match old.filter(has_ca) {
            Some(old) => (old.clone(), false),
            None => (Self::with_new_ca(old, now)?, true),
        };
        if !material.is_good(names, now + LEAF_RESERVE) {
            material.sign(names, now)?;
            is_new = true;
        }
        Ok(is_new.then_some(material))
    }

    fn with_new_ca(old: Option<&Self>, now: SystemTime) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let until = now + CA_LIFE;
        let mut params = ca_params();
        (params.not_before, params.not_after) = (date(now - SKEW), date(until));
        let mut ca = params.self_signed(&key)?.pem();
        let old = old.cloned();
        // Only the newest of the old ones: the others signed nothing that is still in use.
        let before = old.as_ref().map(|old| first_certificate(&old.ca));
        ca.push_str(before.unwrap_or_default());
        let (chain, leaf_key) = old.map(|old| (old.chain, old.key)).unwrap_or_default();
        Ok(Self { ca, ca_key: key.serialize_pem(), ca_until: seconds(until), chain, key: leaf_key })
    }

    fn sign(&mut self, names: &[String], now: SystemTime) -> Result<(), rcgen::Error> {
        let issuer = Issuer::new(ca_params(), KeyPair::from_pem(&self.ca_key)?);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        let name = names.first().map_or("divvy-admission", |name| name);
        // 64 characters is what X.509 allows; clients look at the other names.
        params
            .distinguished_name
            .push(DnType::CommonName, name.chars().take(64).collect::<String>());
        (params.not_before, params.not_after) = (date(now - SKEW), date(now + LEAF_LIFE));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        self.chain = params.signed_by(&key, &issuer)?.pem();
        self.key = key.serialize_pem();
        Ok(())
    }

    /// Whether a client that trusts the CA will still believe the certificate at `then`, by each
    /// of the names.
    fn is_good(&self, names: &[String], then: SystemTime) -> bool {
        let is_believed = || {
            let chain = certified_key(&self.chain, &self.key).ok()?.cert;
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates(&self.ca).ok()?);
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
            let (verifier, (leaf, rest)) = (verifier.build().ok()?, chain.split_first()?);
            let then = UnixTime::since_unix_epoch(Duration::from_secs(seconds(then)));
            names
                .iter()
                .find_map(|name| {
                    let name = ServerName::try_from(&**name).ok()?;
                    verifier.verify_server_cert(leaf, rest, &name, &[], then).err()
                })
                .is_none()
                .then_some(())
        };
        is_believed().is_some()
    }
}

/// The name must not change: certificates refer to their CA by it.
fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "divvy admission CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn first_certificate(pem: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----\n";
    pem.find(END).and_then(|at| pem.get(..at + END.len())).unwrap_or_default()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn date(time: SystemTime) -> OffsetDateTime {
    OffsetDateTime::from(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["divvy-admission.divvy-system.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    fn fresh(now: SystemTime) -> Material {
        Material::renewed(None, &names(), now).unwrap().unwrap()
    }

    #[test]
    fn a_fresh_certificate_is_believed_for_its_names_and_not_renewed_at_once() {
        let now = SystemTime::now();
        let material = fresh(now);
        assert!(material.is_good(&names(), now));
        assert!(!material.is_good(&["other.svc".to_owned()], now));
        assert_eq!(Material::renewed(Some(&material), &names(), now).unwrap(), None);
        let later = now + DAY * 59;
        assert_eq!(Material::renewed(Some(&material), &names(), later).unwrap(), None);
    }

    #[test]
    fn a_certificate_is_renewed_by_the_same_ca_a_month_before_its_end() {
        let now = SystemTime::now();
        let material = fresh(now);
        for later in [now + DAY * 61, now + DAY * 400] {
            let renewed = Material::renewed(Some(&material), &names(), later).unwrap().unwrap();
            assert_eq!(renewed.ca, material.ca);
            assert_ne!(renewed.chain, material.chain);
            assert!(renewed.is_good(&names(), later));
        }
    }

    #[test]
    fn another_ca_comes_a_year_before_the_end_and_the_old_certificate_stays_believed() {
        let now = SystemTime::now();
        let first = fresh(now);
        let late = now + CA_LIFE - DAY * 366;
        let first = Material::renewed(Some(&first), &names(), late).unwrap().unwrap();
        let later = late + DAY * 2;
        let second = Material::renewed(Some(&first), &names(), later).unwrap().unwrap();
        assert_ne!(first_certificate(&second.ca), first_certificate(&first.ca));
        assert!(second.ca.ends_with(first_certificate(&first.ca)));
        assert_eq!(second.chain, first.chain, "clients learn the new CA before it is used");
        assert!(second.is_good(&names(), later));
        let third = Material::renewed(Some(&second), &names(), later + DAY * 80).unwrap().unwrap();
        assert_eq!(third.ca, second.ca);
        assert_ne!(third.chain, second.chain);
        assert!(third.is_good(&names(), later + DAY * 80));
    }

    #[test]
    fn what_is_broken_or_for_other_names_is_made_anew() {
        let now = SystemTime::now();
        let good = fresh(now);
        let other = fresh(now);
        for broken in [
            Material { key: other.key.clone(), ..good.clone() },
            Material { ca: String::new(), ..good.clone() },
            Material { ca_key: "x".to_owned(), ..good.clone() },
            Material { ca_until: 0, chain: String::new(), ..good.clone() },
            Material { ca: other.ca.clone(), ca_key: other.ca_key.clone(), ..good.clone() },
        ] {
            let renewed = Material::renewed(Some(&broken), &names(), now).unwrap().unwrap();
            assert!(renewed.is_good(&names(), now));
        }
        let renamed = vec!["renamed.svc".to_owned()];
        assert!(
            Material::renewed(Some(&good), &renamed, now).unwrap().unwrap().is_good(&renamed, now)
        );
    }
}
