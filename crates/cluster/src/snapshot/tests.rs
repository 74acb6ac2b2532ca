use super::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A reader of a server that answers the n-th request for a path like this.
fn reader<T: ToString>(answer: impl Fn(usize, &str) -> (u16, T) + Send + Sync + 'static) -> Reader {
    let asked = AtomicUsize::new(0);
    let api = Api::answered_by(move |request| {
        let (n, path) = (asked.fetch_add(1, Ordering::Relaxed), request.uri().to_string());
        let (code, body) = answer(n, &path);
        let body = body.to_string().into_bytes();
        Some(http::Response::builder().status(code).body(body).unwrap())
    });
    let (server, namespace) = ("https://server".to_owned(), "default".to_owned());
    Reader { api, server, namespace, patience: Duration::from_secs(60) }
}

fn status(code: u16, message: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "status": "Failure", "message": message, "code": code,
        "reason": "", "metadata": {}}),
    )
}

fn page(names: &[&str], next: &str, left: u64) -> (u16, Value) {
    let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    let metadata = json!({"continue": next, "remainingItemCount": left});
    (200, json!({"kind": "List", "metadata": metadata, "items": items}))
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    let name = |object: &String| {
        let object: Value = serde_json::from_str(object).unwrap();
        object["metadata"]["name"].as_str().unwrap().to_owned()
    };
    snapshot.objects.iter().map(name).collect()
}

#[tokio::test]
async fn a_collection_is_read_page_by_page() {
    let reader = reader(|n, path| {
        let from = ["limit=500", "limit=500&continue=second"][n];
        assert_eq!(path, format!("/api/v1/pods?{from}"));
        if n == 0 { page(&["a", "b"], "second", 1) } else { page(&["c"], "", 0) }
    });
    let (read, left) = (AtomicU64::new(0), AtomicU64::new(0));
    let on_page = |kind: &'static str, got: u64, rest: u64| {
        assert_eq!(kind, "pods");
        read.fetch_add(got, Ordering::Relaxed);
        left.fetch_add(rest, Ordering::Relaxed);
    };
    let snapshot = reader.read(&HOLDINGS[..1], &on_page).await.unwrap();
    assert_eq!(names(&snapshot), ["a", "b", "c"]);
    assert_eq!(snapshot.counts, [("Pod", 3)]);
    assert_eq!((read.into_inner(), left.into_inner()), (3, 1));
}

#[tokio::test]
async fn a_list_that_the_server_forgot_is_begun_again_and_not_for_ever() {
    let again = reader(|n, _| match n {
        0 => page(&["a"], "second", 1),
        1 => status(410, "too old"),
        _ => page(&["b"], "", 0),
    });
    let snapshot = again.read(&HOLDINGS[..1], &|_, _, _| {}).await.unwrap();
    assert_eq!(names(&snapshot), ["b"]);
    let never = reader(|_, _| status(410, "too old"));
    let failed = never.read(&HOLDINGS[..1], &|_, _, _| {}).await.unwrap_err();
    assert!(matches!(failed, SnapshotError::Expired { .. }), "{failed}");
}

#[tokio::test]
async fn of_large_objects_fewer_are_asked_for_at_a_time() {
    let large = "x".repeat(PAGE_BYTES / 400);
    let reader = reader(move |n, path| {
        let expected = ["limit=500", "limit=62", "limit=62&continue=rest"][n];
        assert_eq!(path, format!("/api/v1/pods?{expected}"));
        let (next, count) = [("rest", 500), ("rest", 2), ("", 1)][n];
        let item = format!(r#"{{"metadata": {{"name": "p", "annotations": {{"x": "{large}"}}}}}}"#);
        let items = vec![item; count].join(",");
        (200, format!(r#"{{"metadata": {{"continue": "{next}"}}, "items": [{items}]}}"#))
    });
    let snapshot = reader.read(&HOLDINGS[..1], &|_, _, _| {}).await.unwrap();
    assert_eq!(names(&snapshot), ["p"; 3]);
    assert!(snapshot.objects.iter().all(|object| object.len() < 200), "{}", snapshot.objects[0]);
}

#[tokio::test]
async fn an_object_larger_than_a_page_may_be_ends_the_reading() {
    // By so much that a server does not keep to the limit either.
    let large = format!(r#"{{"metadata": {{"name": "{}"}}}}"#, "x".repeat(PAGE_BYTES / 5));
    let list = format!(r#"{{"items": [{}]}}"#, vec![large; 5].join(","));
    let reader = reader(move |_, path| {
        assert!(path.starts_with("/api/v1/pods?limit="), "{path}");
        (200, list.clone())
    });
    let failed = reader.read(&HOLDINGS[..1], &|_, _, _| {}).await.unwrap_err().to_string();
    assert!(failed.ends_with("an object is larger than 64 MiB"), "{failed}");
}

#[tokio::test]
async fn what_is_not_needed_may_be_absent_or_forbidden() {
    let reader = reader(|_, path| match path {
        path if path.starts_with("/api/v1/namespaces") => status(403, "no"),
        path if path.starts_with("/apis/storage") => status(404, "not found"),
        _ => page(&["a"], "", 0),
    });
    let snapshot = reader.read(&EVERYTHING, &|_, _, _| {}).await.unwrap();
    assert_eq!(snapshot.objects.len(), 9);
    assert_eq!(
        snapshot.notes,
        [
            "namespaces are left out: not allowed to list namespaces in all namespaces (no); ask for \
          the verb `list` on namespaces in a ClusterRole"
        ]
    );
}

#[tokio::test]
async fn every_other_failure_ends_the_reading_and_says_what_to_do() {
    for (code, part) in [
        (401, "log in again"),
        (403, "the verb `list` on pods"),
        (404, "has no pods"),
        (500, "cannot list pods of the API server https://server: oops"),
    ] {
        let reader = reader(move |_, _| status(code, "oops"));
        let failed = reader.read(&EVERYTHING, &|_, _, _| {}).await.unwrap_err().to_string();
        assert!(failed.contains(part), "{code}: {failed}");
    }
    let broken = reader(|_, _| (200, json!("no list")));
    let failed = broken.read(&EVERYTHING, &|_, _, _| {}).await.unwrap_err().to_string();
    assert!(failed.contains("cannot list pods"), "{failed}");
    let proxy = reader(|_, _| (502, json!("bad gateway")));
    let failed = proxy.read(&EVERYTHING, &|_, _, _| {}).await.unwrap_err().to_string();
    assert!(failed.ends_with("502 Bad Gateway"), "{failed}");
}

#[tokio::test]
async fn of_config_maps_only_that_of_the_device_plugin_is_read_if_it_is_named() {
    let reader = reader(|_, path| {
        assert_eq!(path, "/api/v1/namespaces/gpu-operator/configmaps/time-slicing");
        let metadata = json!({"name": "time-slicing", "labels": {"a": "b"}});
        (200, json!({"metadata": metadata, "data": {"any": "version: v1"}, "binaryData": {}}))
    });
    let mut snapshot = Snapshot::default();
    let key = ObjectKey::new("gpu-operator", "time-slicing");
    reader.add_plugin_config_map(&key, &mut snapshot).await.unwrap();
    let object: Value = serde_json::from_str(&snapshot.objects[0]).unwrap();
    let kept = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "time-slicing"},
        "data": {"any": "version: v1"}});
    assert_eq!(object, kept);
    assert_eq!(snapshot.counts, [("ConfigMap", 1)]);
}

#[test]
fn a_snapshot_is_a_list_with_a_line_for_each_object() {
    let objects = vec![r#"{"kind": "A"}"#.to_owned(), r#"{"kind": "B"}"#.to_owned()];
    let text = Snapshot { objects, ..Snapshot::default() }.to_json();
    assert_eq!(text.lines().count(), 4, "{text}");
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["items"][1]["kind"], "B");
    let empty: Value = serde_json::from_str(&Snapshot::default().to_json()).unwrap();
    assert_eq!(empty["items"].as_array().unwrap().len(), 0);
}
