//! TLS connections: each has a time to begin, one to be idle, one to read its answers, and an end.

use crate::metrics::Metrics;
use axum::Router;
use divvy_serve::{Connections, Seat, WriteDeadline};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Longer than the 90 s after which the API server gives up an idle connection: if we were first,
/// a review could be on its way into a connection that is closed.
const IDLE: Duration = Duration::from_secs(120);
/// An answer that is not read meanwhile is given up; the API server would not wait so long either.
const UNREAD: Duration = Duration::from_secs(10);
/// An API server opens one for each review that is under way, and each may cost 200 KiB.
const CONNECTIONS: usize = 512;
/// Heads are short; what is read of a body at a time is no more either.
const HEAD_BYTES: usize = 16 * 1024;
/// Reviews under way at the end have so long.
const LAST_REVIEWS: Duration = Duration::from_secs(10);

/// Who sent a request.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) seat: Arc<Seat>,
    /// Whether it has shown a certificate of the client CA.
    pub(crate) is_certified: bool,
}

/// Answers until `stop` says so, and then what is under way.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    router: Router,
    metrics: Metrics,
    stop: watch::Receiver<bool>,
) {
    let mut connections = Connections::new(listener, CONNECTIONS);
    let mut stopped = stop.clone();
    let one = |stream, seat: Arc<Seat>| {
        let (tls, router, metrics, stop) =
            (tls.clone(), router.clone(), metrics.clone(), stop.clone());
        async move {
            metrics.set_connections(seat.taken());
            answer(stream, seat, &tls, router, stop).await;
        }
    };
    tokio::select! {
        never = connections.answer(one) => match never {},
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    let _ = tokio::time::timeout(LAST_REVIEWS, connections.end()).await;
}

async fn answer(
    stream: TcpStream,
    seat: Arc<Seat>,
    tls: &TlsAcceptor,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    // Without it an answer may wait 40 ms for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    // Broken handshakes and broken connections are the business of the other side.
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await else { return };
    let is_certified = stream.get_ref().1.peer_certificates().is_some();
    let caller = Caller { seat, is_certified };
    let stream = TokioIo::new(WriteDeadline::new(stream, UNREAD));
    let pages = TowerToHyperService::new(router);
    let pages = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(caller.clone());
        pages.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(stream, pages);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
