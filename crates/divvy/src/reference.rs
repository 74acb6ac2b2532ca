//! `divvy reference`: docs/cli.md, made from the command line's own definition.

use crate::cli::Cli;
use crate::{DONE, output};
use clap::{Command, CommandFactory};
use std::fmt::Write;

pub fn run() -> anyhow::Result<u8> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut page = String::from(
        "# Command line\n\nMade by `cargo xtask docs` from the definition of the command line; a test holds it.\n",
    );
    describe(&mut root, &mut page)?;
    output::write(&page)?;
    Ok(DONE)
}

fn describe(command: &mut Command, page: &mut String) -> anyhow::Result<()> {
    let help = command.render_long_help().to_string();
    let name = command.get_bin_name().unwrap_or("divvy").to_owned();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"))?;
    for sub in command.get_subcommands_mut().filter(|c| !c.is_hide_set()) {
        describe(sub, page)?;
    }
    Ok(())
}
