//! A bar on the terminal for what takes long, and where the time went.

use crate::output::note;
use divvy_sim::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a job does before it is worth a bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// One bar for all phases. It appears on standard error, only on a terminal, only after a while.
pub struct Bar {
    bar: ProgressBar,
    shown: AtomicBool,
    start: Instant,
    phases: Mutex<Vec<(&'static str, Instant)>>,
}

impl Bar {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = "{msg:>10} [{bar:40}] {percent:>3} %  {elapsed}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        let (shown, start) = (AtomicBool::new(false), Instant::now());
        Self { bar, shown, start, phases: Mutex::new(vec![("loading", start)]) }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints how long each phase took.
    pub fn print_timings(&self) {
        let Ok(phases) = self.phases.lock() else { return };
        let ends = phases.iter().skip(1).map(|(_, start)| *start).chain([Instant::now()]);
        for ((phase, start), end) in phases.iter().zip(ends) {
            note(&format!("{phase:<10} {:>8.3} s", (end - *start).as_secs_f64()));
        }
        note(&format!("{:<10} {:>8.3} s", "all", self.start.elapsed().as_secs_f64()));
    }
}

impl Progress for Bar {
    fn begin(&self, phase: &'static str, steps: u64) {
        if let Ok(mut phases) = self.phases.lock() {
            phases.push((phase, Instant::now()));
        }
        self.bar.set_message(phase);
        self.bar.set_length(steps);
        self.bar.set_position(0);
    }

    fn advance(&self, steps: u64) {
        self.bar.inc(steps);
        if self.start.elapsed() > PATIENCE && !self.shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}
