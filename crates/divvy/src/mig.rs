//! `divvy mig`: what MIG divides cards into.

use crate::cli::{Format, RehearsalArgs, number};
use crate::progress::Bar;
use crate::{DONE, PENDING, input, output};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use divvy_engine::slicing::{CardsInUse, SlicePlan, plan_slices};
use divvy_ledger::mig::{self, MigConfig, Model};
use divvy_sim::{Input, Progress, read_inputs};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct MigArgs {
    #[command(subcommand)]
    pub what: MigCommand,
}

#[derive(Subcommand)]
pub enum MigCommand {
    /// Say whether the configs of a mig-parted file are legal, and what they leave unused
    Check(CheckArgs),
    /// Divide as few free cards as can hold the MIG slices that workloads ask for
    Plan(Box<PlanArgs>),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy mig check -f examples/mig/sharing-config.yaml --model A100-80GB
  kubectl get configmap -n gpu-operator mig-config -o yaml | divvy mig check -f -

Exit codes: 0 all are legal, 2 one is not, 1 bad input.")]
pub struct CheckArgs {
    /// Files of mig-parted, or ConfigMaps that hold them: a file, a folder, or - for standard input;
    /// may be given more than once
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The model of the cards: A100-80GB, or the label nvidia.com/gpu.product of a node
    ///
    /// Without it: the models that a device-filter names; for entries that have none the models that
    /// have all profiles of the file, and one that takes an entry is enough.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<&'static Model>,
    /// How to print the answer; wide says where the slices may lie
    #[arg(short, long, default_value = "table")]
    pub output: Format,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  divvy mig plan -f examples/mig/workloads.yaml  on the embedded cluster
  divvy mig plan -f examples/mig/workloads.yaml --model H100-80GB --cards 2
  divvy mig plan --from-cluster                  for pods that wait there
  divvy mig plan --cluster now.yaml -f pods.yaml --save mig.yaml

Pods ask for slices with resources such as nvidia.com/mig-1g.10gb. What fits without dividing a card \
is placed first, so that only cards are planned that nobody holds then.

Exit codes: 0 all get their slices, 2 something is pending, 1 bad input.")]
pub struct PlanArgs {
    #[command(flatten)]
    pub rehearsal: RehearsalArgs,
    /// Plan on cards of this model instead of a cluster: A100-80GB, or a label nvidia.com/gpu.product
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["cluster", "from_cluster"])]
    pub model: Option<&'static Model>,
    /// How many cards of that model there are, all in one node
    #[arg(long, value_name = "N", requires = "model", default_value = "8")]
    #[arg(value_parser = cards)]
    pub cards: u32,
    /// Also write the configs as a file of mig-parted
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// How to print the plan
    #[arg(short, long, default_value = "table")]
    pub output: Format,
}

fn cards(text: &str) -> Result<u32, String> {
    number(text, 1..=1024, "--cards 4")
}

/// Something is not legal.
const ILLEGAL: u8 = 2;

pub fn run(args: &MigArgs) -> anyhow::Result<u8> {
    match &args.what {
        MigCommand::Check(args) => check(args),
        MigCommand::Plan(args) => plan(args),
    }
}

fn check(args: &CheckArgs) -> anyhow::Result<u8> {
    let mut configs: Vec<MigConfig> = Vec::new();
    for input in read_inputs(args.files.iter().map(PathBuf::as_path), false)? {
        configs.extend(divvy_words::mig_configs(&input.text).context(input.name)?);
    }
    if configs.is_empty() {
        bail!("no mig-configs: give a file of mig-parted, or a ConfigMap that holds one");
    }
    let verdicts = mig::check(&configs, args.model);
    output::print(args.output, &divvy_views::mig_check(&verdicts), |options| {
        divvy_views::mig_check_text(&verdicts, options)
    })?;
    Ok(if verdicts.iter().all(|verdict| verdict.legal) { DONE } else { ILLEGAL })
}

/// What the node is called if only a model is given.
const SOME_NODE: &str = "your-node";

fn plan(args: &PlanArgs) -> anyhow::Result<u8> {
    let has_cluster = args.rehearsal.cluster.cluster.is_some() || args.rehearsal.from_cluster;
    if args.rehearsal.files.is_empty() && !has_cluster {
        bail!(
            "nothing to plan for: give manifests with -f FILE (a folder or - work too), \
             for example `divvy mig plan -f examples/mig/workloads.yaml`"
        );
    }
    let bar = Bar::new();
    let given = match args.model {
        Some(model) => {
            let cluster = Input::node_of_cards(SOME_NODE, model.name, args.cards);
            input::rehearsal_on(&args.rehearsal, cluster, &bar)?
        }
        None => input::rehearsal(&args.rehearsal, false, &bar)?,
    };
    let mut rehearsal = given.rehearsal;
    for partition in &rehearsal.partitions {
        output::note(&format!("note: {}", partition.message()));
    }
    let in_use = CardsInUse::of(&rehearsal.scheduler);
    rehearsal.run(&bar);
    bar.begin("planning", 0);
    let plan = plan_slices(&rehearsal.scheduler, &in_use, &rehearsal.pods);
    bar.finish();
    let config = match plan.configs.as_slice() {
        [] => String::new(),
        configs => divvy_words::mig_configs_text(configs),
    };
    output::print(args.output, &divvy_views::mig_plan(&plan, &config), |options| {
        divvy_views::mig_plan_text(&plan, &config, options)
    })?;
    if let Some(path) = &args.save {
        save(path, &plan, &config)?;
    }
    Ok(if plan.pending.is_empty() { DONE } else { PENDING })
}

/// The file of mig-parted, with what to do with it as comments.
fn save(path: &Path, plan: &SlicePlan, config: &str) -> anyhow::Result<()> {
    if plan.configs.is_empty() {
        output::note(&format!("note: {} is not written: there is no config", path.display()));
        return Ok(());
    }
    let commands = divvy_views::mig_plan_commands(plan);
    let commands: String = commands.lines().map(|line| format!("#   {line}\n")).collect();
    let text = format!("# Made by divvy mig plan, for:\n{commands}{config}");
    std::fs::write(path, text).with_context(|| format!("cannot write --save {}", path.display()))
}
