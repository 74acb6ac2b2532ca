//! A cluster and a workload, brought into a scheduler of their own.

use crate::adopt::{self, CardNames, NamedCards, OwnWord};
use crate::expand::{Expansion, MadePods};
use crate::fill::OneMore;
use crate::input::{Input, InputError, MAX_PODS};
use crate::left_out::{made_by_reference, makes_no_pods, nothing_to_place};
use crate::made_by::MadeBy;
use crate::partition::{BeforeConfigs, ConfigOutcome, Configs, DisplacedDevices, Log, in_force};
use crate::quota::{self, Quotas};
use crate::storage::Storage;
use crate::what_if::{self, WhatIf};
use crate::{EMBEDDED_CLUSTER, Progress};
use divvy_engine::{
    Bound, BoundCards, Bounds, Config, Event, ObjectKey, PlanEffect, PodRecord, PodSpec, Problem,
    Scheduler,
};
use divvy_ledger::{Holder, Intake, Known, NodeId};
use divvy_lint::{LintFinding, NamedText};
use divvy_words::isolation::Isolation;
use divvy_words::manifest::PodStatus;
use divvy_words::{
    Content, Entry, Kind, Metadata, Object, OtherSchedulers, PodGroups, PodRules, Priorities,
    cards, keys, namespace_of,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// What to rehearse.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The cluster, or the embedded one.
    pub cluster: Option<Input>,
    /// The workload.
    pub workload: Vec<Input>,
    /// Instead of the number of pods that the workload's manifests say.
    pub replicas: Option<u32>,
    /// The namespace of the workload's objects that name none.
    pub namespace: Option<String>,
    /// Which names of schedulers are divvy's.
    pub schedulers: Vec<String>,
    /// How to place.
    pub config: Config,
    /// Whether reservations keep shared cards, so that they can be handed to containers; as it is
    /// seen in the cluster if nobody says, and if nothing is to be seen, they do.
    pub gpu_sharing: Option<bool>,
    /// Who enforces which level of isolation; `None` if levels are not told apart.
    pub isolation: Option<Isolation>,
    /// Levels are told apart where the records of the cluster do, also without `isolation`: to look at
    /// it, not to place there.
    pub recorded_levels: bool,
    /// Nodes and the configs that they would get of those in the workload.
    pub partitions: Vec<(String, String)>,
    /// Other nodes than there are.
    pub node_changes: Vec<WhatIf>,
    /// Where the pods of kinds stand that divvy does not know by itself.
    pub pod_rules: PodRules,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cluster: None,
            workload: Vec::new(),
            replicas: None,
            namespace: None,
            schedulers: keys::SCHEDULER_NAMES.map(str::to_owned).to_vec(),
            config: Config::default(),
            gpu_sharing: None,
            isolation: None,
            recorded_levels: false,
            partitions: Vec::new(),
            node_changes: Vec::new(),
            pod_rules: PodRules::built_in().unwrap_or_default(),
        }
    }
}

/// The real engine on a copy of a cluster.
#[derive(Debug)]
pub struct Rehearsal {
    /// The engine.
    pub scheduler: Scheduler,
    /// The pods to place, in the order of the input.
    pub pods: Vec<ObjectKey>,
    /// What more pods of the workload's objects would be, in the order of the input.
    pub templates: Vec<OneMore>,
    /// Those that were placed, in the order of their turns.
    pub placed: Vec<ObjectKey>,
    /// Which controller makes which pods.
    pub made_by: MadeBy,
    /// Kinds of the workload that make no pods, and how many there are of each.
    pub ignored: BTreeMap<String, usize>,
    /// Pods that have ended and hold nothing.
    pub ended: BTreeSet<ObjectKey>,
    /// Pods of the cluster that another scheduler places, and its name.
    pub others: BTreeMap<ObjectKey, Box<str>>,
    /// The schedulers of other projects that run in the cluster: their pods are left to them.
    pub running: OtherSchedulers,
    /// What configs of the workload make of the nodes.
    pub partitions: Vec<ConfigOutcome>,
    /// What bound pods hold that the nodes would not have then.
    pub displaced: Vec<DisplacedDevices>,
    /// What was not as it should be, in sentences.
    pub warnings: Vec<String>,
    /// Mistakes in the workload that the API would refuse, or accept in silence.
    pub findings: Vec<LintFinding>,
    /// What pods of a namespace may ask together.
    pub(crate) quotas: Quotas,
}

/// What a pod that has ended is called among what is left out.
const ENDED: &str = "Pod that has ended";

/// A rehearsal being put together.
struct Loading<'a> {
    rehearsal: Rehearsal,
    known: HashSet<ObjectKey>,
    bounds: Bounds,
    priorities: Priorities,
    groups: PodGroups,
    storage: Storage,
    schedulers: &'a [String],
    /// Pods that are about to go.
    terminating: BTreeSet<ObjectKey>,
    isolation: Option<&'a Isolation>,
    configs: &'a Configs,
    before: BeforeConfigs,
    /// Pods on nodes that configs change, and why they could not be entered.
    unentered: Vec<(ObjectKey, String)>,
    progress: &'a dyn Progress,
}

impl Rehearsal {
    /// Reads cluster and workload; nothing is placed yet.
    pub fn load(setup: &Setup, progress: &dyn Progress) -> Result<Self, InputError> {
        let embedded;
        let cluster = match &setup.cluster {
            Some(input) => input,
            None => {
                let (name, text) = ("embedded cluster".to_owned(), EMBEDDED_CLUSTER.to_owned());
                embedded = Input { name, text };
                &embedded
            }
        };
        let bytes = |input: &Input| input.text.len() as u64;
        let total = bytes(cluster) + setup.workload.iter().map(bytes).sum::<u64>();
        progress.begin("reading", total);
        let mut warnings = Vec::new();
        let advance = |bytes: usize| progress.advance(bytes as u64);
        let parse = |input: &Input| divvy_words::read(&input.name, &input.text, &advance);
        let cluster_entries = parse(cluster)?;
        let (cluster_entries, moved) =
            what_if::changed(cluster_entries, &setup.node_changes, &mut warnings)?;
        let workload: Vec<Vec<Entry>> =
            setup.workload.iter().map(parse).collect::<Result<_, _>>()?;
        // One empty file in a folder is nothing to stop at; nothing at all is a broken pipeline.
        if let Some(first) = setup.workload.first()
            && workload.iter().all(Vec::is_empty)
        {
            return Err(InputError::Empty { input: first.name.clone() });
        }
        let texts: Vec<NamedText<'_>> =
            setup.workload.iter().map(|Input { name, text }| NamedText { name, text }).collect();
        let findings = divvy_lint::rehearsed(&texts, &workload, &setup.pod_rules);
        let mut workload: Vec<Entry> = workload.into_iter().flatten().collect();
        if let Some(namespace) = &setup.namespace {
            workload.iter_mut().for_each(|entry| name_namespace(entry, namespace));
        }
        let mut priorities = Priorities::default();
        let mut groups = PodGroups::default();
        for entry in cluster_entries.iter().chain(&workload) {
            if let Entry::Object(object) = entry {
                priorities.add(object);
                groups.add(object);
            }
        }
        let configs = Configs::read(&workload, &setup.partitions)?;
        let names = CardNames::seen(&cluster_entries);
        let hand_off = names.hand_off(setup.gpu_sharing);
        let mut rehearsal = Self {
            scheduler: Scheduler::new(Config { hand_off, ..setup.config }),
            pods: Vec::new(),
            templates: Vec::new(),
            placed: Vec::new(),
            made_by: MadeBy::default(),
            ignored: BTreeMap::new(),
            ended: BTreeSet::new(),
            others: BTreeMap::new(),
            running: OtherSchedulers {
                kai: cluster_entries.iter().any(|e| is_pod(e, divvy_words::is_kai_scheduler)),
                koordinator: cluster_entries
                    .iter()
                    .any(|e| is_pod(e, divvy_words::is_koordinator_scheduler)),
            },
            partitions: Vec::new(),
            displaced: Vec::new(),
            warnings,
            findings,
            quotas: Quotas::default(),
        };
        let (storage, events) = Storage::read(&cluster_entries, &workload, &mut rehearsal.warnings);
        let both = cluster_entries.iter().chain(&workload);
        rehearsal.quotas = Quotas::read(both, &mut rehearsal.warnings);
        let known = HashSet::new();
        let terminating = BTreeSet::new();
        let isolation = isolation(setup, &cluster_entries);
        let mut loading = Loading {
            rehearsal,
            known,
            bounds: Bounds::default(),
            priorities,
            groups,
            storage,
            schedulers: &setup.schedulers,
            terminating,
            isolation: isolation.as_ref(),
            configs: &configs,
            before: BeforeConfigs::default(),
            unentered: Vec::new(),
            progress,
        };
        if let Some(isolation) = &isolation {
            loading.apply(Event::Classes(isolation.class_names()));
        }
        loading.nodes(&cluster.name, &cluster_entries, &setup.node_changes)?;
        for event in events {
            loading.apply(Event::Storage(event));
        }
        let objects = cluster_entries.iter().chain(&workload).filter_map(|entry| match entry {
            Entry::Object(object) => Some(object),
            Entry::Malformed { .. } => None,
        });
        for event in divvy_words::namespaces(objects) {
            loading.apply(event);
        }
        loading.cluster_pods(&cluster_entries, &names);
        loading.displaced();
        if !moved.is_empty() {
            loading.workload(&moved, None, &setup.pod_rules)?;
        }
        loading.workload(&workload, setup.replicas, &setup.pod_rules)?;
        let left_out = loading.storage.warning();
        loading.rehearsal.warnings.extend(left_out);
        Ok(loading.rehearsal)
    }

    /// Places what fits.
    pub fn run(&mut self, progress: &dyn Progress) {
        progress.begin("placing", self.pods.len() as u64);
        loop {
            let plan = self.scheduler.pass(1024);
            if plan.units.is_empty() {
                return;
            }
            progress.advance(plan.units.len() as u64);
            self.placed.extend(plan.into_effects().filter_map(|effect| match effect {
                PlanEffect::Bind { pod, .. } => Some(pod),
                _ => None,
            }));
        }
    }
}

/// What is known of cards besides who holds them, by node and index.
type KnownCards = BTreeMap<NodeId, BTreeMap<u32, Known>>;

impl Loading<'_> {
    fn warn(&mut self, text: String) {
        self.rehearsal.warnings.push(text);
    }

    fn apply(&mut self, event: Event) {
        if let Err(problem) = self.rehearsal.scheduler.apply(event) {
            self.warn(problem.to_string());
        }
    }

    /// Tells the engine of a pod, within the bounds of its namespace, as the scheduler does.
    fn enter(&mut self, mut record: PodRecord) -> Result<(), Problem> {
        let scheduler = &mut self.rehearsal.scheduler;
        let matches = scheduler.matches_in(record.key.namespace());
        self.bounds.enter(&mut record, matches);
        scheduler.apply(Event::Pod(Box::new(record)))
    }

    fn nodes(
        &mut self,
        input: &str,
        entries: &[Entry],
        changes: &[WhatIf],
    ) -> Result<(), InputError> {
        let fault = |message| InputError::Node { input: input.to_owned(), message };
        let mut log = Log::default();
        let in_force = in_force(entries, &mut self.rehearsal.warnings);
        for entry in entries {
            match entry {
                Entry::Object(object) if let Content::Node(node) = &object.content => {
                    let named = |why| format!("Node {}: {why}", object.metadata.name);
                    let (mut record, warnings) =
                        divvy_words::node(object).map_err(|why| fault(named(why)))?;
                    let label = object.metadata.labels.get(keys::LABEL_PLUGIN_CONFIG);
                    let mut one_each = in_force.give_one_each(label, &record.gpus);
                    if let Some(changed) = self.configs.change(object, &mut log) {
                        let before = record.gpus;
                        (record, _) =
                            divvy_words::node(&changed.object).map_err(|why| fault(named(why)))?;
                        changed.complete(&mut record.gpus, &before);
                        one_each = false;
                        let after = record.gpus.clone();
                        self.before.node(&record.name, before, after, changed.divided());
                    }
                    if let Some(isolation) = self.isolation {
                        isolation.enter_node(&object.metadata, &mut record);
                    }
                    if self.rehearsal.scheduler.ledger().find(&record.name).is_some() {
                        self.warn(format!(
                            "node {} is given twice: the later one counts",
                            record.name
                        ));
                    }
                    self.rehearsal.warnings.extend(warnings);
                    record.facts.drained = changes.contains(&WhatIf::Drain(record.name.clone()));
                    self.apply(Event::Node(Box::new(record)));
                    if one_each {
                        self.apply(Event::OneEach(object.metadata.name.clone(), true));
                    }
                    let unsettled = divvy_words::is_unsettled(&node.0);
                    let node = object.metadata.name.clone();
                    self.apply(Event::Cards { node, unsettled, cards: Vec::new() });
                }
                Entry::Malformed { kind, name, error, .. } if kind == "Node" => {
                    return Err(fault(format!("Node {name}: {error}")));
                }
                Entry::Object(_) | Entry::Malformed { .. } => {}
            }
        }
        if self.rehearsal.scheduler.node_count() == 0 {
            self.warn(format!("{input} has no Node: the cluster is empty"));
        }
        let ledger = self.rehearsal.scheduler.ledger();
        if let Some((node, config)) =
            self.configs.asked_nodes().find(|(node, _)| ledger.find(node).is_none())
        {
            let why = format!("--partition {node}={config}: the cluster has no such node");
            return Err(InputError::Config(why));
        }
        self.rehearsal.partitions = log.finish(self.configs);
        Ok(())
    }

    /// Says what pods hold that is not there any more, once.
    fn displaced(&mut self) {
        let (displaced, whose) = std::mem::take(&mut self.before).finish();
        self.rehearsal.displaced = displaced;
        let others = std::mem::take(&mut self.unentered).into_iter();
        let others = others.filter(|(pod, _)| !whose.contains(pod)).map(|(_, problem)| problem);
        self.rehearsal.warnings.extend(others);
    }

    /// What the API server hands out always names a scheduler; what a person wrote waits for us.
    fn is_ours(&self, scheduler: &str) -> bool {
        scheduler.is_empty() || self.rehearsal.running.is_ours(scheduler, self.schedulers)
    }

    /// Bound pods take what they hold; the others wait like the workload does.
    fn cluster_pods(&mut self, entries: &[Entry], names: &CardNames) {
        let mut named: Vec<(PodRecord, String, Vec<String>)> = Vec::new();
        let mut closed: Vec<(ObjectKey, Intake)> = Vec::new();
        let mut loose: Vec<(PodRecord, String)> = Vec::new();
        // The cards of pods that nobody records, as the kubelet tells.
        let mut whole: Vec<(ObjectKey, Vec<String>)> = Vec::new();
        let mut waiting: Vec<PodRecord> = Vec::new();
        for entry in entries {
            let object = match entry {
                Entry::Object(object) => object,
                Entry::Malformed { kind, namespace, name, node, scheduler, error } => {
                    let record = malformed(namespace, name, error);
                    match Kind::of(kind, "") {
                        Some(Kind::Pod) if !node.is_empty() => self.hold_unread(record, node),
                        Some(Kind::Pod) => {
                            self.warn(format!("pod {} cannot be read: {error}", record.key));
                            waiting.extend(Some(record).filter(|_| self.is_ours(scheduler)));
                        }
                        Some(Kind::PriorityClass) => self.warn(bad_class(name, error)),
                        _ => {}
                    }
                    continue;
                }
            };
            let Content::Pod(spec, status) = &object.content else { continue };
            let mut record =
                divvy_words::pod(&object.metadata, spec, Some(status), None, &self.priorities);
            if spec.node_name.is_empty() {
                self.groups.refuse(&object.metadata, spec, &mut record);
            }
            match self.isolation {
                Some(isolation) if spec.node_name.is_empty() => {
                    isolation.enter_pod(&object.metadata, &mut record);
                }
                Some(isolation) => isolation.enter_bound(&object.metadata, &mut record.spec),
                None => {}
            }
            if status.has_ended() {
                // A node that configs change is another one than that which refused.
                let node = &spec.node_name;
                if status.is_refused_several() && !self.before.has(node) {
                    self.apply(Event::OneEach(node.clone(), true));
                }
                self.rehearsal.ended.insert(record.key);
                continue;
            }
            self.rehearsal.made_by.enter_owned(&object.metadata, &record.key);
            self.rehearsal.quotas.count(&record);
            let scheduler = &*spec.scheduler_name;
            let is_ours = self.is_ours(scheduler);
            if !is_ours {
                self.rehearsal.others.insert(record.key.clone(), scheduler.into());
            }
            let Some(node) = bound_node(&mut record) else {
                if is_ours && object.metadata.deletion_timestamp.is_empty() {
                    waiting.push(record);
                }
                continue;
            };
            if !object.metadata.deletion_timestamp.is_empty() {
                self.terminating.insert(record.key.clone());
            }
            if status.has_slice_as_gpu() {
                self.apply(Event::Divided((&*node).into()));
            }
            let devices = status.devices_on();
            record.bound = Some(Bound { devices, ..Bound::new(&*node, BoundCards::Nothing) });
            if !self.known.insert(record.key.clone()) {
                let key = &record.key;
                self.warn(format!("pod {key} is twice in the cluster: the later one counts"));
            }
            let cluster = &self.rehearsal.scheduler;
            let place = (&*node, is_ours || scheduler == keys::KAI_SCHEDULER);
            let word = adopt::own_word(&object.metadata, &mut record, place, cluster, names);
            if !adopt::is_reservation(&object.metadata) {
                let cards = names.held(&node, &word, status);
                self.before.pod(&node, &record.key, &record.spec.request, cards);
            }
            match word {
                OwnWord::Named(cards) => {
                    if record.spec.holder == Holder::Keeper {
                        for ghost in adopt::ghosts(&object.metadata, self.isolation) {
                            self.terminating.insert(ghost.key.clone());
                            named.push((ghost, node.clone(), cards.clone()));
                        }
                        let intake = adopt::intake(&object.metadata, status);
                        closed.push((record.key.clone(), intake));
                    } else if cards.len() == 1 {
                        // Of several nobody says which it is about.
                        closed.push((record.key.clone(), adopt::trouble(status)));
                    }
                    named.push((record, node, cards));
                }
                OwnWord::Cards(BoundCards::Choose) => {
                    let told: BTreeSet<&str> = status.devices().collect();
                    whole.push((record.key.clone(), told.into_iter().map(str::to_owned).collect()));
                    loose.push((record, node));
                }
                OwnWord::Cards(cards) => self.hold(record, node, cards),
                OwnWord::Unrecorded => {
                    self.warn(format!("pod {} on {node}: {}", record.key, cards::UNRECORDED));
                    self.hold(record, node, BoundCards::Nothing);
                }
                OwnWord::Unreadable(why) => {
                    let key = &record.key;
                    self.warn(format!("pod {key}: {why}; no GPU is given on {node}"));
                    self.hold(record, node, BoundCards::Unknown);
                }
            }
        }
        // Names get cards that nobody's record has by index, and the rest what is left.
        let mut cards_of = NamedCards::default();
        for (record, node, names) in named {
            let cluster = &self.rehearsal.scheduler;
            let cards = cards_of.of(cluster, &record.spec, &node, &names);
            self.hold(record, node, cards);
        }
        let mut known = self.known_cards(&closed, &cards_of, names);
        self.tell_cards(&known);
        loose.sort_by(|(a, _), (b, _)| (a.created, &a.key).cmp(&(b.created, &b.key)));
        for (record, node) in loose {
            self.hold(record, node, BoundCards::Choose);
        }
        for (key, told) in whole {
            let Some(held) = self.rehearsal.scheduler.holding(&key) else { continue };
            let Some(node) = self.rehearsal.scheduler.ledger().node(held.node) else { continue };
            // Of fewer nobody says which is which.
            if held.cards.len() == told.len() {
                for (card, uuid) in held.cards.iter().zip(&told) {
                    let of_node = known.entry(held.node).or_default();
                    of_node.entry(card.index).or_default().name = names.card(node.name(), uuid);
                }
            }
        }
        self.tell_cards(&known);
        for mut record in waiting {
            self.storage.prune(&mut record, false);
            self.add(record);
        }
    }

    /// A bound pod that cannot be read may have any card of its node.
    fn hold_unread(&mut self, mut record: PodRecord, node: &str) {
        let (key, error) = (&record.key, record.invalid.take().unwrap_or_default());
        let text = format!("pod {key} cannot be read, so no GPU is given on {node}: {error}");
        self.known.insert(key.clone());
        self.warn(text);
        self.hold(record, node.to_owned(), BoundCards::Unknown);
    }

    /// Why the cards of these pods take nobody new, and which cards those with names are.
    fn known_cards(
        &self,
        pods: &[(ObjectKey, Intake)],
        named: &NamedCards,
        names: &CardNames,
    ) -> KnownCards {
        let (cluster, mut known) = (&self.rehearsal.scheduler, KnownCards::new());
        for (key, intake) in pods {
            let Some(held) = cluster.holding(key) else { continue };
            for index in held.cards.iter().map(|card| card.index).chain(held.keeps) {
                let known = known.entry(held.node).or_default().entry(index).or_default();
                known.intake = known.intake.and(*intake);
            }
        }
        for (node, name, index) in named.iter() {
            if let Some(id) = cluster.ledger().find(node) {
                known.entry(id).or_default().entry(index).or_default().name =
                    names.card(node, name);
            }
        }
        known
    }

    fn tell_cards(&mut self, known: &KnownCards) {
        for (id, cards) in known {
            let Some(node) = self.rehearsal.scheduler.ledger().node(*id) else { continue };
            let (node, unsettled) = ((&**node.name()).into(), node.is_unsettled());
            let cards = cards.iter().map(|(index, known)| (*index, known.clone())).collect();
            self.apply(Event::Cards { node, unsettled, cards });
        }
    }

    fn hold(&mut self, mut record: PodRecord, node: String, cards: BoundCards) {
        let devices = record.bound.take().map(|bound| bound.devices).unwrap_or_default();
        let terminating = self.terminating.contains(&record.key);
        let (key, is_changed) = (record.key.clone(), self.before.has(&node));
        record.bound = Some(Bound { terminating, devices, ..Bound::new(node, cards) });
        match self.enter(record) {
            Err(problem) if is_changed => self.unentered.push((key, problem.to_string())),
            Err(problem) => self.warn(problem.to_string()),
            Ok(()) => {}
        }
    }

    fn workload(
        &mut self,
        entries: &[Entry],
        replicas: Option<u32>,
        rules: &PodRules,
    ) -> Result<(), InputError> {
        let owners = entries.iter().filter_map(|entry| identity(entry, rules));
        let owners: BTreeSet<(&str, &str, &str)> = owners.collect();
        let Rehearsal { scheduler: cluster, ignored, pods: waiting, .. } = &mut self.rehearsal;
        let priorities = &self.priorities;
        let groups = &self.groups;
        let isolation = self.isolation;
        let expansion = Expansion { priorities, groups, replicas, cluster, isolation };
        let mut unknown_classes = BTreeSet::new();
        let mut batches: Vec<(&str, MadePods)> = Vec::new();
        let mut makers: Vec<(usize, &Object)> = Vec::new();
        let mut classes = Vec::new();
        let mut none_made = Vec::new();
        for entry in entries {
            let object = match entry {
                Entry::Object(object) => object,
                Entry::Malformed { kind, namespace, name, error, .. } => {
                    match Kind::of(kind, "") {
                        Some(Kind::Pod | Kind::Workload) => {
                            let pod = malformed(namespace, name, error);
                            batches.push((kind, MadePods::Each(vec![pod])));
                        }
                        Some(Kind::PriorityClass) => classes.push(bad_class(name, error)),
                        _ => *ignored.entry(kind.clone()).or_default() += 1,
                    }
                    continue;
                }
            };
            if is_made_by_another(object, &owners) {
                continue;
            }
            let spec = match &object.content {
                Content::Pod(_, status) if status.has_ended() => {
                    *ignored.entry(ENDED.to_owned()).or_default() += 1;
                    continue;
                }
                Content::Pod(spec, _) => &**spec,
                Content::Workload(workload) => &workload.template.spec,
                Content::Foreign(spec) if rules.knows(&object.kind, &object.api_version) => {
                    let found = rules.pods(&object.kind, &object.api_version, spec);
                    match found.unwrap_or_else(|| Ok(Vec::new())) {
                        Err(why) => {
                            let Metadata { namespace, name, .. } = &object.metadata;
                            let pods = MadePods::Each(vec![malformed(namespace, name, &why)]);
                            batches.push((&object.kind, pods));
                        }
                        Ok(found) => {
                            let mut makes = 0;
                            for part in &found {
                                let pods = expansion.found(object, part);
                                makes += pods.len();
                                makers.push((batches.len(), object));
                                batches.push((&object.kind, pods));
                                unknown_classes.extend(
                                    priorities.unknown(&part.template.spec).map(str::to_owned),
                                );
                            }
                            if makes == 0 && replicas != Some(0) {
                                none_made.push(makes_no_pods(object, rules));
                            }
                        }
                    }
                    continue;
                }
                // Read already, for the pods that they are about.
                Content::Foreign(_) if quota::is_quota(object) => continue,
                Content::Namespace | Content::PodGroup(_) | Content::PriorityClass { .. } => {
                    continue;
                }
                Content::ConfigMap(_) | Content::ClusterPolicy(_) if self.configs.has(object) => {
                    continue;
                }
                Content::Storage(..) if self.storage.is_known() => continue,
                _ => {
                    none_made.extend(made_by_reference(object));
                    *ignored.entry(object.kind.to_string()).or_default() += 1;
                    continue;
                }
            };
            let Some(pods) = expansion.pods(object) else { continue };
            let is_asked = replicas == Some(0) && &*object.kind != "DaemonSet";
            if pods.len() == 0 && !is_asked {
                none_made.push(makes_no_pods(object, rules));
            }
            makers.push((batches.len(), object));
            batches.push((&object.kind, pods));
            unknown_classes.extend(priorities.unknown(spec).map(str::to_owned));
        }
        let has_ended = ignored.contains_key(ENDED);
        let is_about_others = !waiting.is_empty() || !self.configs.is_empty();
        if batches.is_empty() && !entries.is_empty() && !has_ended && !is_about_others {
            return Err(nothing_to_place(entries));
        }
        if ignored.contains_key("Node") {
            none_made.push("nodes are read from --cluster, not from -f".to_owned());
        }
        self.rehearsal.warnings.extend(none_made);
        self.rehearsal.warnings.extend(classes);
        for class in unknown_classes {
            self.warn(format!(
                "priority class {class} is not in the input: its pods have priority 0; \
                 give the PriorityClass with -f or in the cluster"
            ));
        }
        let pods: usize = batches.iter().map(|(_, pods)| pods.len()).sum();
        if pods > MAX_PODS {
            return Err(InputError::TooMany { pods });
        }
        self.progress.begin("preparing", pods as u64);
        let mut makers = makers.into_iter().peekable();
        for (at, (kind, batch)) in batches.into_iter().enumerate() {
            if let Some(mut record) = batch.template() {
                self.storage.leave_out(&mut record, true);
                self.rehearsal.templates.push(OneMore { kind: kind.into(), record });
            }
            let renamed = batch.are_named_here();
            let maker = makers.next_if(|(of, _)| *of == at).map(|(_, object)| object);
            for mut record in batch.into_records() {
                if renamed {
                    record.key = self.unused(record.key);
                }
                match maker {
                    Some(Object { metadata, content: Content::Pod(..), .. }) => {
                        self.rehearsal.made_by.enter_owned(metadata, &record.key);
                    }
                    Some(object) => self.rehearsal.made_by.enter_made(object, &record.key),
                    None => {}
                }
                self.storage.prune(&mut record, true);
                if record.invalid.is_none() && !self.known.contains(&record.key) {
                    record.invalid = self.rehearsal.quotas.admit(&record).err();
                }
                self.add(record);
                self.progress.advance(1);
            }
        }
        Ok(())
    }

    /// A name that no other pod has: two controllers of one name make different pods.
    fn unused(&self, key: ObjectKey) -> ObjectKey {
        if !self.known.contains(&key) && !key.name().ends_with('-') {
            return key;
        }
        let (namespace, name) = (key.namespace(), key.name().trim_end_matches('-'));
        let mut others = (0..).map(|i| ObjectKey::new(namespace, &format!("{name}-{i}")));
        others.find(|other| !self.known.contains(other)).unwrap_or(key)
    }

    /// Puts a pod into the queue.
    fn add(&mut self, record: PodRecord) {
        let key = record.key.clone();
        // What is given to be placed is ours to place.
        self.rehearsal.others.remove(&key);
        if let Some(holding) = self.rehearsal.scheduler.holding(&key) {
            let node = self.rehearsal.scheduler.ledger().node(holding.node);
            let node = node.map_or_else(String::new, |n| n.name().to_string());
            self.warn(format!("pod {key} is already in the cluster, on {node}: not placed again"));
            return;
        }
        if self.known.insert(key.clone()) {
            self.rehearsal.pods.push(key);
        } else {
            self.warn(format!("pod {key} is given twice: the later one counts"));
        }
        if let Err(problem) = self.enter(record) {
            self.warn(problem.to_string());
        }
    }
}

/// The node that a pod is bound to; it is no rule any more then.
fn bound_node(record: &mut PodRecord) -> Option<String> {
    record.spec.rules.node_name.as_ref()?;
    Arc::make_mut(&mut record.spec.rules).node_name.take().map(String::from)
}

/// Kind, namespace and name.
fn identity<'e>(entry: &'e Entry, rules: &PodRules) -> Option<(&'e str, &'e str, &'e str)> {
    match entry {
        Entry::Object(Object { kind, api_version, metadata, content: Content::Foreign(_) }) => {
            rules
                .knows(kind, api_version)
                .then(|| (&**kind, namespace_of(&metadata.namespace), &*metadata.name))
        }
        Entry::Object(Object { kind, metadata, content: Content::Workload(_), .. }) => {
            Some((kind, namespace_of(&metadata.namespace), &metadata.name))
        }
        _ => None,
    }
}

/// A ReplicaSet beside its Deployment, or a Pod beside its Job: its owner makes it already.
fn is_made_by_another(object: &Object, owners: &BTreeSet<(&str, &str, &str)>) -> bool {
    let namespace = namespace_of(&object.metadata.namespace);
    let makes = |owner: &str| match object.content {
        Content::Pod(..) => true,
        _ if Kind::of(owner, "") != Some(Kind::Workload) => true,
        _ => &*object.kind == "ReplicaSet" && owner == "Deployment",
    };
    let references = object.metadata.owner_references.iter().filter(|r| r.controller);
    let mut makers = references.filter(|r| makes(&r.kind));
    makers.any(|r| owners.contains(&(&*r.kind, namespace, &*r.name)))
}

/// Who isolates shares: the table, and where records count the providers that they name. The scheduler
/// knows the table alone, and so does whoever rehearses what it does.
fn isolation(setup: &Setup, cluster: &[Entry]) -> Option<Isolation> {
    if !setup.recorded_levels {
        return setup.isolation.clone();
    }
    let classes = adopt::recorded_classes(cluster);
    let recorded = || (!classes.is_empty()).then(Isolation::default);
    let table = setup.isolation.clone().or_else(recorded)?;
    Some(table.and_recorded(classes.iter().map(String::as_str)))
}

/// Whether it is such a pod.
fn is_pod(entry: &Entry, is: fn(&Metadata, &PodStatus) -> bool) -> bool {
    let Entry::Object(Object { metadata, content: Content::Pod(_, status), .. }) = entry else {
        return false;
    };
    is(metadata, status)
}

/// Puts an object that names no namespace into this one.
fn name_namespace(entry: &mut Entry, name: &str) {
    match entry {
        Entry::Object(object) if object.metadata.namespace.is_empty() => {
            object.metadata.namespace = name.into();
        }
        Entry::Malformed { namespace, .. } if namespace.is_empty() => name.clone_into(namespace),
        Entry::Object(_) | Entry::Malformed { .. } => {}
    }
}

fn bad_class(name: &str, error: &str) -> String {
    format!("PriorityClass {name} cannot be read, so its pods have priority 0: {error}")
}

/// A pod that cannot be read, with what is wrong as its reason.
fn malformed(namespace: &str, name: &str, error: &str) -> PodRecord {
    let name = if name.is_empty() { "unnamed" } else { name };
    PodRecord {
        key: ObjectKey::new(namespace_of(namespace), name),
        uid: Box::default(),
        priority: 0,
        created: i64::MAX,
        spec: PodSpec::default(),
        invalid: Some(error.to_owned()),
        ..PodRecord::default()
    }
}
