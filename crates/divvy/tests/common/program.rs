//! divvy as it was built for these tests.

use std::process::Command;

/// The program, with nothing said to it yet.
pub fn divvy() -> Command {
    Command::new(env!("CARGO_BIN_EXE_divvy"))
}
