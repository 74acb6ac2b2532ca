//! What the node needs of the machine, what it changes there, and how that is undone.

use super::inside::output;
use crate::{Unavailable, io};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where all cgroups of the node are, below each hierarchy.
pub(super) const CGROUP: &str = "divvy-testbed";
/// The network of its pods.
pub(super) const BRIDGE: &str = "divvy0";
const LOCK: &str = "/run/divvy-node.lock";
/// Where kubelets, network plugins and logs live, whatever one tells them: folders of ours are
/// mounted there, in the node's namespaces only.
pub(super) const HIDDEN: [&str; 3] = ["/var/lib/kubelet", "/var/lib/cni", "/var/log/containers"];
/// How long to wait for another node of the testbed to end.
const TURN: Duration = Duration::from_secs(300);

/// Tools that every Linux machine has, and the C compiler for NVIDIA's programs.
const TOOLS: [&str; 8] = ["unshare", "nsenter", "mount", "ip", "tar", "sha256sum", "ldd", "cc"];
/// Programs and the Debian packages that have them.
const PACKAGES: [(&str, &str); 2] = [("runc", "runc"), ("busybox", "busybox-static")];

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

/// Whether a node can run here; installs what Debian has a package for.
pub(super) fn prepare(say: &mut dyn FnMut(&str)) -> Result<(), Unavailable> {
    let missing = |why: &str| Err(Unavailable::NoNode(why.to_owned()));
    let own = std::fs::metadata("/proc/self").map_err(io("no /proc"))?;
    if own.uid() != 0 {
        return missing("it needs root, for namespaces, mounts and cgroups");
    }
    if let Some(tool) = TOOLS.iter().find(|tool| find(tool).is_none()) {
        return missing(&format!("`{tool}` is not installed"));
    }
    install(say)?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--mount-proc", "true"]);
    output(unshare, "make namespaces").map_err(|e| Unavailable::NoNode(e.to_string()))?;
    if hierarchies().is_empty() {
        return missing("no cgroups are mounted");
    }
    Ok(())
}

fn install(say: &mut dyn FnMut(&str)) -> Result<(), Unavailable> {
    let lacks = |(program, _): &&(&str, &str)| find(program).is_none();
    let packages: Vec<&str> = PACKAGES.iter().filter(lacks).map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(" ");
    if find("apt-get").is_none() {
        return Err(Unavailable::NoNode(format!("not installed: {names} (Debian's names)")));
    }
    say(&format!("installing {names} with apt-get"));
    let run = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").args(arguments).args(&packages);
        output(apt, &format!("install {names} with apt-get"))
    };
    let install = ["install", "--yes", "--no-install-recommends"];
    // The lists may be old or missing.
    let installed = run(&install).or_else(|_| {
        let mut update = Command::new("apt-get");
        update.arg("update");
        output(update, "update the lists of apt-get").and_then(|_| run(&install))
    });
    installed.map(|_| ()).map_err(|e| Unavailable::NoNode(e.to_string()))
}

/// A program on the path, or where the system's own are.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|f| f.join(program)).find(|f| f.is_file())
}

/// What the node changes on the machine outside of its namespaces. Dropping it undoes that.
#[derive(Debug)]
pub(super) struct Ground {
    tunables: Vec<(PathBuf, String)>,
    /// Folders to mount on that were not there.
    made: Vec<&'static str>,
    // Last: the next one may begin when all is undone.
    pub lock: File,
}

impl Ground {
    pub fn take() -> Result<Self, Unavailable> {
        let lock = lock()?;
        // What a killed test may have left.
        remove_network();
        remove_cgroups();
        let made = HIDDEN.into_iter().filter(|at| std::fs::create_dir(at).is_ok()).collect();
        let read = |name: &str| {
            let path = Path::new("/proc/sys").join(name);
            Some((path.clone(), std::fs::read_to_string(path).ok()?))
        };
        let tunables = TUNABLES.into_iter().filter_map(read).collect();
        let ground = Self { tunables, made, lock };
        for hierarchy in hierarchies() {
            make_cgroup(&hierarchy)?;
        }
        Ok(ground)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        remove_network();
        remove_cgroups();
        for folder in &self.made {
            let _ = std::fs::remove_dir(folder);
        }
        for (path, value) in &self.tunables {
            let _ = std::fs::write(path, value);
        }
    }
}

/// One node at a time: they would share cgroups and the network.
fn lock() -> Result<File, Unavailable> {
    let open = File::options().create(true).truncate(false).write(true).read(true).open(LOCK);
    let mut file = open.map_err(io(format!("cannot open {LOCK}")))?;
    let start = Instant::now();
    while file.try_lock().is_err() {
        if start.elapsed() > TURN {
            let holder = std::fs::read_to_string(LOCK).unwrap_or_default();
            return Err(Unavailable::NoNode(format!(
                "another node of the testbed runs on this machine: process {} holds {LOCK}",
                holder.trim()
            )));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let id = std::process::id();
    file.set_len(0).and_then(|()| writeln!(file, "{id}")).map_err(io("cannot write the lock"))?;
    Ok(file)
}

fn remove_network() {
    let mut ip = Command::new("ip");
    ip.args(["link", "delete", BRIDGE]);
    // Mostly because there is none.
    let _ = ip.output();
}

/// Where cgroups are mounted, of either version.
fn hierarchies() -> Vec<PathBuf> {
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
