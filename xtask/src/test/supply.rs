//! What may come into the build: cargo-deny, of one version, installed into the cache.

use super::board::Board;
use super::job::Job;
use crate::{cargo, root};
use std::process::Command;

const VERSION: &str = "0.20.2";

pub fn check(board: &Board) {
    let folder = divvy_testbed::cache().join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if !program.exists() {
        let mut install = cargo(&["install", "--locked", "--quiet", "--version", VERSION]);
        install.arg("cargo-deny").arg("--root").arg(&folder);
        // Kept if it is cut off, so that the next run goes on from there.
        let target = folder.join("target");
        install.arg("--target-dir").arg(&target);
        // It runs for three seconds: to optimise it would cost minutes.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        install.env("CARGO_PROFILE_RELEASE_LTO", "off");
        install.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        let ended = Job::step("install cargo-deny", install).run(board);
        if !ended.well {
            let why = format!("cargo-deny {VERSION} could not be installed");
            return board.part("supply", |part| part.skip(&why));
        }
        let _ = std::fs::remove_dir_all(target);
    }
    let mut deny = Command::new(program);
    deny.args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
        .current_dir(root());
    Job::step("supply", deny).check(board, "supply");
}
