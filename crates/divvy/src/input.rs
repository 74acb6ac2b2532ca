//! What the subcommands read: cluster, manifests and settings.

use crate::cli::{ClusterArgs, PlacementArgs, RehearsalArgs, StrategyArg};
use crate::kustomize;
use crate::live::Live;
use crate::output;
use crate::progress::Bar;
use anyhow::{Context, anyhow, bail};
use divvy_cluster::snapshot::{EVERYTHING, SavedCollection};
use divvy_engine::{Config, Strategy};
use divvy_lint::{LintFinding, NamedText};
use divvy_sim::{Input, InputError, Rehearsal, Setup, WhatIf, read_inputs};
use divvy_words::isolation::Isolation;
use divvy_words::{FeatureGates, PodRules, keys};
use std::path::{Path, PathBuf};

/// The name of the cluster in the binary, for `--cluster`.
pub const EMBEDDED: &str = "embedded";

/// Where the cluster comes from.
enum Origin<'a> {
    Embedded,
    File(&'a Path),
    Live,
}

/// A rehearsal with everything read and nothing placed, and the namespace of what names none.
/// Warnings have been printed.
pub struct Given {
    pub rehearsal: Rehearsal,
    pub namespace: String,
}

/// Reads what is to be rehearsed. `live` says whether a rehearsal without manifests is about the
/// live cluster.
pub fn rehearsal(args: &RehearsalArgs, live: bool, bar: &Bar) -> anyhow::Result<Given> {
    read_rehearsal(args, live, None, bar)
}

/// The same, to be compared with one that was read before: what was said of that is not said again.
pub fn rehearsal_beside(
    args: &RehearsalArgs,
    other: Option<&Rehearsal>,
    bar: &Bar,
) -> anyhow::Result<Given> {
    read_rehearsal(args, false, other, bar)
}

fn read_rehearsal(
    args: &RehearsalArgs,
    live: bool,
    other: Option<&Rehearsal>,
    bar: &Bar,
) -> anyhow::Result<Given> {
    let config = config(&args.placement)?;
    let cluster = &args.cluster;
    let origin = match (args.from_cluster, origin(cluster)?) {
        (true, _) => Origin::Live,
        (false, Some(origin)) => origin,
        (false, None) if live && !args.has_workload() => Origin::Live,
        (false, None) => {
            if let Some(option) = cluster.live_option() {
                bail!("{option} names a live cluster: add --from-cluster to place there");
            }
            Origin::Embedded
        }
    };
    let file = if let Origin::File(path) = origin { Some(path) } else { None };
    let (mut cluster_input, workload) = read(file, args)?;
    let mut namespace = args.namespace.clone();
    if matches!(origin, Origin::Live) {
        let live = connect(cluster)?;
        cluster_input = Some(live.input(&live.read(&EVERYTHING, &cluster.plugin, bar)?));
        namespace.get_or_insert_with(|| live.namespace().to_owned());
    }
    given(args, config, (cluster_input, workload), namespace, (other, bar))
}

/// The same on a cluster that is made up.
pub fn rehearsal_on(args: &RehearsalArgs, cluster: Input, bar: &Bar) -> anyhow::Result<Given> {
    let config = config(&args.placement)?;
    let (_, workload) = read(None, args)?;
    given(args, config, (Some(cluster), workload), args.namespace.clone(), (None, bar))
}

fn given(
    args: &RehearsalArgs,
    config: Config,
    (cluster, workload): (Option<Input>, Vec<Input>),
    namespace: Option<String>,
    (other, bar): (Option<&Rehearsal>, &Bar),
) -> anyhow::Result<Given> {
    let setup = Setup {
        workload,
        replicas: args.replicas,
        namespace: namespace.clone(),
        config,
        gpu_sharing: args.gpu_sharing,
        partitions: args.partitions.clone(),
        node_changes: args.node_changes(),
        pod_rules: pod_rules(&args.pods_of)?,
        isolation: isolation(args.cluster.gates.feature_gates, args.placement.config.as_deref())?,
        recorded_levels: false,
        ..setup(&args.cluster, cluster)
    };
    let namespace = namespace.unwrap_or_else(|| keys::DEFAULT_NAMESPACE.to_owned());
    let rehearsal = load(&setup, other, bar)?;
    if args.strict && !rehearsal.findings.is_empty() {
        let findings = rehearsal.findings.len();
        let s = if findings == 1 { "" } else { "s" };
        bail!(
            "{findings} mistake{s} in the manifests, and --strict; `divvy lint --diff` shows how to mend them"
        );
    }
    Ok(Given { rehearsal, namespace })
}

/// A cluster with nothing to place: of the live one, if none is given, these collections.
pub fn cluster(
    args: &ClusterArgs,
    reads: &[SavedCollection],
    bar: &Bar,
) -> anyhow::Result<Rehearsal> {
    let input = match origin(args)? {
        Some(Origin::Embedded) => None,
        Some(Origin::File(path)) => read_files(Some(path), &[], false)?.0,
        Some(Origin::Live) | None => {
            let live = connect(args)?;
            Some(live.input(&live.read(reads, &args.plugin, bar)?))
        }
    };
    load(&setup(args, input), None, bar)
}

/// The live cluster, or what else there is.
pub fn connect(args: &ClusterArgs) -> anyhow::Result<Live> {
    Live::connect(&args.live).map_err(|why| {
        anyhow!(
            "{why:#}. Without a live cluster: --cluster FILE reads a saved one, and \
             --cluster embedded is one to try"
        )
    })
}

/// A cluster with nothing to place, as it was read; what is odd in it is not told again.
pub fn holdings(args: &ClusterArgs, cluster: Input) -> anyhow::Result<Rehearsal> {
    Ok(Rehearsal::load(&setup(args, Some(cluster)), &())?)
}

fn setup(args: &ClusterArgs, cluster: Option<Input>) -> Setup {
    let isolation = args.gates.feature_gates.isolation_level.then(Isolation::default);
    let schedulers = args.scheduler_names.clone();
    Setup { cluster, schedulers, isolation, recorded_levels: true, ..Setup::default() }
}

/// What `--cluster` says.
fn origin(args: &ClusterArgs) -> anyhow::Result<Option<Origin<'_>>> {
    let Some(path) = args.cluster.as_deref() else { return Ok(None) };
    if let Some(option) = args.live_option() {
        bail!("--cluster {} is read instead of a live cluster: drop {option}", path.display());
    }
    let is_embedded = path == Path::new(EMBEDDED);
    Ok(Some(if is_embedded { Origin::Embedded } else { Origin::File(path) }))
}

fn load(setup: &Setup, other: Option<&Rehearsal>, bar: &Bar) -> anyhow::Result<Rehearsal> {
    let rehearsal = Rehearsal::load(setup, bar);
    if let Err(InputError::NothingToPlace { .. }) = &rehearsal {
        // A misspelt kind is often why.
        let named = setup.workload.iter().map(|Input { name, text }| NamedText { name, text });
        let found = divvy_lint::lint(&named.collect::<Vec<_>>(), &setup.pod_rules).findings;
        warn(&found.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    let rehearsal = rehearsal?;
    let said = other.map(told).unwrap_or_default();
    let mut warnings = told(&rehearsal);
    warnings.retain(|warning| !said.contains(warning));
    warn(&warnings);
    Ok(rehearsal)
}

/// What is odd in what was read. Whoever names no scheduler in one manifest names none in the others.
fn told(rehearsal: &Rehearsal) -> Vec<String> {
    let is_default = |finding: &&LintFinding| finding.name == divvy_lint::DEFAULT_SCHEDULER;
    let left_to_default = rehearsal.findings.iter().filter(is_default).count();
    let mut findings: Vec<String> = rehearsal
        .findings
        .iter()
        .filter(|finding| !is_default(finding))
        .map(ToString::to_string)
        .collect();
    if let Some(first) = rehearsal.findings.iter().find(is_default) {
        let more = match left_to_default {
            1 => String::new(),
            n => format!(", and so for {} more", n - 1),
        };
        findings.push(format!("{first}{more}"));
    }
    findings.extend(rehearsal.warnings.iter().cloned());
    findings
}

/// The cluster if it is a file, and what is to be placed.
fn read(
    cluster: Option<&Path>,
    args: &RehearsalArgs,
) -> anyhow::Result<(Option<Input>, Vec<Input>)> {
    let (cluster, mut workload) = read_files(cluster, &args.files, args.recursive)?;
    if let Some(folder) = &args.kustomize {
        workload.push(kustomize::build(folder)?);
    }
    if args.demo {
        workload.extend(divvy_sim::examples());
    }
    Ok((cluster, workload))
}

fn read_files(
    cluster: Option<&Path>,
    files: &[PathBuf],
    recursive: bool,
) -> anyhow::Result<(Option<Input>, Vec<Input>)> {
    // One list, so that standard input is not read twice.
    let paths = cluster.into_iter().chain(files.iter().map(PathBuf::as_path));
    let mut inputs = read_inputs(paths, recursive)?.into_iter();
    let Some(path) = cluster else { return Ok((None, inputs.collect())) };
    if path.is_dir() {
        bail!("--cluster {}: give a file, not a folder", path.display());
    }
    Ok((inputs.next(), inputs.collect()))
}

/// Where pods stand in objects of other projects: as these files say, else as divvy knows.
pub fn pod_rules(files: &[PathBuf]) -> anyhow::Result<PodRules> {
    let mut rules = PodRules::built_in().map_err(anyhow::Error::msg)?;
    for path in files {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --pods-of {}", path.display()))?;
        let own =
            PodRules::read(&text).map_err(|why| anyhow!("--pods-of {}: {why}", path.display()))?;
        rules = rules.with(own);
    }
    Ok(rules)
}

/// Who enforces which level of isolation, if levels are told apart.
pub fn isolation(gates: FeatureGates, config: Option<&Path>) -> anyhow::Result<Option<Isolation>> {
    gates.isolation_level.then(|| providers(config)).transpose()
}

/// The providers of isolation that the settings list.
pub fn providers(config: Option<&Path>) -> anyhow::Result<Isolation> {
    let Some(path) = config else { return Ok(Isolation::default()) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read --config {}", path.display()))?;
    let providers =
        divvy_words::isolation_providers(&text).with_context(|| path.display().to_string())?;
    Ok(Isolation::new(providers))
}

/// The settings of the file, overruled by the options.
pub fn config(args: &PlacementArgs) -> anyhow::Result<Config> {
    let mut config = Config::default();
    if let Some(path) = &args.config {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --config {}", path.display()))?;
        config = divvy_words::config(&text).with_context(|| path.display().to_string())?;
    }
    if let Some(strategy) = args.strategy {
        config.node = strategy.into();
        config.card = strategy.into();
    }
    if let Some(strategy) = args.card_strategy {
        config.card = strategy.into();
    }
    Ok(config)
}

impl RehearsalArgs {
    /// What if there were other nodes.
    fn node_changes(&self) -> Vec<WhatIf> {
        let added = self.add_nodes.iter().map(|(count, like)| WhatIf::Add(*count, like.clone()));
        let drained = self.drain.iter().map(|node| WhatIf::Drain(node.clone()));
        let removed = self.remove_node.iter().map(|node| WhatIf::Remove(node.clone()));
        added.chain(drained).chain(removed).collect()
    }

    /// Whether something is given to be placed.
    pub const fn has_workload(&self) -> bool {
        !self.files.is_empty() || self.demo || self.kustomize.is_some()
    }
}

impl ClusterArgs {
    /// The first option that only makes sense with a live cluster.
    fn live_option(&self) -> Option<&'static str> {
        let plugin = self.plugin.device_plugin_config_map.is_some();
        self.live.given().or(plugin.then_some("--device-plugin-config-map"))
    }
}

impl From<StrategyArg> for Strategy {
    fn from(strategy: StrategyArg) -> Self {
        match strategy {
            StrategyArg::Binpack => Self::Binpack,
            StrategyArg::Spread => Self::Spread,
        }
    }
}

const MOST_WARNINGS: usize = 20;

fn warn(warnings: &[String]) {
    for warning in warnings.iter().take(MOST_WARNINGS) {
        output::note(&format!("warning: {warning}"));
    }
    if warnings.len() > MOST_WARNINGS {
        let more = warnings.len() - MOST_WARNINGS;
        output::note(&format!("warning: and {more} more like these"));
    }
}
