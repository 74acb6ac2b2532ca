//! An API server in memory, as far as the scheduler's writes go: versions, preconditions, and news
//! that wait to be heard.

use divvy_cluster::probe::{Answered, Requested};
use divvy_words::reservation;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered.
    Well,
    /// It never arrives.
    Lost,
    /// It is done, and the answer never arrives.
    Unheard,
    /// It is done some time later, and the answer never arrives.
    Late,
    /// It is refused with this status.
    Refused(u16),
}

/// The objects by path, and what was not heard of them yet.
#[derive(Default)]
pub struct Api {
    pub objects: BTreeMap<String, Value>,
    version: u64,
    /// Lines of watches by their names.
    news: BTreeMap<&'static str, VecDeque<String>>,
    /// What becomes of the next requests; then all is well.
    pub fates: VecDeque<Fate>,
    /// Requests that arrive later.
    pub late: Vec<Requested>,
    /// Bindings and deletions that were done since somebody looked.
    pub done: Vec<Done>,
}

/// A write that something must hold for.
#[derive(Clone, Debug)]
pub enum Done {
    /// This pod was bound.
    Bound(Value),
    /// This reservation was deleted.
    Returned(Value),
}

pub fn pod_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

pub fn path_of(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    pod_path(&text("namespace"), &text("name"))
}

/// The watch of an object, and its kind.
const KINDS: [(&str, &str); 4] = [
    ("pods", "Pod"),
    ("nodes", "Node"),
    ("persistentvolumeclaims", "PersistentVolumeClaim"),
    ("persistentvolumes", "PersistentVolume"),
];

fn kind_at(path: &str) -> (&'static str, &'static str) {
    let plural = path.rsplit('/').nth(1).unwrap_or_default();
    KINDS.into_iter().find(|(watch, _)| *watch == plural).unwrap_or(KINDS[0])
}

fn watch_of(path: &str) -> &'static str {
    kind_at(path).0
}

pub fn kind_of(path: &str) -> &'static str {
    kind_at(path).1
}

impl Api {
    pub fn pods(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|(path, _)| watch_of(path) == "pods").map(|(_, pod)| pod)
    }

    /// Puts an object there, new or changed.
    pub fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("u{}", self.version));
        }
        let is_new = !self.objects.contains_key(path);
        let kind = if is_new { "ADDED" } else { "MODIFIED" };
        self.tell(path, kind, &object);
        self.objects.insert(path.to_owned(), object);
    }

    pub fn remove(&mut self, path: &str) -> Option<Value> {
        let mut object = self.objects.remove(path)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell(path, "DELETED", &object);
        Some(object)
    }

    fn tell(&mut self, path: &str, kind: &str, object: &Value) {
        let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        self.news.entry(watch_of(path)).or_default().push_back(line);
    }

    /// The next lines of a watch, in their order.
    pub fn hear(&mut self, watch: &str, count: usize) -> String {
        let news = self.news.get_mut(watch);
        news.map(|news| news.drain(..count.min(news.len())).collect()).unwrap_or_default()
    }

    /// Everything of a watch, as it is now.
    pub fn list(&mut self, watch: &str) -> Vec<String> {
        if let Some(news) = self.news.get_mut(watch) {
            news.clear();
        }
        let all = self.objects.iter().filter(|(path, _)| watch_of(path) == watch);
        all.map(|(_, object)| object.to_string()).collect()
    }

    pub fn is_heard(&self) -> bool {
        self.news.values().all(VecDeque::is_empty)
    }

    /// Answers a request, as its fate is.
    pub fn answer(&mut self, asked: Requested) -> Answered {
        match self.fates.pop_front().unwrap_or(Fate::Well) {
            Fate::Well => Some(self.perform(&asked)),
            Fate::Lost => None,
            Fate::Unheard => {
                self.perform(&asked);
                None
            }
            Fate::Late => {
                self.late.push(asked);
                None
            }
            Fate::Refused(status) => Some((status, b"{\"message\":\"no\"}".to_vec())),
        }
    }

    /// Does what a request asks.
    pub fn perform(&mut self, asked: &Requested) -> (u16, Vec<u8>) {
        let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let path = asked.path.as_str();
        let found = match asked.method.as_str() {
            "GET" => self.objects.get(path).cloned().ok_or(404),
            "POST" if path.ends_with("/events") => Ok(json!({})),
            "POST" => match path.strip_suffix("/binding") {
                Some(pod) => self.bind(pod, &body),
                None => self.create(&body),
            },
            "PATCH" => self.patch(path.strip_suffix("/status").unwrap_or(path), &body),
            "DELETE" => self.delete(path, &body),
            _ => Err(405),
        };
        match found {
            Ok(object) => (200, object.to_string().into_bytes()),
            Err(status) => (status, b"{\"message\":\"so it is\"}".to_vec()),
        }
    }

    fn create(&mut self, body: &Value) -> Result<Value, u16> {
        let path = path_of(body);
        if self.objects.contains_key(&path) {
            return Err(409);
        }
        let mut pod = body.clone();
        pod["status"] = json!({ "phase": "Pending" });
        self.put(&path, pod);
        self.objects.get(&path).cloned().ok_or(500)
    }

    fn bind(&mut self, path: &str, body: &Value) -> Result<Value, u16> {
        let mut pod = self.objects.get(path).cloned().ok_or(404u16)?;
        let is_as = |field: &str| pod["metadata"][field] == body["metadata"][field];
        let is_bound = pod["spec"]["nodeName"].is_string();
        let is_ending = pod["metadata"]["deletionTimestamp"].is_string();
        if !is_as("uid") || !is_as("resourceVersion") || is_bound || is_ending {
            return Err(409);
        }
        merge(&mut pod["metadata"]["annotations"], &body["metadata"]["annotations"]);
        merge(&mut pod["metadata"]["labels"], &body["metadata"]["labels"]);
        pod["spec"]["nodeName"] = body["target"]["name"].clone();
        self.put(path, pod);
        self.done.extend(self.objects.get(path).cloned().map(Done::Bound));
        Ok(json!({}))
    }

    fn patch(&mut self, path: &str, body: &Value) -> Result<Value, u16> {
        let mut object = self.objects.get(path).cloned().ok_or(404u16)?;
        for field in ["uid", "resourceVersion"] {
            let wanted = &body["metadata"][field];
            if !wanted.is_null() && object["metadata"][field] != *wanted {
                return Err(409);
            }
        }
        merge(&mut object["metadata"]["annotations"], &body["metadata"]["annotations"]);
        merge(&mut object["metadata"]["labels"], &body["metadata"]["labels"]);
        if body["spec"]["taints"].is_array() {
            object["spec"]["taints"] = body["spec"]["taints"].clone();
        }
        for condition in body["status"]["conditions"].as_array().into_iter().flatten() {
            let mut all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.retain(|known| known["type"] != condition["type"]);
            all.push(condition.clone());
            object["status"]["conditions"] = json!(all);
        }
        self.put(path, object);
        self.objects.get(path).cloned().ok_or(500)
    }

    fn delete(&mut self, path: &str, body: &Value) -> Result<Value, u16> {
        let found = self.objects.get(path).ok_or(404u16)?;
        let uid = &body["preconditions"]["uid"];
        if !uid.is_null() && found["metadata"]["uid"] != *uid {
            return Err(409);
        }
        let gone = self.remove(path).ok_or(404u16)?;
        if gone["metadata"]["namespace"] == reservation::NAMESPACE {
            self.done.push(Done::Returned(gone));
        }
        Ok(json!({}))
    }
}

/// Merges members; `null` removes one.
fn merge(into: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        match (value.is_null(), into.as_object_mut()) {
            (true, Some(members)) => {
                members.remove(key);
            }
            (true, None) => {}
            (false, _) => into[key] = value.clone(),
        }
    }
}
