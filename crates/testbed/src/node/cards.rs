//! The cards of the node, how they are divided, and NVIDIA's programs that tell Kubernetes of them: its
//! device plugin and GPU feature discovery.

use super::inside::{Inside, output};
use super::{Node, Options, config};
use crate::{Program, Unavailable, io};
use divvy_mock_nvml::{Card, Inventory, Slice};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// What the names of all resources of cards and slices begin with.
pub(super) const VENDOR: &str = "nvidia.com/";

impl Node {
    /// Gives the node other cards, divides them otherwise, or configures the device plugin otherwise, as
    /// an operator does while pods run. Waits until the node says what it has.
    pub fn reconfigure(&mut self, options: Options) -> Result<(), Unavailable> {
        self.stop_plugin();
        self.inventory.cards = options.cards;
        self.plugin_config = options.plugin_config;
        self.write_cards()?;
        self.start_plugin()?;
        self.label()?;
        self.until_allocatable()
    }

    /// Changes what the mock says of the cards, or lets its functions fail, from the next call on.
    pub fn change_cards(&mut self, change: impl FnOnce(&mut Inventory)) -> Result<(), Unavailable> {
        change(&mut self.inventory);
        self.write_cards()
    }

    /// Nothing is wrong with the cards any more. The device plugin, which takes no card for well again
    /// by itself, is started anew.
    pub fn heal(&mut self) -> Result<(), Unavailable> {
        self.change_cards(|inventory| {
            inventory.failing.clear();
            for card in &mut inventory.cards {
                (card.lost, card.failed) = (false, false);
            }
        })?;
        self.restart_plugin()
    }

    /// Kills the device plugin.
    pub fn stop_plugin(&mut self) {
        self.plugin = None;
    }

    /// Kills the device plugin, starts it again and waits until it is registered.
    pub fn restart_plugin(&mut self) -> Result<(), Unavailable> {
        self.stop_plugin();
        self.start_plugin()
    }

    pub(super) fn start_plugin(&mut self) -> Result<(), Unavailable> {
        let mut command = self.nvidia(Program::DevicePlugin);
        command.args(["--device-list-strategy=envvar", "--device-discovery-strategy=nvml"]);
        self.stand_in_for_mps(&mut command)?;
        let log = self.folder.join("nvidia-device-plugin.log");
        let read = || std::fs::read_to_string(&log).unwrap_or_default();
        let before = read().len();
        self.plugin = Some(Inside::start(command, Program::DevicePlugin, &self.folder)?);
        let resources = resources(&self.inventory.cards, &self.plugin_config);
        self.wait(Program::DevicePlugin, |_| {
            let text = read();
            let said = text.get(before..).unwrap_or_default();
            let line = |name: &String| format!("Registered device plugin for '{name}'");
            let is_missing = |name: &&String| !said.contains(&line(name));
            let missing = resources.keys().find(is_missing);
            missing.map_or(Ok(()), |name| Err(format!("{name} is not registered")))
        })
    }

    /// Lets the plugin take MPS for started: nobody limits the clients, nor are there any.
    fn stand_in_for_mps(&self, plugin: &mut Command) -> Result<(), Unavailable> {
        let (root, programs) = (self.folder.join("mps"), self.folder.join("bin"));
        let control = programs.join("nvidia-cuda-mps-control");
        let wrong = || io("cannot make what MPS needs");
        let resources = resources(&self.inventory.cards, &self.plugin_config).into_keys();
        // What containers are given of it.
        let pipes = resources.map(|resource| root.join(resource).join("pipe"));
        for folder in pipes.chain([root.join("shm"), programs.clone()]) {
            std::fs::create_dir_all(folder).map_err(wrong())?;
        }
        std::fs::write(&control, "#!/bin/sh\ncat > /dev/null\n").map_err(wrong())?;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&control, all).map_err(wrong())?;
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let paths = [programs].into_iter().chain(std::env::split_paths(&paths));
        plugin.env("PATH", std::env::join_paths(paths).unwrap_or_default());
        plugin.arg("--mps-root").arg(root);
        Ok(())
    }

    /// Waits until the node can give what the device plugin has, and nothing of what it had.
    pub(super) fn until_allocatable(&mut self) -> Result<(), Unavailable> {
        let wanted = resources(&self.inventory.cards, &self.plugin_config);
        self.wait(Program::Kubelet, |node| {
            let object = node.get("node", None, Self::NAME)?;
            let allocatable = object["status"]["allocatable"].as_object();
            let of_cards = allocatable.into_iter().flatten().filter_map(|(name, count)| {
                let count: u64 = count.as_str()?.parse().ok()?;
                (name.starts_with(VENDOR) && count > 0).then(|| (name.clone(), count))
            });
            let there: BTreeMap<String, u64> = of_cards.collect();
            (there == wanted)
                .then_some(())
                .ok_or_else(|| format!("it has {there:?}, not {wanted:?}"))
        })
    }

    /// Sets the labels that NVIDIA's GPU feature discovery finds, and takes away those that it found
    /// before.
    pub(super) fn label(&mut self) -> Result<(), Unavailable> {
        let file = self.folder.join("labels");
        let mut discovery = self.nvidia(Program::FeatureDiscovery);
        discovery.args(["--use-node-feature-api=false", "--oneshot", "--output-file"]).arg(&file);
        output(discovery, "run GPU feature discovery")?;
        let labels = std::fs::read_to_string(&file).map_err(io("no labels of the node"))?;
        let name = |label: &str| label.split('=').next().map(str::to_owned);
        let found: BTreeSet<String> = labels.lines().filter_map(name).collect();
        let mut kubectl = self.kubectl();
        kubectl.args(["label", "--overwrite", "node", Self::NAME]).args(labels.lines());
        kubectl.args(self.labels.difference(&found).map(|gone| format!("{gone}-")));
        output(kubectl, "label the node")?;
        self.labels = found;
        Ok(())
    }

    /// Writes what the mock, NVIDIA's runtime and its device plugin read.
    pub(super) fn write_cards(&self) -> Result<(), Unavailable> {
        let nvml = self.folder.join("nvml");
        let path = nvml.join(config::CARDS);
        let wrong = |path: &std::path::Path| io(format!("cannot write {}", path.display()));
        self.inventory.write(&path).map_err(wrong(&path))?;
        for (name, text) in [
            (config::DEVICES, config::devices(&self.inventory, &nvml).to_string()),
            (config::MINORS, config::minors(&self.inventory)),
            (config::PLUGIN, self.plugin_config.to_string()),
        ] {
            let path = self.folder.join(name);
            // At once, so that nobody reads half of it. In a folder that knows of no other file.
            let fresh = self.folder.join("fresh");
            let written =
                std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &path));
            written.map_err(wrong(&path))?;
        }
        Ok(())
    }
}

/// What NVIDIA's device plugin makes of cards: resources, and how many of each.
fn resources(cards: &[Card], plugin_config: &Value) -> BTreeMap<String, u64> {
    let whole = || format!("{VENDOR}gpu");
    let strategy = plugin_config["flags"]["migStrategy"].as_str().unwrap_or("none");
    let mut resources = BTreeMap::new();
    for card in cards {
        let names = match (&card.slices, strategy) {
            (Some(slices), "mixed") => {
                // It finds 1g.5gb in 1g.5gb+me, too, unlike feature discovery.
                let plain = |slice: &Slice| slice.profile.split('+').next().map(str::to_owned);
                let names = slices.iter().filter_map(plain);
                names.map(|name| format!("{VENDOR}mig-{name}")).collect()
            }
            (Some(slices), "single") => vec![whole(); slices.len()],
            _ => vec![whole()],
        };
        for name in names {
            *resources.entry(name).or_default() += 1;
        }
    }
    let sharing = &plugin_config["sharing"];
    let sharing = sharing.get("mps").unwrap_or(&sharing["timeSlicing"]);
    for resource in sharing["resources"].as_array().into_iter().flatten() {
        let name = resource["name"].as_str().unwrap_or_default();
        if let Some(count) = resources.remove(name) {
            let suffix = if sharing["renameByDefault"] == true { ".shared" } else { "" };
            let replicas = resource["replicas"].as_u64().unwrap_or(1);
            resources.insert(format!("{name}{suffix}"), count * replicas);
        }
    }
    resources
}
