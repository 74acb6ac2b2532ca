use super::*;
use divvy_engine::Strategy;
use http::{Method, Response};
use std::sync::{Arc, Mutex};

/// A server with at most one ConfigMap, which keeps what is posted.
#[derive(Clone, Default)]
struct Server {
    object: Arc<Mutex<Option<Value>>>,
    posted: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    fn put(&self, version: &str, text: &str) {
        *self.object.lock().unwrap() = Some(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": text},
            "metadata": {
                "namespace": "kai-scheduler", "name": "kai-scheduler-config", "uid": "u",
                "resourceVersion": version,
            },
        }));
    }

    fn client(&self) -> ConfigMap<Config> {
        let server = self.clone();
        let api = Api::answered_by(move |request| {
            if request.method() == Method::POST {
                let event = serde_json::from_slice(request.body()).unwrap();
                server.posted.lock().unwrap().push(event);
                return Response::builder().body(b"{}".to_vec()).ok();
            }
            let found = server.object.lock().unwrap().clone();
            let code = if found.is_some() { 200 } else { 404 };
            let body = found.unwrap_or_else(|| json!({"kind": "Status", "message": "not found"}));
            Response::builder().status(code).body(body.to_string().into_bytes()).ok()
        });
        let key = ObjectKey::new("kai-scheduler", "kai-scheduler-config");
        ConfigMap::new(api, key, "me", Metrics::new(), placing)
    }
}

const RECIPE: &str =
    "scheduling: {strategy: spread, binpacking: {weights: {gpu: 10, cpu: 2, memory: 1}}}";

#[tokio::test]
async fn what_the_recipes_config_map_says_counts_until_it_is_gone() {
    let server = Server::default();
    let mut map = server.client();
    map.look().await;
    assert_eq!(map.config, None);
    server.put("1", RECIPE);
    map.look().await;
    assert_eq!(map.config.unwrap().node, Strategy::Spread);
    *server.object.lock().unwrap() = None;
    map.look().await;
    assert_eq!(map.config, None);
}

#[tokio::test]
async fn an_error_is_said_once_on_it_and_what_it_said_before_counts() {
    let server = Server::default();
    let mut map = server.client();
    server.put("1", RECIPE);
    map.look().await;
    server.put("2", "scheduling: {strategy: best}");
    map.look().await;
    map.look().await;
    assert_eq!(map.config.unwrap().node, Strategy::Spread);
    let posted = server.posted.lock().unwrap().clone();
    assert_eq!(posted.len(), 1);
    assert_eq!(posted[0]["regarding"]["uid"], "u");
    assert_eq!(posted[0]["metadata"]["namespace"], "kai-scheduler");
    let note = posted[0]["note"].as_str().unwrap();
    assert!(note.contains("scheduling.strategy") && note.contains("best"), "{note}");
}

#[tokio::test]
async fn it_wins_over_the_file() {
    let server = Server::default();
    let (file, told) = watch::channel(Config { node: Strategy::Spread, ..Config::default() });
    let counts = server.client().follow(told.clone()).await;
    assert_eq!(counts.borrow().node, Strategy::Spread, "the file's");
    server.put("1", "scheduling: {strategy: binpack}");
    let counts = server.client().follow(told).await;
    assert_eq!(counts.borrow().node, Strategy::Binpack);
    drop(file);
}
