//! Levels of isolation, where they are told apart: the default, the limits of a pod's containers, and
//! what its containers must not do.

use super::container::PodLists;
use super::patch::{Step, member};
use super::pod::ReviewedPod;
use super::raw::each;
use super::{Mutation, Settings};
use crate::hand_off::{missing, unsafe_variable};
use crate::isolation::{Choice, Isolation, Provider};
use crate::keys;
use crate::koordinator;
use crate::manifest::field::manifest;
use crate::manifest::{Anything, Container, EnvironmentEntry, Variable};
use crate::problem::{Problems, short};
use crate::request::share_containers;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// How often a container may set variables of its limits and such that switch them off, besides once
/// each: to take them out is work for the API server.
const MOST_TIMES: usize = 8;

/// A pod that says no level gets the one that it can only mean.
pub(super) fn default_level(
    pod: &mut ReviewedPod<'_>,
    isolation: &Isolation,
    mutation: &mut Mutation,
) {
    if pod.level.is_some() {
        return;
    }
    let Some(level) = isolation.default_level(pod.provider.as_deref()) else { return };
    if !pod.has_labels {
        let path = "/metadata/labels".to_owned();
        mutation.patch.push(Step::Add { path, value: json!({}) });
    }
    let path = member("/metadata/labels", keys::ISOLATION_LEVEL);
    mutation.patch.push(Step::Add { path, value: json!(level.as_str()) });
    pod.level = Some(level.as_str().into());
}

/// The provider that is to isolate the pod.
pub(super) fn provider<'s>(pod: &ReviewedPod<'_>, settings: &'s Settings) -> Option<&'s Provider> {
    let isolation = settings.isolation.as_ref()?;
    match isolation.choice(pod.level.as_deref(), pod.provider.as_deref()) {
        Ok(Choice::Isolated(at)) => isolation.providers().get(at),
        Ok(Choice::Shared) | Err(_) => None,
    }
}

/// The variables of the pod's share by which a provider knows its limits.
pub(super) fn variables<'p>(
    pod: &ReviewedPod<'_>,
    provider: &'p Provider,
) -> Vec<(&'p str, &'static str)> {
    let asked = koordinator::asked(&pod.spec).ok().flatten();
    let compute = asked.and_then(|request| request.part()).is_some_and(|part| part.compute.0 > 0);
    provider.variables(compute).collect()
}

/// Notes what the pod's containers say of the provider's variables, which are not among those that
/// every pod is looked through for.
pub(super) fn note_variables(pod: &mut ReviewedPod<'_>, provider: &Provider) -> Result<(), String> {
    let limits = provider.variables(true).map(|(name, _)| name);
    let names: Vec<&str> = limits.chain(provider.environment.keys().map(String::as_str)).collect();
    let mut found: Vec<Vec<Variable>> = Vec::new();
    PodLists::read(pod)?.each_container(|place, given| {
        let mut of_container = Vec::new();
        each(&format!("{}.env", place.field()), given.env, |at, EnvironmentEntry(entry)| {
            let of_provider = entry.filter(|(name, _)| names.contains(&&**name));
            of_container.extend(of_provider.map(|(name, source)| {
                let name = Cow::Owned(name.into());
                Variable { name, source, at }
            }));
            match of_container.len() > names.len() + MOST_TIMES {
                true => Err(format!(
                    "{}.env: sets variables of provider {} again and again",
                    place.field(),
                    provider.name
                )),
                false => Ok(()),
            }
        })?;
        found.push(of_container);
        Ok(())
    })?;
    let containers = pod.spec.init_containers.iter_mut().chain(&mut pod.spec.containers);
    for (container, found) in containers.zip(found) {
        let is_known = |at: usize| container.env.iter().any(|variable| variable.at == at);
        let new: Vec<Variable> = found.into_iter().filter(|v| !is_known(v.at)).collect();
        container.env.extend(new);
        container.env.sort_by_key(|variable| variable.at);
    }
    Ok(())
}

/// The variables that could switch the provider off, with their safe values, as far as the container
/// does not set them itself. The scheduler looks at those behind the limits: `reads_all` says that
/// these are there, and stay where they are.
pub(super) fn safe_values(
    container: &Container,
    provider: &Provider,
    reads_all: bool,
) -> impl Iterator<Item = Value> {
    let reads_limit =
        |variable: &&Variable| keys::LIMITS.iter().any(|key| variable.source.is_annotation(key));
    let first = container.env.iter().find(reads_limit).filter(|_| reads_all);
    let first = first.map_or(0, |variable| variable.at);
    let is_set = move |name: &str| {
        let mut entries = container.env.iter().filter(|variable| variable.at >= first);
        entries.any(|variable| variable.name == name)
    };
    let safe = provider.environment.iter().filter(move |(name, _)| !is_set(name));
    safe.map(|(name, value)| json!({"name": name, "value": value}))
}

/// What is wrong with the levels of a new pod, or what the user should know.
pub(super) fn check(
    pod: &mut ReviewedPod<'_>,
    is_share: bool,
    settings: &Settings,
    problems: &mut Problems,
    warnings: &mut Vec<String>,
) {
    let labels = [(keys::ISOLATION_LEVEL, &pod.level), (keys::ISOLATION_PROVIDER, &pod.provider)];
    let given = labels.iter().find(|(_, value)| value.is_some()).map(|(key, _)| *key);
    let Some(isolation) = &settings.isolation else {
        problems.note_some(|| limited(pod).filter(|_| is_share));
        if is_share && pod.provider.is_some() {
            warnings.push(format!(
                "metadata.labels[\"{}\"] has no effect: the feature gate GPUIsolationLevel is off",
                keys::ISOLATION_PROVIDER
            ));
        }
        return;
    };
    if !is_share {
        warnings.extend(given.map(|key| {
            format!("metadata.labels[\"{key}\"] has no effect: only GPU shares have a level")
        }));
        return;
    }
    let choice = isolation.choice(pod.level.as_deref(), pod.provider.as_deref());
    problems.note_some(|| choice.err());
    let wrong = match provider(pod, settings) {
        Some(provider) => isolated(pod, provider).err(),
        None => limited(pod),
    };
    problems.note_some(|| wrong);
}

/// What is wrong with a pod that nobody isolates: of one that reads a limit the rest must have been
/// looked at, for the scheduler takes it for isolated by that, maybe with other labels and later.
fn limited(pod: &ReviewedPod<'_>) -> Option<String> {
    let reads = |key: &&str, container: &Container| {
        container.env.iter().any(|variable| variable.source.is_annotation(key))
    };
    pod.containers().find_map(|(part, container)| {
        let key = keys::LIMITS.iter().find(|key| reads(key, container))?;
        Some(format!(
            "{}.env: container {} reads the annotation {key}, which Isolated GPU shares alone have, with the \
             feature gate GPUIsolationLevel",
            part.place.field(),
            short(&container.name)
        ))
    })
}

/// What is wrong with a pod that a provider is to isolate.
fn isolated(pod: &mut ReviewedPod<'_>, provider: &Provider) -> Result<(), String> {
    note_variables(pod, provider)?;
    let (shares, inits) = (share_containers(&pod.metadata, &pod.spec), &pod.spec.init_containers);
    // What comes after a sidecar runs beside it, init containers too.
    let stays = |at: &usize| inits.get(*at).is_none_or(|init| &*init.restart_policy == "Always");
    if shares.iter().position(stays).is_some_and(|first| first + 1 < shares.len()) {
        return Err(
            "several containers ask for a share at a time: each would have the limit for itself, and all together \
             more than the pod asked for; allowed is one container in an Isolated pod"
                .to_owned(),
        );
    }
    let wanted = variables(pod, provider);
    let containers = pod.containers().enumerate().filter(|(at, _)| shares.contains(at));
    for (_, (part, container)) in containers {
        let own = provider.variables(true).map(|(name, _)| name);
        let mut own = own.filter(|name| !wanted.iter().any(|(wanted, _)| wanted == name));
        let is_set = |name: &str| container.env.iter().any(|variable| variable.name == name);
        let wrong = missing(container, &wanted).or_else(|| own.find(|name| is_set(name)));
        if let Some(variable) = wrong {
            return Err(format!(
                "{}.env: the variable {variable} of container {} says how much it may use, and is set by divvy's \
                 admission alone",
                part.place.field(),
                short(&container.name)
            ));
        }
        if let Some((variable, value)) = unsafe_variable(container, provider) {
            return Err(format!(
                "{}.env: the variable {variable} of container {} can switch provider {} off: leave it out, and divvy's \
                 admission sets it to {value:?}",
                part.place.field(),
                short(&container.name),
                provider.name
            ));
        }
    }
    mounts(pod, &shares, provider)
}

/// What is mounted into a container of the share in front of what the provider needs there.
fn mounts(pod: &ReviewedPod<'_>, shares: &[usize], provider: &Provider) -> Result<(), String> {
    let lists = PodLists::read(pod)?;
    let mut fresh = BTreeSet::new();
    each("spec.volumes", lists.volumes, |_, volume: Volume| {
        fresh.extend(volume.empty_dir.map(|_| volume.name));
        Ok(())
    })?;
    let mut at = 0;
    lists.each_container(|place, given| {
        let is_share = shares.contains(&at);
        at += 1;
        if !is_share {
            return Ok(());
        }
        let look = |field: String, path: &str, is_fresh: bool| {
            let (field, shown) = (format!("{}.{field}", place.field()), short(path));
            let near = |file: &&str| is_near(path, file);
            if let Some(what) = provider.mounted().find(near) {
                return Err(format!(
                    "{field}: {shown:?} would hide {what}, by which provider {} isolates the pod",
                    provider.name
                ));
            }
            match provider.fresh_files.iter().map(String::as_str).find(near) {
                Some(what) if !is_fresh => Err(format!(
                    "{field}: {shown:?} could bring a {what} of another container, and the limits that provider \
                     {} wrote into it; allowed is a volume emptyDir",
                    provider.name
                )),
                _ => Ok(()),
            }
        };
        each(&format!("{}.volumeMounts", place.field()), given.volume_mounts, |n, mount: Mount| {
            let is_fresh = fresh.contains(&mount.name);
            look(format!("volumeMounts[{n}].mountPath"), &mount.mount_path, is_fresh)
        })?;
        each(
            &format!("{}.volumeDevices", place.field()),
            given.volume_devices,
            |n, block: Block| look(format!("volumeDevices[{n}].devicePath"), &block.device_path, false),
        )?;
        match &*given.termination_message_path {
            "" => Ok(()),
            path => look("terminationMessagePath".to_owned(), path, false),
        }
    })
}

/// Whether what is mounted at this path would be in front of a file, or in its folder.
fn is_near(path: &str, file: &str) -> bool {
    let (mount, file) = (parts(path), parts(file));
    file.starts_with(&mount) || mount.starts_with(&file)
}

/// The folders of a path, however it is spelled.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts
}

/// The labels by which a share was placed are what it was placed by.
pub(super) fn unchanged(pod: &ReviewedPod<'_>, old: &ReviewedPod<'_>) -> Result<(), String> {
    for (key, before, now) in [
        (keys::ISOLATION_LEVEL, &old.level, &pod.level),
        (keys::ISOLATION_PROVIDER, &old.provider, &pod.provider),
    ] {
        if before != now {
            let shown = |value: &Option<Box<str>>| {
                value.as_ref().map_or("absent".to_owned(), |value| format!("{:?}", short(value)))
            };
            return Err(format!(
                "metadata.labels[\"{key}\"]: {} cannot become {}: the level of a GPU share is fixed when its pod \
                 is created",
                shown(before),
                shown(now)
            ));
        }
    }
    Ok(())
}

manifest! {
    struct Volume {
        name: Box<str>,
        empty_dir: Option<Anything>,
    }
}

manifest! {
    struct Mount {
        name: Box<str>,
        mount_path: Box<str>,
    }
}

manifest! {
    struct Block {
        device_path: Box<str>,
    }
}
