//! A cluster as it is looked at: what matters of each kind of object, and nothing else.

use crate::finding::{Count, Hidden};
use crate::looked::Looked;
use crate::objects::{
    Certificates, ClusterPolicy, ConfigMap, EndpointSlice, Metadata, Node, ObservedPod, Plain,
    Policy, Quota, ResourceSlice, Version, Webhooks, Workload,
};
use crate::source::ClusterSource;
use divvy_api::{Resource, resources};
use divvy_cluster::snapshot::SnapshotError;
use divvy_words::manifest::PodStatus;
use divvy_words::reservation::{NAMESPACE, TROUBLES, condition};
use divvy_words::{OtherSchedulers, keys};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;

/// The label by which divvy's own workloads are found, in whatever namespace.
pub(crate) const APP: &str = "app.kubernetes.io/name";
pub(crate) const SCHEDULER: &str = "divvy-scheduler";
pub(crate) const ADMISSION: &str = "divvy-admission";
pub(crate) const PROVIDER: &str = "divvy-provider";
/// The label of an EndpointSlice that names its Service.
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";
/// Nobody has more ConfigMaps of the device plugin and the MIG manager.
const MOST_CONFIG_MAPS: usize = 16;
/// Where the GPU operator is, if nothing says so.
const OPERATOR: &str = "gpu-operator";
/// What a check of the API server's version is called, in the way of the others.
const VERSION: Resource = Resource { name: "version", plural: "version", ..resources::NAMESPACES };

/// A cluster as it is looked at.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// In seconds since 1970.
    pub(crate) now: i64,
    pub(crate) version: Looked<Version>,
    pub(crate) nodes: Looked<Node>,
    pub(crate) pods: Looked<ObservedPod>,
    pub(crate) namespaces: Looked<Plain>,
    pub(crate) deployments: Looked<Workload>,
    pub(crate) daemon_sets: Looked<Workload>,
    pub(crate) runtime_classes: Looked<Plain>,
    pub(crate) priority_classes: Looked<Plain>,
    pub(crate) mutating: Looked<Webhooks>,
    pub(crate) validating: Looked<Webhooks>,
    pub(crate) policies: Looked<Policy>,
    pub(crate) policy_bindings: Looked<Policy>,
    pub(crate) endpoint_slices: Looked<EndpointSlice>,
    pub(crate) quotas: Looked<Quota>,
    pub(crate) cluster_policies: Looked<ClusterPolicy>,
    pub(crate) config_maps: Vec<Looked<ConfigMap>>,
    pub(crate) certificates: Looked<Certificates>,
    pub(crate) device_classes: Looked<Plain>,
    pub(crate) resource_slices: Looked<ResourceSlice>,
}

impl Observed {
    /// Looks at a cluster, at this time in seconds since 1970.
    pub async fn look(source: &ClusterSource<'_>, now: i64) -> Result<Self, SnapshotError> {
        let mut seen = Self {
            now,
            version: source.at("/version", &VERSION).await?,
            nodes: source.all(&resources::NODES, node).await?,
            pods: source.all(&resources::PODS, pod).await?.map(with_other),
            namespaces: source
                .all(&resources::NAMESPACES, |place: &Plain| place.metadata.name == NAMESPACE)
                .await?,
            deployments: source.all(&resources::DEPLOYMENTS, is_divvys).await?,
            daemon_sets: source.all(&resources::DAEMON_SETS, daemon_set).await?,
            runtime_classes: source.all(&resources::RUNTIME_CLASSES, |_: &Plain| true).await?,
            priority_classes: source.all(&resources::PRIORITY_CLASSES, |_: &Plain| true).await?,
            mutating: source.all(&resources::MUTATING_WEBHOOKS, webhooks).await?,
            validating: source.all(&resources::VALIDATING_WEBHOOKS, webhooks).await?,
            policies: source.all(&resources::POLICIES, policy).await?,
            policy_bindings: source.all(&resources::POLICY_BINDINGS, policy).await?,
            quotas: source
                .all(&resources::QUOTAS, |quota: &Quota| quota.metadata.namespace == NAMESPACE)
                .await?,
            cluster_policies: source
                .all(&resources::CLUSTER_POLICIES, |_: &ClusterPolicy| true)
                .await?,
            device_classes: source.all(&resources::DEVICE_CLASSES, |_: &Plain| true).await?,
            resource_slices: source
                .all(&resources::RESOURCE_SLICES, |slice: &ResourceSlice| {
                    slice.spec.driver.ends_with("nvidia.com")
                })
                .await?,
            ..Self::default()
        };
        let services = seen.services();
        seen.endpoint_slices = source
            .all(&resources::ENDPOINT_SLICES, |slice: &EndpointSlice| {
                let of = |(namespace, name): &(String, String)| {
                    slice.metadata.namespace == *namespace
                        && slice.metadata.labels.is(SERVICE, name)
                };
                services.iter().any(of)
            })
            .await?;
        for (namespace, name) in seen.wanted_maps() {
            let map = source.one(&resources::CONFIG_MAPS, &namespace, &name).await?;
            seen.config_maps.push(map);
        }
        if let Some((namespace, name)) = seen.wanted_secret() {
            seen.certificates = source.one(&resources::SECRETS, &namespace, &name).await?;
        }
        Ok(seen)
    }

    /// divvy's schedulers.
    pub(crate) fn schedulers(&self) -> impl Iterator<Item = &Workload> {
        self.deployments.iter().filter(|one| one.metadata.labels.is(APP, SCHEDULER))
    }

    /// The servers of divvy's webhooks.
    pub(crate) fn admissions(&self) -> impl Iterator<Item = &Workload> {
        self.deployments.iter().filter(|one| one.metadata.labels.is(APP, ADMISSION))
    }

    /// The namespace that divvy is in.
    pub(crate) fn own_namespace(&self) -> String {
        let first = self.schedulers().next();
        first.map_or_else(|| "divvy-system".to_owned(), |one| one.metadata.namespace.clone())
    }

    /// Whether some scheduler of divvy hands cards to shares.
    pub(crate) fn shares_cards(&self) -> bool {
        self.schedulers()
            .any(|scheduler| scheduler.option("gpu-sharing").is_some_and(|v| v != "false"))
    }

    /// The Services that webhooks of divvy are at.
    pub(crate) fn services(&self) -> BTreeSet<(String, String)> {
        let all = self.mutating.iter().chain(&self.validating);
        let services = all.flat_map(|all| &all.webhooks);
        let services = services.filter_map(|webhook| webhook.client_config.service.as_ref());
        services.map(|service| (service.namespace.clone(), service.name.clone())).collect()
    }

    /// The DaemonSets of the device plugin.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = &Workload> {
        self.daemon_sets.iter().filter(|set| set.runs("k8s-device-plugin"))
    }

    /// Where the webhooks' server keeps its certificates, unless somebody else makes them.
    fn wanted_secret(&self) -> Option<(String, String)> {
        let server = self.admissions().next().filter(|one| one.option("tls-cert").is_none())?;
        let option = |name, other: &str| server.option(name).unwrap_or(other).to_owned();
        Some((option("namespace", "divvy-system"), option("secret", "divvy-admission-tls")))
    }

    /// The ConfigMaps that say how cards are divided.
    fn wanted_maps(&self) -> BTreeSet<(String, String)> {
        let mut maps = BTreeSet::new();
        let mut places: BTreeSet<&str> = BTreeSet::new();
        for set in self.daemon_sets.iter().filter(|set| !set.metadata.labels.is(APP, PROVIDER)) {
            places.insert(&set.metadata.namespace);
            for volume in &set.spec.template.spec.volumes {
                let map = volume.config_map.as_ref();
                maps.extend(map.map(|map| (set.metadata.namespace.clone(), map.name.clone())));
            }
        }
        if places.is_empty() {
            places.insert(OPERATOR);
        }
        for policy in &self.cluster_policies {
            for part in [&policy.spec.device_plugin, &policy.spec.mig_manager] {
                let name = &part.config.name;
                let of = |place: &&str| ((*place).to_owned(), name.clone());
                maps.extend(places.iter().map(of).filter(|_| !name.is_empty()));
            }
        }
        maps.into_iter().take(MOST_CONFIG_MAPS).collect()
    }

    /// What was looked at, and what could not be.
    pub(crate) fn account(&self) -> (Vec<Count>, Vec<Hidden>) {
        let (mut counts, mut hidden) = (Vec::new(), Vec::new());
        let mut add = |resource: Resource, count: usize, why: Option<&str>| match why {
            Some(why) => {
                hidden.push(Hidden { resource: resource.full_name(), why: why.to_owned() });
            }
            None => counts.push(Count { resource: resource.plural, count }),
        };
        macro_rules! add {
            ($($field:ident $resource:expr;)*) => {
                $(add($resource, self.$field.count(), self.$field.why_hidden());)*
            };
        }
        add! {
            nodes resources::NODES;
            pods resources::PODS;
            namespaces resources::NAMESPACES;
            deployments resources::DEPLOYMENTS;
            daemon_sets resources::DAEMON_SETS;
            runtime_classes resources::RUNTIME_CLASSES;
            priority_classes resources::PRIORITY_CLASSES;
            mutating resources::MUTATING_WEBHOOKS;
            validating resources::VALIDATING_WEBHOOKS;
            policies resources::POLICIES;
            policy_bindings resources::POLICY_BINDINGS;
            endpoint_slices resources::ENDPOINT_SLICES;
            quotas resources::QUOTAS;
            cluster_policies resources::CLUSTER_POLICIES;
            device_classes resources::DEVICE_CLASSES;
            resource_slices resources::RESOURCE_SLICES;
        }
        // These are asked for by name, if at all.
        let maps = || self.config_maps.iter();
        let of_maps = (maps().map(Looked::count).sum(), maps().find_map(Looked::why_hidden));
        let of_secret = (self.certificates.count(), self.certificates.why_hidden());
        let named = [(resources::CONFIG_MAPS, of_maps), (resources::SECRETS, of_secret)];
        for (resource, (count, why)) in named {
            if count > 0 || why.is_some() {
                add(resource, count, why);
            }
        }
        (counts, hidden)
    }
}

fn node(node: &Node) -> bool {
    let labels = &node.metadata.labels;
    node.has_gpus()
        || labels.get(keys::ISOLATION_PROVIDER).is_some()
        || labels.get(keys::LABEL_GPU_COUNT).is_some()
        || node.spec.taints.iter().any(|taint| taint.key == keys::UNSETTLED)
}

/// Reservations, whoever else schedules, and pods that say what is wrong with their cards.
fn pod(pod: &ObservedPod) -> bool {
    let troubles = TROUBLES.map(condition);
    let is_troubled = || pod.status.conditions.iter().any(|one| troubles.contains(&one.kind));
    let places = [NAMESPACE, keys::KAI_SCHEDULER, KOORDINATOR];
    places.contains(&&*pod.metadata.namespace) || is_troubled()
}

/// Where Koordinator's chart puts its scheduler.
const KOORDINATOR: &str = "koordinator-system";

/// Says of a pod whether it is another project's scheduler, as the rest of divvy finds it out.
fn with_other(mut pod: ObservedPod) -> ObservedPod {
    let Metadata { namespace, labels, annotations, .. } = &pod.metadata;
    let mirror = annotations.get(keys::MIRROR);
    let metadata = json!({
        "namespace": namespace, "labels": labels,
        "annotations": mirror.map(|text| json!({ keys::MIRROR: text })).unwrap_or_default(),
    });
    let status = json!({ "phase": pod.status.phase });
    let (Ok(metadata), Ok(status)) =
        (divvy_words::Metadata::deserialize(metadata), PodStatus::deserialize(status))
    else {
        return pod;
    };
    let running = OtherSchedulers {
        kai: divvy_words::is_kai_scheduler(&metadata, &status),
        koordinator: divvy_words::is_koordinator_scheduler(&metadata, &status),
    };
    pod.other = keys::SCHEDULER_NAMES.into_iter().find(|name| running.whose(name).is_some());
    pod
}

fn is_divvys(workload: &Workload) -> bool {
    let app = workload.metadata.labels.get(APP);
    app.is_some_and(|app| [SCHEDULER, ADMISSION].contains(&app))
}

fn daemon_set(set: &Workload) -> bool {
    set.runs("k8s-device-plugin")
        || set.runs("k8s-mig-manager")
        || set.metadata.labels.is(APP, PROVIDER)
}

fn webhooks(webhooks: &Webhooks) -> bool {
    webhooks.webhooks.iter().any(|webhook| webhook.name.ends_with(".divvy.dev"))
}

fn policy(policy: &Policy) -> bool {
    policy.metadata.name.starts_with("divvy-")
}
