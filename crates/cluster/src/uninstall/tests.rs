use super::*;
use http::{Method, Response};
use std::sync::{Arc, Mutex};

fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {}, "annotations": {}},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
    })
}

fn seen(pods: &[Value]) -> Remains {
    let mut found = Remains::default();
    let homes = ["divvy-system".to_owned()].into();
    pods.iter().for_each(|pod| found.see(pod, &homes));
    found
}

#[test]
fn a_share_counts_until_it_has_ended_whoever_bound_it() {
    let mut ours = pod("ml", "ours");
    ours["metadata"]["annotations"] =
        json!({keys::VISIBLE_DEVICES: "GPU-1", keys::CARDS: "GPU-1:1024"});
    let mut adopted = pod("ml", "adopted");
    adopted["metadata"]["labels"][keys::GPU_GROUP] = json!("g");
    let kais = adopted.clone();
    adopted["metadata"]["annotations"][keys::CARDS] = json!("GPU-2:1024");
    let mut of_two = pod("ml", "of-two");
    of_two["metadata"]["labels"][format!("{}/g", keys::GPU_GROUP)] = json!("g");
    of_two["metadata"]["annotations"][keys::CARDS] = json!("GPU-3:1024,GPU-4:1024");
    let mut ended = ours.clone();
    ended["status"]["phase"] = json!("Succeeded");
    let mut waiting = adopted.clone();
    waiting["spec"] = json!({});
    let mut whole = pod("ml", "whole");
    whole["metadata"]["annotations"][keys::CARDS] = json!("GPU-5:1024");
    let found = seen(&[ours, adopted, of_two, ended, waiting, whole, kais]);
    let names: Vec<&str> = found.shares.iter().map(|share| &*share.pod).collect();
    assert_eq!(names, ["ml/ours", "ml/adopted", "ml/of-two"]);
    assert_eq!(found.shares[0].cards, "GPU-1:1024");
}

#[test]
fn reservations_that_are_not_divvys_stay_with_their_namespace() {
    let mut ours = pod(reservation::NAMESPACE, "r");
    ours["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "divvy"});
    assert!(!seen(std::slice::from_ref(&ours)).has_neighbours);
    let found = seen(&[ours, pod(reservation::NAMESPACE, "kais")]);
    assert_eq!(
        (found.reservations.as_slice(), found.has_neighbours),
        (&["r".to_owned()][..], true)
    );
}

#[test]
fn what_works_of_divvy_is_named() {
    let mut scheduler = pod("divvy-system", "divvy-scheduler-1");
    scheduler["metadata"]["labels"] =
        json!({"app.kubernetes.io/part-of": "divvy", "app.kubernetes.io/name": "divvy-scheduler"});
    assert_eq!(seen(&[scheduler]).working, ["pod divvy-system/divvy-scheduler-1"]);
}

/// What a tenant makes with divvy's public labels, by name.
fn imitations() -> [Value; 3] {
    let labelled = |mut object: Value| {
        object["metadata"]["labels"] = json!({"app.kubernetes.io/part-of": "divvy",
            "app.kubernetes.io/name": "divvy-scheduler"});
        object
    };
    let mut share = labelled(pod("a-team", "share"));
    share["metadata"]["annotations"] =
        json!({keys::VISIBLE_DEVICES: "GPU-1", keys::CARDS: "GPU-1:1024"});
    let mut ended = labelled(pod("divvy-system", "ended"));
    ended["status"]["phase"] = json!("Failed");
    [labelled(pod("a-team", "divvy-scheduler-1")), share, ended]
}

#[test]
fn a_pod_with_divvys_labels_elsewhere_is_not_divvys_and_may_be_a_share() {
    let found = seen(&imitations());
    assert_eq!(found.working, [""; 0]);
    let names: Vec<&str> = found.shares.iter().map(|share| &*share.pod).collect();
    assert_eq!(names, ["a-team/share"]);
}

/// Where divvy is besides the namespace that is named, as these objects say.
async fn working(objects: &[(&'static str, Value)]) -> Vec<String> {
    let deployments = ["divvy-system", "gpus", "a-team"].map(|place| {
        json!({"metadata": {"namespace": place, "name": "divvy-scheduler",
            "labels": {"app.kubernetes.io/part-of": "divvy"}}})
    });
    let objects = objects.to_vec();
    let api = Api::answered_by(move |request| {
        let path = request.uri().path();
        let items = if path.ends_with("/deployments") { deployments.to_vec() } else { Vec::new() };
        let list = json!({"metadata": {}, "items": items});
        let found = objects.iter().find(|(name, _)| path.contains(name)).map(|(_, one)| one);
        let is_list = path.ends_with('s');
        let (code, body) = match found {
            Some(object) => (200, object.clone()),
            None if is_list => (200, list),
            None => (404, json!({"message": "not found"})),
        };
        Response::builder().status(code).body(body.to_string().into_bytes()).ok()
    });
    look(&api, "divvy-system").await.unwrap().working
}

#[tokio::test]
async fn divvy_works_where_it_was_installed_or_where_its_webhooks_and_rights_are_for() {
    let here = "deployment divvy-system/divvy-scheduler";
    let there = "deployment gpus/divvy-scheduler";
    assert_eq!(working(&[]).await, [here]);
    let webhooks = json!({"webhooks": [{"clientConfig": {"service": {"namespace": "gpus"}}}]});
    assert_eq!(working(&[("mutatingwebhook", webhooks)]).await, [here, there]);
    let rights = json!({"subjects": [{"namespace": "gpus"}]});
    assert_eq!(working(&[("clusterrolebindings", rights)]).await, [here, there]);
}

/// A server on which nothing is but a node and these reservations; gives what was asked of it to be
/// changed.
async fn removed(remains: &Remains) -> Vec<String> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let api = Api::answered_by(move |request| {
        let path = request.uri().path().to_owned();
        let node = json!({
            "kind": "Node", "metadata": {"name": "n"},
            "spec": {"taints": [{"key": "other"}, {"key": keys::UNSETTLED}]},
        });
        let (code, body) = match *request.method() {
            Method::GET if path.ends_with("runtimeclasses") => {
                (200, json!({"metadata": {}, "items": []}))
            }
            Method::GET => (200, node),
            _ => {
                let body = String::from_utf8_lossy(request.body()).into_owned();
                heard.lock().unwrap().push(format!("{} {path} {body}", request.method()));
                let is_there = path.contains("gpu-reservation") || path.contains("/nodes/");
                (if is_there { 200 } else { 404 }, json!({"message": "not found"}))
            }
        };
        Response::builder().status(code).body(body.to_string().into_bytes()).ok()
    });
    let mut said = Vec::new();
    remove(&api, remains, "divvy-system", &mut |line| said.push(line.to_owned())).await.unwrap();
    assert!(said.iter().all(|line| line.contains("gpu-reservation") || line.contains("node n")));
    asked.lock().unwrap().clone()
}

#[tokio::test]
async fn cards_are_given_up_before_their_policies_and_what_is_gone_already_is_no_error() {
    let remains = Remains {
        reservations: vec!["gpu-reservation-1".to_owned()],
        tainted: vec!["n".to_owned()],
        ..Remains::default()
    };
    let asked = removed(&remains).await;
    let at = |part: &str| asked.iter().position(|line| line.contains(part)).unwrap();
    assert_eq!(at("pods/gpu-reservation-1"), 0);
    assert!(at("validatingadmissionpolicybindings/divvy-hand-off") < at("policies/divvy-hand-off"));
    assert!(at("policies/divvy-reservations") < at("namespaces/kai-resource-reservation "));
    // Only divvy's taint.
    let taint = &asked[at("/nodes/n")];
    assert!(taint.contains(r#""path":"/spec/taints/1""#) && !taint.contains("taints/0"), "{taint}");
}

#[tokio::test]
async fn where_kai_has_reservations_their_namespace_stays() {
    let asked = removed(&Remains { has_neighbours: true, ..Remains::default() }).await;
    assert!(!asked.iter().any(|line| line.contains("namespaces/kai-resource-reservation ")));
    // The right of divvy's reservations goes: no policy guards it any more.
    for kind in ["rolebindings", "roles", "serviceaccounts"] {
        let path = format!("namespaces/kai-resource-reservation/{kind}/divvy-reserve ");
        assert!(asked.iter().any(|line| line.contains(&path)), "{path}: {asked:?}");
    }
}
