//! One target under libFuzzer, which `cargo xtask fuzz` starts: its name is in the environment, for
//! the arguments are libFuzzer's.
#![no_main]

use divvy_fuzz::Target;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Which target to run.
const NAME: &str = "DIVVY_FUZZ_TARGET";
/// How often it is said how many inputs were tried.
const PAUSE: Duration = Duration::from_secs(1);

static TARGET: OnceLock<Target> = OnceLock::new();
static INPUTS: AtomicU64 = AtomicU64::new(0);

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var(NAME).unwrap_or_default();
        match Target::find(&name) {
            Some(target) => {
                let _ = TARGET.set(target);
            }
            None => panic!("{NAME}: {name:?} is no target"),
        }
        std::thread::spawn(tell);
    },
    |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            target.run(bytes);
        }
        INPUTS.fetch_add(1, Relaxed);
    }
);

/// Says how many inputs were tried, as libFuzzer itself does only now and then.
fn tell() {
    let begin = Instant::now();
    loop {
        std::thread::sleep(PAUSE);
        println!("inputs {} in {} ms", INPUTS.load(Relaxed), begin.elapsed().as_millis());
    }
}
