//! A child process with a log, which does not outlive its owner.

use crate::{Unavailable, io};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running program. Dropping it kills it, also when a test panics.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts a command with its output in `<folder>/<name>.log`.
    pub fn start(mut command: Command, name: &str, folder: &Path) -> Result<Self, Unavailable> {
        let log = folder.join(format!("{name}.log"));
        let open = || std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let output = open().map_err(io(format!("cannot write {}", log.display())))?;
        let errors = open().map_err(io(format!("cannot write {}", log.display())))?;
        command.stdin(Stdio::null()).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        let child = command.spawn().map_err(io(format!("cannot start {name}")))?;
        Ok(Self { child, name: name.to_owned(), log })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its output so far.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it did.
    pub fn exited(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Kills it as the kernel would, with no chance to tidy up, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
