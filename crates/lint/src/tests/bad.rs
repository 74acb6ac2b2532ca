//! Bad manifests of many kinds, with comments everywhere: what is found, and what becomes of them.

use super::{fix, found, is_mended, lint};
use crate::{NamedText, diff};
use std::path::Path;

pub(super) fn manifests() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/bad");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<(String, String)> = files
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    assert!(all.len() > 40, "{}", all.len());
    all
}

#[test]
fn a_mended_manifest_keeps_its_comments_and_has_nothing_left_that_can_be_mended() {
    for (name, text) in manifests() {
        let (fixed, left) = fix(&[NamedText { name: &name, text: &text }]);
        let after = &fixed[0].after;
        is_mended(&text, after);
        assert_eq!(found(after).len(), left.len(), "{name}");
    }
}

#[test]
fn what_is_found_in_bad_manifests_and_what_becomes_of_them() {
    for (name, text) in manifests() {
        let texts = [NamedText { name: &name, text: &text }];
        let result = lint(&texts);
        assert_eq!(result.unread, [], "{name}");
        let (fixed, left) = fix(&texts);
        let lines = |findings: &[crate::LintFinding]| {
            findings.iter().map(|finding| format!("{finding}\n")).collect::<String>()
        };
        let shown =
            format!("{}\n{}\nleft:\n{}", lines(&result.findings), diff(&fixed[0]), lines(&left));
        insta::assert_snapshot!(name, shown);
    }
}
