//! divvy's container image, as `cargo xtask image` makes it.
#![allow(clippy::unwrap_used)]

use divvy_testbed::image::Image;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn tar(arguments: &[&str]) -> String {
    let output = Command::new("tar").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_image_has_divvy_with_its_libraries_and_no_shell_and_is_the_same_each_time() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let programs = [env!("CARGO_BIN_EXE_divvy"), env!("CARGO_BIN_EXE_divvy-isolation-check")];
    let image = Image::programs("docker.io/library/divvy:1", &programs.map(Path::new), &[]);
    let archives = ["image.tar", "again.tar"].map(|name| folder.join(name));
    let digests = archives.each_ref().map(|archive| image.write(archive).unwrap());
    assert_eq!(digests[0], digests[1]);
    let archive = archives[0].to_str().unwrap();
    let read = |file: &str| -> Value {
        serde_json::from_str(&tar(&["--extract", "--to-stdout", "--file", archive, file])).unwrap()
    };
    let parts = &read("manifest.json")[0];
    let config = read(parts["Config"].as_str().unwrap());
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/usr/bin/divvy"]));
    let layer = parts["Layers"][0].as_str().unwrap();
    tar(&["--extract", "--directory", folder.to_str().unwrap(), "--file", archive, layer]);
    let files = tar(&["--list", "--file", folder.join(layer).to_str().unwrap()]);
    let names: Vec<&str> = files.lines().filter(|file| !file.ends_with('/')).collect();
    for wanted in ["usr/bin/divvy", "usr/bin/divvy-isolation-check"] {
        assert!(names.contains(&wanted), "{wanted}: {names:?}");
    }
    // Where it is not static, it finds what it loads.
    let listed = Command::new("ldd").arg(programs[0]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        assert!(names.contains(&library.trim_start_matches('/')), "{library}: {names:?}");
    }
    let shells = names.iter().filter(|name| name.ends_with("sh") || name.contains("busybox"));
    assert_eq!(shells.count(), 0, "{names:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
