//! A program to run, and how it ended.

use super::board::Board;
use divvy_testbed::Process;
use std::process::Command;

/// A program to run.
pub struct Job {
    title: String,
    /// The line before its output that cargo would print, if it is a binary with tests.
    running: Option<String>,
    command: Command,
}

/// How a program ended.
pub struct Ended {
    pub well: bool,
    /// All that it wrote, errors too, as it came.
    pub output: String,
}

impl Job {
    /// Something that computes, and gives way to tests on real parts.
    pub fn step(title: &str, command: Command) -> Self {
        Self { title: title.to_owned(), running: None, command }.giving_way()
    }

    /// Tests, with the line that cargo prints before it runs them.
    pub fn test(title: String, running: String, command: Command) -> Self {
        Self { title, running: Some(running), command }
    }

    /// It gets what others leave of the processors: tests on real parts have to be in time.
    pub fn giving_way(self) -> Self {
        let command = self.command;
        let mut nice = Command::new("nice");
        nice.args(["-n", "10"]).arg(command.get_program()).args(command.get_args());
        nice.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            nice.current_dir(folder);
        }
        Self { command: nice, ..self }
    }

    /// Runs it to its end and shows its output. It does not outlive this process.
    pub fn run(self, board: &Board) -> Ended {
        let Self { title, running, command } = self;
        let name = title.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let log = board.logs().join(format!("{name}.log"));
        board.work(running.is_some(), &title, &log, || {
            let ended = Process::start(command, &name, board.logs()).and_then(Process::wait);
            let output = std::fs::read(&log).unwrap_or_default();
            let output = String::from_utf8_lossy(&output).into_owned();
            let ended = match ended {
                Ok(well) => Ended { well, output },
                Err(why) => Ended { well: false, output: format!("{output}{why}\n") },
            };
            let running = running.map_or_else(String::new, |line| line + "\n");
            let shown = running + &ended.output;
            (ended, shown)
        })
    }

    /// Runs it as one check of a part.
    pub fn check(self, board: &Board, part: &str) {
        let ended = self.run(board);
        board.part(part, |part| part.check(ended.well));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(name: &str) -> Board {
        let logs = std::env::temp_dir().join(format!("divvy-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&logs).unwrap();
        Board::new(&["it"], logs, std::io::sink())
    }

    fn shell(line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("WORD", "done").current_dir("/");
        shell
    }

    #[test]
    fn what_a_program_says_is_kept_in_its_order_with_errors() {
        let board = board("order");
        let ended = Job::step("it", shell("echo $WORD; echo wrong >&2; pwd")).run(&board);
        assert!(ended.well);
        assert_eq!(ended.output, "done\nwrong\n/\n");
        std::fs::remove_dir_all(board.logs()).unwrap();
    }

    #[test]
    fn a_check_that_fails_is_killed_or_cannot_be_started_is_counted_as_failed() {
        let board = board("checks");
        Job::step("well", shell("true")).check(&board, "it");
        Job::step("wrong", shell("exit 3")).check(&board, "it");
        Job::step("killed", shell("kill -9 $$")).check(&board, "it");
        Job::step("missing", Command::new("/no/such/program")).check(&board, "it");
        Job::test("gone".to_owned(), String::new(), Command::new("/no/such/program"))
            .check(&board, "it");
        board.part("it", |part| assert_eq!((part.passed, part.failed), (1, 4)));
        assert!(!board.close());
        std::fs::remove_dir_all(board.logs()).unwrap();
    }
}
