//! The way to the API server.
//!
//! ```text
//!   kube::Client ─► base URI ─► authorization ─► headers ─► timely ─► hyper, HTTP/1.1 ─► TLS ─► fenced TCP
//! ```
//!
//! These are the layers of kube's own client without the ones that would decide for us: it retries
//! 429, 503 and 504 by itself, writes included, which would outlive the deadline of a write. What
//! hyper does try again is a request of which no byte was sent, because its idle connection had
//! been closed.

use crate::fence::Fence;
use crate::fenced::Fenced;
use crate::timely::Timely;
use http::header::{HeaderValue, USER_AGENT};
use hyper_util::client::legacy::{Client as Hyper, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::{AuthError, ClientBuilder, ConfigExt};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::path::Path;
use std::time::Duration;
use tower::util::option_layer;
use tower::{BoxError, ServiceExt};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig that was asked for cannot be used.
    #[error("failed to use the kubeconfig {place}: {}", told(why))]
    Kubeconfig {
        /// The file, or where it was looked for.
        place: String,
        /// What is wrong with it.
        why: Box<KubeconfigError>,
    },
    /// The kubeconfig does not have the context.
    #[error("the kubeconfig {place} {wrong}; {}", listed(contexts))]
    Context {
        /// The file, or where it was looked for.
        place: String,
        /// What is wrong.
        wrong: String,
        /// The contexts that it has.
        contexts: Vec<String>,
    },
    /// The command by which the kubeconfig gets credentials cannot be started.
    #[error(
        "the kubeconfig gets its credentials for {server} from the command {command}, which cannot \
         be started: {why}; install it where the PATH finds it, or choose another context with \
         --context{hint}"
    )]
    Command {
        /// The API server.
        server: Box<http::Uri>,
        /// The command.
        command: Box<str>,
        /// Why it does not start.
        why: std::io::Error,
        /// What the kubeconfig says of how to install it.
        hint: Box<str>,
    },
    /// The command by which the kubeconfig gets credentials has failed.
    #[error(
        "the kubeconfig gets its credentials for {server} from the command {command}, which failed \
         with {status}{said}; run it by itself, or choose another context with --context"
    )]
    CommandFailed {
        /// The API server.
        server: Box<http::Uri>,
        /// The command.
        command: Box<str>,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last that it said, behind a colon.
        said: Box<str>,
    },
    /// Neither outside nor inside of a cluster.
    #[error(
        "no cluster is configured: KUBECONFIG is not set, there is no ~/.kube/config, and this is \
         no pod with a service account ({why}); give --kubeconfig <file>"
    )]
    NoCluster {
        /// Why it is no pod.
        why: Box<InClusterError>,
    },
    /// The kubeconfig wants a proxy.
    #[error(
        "the kubeconfig sets proxy-url {0}: proxies are not supported; use a direct address of \
         the API server, or a tunnel to it"
    )]
    Proxy(http::Uri),
    /// Certificates, keys or tokens are wrong.
    #[error("failed to set up the connection to {server}: {why}")]
    Setup {
        /// The API server.
        server: http::Uri,
        /// What is wrong.
        why: Box<kube::Error>,
    },
}

/// A connection, TLS included, that takes longer is given up.
const CONNECT: Duration = Duration::from_secs(5);
/// A watch is silent for minutes, so a dead peer is found by probes.
const PROBE: Duration = Duration::from_secs(15);
/// Shorter than the API server's own limit, so that it is seldom the one that hangs up.
const IDLE: Duration = Duration::from_secs(60);
/// More than ever write at the same time: a burst opens each connection once.
const IDLE_CONNECTIONS: usize = 128;

/// Which cluster: the kubeconfig that is given, else `KUBECONFIG` or `~/.kube/config`, else the
/// one this pod runs in. A file that exists and is wrong is an error, not a reason to go on. That
/// the server is believed without a certificate is logged here, once.
pub async fn config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Config, ClientError> {
    let (place, read) = match kubeconfig {
        Some(path) => (path.display().to_string(), Kubeconfig::read_from(path)),
        None => (default_place(), Kubeconfig::read()),
    };
    let absent = |why: &KubeconfigError| match why {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    };
    let failed = |why| ClientError::Kubeconfig { place: place.clone(), why: Box::new(why) };
    let asked =
        kubeconfig.is_some() || context.is_some() || from_environment("KUBECONFIG").is_some();
    match read {
        Err(why) if !asked && absent(&why) => {
            kube::Config::incluster().map_err(|why| ClientError::NoCluster { why: Box::new(why) })
        }
        Err(why) => Err(failed(why)),
        Ok(file) => {
            let contexts: Vec<String> = file.contexts.iter().map(|c| c.name.clone()).collect();
            let options =
                KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
            let config = kube::Config::from_custom_kubeconfig(file, &options).await;
            let config = config.map_err(|why| match why {
                KubeconfigError::LoadContext(name) => {
                    let wrong = format!("has no context {name:?}");
                    ClientError::Context { place: place.clone(), wrong, contexts }
                }
                KubeconfigError::CurrentContextNotSet => {
                    let wrong = "names no current-context: give one with --context".to_owned();
                    ClientError::Context { place: place.clone(), wrong, contexts }
                }
                why => failed(why),
            });
            let config = without_proxy(config?)?;
            if config.accept_invalid_certs {
                tracing::warn!(
                    "the API server's certificate is not checked (insecure-skip-tls-verify in the \
                     kubeconfig)"
                );
            }
            Ok(config)
        }
    }
}

fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn default_place() -> String {
    match from_environment("KUBECONFIG") {
        Some(paths) => format!("{paths} (from KUBECONFIG)"),
        None => "~/.kube/config".to_owned(),
    }
}

/// kube takes the proxy of the environment for one of the kubeconfig. Ours is ignored, because the
/// variable is there for the web; one in the kubeconfig means that there is no other way.
fn without_proxy(mut config: kube::Config) -> Result<kube::Config, ClientError> {
    let Some(proxy) = config.proxy_url.take() else { return Ok(config) };
    let environment = from_environment("HTTPS_PROXY").or_else(|| from_environment("https_proxy"));
    let same = environment.and_then(|text| text.parse().ok()) == Some(proxy.clone());
    if same { Ok(config) } else { Err(ClientError::Proxy(proxy)) }
}

/// A client that sends nothing once `fence` is closed, also on connections that are open already.
///
/// There is no limit on the rate of requests: who writes decides how many at once.
pub(crate) fn client(mut config: kube::Config, fence: &Fence) -> Result<kube::Client, ClientError> {
    // The one provider of this build; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let name = HeaderValue::from_static(concat!("divvy/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, name));
    let server = config.cluster_url.clone();
    build(&config, fence.clone()).map_err(|why| match (why, config.auth_info.exec) {
        (kube::Error::Auth(AuthError::AuthExecStart(why)), Some(exec)) => ClientError::Command {
            server: Box::new(server),
            command: exec.command.unwrap_or_default().into(),
            why,
            hint: exec
                .install_hint
                .map_or_else(Box::default, |hint| format!("\n{}", hint.trim()).into()),
        },
        (kube::Error::Auth(AuthError::AuthExecRun { out, .. }), Some(exec)) => {
            ClientError::CommandFailed {
                server: Box::new(server),
                command: exec.command.unwrap_or_default().into(),
                status: out.status,
                said: last_line(&out.stderr).map_or_else(Box::default, |s| format!(": {s}").into()),
            }
        }
        (why, _) => ClientError::Setup { server, why: Box::new(why) },
    })
}

/// What is wrong with a kubeconfig, in one line and without the place, which is told already.
fn told(why: &KubeconfigError) -> String {
    match why {
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::Parse(error) => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
        why => why.to_string(),
    }
}

/// More of what a command says is not worth a message.
const LONGEST_SAID: usize = 500;

fn last_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(LONGEST_SAID).collect())
}

/// Contexts that are named where one of them is meant.
const MOST_CONTEXTS: usize = 20;

/// `it has dev and prod`.
fn listed(contexts: &[String]) -> String {
    let shown = &contexts[..contexts.len().min(MOST_CONTEXTS)];
    match (shown, contexts.len() - shown.len()) {
        ([], _) => "it has none".to_owned(),
        ([only], _) => format!("it has {only}"),
        ([rest @ .., last], 0) => format!("it has {} and {last}", rest.join(", ")),
        (shown, more) => format!("it has {} and {more} more", shown.join(", ")),
    }
}

fn build(config: &kube::Config, fence: Fence) -> Result<kube::Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    // Together with the fence, this bounds how late a write can arrive.
    tcp.set_tcp_user_timeout(Some(fence.reach()));
    tcp.set_keepalive(Some(PROBE));
    tcp.set_keepalive_interval(Some(PROBE));
    let tcp = tcp
        .map_response(move |stream| TokioIo::new(Fenced::new(stream.into_inner(), fence.clone())));
    let tls = config.rustls_https_connector_with_connector(tcp)?.map_future(|connecting| {
        Box::pin(async {
            let late = |_| BoxError::from("failed to connect in 5 s");
            tokio::time::timeout(CONNECT, connecting).await.map_err(late)?
        })
    });
    let hyper = Hyper::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .build::<_, Timely>(tls);
    let hyper = hyper.map_request(Timely::request).map_err(BoxError::from);
    Ok(ClientBuilder::new(hyper, config.default_namespace.clone())
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&config.base_uri_layer())
        .build())
}
