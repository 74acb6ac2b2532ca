//! What divvy leaves in a cluster for shares that outlive it, and how that goes too.
//!
//! ```text
//!   helm uninstall ─► scheduler, webhooks, rights        kept: reservations, their namespace, the policies of shares
//!   look ─► shares that run ─► none ─► remove ─► nothing of divvy
//! ```
//!
//! A share that runs needs its reservation, for else the device plugin gives its card to others, and
//! the policies, for its container reads its card from annotations at each start. Nobody in the cluster
//! is left to see the last one end, so whoever uninstalled divvy says when.

use divvy_api::resources::{
    CLUSTER_ROLE_BINDINGS, LEASES, MUTATING_WEBHOOKS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES,
};
use divvy_api::{Api, Failure, List, ListProgress, PatchKind, Resource};
use divvy_words::{keys, reservation};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Why it stopped; what was taken away before is gone.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what}: {why}")]
pub struct UninstallError {
    what: String,
    why: Failure,
}

fn failed(what: impl Into<String>) -> impl FnOnce(Failure) -> UninstallError {
    let what = what.into();
    move |why| UninstallError { what, why }
}

/// A share that has its card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveShare {
    /// Namespace and name of its pod.
    pub pod: String,
    /// Where it runs.
    pub node: String,
    /// What its record says.
    pub cards: String,
}

/// What there is of divvy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Deployments and pods that work: they have to go first, as they came.
    pub working: Vec<String>,
    /// Shares that have not ended.
    pub shares: Vec<LiveShare>,
    /// The names of reservation pods.
    reservations: Vec<String>,
    /// Whether others than divvy have pods beside them, such as KAI.
    has_neighbours: bool,
    /// Nodes that divvy has tainted.
    tainted: Vec<String>,
    /// Nodes with an isolation provider.
    pub provided: Vec<String>,
}

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const DEPLOYMENTS: Resource = resource("apps/v1", "Deployment", "deployments");
const RUNTIME_CLASSES: Resource = resource("node.k8s.io/v1", "RuntimeClass", "runtimeclasses");

const fn resource(api_version: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource { name: plural, api_version, kind, plural, optional: true }
}

/// Those that every installation has, and those that are optional.
const POLICIES: [&str; 11] = [
    "divvy-hand-off",
    "divvy-reservations",
    "divvy-reservation-priority",
    "divvy-deletions",
    "divvy-nodes",
    "divvy-provider",
    "divvy-visible-devices",
    "divvy-visible-devices-sources",
    "divvy-device-annotations",
    "divvy-affinity",
    "divvy-isolation",
];
/// What was applied by hand may still be there: `deploy/`.
const ACCOUNTS: [&str; 3] = ["divvy-scheduler", "divvy-admission", "divvy-provider"];

/// Looks for what there is of divvy, which was installed in this namespace; changes nothing.
pub async fn look(api: &Api, namespace: &str) -> Result<Remains, UninstallError> {
    let mut found = Remains::default();
    let homes = homes(api, namespace).await?;
    each(api, &DEPLOYMENTS, |deployment| {
        let is_home = homes.contains(text(deployment, "/metadata/namespace"));
        let is_account = ACCOUNTS.contains(&text(deployment, "/metadata/name"));
        if is_home && is_account && is_part(deployment) {
            found.working.push(format!("deployment {}", key(deployment)));
        }
    })
    .await?;
    each(api, &PODS, |pod| found.see(pod, &homes)).await?;
    each(api, &NODES, |node| {
        let name = text(node, "/metadata/name").to_owned();
        if taint(node).is_some() {
            found.tainted.push(name.clone());
        }
        if !node["metadata"]["annotations"][keys::CDI_KIND].is_null() {
            found.provided.push(name);
        }
    })
    .await?;
    Ok(found)
}

/// Takes away what is left; `say` hears of each thing. A share that still runs goes on without what
/// guards its card.
pub async fn remove(
    api: &Api,
    remains: &Remains,
    namespace: &str,
    say: &mut dyn FnMut(&str),
) -> Result<(), UninstallError> {
    let mut delete = async |resource: Resource, namespace: &str, name: &str| {
        let what = match namespace {
            "" => format!("{} {name}", resource.kind),
            namespace => format!("{} {namespace}/{name}", resource.kind),
        };
        match api.delete(&resource.path_of(namespace, name), b"{}".to_vec()).await {
            Ok(_) => say(&format!("deleted {what}")),
            Err(Failure::NotFound(_)) => {}
            Err(why) => return Err(failed(format!("delete {what}"))(why)),
        }
        Ok(())
    };
    // First the cards, which their policy guards.
    for name in &remains.reservations {
        delete(PODS, reservation::NAMESPACE, name).await?;
    }
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let plural = plural(kind);
        delete(resource(ADMISSION, kind, plural), "", "divvy").await?;
    }
    for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
        for name in POLICIES {
            delete(resource(ADMISSION, kind, plural(kind)), "", name).await?;
        }
    }
    for kind in ["MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"] {
        delete(resource(ADMISSION, kind, plural(kind)), "", "divvy-default-runtime").await?;
    }
    for kind in ["ClusterRoleBinding", "ClusterRole"] {
        for name in ACCOUNTS {
            delete(resource(RBAC, kind, plural(kind)), "", name).await?;
        }
    }
    delete(PRIORITY_CLASSES, "", "divvy-reservation").await?;
    let mut classes = Vec::new();
    each(api, &RUNTIME_CLASSES, |class| {
        classes.extend(is_part(class).then(|| text(class, "/metadata/name").to_owned()));
    })
    .await?;
    for class in classes {
        delete(RUNTIME_CLASSES, "", &class).await?;
    }
    delete(LEASES, namespace, "divvy-scheduler").await?;
    if remains.has_neighbours {
        for (group, kind) in [(RBAC, "RoleBinding"), (RBAC, "Role"), ("v1", "ServiceAccount")] {
            let resource = resource(group, kind, plural(kind));
            delete(resource, reservation::NAMESPACE, "divvy-reserve").await?;
        }
    } else {
        delete(NAMESPACES, "", reservation::NAMESPACE).await?;
    }
    for name in &remains.tainted {
        lift(api, name).await?;
        say(&format!("lifted the taint {} of node {name}", keys::UNSETTLED));
    }
    Ok(())
}

/// The namespaces in which divvy may work: that which was named, and where its webhooks and its
/// scheduler's rights are for. Others have its public labels on their pods if they like.
async fn homes(api: &Api, namespace: &str) -> Result<BTreeSet<String>, UninstallError> {
    let mut homes = BTreeSet::from([namespace.to_owned()]);
    for (resource, name, list, place) in [
        (MUTATING_WEBHOOKS, "divvy", "/webhooks", "/clientConfig/service/namespace"),
        (CLUSTER_ROLE_BINDINGS, ACCOUNTS[0], "/subjects", "/namespace"),
    ] {
        let object = match api.get(&resource.path_of("", name)).await {
            Ok(object) => serde_json::from_slice(&object).unwrap_or_default(),
            Err(Failure::NotFound(_)) => Value::Null,
            Err(why) => return Err(failed(format!("read {} {name}", resource.kind))(why)),
        };
        let all = object.pointer(list).and_then(Value::as_array);
        let places = all.into_iter().flatten().map(|one| text(one, place));
        homes.extend(places.filter(|place| !place.is_empty()).map(str::to_owned));
    }
    Ok(homes)
}

impl Remains {
    fn see(&mut self, pod: &Value, homes: &BTreeSet<String>) {
        if text(pod, "/metadata/namespace") == reservation::NAMESPACE {
            match text(pod, "/metadata/labels/app.kubernetes.io~1managed-by") {
                "divvy" => self.reservations.push(text(pod, "/metadata/name").to_owned()),
                _ => self.has_neighbours = true,
            }
            return;
        }
        if ["Succeeded", "Failed"].contains(&text(pod, "/status/phase")) {
            return;
        }
        if pod["spec"]["nodeName"].is_string() && is_share(pod) {
            self.shares.push(LiveShare {
                pod: key(pod),
                node: text(pod, "/spec/nodeName").to_owned(),
                cards: pod["metadata"]["annotations"][keys::CARDS].as_str().unwrap_or("-").into(),
            });
        } else if homes.contains(text(pod, "/metadata/namespace"))
            && is_part(pod)
            && ACCOUNTS.contains(&text(pod, "/metadata/labels/app.kubernetes.io~1name"))
        {
            self.working.push(format!("pod {}", key(pod)));
        }
    }
}

/// Whether a pod has a part of a card, by divvy's record: it reads its card from an annotation, or is
/// of a group, as those that were taken over from KAI. KAI's own have no record.
fn is_share(pod: &Value) -> bool {
    let metadata = &pod["metadata"];
    if metadata["annotations"][keys::CARDS].is_null() {
        return false;
    }
    let devices = metadata["annotations"][keys::VISIBLE_DEVICES].as_str();
    let labels = metadata["labels"].as_object();
    let is_group = |key: &String| {
        let rest = key.strip_prefix(keys::GPU_GROUP);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    devices.is_some_and(|devices| !devices.is_empty())
        || labels.is_some_and(|labels| labels.keys().any(is_group))
}

fn is_part(object: &Value) -> bool {
    text(object, "/metadata/labels/app.kubernetes.io~1part-of") == "divvy"
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn key(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

/// Where divvy's taint is among those of a node.
fn taint(node: &Value) -> Option<usize> {
    let taints = node["spec"]["taints"].as_array()?;
    taints.iter().position(|taint| taint["key"] == keys::UNSETTLED)
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "ValidatingWebhookConfiguration" => "validatingwebhookconfigurations",
        "MutatingWebhookConfiguration" => "mutatingwebhookconfigurations",
        "ValidatingAdmissionPolicyBinding" => "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
        "MutatingAdmissionPolicyBinding" => "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicy" => "mutatingadmissionpolicies",
        "ClusterRoleBinding" => "clusterrolebindings",
        "RoleBinding" => "rolebindings",
        "Role" => "roles",
        "ServiceAccount" => "serviceaccounts",
        _ => "clusterroles",
    }
}

/// The taint may have moved meanwhile: then it is looked for anew.
async fn lift(api: &Api, name: &str) -> Result<(), UninstallError> {
    let path = NODES.path_of("", name);
    let what = || failed(format!("lift the taint of node {name}"));
    loop {
        let node = match api.get(&path).await {
            Err(Failure::NotFound(_)) => return Ok(()),
            node => node.map_err(what())?,
        };
        let node: Value = serde_json::from_slice(&node).unwrap_or_default();
        let Some(at) = taint(&node) else { return Ok(()) };
        let place = format!("/spec/taints/{at}");
        let steps = json!([
            {"op": "test", "path": format!("{place}/key"), "value": keys::UNSETTLED},
            {"op": "remove", "path": place},
        ]);
        match api.patch(&path, PatchKind::Steps, steps.to_string().into_bytes()).await {
            Err(Failure::Conflict(_) | Failure::Refused { code: 422, .. }) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            done => return done.map(|_| ()).map_err(what()),
        }
    }
}

/// Shows all objects of a kind, one at a time; none where the cluster has no such kind.
async fn each(
    api: &Api,
    resource: &Resource,
    mut see: impl FnMut(&Value),
) -> Result<(), UninstallError> {
    let mut list = List::new(api, resource.path(), 500);
    loop {
        let tell = |object: &[u8]| {
            serde_json::from_slice(object).iter().for_each(&mut see);
        };
        match list.next(tell).await {
            Ok(ListProgress::End { .. }) | Err(Failure::NotFound(_)) => return Ok(()),
            Ok(_) => {}
            Err(why) => return Err(failed(format!("list {}", resource.full_name()))(why)),
        }
    }
}

#[cfg(test)]
mod tests;
