//! Where the time went.

use std::fmt::Write;
use std::time::Duration;

/// When something ran, and how long.
pub struct Time {
    pub title: String,
    /// Whether it is a binary with tests.
    pub is_test: bool,
    /// Since the start of all.
    pub from: Duration,
    pub took: Duration,
}

/// The steps in the order in which they began, then the tests, slowest first.
pub fn render(times: &[Time], all: Duration) -> String {
    let (mut tests, mut steps): (Vec<&Time>, Vec<&Time>) =
        times.iter().partition(|time| time.is_test);
    steps.sort_by_key(|time| time.from);
    tests.sort_by_key(|time| std::cmp::Reverse(time.took));
    let mut text = format!("{} s in all; lanes ran side by side\n", all.as_secs());
    for (heading, times) in [("step", steps), ("tests", tests)] {
        let _ = writeln!(text, "{:>8} {:>8}  {heading}", "seconds", "from");
        for Time { title, from, took, .. } in times {
            let _ = writeln!(text, "{:>8} {:>8}  {title}", took.as_secs(), from.as_secs());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_in_their_order_and_tests_slowest_first() {
        let time = |title: &str, is_test, from, took| Time {
            title: title.to_owned(),
            is_test,
            from: Duration::from_secs(from),
            took: Duration::from_secs(took),
        };
        let times = [
            time("quick", true, 3, 1),
            time("lint", false, 2, 9),
            time("slow", true, 4, 60),
            time("format", false, 0, 2),
        ];
        let text = render(&times, Duration::from_secs(64));
        let expected = "\
64 s in all; lanes ran side by side
 seconds     from  step
       2        0  format
       9        2  lint
 seconds     from  tests
      60        4  slow
       1        3  quick
";
        assert_eq!(text, expected);
    }
}
