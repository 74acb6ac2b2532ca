//! What the node says of its provider: a label for whoever schedules, and the kind of its cards.

use super::{Host, Installed, Provider, ProviderError, Source, install, remove};
use divvy_words::keys;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

/// Puts a provider on a node and says so, or sees to it that the node does not say so.
pub async fn put(
    client: &kube::Client,
    node: &str,
    provider: &Provider,
    source: &Source,
    host: &Host,
) -> Result<Installed, ProviderError> {
    match install(provider, source, host) {
        Ok(installed) => {
            // Both at once, so that nobody sees the one without the other.
            patch(client, node, json!(provider.name), json!(installed.kind)).await?;
            Ok(installed)
        }
        Err(why) => {
            if let Err(error) = unmark(client, node).await {
                tracing::error!(%error, "failed to take the label off");
            }
            Err(why)
        }
    }
}

/// Takes the label off the node, and then the provider.
pub async fn take_away(
    client: &kube::Client,
    node: &str,
    provider: &Provider,
    host: &Host,
) -> Result<(), ProviderError> {
    unmark(client, node).await?;
    remove(provider, host)
}

async fn unmark(client: &kube::Client, node: &str) -> Result<(), ProviderError> {
    patch(client, node, Value::Null, Value::Null).await
}

async fn patch(
    client: &kube::Client,
    node: &str,
    provider: Value,
    kind: Value,
) -> Result<(), ProviderError> {
    let wrong = |why: String| ProviderError::Node { node: node.to_owned(), why };
    let metadata = json!({
        "labels": {keys::ISOLATION_PROVIDER: provider}, "annotations": {keys::CDI_KIND: kind},
    });
    let body = json!({ "metadata": metadata }).to_string();
    let request = Request::patch(format!("/api/v1/nodes/{node}"))
        .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
        .body(Body::from(body.into_bytes()))
        .map_err(|error| wrong(error.to_string()))?;
    let answer = client.send(request).await.map_err(|error| wrong(error.to_string()))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let bytes = answer.into_body().collect_bytes().await.unwrap_or_default();
    let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    Err(wrong(said["message"].as_str().map_or_else(|| status.to_string(), str::to_owned)))
}
