//! What goes wrong now and then: lists, late writes, another process, nodes and device plugins that
//! go and come back, reservations that others end.

use super::api::path_of;
use super::kubelet::{has_ended, text};
use super::{Shape, World, is_reservation, lock, server};
use crate::input::Input;
use divvy_cluster::probe::Live;
use serde_json::{Value, json};
use std::time::Duration;

impl World {
    pub(super) fn disturb(&mut self, input: &mut Input<'_>) -> String {
        match input.below(8) {
            0 => {
                let watch = input.pick(&["pods", "nodes"]);
                let all = lock(&self.api).list(watch);
                self.live.list(watch, &all);
                format!("list {watch}")
            }
            1 => {
                let asked = lock(&self.api).late.pop();
                let status = asked.map(|asked| lock(&self.api).perform(&asked).0);
                format!("late: {status:?}")
            }
            2 => self.restart(input),
            3 => self.meddle(input),
            4 => self.fail(input),
            5 => self.turn_node(input),
            6 => self.turn_plugin(input),
            _ => self.collect(),
        }
    }

    /// Somebody deletes a reservation.
    fn meddle(&mut self, input: &mut Input<'_>) -> String {
        let Some(pod) = self.pod(input, is_reservation) else { return "nothing".to_owned() };
        self.meddled = true;
        lock(&self.api).remove(&path_of(&pod));
        format!("meddle with {}", path_of(&pod))
    }

    /// The kubelet refuses a reservation, or ends it.
    fn fail(&mut self, input: &mut Input<'_>) -> String {
        let is_alive = |pod: &Value| is_reservation(pod) && !has_ended(pod);
        let Some(mut pod) = self.pod(input, is_alive) else { return "nothing".to_owned() };
        // Before it has begun it has no card that could be lost.
        self.meddled |= text(&pod, "/status/phase") == "Running";
        let reason = input.pick(&["UnexpectedAdmissionError", "Evicted"]);
        pod["status"] = json!({ "phase": "Failed", "reason": reason });
        let path = path_of(&pod);
        lock(&self.api).put(&path, pod);
        format!("fail {path}: {reason}")
    }

    /// A node goes out of the API, while its machine runs on, or comes back.
    fn turn_node(&mut self, input: &mut Input<'_>) -> String {
        let shape = input.pick(&self.nodes);
        if lock(&self.api).remove(&shape.path()).is_some() {
            return format!("remove {}", shape.name);
        }
        self.tell(&shape);
        format!("bring {} back", shape.name)
    }

    /// A device plugin goes, or comes back.
    fn turn_plugin(&mut self, input: &mut Input<'_>) -> String {
        let shape = input.pick(&self.nodes);
        let goes = self.kubelets.bare.insert(shape.name);
        if !goes {
            self.kubelets.bare.remove(shape.name);
        }
        if lock(&self.api).objects.contains_key(&shape.path()) {
            self.tell(&shape);
        }
        format!("device plugin of {} goes: {goes}", shape.name)
    }

    /// A kubelet says what its node has.
    fn tell(&self, shape: &Shape) {
        let usable = if self.kubelets.bare.contains(shape.name) { 0 } else { shape.cards };
        let (path, mut api) = (shape.path(), lock(&self.api));
        let mut node = shape.node(usable);
        if let Some(known) = api.objects.get(&path) {
            let status = std::mem::take(&mut node["status"]["allocatable"]);
            node = known.clone();
            node["status"]["allocatable"] = status;
        }
        api.put(&path, node);
    }

    /// All nodes and device plugins come back.
    pub(super) fn restore(&mut self) {
        for shape in self.nodes.clone() {
            let is_there = lock(&self.api).objects.contains_key(&shape.path());
            if self.kubelets.bare.remove(shape.name) || !is_there {
                self.steps.push(format!("restore {}", shape.name));
                self.tell(&shape);
            }
        }
    }

    /// The garbage collector takes the pods away whose nodes are gone. Their containers run on.
    fn collect(&mut self) -> String {
        let mut api = lock(&self.api);
        let is_there = |node: &str| api.objects.contains_key(&format!("/api/v1/nodes/{node}"));
        let is_orphan = |pod: &&Value| {
            let node = text(pod, "/spec/nodeName");
            !node.is_empty() && !is_there(node)
        };
        let orphans: Vec<Value> = api.pods().filter(is_orphan).cloned().collect();
        for mut pod in orphans.clone() {
            let path = path_of(&pod);
            if !has_ended(&pod) {
                self.meddled |= is_reservation(&pod);
                self.kubelets.leave(&pod, self.now);
                pod["status"]["phase"] = json!("Failed");
                pod["status"]["conditions"] = json!([{
                    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                }]);
                api.put(&path, pod);
            }
            api.remove(&path);
        }
        format!("collect {:?}", orphans.iter().map(path_of).collect::<Vec<_>>())
    }

    /// Another process takes over, once all that was under way is done or cannot be any more.
    fn restart(&mut self, input: &mut Input<'_>) -> String {
        let late = std::mem::take(&mut lock(&self.api).late);
        for asked in late {
            if input.once_in(2) {
                lock(&self.api).perform(&asked);
            }
        }
        let Ok(live) = Live::new(true, self.isolation.clone(), server(&self.api)) else {
            return "nothing".to_owned();
        };
        self.live = live;
        self.writes.clear();
        self.kubelets.forget_unwritten(&lock(&self.api));
        // Its clock begins anew, as the model's does.
        self.live.wait(Duration::from_secs(self.now));
        self.list_all();
        "restart".to_owned()
    }
}
