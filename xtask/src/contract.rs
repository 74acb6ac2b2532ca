//! What programs read of divvy is written down: each stable name of a reason is in docs/output.md, and
//! each that is there exists.
#![cfg(test)]
#![allow(clippy::unwrap_used)]

use crate::root;
use std::collections::BTreeSet;
use std::fs;

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
