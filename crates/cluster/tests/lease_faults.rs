//! A candidate whose API server is broken asks on, but not in a hot loop.
#![allow(clippy::unwrap_used)]

use axum::Router;
use divvy_api::{Api, Config, Fence};
use divvy_cluster::lease::{LeaseSettings, lead};
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_candidate_asks_at_most_once_in_a_period_whatever_the_answer() {
    for status in [200, 401, 403, 409, 429, 500, 503] {
        let asked = Arc::new(AtomicUsize::new(0));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (count, status) = (asked.clone(), StatusCode::from_u16(status).unwrap());
        let answer = move || {
            count.fetch_add(1, Ordering::SeqCst);
            std::future::ready((status, "no lease"))
        };
        let server = Router::new().fallback(answer);
        let server = tokio::spawn(async { axum::serve(listener, server).await });
        let mut config = Config::new(url.parse().unwrap());
        config.root_cert = Some(Vec::new());

        let mut settings = LeaseSettings::new("default", "divvy").unwrap();
        settings.retry = Duration::from_millis(50);
        let (fence, start) = (Fence::elected(Duration::from_secs(15)), Instant::now());
        let candidate = Api::connect(config, Fence::open()).unwrap();
        let candidate = tokio::spawn(lead(candidate, settings, fence.clone()));
        while asked.load(Ordering::SeqCst) < 10 {
            tokio::task::yield_now().await;
        }
        // The shortest pause is 0.8 of the period, and there were nine.
        assert!(start.elapsed() >= Duration::from_millis(360), "{status}");
        assert!(!candidate.is_finished() && !fence.is_open(), "{status}");
        candidate.abort();
        server.abort();
    }
}

#[tokio::test]
async fn times_that_would_let_two_lead_are_refused() {
    let good = LeaseSettings::new("default", "divvy").unwrap();
    let second = Duration::from_secs(1);
    let cases = [
        LeaseSettings { renew_deadline: good.duration, ..good.clone() },
        LeaseSettings { retry: good.renew_deadline, ..good.clone() },
        LeaseSettings { retry: Duration::ZERO, ..good.clone() },
        LeaseSettings { duration: good.duration + second / 2, ..good.clone() },
        LeaseSettings { namespace: "../nodes".to_owned(), ..good.clone() },
        LeaseSettings { name: String::new(), ..good.clone() },
        LeaseSettings { name: "a b".to_owned(), ..good.clone() },
    ];
    let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
    config.root_cert = Some(Vec::new());
    let api = Api::connect(config, Fence::open()).unwrap();
    for settings in cases {
        let text = format!("{settings:?}");
        let error =
            lead(api.clone(), settings, Fence::elected(Duration::from_secs(15))).await.unwrap_err();
        assert!(error.to_string().starts_with("leader election: "), "{text}: {error}");
    }
    assert_ne!(good.identity, LeaseSettings::new("default", "divvy").unwrap().identity);
}
