//! Says whether a provider keeps this container to its limit. A program of its own, for it runs in
//! containers of others, where the provider's CDI device mounts it.

use divvy_node::limit::{self, Finding};
use std::process::ExitCode;

fn main() -> ExitCode {
    let finding = match limit::check() {
        Ok(finding) => finding,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(1);
        }
    };
    println!("{finding}");
    ExitCode::from(if matches!(finding, Finding::InForce { .. }) { 0 } else { 2 })
}
