//! What makes the claims of a pod be bound: the node is written on the claim, for whoever makes
//! the volume, or the claim on the volume that was chosen for it.

use crate::api::{Api, Failure};
use divvy_engine::{ClaimKey, VolumeStep};
use divvy_words::keys;
use serde_json::{Value, json};

/// Does all steps, or says why not. What is done already stays: it is what the next try finds.
pub(super) async fn provide(api: &Api, node: &str, steps: &[VolumeStep]) -> Result<(), String> {
    for step in steps {
        match step {
            VolumeStep::SelectNode { claim } => select_node(api, node, claim)
                .await
                .map_err(|why| format!("claim {claim} could not be made for {node}: {why}"))?,
            VolumeStep::BindStatic { claim, volume } => bind_volume(api, claim, volume)
                .await
                .map_err(|why| format!("claim {claim} could not get volume {volume}: {why}"))?,
        }
    }
    Ok(())
}

async fn select_node(api: &Api, node: &str, claim: &ClaimKey) -> Result<(), Failure> {
    amend(api, &claim_path(claim), |object| {
        if object["spec"]["volumeName"].is_string() {
            return Ok(());
        }
        let annotations = &mut object["metadata"]["annotations"];
        match annotations[keys::SELECTED_NODE].as_str() {
            Some(selected) if selected != node => {
                Err(refused(format!("claim {claim} is made for node {selected}")))
            }
            _ => {
                annotations[keys::SELECTED_NODE] = node.into();
                Ok(())
            }
        }
    })
    .await
}

async fn bind_volume(api: &Api, claim: &ClaimKey, volume: &str) -> Result<(), Failure> {
    let found: Value = read(&api.get(&claim_path(claim)).await?)?;
    let (uid, version) = (&found["metadata"]["uid"], &found["metadata"]["resourceVersion"]);
    amend(api, &format!("/api/v1/persistentvolumes/{volume}"), |object| {
        let holder = &object["spec"]["claimRef"];
        let ours = holder["namespace"] == claim.namespace() && holder["name"] == claim.name();
        if !holder.is_null() && !ours {
            return Err(refused(format!("volume {volume} is another claim's")));
        }
        object["spec"]["claimRef"] = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(),
            "name": claim.name(), "uid": uid, "resourceVersion": version,
        });
        object["metadata"]["annotations"][keys::BOUND_BY_CONTROLLER] = "yes".into();
        Ok(())
    })
    .await
}

/// Reads an object, changes it, and writes it back if nobody else did; tries a few times.
async fn amend(
    api: &Api,
    path: &str,
    change: impl Fn(&mut Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut tries = 0;
    loop {
        let before: Value = read(&api.get(path).await?)?;
        let mut after = before.clone();
        change(&mut after)?;
        if after == before {
            return Ok(());
        }
        match api.put(path, after.to_string().into_bytes()).await {
            Err(Failure::Conflict(_)) if tries < 3 => tries += 1,
            result => return result.map(|_| ()),
        }
    }
}

fn claim_path(claim: &ClaimKey) -> String {
    let (namespace, name) = (claim.namespace(), claim.name());
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
}

fn read(bytes: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(bytes).map_err(|e| Failure::Unclear(e.to_string()))
}

fn refused(message: String) -> Failure {
    Failure::Refused { code: 409, message }
}
