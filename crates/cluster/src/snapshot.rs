//! What a rehearsal reads of a live cluster, in pages, without what no decision needs.

mod failure;
mod follow;
mod kept;
mod strip;

pub use failure::SnapshotError;
pub use follow::Follower;
pub use strip::strip;

use kept::Kept;

use crate::config_map::CONFIG_MAPS;
use divvy_api::{Api, ClientError, Failure, Fence, List, ListProgress, Resource, resources};
use divvy_engine::ObjectKey;
use std::path::Path;
use std::time::Duration;

/// A collection, and what a snapshot has of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedCollection {
    /// The collection. A rehearsal means nothing without those that are not optional.
    pub resource: Resource,
    kept: &'static Kept,
}

const fn saved(resource: Resource, kept: &'static Kept) -> SavedCollection {
    SavedCollection { resource, kept }
}

/// All that a rehearsal looks at. Nodes come after pods: a pod's node is then there, unless it
/// was deleted in between.
pub const EVERYTHING: [SavedCollection; 15] = [
    saved(resources::PODS, &kept::POD),
    saved(resources::NODES, &kept::NODE),
    saved(resources::NAMESPACES, &kept::NAMESPACE),
    saved(resources::PRIORITY_CLASSES, &kept::PRIORITY_CLASS),
    saved(resources::RESOURCE_QUOTAS, &kept::RESOURCE_QUOTA),
    saved(resources::VOLUME_CLAIMS, &kept::PERSISTENT_VOLUME_CLAIM),
    saved(resources::VOLUMES, &kept::PERSISTENT_VOLUME),
    saved(resources::STORAGE_CLASSES, &kept::STORAGE_CLASS),
    saved(resources::CSI_NODES, &kept::CSI_NODE),
    saved(resources::CSI_DRIVERS, &kept::CSI_DRIVER),
    saved(resources::STORAGE_CAPACITIES, &kept::CSI_STORAGE_CAPACITY),
    saved(resources::VOLUME_ATTACHMENTS, &kept::VOLUME_ATTACHMENT),
    saved(resources::POD_GROUPS, &kept::POD_GROUP),
    saved(resources::PLUGIN_POD_GROUPS, &kept::POD_GROUP_OF_OTHERS),
    saved(resources::KAI_POD_GROUPS, &kept::POD_GROUP_OF_OTHERS),
];

/// What is enough to say who holds what.
pub static HOLDINGS: [SavedCollection; 2] = [EVERYTHING[0], EVERYTHING[1]];

static CONFIG_MAP: SavedCollection = saved(CONFIG_MAPS, &kept::CONFIG_MAP);

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

/// What is kept of an object, if anything is.
pub type Read<'a, T> = &'a (dyn Fn(&[u8]) -> Result<Option<T>, Failure> + Sync);

/// Reads collections of a live cluster, and writes nothing.
pub struct Reader {
    api: Api,
    server: String,
    namespace: String,
    patience: Duration,
}

/// Objects in a page: what kubectl asks for, and what the API server serves without effort.
const PAGE: usize = 500;
/// The text of a page; of larger objects fewer are asked for at a time, so that an answer comes in
/// time.
const PAGE_BYTES: usize = 64 << 20;
/// A list that takes longer than the API server remembers is begun again, so often.
const TRIES: usize = 3;

impl Reader {
    /// A reader of the cluster that [`divvy_api::config`] finds. No answer may take longer than
    /// `patience`, unless that is zero. Nothing is asked yet.
    pub async fn connect(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
        patience: Duration,
    ) -> Result<Self, ClientError> {
        let config = divvy_api::config(kubeconfig, context).await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = config.default_namespace.clone();
        let api = Api::connect(config, Fence::open())?;
        Ok(Self { api, server, namespace, patience })
    }

    /// The address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace of the context.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads these collections. What is optional may be absent from the cluster, or forbidden
    /// to us, which is noted.
    pub async fn read(
        &self,
        collections: &[SavedCollection],
        on_page: OnPage<'_>,
    ) -> Result<Snapshot, SnapshotError> {
        let mut snapshot = Snapshot::default();
        for saved in collections {
            let SavedCollection { resource, .. } = saved;
            let stripped = |item: &[u8]| {
                divvy_api::read(item).map(|object| Some(strip(saved, object).to_string()))
            };
            match self.list(resource, &stripped, on_page).await {
                Ok(objects) => {
                    snapshot.counts.push((resource.kind, objects.len()));
                    snapshot.objects.extend(objects);
                }
                Err(SnapshotError::Absent { .. }) if resource.optional => {}
                Err(why @ SnapshotError::Forbidden { .. }) if resource.optional => {
                    snapshot.notes.push(format!("{} are left out: {why}", resource.full_name()));
                }
                Err(why) => return Err(why),
            }
        }
        Ok(snapshot)
    }

    /// Reads the ConfigMap of the device plugin into a snapshot.
    pub async fn add_plugin_config_map(
        &self,
        key: &ObjectKey,
        snapshot: &mut Snapshot,
    ) -> Result<(), SnapshotError> {
        let path = CONFIG_MAPS.path_of(key.namespace(), key.name());
        let found = self.get(&path, &CONFIG_MAPS).await?;
        let object = divvy_api::read(&found)
            .map_err(|why| SnapshotError::of(&self.server, &CONFIG_MAPS, why))?;
        snapshot.objects.push(strip(&CONFIG_MAP, object).to_string());
        snapshot.counts.push((CONFIG_MAPS.kind, 1));
        Ok(())
    }

    /// Reads all objects of a collection, each with `read`, which says what is kept of it.
    pub async fn list<T>(
        &self,
        resource: &Resource,
        read: Read<'_, T>,
        on_page: OnPage<'_>,
    ) -> Result<Vec<T>, SnapshotError> {
        let mut tries = 1;
        loop {
            match self.pages(resource, read, on_page).await {
                Err(SnapshotError::Expired { .. }) if tries < TRIES => tries += 1,
                result => return result,
            }
        }
    }

    /// Reads what is at a path; `resource` is what it is called if that fails.
    pub async fn get(&self, path: &str, resource: &Resource) -> Result<Vec<u8>, SnapshotError> {
        let api = match self.patience.is_zero() {
            true => self.api.clone().with_patience(Duration::MAX),
            false => self.api.clone().with_patience(self.patience),
        };
        let answer = api.get(path).await;
        answer.map_err(|why| SnapshotError::of(&self.server, resource, why))
    }

    async fn pages<T>(
        &self,
        resource: &Resource,
        read: Read<'_, T>,
        on_page: OnPage<'_>,
    ) -> Result<Vec<T>, SnapshotError> {
        // How long a page may take is kept here.
        let api = self.api.clone().with_patience(Duration::MAX);
        let mut list = List::new(&api, resource.path(), PAGE);
        let mut objects = Vec::new();
        loop {
            let before = objects.len();
            let page = page(&mut list, read, &mut objects);
            let page = if self.patience.is_zero() {
                page.await
            } else {
                let late = |_| SnapshotError::late(&self.server, resource, self.patience);
                tokio::time::timeout(self.patience, page).await.map_err(late)?
            };
            let left = match page.map_err(|why| SnapshotError::of(&self.server, resource, why))? {
                ListProgress::Piece if list.shorten() => {
                    objects.truncate(before);
                    continue;
                }
                ListProgress::Piece => {
                    return Err(SnapshotError::too_large(&self.server, resource));
                }
                ListProgress::Page { left } => Some(left),
                ListProgress::End { .. } => None,
            };
            on_page(resource.plural, (objects.len() - before) as u64, left.unwrap_or_default());
            if left.is_none() {
                return Ok(objects);
            }
        }
    }
}

/// Reads to the end of a page, or until it is too large.
async fn page<T>(
    list: &mut List<'_>,
    read: Read<'_, T>,
    objects: &mut Vec<T>,
) -> Result<ListProgress, Failure> {
    let (mut bytes, mut readable) = (0, Ok(()));
    loop {
        let progress = list.next(|item| {
            bytes += item.len();
            match read(item) {
                Ok(object) => objects.extend(object),
                Err(why) => readable = Err(why),
            }
        });
        let progress = progress.await?;
        readable.clone()?;
        if progress != ListProgress::Piece || bytes > PAGE_BYTES {
            return Ok(progress);
        }
    }
}

#[cfg(test)]
mod tests;
