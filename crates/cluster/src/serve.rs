//! The pages `/livez`, `/readyz` and `/metrics`.
//!
//! Whoever can reach the port can ask, so a connection is for one request, is over after a few
//! seconds whatever the other side does, and gives way when there are too many.

use crate::health::Health;
use crate::metrics::Metrics;
use divvy_serve::Connections;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 256;
const HEAD_BYTES: usize = 16 * 1024;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Answers until it is dropped.
pub async fn serve(listener: TcpListener, metrics: Metrics, health: Health) -> Infallible {
    let mut connections = Connections::new(listener, CONNECTIONS);
    let answer = |stream, _| answer(stream, metrics.clone(), health.clone());
    connections.answer(answer).await
}

async fn answer(stream: TcpStream, metrics: Metrics, health: Health) {
    let page = service_fn(|request: Request<Incoming>| {
        let response = page(request.method(), request.uri().path(), &metrics, &health);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), page);
    // Broken requests and broken connections are the business of the other side.
    let _ = tokio::time::timeout(PATIENCE, connection).await;
}

fn page(method: &Method, path: &str, metrics: &Metrics, health: &Health) -> Response<Full<Bytes>> {
    let ok = |text: String| (StatusCode::OK, text);
    let unavailable = |why| (StatusCode::SERVICE_UNAVAILABLE, why);
    let mut content = TEXT;
    let (status, mut text) = match path {
        "/livez" | "/healthz" => health.live().map_or_else(unavailable, |()| ok("ok".to_owned())),
        "/readyz" => health.ready().map_or_else(unavailable, |what| ok(format!("ok: {what}"))),
        "/metrics" => {
            content = OPEN_METRICS;
            ok(metrics.text())
        }
        _ => (StatusCode::NOT_FOUND, "try /livez, /readyz or /metrics".to_owned()),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let readable = *method == Method::GET || *method == Method::HEAD;
    let mut response = if readable || status == StatusCode::NOT_FOUND {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response
    } else {
        let mut response = Response::new(Full::from("only GET and HEAD are allowed\n"));
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        content = TEXT;
        response
    };
    response.headers_mut().insert(CONTENT_TYPE, content);
    response
}
