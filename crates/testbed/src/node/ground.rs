//! What the node changes on the machine outside of its namespaces, and how that is undone.

use super::inside::output;
use super::machine::find;
use crate::{Unavailable, io};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where all cgroups of the node are, below each hierarchy.
pub(super) const CGROUP: &str = "divvy-testbed";
/// The network of its pods, and the node's own address in it: kubelets take none on loopback.
pub(super) const BRIDGE: &str = "divvy0";
pub(super) const ADDRESS: &str = "10.213.0.1";
pub(super) const SUBNET: &str = "10.213.0.0/24";
/// The service `kubernetes`: the first address of those that the API server has for services.
const SERVICE: &str = "10.96.0.1";
const LOCK: &str = "/run/divvy-node.lock";
/// Where kubelets, network plugins and logs live, whatever one tells them, and what manifests find on
/// a node: folders of ours are mounted there, in the node's namespaces only.
pub(super) const HIDDEN: [&str; 7] = [
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/containers",
    "/etc/cdi",
    "/etc/nvidia-container-runtime",
    "/var/lib/divvy",
    "/proc/driver",
];
/// How long to wait for another node of the testbed to end.
const TURN: Duration = Duration::from_secs(300);

/// What the kubelet and the bridge set for the whole machine.
const TUNABLES: [&str; 7] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",
];

/// What was changed, as it stands in the lock file: whoever takes the lock next undoes what a killed
/// test left.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Changes {
    /// The process that started the node.
    process: u32,
    /// Folders to mount on that were not there.
    made: Vec<String>,
    /// Settings of the kernel and what they were.
    tunables: Vec<(PathBuf, String)>,
}

/// The machine is one node's. Dropping it undoes what was changed.
#[derive(Debug)]
pub(super) struct Ground {
    changes: Changes,
    pub lock: File,
}

impl Ground {
    /// The machine as it was before any node, and nobody else's.
    pub fn clean() -> Result<Self, Unavailable> {
        let lock = lock()?;
        let mut ground = Self { changes: Changes::default(), lock };
        ground.changes = serde_json::from_str(&ground.read()).unwrap_or_default();
        ground.undo();
        ground.changes = Changes::default();
        Ok(ground)
    }

    /// The machine with cgroups and a network for the node. Its pods reach the API server, which
    /// listens on this loopback address, as the service `kubernetes`.
    pub fn take(api: &str) -> Result<Self, Unavailable> {
        let mut ground = Self::clean()?;
        let made = HIDDEN.into_iter().filter(|at| std::fs::create_dir(at).is_ok());
        let made = made.map(str::to_owned).collect();
        let read = |name: &str| {
            let path = Path::new("/proc/sys").join(name);
            Some((path.clone(), std::fs::read_to_string(path).ok()?))
        };
        let tunables = TUNABLES.into_iter().filter_map(read).collect();
        ground.changes = Changes { process: std::process::id(), made, tunables };
        let text = serde_json::to_string(&ground.changes).unwrap_or_default();
        ground.write(&text).map_err(io(format!("cannot write {LOCK}")))?;
        make_cgroups()?;
        ip(&["link", "add", BRIDGE, "type", "bridge"])?;
        ip(&["address", "add", &format!("{ADDRESS}/24"), "dev", BRIDGE])?;
        ip(&["link", "set", BRIDGE, "up"])?;
        let local = format!("/proc/sys/net/ipv4/conf/{BRIDGE}/route_localnet");
        std::fs::write(&local, "1").map_err(io(format!("cannot write {local}")))?;
        nat(&format!(
            "--append PREROUTING --in-interface {BRIDGE} --protocol tcp --destination {SERVICE} \
             --dport 443 --jump DNAT --to-destination {api}"
        ))?;
        Ok(ground)
    }

    /// Lets the machine reach a service at one address of it, as kube-proxy would.
    pub fn serve(&self, service: SocketAddrV4, by: SocketAddrV4) -> Result<(), Unavailable> {
        let (address, port) = (service.ip(), service.port());
        ip(&["route", "replace", &address.to_string(), "dev", BRIDGE])?;
        nat(&format!(
            "--insert OUTPUT --out-interface {BRIDGE} --protocol tcp --destination {address} \
             --dport {port} --jump DNAT --to-destination {by}"
        ))?;
        Ok(())
    }

    /// Undoes nothing: the node lives on, and so does the lock, which its first process shares.
    pub fn leave(self) {
        std::mem::forget(self);
    }

    fn read(&mut self) -> String {
        let mut text = String::new();
        let read = self.lock.rewind().and_then(|()| self.lock.read_to_string(&mut text));
        read.map(|_| text).unwrap_or_default()
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.lock.set_len(0)?;
        self.lock.rewind()?;
        self.lock.write_all(text.as_bytes())
    }

    fn undo(&mut self) {
        // Fails if there is none.
        let _ = ip(&["link", "delete", BRIDGE]);
        for chain in ["PREROUTING", "OUTPUT"] {
            for rule in nat(&format!("--list-rules {chain}")).unwrap_or_default().lines() {
                if rule.contains(BRIDGE) {
                    let _ = nat(&rule.replacen("-A", "--delete", 1));
                }
            }
        }
        remove_cgroups();
        for folder in &self.changes.made {
            let _ = std::fs::remove_dir(folder);
        }
        for (path, value) in &self.changes.tunables {
            let _ = std::fs::write(path, value);
        }
        let _ = self.write("");
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.undo();
    }
}

fn ip(arguments: &[&str]) -> Result<String, Unavailable> {
    let mut ip = Command::new("ip");
    ip.args(arguments);
    network(ip)
}

/// A line of iptables, in the table of addresses to translate.
fn nat(line: &str) -> Result<String, Unavailable> {
    let mut iptables = Command::new(find("iptables").unwrap_or_default());
    iptables.args(["--wait", "--table", "nat"]).args(line.split_whitespace());
    network(iptables)
}

/// Sees to a part of the network, which not every machine lets even root do.
fn network(command: Command) -> Result<String, Unavailable> {
    let what = format!("set up its network with {command:?}");
    output(command, &what).map_err(|e| Unavailable::NoNode(e.to_string()))
}

/// One node at a time: they would share cgroups and the network.
fn lock() -> Result<File, Unavailable> {
    let open = File::options().create(true).truncate(false).write(true).read(true).open(LOCK);
    let file = open.map_err(io(format!("cannot open {LOCK}")))?;
    let start = Instant::now();
    while file.try_lock().is_err() {
        if start.elapsed() > TURN {
            let text = std::fs::read_to_string(LOCK).unwrap_or_default();
            let holder: Changes = serde_json::from_str(&text).unwrap_or_default();
            return Err(Unavailable::NoNode(format!(
                "another node of the testbed runs on this machine, started by process {}; \
                 `cargo xtask cluster down` ends one to play with",
                holder.process
            )));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(file)
}

/// Where cgroups are mounted, of either version.
pub(super) fn hierarchies() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let at = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (at, kind) = (fields.next()?, fields.next()?);
        matches!(kind, "cgroup" | "cgroup2").then(|| PathBuf::from(at))
    };
    let mut all: Vec<PathBuf> = mounts.lines().filter_map(at).collect();
    all.sort();
    all.dedup();
    all
}

/// Empty cgroups, as after a reboot: the kubelet would look for a minute at those of dead containers.
pub(super) fn renew_cgroups() -> Result<(), Unavailable> {
    remove_cgroups();
    make_cgroups()
}

fn make_cgroups() -> Result<(), Unavailable> {
    hierarchies().iter().try_for_each(|hierarchy| make_cgroup(hierarchy))
}

fn make_cgroup(hierarchy: &Path) -> Result<(), Unavailable> {
    let folder = hierarchy.join(CGROUP);
    let what = format!("cannot make the cgroup {}", folder.display());
    std::fs::create_dir_all(&folder).map_err(io(what))?;
    // In version 2 each level says which controllers the next one has.
    for level in [hierarchy, &folder] {
        let controllers = std::fs::read_to_string(level.join("cgroup.controllers"));
        for controller in controllers.unwrap_or_default().split_whitespace() {
            let _ = std::fs::write(level.join("cgroup.subtree_control"), format!("+{controller}"));
        }
    }
    Ok(())
}

fn remove_cgroups() {
    for hierarchy in hierarchies() {
        let start = Instant::now();
        // The kernel lets go of the dead a little later.
        while !remove_tree(&hierarchy.join(CGROUP)) && start.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether the cgroup and those below it are gone.
fn remove_tree(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return true };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    std::fs::remove_dir(folder).is_ok()
}
