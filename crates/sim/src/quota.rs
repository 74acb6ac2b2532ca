//! ResourceQuotas: what pods of a namespace may ask together. The API server refuses what goes beyond, so
//! such a pod never comes to be scheduled.

use divvy_engine::PodRecord;
use divvy_words::{Content, Entry, Object, Quantity, keys, namespace_of};
use serde_json::Value;
use std::collections::BTreeMap;

/// The quotas of all namespaces, and what is used of them.
#[derive(Debug, Default)]
pub(crate) struct Quotas(BTreeMap<Box<str>, Vec<Quota>>);

#[derive(Debug)]
struct Quota {
    name: Box<str>,
    /// What may be asked of each resource and what is, in thousandths.
    resources: BTreeMap<String, (u128, u128)>,
}

impl Quotas {
    /// The quotas among these objects. What is not respected is said.
    pub(crate) fn read<'e>(
        entries: impl Iterator<Item = &'e Entry>,
        warnings: &mut Vec<String>,
    ) -> Self {
        let mut quotas = Self::default();
        for entry in entries {
            let Entry::Object(object @ Object { metadata, content: Content::Foreign(spec), .. }) =
                entry
            else {
                continue;
            };
            if !is_quota(object) {
                continue;
            }
            let (name, namespace) = (&metadata.name, namespace_of(&metadata.namespace));
            let is_there = |key: &str| spec.get(key).is_some_and(|value| !value.is_null());
            if is_there("scopes") || is_there("scopeSelector") {
                warnings.push(format!(
                    "ResourceQuota {namespace}/{name} has scopes: it is not respected"
                ));
                continue;
            }
            let hard = spec.get("hard").and_then(Value::as_object).into_iter().flatten();
            let mut resources = BTreeMap::new();
            let mut unknown = Vec::new();
            for (resource, amount) in hard {
                let amount = match amount {
                    Value::String(text) => Quantity::parse(text).ok(),
                    other => Quantity::parse(&other.to_string()).ok(),
                };
                match (called(resource), amount) {
                    (Some(called), Some(amount)) => {
                        resources.insert(called.to_owned(), (u128::from(amount.milli_ceil()), 0));
                    }
                    _ => unknown.push(resource.as_str()),
                }
            }
            unknown.retain(|resource| is_about_pods(resource));
            if !unknown.is_empty() {
                let unknown = unknown.join(", ");
                warnings
                    .push(format!("ResourceQuota {namespace}/{name}: {unknown} is not respected"));
            }
            let quota = Quota { name: name.clone(), resources };
            quotas.0.entry(namespace.into()).or_default().push(quota);
        }
        quotas
    }

    /// Counts a pod that is there, whatever the quotas say.
    pub(crate) fn count(&mut self, pod: &PodRecord) {
        let Some(quotas) = self.0.get_mut(pod.key.namespace()) else { return };
        for quota in quotas {
            for (resource, (_, used)) in &mut quota.resources {
                *used = used.saturating_add(asked(pod, resource));
            }
        }
    }

    /// Counts a new pod, unless it asks more than is left.
    pub(crate) fn admit(&mut self, pod: &PodRecord) -> Result<(), String> {
        match self.room(pod) {
            Some((0, why)) => Err(why),
            _ => {
                self.count(pod);
                Ok(())
            }
        }
    }

    /// How many more such pods may come, and what is said of the next one; `None` if no quota is about
    /// what they ask.
    pub(crate) fn room(&self, pod: &PodRecord) -> Option<(u128, String)> {
        let quotas = self.0.get(pod.key.namespace()).into_iter().flatten();
        let all = quotas.flat_map(|quota| quota.resources.iter().map(move |of| (quota, of)));
        let rooms = all.filter_map(|(quota, (resource, (hard, used)))| {
            let asks = asked(pod, resource);
            let room = hard.saturating_sub(*used).checked_div(asks)?;
            Some((room, quota, resource, asks, used.saturating_add(room * asks), hard))
        });
        let (room, quota, resource, asks, used, hard) = rooms.min_by_key(|(room, ..)| *room)?;
        let (asks, used, hard) =
            (shown(resource, asks), shown(resource, used), shown(resource, *hard));
        let why = format!(
            "ResourceQuota {}: {resource}: {asks} asked, {used} of {hard} used: the API server \
             refuses the pod; ask less, end a pod of the namespace, or raise spec.hard",
            quota.name
        );
        Some((room, why))
    }
}

/// Whether it is a quota of Kubernetes.
pub(crate) fn is_quota(object: &Object) -> bool {
    &*object.kind == "ResourceQuota" && matches!(&*object.api_version, "v1" | "")
}

/// A resource of a quota under one of its names; `None` if it is not counted here.
fn called(resource: &str) -> Option<&str> {
    Some(match resource {
        "cpu" | "requests.cpu" => "requests.cpu",
        "memory" | "requests.memory" => "requests.memory",
        "ephemeral-storage" | "requests.ephemeral-storage" => "requests.ephemeral-storage",
        "pods" | "count/pods" => "pods",
        _ if resource.strip_prefix("requests.").is_some_and(|name| name.contains('/')) => resource,
        _ => return None,
    })
}

/// Whether a quota of it can keep a pod away.
fn is_about_pods(resource: &str) -> bool {
    resource.starts_with("limits.")
        || resource.starts_with("requests.") && !resource.contains("storage")
}

/// What a pod asks of a resource, in thousandths.
fn asked(pod: &PodRecord, resource: &str) -> u128 {
    let spec = &pod.spec;
    let units = |count: u64| u128::from(count) * 1000;
    match resource {
        "pods" => units(1),
        "requests.cpu" => u128::from(spec.cpu.0),
        "requests.memory" => units(spec.memory.0),
        "requests.ephemeral-storage" => units(spec.ephemeral.0),
        _ => {
            let name = resource.strip_prefix("requests.").unwrap_or(resource);
            let whole = if name == keys::GPU { spec.request.whole_cards() } else { 0 };
            let devices = spec.request.devices().filter(|(device, _)| device.to_string() == name);
            let devices: u64 = devices.map(|(_, count)| u64::from(count)).sum();
            let extended = spec.extended.iter().filter(|(other, _)| other == name);
            let extended: u64 = extended.map(|(_, count)| *count).sum();
            units(u64::from(whole).saturating_add(devices).saturating_add(extended))
        }
    }
}

/// Thousandths as people write them.
fn shown(resource: &str, amount: u128) -> String {
    let whole = amount / 1000;
    match resource {
        "requests.memory" | "requests.ephemeral-storage" if whole >= 1 << 20 => {
            format!("{}Mi", whole >> 20)
        }
        _ if amount.is_multiple_of(1000) => whole.to_string(),
        _ => format!("{amount}m"),
    }
}
