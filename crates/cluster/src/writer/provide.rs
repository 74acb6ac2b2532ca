//! What makes the claims of a pod be bound: the node is written on the claim, for whoever makes
//! the volume, or the claim on the volume that was chosen for it.

use divvy_api::resources::{VOLUME_CLAIMS, VOLUMES};
use divvy_api::{Api, Failure, read};
use divvy_engine::{ObjectKey, VolumeStep};
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

async fn select_node(api: &Api, node: &str, claim: &ObjectKey) -> Result<(), Failure> {
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

async fn bind_volume(api: &Api, claim: &ObjectKey, volume: &str) -> Result<(), Failure> {
    let found: Value = read(&api.get(&claim_path(claim)).await?)?;
    let path = VOLUMES.path_of("", volume);
    amend(api, &path, |object| name_claim(object, claim, &found["metadata"])).await
}

/// Writes a claim on a volume that is nobody's, or meant for a claim of that name.
fn name_claim(volume: &mut Value, claim: &ObjectKey, metadata: &Value) -> Result<(), Failure> {
    let (uid, version) = (&metadata["uid"], &metadata["resourceVersion"]);
    let holder = &volume["spec"]["claimRef"];
    // An earlier claim of that name is another one.
    let meant = holder["uid"].as_str().is_none_or(|held| held.is_empty() || uid == held);
    let named = holder["namespace"] == claim.namespace() && holder["name"] == claim.name();
    if !(holder.is_null() || named && meant) {
        let name = volume["metadata"]["name"].as_str().unwrap_or_default();
        return Err(refused(format!("volume {name} is another claim's")));
    }
    volume["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(),
        "name": claim.name(), "uid": uid, "resourceVersion": version,
    });
    volume["metadata"]["annotations"][keys::BOUND_BY_CONTROLLER] = "yes".into();
    Ok(())
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

fn claim_path(claim: &ObjectKey) -> String {
    VOLUME_CLAIMS.path_of(claim.namespace(), claim.name())
}

fn refused(message: String) -> Failure {
    Failure::Refused { code: 409, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_given_to_the_claim_that_it_is_meant_for_and_to_no_other() {
        let holder = |name: &str, uid: Value| json!({"namespace": "ml", "name": name, "uid": uid});
        let cases = [
            (Value::Null, true),
            (holder("data", Value::Null), true),
            (holder("data", "".into()), true),
            (holder("data", "c".into()), true),
            (holder("data", "before".into()), false),
            (holder("other", Value::Null), false),
        ];
        let metadata = json!({"uid": "c", "resourceVersion": "3"});
        for (held, expected) in cases {
            let mut volume = json!({"metadata": {"name": "pv"}, "spec": {"claimRef": held}});
            let done = name_claim(&mut volume, &ObjectKey::new("ml", "data"), &metadata);
            assert_eq!(done.is_ok(), expected, "{held}");
            if expected {
                assert_eq!(volume["spec"]["claimRef"]["uid"], "c");
                assert_eq!(volume["metadata"]["annotations"][keys::BOUND_BY_CONTROLLER], "yes");
            }
        }
    }
}
