//! Neighbours that keep thousands of connections open and open them anew when they are closed.

use crate::server::{PATIENCE, stream};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinSet;

/// How many connections they want.
const CONNECTIONS: usize = 5000;

/// One at a time: all have the files of this process.
static TURN: Mutex<()> = Mutex::const_new(());

/// A flood, until it is dropped.
pub struct Flood {
    opened: Arc<AtomicUsize>,
    // Its connections are closed before the next one begins.
    _tasks: JoinSet<()>,
    _turn: MutexGuard<'static, ()>,
}

impl Flood {
    /// From so many addresses; nothing, and a line that says why, where a process may not open so
    /// many files.
    pub async fn start(to: SocketAddr, addresses: u8) -> Option<Self> {
        if !may_open(CONNECTIONS + 1000) {
            let why = format!("this process may not open {CONNECTIONS} files (ulimit -Hn)");
            // Not by println, which the test runner hides.
            let _ = writeln!(std::io::stdout(), "skipped: {why}");
            return None;
        }
        let turn = TURN.lock().await;
        let opened = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        let hello: Arc<[u8]> = client_hello().into();
        for (number, way) in (0..CONNECTIONS).zip(Way::ALL.into_iter().cycle()) {
            let from = [127, 0, 1, 1 + (number % usize::from(addresses)) as u8];
            let (opened, hello) = (Arc::clone(&opened), Arc::clone(&hello));
            tasks.spawn(async move {
                loop {
                    if let Ok(stream) = stream(from, to).await {
                        opened.fetch_add(1, Ordering::Relaxed);
                        way.go(stream, &hello).await;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            });
        }
        let flood = Self { opened, _tasks: tasks, _turn: turn };
        flood.goes_on_by(CONNECTIONS).await;
        Some(flood)
    }

    /// Waits until so many more connections were opened: neither side stands still.
    pub async fn goes_on_by(&self, more: usize) {
        let until = self.opened.load(Ordering::Relaxed) + more;
        let reached = async {
            while self.opened.load(Ordering::Relaxed) < until {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.unwrap();
    }
}

/// What is done with a connection until the other side closes it.
#[derive(Clone, Copy)]
enum Way {
    Idle,
    /// One byte a second, of a request that makes sense.
    Trickle,
    HalfHello,
    /// A TLS handshake that costs the other side its part, and is never finished.
    Hello,
}

impl Way {
    const ALL: [Self; 4] = [Self::Idle, Self::Trickle, Self::HalfHello, Self::Hello];

    async fn go(self, mut stream: TcpStream, hello: &[u8]) {
        let (half, _) = hello.split_at(hello.len() / 2);
        let begin = match self {
            Self::Idle | Self::Trickle => &[],
            Self::HalfHello => half,
            Self::Hello => hello,
        };
        if stream.write_all(begin).await.is_err() {
            return;
        }
        let request = b"GET /livez HTTP/1.1\r\nhost: divvy\r\nx: ".iter().chain(&[b'x'; 1000]);
        if matches!(self, Self::Trickle) {
            for byte in request {
                if stream.write_all(&[*byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        let mut sink = [0; 4096];
        while stream.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    }
}

/// The first message of a TLS handshake.
fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

/// Whether this process may have so many files; it takes as many as it is allowed.
fn may_open(files: usize) -> bool {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).is_ok()
        && getrlimit(Resource::Nofile).current.is_none_or(|most| most >= files as u64)
}
