//! One request to the API server, and what its answer means to us.

use crate::client::explain;
use crate::fence::Fence;
use crate::metrics::{Metrics, Verb};
use crate::timely::SendBy;
use http::{Method, Request, Response, StatusCode, header};
use kube::client::Body;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// Sends requests; every answer is counted.
#[derive(Clone)]
pub(crate) struct Api {
    client: kube::Client,
    fence: Fence,
    metrics: Metrics,
}

/// Why a request did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The object is not there.
    #[error("{0}")]
    NotFound(String),
    /// The object has changed, or the pod is bound already.
    #[error("{0}")]
    Conflict(String),
    /// The version that was asked for is too old.
    #[error("{0}")]
    Expired(String),
    /// The server is busy, and says when to come back.
    #[error("the API server is busy: {message}")]
    Busy {
        /// When to come back.
        after: Duration,
        /// What it said.
        message: String,
    },
    /// The server says no, and would say it again.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// Nobody knows whether it was done: no answer, or an error of the server.
    #[error("{0}")]
    Unclear(String),
    /// It was not sent, because this process may not write any more.
    #[error("this process does not lead any more")]
    Fenced,
}

impl Failure {
    /// Whether there is nothing for us at that address, now and for some time to come.
    pub(crate) const fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::Refused { code: 403 | 405, .. })
    }
}

/// What is sent with a request; nothing to read something.
#[derive(Default)]
struct Sent<'a> {
    content: &'a str,
    body: Vec<u8>,
    by: Option<SendBy>,
}

/// No server can send us away for longer.
const LONGEST_BUSY: u64 = 60;
/// No request waits longer for its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// A write ends this long before the fence closes.
const MARGIN: Duration = Duration::from_millis(500);

impl Api {
    pub(crate) fn new(client: kube::Client, fence: Fence, metrics: Metrics) -> Self {
        Self { client, fence, metrics }
    }

    /// Reads one object.
    pub(crate) async fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.request(Verb::Get, path, Sent::default(), PATIENCE).await
    }

    /// Creates something.
    pub(crate) async fn post(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.write(Verb::Create, path, "application/json", body).await
    }

    /// Replaces an object that names its version.
    pub(crate) async fn put(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.write(Verb::Update, path, "application/json", body).await
    }

    /// Merges a patch as `kubectl patch` does: lists by their keys.
    pub(crate) async fn patch(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.write(Verb::Patch, path, "application/strategic-merge-patch+json", body).await
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, path: &str, options: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.write(Verb::Delete, path, "application/json", options).await
    }

    /// Its deadline ends before the fence closes, so that a write that is still under way when
    /// another process takes over has been given up by us, and by the server that we tell.
    async fn write(
        &self,
        verb: Verb,
        path: &str,
        content: &str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let patience = self.fence.left().saturating_sub(MARGIN).min(PATIENCE);
        if patience.is_zero() {
            return Err(Failure::Fenced);
        }
        // The server's time counts from when it has the request: what is spent before is ours.
        let to_send = patience / 4;
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}timeout={}ms", (patience - to_send).as_millis());
        let body = Sent { content, body, by: Some(SendBy(Instant::now() + to_send)) };
        self.request(verb, &path, body, patience).await
    }

    async fn request(
        &self,
        verb: Verb,
        path: &str,
        body: Sent<'_>,
        patience: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let method = match verb {
            Verb::Create => Method::POST,
            Verb::Patch => Method::PATCH,
            Verb::Update => Method::PUT,
            Verb::Delete => Method::DELETE,
            _ => Method::GET,
        };
        let answer = async {
            let response = self.send(method, path, body).await?;
            let (parts, body) = response.into_parts();
            let bytes = body.collect_bytes().await.map_err(|e| Failure::Unclear(explain(&e)))?;
            Ok((parts, bytes))
        };
        let (parts, bytes) = match tokio::time::timeout(patience, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => {
                self.metrics.request(verb, None);
                return Err(failure);
            }
            Err(_) => {
                self.metrics.request(verb, None);
                let seconds = patience.as_secs();
                return Err(Failure::Unclear(format!("no answer within {seconds} s")));
            }
        };
        self.metrics.request(verb, Some(parts.status.as_u16()));
        match failure(parts.status, &parts.headers, &bytes) {
            None => Ok(bytes.into()),
            Some(failure) => Err(failure),
        }
    }

    /// Opens a list or a watch, whose body the caller reads while it comes.
    pub(crate) async fn open(&self, verb: Verb, path: &str) -> Result<Body, Failure> {
        let opened = self.send(Method::GET, path, Sent::default());
        let response = tokio::time::timeout(PATIENCE, opened)
            .await
            .map_err(|_| Failure::Unclear("no answer".to_owned()))??;
        self.metrics.request(verb, Some(response.status().as_u16()));
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok(body);
        }
        let bytes = tokio::time::timeout(PATIENCE, body.collect_bytes()).await;
        let bytes = bytes.ok().and_then(Result::ok).unwrap_or_default();
        Err(failure(parts.status, &parts.headers, &bytes)
            .unwrap_or_else(|| Failure::Unclear(parts.status.to_string())))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        sent: Sent<'_>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(path);
        if !sent.content.is_empty() {
            request = request.header(header::CONTENT_TYPE, sent.content);
        }
        if let Some(by) = sent.by {
            request = request.extension(by);
        }
        let request = request.body(Body::from(sent.body));
        let request = request.map_err(|e| Failure::Refused { code: 0, message: e.to_string() })?;
        self.client.send(request).await.map_err(|e| Failure::Unclear(explain(&e)))
    }
}

/// `Status`, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    reason: String,
}

fn failure(code: StatusCode, headers: &http::HeaderMap, body: &[u8]) -> Option<Failure> {
    if code.is_success() {
        return None;
    }
    let status: Status = serde_json::from_slice(body).unwrap_or_default();
    let message = if status.message.is_empty() { code.to_string() } else { status.message };
    let retry_after = headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
    Some(match code.as_u16() {
        404 => Failure::NotFound(message),
        409 => Failure::Conflict(message),
        410 => Failure::Expired(message),
        429 => {
            let seconds = retry_after.unwrap_or(1).min(LONGEST_BUSY);
            Failure::Busy { after: Duration::from_secs(seconds), message }
        }
        400 if status.reason == "Expired" => Failure::Expired(message),
        code @ 400..=499 => Failure::Refused { code, message },
        _ => Failure::Unclear(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_can_send_us_away_for_a_minute_at_most() {
        let mut headers = http::HeaderMap::new();
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from(u64::MAX));
        let busy = failure(StatusCode::TOO_MANY_REQUESTS, &headers, b"{}").unwrap();
        let Failure::Busy { after, .. } = busy else { panic!("{busy:?}") };
        assert_eq!(after, Duration::from_secs(60));
    }

    /// A server on a free port that tells of each request that came with its whole body.
    async fn server() -> (Api, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let (told, came) = tokio::sync::mpsc::unbounded_channel();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = move |uri: http::Uri, _: axum::body::Bytes| {
            let _ = told.send(uri.to_string());
            std::future::ready("{}")
        };
        let router = axum::Router::new().fallback(answer);
        tokio::spawn(async { axum::serve(listener, router).await });
        let mut config = kube::Config::new(url.parse().unwrap());
        config.root_cert = Some(Vec::new());
        let fence = Fence::elected(Duration::from_secs(15));
        fence.extend(Instant::now() + Duration::from_secs(8));
        let client = crate::client::client(config, &fence).unwrap();
        (Api::new(client, fence, Metrics::new()), came)
    }

    #[tokio::test]
    async fn the_servers_deadline_leaves_out_what_may_be_spent_before_it_has_the_request() {
        let (api, mut came) = server().await;
        api.post("/x", b"{}".to_vec()).await.unwrap();
        let uri = came.recv().await.unwrap();
        let given = uri.strip_prefix("/x?timeout=").and_then(|rest| rest.strip_suffix("ms"));
        let given: u64 = given.unwrap_or_else(|| panic!("{uri}")).parse().unwrap();
        assert!(given <= (8_000 - 500) * 3 / 4, "{given} ms of 8 s, less half a second");
        assert!(given > 1_000, "{given}");
    }

    #[tokio::test]
    async fn through_the_whole_client_what_is_late_is_not_sent() {
        let (api, mut came) = server().await;
        let sent = |by| Sent { content: "application/json", body: b"{}".to_vec(), by };
        let past = Instant::now();
        while Instant::now() <= past {}
        let late = sent(Some(SendBy(past)));
        let failure = api.request(Verb::Create, "/late", late, PATIENCE).await.unwrap_err();
        assert!(failure.to_string().contains("it was not sent"), "{failure}");
        api.request(Verb::Create, "/next", sent(None), PATIENCE).await.unwrap();
        assert_eq!(came.recv().await.unwrap(), "/next");
    }

    #[test]
    fn what_we_may_not_read_is_absent_and_an_expired_token_is_not_that() {
        let refused = |code| Failure::Refused { code, message: String::new() };
        assert!(Failure::NotFound(String::new()).is_absence());
        assert!(refused(403).is_absence());
        assert!(!refused(401).is_absence(), "all objects of the kind would be taken for gone");
    }

    #[test]
    fn an_answer_means_what_the_server_wants_us_to_do() {
        let mut headers = http::HeaderMap::new();
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("7"));
        let of = |code: u16, body: &str| {
            failure(StatusCode::from_u16(code).unwrap(), &headers, body.as_bytes())
        };
        let said = |text: &str| format!(r#"{{"kind":"Status","message":"{text}"}}"#);
        assert_eq!(of(201, "{}"), None);
        assert_eq!(of(404, &said("gone")), Some(Failure::NotFound("gone".into())));
        assert_eq!(of(409, &said("no")), Some(Failure::Conflict("no".into())));
        assert_eq!(of(410, &said("old")), Some(Failure::Expired("old".into())));
        let busy = Failure::Busy { after: Duration::from_secs(7), message: "later".into() };
        assert_eq!(of(429, &said("later")), Some(busy));
        let refused = Failure::Refused { code: 403, message: "never".into() };
        assert_eq!(of(403, &said("never")), Some(refused));
        assert_eq!(of(500, &said("oops")), Some(Failure::Unclear("oops".into())));
        assert_eq!(of(502, "<html>"), Some(Failure::Unclear("502 Bad Gateway".into())));
    }
}
