//! A rehearsal is the scheduler: the same pods on the same nodes, by `simulate` and by the live
//! scheduler with kubelets that answer late and in any order, get the same places and the same
//! sentences. The live cluster agrees with a rehearsal of what it is then: at once if nothing was
//! refused and nobody has ended, as soon as all writes are done; else once it has come to rest. What is
//! under way is nowhere but in the process until it is written, and so are the names of nodes that a pod
//! is not sent to for a while because a reservation or a binding was refused there, and for how long an
//! empty card is kept: none of that can be in a snapshot.

mod beside;
mod there;

use super::clusters::api::Fate;
use super::clusters::{Shape, World, classes, hand_off_variables};
use crate::input::Input;
use divvy_engine::{ObjectKey, Reason, Scheduler, Standing};
use divvy_ledger::{Node, Room};
use divvy_sim::{self as sim, Rehearsal, Setup};
use divvy_views::{CardUseState, TopCard, top_cards};
use divvy_words::isolation::Isolation;
use divvy_words::keys;
use serde_json::{Value, json};

const MOST_PODS: usize = 12;
/// Beside each pod so much happens elsewhere.
const MOST_STEPS: usize = 6;

/// Nodes, pods, and in which order they are heard of.
pub fn agreement(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let isolation = classes::told_apart(bytes);
    let hand_off = !input.once_in(4);
    let refuses = input.once_in(3);
    let nodes: Vec<Shape> = ["n1", "n2", "n3"][..1 + input.below(3)]
        .iter()
        .map(|name| node(&mut input, name, isolation.is_some()))
        .collect();
    let mut pods: Vec<Value> = (0..1 + input.below(MOST_PODS))
        .map(|nth| pod(&mut input, nth, isolation.is_some()))
        .collect();
    let mut rest = Input::new(&bytes[bytes.len() / 2..]);
    beside::ask(&mut rest, &mut pods);
    let how = How { hand_off, isolation };
    let Ok(mut world) = World::new(&nodes, hand_off, how.isolation.clone()) else { return };
    world.steps.push(format!("{nodes:?}, {how:?}, refuses: {refuses}"));
    beside::furnish(&mut rest, &mut world, &nodes);
    beside::relate(&mut rest, &mut pods);
    let others = there::settle(&mut rest, &mut world, &nodes);
    let (rehearsed, has_levels) = (rehearse(&with(&world, &pods), &how), how.isolation.is_some());
    let before = Agreement { rehearsed, exact: !others, is_now: false, has_levels };
    for pod in pods {
        world.steps.push(format!("create {pod}"));
        world.put(pod);
        // In their order, and one after the other: as they come in a rehearsal.
        world.hear(&mut Input::new(&[0, 5]));
        world.pass();
        for _ in 0..input.below(MOST_STEPS) {
            let fate = if refuses && input.once_in(3) { Fate::Refused(403) } else { Fate::Well };
            let what = match input.below(3) {
                0 => world.start(&mut input),
                1 => world.perform_one(&mut input, [fate; 2]),
                // Only what is heard of pods that are bound: no other comes before its turn.
                _ => world.hear(&mut Input::new(&[0, 0])),
            };
            world.steps.push(what);
            world.pass();
        }
    }
    world.finish();
    if !refuses {
        now(&world, &how).check(&world);
    }
    world.calm_down(20);
    if !refuses {
        before.check(&world);
    }
    now(&world, &how).check(&world);
    for _ in 0..input.below(4) {
        let what = world.end(&mut input);
        world.steps.push(what);
        world.calm_down(20);
        now(&world, &how).check(&world);
    }
    world.check_replay();
}

/// How both are told to work.
#[derive(Debug)]
struct How {
    hand_off: bool,
    isolation: Option<Isolation>,
}

fn node(input: &mut Input<'_>, name: &'static str, has_levels: bool) -> Shape {
    let (cards, cpu) = (input.below(4), input.pick(&["4", "2", "4001m", "1", "32"]));
    let pods = input.pick(&[110, 1, 2, 3, 4, 5]);
    Shape { name, cards, cpu, pods, is_provided: has_levels && !input.once_in(3) }
}

fn pod(input: &mut Input<'_>, nth: usize, has_levels: bool) -> Value {
    let cpu = input.pick(&["1", "0", "4", "2", "1999m", "500m"]);
    let (mut annotations, mut env) = (json!({}), json!([]));
    let mut resources = json!({ "requests": { "cpu": cpu } });
    let mut asked = input.pick(&["0.5", "0.3", "0.75", "0.5x2", "gpu-memory", "1", "2", "none"]);
    if has_levels && input.once_in(3) {
        asked = "koordinator";
    }
    match asked {
        "none" => {}
        "koordinator" => {
            let compute = input.pick(&["30", "60", "0"]);
            resources["limits"] =
                json!({ keys::KOORDINATOR_CORE: compute, keys::KOORDINATOR_RATIO: "25" });
            env = hand_off_variables();
        }
        whole @ ("1" | "2") => resources["limits"] = json!({ keys::GPU: whole }),
        share => {
            let (size, cards) = share.split_once('x').unwrap_or((share, "1"));
            annotations = match size {
                "gpu-memory" => json!({ keys::GPU_MEMORY: "30000" }),
                _ => json!({ keys::GPU_FRACTION: size, keys::FRACTION_DEVICES: cards }),
            };
            env = hand_off_variables();
        }
    }
    let is_share = env != json!([]);
    let mut pod = json!({
        "metadata": { "namespace": "ml", "name": format!("p{nth:02}"), "annotations": annotations,
            "labels": {}, "creationTimestamp": format!("2027-01-15T08:00:{nth:02}Z") },
        "spec": { "schedulerName": "divvy-scheduler",
            "containers": [{ "name": "c", "env": env, "resources": resources }] },
        "status": { "phase": "Pending" },
    });
    if has_levels && is_share {
        // A rehearsal does not ask whether admission has been there.
        let level = input.pick(&["none", "Shared", "Isolated", "Isoalted"]);
        classes::label(level, &mut pod);
    }
    pod
}

/// What is there, and these pods.
fn with(world: &World, pods: &[Value]) -> String {
    let mut all: Value = serde_json::from_str(&world.objects()).unwrap_or_default();
    for pod in pods {
        let mut pod = pod.clone();
        (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
        if let Some(items) = all["items"].as_array_mut() {
            items.push(pod);
        }
    }
    all.to_string()
}

#[allow(clippy::expect_used)]
fn rehearse(objects: &str, how: &How) -> Rehearsal {
    let cluster = Some(sim::Input { name: "cluster".to_owned(), text: objects.to_owned() });
    let (gpu_sharing, isolation) = (Some(how.hand_off), how.isolation.clone());
    let setup = Setup { cluster, gpu_sharing, isolation, ..Setup::default() };
    let mut rehearsal = Rehearsal::load(&setup, &()).expect("the cluster can be read");
    rehearsal.run(&());
    rehearsal
}

/// What a rehearsal says of the cluster as it is.
fn now(world: &World, how: &How) -> Agreement {
    let has_levels = how.isolation.is_some();
    let rehearsed = rehearse(&world.objects(), how);
    Agreement { rehearsed, exact: false, is_now: true, has_levels }
}

/// What is expected of the live scheduler.
struct Agreement {
    rehearsed: Rehearsal,
    /// Whether cards have the same numbers: what is read from names may count them differently.
    exact: bool,
    /// Whether it was rehearsed as it is now, with all that is known of cards by now.
    is_now: bool,
    /// Whether levels of isolation are told apart.
    has_levels: bool,
}

impl Agreement {
    fn check(&self, world: &World) {
        let live = world.live.scheduler();
        for key in &self.rehearsed.pods {
            let (expected, found) =
                (self.says(&self.rehearsed.scheduler, key), self.says(live, key));
            assert_eq!(found, expected, "live, rehearsed: {key}\n{}", world.story());
        }
        for (name, id) in live.nodes() {
            let other = self.rehearsed.scheduler.ledger();
            // Of several classes the one of the first card is named.
            let room = |node: &Node| match *node.room() {
                room if room.is_mixed && !self.exact => Room { class: None, ..room },
                room => room,
            };
            let other = other.find(name).and_then(|id| other.node(id)).map(room);
            let room = live.ledger().node(id).map(room);
            assert_eq!(room, other, "live, rehearsed: {name}\n{}", world.story());
        }
        let rehearsed = self.cards(&self.rehearsed.scheduler);
        assert_eq!(self.cards(live), rehearsed, "live, rehearsed\n{}", world.story());
    }

    /// Who has which card, as `top cards` says it.
    fn cards(&self, scheduler: &Scheduler) -> Vec<String> {
        let line = |item: &TopCard<'_>| {
            let mut item = item.clone();
            let shares = &mut item.card.shares;
            shares.sort_by_key(|share| share.pod);
            item.claims.sort_by_key(|share| share.pod);
            if !self.exact {
                item.card.index = 0;
            }
            // Where nobody knows which card it is, that is its index too.
            item.card.number = None;
            // Live only those are told that shares have: of the others nobody asks.
            if !self.is_now || item.card.state != CardUseState::Shared {
                item.card.uuid = None;
            }
            serde_json::to_string(&item).unwrap_or_default()
        };
        let mut lines: Vec<String> = top_cards(scheduler).items.iter().map(line).collect();
        lines.sort();
        lines
    }

    /// How a pod stands, in words.
    fn says(&self, scheduler: &Scheduler, key: &ObjectKey) -> String {
        match scheduler.standing(key) {
            Some(Standing::Placed(placement)) if self.exact => format!("{placement:?}"),
            Some(Standing::Placed(placement)) => format!("on {}", placement.node),
            Some(Standing::Waiting(why)) => {
                // A card is called by its number where that is known by then.
                let reason = |reason: &Reason| match reason {
                    Reason::OtherClass { holds, .. } => {
                        format!("cards of {holds:?}")
                    }
                    reason => reason.to_string(),
                };
                let groups = why.refusals.iter().map(|g| (reason(&g.reason), &g.nodes));
                let groups: Vec<_> = groups.collect();
                let nearest = why.nearest.map(|n| scheduler.clone().who_must_end(key, n));
                let (nearest, ends) = nearest.unzip();
                let ends = ends.unwrap_or_default();
                let nearest = match nearest {
                    // Of two cards that are as near, the first by number is named, whoever is on it.
                    Some(near) if !self.exact && self.has_levels => {
                        format!("{} lacks {}", near.node, near.missing)
                    }
                    // The same, but without classes they are as full.
                    Some(near) if !self.exact => {
                        let has = ends.iter().map(|(_, has)| has);
                        format!(
                            "{} lacks {}: {:?}",
                            near.node,
                            near.missing,
                            has.collect::<Vec<_>>()
                        )
                    }
                    nearest => format!("{nearest:?}: {ends:?}"),
                };
                format!("{groups:?}, nearest {nearest}")
            }
            other => format!("{other:?}"),
        }
    }
}
