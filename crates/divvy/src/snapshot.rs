//! `divvy snapshot`

use crate::live::{Live, LiveArgs, PluginArgs};
use crate::progress::Bar;
use crate::{DONE, output};
use anyhow::Context;
use clap::{Args, ValueEnum};
use divvy_cluster::snapshot::{EVERYTHING, Snapshot};
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy snapshot > now.yaml
  divvy snapshot --output-file now.json
  divvy simulate --cluster now.yaml -f new.yaml
  divvy snapshot --context prod | divvy top cards --cluster -

Pods, nodes, namespaces, priority classes, quotas, pod groups, and what volumes need: claims, \
volumes, attachments, storage classes, CSI nodes, drivers and capacities. Collections that you may \
not list are left out with a note, except pods and nodes. Secrets are not read, and of ConfigMaps only that of \
--device-plugin-config-map.

Of each object only the fields that a rehearsal reads are kept: names, labels, amounts of resources, \
rules of placement, which volume is where, who holds what. Environment variables, commands, images, \
messages, parameters and options of storage drivers, and annotations that divvy does not read are \
not among them. docs/output.md has the list.

Exit codes: 0 saved, 1 the cluster could not be read.")]
pub struct SnapshotArgs {
    /// How to write it [default: json if the name of --output-file ends in .json, else yaml]
    #[arg(short, long)]
    pub output: Option<SnapshotFormat>,
    /// Where to save it [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    #[command(flatten)]
    pub plugin: PluginArgs,
    #[command(flatten)]
    pub live: LiveArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SnapshotFormat {
    /// A document for each object
    Yaml,
    /// One List, with a line for each object
    Json,
}

pub fn run(args: &SnapshotArgs) -> anyhow::Result<u8> {
    let bar = Bar::new();
    let snapshot = Live::connect(&args.live)?.read(&EVERYTHING, &args.plugin, &bar)?;
    bar.finish();
    let file = args.output_file.as_deref().filter(|path| path.as_os_str() != "-");
    let is_json = file.and_then(|path| path.extension()).is_some_and(|e| e == "json");
    let text = match args.output {
        Some(SnapshotFormat::Json) => snapshot.to_json(),
        None if is_json => snapshot.to_json(),
        Some(SnapshotFormat::Yaml) | None => yaml(&snapshot)?,
    };
    match file {
        None => output::write(&text)?,
        Some(path) => {
            std::fs::write(path, text)
                .with_context(|| format!("cannot write --output-file {}", path.display()))?;
            output::note(&format!("saved {} in {}", counts(&snapshot), path.display()));
        }
    }
    Ok(DONE)
}

/// A document for each object.
fn yaml(snapshot: &Snapshot) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in &snapshot.objects {
        let object: serde_json::Value =
            serde_json::from_str(object).context("cannot print as YAML")?;
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object).context("cannot print as YAML")?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

/// `12 Pod, 3 Node`.
fn counts(snapshot: &Snapshot) -> String {
    let counts = snapshot.counts.iter().filter(|(_, n)| *n > 0);
    let counts: Vec<String> = counts.map(|(kind, n)| format!("{n} {kind}")).collect();
    if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") }
}
