//! Kubelets and device plugins: who has which card in truth, whatever the API says.

use super::api::{Api, path_of};
use super::classes::class_of;
use divvy_words::keys;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The memory of every card.
pub const CARD: u64 = 80 << 30;
/// How long the containers of a pod have to end.
const GRACE: u64 = 30;

/// What happens on the nodes.
#[derive(Default)]
pub struct Kubelets {
    /// Every card by name: its node, and the uid of the pod that the device plugin gave it to.
    pub cards: BTreeMap<String, (String, Option<String>)>,
    /// Shares whose pods were deleted by force: their containers run until then.
    pub left: Vec<Left>,
    /// Nodes whose device plugin is gone: who has a card keeps it, and nobody gets one.
    pub bare: BTreeSet<&'static str>,
}

/// What a pod left behind.
#[derive(Clone, Debug)]
pub struct Left {
    pub uid: String,
    pub cards: String,
    pub class: String,
    pub until: u64,
}

pub fn text<'a>(pod: &'a Value, pointer: &str) -> &'a str {
    pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub fn cards_of(pod: &Value) -> &str {
    pod["metadata"]["annotations"][keys::CARDS].as_str().unwrap_or_default()
}

pub fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

impl Kubelets {
    /// Starts a pod that is bound and has not begun. `first` says which free cards come first.
    pub fn start(&mut self, api: &mut Api, mut pod: Value, first: usize) {
        let node = text(&pod, "/spec/nodeName").to_owned();
        let uid = text(&pod, "/metadata/uid").to_owned();
        let limit = &pod["spec"]["containers"][0]["resources"]["limits"][keys::GPU];
        let wanted: usize = limit.as_str().and_then(|n| n.parse().ok()).unwrap_or(0);
        let hands_out = !self.bare.contains(&*node);
        let is_free = |(_, (at, owner)): &(&String, &(String, Option<String>))| {
            hands_out && *at == node && owner.is_none()
        };
        let free: Vec<String> =
            self.cards.iter().filter(is_free).map(|(id, _)| id.clone()).collect();
        if free.len() < wanted {
            pod["status"] = json!({ "phase": "Failed", "reason": "UnexpectedAdmissionError" });
            return api.put(&path_of(&pod), pod);
        }
        let given: Vec<String> =
            (0..wanted).map(|i| free[(first + i) % free.len()].clone()).collect();
        for id in &given {
            if let Some((_, owner)) = self.cards.get_mut(id) {
                *owner = Some(uid.clone());
            }
        }
        let devices: Vec<Value> =
            given.iter().map(|id| json!({ "resourceID": id, "health": "Healthy" })).collect();
        pod["status"]["phase"] = json!("Running");
        pod["status"]["startTime"] = json!("2027-01-15T08:00:00Z");
        if wanted > 0 {
            let given = json!([{ "name": keys::GPU, "resources": devices }]);
            pod["status"]["containerStatuses"] =
                json!([{ "name": "c", "allocatedResourcesStatus": given }]);
        }
        api.put(&path_of(&pod), pod);
    }

    /// Takes back the cards of pods that are gone or have ended.
    pub fn reap(&mut self, api: &Api) {
        let running: Vec<&str> = api
            .pods()
            .filter(|pod| !has_ended(pod))
            .map(|pod| text(pod, "/metadata/uid"))
            .collect();
        for (_, owner) in self.cards.values_mut() {
            if owner.as_deref().is_some_and(|uid| !running.contains(&uid)) {
                *owner = None;
            }
        }
    }

    /// A pod was taken out of the API, and its containers end when they like.
    pub fn leave(&mut self, pod: &Value, now: u64) {
        if text(pod, "/status/phase") == "Running" {
            let (uid, cards) = (text(pod, "/metadata/uid").to_owned(), cards_of(pod).to_owned());
            let class = class_of(pod).to_owned();
            self.left.push(Left { uid, cards, class, until: now + GRACE });
        }
    }

    /// Another process begins: of what was left it knows what is written on reservations.
    pub fn forget_unwritten(&mut self, api: &Api) {
        let notes =
            api.pods().filter_map(|pod| pod["metadata"]["annotations"][keys::GHOSTS].as_str());
        let notes: Vec<&str> = notes.collect();
        self.left.retain(|left| notes.iter().any(|note| note.contains(&left.uid)));
    }

    /// Time has passed.
    pub fn wait(&mut self, now: u64) {
        self.left.retain(|left| now < left.until);
    }

    /// How much of each card runs for shares, by what the API says of pods and what is left.
    pub fn in_use(&self, api: &Api) -> BTreeMap<String, u64> {
        let is_share = |pod: &&Value| !text(pod, "/spec/nodeName").is_empty() && !has_ended(pod);
        let pods = api.pods().filter(is_share).map(cards_of);
        let all = pods.chain(self.left.iter().map(|left| left.cards.as_str()));
        let mut sums = BTreeMap::new();
        for part in all.flat_map(|cards| cards.split(',')).filter(|part| !part.is_empty()) {
            if let Some((card, bytes)) = part.split_once(':') {
                *sums.entry(card.to_owned()).or_default() += bytes.parse().unwrap_or(u64::MAX / 64);
            }
        }
        sums
    }
}
