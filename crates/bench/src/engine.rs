//! `cargo xtask bench engine`: fill a cluster to 90 %, then churn, on one core.

use crate::workload;
use anyhow::{Context, ensure};
use divvy_engine::{Config, Event, ObjectKey, Placement, PlanEffect, PodSpec, Scheduler};
use divvy_testbed::dice::Dice;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Options {
    /// Cluster sizes, in nodes
    #[arg(long, value_delimiter = ',', default_values_t = [1_200, 12_000, 120_000])]
    nodes: Vec<usize>,
    /// Run one size in this process (used by the runs above, which give each size its own)
    #[arg(long, hide = true)]
    alone: bool,
    /// Decisions to churn after the cluster is full
    #[arg(long, default_value_t = 200_000)]
    churn: usize,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    if options.alone {
        for nodes in &options.nodes {
            measure(*nodes, options.churn)?;
        }
        return Ok(());
    }
    println!("One core, nodes of five kinds, binpack. A decision is a bind or a refusal.");
    println!(
        "scan: the same decision by a plain scan of all nodes, on a sample; placements must agree."
    );
    println!();
    println!(
        "{:>8} {:<12} {:<6} {:>10} {:>12} {:>11} {:>9} {:>8}",
        "NODES", "SHAPES", "PHASE", "DECISIONS", "DECISIONS/S", "SCAN/S", "RATIO", "SAMPLED"
    );
    for nodes in &options.nodes {
        let status = std::process::Command::new(std::env::current_exe()?)
            .args(["engine", "--alone", "--nodes", &nodes.to_string()])
            .args(["--churn", &options.churn.to_string()])
            .status()?;
        ensure!(status.success(), "the run with {nodes} nodes failed");
    }
    crate::related::run()
}

fn measure(nodes: usize, churn: usize) -> anyhow::Result<()> {
    let before = memory("VmRSS")?;
    let mut scheduler = Scheduler::new(Config::default());
    for i in 0..nodes {
        scheduler.apply(Event::Node(Box::new(workload::node(i))))?;
    }
    let per_node = (memory("VmRSS")? - before) * 1024 / nodes;

    let mut dice = Dice(1);
    let shapes: Vec<PodSpec> = (0..64).map(|_| workload::spec(&mut dice)).collect();
    let few = |dice: &mut Dice| shapes[dice.index(64)].clone();
    let mut filled = Run::new(scheduler.clone(), usize::MAX);
    let before_pods = memory("VmRSS")?;
    filled.fill(&mut Dice(2), &few);
    let pods = filled.held.len();
    let per_pod = (memory("VmRSS")?.saturating_sub(before_pods)) * 1024 / pods.max(1);
    let peak = memory("VmHWM")? / 1024;
    drop(filled);
    compare(&scheduler, nodes, "64", true, churn, &few)?;
    // The same with isolation levels told apart: once the same pods, none of which asks for one, and
    // once with half of the shares isolated.
    let mut levels = Scheduler::new(Config::default());
    levels.apply(Event::Classes(workload::classes()))?;
    for i in 0..nodes {
        levels.apply(Event::Node(Box::new(workload::provided(workload::node(i)))))?;
    }
    compare(&levels, nodes, "64, gate on", true, churn, &few)?;
    let mixed = |dice: &mut Dice| {
        let spec = shapes[dice.below(64) as usize].clone();
        if dice.below(2) == 0 { workload::isolated(spec) } else { spec }
    };
    compare(&levels, nodes, "64, levels", true, churn, &mixed)?;
    drop(levels);
    // The same number of nodes, all of whose cards are handed out in slices.
    let mut sliced = Scheduler::new(Config::default());
    for i in 0..nodes {
        sliced.apply(Event::Node(Box::new(workload::sliced(workload::node(i)))))?;
    }
    let of_slices = |dice: &mut Dice| workload::of_slices(shapes[dice.below(64) as usize].clone());
    compare(&sliced, nodes, "64, slices", true, churn, &of_slices)?;
    drop(sliced);

    let own = |dice: &mut Dice| {
        let mut spec = workload::spec(dice);
        spec.cpu.0 += dice.below(1000);
        spec.memory.0 += dice.below(1 << 30);
        spec
    };
    let few = churn * 1_200 / nodes.max(1_200) / 4;
    let run = compare(&scheduler, nodes, "one per pod", nodes <= 12_000, few, &own)?;

    first_seen(&run.scheduler, nodes)?;
    println!(
        "{nodes:>8} memory: {per_node} B per node, {per_pod} B per pod ({pods} pods), peak {peak} MiB"
    );
    Ok(())
}

/// Fills and churns twice with the same pods: once for the time, once with a scan beside some of
/// the decisions. A scan in between would empty the caches that the engine is measured with.
fn compare(
    scheduler: &Scheduler,
    nodes: usize,
    shapes: &str,
    fill: bool,
    churn: usize,
    pick: &dyn Fn(&mut Dice) -> PodSpec,
) -> anyhow::Result<Run> {
    let mut timed = Run::new(scheduler.clone(), usize::MAX);
    let mut checked =
        Run::new(scheduler.clone(), ((nodes / 1_200).pow(2) / 10 + 1).min(churn / 10 + 1));
    let mut dice = [Dice(2), Dice(2)];
    let runs = [&mut timed, &mut checked];
    if fill {
        for (run, dice) in runs.into_iter().zip(&mut dice) {
            run.fill(dice, pick);
        }
        print(nodes, shapes, "fill", &mut timed, &mut checked);
    }
    for (run, dice) in [&mut timed, &mut checked].into_iter().zip(&mut dice) {
        run.churn(churn, dice, pick);
    }
    print(nodes, shapes, "churn", &mut timed, &mut checked);
    ensure!(checked.differing.is_empty(), "placements differ: {}", checked.differing[0]);
    ensure!(timed.held == checked.held, "two runs of the same pods differ");
    Ok(timed)
}

fn print(nodes: usize, shapes: &str, phase: &str, timed: &mut Run, checked: &mut Run) {
    let rate = timed.decisions as f64 / timed.busy.as_secs_f64();
    let scan = f64::from(checked.sampled) / checked.scanning.as_secs_f64();
    println!(
        "{nodes:>8} {shapes:<12} {phase:<6} {:>10} {rate:>12.0} {scan:>11.0} {:>8.1}x {:>8}",
        timed.decisions,
        rate / scan,
        checked.sampled
    );
    for run in [timed, checked] {
        run.decisions = 0;
        run.busy = Duration::ZERO;
        run.sampled = 0;
        run.scanning = Duration::ZERO;
    }
}

/// What the first pod of a shape costs, and the second, which builds the ranking.
fn first_seen(scheduler: &Scheduler, nodes: usize) -> anyhow::Result<()> {
    let mut scheduler = scheduler.clone();
    let mut times = [Duration::ZERO; 3];
    let rounds = 200_000 / nodes + 3;
    for round in 0..rounds {
        let mut dice = Dice(round as u64 + 77);
        let mut spec = workload::spec(&mut dice);
        spec.request = divvy_ledger::Request::none();
        spec.rules = Default::default();
        spec.cpu.0 = 1 + round as u64;
        for (visit, total) in times.iter_mut().enumerate() {
            let pod = workload::pod(90_000_000 + round * 3 + visit, spec.clone());
            let key = pod.key.clone();
            let start = Instant::now();
            scheduler.apply(Event::Pod(Box::new(pod)))?;
            scheduler.pass(1);
            *total += start.elapsed();
            scheduler.apply(Event::PodGone(key))?;
        }
    }
    let each = |t: Duration| t.as_nanos() / rounds as u128;
    println!(
        "{nodes:>8} first-seen shape: {} ns per node (first pod {} us, second {} us, third {} us)",
        each(times[0]) / nodes as u128,
        each(times[0]) / 1000,
        each(times[1]) / 1000,
        each(times[2]) / 1000
    );
    Ok(())
}

struct Run {
    scheduler: Scheduler,
    held: Vec<ObjectKey>,
    next: usize,
    every: usize,
    decisions: usize,
    busy: Duration,
    sampled: u32,
    scanning: Duration,
    differing: Vec<String>,
}

impl Run {
    /// `every` says which decisions have a scan beside them.
    fn new(scheduler: Scheduler, every: usize) -> Self {
        Self {
            scheduler,
            held: Vec::new(),
            next: 0,
            every,
            decisions: 0,
            busy: Duration::ZERO,
            sampled: 0,
            scanning: Duration::ZERO,
            differing: Vec::new(),
        }
    }

    /// Adds pods until 90 % of the GPU memory is held.
    fn fill(&mut self, dice: &mut Dice, pick: &dyn Fn(&mut Dice) -> PodSpec) {
        let total: u128 = self.gpu_memory().1;
        let (mut used, mut before) = (0, None);
        // Where kinds of slices are asked unevenly, it ends with the one that is short.
        while used < total / 10 * 9 && before != Some(used) {
            before = Some(used);
            for _ in 0..1000 {
                self.arrive(pick(dice));
            }
            used = self.gpu_memory().0;
        }
    }

    fn churn(&mut self, decisions: usize, dice: &mut Dice, pick: &dyn Fn(&mut Dice) -> PodSpec) {
        for _ in 0..decisions {
            if !self.held.is_empty() {
                let gone = self.held.swap_remove(dice.index(self.held.len()));
                let start = Instant::now();
                let _ = self.scheduler.apply(Event::PodGone(gone));
                self.busy += start.elapsed();
            }
            self.arrive(pick(dice));
        }
    }

    /// One pod comes; if it does not fit it goes again, so that the queue stays short.
    fn arrive(&mut self, spec: PodSpec) {
        let pod = workload::pod(self.next, spec);
        let expected = (self.next % self.every == self.every - 1).then(|| {
            let start = Instant::now();
            let placement = self.scheduler.scan(&pod);
            self.scanning += start.elapsed();
            self.sampled += 1;
            placement
        });
        let key = pod.key.clone();
        self.next += 1;
        let start = Instant::now();
        let _ = self.scheduler.apply(Event::Pod(Box::new(pod)));
        let plan = self.scheduler.pass(usize::MAX);
        self.decisions += plan.units.len();
        let placed = plan.into_effects().find_map(|e| match e {
            PlanEffect::Bind { pod, placement, .. } if pod == key => Some(placement),
            _ => None,
        });
        if placed.is_none() {
            let _ = self.scheduler.apply(Event::PodGone(key.clone()));
        }
        self.busy += start.elapsed();
        if let Some(expected) = expected
            && expected != placed
        {
            self.differing.push(describe(&key, expected.as_ref(), placed.as_ref()));
        }
        if placed.is_some() {
            self.held.push(key);
        }
    }

    fn gpu_memory(&self) -> (u128, u128) {
        let mut sums = (0, 0);
        for (_, node) in self.scheduler.ledger().alive() {
            let room = node.room();
            sums.0 += u128::from(room.gpu_used);
            sums.1 += u128::from(room.gpu_total);
        }
        sums
    }
}

fn describe(key: &ObjectKey, scan: Option<&Placement>, engine: Option<&Placement>) -> String {
    format!("{key}: the scan says {scan:?}, the engine {engine:?}")
}

/// A line of /proc/self/status in KiB; 0 where there is none.
fn memory(field: &str) -> anyhow::Result<usize> {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return Ok(0) };
    let line = status.lines().find(|l| l.starts_with(field)).context("no such field")?;
    Ok(line.split_whitespace().nth(1).unwrap_or("0").parse()?)
}
