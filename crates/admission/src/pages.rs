//! The pages: reviews, health and metrics.

use crate::metrics::Metrics;
use crate::review::{Webhook, answer};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use divvy_words::admission::Settings;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The API server takes objects of up to 3 MB, and a review of an update has two of them.
pub(crate) const MOST_BYTES: usize = 7 << 20;
/// So much more is read and thrown away: a client that is still sending would see a broken
/// connection instead of the answer.
const MOST_READ: usize = 64 << 20;
/// A body that takes longer is given up; the API server would not wait for the answer either.
const PATIENCE: Duration = Duration::from_secs(10);

/// What all pages know.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Metrics,
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
            let page = move |State(pages): State<Self>, request: Request| async move {
                review(webhook, &pages, request.into_body()).await
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

async fn review(webhook: Webhook, pages: &Pages, body: Body) -> Response {
    let body = match tokio::time::timeout(PATIENCE, whole(body)).await {
        Ok(Ok(body)) => body,
        Ok(Err((status, why))) => return refuse(webhook, pages, status, &why),
        Err(_) => {
            let why = format!("the body did not come within {} s", PATIENCE.as_secs());
            return refuse(webhook, pages, StatusCode::REQUEST_TIMEOUT, &why);
        }
    };
    let start = Instant::now();
    match answer(webhook, &body, &pages.settings) {
        Ok((text, verdict)) => {
            pages.metrics.review(webhook, Some(verdict), start.elapsed());
            let mut response = Response::new(Body::from(text));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        Err(why) => refuse(webhook, pages, StatusCode::BAD_REQUEST, &why),
    }
}

fn refuse(webhook: Webhook, pages: &Pages, status: StatusCode, why: &str) -> Response {
    tracing::warn!("a review for /{} was refused: {why}", webhook.name());
    pages.metrics.review(webhook, None, Duration::ZERO);
    (status, format!("{why}\n")).into_response()
}

async fn whole(mut body: Body) -> Result<Vec<u8>, (StatusCode, String)> {
    let mut all = Vec::new();
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|why| (StatusCode::BAD_REQUEST, format!("the body broke off: {why}")))?;
        let Some(data) = frame.data_ref() else { continue };
        read += data.len();
        if read > MOST_READ {
            break;
        }
        if read <= MOST_BYTES {
            all.extend_from_slice(data);
        }
    }
    if read > MOST_BYTES {
        let why = format!("the body is larger than {MOST_BYTES} bytes, which no review needs");
        return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(all)
}
