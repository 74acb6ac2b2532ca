//! Container images made of files of this machine: no registry and no Docker is needed.
//!
//! ```text
//!   a program ─► ldd: the libraries that it loads ─┐
//!   other files, links ────────────────────────────┴─► one layer ─► archive of an OCI layout
//! ```
//!
//! `ctr images import`, `docker load` and `skopeo copy oci-archive:` take the archive. The same files
//! make the same bytes: no time is in it, and all has its place by name.

use crate::{Unavailable, io};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

mod layout;
mod tar;

/// What is in an image and what it runs.
#[derive(Clone, Debug)]
pub struct Image {
    /// With the registry that it might be from.
    name: String,
    /// Files of the machine and where they go.
    files: Vec<(PathBuf, PathBuf)>,
    /// Links and what they point at.
    links: Vec<(PathBuf, &'static str)>,
    entry: Vec<String>,
    environment: Vec<&'static str>,
    /// Whoever runs it, if a pod does not say; root if nobody is named.
    user: Option<&'static str>,
}

/// What is at one place of an image.
enum Entry {
    Folder,
    /// Where everybody may write.
    Scratch,
    File(PathBuf),
    Link(&'static str),
}

const PATH: &str = "PATH=/usr/bin:/bin";
/// Nobody in particular: what images without a shell run as.
const NOBODY: &str = "65532:65532";

impl Image {
    /// Programs with the libraries that they load and nothing else, not even a shell. The first is
    /// what it runs, with these arguments, and not as root.
    pub fn programs(name: &str, programs: &[&Path], arguments: &[&str]) -> Self {
        let inside =
            |program: &Path| Path::new("/usr/bin").join(program.file_name().unwrap_or_default());
        let entry = programs.first().map(|program| inside(program).display().to_string());
        let own = programs.iter().map(|program| ((*program).to_owned(), inside(program)));
        Self {
            name: name.to_owned(),
            files: programs.iter().flat_map(|program| libraries(program)).chain(own).collect(),
            links: Vec::new(),
            entry: entry
                .into_iter()
                .chain(arguments.iter().map(|word| (*word).to_owned()))
                .collect(),
            environment: vec![PATH],
            user: Some(NOBODY),
        }
    }

    /// busybox under all its names, that waits until it is killed.
    pub(crate) fn busybox(name: &str, busybox: &Path) -> Result<Self, Unavailable> {
        let list = Command::new(busybox).arg("--list").output();
        let names = list.map_err(io("cannot list what busybox can do"))?.stdout;
        let names = String::from_utf8_lossy(&names).into_owned();
        let others = names.lines().filter(|name| *name != "busybox");
        let wait = ["/bin/sh", "-c", "trap exit TERM; sleep 1000000 & wait"];
        Ok(Self {
            name: name.to_owned(),
            files: vec![(busybox.to_owned(), "/bin/busybox".into())],
            links: others.map(|name| (Path::new("/bin").join(name), "busybox")).collect(),
            // The first process of a container hears no signal that it does not wait for.
            entry: wait.map(str::to_owned).into(),
            environment: vec![PATH],
            user: None,
        })
    }

    /// busybox in the place of an image with CUDA, which asks for all cards as those do.
    pub(crate) fn stand_in(name: &str, path: &Path) -> Result<Self, Unavailable> {
        let image = Self::busybox(name, path)?;
        Ok(Self { environment: vec![PATH, "NVIDIA_VISIBLE_DEVICES=all"], ..image })
    }

    /// The same with files and the libraries that they load, and another entry unless it is empty.
    pub(crate) fn with(mut self, files: &[(&Path, &str)], entry: &[&str]) -> Self {
        for (from, to) in files {
            self.files.extend(libraries(from));
            self.files.push(((*from).to_owned(), (*to).into()));
        }
        if !entry.is_empty() {
            self.entry = entry.iter().map(|word| (*word).to_owned()).collect();
        }
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes the archive; gives the digest by which registries would know the image.
    pub fn write(&self, archive: &Path) -> Result<String, Unavailable> {
        layout::write(self, archive).map_err(io(format!(
            "cannot make the image {} as {}",
            self.name,
            archive.display()
        )))
    }

    /// What is where, below the root and with all folders.
    fn entries(&self) -> BTreeMap<PathBuf, Entry> {
        let mut entries = BTreeMap::new();
        let inside = |at: &Path| at.strip_prefix("/").unwrap_or(at).to_owned();
        let files = self.files.iter().map(|(from, to)| (inside(to), Entry::File(from.clone())));
        let links = self.links.iter().map(|(at, target)| (inside(at), Entry::Link(target)));
        for (at, entry) in files.chain(links) {
            for folder in at.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
                entries.entry(folder.to_owned()).or_insert(Entry::Folder);
            }
            entries.insert(at, entry);
        }
        // Where the kernel's own file systems are mounted.
        for folder in ["dev", "proc", "sys"] {
            entries.entry(folder.into()).or_insert(Entry::Folder);
        }
        entries.entry("tmp".into()).or_insert(Entry::Scratch);
        entries
    }
}

/// The libraries that a program or library loads, which are where they are on this machine.
fn libraries(of: &Path) -> Vec<(PathBuf, PathBuf)> {
    // It fails on a static program, which needs no library.
    let listed = Command::new("ldd").arg(of).output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let library = |line: &str| {
        let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
        Some((PathBuf::from(path), PathBuf::from(path)))
    };
    String::from_utf8_lossy(&listed).lines().filter_map(library).collect()
}

#[cfg(test)]
mod tests;
