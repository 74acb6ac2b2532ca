//! What lanes do side by side, shown so that it can be read: a line when something starts, its output
//! as one block when it ends, and at least a line every half minute.

use super::report::{Part, render};
use super::times::{self, Time};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After a longer silence people, and CI, think that nothing goes on.
const SILENCE: Duration = Duration::from_secs(30);

/// Where all lanes write.
pub struct Board {
    start: Instant,
    logs: PathBuf,
    state: Mutex<State>,
}

struct State {
    screen: Box<dyn Write + Send>,
    parts: Vec<Part>,
    /// What runs, since when, and where its output goes.
    running: Vec<(String, Instant, PathBuf)>,
    times: Vec<Time>,
    shown: Instant,
}

impl Board {
    /// With these parts in the closing lines, and the output of what runs in this folder.
    pub fn new(parts: &[&'static str], logs: PathBuf, screen: impl Write + Send + 'static) -> Self {
        let parts = parts.iter().map(|name| Part { name, ..Part::default() }).collect();
        let (start, screen) = (Instant::now(), Box::new(screen));
        let (running, times) = (Vec::new(), Vec::new());
        let state = State { screen, parts, running, times, shown: start };
        Self { start, logs, state: Mutex::new(state) }
    }

    /// The folder for output.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// Shows a line.
    pub fn say(&self, line: &str) {
        self.state().show(line);
    }

    /// Changes a part of the closing lines.
    pub fn part(&self, name: &str, change: impl FnOnce(&mut Part)) {
        if let Some(part) = self.state().parts.iter_mut().find(|part| part.name == name) {
            change(part);
        }
    }

    /// A part has failed before anything could be run.
    pub fn fail(&self, part: &str, why: &anyhow::Error) {
        self.say(&format!("{part}: {why:#}"));
        self.part(part, |part| part.check(false));
    }

    /// Does something that says by itself what it does.
    pub fn time<T>(&self, title: &str, work: impl FnOnce() -> T) -> T {
        self.work(false, title, Path::new(""), || (work(), String::new()))
    }

    /// Does something that writes to a log meanwhile; shows the text that it gives in the end.
    pub fn work<T>(
        &self,
        is_test: bool,
        title: &str,
        log: &Path,
        work: impl FnOnce() -> (T, String),
    ) -> T {
        let since = Instant::now();
        let mut state = self.state();
        state.show(&format!("-- {title}"));
        state.running.push((title.to_owned(), since, log.to_owned()));
        drop(state);
        let (result, shown) = work();
        let mut state = self.state();
        state.running.retain(|(running, ..)| running != title);
        let took = since.elapsed();
        state.show(&format!("== {title}: {} s\n{shown}", took.as_secs()));
        state.times.push(Time { title: title.to_owned(), is_test, from: since - self.start, took });
        result
    }

    /// Shows what runs whenever nothing was shown for a while, until all is done.
    pub fn watch(&self, is_done: impl Fn() -> bool) {
        while !is_done() {
            std::thread::sleep(Duration::from_millis(100));
            let mut state = self.state();
            if state.shown.elapsed() > SILENCE {
                let lines: Vec<String> = state.running.iter().map(still_running).collect();
                state.show(&lines.join("\n"));
            }
        }
    }

    /// Shows where the time went and what became of all parts: whether nothing failed.
    pub fn close(&self) -> bool {
        let mut state = self.state();
        let text = format!(
            "{}\n{}",
            times::render(&state.times, self.start.elapsed()),
            render(&state.parts)
        );
        state.show(&text);
        state.parts.iter().all(|part| part.failed == 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn show(&mut self, text: &str) {
        self.shown = Instant::now();
        // Nobody reads on, so nobody waits for the end.
        if writeln!(self.screen, "{text}").is_err() {
            std::process::exit(1);
        }
    }
}

/// With the last thing that it said, in case that it never ends.
fn still_running((title, since, log): &(String, Instant, PathBuf)) -> String {
    let said = std::fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
    let last: String = last.chars().take(100).collect();
    format!(".. {title}: {} s so far  {last}", since.elapsed().as_secs()).trim_end().to_owned()
}
