//! The pages: reviews, health and metrics.

use crate::bodies::{Bodies, BodyTurn, ORDINARY_BYTES, Whole};
use crate::metrics::Metrics;
use crate::review::{Verdict, Webhook, answer};
use crate::server::Caller;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use divvy_serve::UnderWay;
use divvy_words::admission::Settings;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use std::net::IpAddr;
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
        let unknown =
            "try /mutate, /void, /template, /validate, /warn, /livez, /readyz or /metrics\n";
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
    let under_way = caller.seat.begin();
    let peer = caller.seat.peer();
    let body = match pages.bodies.read(peer, body, webhook.queues()).await {
        Ok(body) => body,
        Err((status, why)) => return refuse(webhook, pages, status, &why),
    };
    let start = Instant::now();
    match decide(webhook, pages, peer, body).await {
        Ok((text, verdict, turn)) => {
            caller.seat.answered();
            pages.metrics.review(webhook, Some(verdict), start.elapsed());
            let unread = Unread { text: text.into(), _turn: turn, _under_way: under_way };
            let mut response = Response::new(Body::from(Bytes::from_owner(unread)));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        Err((status, why)) => refuse(webhook, pages, status, &why),
    }
}

/// An answer until it is with the connection, which has a little of it at a time.
struct Unread {
    text: Box<[u8]>,
    _turn: Option<BodyTurn>,
    _under_way: UnderWay,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// The answer, and its turn if it is large.
async fn decide(
    webhook: Webhook,
    pages: &Pages,
    peer: IpAddr,
    Whole { bytes, turn }: Whole,
) -> Result<(Vec<u8>, Verdict, Option<BodyTurn>), (StatusCode, String)> {
    let malformed = |why| (StatusCode::BAD_REQUEST, why);
    let turn = match turn {
        Some(turn) => turn,
        None => {
            let (text, verdict) = answer(webhook, &bytes, &pages.settings).map_err(malformed)?;
            if text.len() <= ORDINARY_BYTES {
                return Ok((text, verdict, None));
            }
            // Many that wait for their turn are kept as bodies, which are smaller.
            drop(text);
            pages.bodies.turn_to_answer(peer).await?
        }
    };
    // Large ones take a while, in which others are to be answered.
    let settings = Arc::clone(&pages.settings);
    let decided = tokio::task::spawn_blocking(move || {
        let (text, verdict) = answer(webhook, &bytes, &settings)?;
        drop(bytes);
        let turn = (text.len() > ORDINARY_BYTES).then_some(turn);
        Ok((text, verdict, turn))
    });
    decided.await.map_err(|why| malformed(why.to_string()))?.map_err(malformed)
}

fn refuse(webhook: Webhook, pages: &Pages, status: StatusCode, why: &str) -> Response {
    tracing::warn!("a review for /{} was refused: {why}", webhook.name());
    pages.metrics.review(webhook, None, Duration::ZERO);
    (status, format!("{why}\n")).into_response()
}
