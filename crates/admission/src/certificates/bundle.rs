//! Which CA the API server trusts: `caBundle` of our webhook configurations.

use super::{Failure, api};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

/// Puts `ca` into every webhook of a configuration that does not have it. `plural` is the kind of
/// the configuration as in its path.
pub(super) async fn publish(
    client: &Client,
    plural: &str,
    name: &str,
    ca: &str,
) -> Result<(), Failure> {
    let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}/{name}");
    let found = api(client, Method::GET, &path, "", None).await?;
    let patch = steps(&found, &BASE64_STANDARD.encode(ca));
    if patch.is_empty() {
        return Ok(());
    }
    let kind = "application/json-patch+json";
    api(client, Method::PATCH, &path, kind, Some(&Value::Array(patch))).await?;
    tracing::info!("put the CA into {plural} {name}");
    Ok(())
}

/// The steps test the names, for somebody may change the order at the same time.
fn steps(configuration: &Value, bundle: &str) -> Vec<Value> {
    let webhooks = configuration["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let lacking = webhooks
        .iter()
        .enumerate()
        .filter(|(_, webhook)| webhook["clientConfig"]["caBundle"].as_str() != Some(bundle));
    lacking
        .flat_map(|(at, webhook)| {
            [
                json!({"op": "test", "path": format!("/webhooks/{at}/name"), "value": webhook["name"]}),
                json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": bundle}),
            ]
        })
        .collect()
}
