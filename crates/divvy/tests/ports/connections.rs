//! Probes and reviews are answered while neighbours hold and open thousands of connections.

use crate::flood::Flood;
use crate::limits::memory_limit;
use crate::reviews::{review, share};
use crate::server::{Client, Server, is_allowed, post, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// All that kubelets ask, more often than they allow it to fail.
async fn probes_are_answered(server: &Server, flood: &Flood) {
    for _ in 0..5 {
        for page in ["/livez", "/readyz", "/metrics"] {
            assert!(server.page(page).await.is_some(), "{page}");
        }
        flood.goes_on_by(100).await;
    }
}

async fn is_reviewed(client: &mut Client) {
    let (_, answer) = post(client, "/mutate", review(&share())).await.unwrap();
    assert!(is_allowed(&answer), "{answer}");
}

async fn scheduler_bears(addresses: u8) {
    let server = Server::scheduler(&format!("scheduler-{addresses}")).await;
    let Some(flood) = Flood::start(server.address, addresses).await else { return };
    probes_are_answered(&server, &flood).await;
    assert!(server.peak() < memory_limit("scheduler.yaml"), "{} bytes", server.peak());
}

async fn admission_bears(addresses: u8) {
    let server = Server::admission(&format!("admission-{addresses}")).await;
    let mut kept = server.honest().await.unwrap();
    is_reviewed(&mut kept).await;
    let Some(flood) = Flood::start(server.address, addresses).await else { return };
    probes_are_answered(&server, &flood).await;
    for _ in 0..5 {
        is_reviewed(&mut kept).await;
        is_reviewed(&mut server.honest().await.unwrap()).await;
        flood.goes_on_by(100).await;
    }
    assert!(server.peak() < memory_limit("admission.yaml"), "{} bytes", server.peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_answers_probes_while_a_neighbour_has_5000_connections() {
    scheduler_bears(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_answers_probes_while_200_neighbours_have_5000_connections() {
    scheduler_bears(200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_and_probes_are_answered_while_a_neighbour_has_5000_connections() {
    admission_bears(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_and_probes_are_answered_while_200_neighbours_have_5000_connections() {
    admission_bears(200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_under_way_are_answered_while_64_neighbours_that_are_known_come_again() {
    let server = Server::admission("known").await;
    let neighbours = || (1..=64).map(|number| [127, 0, 5, number]);
    for from in neighbours() {
        is_reviewed(&mut server.connect(from).await.unwrap()).await;
    }
    is_reviewed(&mut server.honest().await.unwrap()).await;
    // An API server with more connections than each of them, and a review under way on all.
    let body = review(&share());
    let head = format!(
        "POST /mutate HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut under_way = Vec::new();
    for _ in 0..20 {
        let mut stream = server.secured([127, 0, 0, 1]).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut go_on = *b"HTTP/1.1 nnn Continue\r\n\r\n";
        stream.read_exact(&mut go_on).await.unwrap();
        under_way.push(stream);
    }
    let mut idle = Vec::new();
    for from in neighbours().cycle().take(64 * 9) {
        idle.push(stream(from, server.address).await.unwrap());
    }
    // Whoever comes last is let in last.
    assert!(server.page("/livez").await.is_some());
    for stream in &mut under_way {
        stream.write_all(&body).await.unwrap();
        let mut status = *b"HTTP/1.1 nnn";
        stream.read_exact(&mut status).await.unwrap();
        assert_eq!(status, *b"HTTP/1.1 200");
    }
}
