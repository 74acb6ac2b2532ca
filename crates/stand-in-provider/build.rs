//! Makes the two shared libraries, with the compiler that cargo uses. Not by `crate-type = cdylib`:
//! whoever depends on this crate would be linked with its `dlsym`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=src");
    let variable = |name: &str| std::env::var(name).map_err(|why| format!("{name}: {why}"));
    let folder = PathBuf::from(variable("OUT_DIR")?);
    let cuda = folder.join("libcuda.so.1");
    compile("src/cuda.rs", &cuda, &["link-arg=-Wl,-soname,libcuda.so.1"])?;
    let needs_cuda = format!("link-arg={}", cuda.display());
    let always = "link-arg=-Wl,--no-as-needed";
    compile("src/preload.rs", &folder.join("libvgpu.so"), &[always, &needs_cuda])
}

fn compile(source: &str, library: &Path, options: &[&str]) -> Result<(), String> {
    let compiler = std::env::var("RUSTC").map_err(|why| format!("RUSTC: {why}"))?;
    let target = std::env::var("TARGET").map_err(|why| format!("TARGET: {why}"))?;
    let mut command = Command::new(compiler);
    command.args(["--edition=2024", "--crate-type=cdylib", "--target", &target]).arg(source);
    for option in ["opt-level=s", "panic=abort", "strip=symbols"].iter().chain(options) {
        command.args(["-C", option]);
    }
    let ended = command.arg("-o").arg(library).status().map_err(|why| format!("rustc: {why}"))?;
    if ended.success() { Ok(()) } else { Err(format!("{source} does not compile")) }
}
