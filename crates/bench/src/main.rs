//! Benchmarks: each prints ratios against a reference in the same run, because machines are noisy.

mod admission;
mod e2e;
mod engine;
mod related;
mod sharing;
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
    /// The scheduler on a real API server, beside its bare writes and beside kube-scheduler.
    E2e(e2e::Options),
    /// Reviews by `divvy admission` over TLS, beside a page that decides nothing.
    Admission(admission::Options),
    /// Shares on cards that reservation pods hold, on a real API server, beside plain pods and bare
    /// writes.
    Sharing(sharing::Options),
    /// The bare writes, as `e2e` starts them.
    #[command(hide = true)]
    Raw(e2e::raw::Options),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Engine(options) => engine::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::E2e(options) => e2e::run(&options),
        Command::Admission(options) => admission::run(&options),
        Command::Sharing(options) => sharing::run(&options),
        Command::Raw(options) => e2e::raw::run(&options),
    }
}
