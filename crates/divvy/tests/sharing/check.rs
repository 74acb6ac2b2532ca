//! What containers really have, and whether it is what they were given and nobody else's.

use crate::cluster::Cluster;
use divvy_testbed::node::Container;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a pod has of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// Half of its memory.
    Half,
    /// A time slice, of all of it.
    Replica,
    /// A MIG slice, or a time slice of one.
    Slice,
}

impl Cluster {
    /// Looks into every running pod: it has what the kubelet or its binding says, and no other; what
    /// is whole is nobody else's, and of a card that is shared, time-sliced or divided nobody has
    /// anything of another kind.
    pub async fn check(&self) {
        self.check_beside(&[]).await;
    }

    /// The same, and halves that the API has forgotten count while their containers run.
    pub async fn check_beside(&self, ghosts: &[&Value]) {
        let mut of_card: BTreeMap<String, Vec<(String, Part)>> = BTreeMap::new();
        let mut of_device: BTreeMap<String, String> = BTreeMap::new();
        for namespace in ["default", "team"] {
            for pod in self.pods(namespace).await {
                let name = pod["metadata"]["name"].as_str().unwrap();
                if pod["status"]["containerStatuses"][0]["ready"] != true {
                    continue;
                }
                // It may have ended since.
                let Ok(found) = self.look_into(&pod, "main") else { continue };
                let annotations = &pod["metadata"]["annotations"];
                let is_half = annotations["gpu-fraction"].is_string();
                let given: Vec<String> = match annotations["divvy.dev/visible-devices"].as_str() {
                    Some(given) => given.split(',').map(str::to_owned).collect(),
                    None => devices(&pod),
                };
                let what = format!("{namespace}/{name}: /dev, and what was granted: {given:?}");
                assert_eq!(dev(&found), self.dev_of(&given), "{what}");
                let limits = pod["spec"]["containers"][0]["resources"]["limits"].as_object();
                let asked = limits.into_iter().flatten();
                let asked = asked.filter(|(resource, _)| resource.starts_with("nvidia.com/"));
                let asked: usize =
                    asked.map(|(_, n)| n.as_str().unwrap().parse::<usize>().unwrap()).sum();
                assert!(is_half || given.len() == asked, "{what} of {asked}");
                let part = match given.first() {
                    _ if is_half => Part::Half,
                    Some(id) if id.starts_with("MIG-") => Part::Slice,
                    Some(id) if id.contains("::") => Part::Replica,
                    _ => Part::Whole,
                };
                for card in found.cards {
                    of_card.entry(card).or_default().push((name.to_owned(), part));
                }
                for device in given.into_iter().filter(|_| !is_half) {
                    let other = of_device.insert(device, name.to_owned());
                    assert_eq!(
                        other, None,
                        "{namespace}/{name} has what is another's: {of_device:?}"
                    );
                }
            }
        }
        // After all others: what runs now has run beside them.
        for ghost in ghosts {
            let Ok(found) = self.look_into(ghost, "main") else { continue };
            for card in found.cards {
                let name = format!("{}, which is gone", ghost["metadata"]["name"]);
                of_card.entry(card).or_default().push((name, Part::Half));
            }
        }
        for (card, pods) in of_card {
            let parts: Vec<Part> = pods.iter().map(|(_, part)| *part).collect();
            assert!(parts.iter().all(|part| *part == parts[0]), "{card} has {pods:?}");
            let most = match parts[0] {
                Part::Whole => 1,
                Part::Half => 2,
                // Their devices are their own, which is all that there is to see.
                Part::Replica | Part::Slice => pods.len(),
            };
            assert!(pods.len() <= most, "{card} has {pods:?}");
        }
    }

    /// What is in `/dev` of a container that was given these devices.
    fn dev_of(&self, given: &[String]) -> Vec<String> {
        let cards = self.cards();
        let mut dev = Vec::new();
        for id in given {
            // A time slice is of all of the device.
            let uuid = id.split("::").next().unwrap();
            for card in &cards {
                let node = format!("nvidia{}", card.minor);
                if card.uuid == uuid {
                    dev.push(node.clone());
                }
                let mut slices = card.slices.iter().flatten();
                if let Some(slice) = slices.find(|slice| card.slice_uuid(slice) == uuid) {
                    dev.push(node);
                    dev.extend(card.capabilities(slice).map(|minor| format!("nvidia-cap{minor}")));
                }
            }
        }
        dev.sort();
        dev.dedup();
        dev
    }
}

/// What is in `/dev` of a container.
fn dev(found: &Container) -> Vec<String> {
    let mut dev = [&found.cards[..], &found.capabilities].concat();
    dev.sort();
    dev
}

/// The devices of a pod's container as the kubelet publishes them.
pub fn devices(pod: &Value) -> Vec<String> {
    let given = pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"].as_array();
    let is_device = |given: &&Value| given["name"].as_str().unwrap().starts_with("nvidia.com/");
    let ids = given.into_iter().flatten().filter(is_device);
    let ids = ids.flat_map(|given| given["resources"].as_array().unwrap());
    ids.map(|device| device["resourceID"].as_str().unwrap().to_owned()).collect()
}
