//! What programs read of divvy is written down: each stable name of a reason is in docs/output.md, and
//! each that is there exists; each key of JSON, and each name of a state, is there too.
#![cfg(test)]
#![allow(clippy::unwrap_used)]

use crate::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The names in quotes of the function `name` in a file.
fn named(file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(file)).unwrap();
    let (_, body) = text.split_once("pub const fn name(&self)").unwrap();
    let (body, _) = body.split_once("\n    }\n").unwrap();
    body.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_stable_name_of_a_reason_is_written_down_and_no_other() {
    let mut names: BTreeSet<String> = named("crates/engine/src/reason.rs");
    names.extend(named("crates/engine/src/others/volumes/reason.rs"));
    // Of a pod of which the engine knows nothing, a view says why.
    names.extend(["UnknownNode", "UnknownPod"].map(str::to_owned));
    let text = fs::read_to_string(root().join("docs/output.md")).unwrap();
    let (_, section) = text.split_once("\n## Reasons\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let written: BTreeSet<String> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    let missing: Vec<_> = names.difference(&written).collect();
    assert!(missing.is_empty(), "docs/output.md does not have {missing:?}");
    let unknown: Vec<_> = written.difference(&names).collect();
    assert!(unknown.is_empty(), "docs/output.md has {unknown:?}, and no reason is called so");
}

#[test]
fn every_finding_is_written_down_and_no_other() {
    let mut names = BTreeSet::new();
    let mut files = vec![root().join("crates/words/src/mistakes.rs")];
    files.extend(
        fs::read_dir(root().join("crates/lint/src/rules")).unwrap().map(|e| e.unwrap().path()),
    );
    for file in files {
        let text = fs::read_to_string(file).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("/// Stable name: ") {
                let constant = lines.next().unwrap();
                names.insert(constant.split('"').nth(1).unwrap().to_owned());
            }
        }
    }
    let text = fs::read_to_string(root().join("docs/lint.md")).unwrap();
    let (_, section) = text.split_once("\n## Findings\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let written: BTreeSet<String> =
        rows.filter_map(|row| row.split('`').next()).map(str::to_owned).collect();
    assert_eq!(written, names);
}

/// The files of a folder and of all that are in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// `two_words` and `TwoWords` as serde renames them.
fn renamed(name: &str, rule: Option<&str>) -> String {
    let words = |text: &str, by: char| {
        let mut parts = Vec::new();
        for c in text.chars() {
            match c {
                '_' => parts.push(String::new()),
                c if c.is_uppercase() => parts.push(c.to_lowercase().to_string()),
                c => match parts.last_mut() {
                    Some(part) => part.push(c),
                    None => parts.push(c.to_string()),
                },
            }
        }
        parts.join(&by.to_string())
    };
    match rule {
        None => name.to_owned(),
        Some("kebab-case") => words(name, '-'),
        Some("lowercase") => name.to_lowercase(),
        Some("camelCase") => {
            let parts = words(name, ' ');
            let mut parts = parts.split(' ');
            let first = parts.next().unwrap().to_owned();
            let upper = |part: &str| part[..1].to_uppercase() + &part[1..];
            first + &parts.map(upper).collect::<String>()
        }
        Some(other) => panic!("serde's rule {other} is not known here"),
    }
}

/// What stands in quotes behind this word of an attribute.
fn quoted<'a>(attribute: &'a str, word: &str) -> Option<&'a str> {
    attribute.split_once(&format!("{word} = \""))?.1.split('"').next()
}

/// The keys of the structs and the names of the enums of a file that serde writes.
fn serialised(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for part in text.split("#[derive(").skip(1) {
        let Some((derived, rest)) = part.split_once(")]") else { continue };
        if !derived.contains("Serialize") {
            continue;
        }
        let (head, body) = rest.split_once('{').unwrap();
        if head.contains(';') {
            continue;
        }
        let rule = quoted(head, "rename_all");
        let body = body.split("\n}").next().unwrap();
        let mut attribute = String::new();
        // A field or a variant is a line of its own, one step in.
        for line in body.lines() {
            let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with(' ')) else {
                continue;
            };
            if line.starts_with("#[serde") {
                attribute.push_str(line);
            }
            let named = line_name(line);
            if named.is_empty() {
                continue;
            }
            let attribute = std::mem::take(&mut attribute);
            if attribute.contains("skip)") || attribute.contains("flatten") {
                continue;
            }
            let name = quoted(&attribute, "rename").map(str::to_owned);
            names.insert(name.unwrap_or_else(|| renamed(&named, rule)));
        }
    }
    names
}

/// What a line of a struct or an enum names.
fn line_name(line: &str) -> String {
    let name = line.strip_prefix("pub ").unwrap_or(line);
    name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn every_key_and_state_that_is_serialised_is_written_down() {
    let text = fs::read_to_string(root().join("docs/output.md")).unwrap();
    let written: BTreeSet<&str> = text
        .split('`')
        .skip(1)
        .step_by(2)
        .flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '-'))
        .collect();
    let mut names = BTreeSet::new();
    for folder in ["crates/views/src", "crates/doctor/src", "crates/lint/src"] {
        for file in files(&root().join(folder)) {
            names.extend(serialised(&fs::read_to_string(file).unwrap()));
        }
    }
    for known in ["apiVersion", "capacityBytes", "time-sliced", "overbookedBytes", "what"] {
        assert!(names.contains(known), "the sources are not read as they are: {names:?}");
    }
    let missing: Vec<_> = names.iter().filter(|name| !written.contains(&***name)).collect();
    assert!(missing.is_empty(), "docs/output.md does not have {missing:?}");
}
