//! Manifests through the real engine: what is read, what is made of it, where it goes.
#![allow(clippy::unwrap_used, clippy::panic)]

use divvy_engine::{ObjectKey, Standing};
use divvy_sim::{Input, Rehearsal, Setup};

fn input(text: &str) -> Input {
    Input { name: "test.yaml".to_owned(), text: text.to_owned() }
}

fn rehearse(cluster: Option<&str>, workload: &str, replicas: Option<u32>) -> Rehearsal {
    let setup = Setup {
        cluster: cluster.map(input),
        workload: if workload.is_empty() { vec![] } else { vec![input(workload)] },
        replicas,
        ..Setup::default()
    };
    run(&setup)
}

fn run(setup: &Setup) -> Rehearsal {
    let mut rehearsal = Rehearsal::load(setup, &()).unwrap_or_else(|e| panic!("{e}"));
    rehearsal.run(&());
    rehearsal
}

/// `ns/name node cards` for each pod to place, or `ns/name: reason`.
fn lines(rehearsal: &Rehearsal) -> Vec<String> {
    rehearsal.pods.iter().map(|key| line(rehearsal, key)).collect()
}

fn line(rehearsal: &Rehearsal, key: &ObjectKey) -> String {
    match rehearsal.scheduler.standing(key).unwrap() {
        Standing::Placed(at) => {
            let cards: Vec<String> = at.cards.iter().map(|c| c.index.to_string()).collect();
            format!("{key} {} {}", at.node, cards.join(",")).trim().to_owned()
        }
        Standing::Waiting(why) => format!("{key}: {}", why.headline()),
        Standing::Astray => format!("{key} astray"),
    }
}

fn node(name: &str, cards: u32) -> String {
    format!(
        "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: {name}\n    labels:\n      \
         nvidia.com/gpu.count: \"{cards}\"\n      nvidia.com/gpu.memory: \"40960\"\n      pool: ml\n  \
         status:\n    allocatable: {{cpu: \"32\", memory: 128Gi, pods: \"50\", nvidia.com/gpu: \"{cards}\"}}\n"
    )
}

fn cluster(items: &[String]) -> String {
    format!("apiVersion: v1\nkind: List\nitems:\n{}", items.concat())
}

fn bound(name: &str, node: &str, metadata: &str, more: &str) -> String {
    format!(
        "- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {name}, namespace: ml, {metadata}}}\n  \
         spec: {{nodeName: {node}, containers: [{{name: c{more}}}]}}\n  status: {{phase: Running}}\n"
    )
}

const HALF: &str = "metadata: {annotations: {gpu-fraction: \"0.5\"}}";
const BODY: &str = "spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}";

fn controller(kind: &str, name: &str, spec: &str) -> String {
    let group = if kind == "Job" { "batch" } else { "apps" };
    format!(
        "---\napiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: {name}}}\n\
         spec: {{{spec}template: {{{HALF}, {BODY}}}}}\n"
    )
}

#[test]
fn controllers_make_the_pods_they_would_make() {
    let workload = [
        controller("Deployment", "d", "replicas: 2, "),
        controller("Deployment", "one", ""),
        controller("Deployment", "none", "replicas: 0, "),
        controller("ReplicaSet", "r", "replicas: 11, "),
        controller("StatefulSet", "s", "replicas: 11, "),
        controller("Job", "j", "parallelism: 4, completions: 2, "),
        controller("Job", "many", "parallelism: 2, completions: 9, "),
        controller("Job", "asleep", "suspend: true, parallelism: 3, "),
    ]
    .concat();
    let rehearsal = rehearse(Some(&cluster(&[node("n1", 40)])), &workload, None);
    let names: Vec<&str> = rehearsal.pods.iter().map(ObjectKey::name).collect();
    assert_eq!(names[..3], ["d-0", "d-1", "one-0"]);
    assert_eq!((names[3], names[13]), ("r-00", "r-10"));
    assert_eq!(
        (names[14], names[24]),
        ("s-0", "s-10"),
        "a StatefulSet's pods have their real names"
    );
    assert_eq!(names[25..], ["j-0", "j-1", "many-0", "many-1"]);
}

#[test]
fn replicas_overrule_every_number_but_that_of_a_daemon_set() {
    let workload = controller("Deployment", "d", "replicas: 2, ")
        + &controller("DaemonSet", "agent", "")
        + &format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\n{BODY}\n");
    let rehearsal = rehearse(Some(&cluster(&[node("n1", 8)])), &workload, Some(3));
    let names: Vec<&str> = rehearsal.pods.iter().map(ObjectKey::name).collect();
    assert_eq!(names, ["d-0", "d-1", "d-2", "agent-n1", "p-0", "p-1", "p-2"]);
}

#[test]
fn a_daemon_set_makes_one_pod_on_each_node_that_matches() {
    let mut cordoned = node("cordoned", 1);
    cordoned.push_str("  spec: {unschedulable: true}\n");
    let mut tainted = node("tainted", 1);
    tainted.push_str("  spec: {taints: [{key: k, effect: NoSchedule}]}\n");
    let elsewhere = node("elsewhere", 1).replace("pool: ml", "pool: web");
    let all = cluster(&[node("a", 1), node("b", 1), cordoned, tainted, elsewhere]);
    let workload = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: sys}\n\
        spec: {template: {spec: {nodeSelector: {pool: ml}, containers: [{name: c}]}}}\n";
    let rehearsal = rehearse(Some(&all), workload, None);
    assert_eq!(
        lines(&rehearsal),
        ["sys/agent-a a", "sys/agent-b b", "sys/agent-cordoned cordoned"],
        "a cordon does not keep daemons off, a taint does"
    );
}

#[test]
fn what_an_owner_in_the_input_makes_is_not_counted_twice() {
    let owned = |kind: &str, owner: &str, spec: &str| {
        format!(
            "---\napiVersion: {}\nkind: {kind}\nmetadata:\n  name: x-{kind}\n  ownerReferences:\n  \
             - {{kind: {owner}, name: d, controller: true}}\nspec: {spec}\n",
            if kind == "Pod" { "v1" } else { "apps/v1" }
        )
        .replace("x-Pod", "x-pod")
        .replace("x-ReplicaSet", "x-rs")
    };
    let workload = controller("Deployment", "d", "replicas: 2, ")
        + &owned(
            "ReplicaSet",
            "Deployment",
            "{replicas: 2, template: {spec: {containers: [{name: c}]}}}",
        )
        + &owned("Pod", "Job", "{containers: [{name: c}]}");
    let rehearsal = rehearse(Some(&cluster(&[node("n1", 8)])), &workload, None);
    let names: Vec<&str> = rehearsal.pods.iter().map(ObjectKey::name).collect();
    assert_eq!(names, ["d-0", "d-1", "x-pod"], "the Job of the pod is not in the input");
}

#[test]
fn bound_pods_hold_recorded_cards_first() {
    let share = "annotations: {gpu-fraction: \"0.5\"}";
    let recorded = "annotations: {gpu-fraction: \"0.5\", divvy.dev/cards: \"1:21474836480\"}";
    let whole = ", resources: {limits: {nvidia.com/gpu: 1}}";
    let all = cluster(&[
        node("n1", 3),
        bound("unrecorded", "n1", share, ""),
        bound("whole", "n1", "", whole),
        bound("recorded", "n1", recorded, ""),
        bound("done", "n1", share, "").replace("Running", "Succeeded"),
    ]);
    let rehearsal = rehearse(Some(&all), &controller("Deployment", "d", "replicas: 4, "), None);
    let of = |name: &str| line(&rehearsal, &ObjectKey::new("ml", name));
    assert_eq!(of("recorded"), "ml/recorded n1 1");
    assert_eq!(of("unrecorded"), "ml/unrecorded n1");
    assert_eq!(of("whole"), "ml/whole n1 0");
    assert_eq!(
        lines(&rehearsal),
        [
            "default/d-0 n1 1",
            "default/d-1 n1 2",
            "default/d-2 n1 2",
            "default/d-3: largest free share 0 < 0.5 asked"
        ]
    );
}

/// `simulate` and `top` counted it on a card that the scheduler gave to the next pod.
#[test]
fn a_bound_share_without_a_record_holds_no_card_as_for_the_scheduler_and_that_is_said() {
    let share = "annotations: {gpu-fraction: \"0.5\"}";
    let labelled = "annotations: {gpu-fraction: \"0.5\"}, labels: {runai-gpu-group: g}";
    let foreign = bound("foreign", "n1", share, "")
        .replace("nodeName: n1", "nodeName: n1, schedulerName: default-scheduler");
    let items = [
        node("n1", 1),
        bound("p", "n1", share, ""),
        bound("labelled", "n1", labelled, ""),
        kais_reservation("g"),
        foreign,
    ];
    let told = |pod: &str| {
        format!(
            "pod ml/{pod} on n1: it was bound without a record of the cards that it asks for, so it is \
             counted on none"
        )
    };
    let rehearsal = rehearse(Some(&cluster(&items)), "", None);
    assert_eq!(rehearsal.warnings, [told("p"), told("labelled")], "labels alone anybody may write");
    let whole = "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: \
        [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n";
    let rehearsal = rehearse(Some(&cluster(&items[..2])), whole, None);
    assert_eq!(lines(&rehearsal), ["default/w n1 0"]);
    let given = labelled.replace("{gpu", "{received-resource-type: Fraction, gpu");
    let unkept = [node("n1", 1), bound("p", "n1", &given, "")];
    let rehearsal = rehearse(Some(&cluster(&unkept)), "", None);
    assert_eq!(rehearsal.warnings, [told("p")], "no reservation keeps a card for its group");
}

/// A reservation that runs on `n1`, as KAI makes it.
fn kais_reservation(group: &str) -> String {
    let metadata = format!(
        "labels: {{app: kai-resource-reservation, runai-gpu-group: {group}}}, \
         annotations: {{run.ai/reserve_for_gpu_index: GPU-{group}}}"
    );
    let whole = ", resources: {limits: {nvidia.com/gpu: 1}}";
    bound(&format!("gpu-reservation-{group}"), "n1", &metadata, whole)
        .replace("namespace: ml", "namespace: kai-resource-reservation")
}

/// The metadata of a share that KAI has bound to the card of a group.
fn kais(fraction: &str, group: &str) -> String {
    format!(
        "annotations: {{gpu-fraction: \"{fraction}\", received-resource-type: Fraction}}, \
         labels: {{runai-gpu-group: {group}}}"
    )
}

#[test]
fn pods_of_a_kai_cluster_keep_to_their_groups_and_reservations_count_once() {
    let two = "annotations: {gpu-fraction: \"0.25\", gpu-fraction-num-devices: \"2\", \
               received-resource-type: Fraction}, labels: {runai-gpu-group/g1: g1, runai-gpu-group/g2: g2}";
    let all = cluster(&[
        node("n1", 3),
        kais_reservation("g1"),
        kais_reservation("g2"),
        bound("a", "n1", &kais("0.25", "g1"), ""),
        bound("b", "n1", &kais("0.25", "g2"), ""),
        bound("c", "n1", &kais("0.25", "g1"), ""),
        bound("d", "n1", two, ""),
    ]);
    let workload = "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: \
        [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n";
    let rehearsal = rehearse(Some(&all), workload, None);
    let cards = |name: &str| line(&rehearsal, &ObjectKey::new("ml", name));
    assert_eq!(cards("a"), "ml/a n1 0");
    assert_eq!(cards("b"), "ml/b n1 1");
    assert_eq!(cards("c"), "ml/c n1 0");
    assert_eq!(cards("d"), "ml/d n1 0,1");
    assert_eq!(lines(&rehearsal), ["default/w n1 2"], "two shared cards and one free one");
    assert_eq!(rehearsal.warnings, [""; 0]);
}

#[test]
fn what_is_left_of_a_pod_that_vanished_is_not_given_again() {
    let ghost = format!("divvy.dev/ghosts: \"ml/p/u:{}:1800000000\", run.ai", 20u64 << 30);
    let reservation = kais_reservation("g").replace("run.ai", &ghost);
    let runs = bound("a", "n1", &kais("0.25", "g"), "");
    let half = "apiVersion: v1\nkind: Pod\nmetadata: {name: w, annotations: {gpu-fraction: \"0.5\"}}\nspec: {containers: [{name: c}]}\n";
    let rehearsal = rehearse(Some(&cluster(&[node("n1", 1), reservation, runs])), half, None);
    let cards = |name: &str| line(&rehearsal, &ObjectKey::new("ml", name));
    assert_eq!((cards("a"), cards("p(gone-u)")), ("ml/a n1 0".into(), "ml/p(gone-u) n1 0".into()));
    assert_eq!(lines(&rehearsal), ["default/w: largest free share 0.25 < 0.5 asked"]);
}

#[test]
fn a_card_that_kai_over_packed_is_reported() {
    let pods = ["a", "b", "c"].map(|name| bound(name, "n1", &kais("0.5", "x"), ""));
    let all = cluster(&[&[node("n1", 2), kais_reservation("x")], &pods[..]].concat());
    let rehearsal = rehearse(Some(&all), "", None);
    assert_eq!(
        rehearsal.warnings,
        ["pod ml/c on n1: card 0 has 0.0 GiB free, not 20.0 GiB; it is counted without a card"]
    );
}

#[test]
fn a_node_whose_cards_the_scheduler_is_not_certain_of_takes_no_gpu_pod() {
    let taint = "spec: {taints: [{key: divvy.dev/unsettled, effect: NoSchedule}]}\n  ";
    let node = cluster(&[node("n1", 2).replace("status:", &format!("{taint}status:"))]);
    let pod = |name: &str, metadata: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}{metadata}}}, spec: {{containers: [{{name: c}}]}}}}\n---\n"
        )
    };
    let share = pod("share", ", annotations: {gpu-fraction: \"0.5\"}");
    let rehearsal = rehearse(Some(&node), &format!("{share}{}", pod("plain", "")), None);
    let lines = lines(&rehearsal);
    assert!(lines.iter().any(|line| line.contains("plain n1")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("share n1")), "{lines:?}");
}

#[test]
fn pending_pods_of_the_cluster_are_placed_too_and_bound_ones_not_again() {
    let waiting = "- apiVersion: v1\n  kind: Pod\n  metadata: {name: waiting}\n  spec: {containers: [{name: c}]}\n";
    let leaving = waiting
        .replace("name: waiting", "name: leaving, deletionTimestamp: \"2026-01-01T00:00:00Z\"");
    let all = cluster(&[node("n1", 1), waiting.to_owned(), leaving, bound("b", "n1", "", "")]);
    let workload = "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: ml}\nspec: {containers: [{name: c}]}\n";
    let rehearsal = rehearse(Some(&all), workload, None);
    assert_eq!(lines(&rehearsal), ["default/waiting n1"]);
    assert_eq!(rehearsal.warnings, ["pod ml/b is already in the cluster, on n1: not placed again"]);
}

#[test]
fn priority_classes_of_the_input_decide_who_goes_first() {
    let workload = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 100\n"
        .to_owned()
        + &["a-low", "b-high", "c-odd"].map(|name| {
            let class = match name { "b-high" => "high", "c-odd" => "unheard-of", _ => "" };
            format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{priorityClassName: \
                 \"{class}\", containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]}}\n"
            )
        }).concat();
    let rehearsal = rehearse(Some(&cluster(&[node("n1", 1)])), &workload, None);
    assert_eq!(lines(&rehearsal)[1], "default/b-high n1 0");
    assert_eq!(rehearsal.warnings.len(), 1);
    assert!(rehearsal.warnings[0].starts_with("priority class unheard-of is not in the input"));
}

#[test]
fn absurd_numbers_of_pods_are_refused_by_name() {
    let workload = controller("Deployment", "d", "replicas: 2000000000, ")
        + &controller("Deployment", "e", "replicas: -1, ");
    let rehearsal = rehearse(Some(&cluster(&[node("n1", 1)])), &workload, None);
    assert_eq!(
        lines(&rehearsal),
        [
            "default/d: spec.replicas: 2000000000 given, allowed are 0 to 1000000",
            "default/e: spec.replicas: -1 given, allowed are 0 to 1000000"
        ]
    );
}

#[test]
fn the_embedded_cluster_is_the_one_that_is_promised() {
    let rehearsal = rehearse(None, "", None);
    let ledger = rehearsal.scheduler.ledger();
    let cards: Vec<(String, usize, u64)> = rehearsal
        .scheduler
        .nodes()
        .map(|(name, id)| {
            let node = ledger.node(id).unwrap();
            (name.to_string(), node.cards().len(), node.card_size().mib())
        })
        .collect();
    let expected = [
        ("a100-40-1", 8, 40_960),
        ("a100-80-1", 8, 81_920),
        ("a100-80-2", 8, 81_920),
        ("cpu-1", 0, 0),
        ("l40s-1", 4, 46_068),
        ("l40s-2", 4, 46_068),
        ("t4-1", 4, 15_360),
        ("t4-2", 4, 15_360),
    ];
    assert_eq!(cards, expected.map(|(name, count, mib)| (name.to_owned(), count, mib)));
    assert_eq!(rehearsal.warnings, [""; 0]);
}

#[test]
fn a_kai_group_does_not_take_a_card_that_divvy_recorded() {
    let kai = kais("0.5", "g1");
    let ours = "annotations: {gpu-fraction: \"0.75\", divvy.dev/cards: \"0:32212254720\"}";
    let pods = [kais_reservation("g1"), bound("k", "n1", &kai, ""), bound("d", "n1", ours, "")];
    let all = cluster(&[&[node("n1", 2)], &pods[..]].concat());
    let rehearsal = rehearse(Some(&all), "", None);
    assert_eq!(line(&rehearsal, &ObjectKey::new("ml", "k")), "ml/k n1 1");
    assert_eq!(rehearsal.warnings, [""; 0]);
}

#[test]
fn mistakes_that_the_api_accepts_in_silence_are_told() {
    let on_owner = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, annotations: \
        {gpu-fraction: \"0.5\"}}\nspec: {template: {spec: {containers: [{name: c}]}}}\n";
    let as_label = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {gpu-memory: \
        \"5\"}}\nspec: {containers: [{name: c}], resourceClaims: [{name: x}]}\n";
    let lower = "---\napiVersion: v1\nkind: pod\nmetadata: {name: q}\n";
    let none = controller("Deployment", "none", "replicas: 0, ");
    let workload = [on_owner, as_label, lower, &none].concat();
    let rehearsal = rehearse(None, &workload, None);
    let found: Vec<String> = rehearsal.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "test.yaml:4:35: Deployment d: metadata.annotations[\"gpu-fraction\"]: it stands on the Deployment itself, \
             and its pods ask for no GPU by it; write it under spec.template.metadata.annotations [NotOnTemplate]",
            "test.yaml:9:30: Pod p: metadata.labels[\"gpu-memory\"]: it is an annotation, and here nothing reads it, so \
             the pod gets no GPU by it; write metadata.annotations[\"gpu-memory\"] of the pod [MisplacedName]",
            "test.yaml:13:7: pod q: kind: there is no kind pod; write Pod [UnknownKind]",
            "test.yaml:19:57: Deployment none: spec.template.metadata.annotations[\"gpu-fraction\"]: the default scheduler \
             places the pod and does not read it: it runs without a GPU; write spec.template.spec.schedulerName: \
             divvy-scheduler [DefaultScheduler]",
        ]
    );
    assert_eq!(rehearsal.warnings, ["Deployment none makes no pods: it asks for 0"]);
}

#[test]
fn what_makes_no_pods_is_named_with_what_was_meant() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n";
    let pods = "---\napiVersion: v1\nkind: Pods\nmetadata: {name: p}\n";
    let old = "---\napiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: d}\n";
    let error = |workload: &str| {
        let setup = Setup { workload: vec![input(workload)], ..Setup::default() };
        Rehearsal::load(&setup, &()).err().unwrap().to_string()
    };
    assert_eq!(
        error(map),
        "nothing to place: 1 ConfigMap is given, and none of that makes pods; give Pods, or Deployments and other \
         controllers that make them"
    );
    assert_eq!(
        error(&[map, pods, old].concat()),
        "nothing to place: 1 ConfigMap, 1 Deployment, 1 Pods are given, and none of that makes pods; write kind: Pod \
         for Pods; write apiVersion: apps/v1 for Deployment"
    );
    assert_eq!(
        error(&cluster(&[node("n1", 1)])),
        "nothing to place: 1 Node is given, and none of that makes pods; nodes are read from --cluster"
    );
}

#[test]
fn pods_that_have_ended_are_not_placed_again() {
    let done = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n\
        status: {phase: Succeeded}\n";
    let rehearsal = rehearse(None, done, None);
    assert_eq!(rehearsal.pods, []);
    assert_eq!(rehearsal.ignored["Pod that has ended"], 1);
}

#[test]
fn two_controllers_of_one_name_make_different_pods() {
    let workload = controller("Deployment", "x", "replicas: 2, ")
        + &controller("StatefulSet", "x", "replicas: 2, ")
        + &"---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: g-}\nspec: {containers: \
            [{name: c}]}\n"
            .repeat(2);
    let rehearsal = rehearse(Some(&cluster(&[node("n1", 8)])), &workload, None);
    let names: Vec<&str> = rehearsal.pods.iter().map(ObjectKey::name).collect();
    assert_eq!(names, ["x-0", "x-1", "x-0-0", "x-1-0", "g-0", "g-1"]);
    assert_eq!(rehearsal.warnings, [""; 0]);
}

#[test]
fn a_controller_that_owns_itself_still_makes_its_pods() {
    let own = controller("ReplicaSet", "r", "replicas: 1, ").replace(
        "metadata: {name: r}",
        "metadata: {name: r, ownerReferences: [{kind: ReplicaSet, name: r, controller: true}]}",
    );
    assert_eq!(rehearse(None, &own, None).pods.len(), 1);
}

#[test]
fn what_a_running_pod_holds_is_not_lost_in_silence() {
    let share = |record: &str| {
        format!("annotations: {{gpu-fraction: \"0.5\", divvy.dev/cards: \"{record}\"}}")
    };
    let all = cluster(&[
        node("n1", 4),
        node("n2", 4),
        bound("empty", "n2", &share(""), ""),
        bound("small", "n1", &share("0:1"), ""),
        bound("twice", "n1", &share("1:0"), ""),
        bound("twice", "n1", &share("1:0"), ""),
        bound("more", "n1", &share("2:1,3:1"), ""),
        bound("odd", "n1", "labels: 5", ""),
    ]);
    let rehearsal = rehearse(Some(&all), "", None);
    let bytes = |name: &str| {
        let holding = rehearsal.scheduler.holding(&ObjectKey::new("ml", name)).unwrap();
        holding.cards.iter().map(|c| c.bytes.mib()).sum::<u64>()
    };
    assert_eq!((bytes("small"), bytes("twice")), (20_480, 20_480));
    assert_eq!(bytes("more"), 40_960, "the record says how many, not what can be edited");
    let ledger = rehearsal.scheduler.ledger();
    let closed = |name| ledger.node(ledger.find(name).unwrap()).unwrap().has_unknown_holder();
    assert!(closed("n1") && closed("n2"), "whatever they have is not given twice");
    let warnings = rehearsal.warnings.join("\n");
    for said in [
        "names no card; no GPU is given on n2",
        "is twice in the cluster",
        "ml/odd cannot be read, so no GPU is given on n1",
    ] {
        assert!(warnings.contains(said), "{said}: {warnings}");
    }
}

#[test]
fn a_record_of_a_card_that_is_not_there_closes_what_it_may_hold() {
    let record = "annotations: {gpu-fraction: \"0.5\", divvy.dev/cards: \"7:1\"}";
    let whole = pending("w", "schedulerName: divvy-scheduler, ")
        .replace("{name: c}", "{name: c, resources: {limits: {nvidia.com/gpu: 2}}}");
    let items = [node("n1", 2), bound("odd", "n1", record, ""), whole];
    let rehearsal = rehearse(Some(&cluster(&items)), "", None);
    let why = "the record of a pod there does not say which cards it has, so no GPU is given";
    assert_eq!(lines(&rehearsal), [format!("ml/w: {why}")]);
    let said = "pod ml/odd on n1 is recorded on card 7, which n1 does not have";
    assert!(rehearsal.warnings.join("\n").contains(said), "{:?}", rehearsal.warnings);
}

#[test]
fn annotations_of_a_pod_of_another_scheduler_take_no_card_from_anybody() {
    let foreign = bound("foreign", "n1", "annotations: {gpu-fraction: \"0.9\"}", "")
        .replace("nodeName: n1", "nodeName: n1, schedulerName: default-scheduler");
    let ours = pending("ours", "schedulerName: divvy-scheduler, ")
        .replace("namespace: ml", "namespace: ml, annotations: {gpu-fraction: \"0.9\"}");
    let rehearsal = rehearse(Some(&cluster(&[node("n1", 1), foreign, ours])), "", None);
    assert_eq!(lines(&rehearsal), ["ml/ours n1 0"]);
}

fn pending(name: &str, scheduler: &str) -> String {
    format!(
        "- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {name}, namespace: ml}}\n  \
         spec: {{{scheduler}containers: [{{name: c}}]}}\n"
    )
}

const KAI: &str = "- apiVersion: v1\n  kind: Pod\n  metadata: {name: kai-scheduler-default-1, \
    namespace: kai-scheduler, labels: {app: kai-scheduler-default}}\n  \
    spec: {nodeName: gpu-1, schedulerName: default-scheduler, containers: [{name: c}]}\n";

#[test]
fn pending_pods_of_the_cluster_wait_only_for_their_own_scheduler() {
    let items = [
        node("gpu-1", 1),
        pending("ours", "schedulerName: divvy-scheduler, "),
        pending("kais", "schedulerName: kai-scheduler, "),
        pending("theirs", "schedulerName: default-scheduler, "),
        pending("by-hand", ""),
    ];
    let found = rehearse(Some(&cluster(&items)), "", None);
    assert_eq!(lines(&found), ["ml/ours gpu-1", "ml/kais gpu-1", "ml/by-hand gpu-1"]);
    let others: Vec<String> = found.others.iter().map(|(k, s)| format!("{k} {s}")).collect();
    assert_eq!(others, ["ml/theirs default-scheduler"]);
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
}

#[test]
fn while_kais_scheduler_runs_its_pods_are_left_to_it() {
    let items =
        [node("gpu-1", 1), KAI.to_owned(), pending("kais", "schedulerName: kai-scheduler, ")];
    let found = rehearse(Some(&cluster(&items)), "", None);
    assert!(found.running.kai && found.pods.is_empty(), "{:?}", found.pods);
    assert_eq!(found.others[&ObjectKey::new("ml", "kais")].as_ref(), "kai-scheduler");
    assert!(!rehearse(Some(&cluster(&items[..1])), "", None).running.kai);
}

#[test]
fn a_workload_is_placed_whatever_scheduler_it_names() {
    let workload = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ml}\n\
        spec: {schedulerName: default-scheduler, containers: [{name: c}]}\n";
    let items = [node("gpu-1", 1), pending("p", "schedulerName: default-scheduler, ")];
    let found = rehearse(Some(&cluster(&items)), workload, None);
    assert_eq!(lines(&found), ["ml/p gpu-1"]);
    assert!(found.others.is_empty());
}

#[test]
fn a_namespace_is_given_to_what_names_none() {
    let workload = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\n{BODY}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: b, namespace: own}}\n{BODY}\n---\n\
         apiVersion: batch/v1\nkind: Job\nmetadata: {{name: c}}\nspec: {{template: {{{BODY}}}}}\n"
    );
    let workload = vec![input(&workload)];
    let setup = Setup { workload, namespace: Some("ml".to_owned()), ..Setup::default() };
    let names: Vec<String> = run(&setup).pods.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["ml/a", "own/b", "ml/c-0"]);
}

/// A pod with a term of its own about pods of another namespace.
fn reaching(name: &str, spec: &str) -> String {
    let term = format!("{{topologyKey: {name}, namespaces: [web], labelSelector: {{}}}}");
    format!(
        "- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {name}, namespace: ml}}\n  spec: {{{spec}containers: [{{name: c}}], \
         affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}}}\n"
    )
}

#[test]
fn what_the_pods_of_a_namespace_cost_together_has_the_bounds_of_the_scheduler() {
    let mut items = vec![node("n1", 1)];
    items.extend((0..40).map(|nth| reaching(&format!("bound-{nth:02}"), "nodeName: n1, ")));
    items.extend((0..30).map(|nth| reaching(&format!("waits-{nth:02}"), "")));
    let own = cluster(&[reaching("workload", "")]);
    let rehearsal = rehearse(Some(&cluster(&items)), &own, None);
    let lines = lines(&rehearsal);
    let refused = "have 65 different affinity terms about other namespaces; allowed are 64";
    let (room, beyond) = lines.split_at(24);
    assert!(!room.iter().any(|line| line.contains(refused)), "{room:?}");
    assert_eq!(beyond.len(), 7);
    assert!(beyond.iter().all(|line| line.contains(refused)), "{beyond:?}");
}

#[test]
fn a_pod_may_ask_slices_of_two_mig_profiles_and_gets_both_or_waits() {
    let node = "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: a\n    labels:\n      \
                nvidia.com/mig.strategy: mixed\n      nvidia.com/gpu.memory: \"81920\"\n  status:\n    \
                allocatable: {cpu: \"32\", memory: 128Gi, pods: \"50\", nvidia.com/mig-1g.10gb: \"4\", \
                nvidia.com/mig-3g.40gb: \"1\"}\n";
    let pod = |name: &str, asks: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: ml}}\nspec: \
             {{containers: [{{name: c, image: x, resources: {{limits: {{{asks}}}}}}}]}}\n"
        )
    };
    let both = "nvidia.com/mig-1g.10gb: 2, nvidia.com/mig-3g.40gb: 1";
    let pods = [pod("p", both), pod("q", both), pod("r", "nvidia.com/mig-1g.10gb: 2")].concat();
    let rehearsal = rehearse(Some(&cluster(&[node.to_owned()])), &pods, None);
    let lines = lines(&rehearsal);
    assert_eq!([&*lines[0], &lines[2]], ["ml/p a", "ml/r a"]);
    assert!(lines[1].starts_with("ml/q: ") && lines[1].contains("nvidia.com/mig-"), "{lines:?}");
    let ledger = rehearsal.scheduler.ledger();
    let a = ledger.node(ledger.find("a").unwrap()).unwrap();
    let left = |name: &str| a.devices(divvy_ledger::Device::of_resource(name).unwrap());
    assert_eq!(left("nvidia.com/mig-1g.10gb"), Some((0, 4)));
    assert_eq!(left("nvidia.com/mig-3g.40gb"), Some((0, 1)));
}
