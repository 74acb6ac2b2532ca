//! Processes in pid and mount namespaces of their own, so that the node's mounts, sockets and
//! containers are nowhere else and end with it.

use super::ground::{Ground, HIDDEN};
use crate::control_plane::PATIENCE;
use crate::process::{Process, signal};
use crate::{Program, Unavailable, io};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The first process of the node: a fresh `/run`, folders of its own over those that are given,
/// and then it waits for whatever the dead leave behind.
const INIT: &str = r#"
set -e
mount --make-rshared /
mount -t tmpfs -o mode=755 run /run
for at in "$@"; do
  mount --bind "$FOLDER$at" "$at"
done
touch /run/booted
while :; do sleep 1000000 & wait $!; done
"#;

/// A program in the namespaces, below one outside that waits for it (`unshare` or `nsenter`).
#[derive(Debug)]
pub(super) struct Inside {
    /// None once it lives on by itself.
    outer: Option<Process>,
}

/// As long as a machine is up: its end is the end of all that runs in it, as by a power cut.
#[derive(Debug)]
pub(super) struct Boot {
    init: Inside,
    id: u32,
}

impl Boot {
    /// Folders below `folder` take the place of those of the machine; the log goes there, too. It
    /// holds the lock of the ground: the next node waits for its end.
    pub fn start(folder: &Path, ground: &Ground) -> Result<Self, Unavailable> {
        for at in HIDDEN {
            let own = folder.join(at.trim_start_matches('/'));
            std::fs::create_dir_all(own).map_err(io("cannot make a folder"))?;
        }
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--kill-child", "--mount-proc", "sh", "-c", INIT, "sh"]);
        command.args(HIDDEN).env("FOLDER", folder);
        let lock = ground.lock.try_clone().map_err(io("cannot share the lock"))?;
        let outer = Process::start_with_input(command, "init", folder, lock.into())?;
        let mut init = Inside { outer: Some(outer) };
        let start = Instant::now();
        loop {
            if let Some(id) = init.id()
                && Path::new(&format!("/proc/{id}/root/run/booted")).exists()
            {
                return Ok(Self { init, id });
            }
            if init.exited().is_some() || start.elapsed() > PATIENCE {
                let why = std::fs::read_to_string(folder.join("init.log")).unwrap_or_default();
                return Err(Unavailable::NoNode(format!("cannot make namespaces: {}", why.trim())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A command that will run inside.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.id)).args(["--mount", "--pid", "--"]).arg(program);
        command
    }

    /// Where a path of the inside is, seen from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.id))
    }

    /// The power cut.
    pub fn kill(mut self) {
        self.init.kill();
    }

    /// Lets it live on by itself: the program and the id of the process that, when it is killed, takes
    /// all with it.
    pub fn detach(self) -> (String, u32) {
        let id = self.init.outer.as_ref().map_or(0, Process::id);
        self.init.detach();
        ("unshare".to_owned(), id)
    }
}

impl Inside {
    /// Starts a command that was made by [`Boot::command`].
    pub fn start(command: Command, program: Program, logs: &Path) -> Result<Self, Unavailable> {
        Ok(Self { outer: Some(Process::start(command, program.name(), logs)?) })
    }

    fn id(&self) -> Option<u32> {
        let outer = self.outer.as_ref()?.id();
        let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
        children.ok()?.split_whitespace().next()?.parse().ok()
    }

    /// How it ended, if it did.
    pub fn exited(&mut self) -> Option<String> {
        self.outer.as_mut()?.exited()
    }

    /// Kills it and waits until it is gone; the outer process ends with it.
    pub fn kill(&mut self) {
        if let Some(id) = self.id() {
            let _ = signal(id, "KILL");
            let start = Instant::now();
            while self.exited().is_none() && start.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.outer = None;
    }

    /// Lets it live on by itself.
    pub fn detach(mut self) {
        self.outer.take().into_iter().for_each(Process::detach);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command to its end and gives what it printed.
pub(super) fn output(mut command: Command, what: &str) -> Result<String, Unavailable> {
    let output = command.output().map_err(io(format!("cannot {what}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io(format!("cannot {what}"))(std::io::Error::other(said)))
}
