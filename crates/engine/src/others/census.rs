//! Which pods are where, counted by what other pods' relations ask about them.
//!
//! ```text
//!   pod ─► label set: namespace + labels, shared by all pods that have the same
//!            │ matches (found once, when either is new)
//!            ▼
//!          selection: pods that a selector means, counted by node
//!            ▲
//!   pod ─► relation set: its relations, each term resolved to its selection
//!            └─► owned term: a term that held pods have, its owners counted by node
//! ```
//!
//! A pod that comes or goes changes the counts of its label set's selections and of its own owned terms on one
//! node. A question about relations reads the counts and never looks at pods one by one.

mod index;
mod question;
mod relation_sets;
mod selections;
mod trace;
mod wake;

pub(crate) use relation_sets::{OwnedTermId, RelationSet, RelationSetId, owned_terms};
pub(crate) use trace::CensusTrace;
pub(crate) use wake::Departures;

use crate::labels::Labels;
use crate::record::PodRecord;
use crate::relations::{HostPort, Relations};
use crate::slab::Slab;
use divvy_ledger::{NodeId, PodId};
use foldhash::HashMap;
use index::{ByLabel, Index};
use relation_sets::OwnedTerm;
use selections::{Selection, SelectionId, SelectionKey};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many, by node.
pub(crate) type Counts = HashMap<NodeId, u32>;

/// Ports that are taken and by whom, by node and number.
pub(crate) type Ports = HashMap<NodeId, TakenPorts>;

/// Ports of a node that are taken and by whom, by number.
pub(crate) type TakenPorts = HashMap<u16, Vec<(HostPort, PodId)>>;

/// Pods of one namespace with the same labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LabelSetId(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct NamespaceId(u32);

/// Which pods a selection counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sense {
    /// Those that can meet an affinity: not those with no more than a nomination.
    Meets,
    /// All, for anti-affinity.
    Bars,
    /// Those that stay, for topology spread.
    Spreads,
    /// None: it finds the pods that terms of held pods are about.
    Owned,
}

/// How a pod that holds a place counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    pub(crate) terminating: bool,
    pub(crate) nominated: bool,
}

impl Presence {
    pub(crate) fn of(record: &PodRecord) -> Self {
        let bound = record.bound.as_ref();
        Self {
            terminating: bound.is_some_and(|b| b.terminating),
            nominated: bound.is_some_and(|b| b.nominated),
        }
    }

    pub(crate) const fn counts(self, sense: Sense) -> bool {
        match sense {
            Sense::Meets => !self.nominated,
            Sense::Bars => true,
            Sense::Spreads => !self.terminating,
            Sense::Owned => false,
        }
    }
}

/// What a pod is to others, and what others are to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) label_set: LabelSetId,
    pub(crate) relation_set: Option<RelationSetId>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    who: Identity,
    presence: Presence,
    node: Option<NodeId>,
}

/// A pod that holds a place.
pub(crate) struct Placed<'a> {
    pub(crate) id: PodId,
    pub(crate) node: NodeId,
    pub(crate) namespace: &'a str,
    pub(crate) label_set: &'a LabelSet,
    pub(crate) relation_set: Option<&'a RelationSet>,
    pub(crate) presence: Presence,
}

#[derive(Clone, Debug)]
struct Namespace {
    name: Box<str>,
    /// `None` if nobody has told of the namespace.
    labels: Option<Labels>,
    label_sets: BTreeSet<LabelSetId>,
    relation_sets: u32,
    /// How many selections its label sets are in, all together.
    matches: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct LabelSet {
    namespace: NamespaceId,
    pub(crate) labels: Arc<Labels>,
    /// Pods and shapes that are of this label set.
    users: u32,
    /// How many of the users are pods that do not hold a place.
    waiting: u32,
    /// By node: as counted for `Meets`, `Bars` and `Spreads`.
    here: HashMap<NodeId, [u32; 3]>,
    selections: Vec<SelectionId>,
    /// When its namespace's labels last changed what it matches.
    changed: u64,
}

impl LabelSet {
    /// Whether its pods belong to a selection.
    pub(crate) fn is_in(&self, selection: SelectionId) -> bool {
        self.selections.contains(&selection)
    }
}

/// All pods by what their relations are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    members: Vec<Option<Member>>,
    /// The pods of each node.
    here: Vec<Vec<PodId>>,
    namespaces: Vec<Namespace>,
    namespace_ids: HashMap<Box<str>, NamespaceId>,
    vacant_namespaces: Vec<NamespaceId>,
    label_sets: Slab<LabelSet>,
    label_set_ids: HashMap<(NamespaceId, Arc<Labels>), LabelSetId>,
    label_set_index: ByLabel<LabelSetId>,
    selections: Slab<Selection>,
    selection_ids: HashMap<Arc<SelectionKey>, SelectionId>,
    index: Index,
    owned_terms: Slab<OwnedTerm>,
    relation_sets: Slab<RelationSet>,
    relation_set_ids: HashMap<(NamespaceId, Arc<Relations>), RelationSetId>,
    ports: Ports,
    /// Grows with everything that can change an answer.
    clock: u64,
    /// When a node came, went, or changed its labels or taints.
    places: u64,
    /// When a pod last went that had a term about others.
    departed: u64,
    /// Label sets of waiting pods that a term of another pod is about, and that was not so before.
    found: Vec<LabelSetId>,
}

impl Census {
    /// Who a pod is. Counts as one user until [`Census::enroll`] or [`Census::dismiss`].
    pub(crate) fn identify(&mut self, record: &PodRecord) -> Identity {
        let namespace = self.namespace(record.key.namespace());
        let relation_set = record.spec.relations.as_ref().map(|r| self.relation_set(namespace, r));
        let label_set = self.label_set(namespace, &record.spec.labels);
        Identity { label_set, relation_set }
    }

    /// One user less.
    pub(crate) fn dismiss(&mut self, who: Identity) {
        if let Some(relation_set) = who.relation_set {
            self.drop_relation_set(relation_set);
        }
        self.drop_label_set(who.label_set);
    }

    /// One user more.
    pub(crate) fn keep(&mut self, who: Identity) {
        if let Some(relation_set) = who.relation_set.and_then(|id| self.relation_sets.get_mut(id.0))
        {
            relation_set.users += 1;
        }
        if let Some(label_set) = self.label_sets.get_mut(who.label_set.0) {
            label_set.users += 1;
        }
    }

    /// Makes a pod known under its id; it holds no place yet.
    pub(crate) fn enroll(&mut self, pod: PodId, who: Identity, presence: Presence) {
        if self.members.len() <= pod.index() {
            self.members.resize(pod.index() + 1, None);
        }
        self.members[pod.index()] = Some(Member { who, presence, node: None });
        if let Some(label_set) = self.label_sets.get_mut(who.label_set.0) {
            label_set.waiting += 1;
        }
    }

    /// Forgets a pod.
    pub(crate) fn expel(&mut self, pod: PodId) {
        self.leave(pod);
        let Some(member) = self.members.get_mut(pod.index()).and_then(Option::take) else { return };
        if let Some(label_set) = self.label_sets.get_mut(member.who.label_set.0) {
            label_set.waiting -= 1;
        }
        self.dismiss(member.who);
    }

    /// Makes a pod another one in the eyes of others, wherever it is. Takes over the user that
    /// `who` was counted as.
    pub(crate) fn rename(&mut self, pod: PodId, who: Identity, presence: Presence) {
        let Some(Some(member)) = self.members.get(pod.index()).copied() else { return };
        if (member.who, member.presence) == (who, presence) {
            return self.dismiss(who);
        }
        self.expel(pod);
        self.enroll(pod, who, presence);
        if let Some(node) = member.node {
            self.enter(pod, node);
        }
    }

    /// Who the pod with this id is.
    pub(crate) fn identity(&self, pod: PodId) -> Option<Identity> {
        Some(self.members.get(pod.index())?.as_ref()?.who)
    }

    /// The labels of the pod with this id, and whether it is about to go.
    pub(crate) fn look(&self, pod: PodId) -> Option<(&Labels, bool)> {
        let member = self.members.get(pod.index())?.as_ref()?;
        let label_set = self.label_sets.get(member.who.label_set.0)?;
        Some((&label_set.labels, member.presence.terminating))
    }

    /// A pod got a place.
    pub(crate) fn enter(&mut self, pod: PodId, node: NodeId) {
        self.leave(pod);
        let Some(Some(member)) = self.members.get_mut(pod.index()) else { return };
        member.node = Some(node);
        let member = *member;
        if let Some(label_set) = self.label_sets.get_mut(member.who.label_set.0) {
            label_set.waiting -= 1;
        }
        self.count(member, node, true);
        if self.here.len() <= node.index() {
            self.here.resize(node.index() + 1, Vec::new());
        }
        self.here[node.index()].push(pod);
        let relation_set = member.who.relation_set.and_then(|id| self.relation_sets.get(id.0));
        if let Some(relation_set) =
            relation_set.filter(|relation_set| !relation_set.relations.ports.is_empty())
        {
            let taken = self.ports.entry(node).or_default();
            for port in &relation_set.relations.ports {
                taken.entry(port.port).or_default().push((port.clone(), pod));
            }
        }
    }

    /// A pod lost its place.
    pub(crate) fn leave(&mut self, pod: PodId) {
        let Some(Some(member)) = self.members.get_mut(pod.index()) else { return };
        let Some(node) = member.node.take() else { return };
        let member = *member;
        if let Some(label_set) = self.label_sets.get_mut(member.who.label_set.0) {
            label_set.waiting += 1;
        }
        self.count(member, node, false);
        self.here[node.index()].retain(|other| *other != pod);
        let relation_set = member.who.relation_set.and_then(|id| self.relation_sets.get(id.0));
        let ports = relation_set.map_or(&[][..], |relation_set| &relation_set.relations.ports);
        if let Some(taken) = self.ports.get_mut(&node) {
            for port in ports {
                let Some(holders) = taken.get_mut(&port.port) else { continue };
                holders.retain(|(_, holder)| *holder != pod);
                if holders.is_empty() {
                    taken.remove(&port.port);
                }
            }
            if taken.is_empty() {
                self.ports.remove(&node);
            }
        }
    }

    fn count(&mut self, member: Member, node: NodeId, comes: bool) {
        self.clock += 1;
        let now = self.clock;
        let Some(label_set) = self.label_sets.get_mut(member.who.label_set.0) else { return };
        let here = label_set.here.entry(node).or_default();
        for (sense, n) in [Sense::Meets, Sense::Bars, Sense::Spreads].into_iter().zip(&mut *here) {
            let by = u32::from(member.presence.counts(sense));
            *n = if comes { *n + by } else { *n - by };
        }
        if *here == [0; 3] {
            label_set.here.remove(&node);
        }
        for id in &label_set.selections {
            let Some(selection) = self.selections.get_mut(id.0) else { continue };
            if member.presence.counts(selection.key.sense) {
                selection.change(node, 1, comes, now);
            }
        }
        let Some(relation_set) =
            member.who.relation_set.and_then(|id| self.relation_sets.get(id.0))
        else {
            return;
        };
        for owned_term in &relation_set.owned_terms {
            let Some(owned_term) = self.owned_terms.get_mut(owned_term.0) else { continue };
            add(&mut owned_term.owners, node, 1, comes);
            // A mere wish keeps nobody waiting.
            if let (None, Some(selection)) =
                (owned_term.weight, self.selections.get_mut(owned_term.selection.0))
            {
                selection.stamp(comes, now);
                self.departed = if comes { self.departed } else { now };
            }
        }
    }

    fn namespace(&mut self, name: &str) -> NamespaceId {
        if let Some(id) = self.namespace_ids.get(name) {
            return *id;
        }
        let namespace = Namespace {
            name: name.into(),
            labels: None,
            label_sets: BTreeSet::new(),
            relation_sets: 0,
            matches: 0,
        };
        let id = match self.vacant_namespaces.pop() {
            Some(id) => {
                self.namespaces[id.0 as usize] = namespace;
                id
            }
            None => {
                self.namespaces.push(namespace);
                NamespaceId(self.namespaces.len() as u32 - 1)
            }
        };
        self.namespace_ids.insert(name.into(), id);
        id
    }

    /// Forgets a namespace of which nobody tells and in which nobody is.
    fn tidy_namespace(&mut self, id: NamespaceId) {
        let Namespace { name, labels, label_sets, relation_sets, .. } =
            &self.namespaces[id.0 as usize];
        if labels.is_none()
            && label_sets.is_empty()
            && *relation_sets == 0
            && self.namespace_ids.remove(name).is_some()
        {
            self.vacant_namespaces.push(id);
        }
    }

    fn label_set(&mut self, namespace: NamespaceId, labels: &Arc<Labels>) -> LabelSetId {
        if let Some(id) = self.label_set_ids.get(&(namespace, labels.clone())) {
            if let Some(label_set) = self.label_sets.get_mut(id.0) {
                label_set.users += 1;
            }
            return *id;
        }
        let selections = self.selections_of(namespace, labels);
        self.namespaces[namespace.0 as usize].matches += selections.len();
        let id = LabelSetId(self.label_sets.insert(LabelSet {
            namespace,
            labels: labels.clone(),
            users: 1,
            waiting: 0,
            here: HashMap::default(),
            selections,
            changed: 0,
        }));
        self.label_set_ids.insert((namespace, labels.clone()), id);
        for (label, value) in labels.iter() {
            self.label_set_index.insert(label, value, id);
        }
        self.namespaces[namespace.0 as usize].label_sets.insert(id);
        id
    }

    fn drop_label_set(&mut self, id: LabelSetId) {
        let Some(label_set) = self.label_sets.get_mut(id.0) else { return };
        label_set.users -= 1;
        if label_set.users > 0 {
            return;
        }
        let Some(label_set) = self.label_sets.remove(id.0) else { return };
        let namespace = &mut self.namespaces[label_set.namespace.0 as usize];
        namespace.label_sets.remove(&id);
        namespace.matches -= label_set.selections.len();
        for (label, value) in label_set.labels.iter() {
            self.label_set_index.remove(label, value, id);
        }
        self.label_set_ids.remove(&(label_set.namespace, label_set.labels));
        self.tidy_namespace(label_set.namespace);
    }

    /// How often label sets of a namespace and terms about them have found each other, and how many
    /// label sets there are.
    pub(crate) fn matches_in(&self, namespace: &str) -> (usize, usize) {
        let id = self.namespace_ids.get(namespace);
        let of = |id: &NamespaceId| &self.namespaces[id.0 as usize];
        id.map(of).map_or((0, 0), |namespace| (namespace.matches, namespace.label_sets.len()))
    }

    /// Whether a term that some pod has is about pods of this label set.
    pub(crate) fn is_meant(&self, label_set: LabelSetId) -> bool {
        let Some(label_set) = self.label_sets.get(label_set.0) else { return false };
        let mut selections = label_set.selections.iter().filter_map(|id| self.selections.get(id.0));
        selections.any(|selection| selection.key.sense == Sense::Owned)
    }

    /// Label sets of waiting pods that have become the business of other pods' terms.
    pub(crate) fn take_found(&mut self) -> Vec<LabelSetId> {
        std::mem::take(&mut self.found)
    }

    /// The labels of a namespace are these now; `None` if it is gone.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        let id = self.namespace(name);
        if self.namespaces[id.0 as usize].labels == labels {
            return self.tidy_namespace(id);
        }
        self.namespaces[id.0 as usize].labels = labels;
        self.clock += 1;
        for label_set in self.namespaces[id.0 as usize].label_sets.clone() {
            self.match_again(label_set);
        }
        self.tidy_namespace(id);
    }

    /// A node came, went, or has other labels or taints.
    pub(crate) const fn places_changed(&mut self) {
        self.clock += 1;
        self.places = self.clock;
    }

    /// The topologies that a pod's relations, and those of others about it, ask for.
    pub(crate) fn topologies_of(&self, who: Identity) -> BTreeSet<Box<str>> {
        let label_set = self.label_sets.get(who.label_set.0);
        let others = label_set
            .into_iter()
            .flat_map(|label_set| self.owned_terms_about(label_set))
            .map(|(_, b)| &b.topology);
        let relation_set = who.relation_set.and_then(|id| self.relation_sets.get(id.0));
        let own =
            relation_set.into_iter().flat_map(|relation_set| relation_set.relations.topologies());
        others.chain(own).cloned().collect()
    }

    pub(crate) fn label_set_of(&self, id: LabelSetId) -> Option<&LabelSet> {
        self.label_sets.get(id.0)
    }

    pub(crate) fn relation_set_of(&self, id: RelationSetId) -> Option<&RelationSet> {
        self.relation_sets.get(id.0)
    }

    /// Ports that are taken.
    pub(crate) const fn ports(&self) -> &Ports {
        &self.ports
    }

    /// The pods that hold a place on a node, in the order they came.
    pub(crate) fn pods_on(&self, node: NodeId) -> &[PodId] {
        self.here.get(node.index()).map_or(&[], Vec::as_slice)
    }

    /// Every pod with a place.
    pub(crate) fn everyone(&self) -> impl Iterator<Item = Placed<'_>> {
        self.members.iter().enumerate().filter_map(|(index, member)| {
            let Member { who, presence, node } = member.as_ref()?;
            let label_set = self.label_sets.get(who.label_set.0)?;
            Some(Placed {
                id: PodId(index as u32),
                node: (*node)?,
                namespace: &self.namespaces[label_set.namespace.0 as usize].name,
                label_set,
                relation_set: who.relation_set.and_then(|id| self.relation_sets.get(id.0)),
                presence: *presence,
            })
        })
    }

    /// Whether any pod has relations.
    pub(crate) fn has_relations(&self) -> bool {
        !self.relation_set_ids.is_empty()
    }

    /// The labels of a namespace, if it is known.
    pub(crate) fn namespace_labels(&self, name: &str) -> Option<&Labels> {
        let id = self.namespace_ids.get(name)?;
        self.namespaces[id.0 as usize].labels.as_ref()
    }
}

fn add(counts: &mut Counts, node: NodeId, n: u32, comes: bool) {
    let count = counts.entry(node).or_default();
    *count = if comes { *count + n } else { count.saturating_sub(n) };
    if *count == 0 {
        counts.remove(&node);
    }
}
