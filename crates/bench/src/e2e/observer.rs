//! Sees which pods are bound, and when, by a watch of its own that is small for the server.

use anyhow::{Context, bail};
use divvy_testbed::api::{Api, Lines};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Nothing but metadata.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PATIENCE: Duration = Duration::from_secs(300);

pub struct Observer {
    api: Api,
    lines: Lines,
    version: String,
}

impl Observer {
    /// Sees what is bound from now on.
    pub async fn start(api: &Api) -> anyhow::Result<Self> {
        let list = api.get("/api/v1/pods?limit=1").await?;
        let version = list["metadata"]["resourceVersion"].as_str().context("no version")?;
        let lines = open(api, version).await?;
        Ok(Self { api: api.clone(), lines, version: version.to_owned() })
    }

    /// The next pod that is bound, and when that was seen.
    pub async fn next(&mut self) -> anyhow::Result<(String, Instant)> {
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next()).await;
            let Some(line) = line.context("no pod is bound any more")? else {
                // The server gives up on a watch that does not keep up, as we may on busy cores.
                self.lines = open(&self.api, &self.version).await?;
                continue;
            };
            let at = Instant::now();
            // Most of a line need not be read.
            let event: Value = serde_json::from_slice(&line)?;
            let version = event["object"]["metadata"]["resourceVersion"].as_str();
            self.version = version.unwrap_or(&self.version).to_owned();
            match event["type"].as_str() {
                Some("ADDED") => {
                    let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
                    return Ok((name.to_owned(), at));
                }
                Some("ERROR") => bail!("{event}"),
                _ => {}
            }
        }
    }

    /// From the first to the last of so many bindings.
    pub async fn span(&mut self, count: usize) -> anyhow::Result<Duration> {
        let (_, first) = self.next().await?;
        let mut last = first;
        for seen in 1..count {
            last = self.next().await?.1;
            if seen % 500 == 0 {
                super::throughput::say(&format!("{seen} of {count} bound"));
            }
        }
        Ok(last - first)
    }
}

/// A pod is added to this watch when it gets a node.
async fn open(api: &Api, version: &str) -> anyhow::Result<Lines> {
    let path = format!(
        "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%21%3D&resourceVersion={version}"
    );
    Ok(api.watch(&path, METADATA).await?)
}
