//! The pages: reviews, health and metrics.

use crate::bodies::{Bodies, Whole};
use crate::metrics::Metrics;
use crate::review::{Verdict, Webhook, answer};
use crate::server::Caller;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use divvy_words::admission::Settings;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What all pages know.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Metrics,
    pub(crate) bodies: Arc<Bodies>,
    /// Whether reviews are only taken from who has shown a certificate.
    pub(crate) asks_certificate: bool,
    /// Why the server is not ready.
    pub(crate) unready: watch::Receiver<Option<String>>,
}

impl Pages {
    pub(crate) fn router(self) -> Router {
        let mut router = Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/livez", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics));
        for webhook in Webhook::ALL {
            let page = move |State(pages): State<Self>,
                             Extension(caller): Extension<Caller>,
                             request: Request| async move {
                review(webhook, &pages, &caller, request.into_body()).await
            };
            router = router.route(&format!("/{}", webhook.name()), post(page));
        }
        let unknown = "try /mutate, /void, /validate, /livez, /readyz or /metrics\n";
        router.fallback(move || async move { (StatusCode::NOT_FOUND, unknown) }).with_state(self)
    }
}

async fn readyz(State(pages): State<Pages>) -> Response {
    match &*pages.unready.borrow() {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn metrics(State(pages): State<Pages>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], pages.metrics.text()).into_response()
}

async fn review(webhook: Webhook, pages: &Pages, caller: &Caller, body: Body) -> Response {
    if pages.asks_certificate && !caller.is_certified {
        let why = "reviews need a client certificate of the CA that --client-ca names";
        return refuse(webhook, pages, StatusCode::FORBIDDEN, why);
    }
    let body = match pages.bodies.read(caller.seat.peer(), body).await {
        Ok(body) => body,
        Err((status, why)) => return refuse(webhook, pages, status, &why),
    };
    let start = Instant::now();
    match decide(webhook, pages, body).await {
        Ok((text, verdict)) => {
            caller.seat.answered();
            pages.metrics.review(webhook, Some(verdict), start.elapsed());
            let mut response = Response::new(Body::from(text));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        Err(why) => refuse(webhook, pages, StatusCode::BAD_REQUEST, &why),
    }
}

async fn decide(
    webhook: Webhook,
    pages: &Pages,
    Whole { bytes, turn }: Whole,
) -> Result<(Vec<u8>, Verdict), String> {
    if turn.is_none() {
        return answer(webhook, &bytes, &pages.settings);
    }
    // Large ones take a while, in which others are to be answered.
    let settings = Arc::clone(&pages.settings);
    let decided = tokio::task::spawn_blocking(move || {
        let answer = answer(webhook, &bytes, &settings);
        drop((bytes, turn));
        answer
    });
    decided.await.map_err(|why| why.to_string())?
}

fn refuse(webhook: Webhook, pages: &Pages, status: StatusCode, why: &str) -> Response {
    tracing::warn!("a review for /{} was refused: {why}", webhook.name());
    pages.metrics.review(webhook, None, Duration::ZERO);
    (status, format!("{why}\n")).into_response()
}
