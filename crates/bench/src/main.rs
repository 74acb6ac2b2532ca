//! Benchmarks: each prints ratios against a reference in the same run, because machines are noisy.

mod engine;
mod related;
mod simulate;
mod workload;

use clap::Parser;

#[derive(Parser)]
#[command(name = "bench", about = "Measure divvy; run through `cargo xtask bench`")]
enum Command {
    /// Decisions per second of the engine, beside a plain scan of all nodes.
    Engine(engine::Options),
    /// `divvy simulate` with many pods on many nodes, phase by phase.
    Simulate(simulate::Options),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Engine(options) => engine::run(&options),
        Command::Simulate(options) => simulate::run(&options),
    }
}
