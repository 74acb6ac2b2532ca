//! A child process with a log, which does not outlive its owner.

use crate::{Unavailable, guard, io};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running program. Dropping it kills it, also when a test panics; if the owner is killed, a guard
/// process does it.
#[derive(Debug)]
pub struct Process {
    child: Option<Child>,
    id: u32,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts a command with its output in `<folder>/<name>.log`.
    pub fn start(command: Command, name: &str, folder: &Path) -> Result<Self, Unavailable> {
        Self::start_with_input(command, name, folder, Stdio::null())
    }

    pub(crate) fn start_with_input(
        mut command: Command,
        name: &str,
        folder: &Path,
        input: Stdio,
    ) -> Result<Self, Unavailable> {
        let log = folder.join(format!("{name}.log"));
        let open = || std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let output = open().map_err(io(format!("cannot write {}", log.display())))?;
        let errors = open().map_err(io(format!("cannot write {}", log.display())))?;
        command.stdin(input).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        // Ctrl-C in a terminal is for the owner, who then ends this one.
        command.process_group(0);
        let child = command.spawn().map_err(io(format!("cannot start {name}")))?;
        let id = child.id();
        guard::add(id);
        Ok(Self { child: Some(child), id, name: name.to_owned(), log })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its output so far.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The most memory that it has had, in bytes; nothing once it is gone.
    pub fn peak_memory(&self) -> Option<u64> {
        self.memory("VmHWM:")
    }

    /// The memory that it has now.
    pub fn memory_now(&self) -> Option<u64> {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
    }

    /// How it ended, if it did.
    pub fn exited(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        Some(status.to_string())
    }

    /// Waits until it has ended by itself: whether it says that all is well.
    pub fn wait(mut self) -> Result<bool, Unavailable> {
        let Some(mut child) = self.child.take() else { return Ok(false) };
        let status = child.wait().map_err(io(format!("cannot wait for {}", self.name)))?;
        guard::remove(self.id);
        Ok(status.success())
    }

    /// Sends a signal by its name, such as `STOP`.
    pub fn signal(&self, name: &str) -> Result<(), Unavailable> {
        signal(self.id, name)
    }

    /// Kills it as the kernel would, with no chance to tidy up, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            guard::remove(self.id);
        }
    }

    /// Lets it live on by itself.
    pub fn detach(mut self) {
        guard::remove(self.id);
        self.child = None;
    }
}

/// Sends a signal by its name to a process that is ours.
pub(crate) fn signal(id: u32, name: &str) -> Result<(), Unavailable> {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, &id.to_string()]).stderr(Stdio::null());
    kill.status().map(|_| ()).map_err(io("cannot run kill"))
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
