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

/// The bytes of a program that the kernel reads to run it.
fn loaded(program: &str) -> u64 {
    const LOAD: [u8; 4] = 1_u32.to_le_bytes();
    let file = std::fs::read(program).unwrap();
    let number = |at: usize, size: usize| {
        file[at..at + size].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    // ELF of 64 bits: where the headers of its parts are, how large each is and how many there are.
    let (headers, size, count) = (number(32, 8) as usize, number(54, 2) as usize, number(56, 2));
    let headers = (0..count as usize).map(|header| headers + header * size);
    headers.filter(|at| file[*at..at + 4] == LOAD).map(|at| number(at + 32, 8)).sum()
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
    // It is dynamic, for it loads NVIDIA's library, and finds what it loads.
    let listed = Command::new("ldd").arg(programs[0]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        assert!(names.contains(&library.trim_start_matches('/')), "{library}: {names:?}");
    }
    assert!(names.iter().any(|name| name.contains("/libc.so.")), "{listed}: {names:?}");
    // A few tens of MB, even with the slow code of tests; what debuggers read is not counted.
    let bytes = |file: &Path| std::fs::metadata(file).unwrap().len();
    let unread: u64 = programs.iter().map(|file| bytes(Path::new(file)) - loaded(file)).sum();
    let size = (bytes(&archives[0]) - unread) >> 20;
    assert!((10..100).contains(&size), "{size} MiB");
    let shells = names.iter().filter(|name| name.ends_with("sh") || name.contains("busybox"));
    assert_eq!(shells.count(), 0, "{names:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
