//! What a rehearsal reads of a live cluster, in pages, without what no decision needs.

mod failure;
mod follow;
mod strip;

pub use failure::SnapshotError;
pub use follow::Follower;

use strip::strip;

use crate::client::{self, ClientError};
use crate::fence::Fence;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// A collection of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `apiVersion` of its objects.
    pub api_version: &'static str,
    /// `kind` of its objects.
    pub kind: &'static str,
    /// Its name in a path and in RBAC rules.
    pub plural: &'static str,
    /// Whether a rehearsal means nothing without it.
    pub needed: bool,
}

const fn needed(kind: &'static str, plural: &'static str) -> Resource {
    Resource { api_version: "v1", kind, plural, needed: true }
}

const fn optional(api_version: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource { api_version, kind, plural, needed: false }
}

/// All that a rehearsal looks at. Nodes come after pods: a pod's node is then there, unless it
/// was deleted in between.
pub const EVERYTHING: [Resource; 14] = [
    needed("Pod", "pods"),
    needed("Node", "nodes"),
    optional("v1", "Namespace", "namespaces"),
    optional("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
    optional("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    optional("v1", "PersistentVolume", "persistentvolumes"),
    optional("storage.k8s.io/v1", "StorageClass", "storageclasses"),
    optional("storage.k8s.io/v1", "CSINode", "csinodes"),
    optional("storage.k8s.io/v1", "CSIDriver", "csidrivers"),
    optional("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities"),
    optional("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments"),
    // Of Kubernetes, of its scheduler plugins, and of KAI.
    optional("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups"),
    optional("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups"),
    optional("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups"),
];

/// What is enough to say who holds what.
pub static HOLDINGS: [Resource; 2] = [EVERYTHING[0], EVERYTHING[1]];

impl Resource {
    /// The path of its collection.
    pub(crate) fn path(&self) -> String {
        let root = if self.api_version == "v1" { "/api" } else { "/apis" };
        format!("{root}/{}/{}", self.api_version, self.plural)
    }

    /// Its name as RBAC rules and kubectl write it.
    fn full_name(&self) -> String {
        match self.api_version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.plural),
            None => self.plural.to_owned(),
        }
    }
}

/// Objects of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The objects, each as one line of JSON, which takes a fraction of the memory of a value.
    pub objects: Vec<String>,
    /// How many there are of each kind.
    pub counts: Vec<(&'static str, usize)>,
    /// What could not be read and is left out, in sentences.
    pub notes: Vec<String>,
}

impl Snapshot {
    /// One `List` with a line for each object.
    pub fn to_json(&self) -> String {
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{}\n]}}\n",
            self.objects.join(",\n")
        )
    }
}

/// Hears of every page: the kind, and how many objects it had and how many are still to come.
pub type OnPage<'a> = &'a (dyn Fn(&'static str, u64, u64) + Sync);

/// Reads collections of a live cluster, and writes nothing.
pub struct Reader {
    client: kube::Client,
    server: String,
    namespace: String,
    patience: Duration,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMetadata {
    r#continue: Option<String>,
    remaining_item_count: Option<u64>,
}

/// Objects in a page: what kubectl asks for, and what the API server serves without effort.
const PAGE: usize = 500;
/// A list that takes longer than the API server remembers is begun again, so often.
const TRIES: usize = 3;

impl Reader {
    /// A reader of the cluster that [`client::config`] finds. No answer may take longer than
    /// `patience`, unless that is zero. Nothing is asked yet.
    pub async fn connect(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
        patience: Duration,
    ) -> Result<Self, ClientError> {
        let config = client::config(kubeconfig, context).await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = config.default_namespace.clone();
        let client = client::client(config, &Fence::open())?;
        Ok(Self { client, server, namespace, patience })
    }

    /// The address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace of the context.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads these collections. What is not needed may be absent from the cluster, or forbidden
    /// to us, which is noted.
    pub async fn read(
        &self,
        resources: &[Resource],
        on_page: OnPage<'_>,
    ) -> Result<Snapshot, SnapshotError> {
        let mut snapshot = Snapshot::default();
        for resource in resources {
            match self.list(resource, on_page).await {
                Ok(objects) => {
                    snapshot.counts.push((resource.kind, objects.len()));
                    snapshot.objects.extend(objects);
                }
                Err(SnapshotError::Absent { .. }) if !resource.needed => {}
                Err(why @ SnapshotError::Forbidden { .. }) if !resource.needed => {
                    snapshot.notes.push(format!("{} are left out: {why}", resource.full_name()));
                }
                Err(why) => return Err(why),
            }
        }
        Ok(snapshot)
    }

    async fn list(
        &self,
        resource: &Resource,
        on_page: OnPage<'_>,
    ) -> Result<Vec<String>, SnapshotError> {
        let mut tries = 1;
        loop {
            match self.pages(resource, on_page).await {
                Err(SnapshotError::Expired { .. }) if tries < TRIES => tries += 1,
                result => return result,
            }
        }
    }

    async fn pages(
        &self,
        resource: &Resource,
        on_page: OnPage<'_>,
    ) -> Result<Vec<String>, SnapshotError> {
        let mut objects = Vec::new();
        let mut from = String::new();
        loop {
            let path = format!("{}?limit={PAGE}{from}", resource.path());
            let page: Page = self.get(resource, &path).await?;
            let items = page.items.unwrap_or_default();
            let left = page.metadata.remaining_item_count.unwrap_or_default();
            on_page(resource.plural, items.len() as u64, left);
            objects.extend(items.into_iter().map(|item| strip(resource, item).to_string()));
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => from = format!("&continue={token}"),
                None => return Ok(objects),
            }
        }
    }

    async fn get<T: for<'de> Deserialize<'de>>(
        &self,
        resource: &Resource,
        path: &str,
    ) -> Result<T, SnapshotError> {
        let failed = |why: kube::Error| SnapshotError::of(&self.server, resource, &why);
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|why| failed(kube::Error::HttpError(why)))?;
        let answer = self.client.request_text(request);
        let text = if self.patience.is_zero() {
            answer.await
        } else {
            tokio::time::timeout(self.patience, answer).await.map_err(|_| SnapshotError::Late {
                server: self.server.clone(),
                resource: resource.full_name(),
                seconds: self.patience.as_secs_f32(),
            })?
        };
        serde_json::from_str(&text.map_err(failed)?)
            .map_err(|why| failed(kube::Error::SerdeError(why)))
    }
}

#[cfg(test)]
mod tests;
