//! Certificates: shared by replicas, and replaced when they end; and those of API servers.

use crate::cluster::{SECRET, WEBHOOKS, cluster, eventually, is_about, pod, with_share};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_testbed::free_ports;
use serde_json::{Value, json};
use std::net::SocketAddr;

#[test]
fn two_replicas_share_one_certificate_and_either_answers() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let [port] = free_ports().unwrap();
    let second = SocketAddr::from(([127, 0, 0, 1], port));
    let before = cluster.runtime.block_on(cluster.admin.get(SECRET)).unwrap();
    let replica = cluster.start_webhooks(second);
    cluster.point_webhooks_to(second);
    let share = with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5");
    eventually("the second one answers", || cluster.runtime.block_on(api.create(&share)).is_ok());
    let after = cluster.runtime.block_on(cluster.admin.get(SECRET)).unwrap();
    assert_eq!(after["data"], before["data"]);
    cluster.point_webhooks_to(cluster.address);
    let next = with_share(pod(&tenant, "next", "divvy-scheduler"), "0.5");
    // Before the next test needs it: the server may go on asking the second one for a moment.
    replica.abort();
    eventually("the first one answers", || cluster.runtime.block_on(api.create(&next)).is_ok());
}

#[test]
fn replicas_that_start_at_once_agree_on_one_ca() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let before = cluster.runtime.block_on(cluster.admin.get(SECRET)).unwrap();
    // As good as never written: both want to make one.
    let nothing = json!({"data": null});
    cluster.runtime.block_on(cluster.admin.patch(SECRET, &nothing)).unwrap();
    let ports: [u16; 3] = free_ports().unwrap();
    let replicas = ports.map(|port| cluster.start_webhooks(([127, 0, 0, 1], port).into()));
    let bundle = |path: &str| {
        let found = cluster.runtime.block_on(cluster.admin.get(path)).unwrap();
        let webhooks = found["webhooks"].as_array().unwrap().clone();
        webhooks.iter().map(|w| w["clientConfig"]["caBundle"].clone()).collect::<Vec<Value>>()
    };
    for port in ports {
        cluster.point_webhooks_to(([127, 0, 0, 1], port).into());
        let name = format!("share-{port}");
        let share = with_share(pod(&tenant, &name, "divvy-scheduler"), "0.5");
        eventually("it answers", || cluster.runtime.block_on(api.create(&share)).is_ok());
    }
    eventually("there is a new one, and all webhooks have it", || {
        let after = cluster.runtime.block_on(cluster.admin.get(SECRET)).unwrap();
        let has_it = |path| bundle(path).iter().all(|bundle| *bundle == after["data"]["ca.crt"]);
        after["data"] != before["data"] && WEBHOOKS.into_iter().all(has_it)
    });
    replicas.iter().for_each(tokio::task::AbortHandle::abort);
    cluster.point_webhooks_to(cluster.address);
    let share = with_share(pod(&tenant, "last", "divvy-scheduler"), "0.5");
    eventually("all have learned it", || cluster.runtime.block_on(api.create(&share)).is_ok());
}

#[test]
fn a_certificate_that_has_expired_is_replaced_and_the_ca_stays() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let read = || cluster.runtime.block_on(cluster.admin.get(SECRET)).unwrap()["data"].clone();
    let text = |data: &Value, key: &str| {
        String::from_utf8(BASE64_STANDARD.decode(data[key].as_str().unwrap()).unwrap()).unwrap()
    };
    let before = read();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2020, 2, 1);
    let mut ca = rcgen::CertificateParams::default();
    ca.distinguished_name = rcgen::DistinguishedName::new();
    ca.distinguished_name.push(rcgen::DnType::CommonName, "divvy admission CA");
    let ca_key = rcgen::KeyPair::from_pem(&text(&before, "ca.key")).unwrap();
    let expired = params.signed_by(&key, &rcgen::Issuer::new(ca, ca_key)).unwrap().pem();
    let patch = json!({"data": {
        "tls.crt": BASE64_STANDARD.encode(&expired),
        "tls.key": BASE64_STANDARD.encode(key.serialize_pem()),
    }});
    cluster.runtime.block_on(cluster.admin.patch(SECRET, &patch)).unwrap();
    eventually("it is replaced", || text(&read(), "tls.crt") != expired);
    assert_eq!(read()["ca.crt"], before["ca.crt"]);
    let share = with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5");
    eventually("it is believed", || cluster.runtime.block_on(api.create(&share)).is_ok());
}

#[test]
fn a_replica_that_asks_for_certificates_takes_reviews_from_the_api_server_and_no_other() {
    let Some(mut cluster) = cluster() else { return };
    let (tenant, api) = cluster.tenant();
    let ports: [u16; 2] = free_ports().unwrap();
    let [asking, other] = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let ca = cluster.plane.webhook_client();
    let replica = cluster.start_webhooks_for(asking, Some(ca));
    cluster.point_webhooks_to(asking);
    let share = with_share(pod(&tenant, "share", "divvy-scheduler"), "0.5");
    eventually("it answers", || cluster.runtime.block_on(api.create(&share)).is_ok());

    // One that trusts somebody else.
    let stranger = rcgen::generate_simple_self_signed(vec!["stranger".to_owned()]).unwrap();
    let ca = cluster.plane.folder().join("stranger.pem");
    std::fs::write(&ca, stranger.cert.pem()).unwrap();
    let stranger = cluster.start_webhooks_for(other, Some(ca));
    cluster.point_webhooks_to(other);
    let next = with_share(pod(&tenant, "next", "divvy-scheduler"), "0.5");
    eventually("the API server is not believed", || {
        let created = cluster.runtime.block_on(api.create(&next));
        is_about(&created, "failed calling webhook") && !is_about(&created, "connection refused")
    });
    cluster.point_webhooks_to(cluster.address);
    let last = with_share(pod(&tenant, "last", "divvy-scheduler"), "0.5");
    eventually("the first one answers", || cluster.runtime.block_on(api.create(&last)).is_ok());
    replica.abort();
    stranger.abort();
}
