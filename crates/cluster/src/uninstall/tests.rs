use super::*;

fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {}, "annotations": {}},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
    })
}

fn seen(pods: &[Value]) -> Remains {
    let mut found = Remains::default();
    pods.iter().for_each(|pod| found.see(pod));
    found
}

#[test]
fn a_share_counts_until_it_has_ended_whoever_bound_it() {
    let mut ours = pod("ml", "ours");
    ours["metadata"]["annotations"] =
        json!({keys::VISIBLE_DEVICES: "GPU-1", keys::CARDS: "GPU-1:1024"});
    let mut adopted = pod("ml", "adopted");
    adopted["metadata"]["labels"][keys::GPU_GROUP] = json!("g");
    let mut of_two = pod("ml", "of-two");
    of_two["metadata"]["labels"][format!("{}/g", keys::GPU_GROUP)] = json!("g");
    let mut ended = ours.clone();
    ended["status"]["phase"] = json!("Succeeded");
    let mut waiting = adopted.clone();
    waiting["spec"] = json!({});
    let whole = pod("ml", "whole");
    let found = seen(&[ours, adopted, of_two, ended, waiting, whole]);
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
