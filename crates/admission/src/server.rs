//! TLS connections, each with its own task, a limit to how many there are, and an end.

use crate::metrics::Metrics;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Longer than the 90 s after which the API server gives up an idle connection: if we were first,
/// a review could be on its way into a connection that is closed.
const IDLE: Duration = Duration::from_secs(120);
const CONNECTIONS: usize = 1024;
const HEAD_BYTES: usize = 64 * 1024;
/// Reviews under way at the end have so long.
const LAST_REVIEWS: Duration = Duration::from_secs(10);

/// Answers until `stop` says so, and then what is under way.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    router: Router,
    metrics: Metrics,
    mut stop: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, slot)) = accepted else { continue };
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        connections.spawn(async move {
            answer(stream, &tls, router, stop).await;
            drop(slot);
        });
        while connections.try_join_next().is_some() {}
        metrics.set_connections(connections.len());
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_REVIEWS, all).await;
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, slot)),
        Err(error) => {
            // Out of files, say; asking again at once would not help.
            tracing::warn!("failed to accept a connection: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn answer(
    stream: TcpStream,
    tls: &TlsAcceptor,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    // Without it an answer may wait 40 ms for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    // Broken handshakes and broken connections are the business of the other side.
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await else { return };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
