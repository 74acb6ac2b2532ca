//! A proxy between a client and the API server that can be told to misbehave, and that counts.
//!
//! ```text
//!   divvy ─► plain HTTP on loopback ─► fault? ─► API server
//!                                        └─► 409, 429, 5xx, nothing, late, or an answer that is lost
//! ```

mod fault;
mod streams;

use crate::api::{Api, ApiError};
use crate::dice::Dice;
use fault::Faults;
pub use fault::{Fault, Target};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use streams::{Order, Streams};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

type Failure = std::io::Error;
type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

/// A running proxy. Dropping it closes all that goes through it.
pub struct Proxy {
    url: String,
    traffic: Arc<Traffic>,
    task: JoinHandle<()>,
}

struct Traffic {
    api: Api,
    faults: Mutex<Faults>,
    /// Changes when they are healed.
    healed: watch::Sender<()>,
    streams: Streams,
    counts: Mutex<BTreeMap<String, usize>>,
    /// Shared by each open connection, and by each request that is on its way to the server.
    under_way: Arc<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Starts one in front of this API server.
    pub async fn start(api: &Api) -> Result<Self, ApiError> {
        let failed = |e: std::io::Error| ApiError::NoClient(e.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let url = format!("http://{}", listener.local_addr().map_err(failed)?);
        let traffic = Arc::new(Traffic {
            api: api.clone(),
            faults: Mutex::default(),
            healed: watch::Sender::new(()),
            streams: Streams::default(),
            counts: Mutex::default(),
            under_way: Arc::default(),
        });
        let task = tokio::spawn(serve(listener, Arc::clone(&traffic)));
        Ok(Self { url, traffic, task })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The next `times` requests of this kind go wrong in this way.
    pub fn inject(&self, target: Target, fault: Fault, times: usize) {
        lock(&self.traffic.faults).add(target, fault, times);
    }

    /// Some requests of one kind go wrong in one way, as the dice fall; gives how many. The lease is
    /// spared unless `leases`.
    pub fn inject_any(&self, dice: &mut Dice, leases: bool) -> usize {
        let targets = [
            Target::Pods,
            Target::Bindings,
            Target::PodStatus,
            Target::Events,
            Target::Lists,
            Target::Watches,
            // These may take the lease away.
            Target::Any,
            Target::Writes,
            Target::Leases,
        ];
        let target = dice.of(if leases { &targets[..] } else { &targets[..6] });
        let fault = dice.of(&[
            Fault::Status(StatusCode::INTERNAL_SERVER_ERROR),
            Fault::Status(StatusCode::CONFLICT),
            Fault::TooMany { retry_after: 1 },
            Fault::Drop,
            Fault::Hang(Duration::from_secs(2)),
            Fault::Slow(Duration::from_millis(700)),
            Fault::LoseAnswer,
            Fault::Late(Duration::from_millis(1500)),
        ]);
        let times = 1 + dice.index(12);
        self.inject(target, fault, times);
        times
    }

    /// No more faults from now on, and what is held back goes through; streams that are stuck stay so.
    pub fn heal(&self) {
        lock(&self.traffic.faults).clear();
        self.traffic.healed.send_replace(());
    }

    /// How often faults were injected since the start.
    pub fn injected(&self) -> usize {
        lock(&self.traffic.faults).injected
    }

    /// All open watches break off in the middle.
    pub fn cut_watches(&self) {
        self.traffic.streams.order(Order::Cut);
    }

    /// All open watches say nothing more but stay open.
    pub fn freeze_watches(&self) {
        self.traffic.streams.order(Order::Freeze);
    }

    /// All open watches end with 410: the resourceVersion is too old.
    pub fn expire_watches(&self) {
        self.traffic.streams.order(Order::Expire);
    }

    /// Whether all who came are gone, and nothing that they sent can take effect any more.
    pub fn is_quiet(&self) -> bool {
        // The one reference is the proxy's own.
        Arc::strong_count(&self.traffic.under_way) == 1
    }

    /// How many watches are open.
    pub fn open_watches(&self) -> usize {
        self.traffic.streams.open()
    }

    /// Requests so far by what they ask, such as `POST pods/binding` or `WATCH nodes`.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        lock(&self.traffic.counts).clone()
    }

    /// The sum of all counts.
    pub fn requests(&self) -> usize {
        lock(&self.traffic.counts).values().sum()
    }
}

async fn serve(listener: TcpListener, traffic: Arc<Traffic>) {
    // Connections end with the proxy.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (traffic, under_way) = (Arc::clone(&traffic), Arc::clone(&traffic.under_way));
        connections.spawn(async move {
            let _under_way = under_way;
            let service = service_fn(move |request| {
                let traffic = Arc::clone(&traffic);
                traffic.answer(request)
            });
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Traffic {
    /// An error closes the connection without an answer.
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Answer, Failure> {
        let asked = Asked::of(request.method(), request.uri());
        *lock(&self.counts).entry(asked.to_string()).or_default() += 1;
        // Before anybody can know that a fault was injected, and heal it.
        let mut healed = self.healed.subscribe();
        let fault = lock(&self.faults).next(&asked);
        let (parts, body) = request.into_parts();
        let body = whole(body).await?;
        let mut delay = Duration::ZERO;
        match fault {
            None | Some(Fault::LoseAnswer) => {}
            Some(Fault::Late(most)) => delay = most.mul_f64(spread(&parts.uri)),
            Some(Fault::Slow(delay)) => tokio::time::sleep(delay).await,
            Some(Fault::Held) => drop(healed.changed().await),
            Some(Fault::Status(status)) => return Ok(refusal(status, None)),
            Some(Fault::TooMany { retry_after }) => {
                return Ok(refusal(StatusCode::TOO_MANY_REQUESTS, Some(retry_after)));
            }
            Some(Fault::Drop) => return Err(Failure::other("dropped")),
            Some(Fault::Hang(delay)) => {
                tokio::time::sleep(delay).await;
                return Err(Failure::other("hung and dropped"));
            }
        }
        // What has arrived here is done, also if whoever asked is gone.
        let (traffic, under_way) = (Arc::clone(&self), Arc::clone(&self.under_way));
        let passed_on = tokio::spawn(async move {
            let _under_way = under_way;
            tokio::time::sleep(delay).await;
            traffic.forward(&parts.method, &parts.uri, &parts.headers, body).await
        });
        let response = passed_on.await.map_err(Failure::other)??;
        if fault == Some(Fault::LoseAnswer) {
            return Err(Failure::other("the answer is lost"));
        }
        let (parts, body) = response.into_parts();
        let mut answer = if asked.is_watch && parts.status.is_success() {
            Response::new(self.streams.pass_on(body).boxed_unsync())
        } else {
            Response::new(full(whole(body).await?))
        };
        *answer.status_mut() = parts.status;
        for name in [http::header::CONTENT_TYPE, http::header::CONTENT_ENCODING] {
            if let Some(value) = parts.headers.get(&name) {
                answer.headers_mut().insert(name, value.clone());
            }
        }
        Ok(answer)
    }

    async fn forward(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder().method(method).uri(uri);
        let kept = [
            http::header::ACCEPT,
            http::header::ACCEPT_ENCODING,
            http::header::CONTENT_TYPE,
            http::header::USER_AGENT,
        ];
        for name in kept {
            if let Some(value) = headers.get(&name) {
                request = request.header(name, value);
            }
        }
        let request = request.body(Body::from(body)).map_err(Failure::other)?;
        self.api.client().send(request).await.map_err(Failure::other)
    }
}

async fn whole<B>(body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body,
    B::Error: std::fmt::Display,
{
    let collected = body.collect().await.map_err(|e| Failure::other(e.to_string()))?;
    Ok(collected.to_bytes())
}

fn full(bytes: Bytes) -> UnsyncBoxBody<Bytes, Failure> {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// From 0 to 1, different for each object.
fn spread(uri: &Uri) -> f64 {
    let hash = uri.path().bytes().fold(0u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    f64::from(hash % 1000) / 1000.0
}

/// What the API server would answer, with its kind of body.
fn refusal(status: StatusCode, retry_after: Option<u64>) -> Answer {
    let reason = match status {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::GONE => "Expired",
        _ => "InternalError",
    };
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the fault proxy", "reason": reason, "code": status.as_u16(),
    });
    let mut answer = Response::new(full(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    answer
}

/// What a request asks, without names.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    method: Method,
    /// Such as `pods` or `pods/binding`.
    resource: String,
    is_watch: bool,
    is_list: bool,
}

impl Asked {
    fn of(method: &Method, uri: &Uri) -> Self {
        let mut parts = uri.path().split('/').skip(1);
        // /api/v1/..., /apis/group/version/...
        let skipped = if parts.next() == Some("apis") { 2 } else { 1 };
        let mut rest: Vec<&str> = parts.skip(skipped).collect();
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            rest.drain(..2);
        }
        let resource = match rest.as_slice() {
            [resource, _, sub, ..] => format!("{resource}/{sub}"),
            [resource, ..] => (*resource).to_owned(),
            [] => uri.path().to_owned(),
        };
        let query = uri.query().unwrap_or_default();
        let is_watch = query.split('&').any(|part| part == "watch=true" || part == "watch=1");
        let is_list = method == Method::GET && rest.len() == 1 && !is_watch;
        Self { method: method.clone(), resource, is_watch, is_list }
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = match (self.is_watch, self.is_list) {
            (true, _) => "WATCH",
            (false, true) => "LIST",
            (false, false) => self.method.as_str(),
        };
        write!(f, "{verb} {}", self.resource)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_by_what_they_ask() {
        let table = [
            ("POST", "/api/v1/namespaces/ml/pods/a/binding", "POST pods/binding"),
            ("POST", "/api/v1/namespaces/ml/bindings", "POST bindings"),
            ("GET", "/api/v1/pods?limit=500", "LIST pods"),
            ("GET", "/api/v1/pods?watch=1&resourceVersion=5", "WATCH pods"),
            ("GET", "/api/v1/namespaces/ml/pods/a", "GET pods"),
            ("GET", "/api/v1/namespaces", "LIST namespaces"),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "PUT leases"),
            ("POST", "/apis/events.k8s.io/v1/namespaces/a/events", "POST events"),
        ];
        for (method, uri, expected) in table {
            let (Ok(method), Ok(uri)) = (method.parse(), uri.parse()) else { continue };
            assert_eq!(Asked::of(&method, &uri).to_string(), expected);
        }
    }
}
