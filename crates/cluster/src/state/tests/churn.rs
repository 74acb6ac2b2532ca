//! Tenants make and delete pods with names that nobody has used before, for as long as they like.

use super::*;

/// So many pods of each kind in a round.
const PODS: usize = 100;
/// More than there are reasons that are kept.
const HOPELESS: usize = 1_200;
const DAY: Duration = Duration::from_secs(86_400);

/// A pod that names all anew that a tenant can name.
fn named(nth: usize) -> Value {
    let mut pod = half(&format!("p{nth}"));
    pod["metadata"]["namespace"] = json!(format!("team-{nth}"));
    pod["metadata"]["labels"] =
        json!({"kai.scheduler/queue": format!("q{nth}"), format!("k{nth}"): "v"});
    pod["spec"]["affinity"] = json!({"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": format!("t{nth}"),
            "namespaces": [format!("other-{nth}")],
            "labelSelector": {"matchLabels": {format!("l{nth}"): "v"}},
        }],
    }});
    pod["spec"]["tolerations"] = json!([{"key": format!("taint-{nth}"), "operator": "Exists"}]);
    pod
}

/// One that fits nowhere, by a reason of its own.
fn hopeless(nth: usize) -> Value {
    let mut pod = named(nth);
    pod["spec"]["containers"][0]["resources"] =
        json!({"requests": {format!("example.com/r{nth}"): "1"}});
    pod
}

/// One that another scheduler gave a card.
fn strangers(nth: usize) -> Value {
    let mut pod = with(&named(nth), "metadata.annotations", json!({}));
    pod["metadata"]["name"] = json!(format!("w{nth}"));
    pod["spec"]["schedulerName"] = json!(format!("scheduler-{nth}"));
    pod["spec"]["nodeName"] = json!("a");
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    pod["status"] = json!({"phase": "Running", "startTime": "2027-01-15T08:00:00Z"});
    pod
}

/// Writes what is to be written: every second binding is refused.
fn perform(state: &mut State, now: Instant) {
    state.pass(now);
    for (nth, action) in state.take_actions().into_iter().enumerate() {
        match action {
            Action::Tell { pod, version, .. } => {
                let (told_on, result) = (version.clone(), Ok(version));
                state.outcome(Outcome::Told { pod, told_on, result }, now);
            }
            Action::Bind(binding) => {
                let result = if nth % 2 == 0 { Ok(()) } else { Err(no("quota")) };
                let Binding { pod, placement, .. } = *binding;
                let node = placement.node;
                state.outcome(Outcome::Bound { pod, node, result }, now);
            }
            Action::Look { pod } => {
                let (text, tries, result) = (None, 0, Ok(None));
                state.outcome(Outcome::Looked { pod, text, tries, result }, now);
            }
            _ => {}
        }
    }
}

fn round(state: &mut State, first: usize, now: &mut Instant) {
    for nth in first..first + PODS {
        let pods = [hopeless(nth), strangers(nth), {
            let mut pod = named(nth);
            pod["metadata"]["name"] = json!(format!("fits-{nth}"));
            pod
        }];
        for pod in &pods {
            state.pod_changed(Change::Seen(item(pod)), *now);
        }
        let namespace = format!("team-{nth}");
        let group = json!({"metadata": {"namespace": namespace, "name": format!("g{nth}")}, "spec": {"minMember": 2}});
        let group: PodGroupItem = serde_json::from_value(group).unwrap();
        let key = ObjectKey::new(&namespace, &format!("g{nth}"));
        state.group_changed(keys::KAI_GROUPS, News::Seen(group));
        let mut claim = claim(None);
        claim["metadata"]["namespace"] = json!(namespace);
        storage(state, StorageKind::Claim, claim);
        perform(state, *now);
        for pod in &pods {
            state.pod_changed(Change::Gone(item(pod)), *now);
        }
        state.group_changed(keys::KAI_GROUPS, News::Gone(key, None));
        let claim = ObjectKey::new(&namespace, "data");
        state.storage_changed(StorageKind::Claim, News::Gone(claim, None));
    }
    // What vanished is waited for, and what failed is remembered, for a while.
    *now += DAY;
    state.tick(*now);
    perform(state, *now);
    state.refresh(*now);
}

/// What the live edge keeps, as text. The engine keeps shapes and its journal up to bounds that
/// are larger than what is made here (`names.rs` among its tests).
fn kept(state: &State) -> usize {
    let text = format!("{:?}", state.state);
    let (before, rest) = text.split_once("scheduler: Scheduler {").unwrap();
    before.len() + rest.split_once("settings: StateSettings").unwrap().1.len()
}

#[test]
fn what_tenants_name_is_forgotten_with_what_they_made() {
    let mut state = state(&[("a", 8)]);
    let mut now = Instant::now();
    let mut grown = Vec::new();
    for first in [0, PODS, 2 * PODS] {
        round(&mut state, 1_000_000 + first, &mut now);
        grown.push(kept(&state));
    }
    // Counters may have a digit more.
    assert!(grown[2] <= grown[0] + 64, "{grown:?} bytes after one, two and three rounds");
}

#[test]
fn reasons_of_pods_that_never_fit_are_forgotten_also_if_nothing_else_changes() {
    let mut state = state(&[("a", 1)]);
    let now = Instant::now();
    let mut grown = Vec::new();
    for first in [0, HOPELESS, 2 * HOPELESS] {
        for nth in first..first + HOPELESS {
            let pod = hopeless(1_000_000 + nth);
            state.pod_changed(Change::Seen(item(&pod)), now);
            perform(&mut state, now);
            state.pod_changed(Change::Gone(item(&pod)), now);
        }
        grown.push(kept(&state));
    }
    assert!(grown[2] < grown[1] + grown[1] / 10, "{grown:?} bytes after one, two and three rounds");
}
