//! The programs of the node: how each is started and when it is up.

use super::inside::{Inside, output};
use super::{Node, config, ground};
use crate::control_plane::{PATIENCE, healthy};
use crate::{Program, Unavailable};
use divvy_mock_nvml::FILE;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

impl Node {
    pub(super) fn start_containerd(&mut self) -> Result<(), Unavailable> {
        let program = self.programs.path(Program::Containerd);
        let beside = program.parent().map(Path::to_owned).unwrap_or_default();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let system = [beside, "/usr/sbin".into(), "/usr/bin".into()];
        let paths = std::env::join_paths(system.into_iter().chain(std::env::split_paths(&paths)));
        let mut command = self.boot.command(&program);
        command.arg("--config").arg(self.folder.join("containerd.toml"));
        // Where its shim and runc are.
        command.env("PATH", paths.unwrap_or_default());
        self.containerd = Some(Inside::start(command, Program::Containerd, &self.folder)?);
        self.wait(Program::Containerd, |node| {
            let mut ctr = node.boot.command(node.programs.path(Program::Ctr));
            ctr.arg("version");
            output(ctr, "reach containerd").map(|_| ()).map_err(|e| e.to_string())
        })
    }

    /// As a service manager would: a kubelet that is up sooner than containerd ends, and is started
    /// again.
    pub(super) fn start_kubelet(&mut self) -> Result<(), Unavailable> {
        let begin = Instant::now();
        loop {
            match self.try_to_start_kubelet() {
                Err(_) if begin.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(500));
                }
                result => return result,
            }
        }
    }

    fn try_to_start_kubelet(&mut self) -> Result<(), Unavailable> {
        let mut command = self.boot.command(self.programs.path(Program::Kubelet));
        command
            .arg(format!("--config={}", self.folder.join("kubelet.json").display()))
            .arg(format!("--kubeconfig={}", self.node_kubeconfig.display()))
            .arg(format!("--hostname-override={}", Self::NAME))
            .arg(format!("--node-ip={}", ground::ADDRESS))
            .arg("--v=2");
        self.kubelet = Some(Inside::start(command, Program::Kubelet, &self.folder)?);
        let health = self.health;
        self.wait(Program::Kubelet, |_| healthy(health).map_err(|e| e.to_string()))?;
        self.wait(Program::Kubelet, |node| node.get("node", None, Self::NAME).map(|_| ()))
    }

    /// One of NVIDIA's programs, with our library.
    pub(super) fn nvidia(&self, program: Program) -> Command {
        let nvml = self.folder.join("nvml");
        let mut command = self.boot.command(self.programs.path(program));
        command.env("LD_LIBRARY_PATH", &nvml).env(FILE, nvml.join(config::CARDS));
        command.arg("--config-file").arg(self.folder.join(config::PLUGIN));
        command
    }

    /// Tries until it is true, the program that it waits for runs and the patience lasts.
    pub(super) fn wait(
        &mut self,
        program: Program,
        is_done: impl Fn(&Self) -> Result<(), String>,
    ) -> Result<(), Unavailable> {
        let start = Instant::now();
        loop {
            let Err(why) = is_done(self) else { return Ok(()) };
            let inside = match program {
                Program::Containerd => &mut self.containerd,
                Program::Kubelet => &mut self.kubelet,
                _ => &mut self.plugin,
            };
            let ended = inside.as_mut().and_then(Inside::exited);
            if ended.is_none() && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            return Err(Unavailable::NotReady {
                program: program.name().to_owned(),
                seconds: start.elapsed().as_secs(),
                why: ended.map_or(why, |status| format!("it ended with {status}")),
                log: self.folder.join(format!("{}.log", program.name())).display().to_string(),
            });
        }
    }
}
