//! A cluster as it is looked at: what matters of each kind of object, and nothing else.

use crate::finding::{Count, Hidden};
use crate::fix::{Fix, fix};
use crate::looked::Looked;
use crate::objects::{
    Certificates, ClusterPolicy, ConfigMap, EndpointSlice, Metadata, Node, ObservedPod,
    ObservedWebhook, Plain, Policy, Quota, ResourceSlice, RoleBinding, Subject, Version, Webhooks,
    Workload,
};
use crate::source::ClusterSource;
use divvy_api::{Resource, resources};
use divvy_cluster::snapshot::SnapshotError;
use divvy_words::manifest::PodStatus;
use divvy_words::reservation::{NAMESPACE, TROUBLES, condition};
use divvy_words::{OtherSchedulers, keys};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The label by which divvy's own workloads are found, in its namespace.
pub(crate) const APP: &str = "app.kubernetes.io/name";
pub(crate) const SCHEDULER: &str = "divvy-scheduler";
pub(crate) const ADMISSION: &str = "divvy-admission";
pub(crate) const PROVIDER: &str = "divvy-provider";
/// The label of an EndpointSlice that names its Service.
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";
/// Nobody has more ConfigMaps of the device plugin and the MIG manager.
const MOST_CONFIG_MAPS: usize = 16;
/// Nobody has more namespaces whose pods manage GPUs.
const MOST_PLACES: usize = 16;
/// Longer texts are no config of anything that is looked for.
const MOST_CONFIG_BYTES: usize = 64 << 10;
/// Where Kubernetes' own scheduler and its like are.
pub(crate) const KUBE_SYSTEM: &str = "kube-system";
/// The kind of their config.
pub(crate) const SCHEDULER_CONFIG: &str = "KubeSchedulerConfiguration";
/// Where the GPU operator is, if nothing says so.
const OPERATOR: &str = "gpu-operator";
/// A namespace with it is one whose pods manage GPUs.
const GPU_SYSTEM: &str = "divvy.dev/gpu-system";
/// The policy that names others.
const VISIBLE_DEVICES: &str = "divvy-visible-devices";
/// The webhook that goes with it.
const VOID: &str = "void.divvy.dev";
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
    /// That of divvy's scheduler, where the webhooks do not say where divvy is.
    pub(crate) role_binding: Looked<RoleBinding>,
    pub(crate) runtime_classes: Looked<Plain>,
    pub(crate) priority_classes: Looked<Plain>,
    pub(crate) mutating: Looked<Webhooks>,
    pub(crate) validating: Looked<Webhooks>,
    pub(crate) policies: Looked<Policy>,
    pub(crate) policy_bindings: Looked<Policy>,
    pub(crate) endpoint_slices: Looked<EndpointSlice>,
    pub(crate) quotas: Looked<Quota>,
    pub(crate) cluster_policies: Looked<ClusterPolicy>,
    /// Those that the device plugin and the MIG manager are given by name.
    pub(crate) config_maps: Vec<Looked<ConfigMap>>,
    /// Others in namespaces whose pods manage GPUs, that are of the device plugin or of a scheduler.
    pub(crate) other_maps: Vec<Looked<ConfigMap>>,
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
                .all(&resources::NAMESPACES, |place: &Plain| {
                    let Metadata { name, labels, .. } = &place.metadata;
                    name == NAMESPACE || labels.get(GPU_SYSTEM).is_some()
                })
                .await?,
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
        if seen.webhooks_namespace().is_none() {
            seen.role_binding =
                source.one(&resources::CLUSTER_ROLE_BINDINGS, "", SCHEDULER).await?;
        }
        seen.look_at_workloads(source).await?;
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
        let own = seen.own_namespace();
        let places =
            seen.gpu_system().into_iter().filter(|place| *place != own && place != NAMESPACE);
        for place in places.take(MOST_PLACES) {
            let maps = source.some_in(&resources::CONFIG_MAPS, &place, tells).await?;
            seen.other_maps.push(maps);
        }
        if let Some((namespace, name)) = seen.wanted_secret() {
            seen.certificates = source.one(&resources::SECRETS, &namespace, &name).await?;
        }
        Ok(seen)
    }

    /// Looks at Deployments and DaemonSets, which every tenant makes, also with divvy's labels and with
    /// images that have names like NVIDIA's: only where administrators alone make them.
    async fn look_at_workloads(&mut self, source: &ClusterSource<'_>) -> Result<(), SnapshotError> {
        let (own, gpu_system) = (self.own_namespace(), self.gpu_system());
        let is_own = |set: &Workload| set.metadata.namespace == own;
        self.deployments = source
            .all(&resources::DEPLOYMENTS, |one: &Workload| is_own(one) && is_divvys(one))
            .await?;
        self.daemon_sets = source
            .all(&resources::DAEMON_SETS, |set: &Workload| {
                let manages = gpu_system.contains(&set.metadata.namespace) && manages_gpus(set);
                manages || (is_own(set) && set.metadata.labels.is(APP, PROVIDER))
            })
            .await?;
        let is_guess = self.named_namespace().is_none() && self.role_binding.why_hidden().is_some();
        if is_guess && self.deployments.lacks(|_| true) {
            let why = "nothing that was looked at says in which namespace divvy is";
            self.deployments = Looked::hidden(why.to_owned());
        }
        Ok(())
    }

    /// divvy's schedulers.
    pub(crate) fn schedulers(&self) -> impl Iterator<Item = &Workload> {
        self.deployments.iter().filter(|one| one.metadata.labels.is(APP, SCHEDULER))
    }

    /// The servers of divvy's webhooks.
    pub(crate) fn admissions(&self) -> impl Iterator<Item = &Workload> {
        self.deployments.iter().filter(|one| one.metadata.labels.is(APP, ADMISSION))
    }

    /// What puts isolation providers on nodes.
    pub(crate) fn providers(&self) -> impl Iterator<Item = &Workload> {
        self.daemon_sets.iter().filter(|set| set.metadata.labels.is(APP, PROVIDER))
    }

    /// The namespace that divvy is in, as only administrators can say: by an object of the whole
    /// cluster. Else where it usually is.
    pub(crate) fn own_namespace(&self) -> String {
        self.named_namespace().unwrap_or("divvy-system").to_owned()
    }

    fn named_namespace(&self) -> Option<&str> {
        let of_scheduler =
            |subject: &&Subject| subject.kind == "ServiceAccount" && subject.name == SCHEDULER;
        let subject = || self.role_binding.iter().flat_map(|b| &b.subjects).find(of_scheduler);
        self.webhooks_namespace().or_else(|| Some(&*subject()?.namespace))
    }

    /// Where the server of divvy's webhooks is.
    fn webhooks_namespace(&self) -> Option<&str> {
        let all = self.mutating.iter().chain(&self.validating);
        let ours = all.flat_map(|all| &all.webhooks).filter(|one| is_ours(one));
        ours.filter_map(|one| Some(&*one.client_config.service.as_ref()?.namespace)).next()
    }

    /// The release of Helm that divvy is of, as objects say that only administrators write.
    pub(crate) fn release(&self) -> Option<Release> {
        let webhooks = self.mutating.iter().chain(&self.validating).map(|one| &one.metadata);
        let policies = self.policies.iter().chain(&self.policy_bindings).map(|one| &one.metadata);
        let deployments = self.deployments.iter().map(|one| &one.metadata);
        let bindings = self.role_binding.iter().map(|one| &one.metadata);
        let mut all = webhooks.chain(deployments).chain(policies).chain(bindings);
        all.find_map(Release::of)
    }

    /// The names that divvy's schedulers serve.
    pub(crate) fn scheduler_names(&self) -> Vec<String> {
        let served = self.schedulers().chain(self.admissions());
        let served = served.filter_map(|one| one.option("scheduler-names")).next();
        match served {
            Some(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
            None => keys::SCHEDULER_NAMES.map(str::to_owned).to_vec(),
        }
    }

    /// The namespaces that the policy about devices exempts by name; where somebody took that away, the
    /// webhook that goes with it.
    pub(crate) fn exempt(&self) -> impl Iterator<Item = &str> {
        let policies = self.policy_bindings.iter();
        let policy = policies.filter(|one| one.metadata.name == VISIBLE_DEVICES).find_map(|one| {
            one.spec["matchResources"]["namespaceSelector"]["matchExpressions"].as_array()
        });
        let webhooks = self.mutating.iter().flat_map(|all| &all.webhooks);
        let mut webhook = webhooks
            .filter(|one| one.name == VOID)
            .filter_map(|one| one.rest.get("namespaceSelector")?["matchExpressions"].as_array());
        let by_name = |rule: &&Value| {
            rule["key"] == "kubernetes.io/metadata.name" && rule["operator"] == "NotIn"
        };
        let exempt = policy.or_else(|| webhook.next()).into_iter().flatten();
        let exempt = exempt.filter(by_name).filter_map(|rule| rule["values"].as_array());
        exempt.flatten().filter_map(Value::as_str)
    }

    /// The namespaces whose pods manage GPUs, as policies and labels of namespaces say: tenants make
    /// nothing there.
    fn gpu_system(&self) -> BTreeSet<String> {
        let labelled =
            self.namespaces.iter().filter(|place| place.metadata.labels.get(GPU_SYSTEM).is_some());
        let labelled = labelled.map(|place| place.metadata.name.clone());
        let exempt = self.exempt().map(str::to_owned);
        let usual = [KUBE_SYSTEM, OPERATOR].map(str::to_owned);
        usual.into_iter().chain(labelled).chain(exempt).collect()
    }

    /// The RuntimeClass of shares.
    pub(crate) fn runtime_class(&self) -> &str {
        let of_shares = self.admissions().find_map(|one| one.option("runtime-class"));
        let of_reservations =
            || self.schedulers().find_map(|one| one.option("reservation-runtime-class"));
        of_shares.or_else(of_reservations).unwrap_or("nvidia")
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
        let maps = || self.config_maps.iter().chain(&self.other_maps);
        let of_maps = (maps().map(Looked::count).sum(), maps().find_map(Looked::why_hidden));
        let of_secret = (self.certificates.count(), self.certificates.why_hidden());
        let of_roles = (self.role_binding.count(), self.role_binding.why_hidden());
        let named = [
            (resources::CONFIG_MAPS, of_maps),
            (resources::SECRETS, of_secret),
            (resources::CLUSTER_ROLE_BINDINGS, of_roles),
        ];
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
    let schedules = || {
        let has_image = |one: &crate::objects::Container| one.image.contains("kube-scheduler");
        pod.metadata.namespace == KUBE_SYSTEM && pod.spec.containers.iter().any(has_image)
    };
    places.contains(&&*pod.metadata.namespace) || schedules() || is_troubled()
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

/// A release of Helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) name: String,
    pub(crate) namespace: String,
}

impl Release {
    fn of(metadata: &Metadata) -> Option<Self> {
        if !metadata.labels.is("app.kubernetes.io/managed-by", "Helm") {
            return None;
        }
        let said = |what: &str| metadata.annotations.get(&format!("meta.helm.sh/release-{what}"));
        Some(Self { name: said("name")?.to_owned(), namespace: said("namespace")?.to_owned() })
    }

    /// Brings back all that is of it, with the values that it has.
    pub(crate) fn upgrade(&self) -> Fix {
        let Self { name, namespace } = self;
        fix!("helm upgrade {name} charts/divvy -n {namespace} --reuse-values", name, namespace)
    }
}

/// Whether a ConfigMap is a config of the device plugin, or of a scheduler.
fn tells(map: &ConfigMap) -> bool {
    let is_config = |text: &String| {
        text.len() <= MOST_CONFIG_BYTES
            && (divvy_words::is_device_plugin_config(text) || text.contains(SCHEDULER_CONFIG))
    };
    map.data.values().any(is_config)
}

fn is_divvys(workload: &Workload) -> bool {
    let app = workload.metadata.labels.get(APP);
    app.is_some_and(|app| [SCHEDULER, ADMISSION].contains(&app))
}

fn manages_gpus(set: &Workload) -> bool {
    set.runs("k8s-device-plugin") || set.runs("k8s-mig-manager")
}

fn webhooks(webhooks: &Webhooks) -> bool {
    webhooks.webhooks.iter().any(is_ours)
}

fn is_ours(webhook: &ObservedWebhook) -> bool {
    webhook.name.ends_with(".divvy.dev")
}

fn policy(policy: &Policy) -> bool {
    policy.metadata.name.starts_with("divvy-")
}
