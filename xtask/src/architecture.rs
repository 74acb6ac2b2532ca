//! Dependencies point one way: edges know the engine, the engine knows the ledger, the ledger
//! knows nobody.
#![cfg(test)]
#![allow(clippy::unwrap_used)]

use crate::cargo;
use std::collections::BTreeMap;

/// What each crate may use of the workspace.
const MAY_USE: [(&str, &[&str]); 19] = [
    ("divvy-ledger", &[]),
    ("divvy-engine", &["divvy-ledger"]),
    ("divvy-words", &["divvy-ledger", "divvy-engine"]),
    ("divvy-views", &["divvy-ledger", "divvy-engine"]),
    ("divvy-sim", &["divvy-ledger", "divvy-engine", "divvy-words"]),
    ("divvy-serve", &[]),
    ("divvy-api", &[]),
    (
        "divvy-cluster",
        &["divvy-ledger", "divvy-engine", "divvy-views", "divvy-words", "divvy-serve", "divvy-api"],
    ),
    ("divvy-doctor", &["divvy-api", "divvy-cluster", "divvy-ledger", "divvy-views", "divvy-words"]),
    ("divvy-admission", &["divvy-words", "divvy-serve", "divvy-api"]),
    ("divvy-node", &["divvy-words", "divvy-api"]),
    ("divvy-bench", &["divvy-cluster", "divvy-engine", "divvy-ledger", "divvy-testbed"]),
    (
        "divvy",
        &[
            "divvy-admission",
            "divvy-api",
            "divvy-cluster",
            "divvy-doctor",
            "divvy-engine",
            "divvy-ledger",
            "divvy-node",
            "divvy-sim",
            "divvy-views",
            "divvy-words",
        ],
    ),
    ("divvy-testbed", &["divvy-mock-nvml", "divvy-stand-in-provider"]),
    ("divvy-mock-nvml", &[]),
    ("divvy-stand-in-provider", &[]),
    ("divvy-differential", &["divvy-ledger", "divvy-engine", "divvy-words", "divvy-testbed"]),
    (
        "divvy-fuzz",
        &[
            "divvy-admission",
            "divvy-api",
            "divvy-cluster",
            "divvy-engine",
            "divvy-ledger",
            "divvy-sim",
            "divvy-views",
            "divvy-words",
        ],
    ),
    ("xtask", &["divvy-testbed"]),
];

/// Outside crates of the two that decide: data structures and error texts, nothing that knows of
/// a clock, a thread, a network or Kubernetes.
const PURE: [&str; 3] = ["foldhash", "smallvec", "thiserror"];

fn dependencies() -> BTreeMap<String, Vec<String>> {
    let metadata = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = cargo(&metadata).output().unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
    let of = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|d| d["kind"] != "dev").map(|d| text(&d["name"])).collect()
    };
    packages.map(|p| (text(&p["name"]), of(p))).collect()
}

#[test]
fn crates_use_only_those_below_them() {
    let dependencies = dependencies();
    assert_eq!(dependencies.len(), MAY_USE.len(), "a crate is missing in MAY_USE");
    for (name, allowed) in MAY_USE {
        let ours = dependencies[name].iter().filter(|d| d.starts_with("divvy"));
        let wrong: Vec<_> = ours.filter(|d| !allowed.contains(&d.as_str())).collect();
        assert!(wrong.is_empty(), "{name} may not use {wrong:?}");
    }
}

#[test]
fn ledger_and_engine_know_no_clock_no_thread_and_no_kubernetes() {
    let dependencies = dependencies();
    for name in ["divvy-ledger", "divvy-engine"] {
        let outside = dependencies[name].iter().filter(|d| !d.starts_with("divvy"));
        let wrong: Vec<_> = outside.filter(|d| !PURE.contains(&d.as_str())).collect();
        assert!(wrong.is_empty(), "{name} may not use {wrong:?}");
    }
    for folder in ["ledger", "engine"] {
        for file in walk(&crate::root().join("crates").join(folder).join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for word in
                ["std::time", "std::thread", "std::net", "std::fs", "std::env", "f64", "f32"]
            {
                assert!(!text.contains(word), "{} uses {word}", file.display());
            }
        }
    }
}

/// Crates whose files the page names.
const DESCRIBED: [&str; 11] = [
    "ledger",
    "engine",
    "words",
    "views",
    "sim",
    "serve",
    "api",
    "cluster",
    "admission",
    "node",
    "doctor",
];

#[test]
fn the_page_names_every_file() {
    let page = std::fs::read_to_string(crate::root().join("docs/architecture.md")).unwrap();
    let words: std::collections::BTreeSet<&str> =
        page.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for folder in DESCRIBED {
        for file in walk(&crate::root().join("crates").join(folder).join("src")) {
            let stem = file.file_stem().unwrap().to_str().unwrap();
            let is_for_tests = file.extension().is_none_or(|kind| kind != "rs")
                || file.components().any(|part| part.as_os_str() == "tests")
                || ["lib", "tests", "testing"].contains(&stem);
            let is_named = words.contains(stem) || page.contains(&stem.replace('_', " "));
            assert!(is_for_tests || is_named, "{} is not named", file.display());
        }
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path);
        }
    }
    files
}
