//! Two halves for every card at once, beside one share that opens one card.

use super::{HALF, cards, spread, until_returned};
use crate::e2e::cost::median;
use crate::e2e::observer::Observer;
use crate::e2e::pods::{self, Asked, DIVVY};
use crate::e2e::stage::{AT_A_TIME, Stage};
use crate::e2e::throughput::{clear, say};
use anyhow::ensure;
use std::time::{Duration, Instant};

/// Milliseconds from the first create.
struct Burst {
    /// Until the last pod was made.
    made: f64,
    /// Until the last reservation pod was made.
    reserved: f64,
    /// Until the last share was bound.
    bound: f64,
}

pub async fn measure(stage: &Stage, start: Duration, rounds: usize) -> anyhow::Result<()> {
    let divvy = stage.start_divvy()?;
    divvy.ready().await?;
    let (one, all) = (1, 2 * cards(stage));
    say("warming up");
    run(stage, one).await?;
    run(stage, all).await?;
    let (mut ones, mut alls) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        say(&format!("round {} of {rounds}", round + 1));
        ones.push(run(stage, one).await?);
        alls.push(run(stage, all).await?);
    }
    say("");
    println!(
        "\n{all} halves of a card at once that open {} cards, beside one that opens one; reservation pods start \
         in {} ms. Milliseconds from the first create, median (least to most) of {rounds}:\n",
        cards(stage),
        start.as_millis()
    );
    println!("| shares | all made | cards asked for | all bound |");
    println!("|---|---|---|---|");
    let of = |runs: &[Burst], field: fn(&Burst) -> f64| runs.iter().map(field).collect::<Vec<_>>();
    for (count, runs) in [(one, &ones), (all, &alls)] {
        println!(
            "| {count} | {} | {} | {} |",
            spread(&of(runs, |run| run.made)),
            spread(&of(runs, |run| run.reserved)),
            spread(&of(runs, |run| run.bound)),
        );
    }
    let [one, all] = [&ones, &alls].map(|runs| median(&of(runs, |run| run.bound)));
    println!(
        "\nThe burst takes {:.1} times as long as one share alone; one card after another would take {} times as \
         long. Each further share adds {:.1} ms",
        all / one,
        cards(stage),
        (all - one) / (2 * cards(stage) - 1) as f64
    );
    Ok(())
}

async fn run(stage: &Stage, count: usize) -> anyhow::Result<Burst> {
    let made = (0..count).map(|i| pods::make(i, Asked::Part(HALF), DIVVY)).collect();
    let open = count.div_ceil(2);
    let mut observer = Observer::start(&stage.api).await?;
    let start = Instant::now();
    let since = move |at: Instant| (at - start).as_secs_f64() * 1000.0;
    let seen = tokio::spawn(async move {
        let (mut reserved, mut bound) = (Vec::new(), Vec::new());
        while bound.len() < count {
            let (name, at) = observer.next().await?;
            let of = if name.starts_with("gpu-reservation") { &mut reserved } else { &mut bound };
            of.push(since(at));
        }
        anyhow::Ok((reserved, bound))
    });
    stage.api.create_all(made, AT_A_TIME).await?;
    let made = since(Instant::now());
    let (reserved, bound) = seen.await??;
    ensure!(reserved.len() == open, "{} cards for {count} halves", reserved.len());
    clear(stage, count).await?;
    until_returned(stage, 0).await?;
    let last = |times: &[f64]| times.last().copied().unwrap_or(f64::NAN);
    Ok(Burst { made, reserved: last(&reserved), bound: last(&bound) })
}
