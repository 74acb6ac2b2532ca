//! divvy divides GPUs among Kubernetes pods. One subcommand a file; no logic here.

mod cli;
mod completion;
mod explain;
mod input;
mod live;
mod output;
mod progress;
mod reference;
mod scheduler;
mod simulate;
mod snapshot;
mod top;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// All was placed, or the question was answered.
const DONE: u8 = 0;
/// The input is wrong.
const BAD_INPUT: u8 = 1;
/// Something is pending.
const PENDING: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap would exit with 2 here, which means "pending" to our scripts.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { BAD_INPUT } else { DONE });
        }
    };
    let result = match cli.command {
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Scheduler(args) => scheduler::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Reference => reference::run(),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::note(&format!("error: {error:#}"));
            ExitCode::from(BAD_INPUT)
        }
    }
}
