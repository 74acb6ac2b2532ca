//! Where a pod may run and would rather run, by what the node is: nodeName, cordon, taints,
//! nodeSelector and node affinity, as kube-scheduler decides them.
//!
//! These answers change only when the node's own labels or taints change, so they are kept per
//! node and rule set, apart from what is free. Rules that depend on other pods (inter-pod
//! affinity, topology spread, host ports, volumes) will stand beside this module, not in it.

use std::sync::Arc;

/// Labels, taints and cordon of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Labels, sorted by key.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// That is so in a rehearsal only, because it is drained there.
    pub drained: bool,
}

impl NodeFacts {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Keeps them off.
    NoSchedule,
    /// Keeps them off where there is another place.
    PreferNoSchedule,
    /// Keeps them off and drives them away.
    NoExecute,
}

impl Effect {
    /// As Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Key.
    pub key: Box<str>,
    /// Value, often empty.
    pub value: Box<str>,
    /// Effect.
    pub effect: Effect,
}

/// A toleration of a pod. An absent part tolerates every value of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The key, or every key.
    pub key: Option<Box<str>>,
    /// The value, or every value (`operator: Exists`).
    pub value: Option<Box<str>>,
    /// The effect, or every effect.
    pub effect: Option<Effect>,
}

impl Toleration {
    fn covers(&self, key: &str, value: &str, effect: Effect) -> bool {
        self.effect.is_none_or(|e| e == effect)
            && self.key.as_deref().is_none_or(|k| k == key)
            && self.value.as_deref().is_none_or(|v| v == value)
    }
}

/// One condition on a label or field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label or field.
    pub key: Box<str>,
    /// What is asked of it.
    pub test: Test,
}

/// Values of which one is meant; sorted, so that many of them take no longer to look through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Values(Box<[Box<str>]>);

impl Values {
    fn has(&self, value: &str) -> bool {
        self.0.binary_search_by(|known| (**known).cmp(value)).is_ok()
    }
}

impl From<Vec<Box<str>>> for Values {
    fn from(mut values: Vec<Box<str>>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self(values.into())
    }
}

impl std::ops::Deref for Values {
    type Target = [Box<str>];

    fn deref(&self) -> &[Box<str>] {
        &self.0
    }
}

/// The operators of node affinity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Present with one of these values.
    In(Values),
    /// Absent, or with none of these values.
    NotIn(Values),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present, an integer, and greater.
    Gt(i64),
    /// Present, an integer, and less.
    Lt(i64),
}

impl Test {
    pub(crate) fn accepts(&self, value: Option<&str>) -> bool {
        let integer = || value.and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|v| values.has(v)),
            Self::NotIn(values) => value.is_none_or(|v| !values.has(v)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Gt(bound) => integer().is_some_and(|v| v > *bound),
            Self::Lt(bound) => integer().is_some_and(|v| v < *bound),
        }
    }
}

/// A node selector term: all of it must hold. An empty one holds nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Term {
    /// `matchExpressions`, on labels.
    pub labels: Vec<Requirement>,
    /// `matchFields`; Kubernetes knows only `metadata.name`.
    pub fields: Vec<Requirement>,
}

impl Term {
    pub(crate) fn holds(&self, name: &str, node: &NodeFacts) -> bool {
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.fields.iter().all(|r| r.test.accepts(Some(name)))
            && self.labels.iter().all(|r| r.test.accepts(node.label(&r.key)))
    }

    /// The one node whose name this term asks for, if it asks for one.
    fn only_node(&self) -> Option<&str> {
        self.fields.iter().find_map(|r| match &r.test {
            Test::In(names) if names.len() == 1 => names.first().map(|n| &**n),
            _ => None,
        })
    }
}

/// Where a pod may run and would rather run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// `spec.nodeName` of a pod that is not bound yet.
    pub node_name: Option<Box<str>>,
    /// `spec.nodeSelector`.
    pub selector: Vec<(Box<str>, Box<str>)>,
    /// Required node affinity: one of the terms must hold.
    pub required: Option<Vec<Term>>,
    /// Preferred node affinity with weights of 1 to 100.
    pub preferred: Vec<(u32, Term)>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Nodes where the binding of this very pod was refused lately, and why.
    pub avoid: Vec<(Box<str>, Arc<str>)>,
}

/// Why a node is not for a pod, whatever is free there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Barred<'a> {
    /// The pod names another node.
    OtherNode,
    /// The node is cordoned.
    Cordoned,
    /// A taint is not tolerated.
    Taint(&'a Taint),
    /// The node selector asks for a label that the node does not have.
    Selector(&'a (Box<str>, Box<str>)),
    /// Required node affinity does not hold.
    Affinity,
    /// A binding to this node was refused lately.
    Refused(&'a Arc<str>),
}

/// How much a pod would like to run on a node, by its own preferences; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Liking(pub u32);

impl Liking {
    /// Bits in use: 4 for taints to be avoided, 14 for the weights of preferred affinity.
    pub const BITS: u32 = 18;
    const WEIGHT_BITS: u32 = 14;

    fn new(avoided: usize, weight: u32) -> Self {
        let untainted = 15 - avoided.min(14) as u32;
        Self(untainted << Self::WEIGHT_BITS | weight.min((1 << Self::WEIGHT_BITS) - 1))
    }

    /// More for fewer taints to be avoided.
    pub(crate) const fn untainted(self) -> u32 {
        self.0 >> Self::WEIGHT_BITS
    }

    /// The weights of preferred affinity.
    pub(crate) const fn weight(self) -> u32 {
        self.0 & ((1 << Self::WEIGHT_BITS) - 1)
    }
}

const CORDON: &str = "node.kubernetes.io/unschedulable";

impl Rules {
    /// Whether a pod with these rules may run on a node, and how much it would like to.
    pub fn judge<'a>(&'a self, name: &str, node: &'a NodeFacts) -> Result<Liking, Barred<'a>> {
        if self.node_name.as_deref().is_some_and(|n| n != name) {
            return Err(Barred::OtherNode);
        }
        // Before taints: what is told is then what is left to do for the nodes that are meant.
        if let Some(missing) = self.selector.iter().find(|(k, v)| node.label(k) != Some(v)) {
            return Err(Barred::Selector(missing));
        }
        if !self.required.as_ref().is_none_or(|t| t.iter().any(|t| t.holds(name, node))) {
            return Err(Barred::Affinity);
        }
        if node.unschedulable && !self.tolerates(CORDON, "", Effect::NoSchedule) {
            return Err(Barred::Cordoned);
        }
        if let Some((_, why)) = self.avoid.iter().find(|(node, _)| **node == *name) {
            return Err(Barred::Refused(why));
        }
        let mut avoided = 0;
        for taint in &node.taints {
            if self.tolerates(&taint.key, &taint.value, taint.effect) {
                continue;
            }
            if taint.effect != Effect::PreferNoSchedule {
                return Err(Barred::Taint(taint));
            }
            avoided += 1;
        }
        let liked = self.preferred.iter().filter(|(_, term)| term.holds(name, node));
        Ok(Liking::new(avoided, liked.fold(0, |sum, (weight, _)| sum.saturating_add(*weight))))
    }

    /// Whether node selector and required affinity hold.
    pub(crate) fn admits(&self, name: &str, node: &NodeFacts) -> bool {
        self.selector.iter().all(|(k, v)| node.label(k) == Some(v))
            && self.required.as_ref().is_none_or(|t| t.iter().any(|t| t.holds(name, node)))
    }

    /// Whether node selector and required affinity ask for nothing.
    pub(crate) fn admit_all(&self) -> bool {
        self.selector.is_empty() && self.required.is_none()
    }

    /// Whether no taint keeps pods off.
    pub(crate) fn tolerates_all(&self, node: &NodeFacts) -> bool {
        let mut taints = node.taints.iter().filter(|t| t.effect != Effect::PreferNoSchedule);
        taints.all(|t| self.tolerates(&t.key, &t.value, t.effect))
    }

    fn tolerates(&self, key: &str, value: &str, effect: Effect) -> bool {
        self.tolerations.iter().any(|t| t.covers(key, value, effect))
    }

    /// How many conditions there are to look at, at most.
    pub(crate) fn cost(&self) -> usize {
        let Self { selector, required, preferred, tolerations, avoid, .. } = self;
        let terms = required.iter().flatten().chain(preferred.iter().map(|(_, term)| term));
        let conditions: usize = terms.map(|term| 1 + term.labels.len() + term.fields.len()).sum();
        (selector.len() + conditions + tolerations.len() + avoid.len()) / 4
    }

    /// The only nodes that can come into question, if the rules name them: pods of a DaemonSet
    /// and pods with `nodeName`. Saves looking at all the others.
    pub fn only_nodes(&self) -> Option<Vec<&str>> {
        if let Some(name) = &self.node_name {
            return Some(vec![name]);
        }
        self.required.as_ref()?.iter().map(Term::only_node).collect()
    }
}

#[cfg(test)]
mod tests;
