//! Where divvy means to differ: the cases of docs/differences.md that manifests can show. They are
//! left out of the comparison, and shrinking does not end at one.

use crate::case::Case;
use serde_json::Value;

/// Whether the case shows a difference that is meant.
pub fn is_meant(case: &Case) -> bool {
    let has_odd_object = case.objects.iter().any(|object| match object["kind"].as_str() {
        Some("Node") => has_hand_written_status(object),
        Some("Pod") => has_claim_of_another(object, &case.objects),
        _ => false,
    });
    has_odd_object || names_an_unbound_claim_twice(&case.pod, &case.objects)
}

fn names_an_unbound_claim_twice(pod: &Value, objects: &[Value]) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claims = volumes.map(|volume| &volume["persistentVolumeClaim"]["claimName"]);
    let mut named: Vec<&Value> = claims.filter(|name| name.is_string()).collect();
    named.sort_by_key(|name| name.as_str());
    let mut twice = named.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let is_unbound = |name: &Value| {
        objects.iter().any(|claim| {
            claim["kind"] == "PersistentVolumeClaim"
                && claim["metadata"]["name"] == *name
                && claim["metadata"]["namespace"] == pod["metadata"]["namespace"]
                && claim["spec"]["volumeName"].is_null()
        })
    };
    twice.any(is_unbound)
}

/// A node whose status leaves out what every kubelet reports.
fn has_hand_written_status(node: &Value) -> bool {
    let status = &node["status"];
    let list = status["allocatable"].as_object().or(status["capacity"].as_object());
    list.is_some_and(|list| ["pods", "ephemeral-storage"].iter().any(|r| !list.contains_key(*r)))
}

/// A pod of the cluster whose ephemeral volume has the name of a claim that was not made for it.
fn has_claim_of_another(pod: &Value, objects: &[Value]) -> bool {
    let metadata = &pod["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let mut ephemeral = volumes.filter(|volume| volume["ephemeral"].is_object());
    ephemeral.any(|volume| {
        let name = format!("{}-{}", text(&metadata["name"]), text(&volume["name"]));
        let is_it = |claim: &&Value| {
            claim["kind"] == "PersistentVolumeClaim"
                && claim["metadata"]["name"] == name.as_str()
                && claim["metadata"]["namespace"] == metadata["namespace"]
        };
        let is_own = |claim: &Value| {
            let owner = &claim["metadata"]["ownerReferences"][0];
            owner["controller"] == true && owner["uid"] == metadata["uid"]
        };
        objects.iter().find(is_it).is_some_and(|claim| !is_own(claim))
    })
}
