//! An isolation provider on a node: a library that every process of a container loads, and that
//! keeps it to its part of a card.
//!
//! ```text
//!   NVIDIA's runtime: its configuration ──► can it work here, and where does it look?  ─┐
//!   specifications of the cards ──────────► under which kind are they?                 ─┤ or: no label
//!   library, checker ─► <folder>/<provider>/<version>/ ─► our specification             ─┤
//!                                                                                       ▼
//!                                                    annotation and label of the node, in one write
//! ```
//!
//! A binding names the card and the provider in `NVIDIA_VISIBLE_DEVICES`, and NVIDIA's runtime starts
//! the container with both or not at all. So what is here comes before the label, and the label goes
//! before anything else does. Files that containers may have mounted are never changed nor deleted:
//! a process whose library is gone would start without it.

mod files;
mod kind;
mod mark;
mod runtime;
mod specification;
#[cfg(test)]
mod tests;

pub(crate) use kind::of_cards as kind_of_cards;
pub use mark::{put, take_away};
pub(crate) use runtime::{modes, specification_folders};

use divvy_words::isolation::Provider;
use files::Version;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Why a node has no provider.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Something with files.
    #[error("failed to {what} {}: {error}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        error: std::io::Error,
    },
    /// NVIDIA's runtime would not grant the provider with the card.
    #[error("{}: {why}", path.display())]
    Runtime {
        /// Its configuration.
        path: PathBuf,
        /// What is in the way.
        why: String,
    },
    /// No specification names cards by UUID.
    #[error(
        "no CDI specification in {} has cards by UUID under nvidia.com/gpu or \
         k8s.device-plugin.nvidia.com/gpu; `nvidia-ctk cdi generate --device-name-strategy=uuid` \
         writes one", folders.join(", ")
    )]
    NoKind {
        /// Where it was looked for.
        folders: Vec<String>,
    },
    /// A library is given to one that has none, or the other way round.
    #[error("provider {provider} {why}")]
    NoLibrary {
        /// Its name.
        provider: String,
        /// What is asked for.
        why: &'static str,
    },
    /// What was given is not a library that containers of this node can load.
    #[error("{}: {why}", path.display())]
    Library {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The node could not be changed.
    #[error("failed to change node {node}: {why}")]
    Node {
        /// Its name.
        node: String,
        /// What the API server said.
        why: String,
    },
}

/// The node's files, and where ours go.
#[derive(Clone, Debug)]
pub struct Host {
    /// Where the root of the node is mounted; `/` on the node itself.
    pub root: PathBuf,
    /// The folder on the node for providers, with all their versions.
    pub folder: PathBuf,
    /// The configuration of NVIDIA's runtime on the node, if it is where nobody would look for it.
    pub runtime: Option<PathBuf>,
}

impl Host {
    /// A path of the node as it is found from here. Links of the node mean the node, also absolute ones:
    /// `/var/run` is `/run` on most of them. One that leads to nothing here is left as it is.
    pub(crate) fn at(&self, path: &Path) -> PathBuf {
        let plain = self.root.join(path.strip_prefix("/").unwrap_or(path));
        if self.root == Path::new("/") {
            return plain;
        }
        let found = |path: &Path| self.followed(path).filter(|found| found.exists());
        // What is not there yet is in the folder that its own leads to.
        let new = || Some(found(path.parent()?)?.join(path.file_name()?));
        found(path).or_else(new).unwrap_or(plain)
    }

    /// Where a path leads within the root; nowhere if its links have no end.
    fn followed(&self, path: &Path) -> Option<PathBuf> {
        let (mut at, mut links) = (PathBuf::new(), 0);
        let mut left: Vec<OsString> = parts(path).rev().collect();
        while let Some(part) = left.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            match std::fs::read_link(self.root.join(&at).join(&part)) {
                Ok(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    if target.is_absolute() {
                        at = PathBuf::new();
                    }
                    left.extend(parts(&target).rev());
                }
                Err(_) => at.push(part),
            }
        }
        Some(self.root.join(at))
    }
}

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The parts of a path, without what says where it begins.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().filter_map(part)
}

/// What is put on a node.
#[derive(Clone, Debug)]
pub struct ToInstall {
    /// A folder with the provider's library, `*.so`, and what it needs beside it; none if the provider
    /// has no library.
    pub library: Option<PathBuf>,
    /// The program that looks whether the limit is in force.
    pub checker: PathBuf,
}

/// What is on the node now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The kind under which the node's specifications have its cards.
    pub kind: String,
    /// Our specification on the node.
    pub specification: PathBuf,
    /// The folder that it mounts.
    pub version: PathBuf,
}

/// What is there already stays as it is. The node may be labelled if this succeeds, and must not be
/// if it does not.
fn install(
    provider: &Provider,
    source: &ToInstall,
    host: &Host,
) -> Result<Installed, ProviderError> {
    let folders = specification_folders(host)?;
    let kind = kind::of_cards(host, &folders)?;
    let version = Version::read(provider, source)?;
    let folder = version.write(host, &provider.name)?;
    let text = specification::text(provider, &folder);
    let specification = specification::path(&folders, provider);
    files::replace(&host.at(&specification), text.as_bytes())?;
    Ok(Installed { kind, specification, version: folder })
}

/// Takes the provider's specification off the node, which must have lost its label before. What
/// running containers have mounted stays.
fn remove(provider: &Provider, host: &Host) -> Result<(), ProviderError> {
    // Also where the runtime cannot be used any more, or looks elsewhere by now.
    let folders = specification_folders(host).unwrap_or_else(|_| runtime::usual_folders());
    let path = host.at(&specification::path(&folders, provider));
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ProviderError::File { what: "delete", path, error })
        }
        _ => Ok(()),
    }
}
