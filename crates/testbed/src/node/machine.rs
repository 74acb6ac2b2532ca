//! Whether a machine can run a node.

use super::ground::hierarchies;
use super::inside::output;
use crate::{Unavailable, io};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

/// Tools that every Linux machine has, and the C compiler for NVIDIA's programs.
const TOOLS: [&str; 6] = ["unshare", "nsenter", "mount", "ip", "ldd", "cc"];
/// Programs and the Debian packages that have them.
const PACKAGES: [(&str, &str); 3] =
    [("runc", "runc"), ("busybox", "busybox-static"), ("iptables", "iptables")];

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
