//! Says whether a provider keeps this container to its limit. A program of its own, for it runs in
//! containers of others, where the provider's CDI device mounts it.

use divvy_node::limit::{self, Enforcement};
use std::process::ExitCode;

fn main() -> ExitCode {
    let found = match limit::check() {
        Ok(found) => found,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(1);
        }
    };
    println!("{found}");
    ExitCode::from(if matches!(found, Enforcement::InForce { .. }) { 0 } else { 2 })
}
