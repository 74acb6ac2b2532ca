//! A configuration in a ConfigMap, such as the one that recipes for KAI show, which wins over the file,
//! and that of the device plugin. What is wrong with it is said on it, as an event.
//!
//! It is asked for again and again: one small object, and a watch would need more rights than to get
//! this one.

use crate::metrics::Metrics;
use divvy_api::resources::EVENTS;
use divvy_api::{Api, Failure, Resource};
use divvy_engine::{Config, ObjectKey};
use divvy_words::PluginConfigs;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;

const PERIOD: Duration = Duration::from_secs(5);
pub(crate) const CONFIG_MAPS: Resource = Resource {
    name: "configmaps",
    api_version: "v1",
    kind: "ConfigMap",
    plural: "configmaps",
    optional: true,
};

/// Who looks, and what was seen last.
pub(crate) struct ConfigMap<T> {
    api: Api,
    key: ObjectKey,
    identity: String,
    metrics: Metrics,
    /// Reads `data`.
    read: fn(&Value) -> Result<T, String>,
    /// The version that was read last; empty if there is none.
    version: String,
    /// What it says; nothing where it is not there, or never said anything right.
    config: Option<T>,
    /// Why it cannot be read, as it was logged.
    failure: Option<String>,
}

/// How to place.
pub(crate) fn placing(data: &Value) -> Result<Config, String> {
    let text = json!({"kind": "ConfigMap", "data": data}).to_string();
    divvy_words::config(&text).map_err(|why| why.to_string())
}

/// What the device plugin hands out several times, by config.
pub(crate) fn plugin_configs(data: &Value) -> Result<PluginConfigs, String> {
    let texts = data.as_object().into_iter().flatten();
    let texts = texts.filter_map(|(key, text)| Some((key.as_str(), text.as_str()?)));
    PluginConfigs::read(texts).map_err(|why| why.to_string())
}

impl<T: Clone + PartialEq + Send + Sync + 'static> ConfigMap<T> {
    pub fn new(
        api: Api,
        key: ObjectKey,
        identity: &str,
        metrics: Metrics,
        read: fn(&Value) -> Result<T, String>,
    ) -> Self {
        let (version, identity) = (String::new(), identity.to_owned());
        Self { api, key, identity, metrics, read, version, config: None, failure: None }
    }

    /// Looks once, and then for as long as somebody listens: gives what counts, which is what the file
    /// says where the ConfigMap says nothing.
    pub async fn follow(mut self, mut file: watch::Receiver<T>) -> watch::Receiver<T> {
        self.look().await;
        let counts = |config: &Option<T>, file: &T| config.as_ref().unwrap_or(file).clone();
        let (tell, told) = watch::channel(counts(&self.config, &file.borrow_and_update()));
        tokio::spawn(async move {
            let mut has_file = true;
            loop {
                tokio::select! {
                    () = tell.closed() => return,
                    changed = file.changed(), if has_file => has_file = changed.is_ok(),
                    () = tokio::time::sleep(PERIOD) => self.look().await,
                }
                let now = counts(&self.config, &file.borrow_and_update());
                tell.send_if_modified(|before| {
                    let is_new = *before != now;
                    *before = now;
                    is_new
                });
            }
        });
        told
    }

    async fn look(&mut self) {
        let (namespace, name) = (self.key.namespace(), self.key.name());
        let found = match self.api.get(&CONFIG_MAPS.path_of(namespace, name)).await {
            Ok(found) => found,
            Err(Failure::NotFound(_)) => {
                if self.config.take().is_some() {
                    tracing::info!("ConfigMap {} is gone, its settings too", self.key);
                }
                self.version.clear();
                return;
            }
            // It may be there: what it said last counts.
            Err(why) => {
                let why = why.to_string();
                if self.failure.as_ref() != Some(&why) {
                    tracing::warn!(%why, "failed to read ConfigMap {}", self.key);
                    self.failure = Some(why);
                }
                return;
            }
        };
        self.failure = None;
        let object: Value = serde_json::from_slice(&found).unwrap_or_default();
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if version == self.version && !version.is_empty() {
            return;
        }
        version.clone_into(&mut self.version);
        let read = (self.read)(&object["data"]);
        self.metrics.config_reload(read.is_ok());
        match read {
            Ok(config) if self.config.as_ref() == Some(&config) => {}
            Ok(config) => {
                tracing::info!("ConfigMap {}: its settings are in force", self.key);
                self.config = Some(config);
            }
            Err(why) => {
                tracing::error!("ConfigMap {}: {why}; the settings stay as they were", self.key);
                self.say(&object, &format!("{why}; the settings stay as they were")).await;
            }
        }
    }

    /// What is wrong with it, where whoever wrote it looks.
    async fn say(&self, object: &Value, note: &str) {
        let metadata = &object["metadata"];
        let namespace = self.key.namespace();
        let note: String = note.chars().take(1000).collect();
        let body = json!({
            "apiVersion": EVENTS.api_version, "kind": EVENTS.kind,
            // One for each version, whoever leads.
            "metadata": {"namespace": namespace, "name": format!("{}.{}", self.key.name(), self.version)},
            "eventTime": format!("{:.6}", Timestamp::now()),
            "reportingController": "divvy-scheduler", "reportingInstance": self.identity,
            "action": "Configuring", "reason": "ConfigRefused", "type": "Warning", "note": note,
            "regarding": {
                "apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "namespace": namespace,
                "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": self.version,
            },
        });
        let path = EVENTS.path_in(namespace);
        match self.api.post(&path, body.to_string().into_bytes()).await {
            Ok(_) => self.metrics.event_written(),
            Err(why) => tracing::debug!(%why, "failed to record an event"),
        }
    }
}

#[cfg(test)]
mod tests;
