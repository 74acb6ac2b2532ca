//! How much has to be kept of a pod. Names, values and lists can be as long as whoever makes the
//! pod likes, so that there must be a limit to what one may cost in memory and in time.

use crate::labels::{Labels, Selector};
use crate::others::{Disk, VolumeUse};
use crate::record::PodSpec;
use crate::relations::{PodSelector, Relations};
use crate::rules::{Requirement, Rules, Term, Test, Toleration};
use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, LazyLock};

/// What an element of a list takes besides its texts.
const ELEMENT: usize = 32;
/// Of a pod that is too heavy, so many bytes of labels are kept.
const LABELS: usize = 8 * 1024;
/// And so many extended resources, and kinds of devices.
const EXTENDED: usize = 32;

/// A term of a pod about other pods, as far as it can be told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId {
    hash: u64,
    /// Whether it can be about pods of other namespaces.
    pub reaches_out: bool,
}

impl PodSpec {
    /// About how many bytes are kept because of what the pod names: labels, selectors, affinity,
    /// tolerations, ports, volumes, gates and resources.
    pub fn weight(&self) -> usize {
        let texts = |texts: &mut dyn Iterator<Item = usize>| texts.map(|len| ELEMENT + len).sum();
        let gates: usize = texts(&mut self.gates.iter().map(String::len));
        let extended: usize = texts(&mut self.extended.iter().map(|(name, _)| name.len()));
        let relations = self.relations.as_deref().map_or(0, relations);
        let request = self.request.weight();
        labels(&self.labels) + rules(&self.rules) + relations + gates + extended + request
    }

    /// The terms about other pods, of a pod of this namespace.
    pub fn terms(&self, namespace: &str) -> Vec<TermId> {
        let Some(relations) = self.relations.as_deref() else { return Vec::new() };
        let preferred = relations.preferred.iter().map(|(_, term)| term);
        let terms = relations.affinity.iter().chain(&relations.anti_affinity).chain(preferred);
        let terms = terms.map(|term| {
            let PodSelector { namespaces, namespace_selector, .. } = &term.pods;
            let reaches_out = namespace_selector.0.is_some()
                || namespaces.iter().any(|other| **other != *namespace);
            TermId { hash: hash(term), reaches_out }
        });
        let spread = relations.spread.iter();
        let spread = spread.map(|spread| TermId { hash: hash(spread), reaches_out: false });
        terms.chain(spread).collect()
    }

    /// How many conditions its terms about other pods have; and how many of these are in selectors
    /// that name no value of a label, so that every pod has to be compared with them.
    pub fn conditions(&self) -> (usize, usize) {
        let Some(relations) = self.relations.as_deref() else { return (0, 0) };
        let preferred = relations.preferred.iter().map(|(_, term)| term);
        let terms = relations.affinity.iter().chain(&relations.anti_affinity).chain(preferred);
        let spread = relations.spread.iter().map(|spread| (&spread.selector, 0));
        let terms =
            terms.map(|term| (&term.pods.labels, term.pods.namespace_selector.requirements()));
        terms.chain(spread).fold((0, 0), |(all, loose), (labels, others)| {
            let count = labels.requirements() + others;
            (all + count, if labels.names_a_value() { loose } else { loose + count })
        })
    }

    /// Leaves of a pod that is too heavy what it takes from its node, and some of its labels.
    pub fn lighten(&mut self) {
        let mut room = LABELS;
        let fits = |(key, value): &(&str, &str)| {
            let takes = ELEMENT + key.len() + value.len();
            room.checked_sub(takes).map(|left| room = left).is_some()
        };
        let kept: Labels = self.labels.iter().take_while(fits).collect();
        self.labels = Arc::new(kept);
        let node_name = self.rules.node_name.clone();
        self.rules = Arc::new(Rules { node_name, ..Rules::default() });
        self.relations = None;
        self.gates.clear();
        self.extended.truncate(EXTENDED);
        self.request.keep_kinds(EXTENDED);
    }
}

impl Rules {
    /// About how many bytes are kept because of what they name.
    pub(crate) fn weight(&self) -> usize {
        rules(self)
    }
}

/// Different in each process: nobody can make two terms that are taken for one.
fn hash(term: &impl Hash) -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    SEED.hash_one(term)
}

fn labels(labels: &Labels) -> usize {
    labels.iter().map(|(key, value)| ELEMENT + key.len() + value.len()).sum()
}

fn rules(rules: &Rules) -> usize {
    let Rules { selector, required, preferred, tolerations, .. } = rules;
    let selector = selector.iter().map(|(key, value)| ELEMENT + key.len() + value.len());
    let terms = required.iter().flatten().chain(preferred.iter().map(|(_, term)| term));
    let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
    let toleration = |t: &Toleration| ELEMENT + text(&t.key) + text(&t.value);
    selector.sum::<usize>()
        + terms.map(term).sum::<usize>()
        + tolerations.iter().map(toleration).sum::<usize>()
}

fn term(term: &Term) -> usize {
    ELEMENT + term.labels.iter().chain(&term.fields).map(requirement).sum::<usize>()
}

fn requirement(requirement: &Requirement) -> usize {
    let values = match &requirement.test {
        Test::In(values) | Test::NotIn(values) => {
            values.iter().map(|value| ELEMENT + value.len()).sum()
        }
        Test::Exists | Test::DoesNotExist | Test::Gt(_) | Test::Lt(_) => 0,
    };
    ELEMENT + requirement.key.len() + values
}

fn selector(selector: &Selector) -> usize {
    selector.0.iter().flatten().map(requirement).sum()
}

fn relations(relations: &Relations) -> usize {
    let Relations { ports, affinity, anti_affinity, preferred, spread, volumes } = relations;
    let ports = ports.iter().map(|port| ELEMENT + port.ip.as_ref().map_or(0, |ip| ip.len()));
    let terms = affinity.iter().chain(anti_affinity).chain(preferred.iter().map(|(_, term)| term));
    let terms = terms.map(|term| {
        let PodSelector { namespaces, namespace_selector, labels } = &term.pods;
        let names: usize = namespaces.iter().map(|name| ELEMENT + name.len()).sum();
        ELEMENT + term.topology.len() + names + selector(namespace_selector) + selector(labels)
    });
    let spread = spread.iter().map(|s| ELEMENT + s.topology.len() + selector(&s.selector));
    let volumes = volumes.iter().map(|usage| ELEMENT + volume(usage));
    ports.sum::<usize>() + terms.sum::<usize>() + spread.sum::<usize>() + volumes.sum::<usize>()
}

fn volume(usage: &VolumeUse) -> usize {
    match usage {
        VolumeUse::Claim(claim) | VolumeUse::Ephemeral { claim, .. } => {
            claim.namespace().len() + claim.name().len()
        }
        VolumeUse::Disk(Disk::Gce { name, .. }) => name.len(),
        VolumeUse::Disk(Disk::Ebs { id }) => id.len(),
        VolumeUse::Disk(Disk::Iscsi { iqn, .. }) => iqn.len(),
        VolumeUse::Disk(Disk::Rbd { monitors, pool, image, .. }) => {
            let monitors: usize = monitors.iter().map(|name| ELEMENT + name.len()).sum();
            monitors + pool.len() + image.len()
        }
        VolumeUse::Attached(attached) => attached.handle.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relations::{HostPort, PodTerm, Protocol, Spread};
    use crate::rules::Effect;
    use divvy_ledger::{Device, Each, Request};

    /// A pod that names `count` of everything, each different.
    fn spec(count: usize) -> PodSpec {
        let name = |i: usize| -> Box<str> { format!("n{i}").into() };
        let one_of = |i: usize| Requirement { key: name(i), test: Test::In(vec![name(i)].into()) };
        let selector = |i: usize| Selector::all([one_of(i)]);
        let pods = |i: usize| PodTerm {
            pods: PodSelector::new([name(i)], selector(i), selector(i)),
            topology: name(i),
        };
        let spread = |i: usize| Spread {
            topology: name(i),
            max_skew: 1,
            required: true,
            selector: selector(i),
            min_domains: 1,
            honor_affinity: true,
            honor_taints: false,
        };
        let all = 0..count;
        PodSpec {
            extended: all.clone().map(|i| (name(i).into(), 1)).collect(),
            request: all.clone().take(500).fold(Request::none(), |request, i| {
                let name = format!("nvidia.com/mig-{}g.{}gb", 1 + i / 1000, 1 + i % 1000);
                request.and(1, Each::Device(Device::of_resource(&name).unwrap()))
            }),
            labels: Arc::new(all.clone().map(|i| (name(i), name(i))).collect()),
            gates: all.clone().map(|i| name(i).into()).collect(),
            rules: Arc::new(Rules {
                selector: all.clone().map(|i| (name(i), name(i))).collect(),
                required: Some(
                    all.clone().map(|i| Term { labels: vec![one_of(i)], fields: vec![] }).collect(),
                ),
                preferred: all
                    .clone()
                    .map(|i| (1, Term { labels: vec![one_of(i)], fields: vec![] }))
                    .collect(),
                tolerations: all
                    .clone()
                    .map(|i| Toleration {
                        key: Some(name(i)),
                        value: None,
                        effect: Some(Effect::NoSchedule),
                    })
                    .collect(),
                ..Rules::default()
            }),
            relations: Some(Arc::new(Relations {
                ports: all
                    .clone()
                    .map(|i| HostPort { port: i as u16, protocol: Protocol::Tcp, ip: None })
                    .collect(),
                affinity: all.clone().map(pods).collect(),
                anti_affinity: all.clone().map(pods).collect(),
                preferred: all.clone().map(|i| (1, pods(i))).collect(),
                spread: all.clone().map(spread).collect(),
                volumes: all
                    .map(|i| VolumeUse::Claim(crate::ObjectKey::new("ml", &name(i))))
                    .collect(),
            })),
            ..PodSpec::default()
        }
    }

    #[test]
    fn each_list_that_a_pod_can_make_longer_makes_it_heavier() {
        let (one, many) = (spec(1), spec(2));
        type Copy = fn(&mut PodSpec, &PodSpec);
        let parts: [(&str, Copy); 14] = [
            ("labels", |a, b| a.labels = b.labels.clone()),
            ("gates", |a, b| a.gates = b.gates.clone()),
            ("extended", |a, b| a.extended = b.extended.clone()),
            ("request", |a, b| a.request = b.request.clone()),
            ("selector", |a, b| Arc::make_mut(&mut a.rules).selector = b.rules.selector.clone()),
            ("required", |a, b| Arc::make_mut(&mut a.rules).required = b.rules.required.clone()),
            ("preferred", |a, b| Arc::make_mut(&mut a.rules).preferred = b.rules.preferred.clone()),
            ("tolerations", |a, b| {
                Arc::make_mut(&mut a.rules).tolerations = b.rules.tolerations.clone();
            }),
            ("ports", |a, b| of(a).ports = of(&mut b.clone()).ports.clone()),
            ("affinity", |a, b| of(a).affinity = of(&mut b.clone()).affinity.clone()),
            ("anti", |a, b| of(a).anti_affinity = of(&mut b.clone()).anti_affinity.clone()),
            ("wishes", |a, b| of(a).preferred = of(&mut b.clone()).preferred.clone()),
            ("spread", |a, b| of(a).spread = of(&mut b.clone()).spread.clone()),
            ("volumes", |a, b| of(a).volumes = of(&mut b.clone()).volumes.clone()),
        ];
        fn of(spec: &mut PodSpec) -> &mut Relations {
            Arc::make_mut(spec.relations.as_mut().unwrap())
        }
        for (name, copy) in parts {
            let mut more = one.clone();
            copy(&mut more, &many);
            assert!(more.weight() > one.weight(), "{name}");
        }
        assert!(spec(20).weight() >= 10 * one.weight());
    }

    #[test]
    fn what_is_left_of_a_heavy_pod_weighs_little_and_takes_the_same() {
        let mut heavy = spec(10_000);
        heavy.cpu = divvy_ledger::MilliCpu(5);
        heavy.lighten();
        assert!(heavy.weight() < 16 * 1024, "{}", heavy.weight());
        assert_eq!(heavy.cpu.0, 5);
        assert_eq!(heavy.labels.get("n0"), Some("n0"));
    }

    #[test]
    fn terms_are_told_apart_and_whether_they_reach_out() {
        let term = |namespaces: &[&str], selector| PodTerm {
            pods: PodSelector::new(namespaces.iter().copied(), selector, Selector::NOTHING),
            topology: "zone".into(),
        };
        let affinity = vec![
            term(&["ml"], Selector::NOTHING),
            term(&["ml", "web"], Selector::NOTHING),
            term(&[], Selector::all([])),
            term(&["ml"], Selector::NOTHING),
        ];
        let relations = Some(Arc::new(Relations { affinity, ..Relations::default() }));
        let terms = PodSpec { relations, ..PodSpec::default() }.terms("ml");
        let reach: Vec<bool> = terms.iter().map(|term| term.reaches_out).collect();
        assert_eq!(reach, [false, true, true, false]);
        assert_eq!(terms[0], terms[3]);
        assert_ne!(terms[0].hash, terms[1].hash);
    }
}
