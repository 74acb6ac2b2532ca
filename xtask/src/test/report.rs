//! What passed, failed and was skipped, gathered while the parts run.

/// Outcome of one part of the tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    pub passed: usize,
    pub failed: usize,
    /// Why, one for each.
    pub skipped: Vec<String>,
}

impl Part {
    /// One check was made.
    pub fn check(&mut self, passed: bool) {
        self.passed += usize::from(passed);
        self.failed += usize::from(!passed);
    }

    /// Something could not be tried.
    pub fn skip(&mut self, why: &str) {
        self.skipped.push(why.to_owned());
    }

    /// Takes in how a run of `cargo test`, or of one of its binaries, ended and what it said.
    pub fn read(&mut self, well: bool, output: &str) {
        let failed = self.failed;
        output.lines().for_each(|line| self.read_line(line));
        // It did not get as far as counting: it did not compile, or was killed.
        self.failed += usize::from(!well && self.failed == failed);
    }

    fn read_line(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            let count = |word: &str| {
                let before = counts.split(word).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
        } else if let Some((_, why)) = line.split_once("skipped: ") {
            self.skipped.push(why.trim().to_owned());
        } else if line.starts_with("test ")
            && let Some((name, why)) = line.split_once(" ... ignored")
        {
            let why = why.trim_start_matches(", ");
            self.skipped.push(format!("{} {why}", name.trim_start_matches("test ")));
        }
    }
}

/// The closing lines.
pub fn render(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        let Part { name, passed, failed, skipped } = part;
        let result = match (passed, failed, skipped.len()) {
            (0, 0, _) => "skipped".to_owned(),
            (n, 0, 0) => format!("{n} passed"),
            (n, f, s) => format!("{n} passed, {f} failed, {s} skipped"),
        };
        text += &format!("{name:<10} {result}\n");
        for why in skipped {
            text += &format!("{:<10}   skipped: {why}\n", "");
        }
    }
    let sum = |count: fn(&Part) -> usize| parts.iter().map(count).sum::<usize>();
    let (passed, failed) = (sum(|p| p.passed), sum(|p| p.failed));
    text + &format!("\n{passed} passed, {failed} failed, {} skipped", sum(|p| p.skipped.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_test_are_counted() {
        let mut part = Part { name: "unit", ..Part::default() };
        let output = "\
test a ... ok
test slow ... ignored, needs root
skipped: no ../shared/data
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out
test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out
";
        part.read(false, output);
        assert_eq!((part.passed, part.failed), (15, 2));
        assert_eq!(part.skipped, ["slow needs root", "no ../shared/data"]);
    }

    #[test]
    fn a_binary_that_dies_before_it_counts_has_failed() {
        let mut part = Part::default();
        part.read(false, "running 2 tests\ntest a ... ok\n");
        assert_eq!((part.passed, part.failed), (0, 1));
        part.read(true, "test result: ok. 2 passed; 0 failed; 0 ignored");
        assert_eq!((part.passed, part.failed), (2, 1));
    }

    #[test]
    fn the_last_line_is_plain_and_names_all_three() {
        let mut parts = ["format", "supply"].map(|name| Part { name, ..Part::default() });
        parts[0].check(true);
        parts[1].skip("no cargo-deny");
        assert!(render(&parts).ends_with("\n\n1 passed, 0 failed, 1 skipped"));
        assert!(render(&parts).contains("skipped: no cargo-deny"));
    }
}
