//! `cargo xtask image`: divvy as a container image, made without Docker.

use crate::{cargo, run, target};
use anyhow::Context;
use clap::{Args, ValueEnum};
use divvy_testbed::image::Image;
use std::path::{Path, PathBuf};

/// What the manifests of divvy ask for.
pub const NAME: &str = concat!("docker.io/library/divvy:", env!("CARGO_PKG_VERSION"));

#[derive(Args)]
pub struct Options {
    /// How divvy is built
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
    /// The name of the image, with its registry and tag
    #[arg(long, default_value = NAME)]
    name: String,
    /// The archive [default: target/divvy-<version>.tar]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Profile {
    /// Fast
    Release,
    /// As tests use it
    Dev,
}

/// The image of a divvy that was built, and of the checker beside it, which `divvy node` brings to
/// nodes.
pub fn of(name: &str, divvy: &Path) -> Image {
    Image::programs(name, &[divvy, &divvy.with_file_name("divvy-isolation-check")], &[])
}

pub fn write(options: &Options) -> anyhow::Result<()> {
    let (flags, folder): (&[&str], _) = match options.profile {
        Profile::Release => (&["--release"], "release"),
        Profile::Dev => (&[], "debug"),
    };
    run(cargo(&[&["build", "--locked", "--package", "divvy", "--bins"], flags].concat()))?;
    let usual = || target().join(concat!("divvy-", env!("CARGO_PKG_VERSION"), ".tar"));
    let archive = options.output_file.clone().unwrap_or_else(usual);
    let digest = of(&options.name, &target().join(folder).join("divvy")).write(&archive)?;
    let bytes = std::fs::metadata(&archive).context("the archive is gone")?.len();
    let (name, file) = (&options.name, archive.display());
    println!("{name} is in {file}, {} MiB, {digest}", bytes >> 20);
    println!("On each node:      ctr --namespace k8s.io images import {file}");
    println!("With Docker:       docker load --input {file}");
    println!("Into a registry:   skopeo copy oci-archive:{file} docker://REGISTRY/divvy:TAG");
    Ok(())
}
