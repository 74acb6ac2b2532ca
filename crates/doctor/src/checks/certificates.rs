//! What the API server trusts the webhooks by.

use super::compare::Expected;
use crate::finding::Finding;
use crate::fix::{Fix, fix};
use crate::objects::ObservedWebhook;
use crate::observed::Observed;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::collections::BTreeSet;
use x509_parser::pem::Pem;

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    if !cluster.shares_cards() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let all = cluster.mutating.iter().chain(&cluster.validating);
    let webhooks: Vec<&ObservedWebhook> = all.flat_map(|all| &all.webhooks).collect();
    let of = |webhook: &&ObservedWebhook| bundle(webhook, cluster);
    // One sentence for all that have the same wrong with them.
    let wrong: BTreeSet<(&str, String)> = webhooks
        .iter()
        .filter_map(|webhook| Some((of(webhook)?, format!("webhook {}", webhook.name))))
        .collect();
    let reasons: BTreeSet<&str> = wrong.iter().map(|(why, _)| *why).collect();
    for reason in reasons {
        let seen = wrong.iter().filter(|(why, _)| *why == reason);
        let what = format!("the API server cannot trust the webhooks: {reason}");
        found.push(
            Finding::problem("webhook-ca", what)
                .seen_at(seen.map(|(_, name)| name.clone()))
                .fix(restart(cluster)),
        );
    }
    for secret in &cluster.certificates {
        let Some(until) = decoded(&secret.data.chain).as_deref().and_then(first_until) else {
            continue;
        };
        if until <= cluster.now {
            found.push(
                Finding::problem(
                    "webhook-certificate",
                    "the certificate of the webhooks has expired",
                )
                .seen(format!("secret {}: tls.crt", secret.metadata.key()))
                .fix(restart(cluster)),
            );
        }
    }
    found
}

/// A replica fills in what it finds missing when it starts.
fn restart(cluster: &Observed) -> Fix {
    let name = |one: &crate::objects::Workload| {
        let (namespace, name) = (&one.metadata.namespace, &one.metadata.name);
        fix!("kubectl -n {namespace} rollout restart deployment/{name}", namespace, name)
    };
    cluster
        .admissions()
        .next()
        .map_or_else(|| Expected::seen(cluster).apply(&["admission.yaml"]), name)
}

/// What is wrong with the bundle of a webhook.
fn bundle(webhook: &ObservedWebhook, cluster: &Observed) -> Option<&'static str> {
    let given = &webhook.client_config.ca_bundle;
    if given.is_empty() {
        return Some("their caBundle is empty");
    }
    let Some(text) = decoded(given) else { return Some("their caBundle is no base64") };
    let trusted = certificates(&text);
    if trusted.is_empty() {
        return Some("their caBundle has no certificate");
    }
    if trusted.iter().all(|pem| until(pem).is_none_or(|until| until <= cluster.now)) {
        return Some("all of their caBundle has expired");
    }
    let ours = cluster.certificates.iter().filter_map(|secret| decoded(&secret.data.ca));
    let ours: Vec<Pem> = ours.flat_map(|text| certificates(&text)).collect();
    let is_ours = |pem: &Pem| ours.iter().any(|our| our.contents == pem.contents);
    (!ours.is_empty() && !trusted.iter().any(is_ours))
        .then_some("their caBundle is not the CA of the webhooks' Secret")
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

/// More certificates than any bundle needs.
const MOST: usize = 64;

fn certificates(text: &[u8]) -> Vec<Pem> {
    Pem::iter_from_buffer(text).take(MOST).filter_map(Result::ok).collect()
}

/// Until when a certificate is valid, in seconds since 1970.
fn until(pem: &Pem) -> Option<i64> {
    pem.parse_x509().ok().map(|certificate| certificate.validity().not_after.timestamp())
}

fn first_until(chain: &[u8]) -> Option<i64> {
    until(certificates(chain).first()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn a_certificate_says_until_when_it_is_valid_and_what_is_none_says_nothing() {
        let mut params = CertificateParams::new(["x".to_owned()]).unwrap();
        params.not_after = date_time_ymd(2020, 2, 1);
        let pem = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        assert_eq!(first_until(pem.as_bytes()), Some(1_580_515_200));
        for none in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(first_until(none.as_bytes()), None, "{none}");
        }
    }
}
