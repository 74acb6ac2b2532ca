//! `divvy completion`

use crate::cli::{Cli, CompletionArgs};
use crate::{DONE, output};
use clap::CommandFactory;

pub fn run(args: &CompletionArgs) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "divvy", &mut script);
    output::write(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}
