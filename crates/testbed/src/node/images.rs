//! Container images made of files of this machine: no registry is needed.

use super::inside::{Boot, output};
use crate::{Program, Programs, Unavailable, io};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is in an image and what it runs.
pub(super) struct Image {
    /// With the registry that it might be from.
    name: String,
    /// Files of the machine and where they go.
    files: Vec<(PathBuf, PathBuf)>,
    /// Links and what they point at.
    links: Vec<(PathBuf, &'static str)>,
    entry: Vec<String>,
    environment: Vec<&'static str>,
}

impl Image {
    /// Makes it in `folder` and hands it to containerd.
    pub fn import(
        &self,
        folder: &Path,
        boot: &Boot,
        programs: &Programs,
    ) -> Result<(), Unavailable> {
        let name = &self.name;
        let folder = folder.join(name.replace('/', "-"));
        let root = folder.join("root");
        self.fill(&root).map_err(io(format!("cannot make the image {name}")))?;
        let layer = folder.join("layer.tar");
        tar(&layer, &root, &["."])?;
        let mut sum = Command::new("sha256sum");
        sum.arg(&layer);
        let sum = output(sum, "sum up a layer")?;
        let digest = format!("sha256:{}", sum.split_whitespace().next().unwrap_or_default());
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": {"Entrypoint": self.entry, "Env": self.environment},
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        });
        let manifest = json!([
            {"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]},
        ]);
        for (file, value) in [("config.json", config), ("manifest.json", manifest)] {
            let written = std::fs::write(folder.join(file), value.to_string());
            written.map_err(io(format!("cannot make the image {name}")))?;
        }
        let archive = folder.join("image.tar");
        tar(&archive, &folder, &["manifest.json", "config.json", "layer.tar"])?;
        let mut ctr = boot.command(programs.path(Program::Ctr));
        ctr.args(["--namespace", "k8s.io", "images", "import"]).arg(&archive);
        output(ctr, &format!("import the image {name}")).map(|_| ())
    }

    /// The same with files and the libraries that they load, and another entry unless it is empty.
    pub fn with(mut self, files: &[(&Path, &str)], entry: &[&str]) -> Self {
        for (from, to) in files {
            self.files.extend(libraries(from));
            self.files.push(((*from).to_owned(), (*to).into()));
        }
        if !entry.is_empty() {
            self.entry = entry.iter().map(|word| (*word).to_owned()).collect();
        }
        self
    }

    fn fill(&self, root: &Path) -> std::io::Result<()> {
        let inside = |to: &Path| root.join(to.strip_prefix("/").unwrap_or(to));
        let parent = |to: &Path| to.parent().map_or(Ok(()), std::fs::create_dir_all);
        // Where the kernel's own file systems are mounted.
        for folder in ["dev", "proc", "sys", "tmp"] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        for (from, to) in &self.files {
            let to = inside(to);
            parent(&to)?;
            std::fs::copy(from, &to)?;
        }
        for (at, target) in &self.links {
            let at = inside(at);
            parent(&at)?;
            let _ = std::fs::remove_file(&at);
            std::os::unix::fs::symlink(target, &at)?;
        }
        Ok(())
    }
}

fn tar(archive: &Path, folder: &Path, names: &[&str]) -> Result<(), Unavailable> {
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--numeric-owner", "--create", "--file"]).arg(archive);
    tar.arg("--directory").arg(folder).args(names);
    output(tar, "make an archive").map(|_| ())
}

const PATH: &str = "PATH=/usr/bin:/bin";

/// busybox under all its names, that waits until it is killed.
pub(super) fn busybox(name: &str, busybox: &Path) -> Result<Image, Unavailable> {
    let mut list = Command::new(busybox);
    list.arg("--list");
    let names = output(list, "list what busybox can do")?;
    let others = names.lines().filter(|name| *name != "busybox");
    Ok(Image {
        name: name.to_owned(),
        files: vec![(busybox.to_owned(), "/bin/busybox".into())],
        links: others.map(|name| (Path::new("/bin").join(name), "busybox")).collect(),
        // The first process of a container hears no signal that it does not wait for.
        entry: ["/bin/sh", "-c", "trap exit TERM; sleep 1000000 & wait"].map(str::to_owned).into(),
        environment: vec![PATH],
    })
}

/// busybox in the place of an image with CUDA, which asks for all cards as those do.
pub(super) fn stand_in(name: &str, path: &Path) -> Result<Image, Unavailable> {
    let image = busybox(name, path)?;
    Ok(Image { environment: vec![PATH, "NVIDIA_VISIBLE_DEVICES=all"], ..image })
}

/// A program with the libraries that it loads.
pub(super) fn program(name: &str, program: &Path, arguments: &[&str]) -> Image {
    let inside = Path::new("/usr/bin").join(program.file_name().unwrap_or_default());
    let entry = [inside.display().to_string()].into_iter();
    let own = (program.to_owned(), inside.clone());
    Image {
        name: name.to_owned(),
        files: libraries(program).into_iter().chain([own]).collect(),
        links: Vec::new(),
        entry: entry.chain(arguments.iter().map(|word| (*word).to_owned())).collect(),
        environment: vec![PATH],
    }
}

/// The libraries that a program or library loads, which are where they are on this machine.
fn libraries(of: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut ldd = Command::new("ldd");
    ldd.arg(of);
    // It fails on a static program, which needs no library.
    let libraries = output(ldd, "list libraries").unwrap_or_default();
    let library = |line: &str| {
        let path = line.split_whitespace().find(|word| word.starts_with('/'))?;
        Some((PathBuf::from(path), PathBuf::from(path)))
    };
    libraries.lines().filter_map(library).collect()
}
