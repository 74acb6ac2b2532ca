//! A whole cluster in memory: what users, kubelets and a network that loses things do, and the
//! scheduler between them. No card is ever over-packed or given away under a share, through lost
//! answers, late writes, restarts and lists; and when all is quiet, nothing that fits waits.

pub(super) mod api;
pub(super) mod classes;
mod disturbances;
mod kubelet;

use crate::input::Input;
use api::{Api, Done, Fate, kind_of, path_of, pod_path};
use divvy_cluster::probe::{Live, Server, Write, watches};
use divvy_engine::Tape;
use divvy_words::isolation::Isolation;
use divvy_words::{keys, reservation};
use kubelet::{CARD, Kubelets, cards_of, has_ended, text};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many steps are enough for anything.
const MOST_STEPS: usize = 200;

/// The nodes: plenty of all but cards.
const NODES: [Shape; 2] = [
    Shape { name: "n1", cards: 2, cpu: "32", pods: 110, is_provided: true },
    Shape { name: "n2", cards: 1, cpu: "32", pods: 110, is_provided: false },
];

/// What a node has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) cards: usize,
    pub(super) cpu: &'static str,
    pub(super) pods: usize,
    /// Whether an isolation provider was installed there.
    pub(super) is_provided: bool,
}

impl Shape {
    fn path(&self) -> String {
        format!("/api/v1/nodes/{}", self.name)
    }

    /// The node, while its device plugin hands out so many cards.
    fn node(&self, usable: usize) -> Value {
        let node = json!({
            "metadata": { "name": self.name, "labels": {
                keys::LABEL_GPU_COUNT: self.cards.to_string(),
                keys::LABEL_GPU_MEMORY: (CARD >> 20).to_string(),
            } },
            "spec": {},
            "status": { "allocatable": {
                "cpu": self.cpu, "memory": "64Gi", "pods": self.pods.to_string(),
                keys::GPU: usable.to_string(),
            } },
        });
        if self.is_provided { classes::provided(node) } else { node }
    }
}

/// Steps of a cluster that make sense.
pub fn clusters(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let Ok(mut world) = World::new(&NODES, true, classes::told_apart(bytes)) else { return };
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.check();
    }
    if std::env::var("STORY").is_ok() {
        println!("{}\n=====", world.story());
    }
    world.come_to_rest();
    world.check_replay();
}

pub(super) struct World {
    api: Arc<Mutex<Api>>,
    nodes: Vec<Shape>,
    kubelets: Kubelets,
    pub(super) live: Live,
    writes: Vec<Write>,
    /// Whether cards are handed to containers: else nobody says which they are.
    hand_off: bool,
    /// What isolates shares, if levels are told apart.
    isolation: Option<Isolation>,
    now: u64,
    /// How many pods were made.
    made: usize,
    /// Whether somebody else ended a reservation: then the device plugin may give its card away.
    meddled: bool,
    pub(super) steps: Vec<String>,
}

fn server(api: &Arc<Mutex<Api>>) -> Server {
    let api = Arc::clone(api);
    Arc::new(move |asked| lock(&api).answer(asked))
}

fn lock(api: &Mutex<Api>) -> MutexGuard<'_, Api> {
    api.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(super) fn new(
        nodes: &[Shape],
        hand_off: bool,
        isolation: Option<Isolation>,
    ) -> std::io::Result<Self> {
        let api = Arc::new(Mutex::new(Api::default()));
        let mut kubelets = Kubelets::default();
        for shape in nodes {
            for index in 0..shape.cards {
                let card = format!("GPU-{}-{index}", shape.name);
                kubelets.cards.insert(card, (shape.name.to_owned(), None));
            }
            lock(&api).put(&shape.path(), shape.node(shape.cards));
        }
        let live = Live::new(hand_off, isolation.clone(), server(&api))?;
        let (writes, now, made, meddled) = (Vec::new(), 0, 0, false);
        let (nodes, steps) = (nodes.to_vec(), Vec::new());
        let mut world = Self {
            api,
            nodes,
            kubelets,
            live,
            writes,
            hand_off,
            isolation,
            now,
            made,
            meddled,
            steps,
        };
        world.list_all();
        Ok(world)
    }

    /// Tells of everything anew.
    pub(super) fn list_all(&mut self) {
        for watch in watches().filter(|watch| *watch != "pods") {
            let all = lock(&self.api).list(watch);
            self.live.list(watch, &all);
        }
        let pods = lock(&self.api).list("pods");
        self.live.list("pods", &pods);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = match input.below(18) {
            0..3 => self.create(input),
            3..6 => self.hear(input),
            6..9 => self.perform(input),
            9 | 10 => self.start(input),
            11 => self.end(input),
            12 => self.delete(input),
            13 => {
                self.kubelets.reap(&lock(&self.api));
                "reap".to_owned()
            }
            14 => {
                let seconds = input.pick(&[1, 6, 31, 41, 61]);
                self.wait(seconds);
                format!("wait {seconds}")
            }
            _ => self.disturb(input),
        };
        self.steps.push(what);
        self.pass();
    }

    /// Puts a pod there.
    pub(super) fn put(&mut self, pod: Value) {
        lock(&self.api).put(&path_of(&pod), pod);
    }

    /// Puts a pod there that is bound, and starts it if its node has the cards that it asks for.
    pub(super) fn run(&mut self, pod: Value) {
        self.kubelets.start(&mut lock(&self.api), pod, 0);
    }

    /// Changes a node, which is heard of at once.
    pub(super) fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let path = format!("/api/v1/nodes/{name}");
        let mut api = lock(&self.api);
        let Some(mut node) = api.objects.get(&path).cloned() else { return };
        change(&mut node);
        api.put(&path, node);
        let lines = api.hear("nodes", usize::MAX);
        drop(api);
        self.live.hear("nodes", lines.as_bytes());
    }

    /// Has the device plugin of a node hand out each card so often.
    pub(super) fn slice_time(&mut self, name: &str, times: usize) {
        let cards: Vec<String> = self
            .kubelets
            .cards
            .iter()
            .filter(|(_, (at, _))| at == name)
            .map(|c| c.0.clone())
            .collect();
        for card in &cards {
            self.kubelets.cards.remove(card);
            let slices = (0..times).map(|nth| format!("{card}::{nth}"));
            self.kubelets.cards.extend(slices.map(|id| (id, (name.to_owned(), None))));
        }
        self.change_node(name, |node| {
            node["metadata"]["labels"][keys::LABEL_GPU_REPLICAS] = json!(times.to_string());
            node["status"]["allocatable"][keys::GPU] = json!((cards.len() * times).to_string());
        });
    }

    /// Puts a claim and its volume there, which are heard of at once.
    pub(super) fn store(&mut self, claim: Value, volume: Value) {
        for (watch, path, object) in [
            ("persistentvolumeclaims", "/api/v1/namespaces/ml/persistentvolumeclaims/c", claim),
            ("persistentvolumes", "/api/v1/persistentvolumes/v", volume),
        ] {
            lock(&self.api).put(path, object);
            let all = lock(&self.api).list(watch);
            self.live.list(watch, &all);
        }
    }

    /// All objects, as a list.
    pub(super) fn objects(&self) -> String {
        let api = lock(&self.api);
        let items: Vec<Value> = api
            .objects
            .iter()
            .map(|(path, object)| {
                let mut object = object.clone();
                object["apiVersion"] = json!("v1");
                object["kind"] = json!(kind_of(path));
                object
            })
            .collect();
        json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
    }

    pub(super) fn pass(&mut self) {
        for write in self.live.pass() {
            if write.is_relist() {
                let pods = lock(&self.api).list("pods");
                self.live.list("pods", &pods);
            } else {
                self.writes.push(write);
            }
        }
    }

    fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        self.kubelets.wait(self.now);
        self.live.wait(Duration::from_secs(seconds));
    }

    fn create(&mut self, input: &mut Input<'_>) -> String {
        self.made += 1;
        let name = format!("p{}", if input.once_in(6) { 0 } else { self.made });
        let path = pod_path("ml", &name);
        if lock(&self.api).objects.contains_key(&path) {
            return "nothing".to_owned();
        }
        let mut pod = json!({
            "metadata": { "namespace": "ml", "name": name, "annotations": {}, "labels": {},
                "creationTimestamp": "2027-01-15T08:00:00Z" },
            "spec": { "schedulerName": "divvy-scheduler", "containers": [{ "name": "c" }] },
            "status": { "phase": "Pending" },
        });
        let asked = input.pick(&["0.5", "0.3", "0.75", "0.5x2", "1", "2"]);
        let mut level = "";
        match asked {
            "1" | "2" => {
                let limits = json!({ "limits": { keys::GPU: asked } });
                pod["spec"]["containers"][0]["resources"] = limits;
            }
            _ => {
                let (fraction, cards) = asked.split_once('x').unwrap_or((asked, "1"));
                pod["metadata"]["annotations"] =
                    json!({ keys::GPU_FRACTION: fraction, keys::FRACTION_DEVICES: cards });
                pod["spec"]["containers"][0]["env"] = hand_off_variables();
                if self.isolation.is_some() {
                    level = input.pick(&classes::LEVELS);
                    classes::label(level, &mut pod);
                }
            }
        }
        lock(&self.api).put(&path, pod);
        format!("create {name} {asked} {level}")
    }

    pub(super) fn hear(&mut self, input: &mut Input<'_>) -> String {
        let watch = if input.once_in(6) { "nodes" } else { "pods" };
        let lines = lock(&self.api).hear(watch, 1 + input.below(6));
        self.live.hear(watch, lines.as_bytes());
        format!("hear {}", lines.lines().map(brief).collect::<Vec<_>>().join(", "))
    }

    fn perform(&mut self, input: &mut Input<'_>) -> String {
        const FATES: [Fate; 8] = [
            Fate::Well,
            Fate::Well,
            Fate::Well,
            Fate::Lost,
            Fate::Unheard,
            Fate::Late,
            Fate::Refused(403),
            Fate::Refused(500),
        ];
        let fates = [input.pick(&FATES), input.pick(&FATES)];
        self.perform_one(input, fates)
    }

    /// Does one of the writes that are to be done.
    pub(super) fn perform_one(&mut self, input: &mut Input<'_>, fates: [Fate; 2]) -> String {
        if self.writes.is_empty() {
            return "nothing".to_owned();
        }
        let write = self.writes.remove(input.below(self.writes.len()));
        let what = format!("perform {write:?} {fates:?}");
        lock(&self.api).fates = fates.into();
        self.live.perform(write);
        lock(&self.api).fates.clear();
        what
    }

    /// One of the pods for which this holds.
    fn pod(&self, input: &mut Input<'_>, is: impl Fn(&Value) -> bool) -> Option<Value> {
        let api = lock(&self.api);
        let pods: Vec<&Value> = api.pods().filter(|pod| is(pod)).collect();
        (!pods.is_empty()).then(|| input.pick(&pods).clone())
    }

    pub(super) fn start(&mut self, input: &mut Input<'_>) -> String {
        let is_new = |pod: &Value| {
            !text(pod, "/spec/nodeName").is_empty() && text(pod, "/status/phase") == "Pending"
        };
        let Some(pod) = self.pod(input, is_new) else { return "nothing".to_owned() };
        let what = format!("start {}", path_of(&pod));
        let first = input.below(4);
        self.kubelets.start(&mut lock(&self.api), pod, first);
        what
    }

    pub(super) fn end(&mut self, input: &mut Input<'_>) -> String {
        let runs = |pod: &Value| text(pod, "/status/phase") == "Running" && !is_reservation(pod);
        let Some(mut pod) = self.pod(input, runs) else { return "nothing".to_owned() };
        pod["status"]["phase"] = json!("Succeeded");
        let path = path_of(&pod);
        lock(&self.api).put(&path, pod);
        format!("end {path}")
    }

    /// Deletes a pod: at once if nothing runs of it, else when its kubelet is done, or by force.
    fn delete(&mut self, input: &mut Input<'_>) -> String {
        let Some(mut pod) = self.pod(input, |pod| !is_reservation(pod)) else {
            return "nothing".to_owned();
        };
        let (path, mut api) = (path_of(&pod), lock(&self.api));
        let is_ending = pod["metadata"]["deletionTimestamp"].is_string();
        let runs = !text(&pod, "/spec/nodeName").is_empty() && !has_ended(&pod);
        let by_force = input.once_in(3);
        if runs && by_force {
            api.remove(&path);
            self.kubelets.leave(&pod, self.now);
        } else if runs && !is_ending {
            pod["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
            api.put(&path, pod);
        } else {
            api.remove(&path);
        }
        format!("delete {path} by force: {by_force}")
    }

    pub(super) fn story(&self) -> String {
        self.steps.join("\n")
    }

    pub(super) fn check(&mut self) {
        assert_eq!(self.live.scheduler().ledger().audit(), Ok(()), "{}", self.story());
        let done = std::mem::take(&mut lock(&self.api).done);
        if !self.hand_off {
            return;
        }
        let api = lock(&self.api);
        let in_use = self.kubelets.in_use(&api);
        for (card, bytes) in &in_use {
            assert!(*bytes <= CARD, "{card} is over-packed: {bytes}\n{}", self.story());
        }
        if self.isolation.is_some() {
            for (card, classes) in classes::on_cards(&api, &self.kubelets.left) {
                assert!(classes.len() == 1, "{card} has {classes:?}\n{}", self.story());
            }
        }
        for done in done {
            if let Done::Bound(pod) = &done
                && self.isolation.is_some()
            {
                assert!(classes::is_granted(pod), "{pod}\n{}", self.story());
            }
            match done {
                Done::Bound(pod) if !self.meddled => self.check_held(&api, &pod),
                // One that has ended holds nothing that it could give back.
                Done::Returned(pod) if !has_ended(&pod) => {
                    let uid = text(&pod, "/metadata/uid");
                    let cards = self.kubelets.cards.iter();
                    let mut its = cards.filter(|(_, (_, owner))| owner.as_deref() == Some(uid));
                    let used = its.find(|(card, _)| in_use.contains_key(*card));
                    let left = &self.kubelets.left;
                    let is_left = |card: &str| left.iter().any(|left| left.cards.contains(card));
                    assert!(
                        used.is_none_or(|(card, _)| is_left(card)),
                        "{used:?} is given back while it is shared\n{}",
                        self.story()
                    );
                }
                Done::Bound(_) | Done::Returned(_) => {}
            }
        }
    }

    /// The cards of a share that was bound are each held by a reservation on its node.
    fn check_held(&self, api: &Api, pod: &Value) {
        for part in cards_of(pod).split(',').filter(|part| !part.is_empty()) {
            let card = part.split_once(':').map_or(part, |(card, _)| card);
            let found = self.kubelets.cards.get(card);
            let holder = found.and_then(|(_, owner)| owner.as_deref());
            let holds =
                |pod: &Value| is_reservation(pod) && Some(text(pod, "/metadata/uid")) == holder;
            assert_eq!(found.map(|(node, _)| &**node), pod["spec"]["nodeName"].as_str());
            assert!(api.pods().any(holds), "nobody holds {card} of {pod}\n{}", self.story());
        }
    }

    /// Lets all that is under way end, and time pass: then nothing waits that fits.
    fn come_to_rest(&mut self) {
        self.restore();
        self.calm_down(60);
        self.check_waiting();
    }

    /// Lets all that is under way end, at once.
    pub(super) fn finish(&mut self) {
        lock(&self.api).late.clear();
        let mut rounds = 0;
        while !self.writes.is_empty() || !lock(&self.api).is_heard() {
            rounds += 1;
            assert!(rounds < 100, "{:?} and no end\n{}", self.writes, self.story());
            for watch in ["nodes", "pods"] {
                let lines = lock(&self.api).hear(watch, usize::MAX);
                self.live.hear(watch, lines.as_bytes());
                self.steps.extend(lines.lines().map(brief));
            }
            self.pass();
            for write in std::mem::take(&mut self.writes) {
                self.steps.push(format!("perform {write:?}"));
                self.live.perform(write);
            }
            self.start_all();
            self.pass();
            self.check();
        }
    }

    /// Lets all that is under way end, and so often 7 s pass.
    pub(super) fn calm_down(&mut self, times: usize) {
        for _ in 0..times {
            self.finish();
            self.steps.push("wait 7, settling".to_owned());
            self.wait(7);
            self.kubelets.reap(&lock(&self.api));
            self.pass();
        }
    }

    fn start_all(&mut self) {
        let mut api = lock(&self.api);
        let ending = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_string();
        let paths: Vec<String> = api.pods().filter(ending).map(path_of).collect();
        paths.iter().for_each(|path| {
            api.remove(path);
        });
        self.kubelets.reap(&api);
        let is_new = |pod: &&Value| {
            !text(pod, "/spec/nodeName").is_empty() && text(pod, "/status/phase") == "Pending"
        };
        let pods: Vec<Value> = api.pods().filter(is_new).cloned().collect();
        for pod in pods {
            self.kubelets.start(&mut api, pod, 0);
        }
    }

    /// What the scheduler was told alone makes it decide what it decided: nothing changes it but
    /// events.
    pub(super) fn check_replay(&self) {
        let live = self.live.scheduler();
        let replayed = live.tape().map(Tape::replay);
        let ledger = replayed.map(|tape| tape.map(|then| then.ledger() == live.ledger()));
        assert_eq!(ledger, Some(Ok(true)), "{}", self.story());
    }

    fn check_waiting(&self) {
        let api = lock(&self.api);
        let in_use = self.kubelets.in_use(&api);
        let is_alive = |pod: &&Value| is_reservation(pod) && !has_ended(pod);
        let holders: Vec<&str> =
            api.pods().filter(is_alive).map(|pod| text(pod, "/metadata/uid")).collect();
        let is_held =
            |owner: &Option<String>| owner.as_deref().is_some_and(|owner| holders.contains(&owner));
        // Where a shared card was given to somebody else, some cards cannot be told apart.
        let is_astray = |card: &str, owner| in_use.contains_key(card) && !is_held(owner);
        let on_cards = classes::on_cards(&api, &self.kubelets.left);
        let cards = self.kubelets.cards.iter();
        let astray = cards.clone().filter(|(card, (_, owner))| is_astray(card, owner));
        let astray: Vec<&str> = astray.map(|(_, (node, _))| &**node).collect();
        let waits = |pod: &&Value| text(pod, "/spec/nodeName").is_empty() && !has_ended(pod);
        for pod in api.pods().filter(waits) {
            let fraction = pod["metadata"]["annotations"][keys::GPU_FRACTION].as_str();
            let single = pod["metadata"]["annotations"][keys::FRACTION_DEVICES] == "1";
            let wanted = match fraction {
                Some(fraction) if single => fraction.parse::<f64>().unwrap_or(1.0),
                _ => continue,
            };
            let class = self.isolation.as_ref().map(|_| classes::wanted(pod));
            if class.is_some() && classes::waits_for_ever(pod) {
                continue;
            }
            let takes = |node: &str, card: &str| {
                let is_provided =
                    self.nodes.iter().any(|shape| shape.name == node && shape.is_provided);
                let mut there = on_cards.get(card).into_iter().flatten();
                class.is_none_or(|class| {
                    there.all(|it| it == class) && (class == "Shared" || is_provided)
                })
            };
            let fits = |(card, (node, owner)): &(&String, &(String, Option<String>))| {
                let used = in_use.get(*card).copied().unwrap_or(0);
                let has_room = used > 0 && (CARD - used) as f64 >= wanted * CARD as f64;
                let is_likely = !astray.contains(&&**node) && takes(node, card);
                is_likely && (owner.is_none() || has_room)
            };
            let place = cards.clone().find(fits);
            assert!(place.is_none(), "{pod} waits, and fits on {place:?}\n{}", self.story());
        }
    }
}

/// What admission gives the containers of a share.
pub(super) fn hand_off_variables() -> Value {
    let variable = |(name, annotation): &(&str, &str)| {
        let path = format!("metadata.annotations['{annotation}']");
        json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
    };
    keys::HAND_OFF_VARIABLES.iter().map(variable).collect()
}

/// What a line of a watch says, for people.
fn brief(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    let (kind, object) = (text(&line, "/type"), &line["object"]);
    let of = |pointer| text(object, pointer);
    let (name, version) = (of("/metadata/name"), of("/metadata/resourceVersion"));
    let (phase, node, cards) = (of("/status/phase"), of("/spec/nodeName"), cards_of(object));
    format!("{kind} {name} v{version} {phase} {node} {cards}")
}

pub(super) fn is_reservation(pod: &Value) -> bool {
    text(pod, "/metadata/namespace") == reservation::NAMESPACE
}
