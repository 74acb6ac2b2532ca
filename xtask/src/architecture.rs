//! Dependencies point one way: edges know the engine, the engine knows the ledger, the ledger
//! knows nobody.
#![cfg(test)]
#![allow(clippy::unwrap_used)]

use crate::cargo;
use std::collections::BTreeMap;

/// What each crate may use of the workspace.
const MAY_USE: [(&str, &[&str]); 20] = [
    ("divvy-ledger", &[]),
    ("divvy-engine", &["divvy-ledger"]),
    ("divvy-words", &["divvy-ledger", "divvy-engine"]),
    ("divvy-views", &["divvy-ledger", "divvy-engine"]),
    ("divvy-lint", &["divvy-ledger", "divvy-words"]),
    ("divvy-sim", &["divvy-ledger", "divvy-engine", "divvy-lint", "divvy-words"]),
    ("divvy-serve", &[]),
    ("divvy-api", &[]),
    (
        "divvy-cluster",
        &["divvy-ledger", "divvy-engine", "divvy-views", "divvy-words", "divvy-serve", "divvy-api"],
    ),
    (
        "divvy-doctor",
        &["divvy-api", "divvy-cluster", "divvy-ledger", "divvy-node", "divvy-views", "divvy-words"],
    ),
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
            "divvy-lint",
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
            "divvy-lint",
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
const DESCRIBED: [&str; 12] = [
    "ledger",
    "engine",
    "words",
    "views",
    "lint",
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

/// Types with any visibility but their file's, by crate: where a word of theirs is looked up.
fn types(folder: &str, is_public: bool) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for file in walk(&crate::root().join("crates").join(folder).join("src")) {
        let is_for_tests = file.extension().is_none_or(|kind| kind != "rs")
            || file.components().any(|part| part.as_os_str() == "tests")
            || ["tests.rs", "testing.rs"].contains(&file.file_name().unwrap().to_str().unwrap());
        if is_for_tests {
            continue;
        }
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let Some(rest) = line.trim_start().strip_prefix("pub") else { continue };
            let rest = match rest.strip_prefix('(') {
                Some(_) if is_public => continue,
                Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
                None => rest,
            };
            let mut words = rest.split_whitespace();
            if !["struct", "enum", "trait", "type"].contains(&words.next().unwrap_or_default()) {
                continue;
            }
            let name = words.next().unwrap_or_default();
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            all.push((name.to_owned(), file.display().to_string()));
        }
    }
    all
}

/// What each program has for itself, and means the same by.
const EACH_ITS_OWN: [&str; 3] = ["Metrics", "RunError", "Settings"];

#[test]
fn no_two_types_have_one_name() {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut twice = Vec::new();
    for (name, file) in DESCRIBED.iter().flat_map(|folder| types(folder, false)) {
        if EACH_ITS_OWN.contains(&&*name) {
            continue;
        }
        if let Some(other) = known.insert(name.clone(), file.clone()) {
            twice.push(format!("{name}: {other}, {file}"));
        }
    }
    assert!(known.len() > 300, "{} types were found", known.len());
    assert!(twice.is_empty(), "one word for two things: {twice:#?}");
}

/// The words of the page: first cells of its tables of words, and the two lists below them.
fn vocabulary() -> std::collections::BTreeSet<String> {
    let page = std::fs::read_to_string(crate::root().join("docs/architecture.md")).unwrap();
    let (_, words) = page.split_once("\n## Words\n").unwrap();
    let (words, _) = words.split_once("\n## ").unwrap();
    let cells = words.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let lists = words.split("\n\n").filter_map(|paragraph| {
        let (title, list) = paragraph.trim().split_once(": ")?;
        (title.starts_with("As Kubernetes") || title.starts_with("Plain")).then_some(list)
    });
    let lists: Vec<&str> = lists.collect();
    assert_eq!(lists.len(), 2, "the lists below the tables");
    let texts = cells.chain(lists).flat_map(|text| text.split(|c: char| !c.is_alphabetic()));
    texts.map(|word| singular(&word.to_lowercase())).collect()
}

fn singular(word: &str) -> String {
    word.strip_suffix('s').filter(|rest| !rest.ends_with('s')).unwrap_or(word).to_owned()
}

#[test]
fn public_types_are_made_of_words_of_the_page() {
    let vocabulary = vocabulary();
    let mut missing = Vec::new();
    for (name, file) in DESCRIBED.iter().flat_map(|folder| types(folder, true)) {
        let starts: Vec<usize> = name.match_indices(char::is_uppercase).map(|(at, _)| at).collect();
        let ends = starts.iter().skip(1).copied().chain([name.len()]);
        for (start, end) in starts.iter().zip(ends) {
            let word = name[*start..end].to_lowercase();
            if !vocabulary.contains(&singular(&word)) {
                missing.push(format!("{word} of {name} in {file}"));
            }
        }
    }
    assert!(missing.is_empty(), "docs/architecture.md does not say what these are: {missing:#?}");
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
