//! What a rehearsal reads of a live cluster, in pages, without what no decision needs.

mod failure;
mod follow;
mod kept;
mod strip;

pub use failure::SnapshotError;
pub use follow::Follower;
pub use strip::strip;

use kept::Kept;

use crate::client::{self, ClientError};
use crate::fence::Fence;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use kube::client::Body;
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;
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
    /// What a snapshot has of its objects.
    kept: &'static Kept,
}

const fn needed(kind: &'static str, plural: &'static str, kept: &'static Kept) -> Resource {
    Resource { api_version: "v1", kind, plural, needed: true, kept }
}

const fn optional(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    kept: &'static Kept,
) -> Resource {
    Resource { api_version, kind, plural, needed: false, kept }
}

/// All that a rehearsal looks at. Nodes come after pods: a pod's node is then there, unless it
/// was deleted in between.
pub const EVERYTHING: [Resource; 14] = [
    needed("Pod", "pods", &kept::POD),
    needed("Node", "nodes", &kept::NODE),
    optional("v1", "Namespace", "namespaces", &kept::NAMESPACE),
    optional(SCHEDULING, "PriorityClass", "priorityclasses", &kept::PRIORITY_CLASS),
    optional(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        &kept::PERSISTENT_VOLUME_CLAIM,
    ),
    optional("v1", "PersistentVolume", "persistentvolumes", &kept::PERSISTENT_VOLUME),
    optional(STORAGE, "StorageClass", "storageclasses", &kept::STORAGE_CLASS),
    optional(STORAGE, "CSINode", "csinodes", &kept::CSI_NODE),
    optional(STORAGE, "CSIDriver", "csidrivers", &kept::CSI_DRIVER),
    optional(STORAGE, "CSIStorageCapacity", "csistoragecapacities", &kept::CSI_STORAGE_CAPACITY),
    optional(STORAGE, "VolumeAttachment", "volumeattachments", &kept::VOLUME_ATTACHMENT),
    optional("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups", &kept::POD_GROUP),
    optional("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", &kept::POD_GROUP_OF_OTHERS),
    optional("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups", &kept::POD_GROUP_OF_OTHERS),
];

const SCHEDULING: &str = "scheduling.k8s.io/v1";
const STORAGE: &str = "storage.k8s.io/v1";

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

/// Its objects are read one by one: as values they take several times the memory of their text.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMetadata {
    r#continue: Option<String>,
    remaining_item_count: Option<u64>,
}

/// Objects in a page: what kubectl asks for, and what the API server serves without effort.
const PAGE: usize = 500;
/// The text of a page; of larger objects fewer are asked for at a time.
const PAGE_BYTES: usize = 64 << 20;
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
        let mut limit = PAGE;
        let mut from = String::new();
        loop {
            let path = format!("{}?limit={limit}{from}", resource.path());
            let text = match self.get(resource, &path).await? {
                Some(text) => text,
                None if limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                None => return Err(SnapshotError::too_large(&self.server, resource)),
            };
            let failed = |why| self.failed(resource, &kube::Error::SerdeError(why));
            let page: Page<'_> = serde_json::from_slice(&text).map_err(failed)?;
            let items = page.items.unwrap_or_default();
            let left = page.metadata.remaining_item_count.unwrap_or_default();
            on_page(resource.plural, items.len() as u64, left);
            for item in items {
                let object = serde_json::from_str(item.get()).map_err(failed)?;
                objects.push(strip(resource, object).to_string());
            }
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => from = format!("&continue={token}"),
                None => return Ok(objects),
            }
        }
    }

    /// The text at this path; nothing if it is longer than [`PAGE_BYTES`].
    async fn get(&self, resource: &Resource, path: &str) -> Result<Option<Bytes>, SnapshotError> {
        let answer = self.answer(path);
        let answer = if self.patience.is_zero() {
            answer.await
        } else {
            tokio::time::timeout(self.patience, answer).await.map_err(|_| SnapshotError::Late {
                server: self.server.clone(),
                resource: resource.full_name(),
                seconds: self.patience.as_secs_f32(),
            })?
        };
        answer.map_err(|why| self.failed(resource, &why))
    }

    async fn answer(&self, path: &str) -> Result<Option<Bytes>, kube::Error> {
        let request = http::Request::get(path).body(Body::empty());
        let answer = self.client.send(request.map_err(kube::Error::HttpError)?).await?;
        let code = answer.status();
        let text = match Limited::new(answer.into_body(), PAGE_BYTES).collect().await {
            Ok(text) => text.to_bytes(),
            Err(why) if why.is::<LengthLimitError>() => return Ok(None),
            Err(why) => return Err(kube::Error::Service(why)),
        };
        if code.is_success() {
            return Ok(Some(text));
        }
        let other = || Status::failure(&String::from_utf8_lossy(&text), "").with_code(code.into());
        let status = serde_json::from_slice(&text).unwrap_or_else(|_| other());
        Err(kube::Error::Api(Box::new(status)))
    }

    fn failed(&self, resource: &Resource, why: &kube::Error) -> SnapshotError {
        SnapshotError::of(&self.server, resource, why)
    }
}

#[cfg(test)]
mod tests;
