//! The archive of an image: an OCI layout, with the file by which older Dockers find their way in it.

use super::tar::Tar;
use super::{Entry, Image};
use ring::digest::{Context, SHA256};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Error, Result, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Counts and sums up what goes through it.
struct Summed<W> {
    to: W,
    sum: Context,
    size: u64,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = self.to.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

/// Some bytes of the layout, called by what they sum up to.
struct Blob {
    media: &'static str,
    sum: String,
    size: u64,
}

impl Blob {
    fn of(media: &'static str, sum: Context, size: u64) -> Self {
        let sum = sum.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { media, sum, size }
    }

    fn of_json(media: &'static str, value: &Value) -> (Self, String) {
        let text = value.to_string();
        let mut sum = Context::new(&SHA256);
        sum.update(text.as_bytes());
        (Self::of(media, sum, text.len() as u64), text)
    }

    fn digest(&self) -> String {
        format!("sha256:{}", self.sum)
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.sum)
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media, "digest": self.digest(), "size": self.size})
    }
}

/// Writes the archive of an image; gives the digest of its manifest.
pub(super) fn write(image: &Image, archive: &Path) -> Result<String> {
    let file = archive.with_extension("layer");
    let layer = write_layer(image, &file)?;
    let written = write_layout(image, archive, &layer, &file);
    std::fs::remove_file(&file)?;
    written
}

fn write_layer(image: &Image, file: &Path) -> Result<Blob> {
    let to = BufWriter::new(File::create(file)?);
    let mut tar = Tar::new(Summed { to, sum: Context::new(&SHA256), size: 0 });
    for (at, entry) in image.entries() {
        let at = at.to_str().ok_or_else(|| Error::other("a name is not UTF-8"))?;
        match entry {
            Entry::Folder => tar.folder(at, 0o755)?,
            Entry::Scratch => tar.folder(at, 0o1777)?,
            Entry::Link(target) => tar.link(at, target)?,
            Entry::File(from) => {
                let content = File::open(&from)?;
                let about = content.metadata()?;
                let runs = about.permissions().mode() & 0o111 != 0;
                tar.file(at, if runs { 0o755 } else { 0o644 }, about.len(), content)?;
            }
        }
    }
    let Summed { sum, size, .. } = tar.finish()?;
    Ok(Blob::of(LAYER, sum, size))
}

fn write_layout(image: &Image, archive: &Path, layer: &Blob, content: &Path) -> Result<String> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mut runs = json!({"Entrypoint": image.entry, "Env": image.environment});
    if let Some(user) = image.user {
        runs["User"] = json!(user);
    }
    let (config, config_text) = Blob::of_json(
        CONFIG,
        &json!({
            "architecture": architecture, "os": "linux", "config": runs,
            "rootfs": {"type": "layers", "diff_ids": [layer.digest()]},
        }),
    );
    let (manifest, manifest_text) = Blob::of_json(
        MANIFEST,
        &json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": config.descriptor(), "layers": [layer.descriptor()],
        }),
    );
    let mut described = manifest.descriptor();
    described["platform"] = json!({"architecture": architecture, "os": "linux"});
    let tag = image.name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    described["annotations"] = json!({
        "io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": tag,
    });
    let index = json!({"schemaVersion": 2, "manifests": [described]});
    // For Docker before 25.
    let docker = json!([
        {"Config": config.path(), "RepoTags": [image.name], "Layers": [layer.path()]},
    ]);
    let mut tar = Tar::new(BufWriter::new(File::create(archive)?));
    for folder in ["blobs", "blobs/sha256"] {
        tar.folder(folder, 0o755)?;
    }
    let files = [
        ("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string()),
        ("index.json".to_owned(), index.to_string()),
        ("manifest.json".to_owned(), docker.to_string()),
        (config.path(), config_text),
        (manifest.path(), manifest_text),
    ];
    for (at, text) in files {
        tar.file(&at, 0o644, text.len() as u64, text.as_bytes())?;
    }
    tar.file(&layer.path(), 0o644, layer.size, File::open(content)?)?;
    tar.finish()?;
    Ok(manifest.digest())
}
