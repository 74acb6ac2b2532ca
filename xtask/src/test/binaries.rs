//! The binaries that `cargo test` would run one after another, and in which lane each of them runs.

use super::board::Board;
use super::job::Job;
use crate::{cargo, root};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What tests need. Those that need the same run one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing but the processors.
    Nothing,
    /// The programs of the control plane.
    Plane,
    /// The same, for so long that they have a lane of their own.
    PlaneForLong,
    /// The programs of the node as well. One node at a time runs on a machine.
    Node,
}

const FOR_LONG: [&str; 1] = ["stress"];
const ON_A_NODE: [&str; 3] = ["isolation", "node", "sharing"];

/// A binary with tests.
#[derive(Debug)]
pub struct Test {
    pub needs: Needs,
    /// Its package.
    package: String,
    /// The folder of its package.
    folder: PathBuf,
    /// Its source, as cargo names it.
    source: String,
    executable: PathBuf,
}

/// Compiles all tests.
pub fn compile(board: &Board) -> anyhow::Result<Vec<Test>> {
    let build = ["test", "--workspace", "--no-run", "--quiet"];
    ensure!(Job::step("compile", cargo(&build)).run(board).well, "the tests do not compile");
    let metadata = cargo(&["metadata", "--no-deps", "--format-version=1"]).output()?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    // Nothing is left to compile; this only says what there is.
    let messages = cargo(&build).arg("--message-format=json").output()?;
    let messages = String::from_utf8(messages.stdout)?;
    let mut tests = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line)?;
        let is_its = |package: &&Value| package["manifest_path"] == message["manifest_path"];
        let package = packages.iter().find(is_its);
        tests.extend(package.and_then(|package| Test::read(&message, package)));
    }
    ensure!(!tests.is_empty(), "cargo names no tests");
    Ok(tests)
}

/// The tests in comments, of all crates.
pub fn run_doc_tests(board: &Board) {
    let command = cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    let ended = Job::test("doc tests".to_owned(), String::new(), command).giving_way().run(board);
    board.part("unit", |part| part.read(ended.well, &ended.output));
}

impl Test {
    /// From what cargo says of something it made and of its package, if that has tests.
    fn read(made: &Value, package: &Value) -> Option<Self> {
        let executable = PathBuf::from(made["executable"].as_str()?);
        if made["profile"]["test"] != true {
            return None;
        }
        let target = &made["target"];
        let is_integration = target["kind"] == json!(["test"]);
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
        let source = Path::new(target["src_path"].as_str()?);
        let source = source.strip_prefix(&folder).unwrap_or(source).display();
        let mut dependencies = package["dependencies"].as_array()?.iter();
        let uses_testbed = dependencies.any(|d| d["name"] == "divvy-testbed");
        let needs = match target["name"].as_str()? {
            // Those beside the code start nothing.
            _ if !is_integration || !uses_testbed => Needs::Nothing,
            name if ON_A_NODE.contains(&name) => Needs::Node,
            name if FOR_LONG.contains(&name) => Needs::PlaneForLong,
            _ => Needs::Plane,
        };
        Some(Self {
            needs,
            package: package["name"].as_str()?.to_owned(),
            folder,
            source: if is_integration { source.to_string() } else { format!("unittests {source}") },
            executable,
        })
    }

    /// Runs it as cargo does.
    pub fn run(&self, board: &Board) {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        let title = format!("{} {}", self.package, self.source);
        let executable = self.executable.strip_prefix(root()).unwrap_or(&self.executable);
        let running = format!("     Running {} ({})", self.source, executable.display());
        let job = Job::test(title, running, command);
        let job = if self.needs == Needs::Nothing { job.giving_way() } else { job };
        let ended = job.run(board);
        board.part("unit", |part| part.read(ended.well, &ended.output));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cargo says of a binary of the package `divvy`.
    fn made(kind: &str, name: &str, source: &str) -> Value {
        json!({
            "reason": "compiler-artifact", "manifest_path": "/w/crates/divvy/Cargo.toml",
            "target": {"kind": [kind], "name": name, "src_path": format!("/w/crates/divvy/{source}")},
            "profile": {"test": true}, "executable": format!("/w/target/debug/deps/{name}-1"),
        })
    }

    fn package(uses: &str) -> Value {
        json!({"name": "divvy", "manifest_path": "/w/crates/divvy/Cargo.toml",
            "dependencies": [{"name": "anyhow"}, {"name": uses}]})
    }

    #[test]
    fn a_test_waits_for_what_it_may_start_and_no_more() {
        let needs = |made: &Value, uses: &str| Test::read(made, &package(uses)).map(|t| t.needs);
        let stress = made("test", "stress", "tests/stress/main.rs");
        assert_eq!(needs(&stress, "divvy-testbed"), Some(Needs::PlaneForLong));
        assert_eq!(needs(&stress, "divvy-engine"), Some(Needs::Nothing));
        let live = made("test", "live", "tests/live.rs");
        assert_eq!(needs(&live, "divvy-testbed"), Some(Needs::Plane));
        let unit = made("bin", "divvy", "src/main.rs");
        assert_eq!(needs(&unit, "divvy-testbed"), Some(Needs::Nothing));
        let mut program = unit.clone();
        program["profile"]["test"] = json!(false);
        assert_eq!(needs(&program, "divvy-testbed"), None);
    }

    #[test]
    fn a_test_is_named_as_cargo_names_it() {
        let source = |made: &Value| Test::read(made, &package("x")).unwrap().source;
        assert_eq!(source(&made("test", "live", "tests/live.rs")), "tests/live.rs");
        assert_eq!(source(&made("lib", "divvy", "src/lib.rs")), "unittests src/lib.rs");
    }

    #[test]
    fn tests_that_start_a_node_are_in_its_lane() {
        let mut folders = vec![root().join("crates")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs")
                    && std::fs::read_to_string(&path).unwrap().contains("Node::start(")
                    && let Some((_, target)) = path.to_str().unwrap().split_once("/tests/")
                {
                    let target = target.split(['/', '.']).next().unwrap();
                    assert!(ON_A_NODE.contains(&target), "{} starts a node", path.display());
                }
            }
        }
    }
}
