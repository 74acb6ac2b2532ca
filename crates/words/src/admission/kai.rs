//! A pod that was copied from a cluster with KAI reads ConfigMaps that KAI's binder made for it.
//! With divvy there are none: a container that waits for one would never start.

use super::Mutation;
use super::container::{PodLists, remove_entries};
use super::patch::{Step, member};
use super::pod::ReviewedPod;
use super::raw::each;
use crate::keys;
use crate::manifest::Named;
use crate::manifest::field::manifest;
use crate::problem::short;
use serde::Deserialize;
use serde_json::value::RawValue;

/// KAI adds three entries to a list at most. To take one out of a long list is work for the API
/// server each time.
const MOST_REMOVED: usize = 16;

/// Takes from the pod what KAI's admission has put there, if it has seen the pod. What the user
/// wrote stays.
pub(super) fn remove_config_maps(
    pod: &mut ReviewedPod<'_>,
    mutation: &mut Mutation,
) -> Result<(), String> {
    let Some(prefix) = pod.metadata.annotations.get(keys::KAI_CONFIG_MAPS) else { return Ok(()) };
    let path = member("/metadata/annotations", keys::KAI_CONFIG_MAPS);
    mutation.patch.push(Step::Remove { path });
    let is_kais = |map: &Named| is_config_map(prefix, &map.name);
    let lists = PodLists::read(pod)?;
    // By what it reads: KAI has changed how it names the volume.
    let mut volumes: Vec<Box<str>> = Vec::new();
    let is_volume = |volume: Volume| {
        let is_kais = is_kais(&volume.config_map);
        volumes.extend(is_kais.then_some(volume.name));
        is_kais
    };
    let found = find("spec.volumes", lists.volumes, is_volume)?;
    mutation.patch.extend(remove_entries("/spec/volumes", found.into_iter()));
    let mut env = Vec::new();
    lists.each_container(|place, given| {
        let field = |name: &str| format!("{}.{name}", place.field());
        let found = find(&field("env"), given.env, |entry: Entry| {
            is_kais(&entry.value_from.config_map_key_ref)
        })?;
        mutation.patch.extend(remove_entries(&place.pointer("env"), found.iter().copied()));
        env.push(found);
        let found = find(&field("envFrom"), given.env_from, |source: EnvFrom| {
            is_kais(&source.config_map_ref)
        })?;
        mutation.patch.extend(remove_entries(&place.pointer("envFrom"), found.into_iter()));
        let found = find(&field("volumeMounts"), given.volume_mounts, |mount: Named| {
            volumes.contains(&mount.name)
        })?;
        let list = place.pointer("volumeMounts");
        mutation.patch.extend(remove_entries(&list, found.into_iter()));
        Ok(())
    })?;
    mutation.warnings.push(format!(
        "metadata.annotations[\"{}\"] was removed, with the variables and the volume that KAI's admission had added: \
         divvy makes no ConfigMaps {}-...",
        keys::KAI_CONFIG_MAPS,
        short(prefix)
    ));
    let containers = pod.spec.init_containers.iter_mut().chain(&mut pod.spec.containers);
    for (container, gone) in containers.zip(env) {
        container.env.retain(|variable| !gone.contains(&variable.at));
        for variable in &mut container.env {
            variable.at -= gone.iter().filter(|at| **at < variable.at).count();
        }
    }
    Ok(())
}

/// Where in a list there is something of KAI's.
fn find<'a, T: Deserialize<'a>>(
    field: &str,
    list: Option<&'a RawValue>,
    mut is_kais: impl FnMut(T) -> bool,
) -> Result<Vec<usize>, String> {
    let mut found = Vec::new();
    each(field, list, |at, entry| {
        if is_kais(entry) {
            found.push(at);
        }
        if found.len() > MOST_REMOVED {
            return Err(format!("{field}: more than {MOST_REMOVED} entries of KAI's"));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Whether KAI gives this name to a ConfigMap of a pod with this prefix: with the number of the
/// container, of an init container after `i`; that for `envFrom` ends in `-evar`.
fn is_config_map(prefix: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')) else {
        return false;
    };
    let rest = rest.strip_suffix("-evar").unwrap_or(rest);
    let number = rest.strip_prefix('i').unwrap_or(rest);
    !prefix.is_empty() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

manifest! {
    struct Volume {
        name: Box<str>,
        config_map: Named,
    }

    struct Entry {
        value_from: ValueFrom,
    }

    struct ValueFrom {
        config_map_key_ref: Named,
    }

    struct EnvFrom {
        config_map_ref: Named,
    }
}
