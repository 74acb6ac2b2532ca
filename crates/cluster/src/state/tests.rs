//! The state on its own: changes and outcomes in, actions out.

mod adoption;
mod bindings;
mod churn;
mod claims;
mod isolation;
mod koordinators;
mod others;
mod quarantine;
mod reasons;
mod replicas;
mod reservations;
mod trouble;

use super::*;
use crate::listing::{Keyed, Listing, News};
use crate::objects::{BindRequestItem, NodeItem, PodGroupItem, PodItem, StorageItem};
use crate::place::Place;
use divvy_api::Failure;
use divvy_api::watch::{Change, Item};
use divvy_engine::Config;
use divvy_ledger::Bytes;
use divvy_words::isolation::Isolation;
use divvy_words::manifest::StorageKind;
use divvy_words::{cards, keys, reservation};
use serde_json::{Value, json};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A state behind the lists of the watches that the tests tell about more than once.
struct State {
    state: super::State,
    pods: Listing<PodItem>,
    nodes: Listing<NodeItem>,
}

impl State {
    fn new(settings: StateSettings) -> Self {
        let watches = ["pods", "nodes"].into_iter();
        let state = super::State::new(Scheduler::new(Config::default()), settings, watches);
        Self { state, pods: Listing::default(), nodes: Listing::default() }
    }

    fn pod_changed(&mut self, change: Change<PodItem>, now: Instant) {
        if self.pods.enter(change, |news| self.state.pod_changed(news, now)) {
            self.state.listed("pods", now);
        }
    }

    fn node_changed(&mut self, change: Change<NodeItem>) {
        if self.nodes.enter(change, |news| self.state.node_changed(news)) {
            self.state.listed("nodes", self.state.cx.now);
        }
    }
}

impl Deref for State {
    type Target = super::State;

    fn deref(&self) -> &super::State {
        &self.state
    }
}

impl DerefMut for State {
    fn deref_mut(&mut self) -> &mut super::State {
        &mut self.state
    }
}

/// A state with nodes of so many 80 GiB cards, all listed.
fn state(nodes: &[(&str, u32)]) -> State {
    let nodes = nodes.iter().map(|(name, cards)| node(name, *cards));
    state_of(nodes.collect(), None)
}

/// The same of nodes as they are, and with levels of isolation told apart or not.
fn state_of(nodes: Vec<NodeItem>, isolation: Option<Isolation>) -> State {
    let names = keys::SCHEDULER_NAMES.map(str::to_owned).to_vec();
    let clock = Clock { moment: Instant::now(), unix: 1_800_000_000 };
    let quarantine = 10 * SECOND;
    let max_grace_period = 600;
    let settings =
        StateSettings { names, writes: 32, quarantine, max_grace_period, isolation, clock };
    let mut state = State::new(settings);
    state.node_changed(Change::Relisting);
    for node in nodes {
        state.node_changed(Change::Seen(node));
    }
    state.node_changed(Change::Listed);
    state.pod_changed(Change::Relisting, Instant::now());
    state.pod_changed(Change::Listed, Instant::now());
    state
}

fn node(name: &str, cards: u32) -> NodeItem {
    let node = json!({
        "metadata": {"name": name, "labels": {
            "nvidia.com/gpu.count": cards.to_string(), "nvidia.com/gpu.memory": "81920",
        }},
        "status": {"allocatable": {
            "cpu": "32", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": cards.to_string(),
        }},
    });
    serde_json::from_value(node).unwrap()
}

/// Node `a` with so many cards of which its device plugin hands out so many, and pod slots.
fn hands_out(cards: u32, usable: u32, pods: u32) -> NodeItem {
    let mut node = node("a", cards);
    node.status.allocatable = serde_json::from_value(json!({
        "cpu": "32", "memory": "64Gi", "pods": pods.to_string(),
        "nvidia.com/gpu": usable.to_string(),
    }))
    .unwrap();
    node
}

/// A pod of half a card.
fn half(name: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "ml", "name": name, "uid": format!("{name}-uid"),
            "resourceVersion": "10", "annotations": {"gpu-fraction": "0.5"},
        },
        "spec": {"schedulerName": "divvy-scheduler", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    })
}

fn item(pod: &Value) -> PodItem {
    serde_json::from_value(pod.clone()).unwrap()
}

fn see(state: &mut State, pod: &Value) {
    state.pod_changed(Change::Seen(item(pod)), Instant::now());
}

/// What the state wants done after a pass, in words.
fn acts(state: &mut State) -> Vec<String> {
    state.pass(Instant::now());
    let say = |action: Action| match action {
        Action::Bind(b) => {
            let cards = match b.grant {
                Grant::Nothing | Grant::HandOff(None) => "-".to_owned(),
                Grant::Indexes => {
                    let shares = b.placement.cards.iter();
                    let shares = shares.map(|share| format!("{}:{}", share.index, share.bytes.0));
                    shares.collect::<Vec<_>>().join(",")
                }
                Grant::HandOff(Some(hand_off)) => cards::print(&hand_off.cards),
            };
            format!("bind {} v{} to {} {cards}", b.pod.key, b.version, b.placement.node)
        }
        Action::Tell { pod, text, .. } => format!("tell {}: {text}", pod.key),
        Action::Void { pod, text, .. } => format!("void {}: {text}", pod.key),
        Action::Look { pod } => format!("look {}", pod.key),
        Action::Announce { pod, node } => format!("announce {} on {node}", pod.key),
        Action::Reserve { key, node, group, .. } => format!("reserve {key} on {node} for {group}"),
        Action::Write { place, text, .. } => {
            let (there, text) = (text.is_some(), text.unwrap_or_default());
            match place {
                Place::Ghosts(key) => format!("remember {key} {text}"),
                Place::Group(key) => format!("relabel {key} {text}"),
                Place::Cards(pod) => format!("record {} {text}", pod.key),
                Place::Condition(key, reason) => format!("mark {key} {reason} {there}"),
                Place::Taint(node) => format!("taint {node} {there}"),
            }
        }
        Action::Warn { pod, note, .. } => format!("warn {}: {note}", pod.key),
        Action::Unreserve { key, uid } => format!("unreserve {key} {uid}"),
        Action::RelistPods => "relist pods".to_owned(),
        Action::Provide { pod, node, steps } => {
            let step = |step: VolumeStep| match step {
                VolumeStep::SelectNode { claim } => format!("{claim}"),
                VolumeStep::BindStatic { claim, volume } => format!("{claim}={volume}"),
            };
            let steps: Vec<String> = steps.into_iter().map(step).collect();
            format!("provide {} on {node}: {}", pod.key, steps.join(","))
        }
    };
    state.take_actions().into_iter().map(say).collect()
}

fn target(name: &str) -> Target {
    Target { key: ObjectKey::new("ml", name), uid: format!("{name}-uid").into() }
}

fn bind_fails(state: &mut State, name: &str, node: &str, failure: Failure, now: Instant) {
    let (pod, node, result) = (target(name), node.into(), Err(failure));
    state.outcome(Outcome::Bound { pod, node, result }, now);
}

fn looked(state: &mut State, name: &str, found: Option<&Value>, now: Instant) {
    let result = Ok(found.map(|pod| Box::new(item(pod))));
    let outcome = Outcome::Looked { pod: target(name), text: None, tries: 0, result };
    state.outcome(outcome, now);
}

fn no(why: &str) -> Failure {
    Failure::Refused { code: 403, message: why.to_owned() }
}

/// Bytes that are held on the cards of a node.
fn held(state: &State, node: &str) -> Vec<u64> {
    let ledger = state.scheduler().ledger();
    let node = ledger.node(ledger.find(node).unwrap()).unwrap();
    node.cards().iter().map(|card| card.used().0 >> 30).collect()
}

fn with(pod: &Value, path: &str, value: Value) -> Value {
    let mut pod = pod.clone();
    let mut at = &mut pod;
    for part in path.split('.') {
        at = &mut at[part.replace('~', ".").as_str()];
    }
    *at = value;
    pod
}

fn bound(pod: &Value, node: &str, cards: &str) -> Value {
    let pod = with(pod, "spec.nodeName", node.into());
    let pod = with(&pod, "metadata.annotations.divvy~dev/cards", cards.into());
    with(&pod, "metadata.resourceVersion", "20".into())
}

/// A pod with one claim of a class whose claims wait for their first pod.
fn with_claim(name: &str, claim: &str) -> Value {
    let pod = with(&half(name), "metadata.annotations", json!({}));
    with(
        &pod,
        "spec.volumes",
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]),
    )
}

fn storage(state: &mut State, kind: StorageKind, object: Value) {
    let item: StorageItem = serde_json::from_value(object).unwrap();
    state.storage_changed(kind, News::Seen(item));
}

fn class_and_claim(state: &mut State) {
    storage(
        state,
        StorageKind::Class,
        json!({
            "metadata": {"name": "late"}, "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }),
    );
    storage(state, StorageKind::Claim, claim(None));
}

fn claim(volume: Option<&str>) -> Value {
    json!({
        "metadata": {"namespace": "ml", "name": "data", "uid": "c", "resourceVersion": "3",
            "annotations": if volume.is_some() { json!({"pv.kubernetes.io/bind-completed": "yes"}) }
                else { json!({}) }},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume},
        "status": {"phase": if volume.is_some() { "Bound" } else { "Pending" }},
    })
}

fn made_void(state: &mut State, name: &str, found: &Value, now: Instant) {
    let (text, result) = (Some("why".into()), Ok(Some(Box::new(item(found)))));
    state.outcome(Outcome::Looked { pod: target(name), text, tries: 0, result }, now);
}

/// A pod of so many whole GPUs.
fn whole(name: &str, count: u32) -> Value {
    let mut pod = half(name);
    pod["metadata"]["annotations"] = json!({});
    pod["spec"]["containers"][0]["resources"] =
        json!({"limits": {"nvidia.com/gpu": count.to_string()}});
    pod
}
