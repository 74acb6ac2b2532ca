//! What the pods of one namespace may cost together. Each pod has a limit of its own, which
//! `divvy_words` knows; this is for many of them.

use crate::record::{ObjectKey, PodRecord};
use crate::weight::TermId;
use foldhash::HashMap;
use std::sync::Arc;

/// What every pod may have without being counted.
const FREE: usize = 2 * 1024;
/// What else the pods of a namespace may have together, in bytes.
const BYTES: usize = 16 << 20;
/// How many different terms about other pods they may have, and how many of these may be about
/// pods of other namespaces, which then cost others.
const TERMS: usize = 1024;
const REACHING: usize = 64;
/// How often label sets of its pods and terms about them may find each other, if that is more than
/// so often for each. Terms of other namespaces alone do not come near.
const MATCHES: usize = 1 << 20;
const MATCHES_EACH: usize = 256;

/// What pods cost, by namespace. Whoever tells a [`Scheduler`](crate::Scheduler) of pods that others
/// wrote shows them here first.
#[derive(Debug, Default)]
pub struct Bounds {
    /// Of pods that cost more than usual.
    pods: HashMap<ObjectKey, Cost>,
    namespaces: HashMap<Box<str>, Sum>,
}

#[derive(Debug, Default)]
struct Cost {
    bytes: usize,
    terms: Vec<TermId>,
}

#[derive(Debug, Default)]
struct Sum {
    bytes: usize,
    /// How many pods have each.
    terms: HashMap<TermId, u32>,
    reaching: usize,
}

impl Bounds {
    /// Counts a pod. Beyond a bound it is made light: one that waits is held back, and one that
    /// is bound has no say about others.
    /// What the engine knows of its namespace is
    /// [`Scheduler::matches_in`](crate::Scheduler::matches_in).
    pub fn enter(&mut self, record: &mut PodRecord, (matches, labels): (usize, usize)) {
        self.leave(&record.key);
        let namespace = record.key.namespace();
        if matches > MATCHES && matches > MATCHES_EACH * labels {
            let why = format!(
                "{labels} different sets of labels of namespace {namespace} match affinity terms {matches} times; allowed \
                 are {MATCHES}, or {MATCHES_EACH} for each"
            );
            refuse(record, why);
            // Not even its labels may find more.
            record.spec.labels = Arc::default();
            return;
        }
        let bytes = record.spec.weight().saturating_sub(FREE);
        let mut terms = record.spec.terms(namespace);
        if bytes == 0 && terms.is_empty() {
            return;
        }
        terms.sort_unstable();
        terms.dedup();
        let sum = self.namespaces.entry(namespace.into()).or_default();
        if let Some(why) = sum.refuses(namespace, bytes, &terms) {
            if sum.bytes == 0 && sum.terms.is_empty() {
                self.namespaces.remove(namespace);
            }
            return refuse(record, why);
        }
        sum.bytes += bytes;
        for term in &terms {
            let pods = sum.terms.entry(*term).or_default();
            sum.reaching += usize::from(*pods == 0 && term.reaches_out);
            *pods += 1;
        }
        self.pods.insert(record.key.clone(), Cost { bytes, terms });
    }

    /// A pod is gone.
    pub fn leave(&mut self, key: &ObjectKey) {
        let Some(cost) = self.pods.remove(key) else { return };
        let Some(sum) = self.namespaces.get_mut(key.namespace()) else { return };
        sum.bytes -= cost.bytes;
        for term in &cost.terms {
            let Some(pods) = sum.terms.get_mut(term) else { continue };
            *pods -= 1;
            if *pods == 0 {
                sum.terms.remove(term);
                sum.reaching -= usize::from(term.reaches_out);
            }
        }
        if sum.bytes == 0 && sum.terms.is_empty() {
            self.namespaces.remove(key.namespace());
        }
    }
}

/// Makes a pod light; if it waits, it waits on, and says why.
fn refuse(record: &mut PodRecord, why: String) {
    record.spec.lighten();
    if record.bound.is_none() {
        record.held_back.get_or_insert(why.into());
    }
}

impl Sum {
    fn refuses(&self, namespace: &str, bytes: usize, terms: &[TermId]) -> Option<String> {
        let total = self.bytes + bytes;
        if total > BYTES {
            return Some(format!(
                "the labels, selectors and affinity of all pods of namespace {namespace} take {total} bytes more than \
                 is usual; allowed are {BYTES}"
            ));
        }
        let new = terms.iter().filter(|term| !self.terms.contains_key(term));
        let reaching = self.reaching + new.clone().filter(|term| term.reaches_out).count();
        if reaching > REACHING {
            return Some(format!(
                "pods of namespace {namespace} have {reaching} different affinity terms about other namespaces; allowed \
                 are {REACHING}"
            ));
        }
        let count = self.terms.len() + new.count();
        (count > TERMS).then(|| {
            format!(
                "pods of namespace {namespace} have {count} different affinity terms and spread constraints; allowed \
                 are {TERMS}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, BoundCards, Labels, PodSelector, PodTerm, Relations, Selector};
    use divvy_ledger::{Device, Each, Request};
    use std::sync::Arc;

    fn pod(name: usize) -> PodRecord {
        PodRecord { key: ObjectKey::new("ml", &name.to_string()), ..PodRecord::default() }
    }

    fn labelled(name: usize, bytes: usize) -> PodRecord {
        let mut pod = pod(name);
        pod.spec.labels = Arc::new([("long", "x".repeat(bytes))].into_iter().collect());
        pod
    }

    fn with_term(name: usize, topology: usize, namespace: &str) -> PodRecord {
        let mut pod = pod(name);
        let pods = PodSelector::new([namespace], Selector::NOTHING, Selector::NOTHING);
        let affinity = vec![PodTerm { pods, topology: topology.to_string().into() }];
        pod.spec.relations = Some(Arc::new(Relations { affinity, ..Relations::default() }));
        pod
    }

    /// How many of these are accepted, one after the other.
    fn accepted(bounds: &mut Bounds, pods: impl Iterator<Item = PodRecord>) -> usize {
        let enter = |mut pod: PodRecord| {
            bounds.enter(&mut pod, (0, 0));
            usize::from(pod.held_back.is_none())
        };
        pods.map(enter).sum()
    }

    #[test]
    fn usual_pods_are_not_counted() {
        let mut bounds = Bounds::default();
        assert_eq!(accepted(&mut bounds, (0..100_000).map(|i| labelled(i, 1000))), 100_000);
        assert!(bounds.pods.is_empty() && bounds.namespaces.is_empty());
    }

    #[test]
    fn heavy_pods_of_a_namespace_have_a_bound_together_and_those_that_go_make_room() {
        let mut bounds = Bounds::default();
        let heavy = |i| labelled(i, 18 * 1024);
        let most = accepted(&mut bounds, (0..2000).map(heavy));
        assert!((1000..1100).contains(&most), "{most}");
        let mut other = PodRecord { key: ObjectKey::new("web", "p"), ..heavy(0) };
        bounds.enter(&mut other, (0, 0));
        assert_eq!(other.held_back, None, "another namespace has its own");
        let mut bound = heavy(3000);
        bound.bound = Some(Bound::new("n", BoundCards::Nothing));
        bounds.enter(&mut bound, (0, 0));
        assert!(bound.held_back.is_none() && bound.spec.weight() == 0, "it is counted, and light");
        bounds.leave(&heavy(0).key);
        assert!(!bounds.pods.contains_key(&heavy(1999).key), "it was not counted");
        assert_eq!(accepted(&mut bounds, [heavy(1999)].into_iter()), 1);
        (0..2000).for_each(|i| bounds.leave(&heavy(i).key));
        bounds.leave(&other.key);
        assert!(bounds.pods.is_empty() && bounds.namespaces.is_empty());
    }

    #[test]
    fn pods_that_name_many_kinds_of_slices_have_the_same_bound() {
        let kinds = (1..=250).map(|gb| format!("nvidia.com/mig-1g.{gb}gb"));
        let devices = kinds.map(|name| Each::Device(Device::of_resource(&name).unwrap()));
        let request = devices.fold(Request::none(), |request, device| request.and(1, device));
        let sliced = |name: usize| {
            let mut pod = pod(name);
            pod.spec.request = request.clone();
            pod
        };
        let mut bounds = Bounds::default();
        let most = accepted(&mut bounds, (0..40_000).map(sliced));
        assert!((8_000..30_000).contains(&most), "{most}");
        let mut refused = sliced(40_000);
        bounds.enter(&mut refused, (0, 0));
        assert!(refused.spec.weight() < 4 * 1024, "{}", refused.spec.weight());
    }

    #[test]
    fn labels_and_terms_that_all_match_each_other_have_a_bound() {
        let enter = |matches| {
            let mut pod = labelled(0, 10);
            Bounds::default().enter(&mut pod, matches);
            pod
        };
        assert_eq!(enter((MATCHES, 1)).held_back, None);
        assert_eq!(enter((MATCHES + 1, MATCHES)).held_back, None, "few for each");
        let refused = enter((MATCHES + 1, 1000));
        assert_eq!(*refused.spec.labels, Labels::default());
        assert_eq!(
            refused.held_back.as_deref(),
            Some(
                "1000 different sets of labels of namespace ml match affinity terms 1048577 times; allowed are 1048576, or \
                 256 for each"
            )
        );
    }

    #[test]
    fn different_terms_have_a_bound_and_those_that_reach_out_a_lower_one() {
        let mut bounds = Bounds::default();
        let same = (0..5000).map(|i| with_term(i, 1, "web"));
        assert_eq!(accepted(&mut bounds, same), 5000, "replicas of one controller");
        let out = (0..500).map(|i| with_term(10_000 + i, i, "web"));
        assert_eq!(accepted(&mut bounds, out), REACHING);
        let own = (0..5000).map(|i| with_term(20_000 + i, i, "ml"));
        assert_eq!(accepted(&mut bounds, own), TERMS - REACHING);
    }
}
