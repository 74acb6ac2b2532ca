//! The most memory that a cold start takes in a large cluster.

use super::cost::peak_mb;
use super::pods;
use super::stage::{AT_A_TIME, NAMESPACE, Scheduler, Stage};
use super::throughput::say;
use std::time::Duration;

/// Pods that are made between two lines of progress.
const STEP: usize = 5000;

pub async fn measure(stage: &Stage, count: usize) -> anyhow::Result<Scheduler> {
    let mut made = 0;
    while made < count {
        say(&format!("{made} of {count} bound pods made"));
        let end = (made + STEP).min(count);
        let some = (made..end).map(|i| pods::make_bound(i, stage.nodes)).collect();
        stage.api.create_all(some, AT_A_TIME).await?;
        made = end;
    }
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}", pods::name(0));
    let size = stage.api.get(&path).await?.to_string().len();
    let scheduler = stage.start_divvy()?;
    scheduler.ready().await?;
    // What comes right after the first lists belongs to the start.
    tokio::time::sleep(Duration::from_secs(5)).await;
    say("");
    println!(
        "\nPeak memory of a cold start, {} nodes and {count} pods of {:.1} KB: {:.0} MB",
        stage.nodes,
        size as f64 / 1e3,
        peak_mb(scheduler.process.id())?
    );
    Ok(scheduler)
}
