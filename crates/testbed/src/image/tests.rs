#![allow(clippy::unwrap_used)]

use super::*;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

/// A folder for a test, with files to make an image of.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("divvy-image-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, mode) in [("tool", 0o700), ("notes", 0o600)] {
        std::fs::write(folder.join(file), file.repeat(300)).unwrap();
        std::fs::set_permissions(folder.join(file), Permissions::from_mode(mode)).unwrap();
    }
    folder
}

fn image(folder: &Path) -> Image {
    let mut image = Image::programs("docker.io/local/tool:1", &[&folder.join("tool")], &["serve"]);
    image.files.push((folder.join("notes"), "/usr/share/notes".into()));
    image.links.push(("/usr/bin/other".into(), "tool"));
    image
}

fn listed(archive: &Path) -> String {
    let output = Command::new("tar").args(["--list", "--verbose", "--file"]).arg(archive).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn read(archive: &Path, file: &str) -> Vec<u8> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--to-stdout", "--file"]).arg(archive).arg(file);
    tar.output().unwrap().stdout
}

fn json(archive: &Path, file: &str) -> Value {
    serde_json::from_slice(&read(archive, file)).unwrap()
}

#[test]
fn the_same_files_make_the_same_bytes_whenever_they_were_written() {
    let folder = folder("same");
    let archives = ["first.tar", "second.tar"].map(|name| folder.join(name));
    let first = image(&folder).write(&archives[0]).unwrap();
    let file = File::options().write(true).open(folder.join("notes")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)).unwrap();
    let second = image(&folder).write(&archives[1]).unwrap();
    assert_eq!(first, second);
    let bytes = archives.each_ref().map(|archive| std::fs::read(archive).unwrap());
    assert!(bytes[0] == bytes[1]);
    std::fs::write(folder.join("notes"), "other").unwrap();
    assert_ne!(image(&folder).write(&archives[1]).unwrap(), first);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_archive_is_an_oci_layout_whose_parts_are_what_they_are_called() {
    let folder = folder("layout");
    let archive = folder.join("image.tar");
    let written = image(&folder).write(&archive).unwrap();
    assert_eq!(json(&archive, "oci-layout")["imageLayoutVersion"], "1.0.0");
    let blob = |descriptor: &Value| {
        let sum = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = format!("blobs/sha256/{sum}");
        let bytes = read(&archive, &path);
        let found: String =
            digest(&SHA256, &bytes).as_ref().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!((found.as_str(), descriptor["size"].as_u64()), (sum, Some(bytes.len() as u64)));
        (path, bytes)
    };
    let index = json(&archive, "index.json");
    let described = &index["manifests"][0];
    assert_eq!(described["digest"], written);
    assert_eq!(described["annotations"]["io.containerd.image.name"], "docker.io/local/tool:1");
    let manifest: Value = serde_json::from_slice(&blob(described).1).unwrap();
    let (config_path, config) = blob(&manifest["config"]);
    let (layer_path, layer) = blob(&manifest["layers"][0]);
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/usr/bin/tool", "serve"]));
    assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
    // Docker before 25 reads this one.
    let docker = json(&archive, "manifest.json");
    assert_eq!(
        (&docker[0]["Config"], &docker[0]["Layers"][0]),
        (&config_path.into(), &layer_path.into())
    );
    std::fs::write(folder.join("layer.tar"), layer).unwrap();
    let found = listed(&folder.join("layer.tar"));
    let modes: Vec<(&str, &str)> = found
        .lines()
        .map(|line| (line.split_whitespace().next().unwrap(), line.split_once("00:00 ").unwrap().1))
        .collect();
    let expected = [
        ("drwxr-xr-x", "dev/"),
        ("drwxr-xr-x", "proc/"),
        ("drwxr-xr-x", "sys/"),
        ("drwxrwxrwt", "tmp/"),
        ("drwxr-xr-x", "usr/"),
        ("drwxr-xr-x", "usr/bin/"),
        ("lrwxrwxrwx", "usr/bin/other -> tool"),
        ("-rwxr-xr-x", "usr/bin/tool"),
        ("drwxr-xr-x", "usr/share/"),
        ("-rw-r--r--", "usr/share/notes"),
    ];
    assert_eq!(modes, expected);
    assert_eq!(read(&folder.join("layer.tar"), "usr/bin/tool"), "tool".repeat(300).into_bytes());
    std::fs::remove_dir_all(&folder).unwrap();
}
