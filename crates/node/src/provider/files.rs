//! The files of a provider, in a folder of their own for each version: what containers have mounted
//! does not change below them.

use super::{Host, ProviderError, ToInstall};
use crate::limit::{self, Provided};
use divvy_words::isolation::Provider;
use rustix::fs::StatVfsMountFlags;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What is mounted at [`divvy_words::isolation::PRELOAD`].
pub(super) const PRELOAD: &str = "ld.so.preload";
/// What is mounted where a container must find an empty file.
pub(super) const EMPTY: &str = "empty";

/// Everything that the folder has, by name.
pub(super) struct Version {
    files: BTreeMap<String, Vec<u8>>,
}

impl Version {
    pub fn read(provider: &Provider, source: &ToInstall) -> Result<Self, ProviderError> {
        let mut files = match (&provider.library, &source.library) {
            (Some(inside), Some(folder)) => library(provider, inside, folder, &source.checker)?,
            (None, None) => BTreeMap::new(),
            (inside, _) => {
                let why = match inside {
                    Some(_) => "has a library: say with --library-dir where it is",
                    None => "has no library in the config file: leave --library-dir out",
                };
                return Err(ProviderError::NoLibrary { provider: provider.name.clone(), why });
            }
        };
        files.insert(EMPTY.to_owned(), Vec::new());
        Ok(Self { files })
    }

    /// Its folder on the node, whole: under its name once all is written.
    pub fn write(&self, host: &Host, provider: &str) -> Result<PathBuf, ProviderError> {
        let mut hasher = DefaultHasher::new();
        self.files.hash(&mut hasher);
        let name = format!("{:016x}", hasher.finish());
        let all = host.folder.join(provider);
        let (folder, version) = (host.at(&all), all.join(&name));
        let at = host.at(&version);
        std::fs::create_dir_all(&folder).map_err(file("make", &folder))?;
        // The loader leaves out what it may not load, and goes on.
        let flags = rustix::fs::statvfs(&folder).map_err(|e| file("look at", &folder)(e.into()))?;
        if flags.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            let why = "no program may be loaded from here (noexec); choose another folder";
            return Err(ProviderError::Library { path: folder, why: why.to_owned() });
        }
        if at.exists() {
            self.is_at(&at)?;
            return Ok(version);
        }
        let fresh = folder.join(format!(".{name}.{}", std::process::id()));
        // What an earlier try left, which nobody has mounted.
        let _ = std::fs::remove_dir_all(&fresh);
        std::fs::create_dir(&fresh).map_err(file("make", &fresh))?;
        allow(&fresh, FOLDER).map_err(file("make", &fresh))?;
        for (name, bytes) in &self.files {
            write(&fresh.join(name), bytes, mode_of(name))?;
        }
        std::fs::rename(&fresh, &at).map_err(file("make", &at))?;
        Ok(version)
    }

    /// Whether a folder has these files as they are, for everybody to read.
    fn is_at(&self, folder: &Path) -> Result<(), ProviderError> {
        let mode = |path: &Path| {
            let found = std::fs::metadata(path).map_err(file("look at", path))?;
            Ok(found.permissions().mode() & 0o777)
        };
        let changed = |path: &Path| {
            let why = "has been changed, and containers may have mounted it; look who did it, and \
                 delete its folder once none has";
            Err(ProviderError::Library { path: path.into(), why: why.to_owned() })
        };
        if mode(folder)? != FOLDER {
            return changed(folder);
        }
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            let there = std::fs::read(&path).map_err(file("read", &path))?;
            if there != *bytes || mode(&path)? != mode_of(name) {
                return changed(&path);
            }
        }
        Ok(())
    }
}

/// The folder of a library, with what has it loaded and what looks whether it is.
fn library(
    provider: &Provider,
    inside: &str,
    folder: &Path,
    checker: &Path,
) -> Result<BTreeMap<String, Vec<u8>>, ProviderError> {
    let failed = |path: &Path| file("read", path);
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        if let Some(name) = name.filter(|_| path.is_file()) {
            files.insert(name, std::fs::read(&path).map_err(failed(&path))?);
        }
    }
    let wrong = |path: &Path, why: String| ProviderError::Library { path: path.into(), why };
    let libraries: Vec<&String> = files.keys().filter(|name| name.ends_with(".so")).collect();
    let [name] = libraries.as_slice() else {
        let why = format!("has {} files *.so; the one to preload is expected", libraries.len());
        return Err(wrong(folder, why));
    };
    loadable(&files[*name]).map_err(|why| wrong(&folder.join(name), why))?;
    let library = Path::new(inside).join(name);
    let preload = format!("{}\n", library.display());
    let (provider, memory) = (provider.name.clone(), provider.memory.clone());
    let known = Provided { provider, memory, library };
    let known = serde_json::to_vec(&known).unwrap_or_default();
    files.insert(PRELOAD.to_owned(), preload.into_bytes());
    files.insert(limit::CHECKER.to_owned(), std::fs::read(checker).map_err(failed(checker))?);
    files.insert(limit::PROVIDED.to_owned(), known);
    Ok(files)
}

/// Puts a file in the place of another at once; one that says the same is left alone.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), ProviderError> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(file("make", folder))?;
    // Not named as a specification: the runtime would read it.
    let fresh = folder.join(format!(".divvy-provider.{}", std::process::id()));
    let _ = std::fs::remove_file(&fresh);
    write(&fresh, bytes, 0o644)?;
    std::fs::rename(&fresh, path).map_err(file("write", path))
}

/// Everybody may read it, whatever this process would leave out (umask): the loader leaves out what
/// the user of a container may not read, and goes on.
const FOLDER: u32 = 0o755;

/// The same for a file.
fn mode_of(name: &str) -> u32 {
    if name == limit::CHECKER { 0o755 } else { 0o644 }
}

fn allow(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), ProviderError> {
    let make = || -> std::io::Result<()> {
        let mut file = std::fs::File::create_new(path)?;
        file.write_all(bytes)?;
        allow(path, mode)?;
        file.sync_all()
    };
    make().map_err(file("write", path))
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ProviderError + use<> {
    let path = path.to_owned();
    move |error| ProviderError::File { what, path, error }
}

/// Whether programs of this machine's kind can load it: the loader leaves out what is for another,
/// and goes on.
fn loadable(library: &[u8]) -> Result<(), String> {
    let machine: u16 = match std::env::consts::ARCH {
        "aarch64" => 183,
        _ => 62,
    };
    let number = |at: usize| Some(u16::from_le_bytes([*library.get(at)?, *library.get(at + 1)?]));
    if !library.starts_with(b"\x7fELF\x02\x01") || number(16) != Some(3) {
        return Err("is no shared library of 64 bits".to_owned());
    }
    if number(18) != Some(machine) {
        return Err(format!("is not for {}", std::env::consts::ARCH));
    }
    Ok(())
}
