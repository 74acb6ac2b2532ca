//! `divvy explain`

use crate::cli::{ExplainArgs, ExplainPodArgs, ExplainWorkloadArgs, Explained, RehearsalArgs};
use crate::input::Given;
use crate::progress::Bar;
use crate::{DONE, PENDING, input, output};
use anyhow::{Context, bail};
use divvy_engine::ObjectKey;
use divvy_sim::Rehearsal;
use divvy_views::Explanation;
use divvy_words::keys;

pub fn run(args: &ExplainArgs) -> anyhow::Result<u8> {
    match &args.what {
        Explained::Pod(args) => pod(args),
        Explained::Deployment(args) => workload("Deployment", args),
        Explained::StatefulSet(args) => workload("StatefulSet", args),
        Explained::Job(args) => workload("Job", args),
    }
}

fn pod(args: &ExplainPodArgs) -> anyhow::Result<u8> {
    let bar = Bar::new();
    let Given { mut rehearsal, namespace } = input::rehearsal(&args.rehearsal, true, &bar)?;
    let key = key_of(&args.pod, &namespace, args.rehearsal.namespace.as_deref())?;
    let is_bound = rehearsal.scheduler.holding(&key).is_some();
    rehearsal.run(&bar);
    bar.finish();
    if rehearsal.ended.contains(&key) {
        bail!("pod {key} has ended: it waits for nothing and holds nothing");
    }
    let mut explanation = explanation(&rehearsal, &key, is_bound)
        .with_context(|| not_found(&key, args, &rehearsal.pods))?;
    explanation.repartition = output::repartition(&rehearsal);
    explanation.enter_placed(&rehearsal.scheduler, &key, &rehearsal.placed);
    output::print(args.output, &explanation, |options| {
        divvy_views::explanation_text(&explanation, options)
    })?;
    let placed = rehearsal.scheduler.holding(&key).is_some();
    Ok(if placed { DONE } else { PENDING })
}

/// All pods of a controller: of manifests those that it would make, of a cluster those that are there.
fn workload(kind: &'static str, args: &ExplainWorkloadArgs) -> anyhow::Result<u8> {
    let bar = Bar::new();
    let Given { mut rehearsal, namespace } = input::rehearsal(&args.rehearsal, true, &bar)?;
    let key = key_of(&args.name, &namespace, args.rehearsal.namespace.as_deref())?;
    let held = rehearsal.scheduler.clone();
    rehearsal.run(&bar);
    bar.finish();
    let pods = rehearsal.made_by.pods(kind, &key);
    if pods.is_empty() {
        let mut others = rehearsal.made_by.controllers(kind);
        let like: Vec<String> = others.by_ref().take(4).collect();
        let more = if others.next().is_some() { " and more" } else { "" };
        let tail = match like.is_empty() {
            true => "give its manifest with -f, or a cluster that has its pods".to_owned(),
            false => format!("there is {}{more}", like.join(", ")),
        };
        bail!("no {kind} {key} with pods; {tail}");
    }
    let simulation = divvy_views::simulation(&rehearsal.scheduler, pods);
    let waiting = simulation.pods.iter().find(|pod| pod.node.is_none()).map(|pod| pod.key);
    let first = waiting.and_then(|pod| {
        let mut first = explanation(&rehearsal, pod, held.holding(pod).is_some())?;
        first.enter_placed(&rehearsal.scheduler, pod, &rehearsal.placed);
        Some(first)
    });
    let place = (key.namespace(), key.name());
    let explained = divvy_views::explain_workload(kind, place, &simulation, first);
    output::print(args.output, &explained, |options| {
        divvy_views::workload_text(&explained, options)
    })?;
    Ok(if explained.pending == 0 { DONE } else { PENDING })
}

fn explanation<'a>(
    rehearsal: &'a Rehearsal,
    key: &ObjectKey,
    is_bound: bool,
) -> Option<Explanation<'a>> {
    let other = rehearsal.others.get(key);
    let explained = divvy_views::explain(&rehearsal.scheduler, key, is_bound);
    match (explained, other) {
        (Some(mut explanation), other) => {
            explanation.scheduler = other.map(ToString::to_string);
            Some(explanation)
        }
        (None, Some(other)) => {
            let ours = keys::SCHEDULER_NAMES[0];
            let next = if let Some(whose) = rehearsal.running.whose(other) {
                format!(
                    "{whose}'s scheduler runs in this cluster, so its pods are left to it; divvy places \
                     them once it is stopped"
                )
            } else {
                format!(
                    "set spec.schedulerName: {ours} where the pod is made to let divvy place it"
                )
            };
            Some(Explanation::of_another(key, other, next))
        }
        (None, None) => None,
    }
}

fn key_of(text: &str, namespace: &str, asked: Option<&str>) -> anyhow::Result<ObjectKey> {
    let Some((own, name)) = text.split_once('/') else {
        return Ok(ObjectKey::new(namespace, text));
    };
    match asked {
        Some(asked) if asked != own => {
            bail!("{text} is in namespace {own}, but -n says {asked}")
        }
        _ => Ok(ObjectKey::new(own, name)),
    }
}

/// Controllers number their pods, so a near miss is common: name those that are there.
fn not_found(key: &ObjectKey, args: &ExplainPodArgs, pods: &[ObjectKey]) -> String {
    let RehearsalArgs { cluster, from_cluster, .. } = &args.rehearsal;
    let has_workload = args.rehearsal.has_workload();
    let source = match &cluster.cluster {
        Some(path) => path.display().to_string(),
        None if *from_cluster || !has_workload => "the live cluster".to_owned(),
        None => "the embedded cluster".to_owned(),
    };
    let manifests = if !has_workload { "" } else { " or the manifests given" };
    let like = pods.iter().filter(|p| p.name().starts_with(key.name()));
    let mut like: Vec<String> = like.take(4).map(ObjectKey::to_string).collect();
    let tail = match like.len() {
        0 if !has_workload => {
            "name another namespace with -n, or give a manifest with -f".to_owned()
        }
        0 => "give its manifest with -f, or a cluster that has it with --cluster".to_owned(),
        n => {
            let more = if n == 4 { like.pop().map_or("", |_| " and more") } else { "" };
            format!("there is {}{more}", like.join(", "))
        }
    };
    format!("no pod {key} in {source}{manifests}; {tail}")
}
