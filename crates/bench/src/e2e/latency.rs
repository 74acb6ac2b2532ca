//! From creation to binding, at ten pods a second on an idle cluster.

use super::cost::quantile;
use super::observer::Observer;
use super::pods::{self, Asked, DIVVY, KUBE};
use super::stage::Stage;
use super::throughput::{clear, say};
use divvy_testbed::Program;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Ten a second.
const PACE: Duration = Duration::from_millis(100);
/// Pods before those that count: whoever has just started is still warming up.
const FIRST: usize = 20;

pub async fn measure(stage: &mut Stage, count: usize) -> anyhow::Result<()> {
    println!("\n{count} pods, ten a second, on {} nodes; milliseconds:\n", stage.nodes);
    println!("| who, what | p50 | p99 |");
    println!("|---|---|---|");
    let divvy = stage.start_divvy()?;
    divvy.ready().await?;
    for (name, asked) in [("whole GPUs", Asked::Whole), ("shares", Asked::Shares)] {
        row(&format!("divvy, {name}"), &one(stage, count, asked, DIVVY).await?);
    }
    drop(divvy);
    stage.plane.start_kube_scheduler()?;
    let took = one(stage, count, Asked::Whole, KUBE).await?;
    row("kube-scheduler, whole GPUs", &took);
    stage.plane.stop(Program::Scheduler);
    Ok(())
}

fn row(name: &str, took: &[f64]) {
    say("");
    println!("| {name} | {:.1} | {:.1} |", quantile(took, 0.5), quantile(took, 0.99));
}

async fn one(
    stage: &Stage,
    count: usize,
    asked: Asked,
    scheduler: &str,
) -> anyhow::Result<Vec<f64>> {
    let load = Load { count, first: FIRST, pace: PACE, asked, scheduler };
    let took = load.measure(stage).await;
    clear(stage, count + FIRST).await?;
    took
}

/// Pods that come at a steady pace.
pub struct Load<'a> {
    pub count: usize,
    /// Pods before those that count.
    pub first: usize,
    pub pace: Duration,
    pub asked: Asked,
    pub scheduler: &'a str,
}

impl Load<'_> {
    /// From creation to binding, in milliseconds. The pods stay.
    pub async fn measure(&self, stage: &Stage) -> anyhow::Result<Vec<f64>> {
        let all = self.count + self.first;
        let mut observer = Observer::start(&stage.api).await?;
        let seen = tokio::spawn(async move {
            let mut seen = BTreeMap::new();
            while seen.len() < all {
                let (name, at) = observer.next().await?;
                seen.insert(name, at);
            }
            anyhow::Ok(seen)
        });
        let mut made = Vec::with_capacity(all);
        let mut tick = tokio::time::interval(self.pace);
        for i in 0..all {
            tick.tick().await;
            if i % 50 == 0 {
                say(&format!("{}: {i} of {all} pods made", self.scheduler));
            }
            made.push(Instant::now());
            stage.api.create(&pods::make(i, self.asked, self.scheduler)).await?;
        }
        let seen = seen.await??;
        let took = made.iter().enumerate().skip(self.first).filter_map(|(i, made)| {
            let bound = seen.get(&pods::name(i))?;
            Some((*bound - *made).as_secs_f64() * 1000.0)
        });
        Ok(took.collect())
    }
}
