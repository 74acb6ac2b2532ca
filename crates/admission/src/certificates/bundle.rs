//! Which CA the API server trusts: `caBundle` of our webhook configurations.

use super::{CertificateError, answer};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_api::{Api, PatchKind, Resource};
use http::Method;
use serde_json::{Value, json};

/// Puts `ca` into every webhook of a configuration that does not have it.
pub(super) async fn publish(
    api: &Api,
    webhooks: &Resource,
    name: &str,
    ca: &str,
) -> Result<(), CertificateError> {
    let path = webhooks.path_of("", name);
    let found = answer(Method::GET, &path, api.get(&path).await)?;
    let patch = steps(&found, &BASE64_STANDARD.encode(ca));
    if patch.is_empty() {
        return Ok(());
    }
    let patch = Value::Array(patch).to_string().into_bytes();
    answer(Method::PATCH, &path, api.patch(&path, PatchKind::Steps, patch).await)?;
    tracing::info!("put the CA into {} {name}", webhooks.plural);
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
