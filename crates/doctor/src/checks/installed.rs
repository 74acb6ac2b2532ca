//! divvy's own workloads: whether they are there, run, and agree with each other.

use super::compare::Expected;
use super::versions;
use crate::finding::Finding;
use crate::fix::{Fix, fix};
use crate::objects::{Metadata, Version, Workload};
use crate::observed::{ADMISSION, APP, Observed, SCHEDULER};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What guards comes before what is guarded.
const INSTALL: &str = "\
kubectl apply -f deploy/namespaces.yaml
kubectl apply -f deploy/policy-hand-off.yaml -f deploy/policy-reservations.yaml \
-f deploy/policy-visible-devices.yaml -f deploy/policy-deletions.yaml -f deploy/policy-nodes.yaml
kubectl apply -f deploy/admission.yaml -f deploy/webhooks.yaml
kubectl apply -f deploy/scheduler.yaml";

/// The oldest API server that works.
const OLDEST: u32 = 30;

pub(super) fn check(cluster: &Observed) -> Vec<Finding> {
    let mut found = Vec::new();
    let is = |app| move |one: &Workload| one.metadata.labels.is(APP, app);
    if cluster.deployments.lacks(is(SCHEDULER)) {
        found.push(
            Finding::problem("not-installed", "the scheduler is not installed")
                .seen(format!("no Deployment has the label {APP}: {SCHEDULER}"))
                .fix(install(cluster)),
        );
        return found;
    }
    if cluster.shares_cards() && cluster.deployments.lacks(is(ADMISSION)) {
        found.push(
            Finding::problem(
                "no-admission",
                "the admission webhooks are not installed: shares get no card",
            )
            .seen(format!("no Deployment has the label {APP}: {ADMISSION}"))
            .fix(Expected::seen(cluster).apply(&["admission.yaml"])),
        );
    }
    found.extend(
        cluster
            .schedulers()
            .filter_map(|one| without_sharing(cluster, one, "shares wait for ever")),
    );
    if cluster.shares_cards() {
        let lost = "pods are not prepared for their card";
        found.extend(cluster.admissions().filter_map(|one| without_sharing(cluster, one, lost)));
    }
    found.extend(cluster.schedulers().chain(cluster.admissions()).filter_map(not_ready));
    found.extend(without_election(cluster));
    found.extend(several(cluster));
    found.extend(versions::check(cluster));
    found.extend(gates_differ(cluster));
    found.extend(cluster.version.iter().filter_map(too_old));
    found
}

/// Where something is left of a release or in another namespace, that is where it belongs.
fn install(cluster: &Observed) -> Fix {
    let here = Expected::seen(cluster);
    if here.is_as_in(&[]) { INSTALL.into() } else { here.apply(&[]) }
}

fn without_sharing(cluster: &Observed, workload: &Workload, so: &str) -> Option<Finding> {
    if workload.option("gpu-sharing").is_some_and(|value| value != "false") {
        return None;
    }
    let name = &workload.metadata.name;
    let patch = with_option(workload, "gpu-sharing", Some("--gpu-sharing"));
    let args = workload.spec.template.spec.containers.first().map(|first| first.args.join(" "));
    Some(
        Finding::problem("sharing-disabled", format!("{name} runs without --gpu-sharing: {so}"))
            .seen(format!("deployment {}: {}", workload.metadata.key(), args.unwrap_or_default()))
            .fix(Expected::seen(cluster).set("gpuSharing.enabled=true", patch)),
    )
}

/// Gives the first container of a Deployment this argument in the place of that option, or takes the
/// option away.
fn with_option(workload: &Workload, option: &str, argument: Option<&str>) -> Fix {
    let place = "/spec/template/spec/containers/0/args";
    let mut steps = Vec::new();
    match (workload.option_at(option), argument) {
        (None, None) => {}
        (None, Some(to)) => {
            steps.push(json!({"op": "add", "path": format!("{place}/-"), "value": to}));
        }
        (Some(at), argument) => {
            let args = workload.spec.template.spec.containers.first().map(|first| &first.args);
            let arg = |at: usize| args.and_then(|args| args.get(at)).map_or("", String::as_str);
            // Its value may be the next argument.
            if !arg(at).contains('=') && !arg(at + 1).is_empty() && !arg(at + 1).starts_with('-') {
                steps.push(json!({"op": "remove", "path": format!("{place}/{}", at + 1)}));
            }
            let path = format!("{place}/{at}");
            steps.push(match argument {
                Some(to) => json!({"op": "replace", "path": path, "value": to}),
                None => json!({"op": "remove", "path": path}),
            });
        }
    }
    let Metadata { namespace, name, .. } = &workload.metadata;
    fix!(
        "kubectl -n {namespace} patch deployment/{name} --type=json -p {steps}",
        namespace,
        name,
        steps = Value::from(steps).to_string()
    )
}

fn not_ready(workload: &Workload) -> Option<Finding> {
    let asked = workload.spec.replicas.unwrap_or(1);
    let Metadata { namespace, name, .. } = &workload.metadata;
    let seen = format!(
        "deployment {}: {} of {asked} replicas are ready",
        workload.metadata.key(),
        workload.status.ready_replicas
    );
    if asked == 0 {
        let finding = Finding::problem("not-running", format!("{name} is scaled to 0"));
        return Some(finding.seen(seen).fix(kubectl("scale", workload).and(" --replicas=2")));
    }
    (workload.status.ready_replicas == 0).then(|| {
        Finding::problem("not-running", format!("no replica of {name} is ready")).seen(seen).fix(
            fix!(
                "kubectl -n {namespace} describe deployment/{name}\n\
                 kubectl -n {namespace} logs deployment/{name}",
                namespace,
                name
            ),
        )
    })
}

/// Replicas that do not elect one of them all bind the same pods.
fn without_election(cluster: &Observed) -> Option<Finding> {
    let both = |one: &&Workload| {
        one.option("leader-elect") == Some("false") && one.spec.replicas.unwrap_or(1) > 1
    };
    let one = cluster.schedulers().find(both)?;
    Some(
        Finding::problem("several-schedulers", "several replicas place pods at once")
            .seen(format!(
                "deployment {}: {} replicas and --leader-elect=false",
                one.metadata.key(),
                one.spec.replicas.unwrap_or(1)
            ))
            .fix(kubectl("scale", one).and(" --replicas=1")),
    )
}

/// Two Deployments are one scheduler only if they share a lease.
fn several(cluster: &Observed) -> Option<Finding> {
    let lease = |one: &Workload| {
        let part = |name, other: &str| one.option(name).unwrap_or(other).to_owned();
        (part("lease-namespace", "kube-system"), part("lease-name", SCHEDULER))
    };
    let leases: BTreeSet<_> = cluster.schedulers().map(lease).collect();
    let last = cluster.schedulers().last()?;
    (leases.len() > 1).then(|| {
        let seen = |one: &Workload| {
            let (namespace, name) = lease(one);
            format!("deployment {}: lease {namespace}/{name}", one.metadata.key())
        };
        Finding::problem(
            "several-schedulers",
            "two schedulers of divvy serve the same names: each has a lease of its own",
        )
        .seen_at(cluster.schedulers().map(seen))
        .fix(kubectl("delete", last))
    })
}

/// Admission prepares what the scheduler reads, so they tell the same things apart.
fn gates_differ(cluster: &Observed) -> Option<Finding> {
    let of = |one: &Workload| one.option("feature-gates").unwrap_or("none").to_owned();
    let all = || cluster.schedulers().chain(cluster.admissions());
    let here = Expected::seen(cluster);
    let scheduler = cluster.schedulers().next()?;
    let other = all().find(|one| of(one) != of(scheduler))?;
    let files = ["scheduler.yaml", "admission.yaml"];
    let fix = match cluster.release().is_some() || here.is_as_in(&files) {
        true => here.apply_over(&files),
        false => {
            let gates = scheduler.option("feature-gates").map(|is| format!("--feature-gates={is}"));
            with_option(other, "feature-gates", gates.as_deref())
        }
    };
    let seen = |one: &Workload| format!("deployment {}: {}", one.metadata.key(), of(one));
    let what = "scheduler and admission have different feature gates";
    Some(Finding::warning("gates-differ", what).seen_at(all().map(seen)).fix(fix))
}

fn too_old(version: &Version) -> Option<Finding> {
    // Some providers write `30+`.
    let minor: u32 = version.minor.trim_end_matches('+').parse().ok()?;
    (version.major == "1" && minor < OLDEST).then(|| {
        Finding::problem("old-kubernetes", format!("this Kubernetes is older than 1.{OLDEST}"))
            .seen(format!("the API server says {}", version.git_version))
            .fix(fix!("# upgrade the cluster to 1.{OLDEST} or later"))
    })
}

/// `kubectl -n divvy-system VERB deployment/divvy-scheduler`.
fn kubectl(verb: &str, workload: &Workload) -> Fix {
    let Metadata { namespace, name, .. } = &workload.metadata;
    fix!("kubectl -n {namespace} {verb} deployment/{name}", namespace, verb, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_before_1_30_is_too_old() {
        let of = |minor: &str| {
            let (major, git_version) = ("1".to_owned(), format!("v1.{minor}.0"));
            too_old(&Version { major, minor: minor.to_owned(), git_version }).map(|f| f.name)
        };
        assert_eq!(of("29+"), Some("old-kubernetes"));
        assert_eq!([of("30"), of("37+"), of("next")], [None, None, None]);
    }
}
