//! One request to the API server.

use crate::client::{ClientError, client};
use crate::failure::{Failure, explain};
use crate::fence::Fence;
use crate::list::MOST_ITEM;
use crate::observer::{Observer, Verb};
use crate::timely::SendBy;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use kube::client::Body;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sends requests to one API server; every answer is counted.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    fence: Fence,
    observer: Arc<dyn Observer>,
    patience: Duration,
}

/// What a patch does with lists and with what it does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// Merges as `kubectl patch` does: lists by their keys.
    Strategic,
    /// Merges objects; lists are replaced.
    Merge,
    /// Does steps, all or none.
    Steps,
}

impl PatchKind {
    const fn content(self) -> &'static str {
        match self {
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Steps => "application/json-patch+json",
        }
    }
}

/// What is sent with a request; nothing to read something.
#[derive(Default)]
struct Sent<'a> {
    content: &'a str,
    body: Vec<u8>,
    by: Option<SendBy>,
}

const JSON: &str = "application/json";
/// No request waits longer for its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// A write ends this long before the fence closes.
const MARGIN: Duration = Duration::from_millis(500);

impl Api {
    /// Speaks to the server that `config` names, and sends nothing once `fence` is closed, also on
    /// connections that are open already. Nothing is asked yet, and nobody counts.
    pub fn connect(config: kube::Config, fence: Fence) -> Result<Self, ClientError> {
        Ok(Self::new(client(config, &fence)?, fence))
    }

    /// One whose server is a function, which may give no answer: for who tries what is asked.
    pub fn answered_by<F>(server: F) -> Self
    where
        F: Fn(Request<Vec<u8>>) -> Option<Response<Vec<u8>>> + Send + Sync + 'static,
    {
        let server = Arc::new(server);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.map_err(|_| "the body cannot be read")?;
                let answer = server(Request::from_parts(parts, body.into())).ok_or("no answer")?;
                Ok::<_, &'static str>(answer.map(Body::from))
            }
        });
        Self::new(kube::Client::new(service, "default"), Fence::open())
    }

    fn new(client: kube::Client, fence: Fence) -> Self {
        Self { client, fence, observer: Arc::new(()), patience: PATIENCE }
    }

    /// Has its requests and watches counted.
    #[must_use]
    pub fn observed(self, observer: impl Observer + 'static) -> Self {
        Self { observer: Arc::new(observer), ..self }
    }

    /// Waits so long for an answer, instead of 30 s.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    /// Reads one object.
    pub async fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.request(Verb::Get, path, Sent::default(), self.patience).await
    }

    /// Creates something.
    pub async fn post(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.write(Verb::Create, path, JSON, body).await
    }

    /// Replaces an object that names its version.
    pub async fn put(&self, path: &str, body: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.write(Verb::Update, path, JSON, body).await
    }

    /// Changes a part of an object.
    pub async fn patch(
        &self,
        path: &str,
        how: PatchKind,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        self.write(Verb::Patch, path, how.content(), body).await
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str, options: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.write(Verb::Delete, path, JSON, options).await
    }

    /// Its deadline ends before the fence closes, so that a write that is still under way when
    /// another process takes over has been given up by us, and by the server that we tell. Where
    /// nobody takes over, the fence has no end and no write comes too late.
    async fn write(
        &self,
        verb: Verb,
        path: &str,
        content: &str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let patience = match self.fence.left() {
            Duration::MAX => {
                let body = Sent { content, body, by: None };
                return self.request(verb, path, body, self.patience).await;
            }
            left => left.saturating_sub(MARGIN).min(self.patience),
        };
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
            Ok((parts, whole(body).await?))
        };
        let (parts, bytes) = match tokio::time::timeout(patience, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => {
                self.observer.request(verb, None);
                return Err(failure);
            }
            Err(_) => {
                self.observer.request(verb, None);
                let seconds = patience.as_secs();
                return Err(Failure::Unclear(format!("no answer within {seconds} s")));
            }
        };
        self.observer.request(verb, Some(parts.status.as_u16()));
        match Failure::of_answer(parts.status, &parts.headers, &bytes) {
            None => Ok(bytes),
            Some(failure) => Err(failure),
        }
    }

    /// Opens a list or a watch, whose body the caller reads while it comes.
    pub(crate) async fn open(&self, verb: Verb, path: &str) -> Result<Body, Failure> {
        let opened = self.send(Method::GET, path, Sent::default());
        let response = tokio::time::timeout(self.patience, opened)
            .await
            .map_err(|_| Failure::Unclear("no answer".to_owned()))??;
        self.observer.request(verb, Some(response.status().as_u16()));
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok(body);
        }
        let bytes = tokio::time::timeout(self.patience, whole(body)).await;
        let bytes = bytes.ok().and_then(Result::ok).unwrap_or_default();
        Err(Failure::of_answer(parts.status, &parts.headers, &bytes)
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
        self.client.send(request).await.map_err(|e| Failure::of_client(&e))
    }
}

/// All of a body, which is one object or says what went wrong.
async fn whole(mut body: Body) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(piece) =
        next_piece(&mut body).await.map_err(|e| Failure::Unclear(explain(&e)))?
    {
        if bytes.len() + piece.len() > MOST_ITEM {
            let most = MOST_ITEM >> 20;
            return Err(Failure::Unclear(format!("the answer is larger than {most} MiB")));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The next piece of a body while it comes; nothing at its end.
pub(crate) async fn next_piece(body: &mut Body) -> Result<Option<Bytes>, kube::Error> {
    loop {
        let Some(frame) = body.frame().await else { return Ok(None) };
        if let Ok(data) = frame?.into_data() {
            return Ok(Some(data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server on a free port that tells of each request that came with its whole body.
    async fn server() -> (Api, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let (told, came) = tokio::sync::mpsc::unbounded_channel();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = move |uri: http::Uri, _: Bytes| {
            let _ = told.send(uri.to_string());
            std::future::ready("{}")
        };
        let router = axum::Router::new().fallback(answer);
        tokio::spawn(async { axum::serve(listener, router).await });
        let mut config = kube::Config::new(url.parse().unwrap());
        config.root_cert = Some(Vec::new());
        let fence = Fence::elected(Duration::from_secs(15));
        fence.extend(Instant::now() + Duration::from_secs(8));
        (Api::connect(config, fence).unwrap(), came)
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

    #[tokio::test]
    async fn an_answer_without_an_end_is_given_up() {
        let api = Api::answered_by(|request| {
            let size = if request.uri() == "/large" { MOST_ITEM + 1 } else { MOST_ITEM };
            Some(Response::new(vec![b' '; size]))
        });
        let failure = api.get("/large").await.unwrap_err();
        assert_eq!(failure.to_string(), "the answer is larger than 16 MiB");
        assert_eq!(api.get("/small").await.map(|bytes| bytes.len()), Ok(MOST_ITEM));
    }

    #[tokio::test]
    async fn a_write_of_one_whose_fence_has_no_end_has_no_deadline_at_the_server() {
        let api = Api::answered_by(|request| {
            assert_eq!(request.uri(), "/x");
            Some(Response::new(request.into_body()))
        });
        assert_eq!(api.put("/x", b"{}".to_vec()).await, Ok(b"{}".to_vec()));
    }
}
