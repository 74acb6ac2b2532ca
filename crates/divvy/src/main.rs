//! divvy divides GPUs among Kubernetes pods. One subcommand a file; no logic here.

mod admission;
mod cli;
mod compare;
mod completion;
mod daemon;
mod doctor;
mod explain;
mod input;
mod isolation;
mod kustomize;
mod lint;
mod live;
mod mig;
mod mistakes;
mod node;
mod output;
mod plugin;
mod progress;
mod reference;
mod report;
mod reserve;
mod scheduler;
mod simulate;
mod snapshot;
mod top;
mod uninstall;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use plugin::Called;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// All was placed, or the question was answered.
const DONE: u8 = 0;
/// The input is wrong.
const BAD_INPUT: u8 = 1;
/// Something is pending.
const PENDING: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let called = words.first().and_then(|word| Path::new(word).file_name());
    let mut command = Cli::command();
    match Called::by(&called.unwrap_or_default().to_string_lossy()) {
        Called::Divvy => {}
        Called::Plugin => command = plugin::renamed(command),
        Called::Completion => {
            let words = words.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
            return exit(plugin::complete(command, &words.collect::<Vec<_>>()));
        }
    }
    let words = mistakes::kinds_apart(&command, words);
    let matches = command.try_get_matches_from_mut(words);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // clap would exit with 2 here, which means "pending" to our scripts.
            let error = mistakes::explained(error);
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { BAD_INPUT } else { DONE });
        }
    };
    exit(match cli.command {
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Mig(args) => mig::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Scheduler(args) => scheduler::run(&args),
        Command::Admission(args) => admission::run(&args),
        Command::Reserve(args) => reserve::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Uninstall(args) => uninstall::run(&args),
        Command::Isolation(args) => isolation::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Reference => reference::run(),
    })
}

fn exit(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::note(&format!("error: {error:#}"));
            ExitCode::from(BAD_INPUT)
        }
    }
}
