//! `divvy explain`

use crate::cli::{ExplainArgs, ExplainPodArgs, Explained};
use crate::progress::Bar;
use crate::{DONE, PENDING, input, output};
use anyhow::{Context, bail};
use divvy_engine::PodKey;

pub fn run(args: &ExplainArgs) -> anyhow::Result<u8> {
    let Explained::Pod(args) = &args.what;
    let bar = Bar::new();
    let mut rehearsal = input::rehearsal(&args.rehearsal, &bar)?;
    let key = key_of(&args.pod);
    let is_bound = rehearsal.scheduler.holding(&key).is_some();
    rehearsal.run(&bar);
    bar.finish();
    if rehearsal.ended.contains(&key) {
        bail!("pod {key} has ended: it waits for nothing and holds nothing");
    }
    let explanation = divvy_views::explain(&rehearsal.scheduler, &key, is_bound)
        .with_context(|| not_found(&key, args, &rehearsal.pods))?;
    output::print(args.output, &explanation, |options| {
        divvy_views::explanation_text(&explanation, options)
    })?;
    let placed = rehearsal.scheduler.holding(&key).is_some();
    Ok(if placed { DONE } else { PENDING })
}

fn key_of(text: &str) -> PodKey {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    PodKey::new(namespace, name)
}

/// Controllers number their pods, so a near miss is common: name those that are there.
fn not_found(key: &PodKey, args: &ExplainPodArgs, pods: &[PodKey]) -> String {
    let source = match &args.rehearsal.cluster.cluster {
        Some(path) => path.display().to_string(),
        None => "the embedded cluster".to_owned(),
    };
    let like = pods.iter().filter(|p| p.name().starts_with(key.name()));
    let mut like: Vec<String> = like.take(4).map(PodKey::to_string).collect();
    let tail = match like.len() {
        0 => "give its manifest with -f, or a cluster that has it with --cluster".to_owned(),
        n => {
            let more = if n == 4 { like.pop().map_or("", |_| " and more") } else { "" };
            format!("there is {}{more}", like.join(", "))
        }
    };
    format!("no pod {key} in {source} or the manifests given; {tail}")
}
