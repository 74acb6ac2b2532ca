//! What a scheduler costs that has nothing to do but to hear that nodes are well.

use super::cost::{cpu_ms, peak_mb};
use super::stage::Scheduler;
use super::throughput::say;
use std::time::{Duration, Instant};

pub async fn measure(scheduler: &Scheduler, seconds: u64) -> anyhow::Result<()> {
    let id = scheduler.process.id();
    say(&format!("idle for {seconds} s"));
    let (start, before) = (Instant::now(), cpu_ms(id)?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let used = (cpu_ms(id)? - before) / start.elapsed().as_secs_f64() / 10.0;
    say("");
    println!("Idle for {seconds} s with node heartbeats: {used:.2} % of a core");
    println!("Peak memory afterwards: {:.0} MB", peak_mb(id)?);
    Ok(())
}
