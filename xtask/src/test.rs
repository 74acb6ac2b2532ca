//! `cargo xtask test`: everything that must hold, in one go.
//!
//! ```text
//!   testbed  ─► Go programs of the control plane ─┬─► Go programs of the node ─┐
//!   cargo    ─► format, main job, tests compiled ─┤ lint, doc tests, supply     │
//!   alone                                         ├─► tests that need no testbed
//!   plane                                         ├─► tests on an API server
//!   stress                                        ├─► the same under stress     │
//!   node                                          └─────────────────────────────┴─► tests on the node
//! ```
//!
//! A lane does one thing after another. What computes gives way to what runs on real parts and mostly
//! waits, so that the cores are busy and those tests still find them free.

use crate::{cargo, root, target};
use anyhow::{Context, bail};
use binaries::{Needs, Test};
use board::Board;
use divvy_testbed::{Programs, Unavailable, chart, node};
use job::Job;
use std::process::Command;
use std::sync::OnceLock;
use std::thread::ScopedJoinHandle;

mod binaries;
mod board;
mod job;
mod report;
mod supply;
mod times;

/// The parts of the closing lines.
const PARTS: [&str; 6] = ["format", "lint", "testbed", "unit", "main job", "supply"];

/// What lanes wait for. Each is set in the end, whatever became of it.
#[derive(Default)]
struct Gates {
    plane: OnceLock<()>,
    node: OnceLock<()>,
    tests: OnceLock<Vec<Test>>,
}

impl Gates {
    /// The tests of a lane, once they are compiled and what they need was built.
    fn tests(&self, needs: Needs) -> impl Iterator<Item = &Test> {
        match needs {
            Needs::Nothing => {}
            Needs::Plane | Needs::PlaneForLong => drop(self.plane.wait()),
            Needs::Node => drop(self.node.wait()),
        }
        self.tests.wait().iter().filter(move |test| test.needs == needs)
    }
}

pub fn run() -> anyhow::Result<()> {
    end_with_the_first_panic();
    let logs = target().join("tmp/xtask-test");
    // Those of the last run.
    let _ = std::fs::remove_dir_all(&logs);
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let (board, gates) = (&Board::new(&PARTS, logs, std::io::stdout()), &Gates::default());
    std::thread::scope(|scope| {
        let mut lanes =
            vec![scope.spawn(|| testbed(board, gates)), scope.spawn(|| checks(board, gates))];
        for needs in [Needs::Nothing, Needs::Plane, Needs::PlaneForLong, Needs::Node] {
            let run = move || gates.tests(needs).for_each(|test| test.run(board));
            lanes.push(scope.spawn(run));
        }
        board.watch(|| lanes.iter().all(ScopedJoinHandle::is_finished));
    });
    if !board.close() {
        bail!("some tests failed");
    }
    Ok(())
}

/// A lane that is gone would let others wait for ever.
fn end_with_the_first_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::exit(101);
    }));
}

/// The programs that tests with a real API server or a real node need; they find them in the cache.
fn testbed(board: &Board, gates: &Gates) {
    let mut say = |line: &str| board.say(line);
    let judge = |built: Result<(), Unavailable>| {
        board.part("testbed", |part| match built {
            Ok(()) => part.check(true),
            Err(why) => part.skip(&why.to_string()),
        });
    };
    judge(board.time("programs of the control plane", || Programs::build(&mut say).map(|_| ())));
    let _ = gates.plane.set(());
    judge(board.time("programs of the node", || node::prepare(&mut say)));
    let _ = gates.node.set(());
    // Little is left to compile of it now. Tests that need it earlier build it themselves.
    judge(board.time("helm", || chart::helm(&mut say).map(|_| ())));
}

/// What cargo does, one after another, for it would wait for itself.
fn checks(board: &Board, gates: &Gates) {
    Job::step("format", cargo(&["fmt", "--all", "--check"])).check(board, "format");
    // Before the tests are compiled: it puts its divvy where they look for theirs.
    match main_job() {
        Ok(command) => Job::step("main job", command).check(board, "main job"),
        Err(why) => board.fail("main job", &why),
    }
    let tests = binaries::compile(board);
    let _ = gates.tests.set(tests.unwrap_or_else(|why| {
        board.fail("unit", &why);
        Vec::new()
    }));
    let lint = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    Job::step("lint", cargo(&lint)).check(board, "lint");
    binaries::run_doc_tests(board);
    supply::check(board);
}

/// The README's first command, as written there.
fn main_job() -> anyhow::Result<Command> {
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    let line = readme.lines().find(|l| l.starts_with("cargo run -- simulate"));
    let line = line.context("README.md has no line `cargo run -- simulate ...`")?;
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    Ok(cargo(&words))
}
