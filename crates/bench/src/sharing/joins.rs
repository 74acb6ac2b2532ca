//! From creation to binding, of shares that join a card that is open already.

use super::{Options, cards, reservations, until_returned};
use crate::e2e::cost::quantile;
use crate::e2e::latency::Load;
use crate::e2e::observer::Observer;
use crate::e2e::pods::{self, Asked, DIVVY};
use crate::e2e::stage::{NAMESPACE, Stage};
use crate::e2e::throughput::{clear, say};
use anyhow::ensure;
use std::time::Duration;

/// Pods before those that count.
const FIRST: usize = 10;
/// So small that one card has room for all.
const SMALL: Asked = Asked::Part("0.005");
const KINDS: [(&str, Asked); 4] = [
    ("no GPU", Asked::Nothing),
    ("no GPU, the variables of a share", Asked::Variables),
    ("whole GPUs", Asked::Whole),
    ("shares that join a card", SMALL),
];
/// The pod that keeps the card open.
const OPENER: usize = 900_000;

pub async fn measure(stage: &Stage, options: &Options) -> anyhow::Result<()> {
    let count = options.pods;
    ensure!(count + FIRST < cards(stage), "{count} pods are too many for {} cards", cards(stage));
    let divvy = stage.start_divvy()?;
    divvy.ready().await?;
    let mut observer = Observer::start(&stage.api).await?;
    stage.api.create(&pods::make(OPENER, SMALL, DIVVY)).await?;
    while observer.next().await?.0 != pods::name(OPENER) {}
    let mut took: [Vec<Vec<f64>>; KINDS.len()] = Default::default();
    for round in 0..options.rounds {
        for step in 0..KINDS.len() {
            // There and back, so that nobody is always the first.
            let at = if round % 2 == 0 { step } else { KINDS.len() - 1 - step };
            let (Some((name, asked)), Some(took)) = (KINDS.get(at), took.get_mut(at)) else {
                break;
            };
            say(&format!("round {} of {}: {name}", round + 1, options.rounds));
            let pace = Duration::from_secs(1) / options.pods_per_second;
            let load = Load { count, first: FIRST, pace, asked: *asked, scheduler: DIVVY };
            took.push(load.measure(stage).await?);
            let open = reservations(stage).await?.len();
            ensure!(open == 1, "{open} cards are open: {name} did not join one");
            clear(stage, count + FIRST).await?;
        }
    }
    stage
        .api
        .delete(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{}", pods::name(OPENER)))
        .await?;
    until_returned(stage, 0).await?;
    report(options, &took);
    Ok(())
}

fn report(options: &Options, took: &[Vec<Vec<f64>>]) {
    say("");
    println!(
        "\n{} pods a round, {} a second, {} rounds; milliseconds from creation to binding:\n",
        options.pods, options.pods_per_second, options.rounds
    );
    println!("| asks | p50 | p50 of each round | p99 |");
    println!("|---|---|---|---|");
    let mut medians = Vec::new();
    for ((name, _), rounds) in KINDS.iter().zip(took) {
        let all = rounds.concat();
        let each: Vec<String> =
            rounds.iter().map(|took| format!("{:.1}", quantile(took, 0.5))).collect();
        let p50 = quantile(&all, 0.5);
        println!("| {name} | {p50:.1} | {} | {:.1} |", each.join(" "), quantile(&all, 0.99));
        medians.push(p50);
    }
    println!();
    if let [plain, alike, whole, joins] = medians[..] {
        println!("A share that joins a card takes {:.2} of a plain pod,", joins / plain);
        println!("{:.2} of a plain pod with the same variables", joins / alike);
        println!("A whole GPU takes {:.2} of a plain pod", whole / plain);
    }
}
