//! One target for a while: what libFuzzer says of it, as lines that can be followed.

use super::{TARGET, folder};
use crate::root;
use anyhow::Context;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a line says how far it is.
const PAUSE: Duration = Duration::from_secs(5);
/// Longer inputs reach nothing more, and take longer.
const LONGEST: usize = 4096;
/// An input that takes so many seconds is a finding, also beside other work.
const PATIENCE: u32 = 120;
/// And so is one that takes so many MiB.
const MEMORY: u32 = 2048;

/// A run of one target.
pub struct Run<'a> {
    pub program: &'a Path,
    pub target: &'a str,
    pub time: Duration,
    pub seed: Option<u32>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub target: String,
    pub inputs: u64,
    pub edges: u64,
    pub time: Duration,
    pub finding: Option<PathBuf>,
}

impl Run<'_> {
    /// Runs it to its end, or to the first finding.
    pub fn go(&self) -> anyhow::Result<Outcome> {
        let mut child = self.command()?.spawn().context("failed to start the fuzzer")?;
        let told = Arc::new(Mutex::new(Outcome::default()));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let readers = [out.map(|out| follow(out, &told)), err.map(|err| follow(err, &told))];
        let begin = Instant::now();
        let mut next = begin + PAUSE;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= next {
                next += PAUSE;
                self.say(&told, begin.elapsed());
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        for reader in readers.into_iter().flatten() {
            let _ = reader.join();
        }
        let mut outcome = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
        outcome.target = self.target.to_owned();
        outcome.time = begin.elapsed();
        let is_lost = !status.success() && outcome.finding.is_none();
        anyhow::ensure!(!is_lost, "the fuzzer of {} ended with {status}", self.target);
        self.say(&told, begin.elapsed());
        Ok(outcome)
    }

    fn command(&self) -> anyhow::Result<Command> {
        let grown = folder().join("corpus").join(self.target);
        let findings = folder().join("findings").join(self.target);
        std::fs::create_dir_all(&grown)?;
        std::fs::create_dir_all(&findings)?;
        let fuzz = root().join("crates/fuzz");
        let mut command = Command::new(self.program);
        command.env(TARGET, self.target);
        // What is new goes into the first folder.
        command.arg(grown).arg(fuzz.join("corpus").join(self.target));
        command.arg(format!("-dict={}", fuzz.join("words.dict").display()));
        command.arg(format!("-artifact_prefix={}/", findings.display()));
        command.arg(format!("-max_total_time={}", self.time.as_secs().max(1)));
        command.arg(format!("-max_len={LONGEST}"));
        command.arg(format!("-timeout={PATIENCE}"));
        command.arg(format!("-rss_limit_mb={MEMORY}"));
        command.args(self.seed.map(|seed| format!("-seed={seed}")));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn say(&self, told: &Mutex<Outcome>, so_far: Duration) {
        let told = told.lock().unwrap_or_else(PoisonError::into_inner);
        let (target, inputs, edges) = (self.target, told.inputs, told.edges);
        let rate = inputs * 1000 / u64::try_from(so_far.as_millis()).unwrap_or(1).max(1);
        let findings = u32::from(told.finding.is_some());
        let (so_far, all) = (so_far.as_secs(), self.time.as_secs());
        println!(
            "{target:<12} {so_far:>5} of {all} s  {inputs:>10} inputs  {rate:>7}/s  {edges:>7} edges  {findings} findings"
        );
    }
}

/// Reads what the fuzzer says until it ends.
fn follow(said: impl Read + Send + 'static, told: &Arc<Mutex<Outcome>>) -> JoinHandle<()> {
    let told = Arc::clone(told);
    std::thread::spawn(move || {
        // What fails may be named in bytes that are no text.
        for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if !told.read(&line) {
                println!("{line}");
            }
        }
    })
}

impl Outcome {
    /// Takes in a line of the fuzzer; whether that is all there is to do with it.
    fn read(&mut self, line: &str) -> bool {
        let after = |what: &str| line.split_once(what)?.1.split_whitespace().next();
        let number = |what: &str| after(what)?.parse().ok();
        if let Some(path) = after("Test unit written to ") {
            self.finding = Some(path.into());
            return true;
        }
        if let Some(inputs) = line.strip_prefix("inputs ") {
            let inputs = inputs.split_whitespace().next().and_then(|n| n.parse().ok());
            self.inputs = inputs.unwrap_or(self.inputs).max(self.inputs);
            return true;
        }
        let is_status = line.starts_with('#') && line.contains("cov: ");
        if is_status {
            let inputs = line.trim_start_matches('#').split_whitespace().next();
            let inputs = inputs.and_then(|n| n.parse().ok()).unwrap_or(0);
            self.inputs = self.inputs.max(inputs);
            self.edges = number("cov: ").unwrap_or(self.edges);
        }
        let is_chatter = ["INFO: ", "WARNING: Failed to find function", "Done ", "MS: ", "0x"]
            .iter()
            .any(|known| line.starts_with(known));
        is_status || is_chatter || line.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn the_lines_of_the_fuzzer_are_understood() {
        let mut told = Outcome::default();
        let status =
            "#4194304\tpulse  cov: 9 ft: 12 corp: 3/6b lim: 4096 exec/s: 1048576 rss: 27Mb";
        assert!(told.read(status));
        assert_eq!((told.inputs, told.edges), (4_194_304, 9));
        assert!(told.read("inputs 5000000 in 3000 ms"));
        assert_eq!(told.inputs, 5_000_000);
        let found = "artifact_prefix='f/'; Test unit written to f/crash-1";
        assert!(told.read(found));
        assert_eq!(told.finding.as_deref(), Some(std::path::Path::new("f/crash-1")));
        assert!(!told.read("thread 'main' panicked at src/lib.rs:1:1:"), "people want to see that");
    }
}
