//! What the client sends and what it refuses to send, against a plain HTTP server.
#![allow(clippy::unwrap_used)]

use axum::Router;
use axum::extract::Request;
use divvy_api::{Api, Config, Failure, Fence, config};
use http::StatusCode;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server that answers everything with `status` and remembers who asked for what.
async fn server(status: StatusCode) -> (Config, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let log = seen.clone();
    let answer = move |request: Request| {
        let header = |name: &str| {
            let value = request.headers().get(name).map(|v| v.to_str().unwrap().to_owned());
            value.unwrap_or_default()
        };
        let (method, uri, version) = (request.method(), request.uri(), request.version());
        let (agent, encoding) = (header("user-agent"), header("accept-encoding"));
        let line = format!("{method} {uri} {version:?} agent={agent} encoding={encoding}");
        log.lock().unwrap().push(line);
        std::future::ready((status, "{}"))
    };
    tokio::spawn(async { axum::serve(listener, Router::new().fallback(answer)).await });
    (config_of(&url), seen)
}

/// Trusts nobody, so that it does not matter which certificates the machine has.
fn config_of(url: &str) -> Config {
    let mut config = Config::new(url.parse().unwrap());
    config.root_cert = Some(Vec::new());
    config
}

fn api(config: Config, fence: &Fence) -> Api {
    Api::connect(config, fence.clone()).unwrap()
}

async fn post(api: &Api) -> Result<Vec<u8>, Failure> {
    api.post("/api/v1", Vec::new()).await
}

/// Writes look at the fence before they are sent; this is held up by the connection alone.
async fn get(api: &Api) -> Result<Vec<u8>, Failure> {
    api.get("/api/v1").await
}

#[tokio::test]
async fn a_request_is_plain_and_says_who_sends_it() {
    let (config, seen) = server(StatusCode::OK).await;
    post(&api(config, &Fence::open())).await.unwrap();
    let agent = concat!("agent=divvy/", env!("CARGO_PKG_VERSION"));
    assert_eq!(*seen.lock().unwrap(), [format!("POST /api/v1 HTTP/1.1 {agent} encoding=")]);
}

#[tokio::test]
async fn a_failed_write_is_not_sent_again_behind_our_back() {
    for status in [429, 500, 503, 504] {
        let (config, seen) = server(StatusCode::from_u16(status).unwrap()).await;
        post(&api(config, &Fence::open())).await.unwrap_err();
        assert_eq!(seen.lock().unwrap().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn nothing_is_sent_before_the_fence_opens_and_after_it_is_shut() {
    let (config, seen) = server(StatusCode::OK).await;
    let fence = Fence::elected(Duration::from_secs(15));
    let api = api(config, &fence);
    let error = get(&api).await.unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("not leading: nothing is sent"), "{text}");

    fence.extend(Instant::now() + Duration::from_secs(3600));
    get(&api).await.unwrap();
    // The connection is open now and waits for the next request.
    fence.shut();
    get(&api).await.unwrap_err();
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_fence_that_runs_out_refuses_on_a_connection_that_is_open() {
    let (config, seen) = server(StatusCode::OK).await;
    let fence = Fence::elected(Duration::from_secs(15));
    let api = api(config, &fence);
    // However slow the machine is, one gets through.
    fence.extend(Instant::now() + Duration::from_secs(1));
    while get(&api).await.is_err() {
        fence.extend(Instant::now() + Duration::from_secs(1));
    }
    let sent = loop {
        let sent = seen.lock().unwrap().len();
        if get(&api).await.is_err() {
            break sent;
        }
    };
    assert!(!fence.is_open());
    assert_eq!(seen.lock().unwrap().len(), sent);
}

#[tokio::test]
async fn a_server_that_never_says_hello_is_given_up() {
    // Accepts by its backlog alone; the handshake of TLS is never answered.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let api = api(config_of(&url), &Fence::open());
    let text = format!("{:?}", get(&api).await.unwrap_err());
    assert!(text.contains("failed to connect in 5 s"), "{text}");
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("divvy-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
clusters:
- {name: a, cluster: {server: "https://a:6443"}}
- {name: b, cluster: {server: "https://b:6443"}}
- {name: p, cluster: {server: "https://p:6443", proxy-url: "http://proxy:3128"}}
contexts:
- {name: a, context: {cluster: a, user: u}}
- {name: b, context: {cluster: b, user: u}}
- {name: p, context: {cluster: p, user: u}}
users:
- {name: u, user: {token: t}}
current-context: a
"#;

#[tokio::test]
async fn the_context_picks_the_cluster() {
    let path = file("contexts", KUBECONFIG);
    for (context, host) in [(None, "a"), (Some("a"), "a"), (Some("b"), "b")] {
        let config = config(Some(&path), context).await.unwrap();
        assert_eq!(config.cluster_url.host(), Some(host), "{context:?}");
    }
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_a_kubeconfig_is_said_with_its_name() {
    let path = file("problems", KUBECONFIG);
    let broken = file("broken", "clusters: [");
    let cases = [
        (&path, Some("c"), "has no context \"c\"; it has a, b and p"),
        (&path, Some("p"), "the kubeconfig sets proxy-url http://proxy:3128/"),
        (&broken, None, "line 1 column 11: unclosed bracket"),
        (&PathBuf::from("/no/such/file"), None, "No such file or directory"),
    ];
    for (path, context, expected) in cases {
        let error = config(Some(path), context).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let named = error.contains(&path.display().to_string()) || error.contains("proxy");
        assert!(named, "{error}");
    }
    std::fs::remove_file(path).unwrap();
    std::fs::remove_file(broken).unwrap();
}
