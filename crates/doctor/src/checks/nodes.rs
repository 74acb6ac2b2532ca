//! What nodes with GPUs say of themselves.

use crate::finding::Finding;
use crate::fix::fix;
use crate::objects::{Node, Workload};
use crate::observed::Observed;
use divvy_words::keys;
use divvy_words::reservation::NAMESPACE;

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    let found = [
        without_memory(cluster),
        below_capacity(cluster),
        unsettled(cluster),
        without_provider(cluster),
    ];
    found.into_iter().flatten().collect()
}

fn those(cluster: &Observed, is: impl Fn(&Node) -> bool) -> Vec<&Node> {
    cluster.nodes.iter().filter(|node| is(node)).collect()
}

/// Feature discovery says how large a card is; of others no share can be booked.
fn without_memory(cluster: &Observed) -> Option<Finding> {
    let memory = |node: &Node| {
        let text = node.metadata.labels.get(keys::LABEL_GPU_MEMORY)?;
        text.parse::<u64>().ok().filter(|mib| *mib > 0)
    };
    let nodes = those(cluster, |node| node.has_gpus() && memory(node).is_none());
    let first = nodes.first()?;
    let (key, name) = (keys::LABEL_GPU_MEMORY, &first.metadata.name);
    let seen = |node: &&Node| match node.metadata.labels.get(key) {
        None => format!("{}: no label {key}", node.called()),
        Some(text) => format!("{}: {key}={text}", node.called()),
    };
    Some(
        Finding::problem(
            "no-gpu-memory",
            "nodes do not say how large their cards are: no share fits there",
        )
        .seen_at(nodes.iter().map(seen))
        .fix(fix!(
            "# install NVIDIA's GPU feature discovery, or by hand:\n\
                 kubectl label node {name} {key}=81920   # MiB of one card",
            name,
            key
        )),
    )
}

/// What the device plugin calls unhealthy is in the capacity alone.
fn below_capacity(cluster: &Observed) -> Option<Finding> {
    let lost = |node: &Node| {
        let mut lost = Vec::new();
        for resource in node.gpu_resources() {
            let has = Node::amount(&node.status.capacity, resource);
            let gives = Node::amount(&node.status.allocatable, resource);
            if gives < has {
                lost.push(format!(
                    "{}: {gives} of {has} {resource} are allocatable",
                    node.called()
                ));
            }
        }
        lost
    };
    let first = cluster.nodes.iter().find(|node| !lost(node).is_empty())?;
    let logs = match cluster.plugins().next() {
        Some(Workload { metadata, .. }) => {
            let (namespace, set) = (&metadata.namespace, &metadata.name);
            fix!(
                "kubectl -n {namespace} logs daemonset/{set}   # says which card is unhealthy, and why",
                namespace,
                set
            )
        }
        None => fix!("kubectl describe node {name}", name = first.metadata.name),
    };
    Some(
        Finding::problem("devices-unhealthy", "nodes have devices that are not handed out")
            .seen_at(cluster.nodes.iter().flat_map(lost))
            .fix(logs),
    )
}

fn unsettled(cluster: &Observed) -> Option<Finding> {
    let is = |node: &Node| node.spec.taints.iter().any(|taint| taint.key == keys::UNSETTLED);
    let nodes = those(cluster, is);
    let name = &nodes.first()?.metadata.name;
    Some(
        Finding::problem(
            "unsettled",
            "nodes give no GPU until each of their shared cards is held again",
        )
        .seen_at(nodes.iter().map(|node| format!("{}: taint {}", node.called(), keys::UNSETTLED)))
        .fix(fix!(
            "kubectl -n {NAMESPACE} get pods -o wide --field-selector spec.nodeName={name}   \
                 # what its reservations wait for",
            name
        )),
    )
}

/// The installer writes label and annotation together.
fn without_provider(cluster: &Observed) -> Option<Finding> {
    let claims = |node: &Node| {
        let is_called = node.metadata.labels.get(keys::ISOLATION_PROVIDER).is_some();
        is_called && node.metadata.annotations.get(keys::CDI_KIND).is_none()
    };
    let nodes = those(cluster, claims);
    let name = &nodes.first()?.metadata.name;
    let label = keys::ISOLATION_PROVIDER;
    Some(
        Finding::problem(
            "label-without-provider",
            "nodes are labelled with a provider that nobody installed there",
        )
        .seen_at(nodes.iter().map(|node| {
            let provider = node.metadata.labels.get(label).unwrap_or_default();
            format!("{}: {label}={provider} and no annotation {}", node.called(), keys::CDI_KIND)
        }))
        .fix(fix!(
            "kubectl label node {name} {label}-   # or install it: docs/isolation.md",
            name,
            label
        )),
    )
}
