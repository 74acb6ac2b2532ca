//! What kube-scheduler's own filters say, from the Go program of the testbed.

use crate::case::Case;
use divvy_testbed::{Program, Programs, Unavailable};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// What the filters say of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The API server would not take one of the pods: why.
    Invalid(String),
    /// Where the pod may go, and what refuses it elsewhere.
    Nodes {
        /// Names, sorted.
        feasible: Vec<String>,
        /// Plugin and reason by node; `*` for all nodes.
        refused: BTreeMap<String, String>,
    },
}

/// The running program.
#[derive(Debug)]
pub struct Filters {
    child: Child,
    cases: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Filters {
    /// Builds the program if need be and starts it.
    pub fn start() -> Result<Self, Unavailable> {
        let programs = Programs::build_one(Program::Filters, &mut |_| {})?;
        let io = |error| Unavailable::Io { what: "cannot start the filters".to_owned(), error };
        let mut child = Command::new(programs.path(Program::Filters))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(io)?;
        let pipe = || std::io::Error::other("no pipe");
        let cases = child.stdin.take().ok_or_else(|| io(pipe()))?;
        let answers = child.stdout.take().ok_or_else(|| io(pipe()))?;
        Ok(Self { child, cases, answers: BufReader::new(answers) })
    }

    /// Asks about one case.
    pub fn ask(&mut self, case: &Case) -> std::io::Result<Verdict> {
        writeln!(self.cases, "{}", case.line())?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(std::io::Error::other("the filters ended before they answered"));
        }
        let answer: Value = serde_json::from_str(&line)?;
        if let Some(error) = answer["error"].as_str() {
            return Ok(Verdict::Invalid(error.to_owned()));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let feasible = answer["feasible"].as_array().into_iter().flatten().map(text).collect();
        let refused = answer["refused"].as_object().into_iter().flatten();
        let refused = refused.map(|(node, why)| (node.clone(), text(why))).collect();
        Ok(Verdict::Nodes { feasible, refused })
    }
}

impl Drop for Filters {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
