//! What a container on the node really has.

use super::inside::output;
use super::{Node, other};
use crate::{Program, Unavailable, io};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const CAPABILITIES: &str = "nvidia-caps";

/// What a container's first process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The names in `/dev` of the cards that it can reach, such as `nvidia3`.
    pub cards: Vec<String>,
    /// The names in `/dev/nvidia-caps` of what it may use of divided cards: two for each slice.
    pub capabilities: Vec<String>,
    /// Its environment.
    pub environment: BTreeMap<String, String>,
}

impl Node {
    /// What a running container has, as its first process sees it.
    pub fn look(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<Container, Unavailable> {
        let object = self.get("pod", Some(namespace), pod);
        let wrong = |why: String| io(format!("cannot look into {namespace}/{pod}"))(other(why));
        self.look_into(&object.map_err(wrong)?, container)
    }

    /// The same of a pod that has just been read.
    pub fn look_into(&self, object: &Value, container: &str) -> Result<Container, Unavailable> {
        let metadata = &object["metadata"];
        let what = || format!("cannot look into {}/{}", metadata["namespace"], metadata["name"]);
        let wrong = |why: String| io(what())(other(why));
        let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
        let statuses = lists.iter().filter_map(|list| object["status"][list].as_array()).flatten();
        let status = statuses.into_iter().find(|status| status["name"] == container);
        let id = status.and_then(|status| status["containerID"].as_str()).unwrap_or_default();
        let id = id.trim_start_matches("containerd://");
        let mut ctr = self.boot.command(self.programs.path(Program::Ctr));
        ctr.args(["--namespace", "k8s.io", "tasks", "list"]);
        let tasks = output(ctr, "list containers")?;
        let mut lines = tasks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let process =
            lines.find_map(|words| (words.first() == Some(&id)).then(|| words.get(1).copied()));
        let Some(process) = process.flatten() else {
            return Err(wrong(format!("its container {container} does not run")));
        };
        let path = |name: &str| self.boot.path(&format!("/proc/{process}/{name}"));
        let read = || -> std::io::Result<Container> {
            let mut cards = names(&path("root/dev"))?;
            cards.retain(|name| name.starts_with("nvidia") && name != CAPABILITIES);
            // Which is not there without a slice.
            let capabilities =
                names(&path(&format!("root/dev/{CAPABILITIES}"))).unwrap_or_default();
            let environment = std::fs::read(path("environ"))?;
            let environment = String::from_utf8_lossy(&environment);
            let pair = |text: &str| {
                let (name, value) = text.split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            };
            let environment = environment.split('\0').filter_map(pair).collect();
            Ok(Container { cards, capabilities, environment })
        };
        read().map_err(io(what()))
    }
}

/// What is in a folder, in order.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        Ok(entry?.file_name().to_string_lossy().into_owned())
    };
    let mut names = std::fs::read_dir(folder)?.map(name).collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}
