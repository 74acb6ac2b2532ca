//! Configs of the device plugin and the MIG manager, rehearsed: what they would make of nodes.
#![allow(clippy::unwrap_used, clippy::panic)]

use divvy_engine::Standing;
use divvy_ledger::{Gpus, Mode};
use divvy_sim::{ConfigEffect, Input, Rehearsal, Setup};

const TIME_SLICING: &str = include_str!("../../../examples/partitions/recipe-time-slicing.yaml");
const MIG: &str = include_str!("../../../examples/partitions/recipe-mig.yaml");

fn input(text: &str) -> Input {
    Input { name: "test.yaml".to_owned(), text: text.to_owned() }
}

fn setup(cluster: Option<&str>, workload: &str, partitions: &[(&str, &str)]) -> Setup {
    let owned = |(node, config): &(&str, &str)| ((*node).to_owned(), (*config).to_owned());
    Setup {
        cluster: cluster.map(input),
        workload: vec![input(workload)],
        partitions: partitions.iter().map(owned).collect(),
        ..Setup::default()
    }
}

fn rehearse(cluster: Option<&str>, workload: &str, partitions: &[(&str, &str)]) -> Rehearsal {
    let setup = setup(cluster, workload, partitions);
    let mut rehearsal = Rehearsal::load(&setup, &()).unwrap_or_else(|e| panic!("{e}"));
    rehearsal.run(&());
    rehearsal
}

fn error(cluster: Option<&str>, workload: &str, partitions: &[(&str, &str)]) -> String {
    Rehearsal::load(&setup(cluster, workload, partitions), &()).err().unwrap().to_string()
}

fn messages(rehearsal: &Rehearsal) -> Vec<String> {
    rehearsal.partitions.iter().map(divvy_sim::ConfigOutcome::message).collect()
}

/// `node`, or the reason, of each pod to place.
fn outcomes(rehearsal: &Rehearsal) -> Vec<String> {
    let outcome = |key| match rehearsal.scheduler.standing(key).unwrap() {
        Standing::Placed(at) => at.node.to_string(),
        Standing::Waiting(why) => why.headline(),
        Standing::Astray => "astray".to_owned(),
    };
    rehearsal.pods.iter().map(outcome).collect()
}

fn gpus<'a>(rehearsal: &'a Rehearsal, node: &str) -> &'a Gpus {
    let ledger = rehearsal.scheduler.ledger();
    &ledger.node(ledger.find(node).unwrap()).unwrap().capacity().gpus
}

/// What a node hands out by number.
fn pools(rehearsal: &Rehearsal, node: &str) -> Vec<(String, u32)> {
    gpus(rehearsal, node).pools.iter().map(|p| (p.device.to_string(), p.count)).collect()
}

fn node(name: &str, labels: &str, allocatable: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels: {{nvidia.com/gpu.product: \
         NVIDIA-A100-SXM4-80GB, nvidia.com/gpu.memory: \"81920\", {labels}}}\nstatus: {{allocatable: \
         {{cpu: \"64\", memory: 1Ti, pods: \"100\", {allocatable}}}}}\n---\n"
    )
}

fn eight(name: &str, labels: &str) -> String {
    node(name, &format!("nvidia.com/gpu.count: \"8\", {labels}"), "nvidia.com/gpu: \"8\"")
}

fn running(name: &str, node: &str, resource: &str, count: u32) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: ml}}\nspec: {{nodeName: \
         {node}, containers: [{{name: c, resources: {{limits: {{{resource}: {count}}}}}}}]}}\nstatus: \
         {{phase: Running}}\n---\n"
    )
}

fn map(name: &str, configs: &[(&str, &str)]) -> String {
    let mut text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n");
    for (key, config) in configs {
        text.push_str(&format!("  {key}: |\n"));
        for line in config.lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    text + "---\n"
}

fn slices(replicas: u32, more: &str) -> String {
    format!(
        "sharing: {{timeSlicing: {{{more}resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}"
    )
}

fn mig(name: &str, entries: &str) -> String {
    format!("version: v1\nmig-configs:\n  {name}: [{entries}]")
}

const EVERY: &str = "devices: all, mig-enabled: true, mig-devices: ";

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: policy}}\nspec: {{{spec}}}\n---\n"
    )
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, \
    resources: {limits: {nvidia.com/gpu: 1}}}]}\n";

#[test]
fn the_recipes_time_slices_have_another_name_and_its_own_pods_are_told() {
    let rehearsal = rehearse(Some(&eight("a", "")), TIME_SLICING, &[]);
    assert_eq!(
        messages(&rehearsal),
        ["time-slicing-config: 4 replicas on a, resource nvidia.com/gpu.shared"]
    );
    assert_eq!(pools(&rehearsal, "a"), [("nvidia.com/gpu.shared".to_owned(), 32)]);
    assert!(
        rehearsal.warnings.is_empty() && rehearsal.ignored.is_empty(),
        "{:?}",
        rehearsal.warnings
    );
    for reason in outcomes(&rehearsal) {
        assert!(reason.contains("nvidia.com/gpu.shared"), "{reason}");
    }
    let kept = TIME_SLICING.replace("renameByDefault: true", "renameByDefault: false");
    let rehearsal = rehearse(Some(&eight("a", "")), &kept, &[]);
    assert_eq!(
        messages(&rehearsal),
        ["time-slicing-config: 4 replicas on a, resource nvidia.com/gpu"]
    );
    assert_eq!(outcomes(&rehearsal), ["a", "a"]);
    assert_eq!(gpus(&rehearsal, "a").divided.len(), 8, "each card is divided");
}

#[test]
fn the_recipes_slices_take_its_pods_once_a_node_is_named() {
    let cluster = eight("a", "") + &eight("b", "");
    let rehearsal = rehearse(Some(&cluster), MIG, &[]);
    let said = &messages(&rehearsal)[..];
    assert!(said[0].starts_with("mig-config: nothing changes: no node takes a config of it by the label nvidia.com/mig.config; try one with --partition NODE=CONFIG: "), "{said:?}");
    let rehearsal = rehearse(Some(&cluster), MIG, &[("a", "mixed-workload")]);
    assert_eq!(
        messages(&rehearsal),
        ["mig-config/mixed-workload: every card into 2 x 1g.10gb, 1 x 2g.20gb, 1 x 3g.40gb on a, \
          resources nvidia.com/mig-1g.10gb, nvidia.com/mig-2g.20gb, nvidia.com/mig-3g.40gb; MIG \
          strategy mixed of the ClusterPolicy"]
    );
    assert_eq!(outcomes(&rehearsal), ["a", "a", "a"]);
    let counts: Vec<u32> = gpus(&rehearsal, "a").pools.iter().map(|pool| pool.count).collect();
    assert_eq!(counts, [16, 8, 8]);
    let ledger = rehearsal.scheduler.ledger();
    let cards = ledger.node(ledger.find("a").unwrap()).unwrap().cards();
    let of = |card: &divvy_ledger::Card| match card.mode() {
        Mode::Divided(divided) => divided.taken().1,
        _ => 0,
    };
    assert_eq!(cards.iter().map(of).collect::<Vec<_>>(), [4; 8], "slices are known card by card");
}

/// The recipe as it is: its ClusterPolicy says nothing of how slices are called, so they are GPUs.
#[test]
fn the_whole_recipe_is_rehearsed_as_it_is_written() {
    let recipe = include_str!("../../divvy/tests/sharing/partitions/recipe.yaml");
    let cluster = eight("a", "");
    let rehearsal = rehearse(Some(&cluster), recipe, &[]);
    let said = messages(&rehearsal);
    assert_eq!(said[0], "time-slicing-config: 4 replicas on a, resource nvidia.com/gpu.shared");
    assert!(said[1].starts_with("mig-config: nothing changes: no node takes"), "{said:?}");
    let outcome = outcomes(&rehearsal);
    assert_eq!(outcome.len(), 5);
    for (at, part) in [
        (0, "no nvidia.com/gpu: time slices are called nvidia.com/gpu.shared there"),
        (1, "no nvidia.com/gpu: time slices are called nvidia.com/gpu.shared there"),
        (2, "no nvidia.com/mig-1g.10gb"),
        (3, "no nvidia.com/mig-2g.20gb"),
        (4, "no nvidia.com/mig-3g.40gb"),
    ] {
        assert!(outcome[at].contains(part), "{outcome:?}");
    }
    let rehearsal = rehearse(Some(&cluster), recipe, &[("a", "mixed-workload")]);
    let said = messages(&rehearsal).join("\n");
    assert!(said.contains("mig-config/mixed-workload: nothing would be handed out on a"), "{said}");
    assert!(said.contains("MIG strategy single as the ClusterPolicy says nothing else"), "{said}");
    let mixed = recipe
        .replace("spec:\n  devicePlugin:", "spec:\n  mig: {strategy: mixed}\n  devicePlugin:");
    let rehearsal = rehearse(Some(&cluster), &mixed, &[("a", "mixed-workload")]);
    assert_eq!(outcomes(&rehearsal)[2..], ["a", "a", "a"]);
}

#[test]
fn cards_that_stay_whole_are_whole_beside_slices() {
    let rehearsal = rehearse(Some(&eight("a", "")), MIG, &[("a", "half-of-the-cards")]);
    assert!(messages(&rehearsal)[0].starts_with(
        "mig-config/half-of-the-cards: cards 0-3 into 2 x 3g.40gb, cards 4-7 whole on a, resources \
         nvidia.com/gpu, nvidia.com/mig-3g.40gb"
    ));
    let gpus = gpus(&rehearsal, "a");
    assert_eq!((gpus.cards.len(), gpus.usable, gpus.divided.len()), (4, 4, 4));
    let memory = gpus.cards.iter().chain(gpus.divided.iter().map(|card| &card.memory));
    assert!(memory.into_iter().all(|memory| memory.is_some_and(|bytes| bytes.mib() == 81_920)));
}

#[test]
fn what_mig_cannot_divide_so_is_left_and_said() {
    let rehearsal = rehearse(Some(&eight("a", "")), MIG, &[("a", "too-much")]);
    assert_eq!(
        messages(&rehearsal)[0],
        "mig-config/too-much: nothing changes on a: on A100-80GB the MIG manager would report \
         nvidia.com/mig.config.state=failed: no room for 1g.10gb beside 2 x 3g.40gb: 9 of 8 memory \
         slices are asked"
    );
    assert_eq!(gpus(&rehearsal, "a").cards.len(), 8);
    let t4 = eight("a", "").replace("NVIDIA-A100-SXM4-80GB", "Tesla-T4");
    let said = messages(&rehearse(Some(&t4), MIG, &[("a", "all-1g.10gb")])).remove(0);
    assert!(said.contains("\"Tesla-T4\" is no model that MIG divides"), "{said}");
    let single = node("a", "nvidia.com/gpu.count: \"7\"", "nvidia.com/gpu: \"7\"")
        .replace("SXM4-80GB", "SXM4-80GB-MIG-1g.10gb");
    let said = messages(&rehearse(Some(&single), MIG, &[("a", "all-1g.10gb")])).remove(0);
    assert!(said.contains("how many cards it has is not known"), "{said}");
}

#[test]
fn the_strategy_single_takes_slices_of_one_profile() {
    let config = |entries: &str| map("m", &[("c", &mig("x", entries))]) + POD;
    let labels = "nvidia.com/mig.config: x, nvidia.com/mig.strategy: single";
    let seven = config(&format!("{{{EVERY}{{1g.10gb: 7}}}}"));
    let rehearsal = rehearse(Some(&eight("a", labels)), &seven, &[]);
    assert_eq!(pools(&rehearsal, "a"), [("nvidia.com/gpu".to_owned(), 56)]);
    assert_eq!(outcomes(&rehearsal), ["a"]);
    for (entries, why) in [
        (format!("{{{EVERY}{{1g.10gb: 2, 3g.40gb: 1}}}}"), "and these are 2 profiles"),
        (format!("{{{EVERY}{{}}}}"), "and 8 of 8 cards have none"),
        (
            "{devices: [0], mig-enabled: true, mig-devices: {7g.80gb: 1}}".to_owned(),
            "and 7 of 8 cards stay whole",
        ),
    ] {
        let rehearsal = rehearse(Some(&eight("a", labels)), &config(&entries), &[]);
        let said = &messages(&rehearsal)[0];
        assert!(said.contains(&format!("nothing would be handed out on a: single takes slices of one profile on every card, {why} (MIG strategy single of the node's label")), "{said}");
        assert_eq!(rehearsal.partitions[0].effect, ConfigEffect::Withheld);
        assert_eq!(
            (pools(&rehearsal, "a").iter().map(|p| p.1).sum::<u32>(), gpus(&rehearsal, "a").usable),
            (0, 0)
        );
    }
}

#[test]
fn who_says_the_strategy_is_asked_in_turn() {
    let entry = format!("{{{EVERY}{{1g.10gb: 7}}}}");
    let config = map("m", &[("c", &mig("x", &entry))]) + POD;
    let plugin = map("p", &[("c", "flags: {migStrategy: mixed}")]);
    let none = "nvidia.com/mig.config: x";
    let single = "nvidia.com/mig.config: x, nvidia.com/mig.strategy: single";
    for (labels, more, by) in [
        (
            single,
            plugin + &policy("mig: {strategy: single}"),
            "mixed of the device plugin's config",
        ),
        (single, policy("mig: {strategy: mixed}"), "mixed of the ClusterPolicy"),
        (single, String::new(), "single of the node's label nvidia.com/mig.strategy"),
        (none, policy(""), "single as the ClusterPolicy says nothing else"),
        (none, String::new(), "mixed taken for granted, as nobody says it"),
    ] {
        let rehearsal = rehearse(Some(&eight("a", labels)), &(more + &config), &[]);
        let said = messages(&rehearsal);
        assert!(said[0].ends_with(&format!("; MIG strategy {by}")), "{said:?}");
        let name =
            if by.starts_with("single") { "nvidia.com/gpu" } else { "nvidia.com/mig-1g.10gb" };
        assert_eq!(pools(&rehearsal, "a"), [(name.to_owned(), 56)]);
    }
}

#[test]
fn a_node_gets_the_config_that_its_label_names_else_the_default() {
    let two = [("two", slices(2, "")), ("four", slices(4, ""))];
    let two: Vec<(&str, &str)> = two.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let cluster = eight("a", "nvidia.com/device-plugin.config: two")
        + &eight("b", "")
        + &node("c", "", "").replace("nvidia.com/gpu.memory: \"81920\", ", "");
    let config = map("shared", &two);
    let chosen = policy("devicePlugin: {config: {name: shared, default: four}}");
    let rehearsal = rehearse(Some(&cluster), &(config.clone() + &chosen + POD), &[]);
    assert_eq!(
        messages(&rehearsal),
        [
            "shared/two: 2 replicas on a, resource nvidia.com/gpu",
            "shared/four: 4 replicas on b, resource nvidia.com/gpu"
        ]
    );
    // Without a default there is nothing to choose by.
    let rehearsal = rehearse(Some(&cluster), &(config.clone() + POD), &[]);
    assert_eq!(messages(&rehearsal).len(), 1);
    let rehearsal =
        rehearse(Some(&cluster), &(config + POD), &[("b", "shared/four"), ("a", "four")]);
    assert_eq!(
        messages(&rehearsal),
        ["shared/four: 4 replicas on 2 nodes, resource nvidia.com/gpu"]
    );
    let other = cluster.replace("config: two", "config: nine");
    let said = messages(&rehearse(Some(&other), &(map("m", &two) + POD), &[])).remove(0);
    assert_eq!(
        said,
        "nine: nothing changes on a: the label nvidia.com/device-plugin.config names it, and no ConfigMap that is given has it"
    );
    let named = policy("devicePlugin: {config: {name: elsewhere}}") + POD;
    let said = messages(&rehearse(Some(&cluster), &named, &[]));
    assert_eq!(
        said,
        ["elsewhere: nothing changes: ClusterPolicy policy names it, and no manifest has it"]
    );
}

#[test]
fn one_each_is_known_before_the_plugin_refuses() {
    let pod = POD.replace("gpu: 1", "gpu: 2");
    let config = map("m", &[("any", &slices(4, "failRequestsGreaterThanOne: true, "))]);
    let rehearsal = rehearse(Some(&eight("a", "")), &(config + &pod), &[]);
    assert_eq!(
        messages(&rehearsal),
        ["m: 4 replicas on a, resource nvidia.com/gpu, one for each container"]
    );
    assert_ne!(outcomes(&rehearsal), ["a"]);
    let mps = map("m", &[("any", &slices(4, "").replace("timeSlicing", "mps"))]) + &pod;
    let rehearsal = rehearse(Some(&eight("a", "")), &mps, &[]);
    assert_eq!(
        messages(&rehearsal),
        ["m: 4 MPS replicas on a, resource nvidia.com/gpu, one for each container"]
    );
    let rehearsal = rehearse(Some(&eight("a", "nvidia.com/mig.strategy: mixed")), &mps, &[]);
    assert_eq!(
        messages(&rehearsal),
        [
            "m: nothing would be handed out on a: the device plugin does not start with MPS and the MIG strategy mixed"
        ]
    );
}

#[test]
fn the_config_map_of_a_clusters_own_device_plugin_says_that_a_container_gets_one() {
    let turns = node(
        "a",
        "nvidia.com/gpu.count: \"2\", nvidia.com/gpu.replicas: \"4\", nvidia.com/gpu.sharing-strategy: \
         time-slicing",
        "nvidia.com/gpu: \"8\"",
    );
    let pod = POD.replace("gpu: 1", "gpu: 2");
    let own = map("m", &[("any", &slices(4, "failRequestsGreaterThanOne: true, "))]);
    assert_eq!(outcomes(&rehearse(Some(&turns), &pod, &[])), ["a"], "nobody says so");
    let told = rehearse(Some(&(turns.clone() + &own)), &pod, &[]);
    assert_eq!(outcomes(&told), ["a container gets one of its time slices, 2 asked"]);
    assert_eq!(outcomes(&rehearse(Some(&(turns.clone() + &own)), POD, &[])), ["a"]);
    let other = own.replace("name: m", "name: other");
    let two = rehearse(Some(&(turns.clone() + &own + &other)), &pod, &[]);
    assert_eq!(outcomes(&two), ["a"], "nobody says which of two is in force");
    // What is rehearsed counts instead.
    let lenient = map("new", &[("any", &slices(4, ""))]);
    let whole = eight("a", "") + &own;
    assert_eq!(outcomes(&rehearse(Some(&whole), &(lenient + &pod), &[])), ["a"]);
    let wrong = own.replace("replicas: 4", "replicas: many");
    let told = rehearse(Some(&(turns + &wrong)), POD, &[]);
    let why = "ConfigMap m of the cluster: data[\"any\"]";
    assert!(told.warnings.iter().any(|said| said.starts_with(why)), "{:?}", told.warnings);
}

/// What `kubectl get` prints, or a snapshot keeps, of a pod that the device plugin has refused.
fn refused(node: &str) -> String {
    let status = "phase: Failed, reason: UnexpectedAdmissionError, message: \"request too large: maximum \
                  request size for shared resources is 1; found 2\"";
    running("refused", node, "nvidia.com/gpu", 2).replace("phase: Running", status)
}

#[test]
fn a_pod_that_was_refused_two_slices_says_so_for_all_that_come() {
    let sliced = |name: &str| {
        let labels = "nvidia.com/gpu.count: \"8\", nvidia.com/gpu.replicas: \"4\", \
                      nvidia.com/gpu.sharing-strategy: time-slicing";
        node(name, labels, "nvidia.com/gpu: \"32\"")
    };
    let (one, two) = (POD.to_owned(), POD.replace("gpu: 1", "gpu: 2"));
    let cluster = sliced("a") + &refused("a");
    assert_eq!(outcomes(&rehearse(Some(&cluster), &one, &[])), ["a"]);
    let said = outcomes(&rehearse(Some(&cluster), &two, &[]));
    assert!(said[0].contains("a container gets one of its time slices, 2 asked"), "{said:?}");
    // Of other nodes it says nothing, nor of one that is configured anew.
    let cluster = sliced("a") + &sliced("b") + &refused("a");
    assert_eq!(outcomes(&rehearse(Some(&cluster), &two, &[])), ["b"]);
    let anew = map("m", &[("any", &slices(2, ""))]) + &two;
    assert_eq!(outcomes(&rehearse(Some(&(sliced("a") + &refused("a"))), &anew, &[])), ["a"]);
}

#[test]
fn slices_of_mig_are_shared_once_more() {
    let plugin = "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/mig-3g.40gb, replicas: 3}]}}";
    let config = MIG.to_owned() + "---\n" + &map("p", &[("any", plugin)]);
    let rehearsal = rehearse(Some(&eight("a", "")), &config, &[("a", "half-of-the-cards")]);
    assert_eq!(pools(&rehearsal, "a"), [("nvidia.com/mig-3g.40gb.shared".to_owned(), 24)]);
    assert_eq!(
        messages(&rehearsal)[1],
        "p: replicas, 3 of nvidia.com/mig-3g.40gb on a, resources nvidia.com/gpu, nvidia.com/mig-3g.40gb.shared"
    );
    let gpus = gpus(&rehearsal, "a");
    assert_eq!((gpus.cards.len(), gpus.divided.len()), (4, 4));
}

#[test]
fn what_pods_hold_that_would_not_be_there_is_listed_with_its_holders() {
    let cluster = eight("a", "")
        + &running("train", "a", "nvidia.com/gpu", 3)
        + &running("cpu", "a", "cpu", 1);
    let rehearsal = rehearse(Some(&cluster), TIME_SLICING, &[]);
    let [lost] = &rehearsal.displaced[..] else { panic!("{:?}", rehearsal.displaced) };
    assert_eq!((&*lost.node, lost.device, lost.held, lost.left), ("a", None, 3, 0));
    let pods: Vec<String> = lost.pods.iter().map(|holder| holder.pod.to_string()).collect();
    assert_eq!(pods, ["ml/train"]);
    assert!(rehearsal.warnings.is_empty(), "it is said once: {:?}", rehearsal.warnings);
    // The same name, for something else.
    let kept = TIME_SLICING.replace("renameByDefault: true", "renameByDefault: false");
    assert_eq!(rehearse(Some(&cluster), &kept, &[]).displaced.len(), 1);
}

/// A pod with a share of a card that is called so.
fn share(name: &str, card: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: ml, annotations: {{gpu-fraction: \
         \"0.9\", divvy.dev/cards: \"{card}:77309411328\"}}}}\nspec: {{nodeName: a, schedulerName: \
         divvy-scheduler, containers: [{{name: c}}]}}\nstatus: {{phase: Running}}\n---\n"
    )
}

fn displaced(rehearsal: &Rehearsal) -> (u32, u32, Vec<String>) {
    let [lost] = &rehearsal.displaced[..] else { panic!("{:?}", rehearsal.displaced) };
    assert_eq!(lost.device, None);
    (lost.held, lost.left, lost.pods.iter().map(|holder| holder.pod.name().to_owned()).collect())
}

#[test]
fn shares_are_counted_by_the_cards_that_they_are_on() {
    let half = [("a", "half-of-the-cards")];
    let shares = |cards: &[&str]| {
        let pods = cards.iter().enumerate().map(|(at, card)| share(&format!("s{at}"), card));
        eight("a", "") + &pods.collect::<String>()
    };
    let six = ["GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4", "GPU-5"];
    let (held, left, pods) = displaced(&rehearse(Some(&shares(&six)), MIG, &half));
    assert_eq!((held, left, pods.len()), (6, 4, 6), "two lose theirs, and nobody knows who");
    // As many shares on four cards lose nothing for certain.
    let four = ["GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-0", "GPU-1"];
    assert!(rehearse(Some(&shares(&four)), MIG, &half).displaced.is_empty());
}

#[test]
fn who_is_on_a_card_that_is_known_to_be_divided_is_listed_and_nobody_else() {
    let half = [("a", "half-of-the-cards")];
    let cluster = eight("a", "") + &share("cut", "0") + &share("stays", "5");
    let (held, left, pods) = displaced(&rehearse(Some(&cluster), MIG, &half));
    assert_eq!((held, left, pods), (1, 0, vec!["cut".to_owned()]));
    // Of a whole GPU the kubelet tells the UUID, and a reservation which number that has.
    let given = "status: {phase: Running, containerStatuses: [{name: c, allocatedResourcesStatus: [{name: \
                 nvidia.com/gpu, resources: [{resourceID: GPU-7, health: Healthy}]}]}]}";
    let whole =
        running("whole", "a", "nvidia.com/gpu", 1).replace("status: {phase: Running}", given);
    let reservation = |number: u32| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: r, namespace: kai-resource-reservation, labels: \
             {{runai-gpu-group: g}}, annotations: {{run.ai/reserve_for_gpu_index: GPU-7, \
             divvy.dev/card-number: \"{number}\"}}}}\nspec: {{nodeName: a, containers: [{{name: c}}]}}\n\
             status: {{phase: Running}}\n---\n"
        )
    };
    let on = |number| {
        let cluster = eight("a", "") + &whole + &reservation(number);
        rehearse(Some(&cluster), MIG, &half)
    };
    assert_eq!(displaced(&on(0)), (1, 0, vec!["whole".to_owned()]));
    assert!(on(4).displaced.is_empty());
}

#[test]
fn fewer_replicas_displace_only_if_more_are_held() {
    let shared = |held: u32| {
        let labels = "nvidia.com/gpu.count: \"8\", nvidia.com/gpu.replicas: \"4\", nvidia.com/gpu.sharing-strategy: time-slicing";
        node("a", labels, "nvidia.com/gpu: \"32\"") + &running("p", "a", "nvidia.com/gpu", held)
    };
    let config = map("m", &[("any", &slices(2, ""))]) + POD;
    let rehearsal = rehearse(Some(&shared(20)), &config, &[]);
    let lost = &rehearsal.displaced[0];
    assert_eq!(
        (lost.device.map(|d| d.to_string()), lost.held, lost.left),
        (Some("nvidia.com/gpu".to_owned()), 20, 16)
    );
    let rehearsal = rehearse(Some(&shared(16)), &config, &[]);
    assert_eq!((rehearsal.displaced.len(), pools(&rehearsal, "a")[0].1), (0, 16));
    assert_ne!(outcomes(&rehearsal), ["a"], "all are taken");
}

#[test]
fn selectors_see_the_labels_that_feature_discovery_would_write() {
    let select =
        |label: &str| POD.replace("spec: {", &format!("spec: {{nodeSelector: {{{label}}}, "));
    let shared = map("m", &[("any", &slices(4, ""))]);
    let single = map("m", &[("any", &mig("x", &format!("{{{EVERY}{{1g.10gb: 7}}}}")))])
        + &policy("mig: {strategy: single}");
    let product = "nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB";
    for (config, partition, label) in [
        (&shared, "any", format!("{product}-SHARED")),
        (&shared, "any", "nvidia.com/gpu.replicas: \"4\"".to_owned()),
        (&shared, "any", "nvidia.com/gpu.sharing-strategy: time-slicing".to_owned()),
        (&shared, "any", "nvidia.com/device-plugin.config: any".to_owned()),
        (&single, "x", format!("{product}-MIG-1g.10gb")),
        (&single, "x", "nvidia.com/gpu.count: \"56\"".to_owned()),
        (&single, "x", "nvidia.com/mig.config.state: success".to_owned()),
    ] {
        let workload = config.clone() + &select(&label);
        let placed = rehearse(Some(&eight("a", "")), &workload, &[("a", partition)]);
        assert_eq!(outcomes(&placed), ["a"], "{label}");
        let before = rehearse(Some(&eight("a", "")), &select(&label), &[]);
        assert_ne!(outcomes(&before), ["a"], "{label}");
    }
}

#[test]
fn a_node_that_is_divided_already_is_divided_anew() {
    let labels = "nvidia.com/gpu.count: \"2\", nvidia.com/mig-3g.40gb.count: \"4\", nvidia.com/mig.config: x";
    let cluster = node("a", labels, "nvidia.com/mig-3g.40gb: \"4\"")
        + &running("big", "a", "nvidia.com/mig-3g.40gb", 2);
    let config = |entry: &str| map("m", &[("c", &mig("x", entry))]) + POD;
    let rehearsal = rehearse(Some(&cluster), &config(&format!("{{{EVERY}{{1g.10gb: 7}}}}")), &[]);
    assert_eq!(pools(&rehearsal, "a"), [("nvidia.com/mig-1g.10gb".to_owned(), 14)]);
    let lost = &rehearsal.displaced[0];
    assert_eq!(
        (lost.device.map(|d| d.to_string()).unwrap(), lost.held, lost.left),
        ("nvidia.com/mig-3g.40gb".to_owned(), 2, 0)
    );
    // Undivided again.
    let rehearsal = rehearse(Some(&cluster), &config("{devices: all, mig-enabled: false}"), &[]);
    assert_eq!(
        (gpus(&rehearsal, "a").cards.len(), outcomes(&rehearsal)),
        (2, vec!["a".to_owned()])
    );
    // Nobody says which card is which.
    let part = "{devices: [0], mig-enabled: false}";
    let said = messages(&rehearse(Some(&cluster), &config(part), &[])).remove(0);
    assert!(
        said.contains("which of the cards that it does not name are divided now is not known"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_read_or_found_stops_the_rehearsal() {
    let cluster = eight("a", "");
    let cluster = Some(&*cluster);
    let config = map("m", &[("any", &slices(1, ""))]);
    assert_eq!(
        error(cluster, &config, &[]),
        "ConfigMap m: data[\"any\"]: sharing.timeSlicing.resources[0].replicas: 1; allowed are whole numbers from 2"
    );
    let good = map("m", &[("any", &slices(2, ""))]);
    for (more, expected) in [
        (
            policy("mig: {strategy: both}"),
            "ClusterPolicy policy: spec.mig.strategy: \"both\"; allowed are none, single and mixed",
        ),
        (
            policy("devicePlugin: {config: {name: m, default: x}}"),
            "ClusterPolicy policy: spec.devicePlugin.config.default: \"x\"; allowed are the keys of the ConfigMap: any",
        ),
        (
            policy("devicePlugin: [a]"),
            "ClusterPolicy policy: spec.devicePlugin: a list, expected an object",
        ),
    ] {
        assert_eq!(error(cluster, &(good.clone() + &more), &[]), expected);
    }
    assert_eq!(
        error(cluster, POD, &[("a", "x")]),
        "--partition a=x: no config is given: add the ConfigMap with -f"
    );
    assert_eq!(
        error(cluster, &good, &[("a", "x")]),
        "--partition a=x: no such config is given; there are any"
    );
    assert_eq!(
        error(cluster, &good, &[("b", "any")]),
        "--partition b=any: the cluster has no such node"
    );
    let twice = good + &map("o", &[("any", &slices(2, ""))]);
    assert_eq!(
        error(cluster, &twice, &[("a", "any")]),
        "--partition a=any: several are called so; say m/any or o/any"
    );
}

#[test]
fn other_config_maps_and_policies_are_passed_over() {
    let other = map("app", &[("config.yaml", "a: 1")])
        + "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: [1]\n---\n"
        + POD;
    let rehearsal = rehearse(Some(&eight("a", "")), &other, &[]);
    assert!(rehearsal.partitions.is_empty() && rehearsal.displaced.is_empty());
    let ignored: Vec<_> = rehearsal.ignored.iter().map(|(kind, n)| (kind.as_str(), *n)).collect();
    assert_eq!(ignored, [("ClusterPolicy", 1), ("ConfigMap", 1)]);
    assert_eq!(outcomes(&rehearsal), ["a"]);
}
