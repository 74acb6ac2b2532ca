//! What is allowed, by asking every pod about every other one, as the rules are written down.

use super::common;
use super::steps::{LabelsDef, PodDef, Step};
use divvy_engine::*;
use divvy_ledger::{Gpus, MilliCpu};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A term before its namespaces are filled in.
#[derive(Clone, Debug)]
pub struct TermDef {
    pub namespaces: Option<Vec<u8>>,
    pub selector: Option<Selector>,
    pub pods: Selector,
    pub topology: &'static str,
}

pub type SpreadDef = Spread;

const ROOM: u64 = 6;

#[derive(Clone)]
struct PodModel {
    def: PodDef,
    node: Option<String>,
    terminating: bool,
}

#[derive(Default)]
pub struct Model {
    nodes: BTreeMap<String, NodeRecord>,
    pods: BTreeMap<ObjectKey, PodModel>,
    namespaces: BTreeMap<String, Labels>,
}

fn namespace(n: u8) -> String {
    format!("ns{}", n % 3)
}

fn key(n: u8) -> ObjectKey {
    ObjectKey::new(&namespace(n), &format!("p{n:02}"))
}

fn labels((app, tier): LabelsDef) -> Labels {
    let app = app.map(|v| ("app", v.to_string()));
    app.into_iter().chain(tier.map(|v| ("tier", v.to_string()))).collect()
}

impl TermDef {
    fn namespaces(&self, own: &str) -> Vec<String> {
        match (&self.namespaces, &self.selector) {
            (None, None) => vec![own.to_owned()],
            (names, _) => names.iter().flatten().map(|n| namespace(*n)).collect(),
        }
    }

    fn build(&self, own: &str) -> PodTerm {
        let selector = self.selector.clone().unwrap_or(Selector::NOTHING);
        let pods = PodSelector::new(self.namespaces(own), selector, self.pods.clone());
        PodTerm { pods, topology: self.topology.into() }
    }
}

fn label<'a>(node: &'a NodeRecord, key: &str) -> Option<&'a str> {
    node.facts.labels.iter().find(|(k, _)| **k == *key).map(|(_, v)| &**v)
}

impl Model {
    /// Enters a step and says it in events.
    pub fn enter(&mut self, step: &Step) -> Vec<Event> {
        match step {
            Step::Node(n, zone, rack, kind) => {
                let record = node(*n, *zone, *rack, *kind);
                self.nodes.insert(record.name.clone(), record.clone());
                vec![Event::Node(Box::new(record))]
            }
            Step::NodeGone(n) => {
                self.nodes.remove(&format!("n{n}"));
                vec![Event::NodeGone(format!("n{n}"))]
            }
            Step::Pod(def) => {
                let key = key(def.number);
                if self.pods.get(&key).is_some_and(|pod| pod.node.is_some()) {
                    return vec![];
                }
                let pod = PodModel { def: (**def).clone(), node: None, terminating: false };
                self.pods.insert(key.clone(), pod);
                vec![Event::Pod(Box::new(self.record(&key)))]
            }
            Step::PodGone(n) => {
                self.pods.remove(&key(*n));
                vec![Event::PodGone(key(*n))]
            }
            Step::Relabel(n, labels, terminating) => {
                let key = key(*n);
                let Some(pod) = self.pods.get_mut(&key) else { return vec![] };
                // News of a pod whose node is gone makes it stray; that is another story.
                if pod.node.as_ref().is_some_and(|node| !self.nodes.contains_key(node)) {
                    return vec![];
                }
                pod.def.labels = *labels;
                pod.terminating = *terminating && pod.node.is_some();
                vec![Event::Pod(Box::new(self.record(&key)))]
            }
            Step::Namespace(n, team) => {
                let name = namespace(*n);
                match team {
                    None => {
                        self.namespaces.remove(&name);
                        vec![Event::NamespaceGone(name.into())]
                    }
                    Some(is_x) => {
                        let team = is_x.then_some(("team", "x"));
                        let labels: Labels = team.into_iter().collect();
                        self.namespaces.insert(name.clone(), labels.clone());
                        vec![Event::Namespace { name: name.into(), labels }]
                    }
                }
            }
            Step::Pass => vec![],
        }
    }

    /// All that is there, in another order than it came.
    pub fn snapshot(&self) -> Vec<Event> {
        let held = self.pods.keys().filter(|key| self.pods[*key].node.is_some());
        let held = held.rev().map(|key| Event::Pod(Box::new(self.record(key))));
        let nodes = self.nodes.values().rev().map(|n| Event::Node(Box::new(n.clone())));
        let namespaces = self.namespaces.iter().map(|(name, labels)| Event::Namespace {
            name: name.as_str().into(),
            labels: labels.clone(),
        });
        held.chain(nodes).chain(namespaces).collect()
    }

    pub fn place(&mut self, pod: &ObjectKey, node: &str) {
        self.pods.get_mut(pod).unwrap().node = Some(node.to_owned());
    }

    pub fn waiting(&self) -> Vec<ObjectKey> {
        let waiting = self.pods.iter().filter(|(_, pod)| pod.node.is_none());
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// A pod as an edge would hand it in.
    pub fn record(&self, key: &ObjectKey) -> PodRecord {
        let PodModel { def, node, terminating } = &self.pods[key];
        let own = key.namespace();
        let build = |terms: &[TermDef]| terms.iter().map(|t| t.build(own)).collect::<Vec<_>>();
        let relations = Relations {
            ports: def.ports.clone(),
            affinity: build(&def.affinity),
            anti_affinity: build(&def.anti_affinity),
            preferred: def.preferred.iter().map(|(w, t)| (*w, t.build(own))).collect(),
            spread: def.spread.clone(),
            ..Relations::default()
        };
        let mut rules = Rules::default();
        if def.pool {
            rules.selector.push(("pool".into(), "ml".into()));
        }
        if def.tolerates {
            rules.tolerations.push(Toleration { key: None, value: None, effect: None });
        }
        let spec = PodSpec {
            labels: Arc::new(labels(def.labels)),
            relations: (relations != Relations::default()).then(|| Arc::new(relations)),
            rules: rules.into(),
            ..common::cpu(def.cpu)
        };
        let bound = node.as_ref().map(|node| Bound {
            terminating: *terminating,
            ..Bound::new(node.as_str(), BoundCards::Nothing)
        });
        PodRecord {
            key: key.clone(),
            priority: def.priority,
            nominated: def.nominated.map(|n| format!("n{n}").into()),
            bound,
            ..common::pod("", spec)
        }
    }

    /// Where a pod may go.
    pub fn feasible(&self, pod: &ObjectKey) -> Vec<String> {
        let all = self.nodes.keys();
        all.filter(|node| self.allows(pod, &self.nodes[*node])).cloned().collect()
    }

    /// Pods with a place on a node that is there.
    fn placed(&self) -> impl Iterator<Item = (&ObjectKey, &PodModel, &NodeRecord)> {
        self.pods
            .iter()
            .filter_map(|(key, pod)| Some((key, pod, self.nodes.get(pod.node.as_ref()?)?)))
    }

    fn allows(&self, key: &ObjectKey, node: &NodeRecord) -> bool {
        let pod = &self.pods[key];
        self.has_room(pod, node)
            && self.has_ports(pod, node)
            && self.admits(pod, node)
            && (pod.def.tolerates || node.facts.taints.is_empty())
            && self.affinity(key, pod, node)
            && self.anti_affinity(key, pod, node)
            && self.spread(key, pod, node)
    }

    fn has_room(&self, pod: &PodModel, node: &NodeRecord) -> bool {
        let here = self.placed().filter(|(_, _, at)| at.name == node.name);
        here.map(|(_, other, _)| other.def.cpu).sum::<u64>() + pod.def.cpu <= ROOM
    }

    fn has_ports(&self, pod: &PodModel, node: &NodeRecord) -> bool {
        let here = self.placed().filter(|(_, _, at)| at.name == node.name);
        let taken: Vec<&HostPort> = here.flat_map(|(_, other, _)| &other.def.ports).collect();
        pod.def.ports.iter().all(|own| {
            let same = |other: &&&HostPort| {
                own.port == other.port
                    && own.protocol == other.protocol
                    && (own.ip == other.ip || own.ip.is_none() || other.ip.is_none())
            };
            !taken.iter().any(|other| same(&other))
        })
    }

    fn admits(&self, pod: &PodModel, node: &NodeRecord) -> bool {
        !pod.def.pool || label(node, "pool") == Some("ml")
    }

    /// Whether a term of `owner` means a pod. `asks` if the owner is the pod that is placed.
    fn means(&self, term: &TermDef, owner: &ObjectKey, pod: &ObjectKey, asks: bool) -> bool {
        let namespace = pod.namespace();
        let everything = term.selector.as_ref().is_some_and(Selector::is_everything);
        let by_labels =
            term.selector.as_ref().is_some_and(|selector| match self.namespaces.get(namespace) {
                Some(labels) => selector.matches(labels),
                None => !asks && selector.matches(&Labels::default()),
            });
        let by_name = term.namespaces(owner.namespace()).iter().any(|n| n == namespace);
        (by_name || everything || by_labels)
            && term.pods.matches(&labels(self.pods[pod].def.labels))
    }

    fn affinity(&self, key: &ObjectKey, pod: &PodModel, node: &NodeRecord) -> bool {
        let terms = &pod.def.affinity;
        let meets = |other: &ObjectKey| terms.iter().all(|t| self.means(t, key, other, true));
        let met: Vec<&NodeRecord> =
            self.placed().filter(|(other, _, _)| meets(other)).map(|(_, _, at)| at).collect();
        let domains: BTreeSet<(&str, &str)> = met
            .iter()
            .flat_map(|at| terms.iter().filter_map(|t| Some((t.topology, label(at, t.topology)?))))
            .collect();
        let has_labels = terms.iter().all(|t| label(node, t.topology).is_some());
        let near = |t: &TermDef| {
            label(node, t.topology).is_some_and(|value| domains.contains(&(t.topology, value)))
        };
        has_labels && (terms.iter().all(near) || domains.is_empty() && meets(key))
    }

    fn anti_affinity(&self, key: &ObjectKey, pod: &PodModel, node: &NodeRecord) -> bool {
        let near = |topology: &str, at: &NodeRecord| {
            label(at, topology).is_some() && label(at, topology) == label(node, topology)
        };
        self.placed().all(|(other, with, at)| {
            let own = pod.def.anti_affinity.iter();
            let theirs = with.def.anti_affinity.iter();
            !own.into_iter().any(|t| near(t.topology, at) && self.means(t, key, other, true))
                && !theirs
                    .into_iter()
                    .any(|t| near(t.topology, at) && self.means(t, other, key, false))
        })
    }

    fn spread(&self, key: &ObjectKey, pod: &PodModel, node: &NodeRecord) -> bool {
        let required: Vec<&Spread> = pod.def.spread.iter().filter(|s| s.required).collect();
        required.iter().all(|constraint| {
            let Some(domain) = label(node, &constraint.topology) else { return false };
            let counts_for = |at: &NodeRecord| {
                required.iter().all(|s| label(at, &s.topology).is_some())
                    && (!constraint.honor_affinity || self.admits(pod, at))
                    && (!constraint.honor_taints || pod.def.tolerates || at.facts.taints.is_empty())
            };
            let mut domains: BTreeMap<&str, u32> = BTreeMap::new();
            for at in self.nodes.values().filter(|at| counts_for(at)) {
                domains.entry(label(at, &constraint.topology).unwrap()).or_default();
            }
            for (other, with, at) in self.placed() {
                let is_meant = !constraint.selector.is_everything()
                    && constraint.selector.matches(&labels(with.def.labels))
                    && other.namespace() == key.namespace()
                    && !with.terminating;
                if is_meant && counts_for(at) {
                    *domains.get_mut(label(at, &constraint.topology).unwrap()).unwrap() += 1;
                }
            }
            let enough = domains.len() >= constraint.min_domains as usize;
            let least = domains.values().min().copied().filter(|_| enough).unwrap_or(0);
            let own = u32::from(constraint.selector.matches(&labels(pod.def.labels)));
            domains.get(domain).copied().unwrap_or(0) + own <= least + constraint.max_skew
        })
    }
}

fn node(n: u8, zone: Option<u8>, rack: Option<u8>, kind: u8) -> NodeRecord {
    let mut record = common::node(&format!("n{n}"), Gpus::none());
    record.cpu = MilliCpu(ROOM);
    let zone = zone.map(|z| ("zone".into(), format!("z{z}").into()));
    let rack = rack.map(|r| ("rack".into(), format!("r{r}").into()));
    let pool = (kind == 1).then(|| ("pool".into(), "ml".into()));
    let host = Some(("host".into(), format!("n{n}").into()));
    record.facts.labels = [host, pool, rack, zone].into_iter().flatten().collect();
    if kind == 2 {
        let taint = Taint { key: "t".into(), value: "".into(), effect: Effect::NoSchedule };
        record.facts.taints = vec![taint];
    }
    record
}
