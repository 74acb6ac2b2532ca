//! What the node says of its provider: a label for whoever schedules, and the kind of its cards.

use super::{Host, Installed, ProviderError, ToInstall, install, remove};
use divvy_api::resources::NODES;
use divvy_api::{Api, PatchKind};
use divvy_words::isolation::Provider;
use divvy_words::keys;
use serde_json::{Value, json};

/// Puts a provider on a node and says so, or sees to it that the node does not say so.
pub async fn put(
    api: &Api,
    node: &str,
    provider: &Provider,
    source: &ToInstall,
    host: &Host,
) -> Result<Installed, ProviderError> {
    match install(provider, source, host) {
        Ok(installed) => {
            // Both at once, so that nobody sees the one without the other.
            patch(api, node, json!(provider.name), json!(installed.kind)).await?;
            Ok(installed)
        }
        Err(why) => {
            if let Err(error) = unmark(api, node).await {
                tracing::error!(%error, "failed to take the label off");
            }
            Err(why)
        }
    }
}

/// Takes the label off the node, and then the provider.
pub async fn take_away(
    api: &Api,
    node: &str,
    provider: &Provider,
    host: &Host,
) -> Result<(), ProviderError> {
    unmark(api, node).await?;
    remove(provider, host)
}

async fn unmark(api: &Api, node: &str) -> Result<(), ProviderError> {
    patch(api, node, Value::Null, Value::Null).await
}

async fn patch(api: &Api, node: &str, provider: Value, kind: Value) -> Result<(), ProviderError> {
    let metadata = json!({
        "labels": {keys::ISOLATION_PROVIDER: provider}, "annotations": {keys::CDI_KIND: kind},
    });
    let body = json!({ "metadata": metadata }).to_string().into_bytes();
    let patched = api.patch(&NODES.path_of("", node), PatchKind::Merge, body).await;
    let wrong = |why: divvy_api::Failure| ProviderError::Node {
        node: node.to_owned(),
        why: why.to_string(),
    };
    patched.map(|_| ()).map_err(wrong)
}
