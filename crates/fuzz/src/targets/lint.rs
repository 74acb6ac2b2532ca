//! Mistakes in manifests: what is mended is mended at once, can still be read, and stays.

use crate::cost::Bound;
use crate::edit::edit;
use crate::input::Input;
use crate::objects;
use divvy_lint::{Fixed, LintFinding, NamedText, diff, fix, lint as look};
use divvy_words::PodRules;
use std::sync::LazyLock;

/// A tree of what is written, beside what it means.
const BOUND: Bound = Bound { base: 4 << 20, each: 8192 };
/// Each round of mending reads the text anew.
const LARGEST: usize = 16 << 10;
static RULES: LazyLock<PodRules> = LazyLock::new(|| PodRules::built_in().unwrap_or_default());

/// A text, or an object of any kind with changes, as JSON or as YAML.
pub fn lint(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if input.once_in(2) {
        let mut object = input.pick(&objects::ALL.iter().collect::<Vec<_>>()).clone();
        let is_json = input.once_in(3);
        edit(&mut input, &mut object);
        return match serde_saphyr::to_string(&object) {
            Ok(yaml) if !is_json => check(&yaml),
            _ => check(&object.to_string()),
        };
    }
    if let Ok(text) = std::str::from_utf8(input.rest()) {
        check(text);
    }
}

fn check(text: &str) {
    if text.len() > LARGEST {
        return;
    }
    let texts = [NamedText { name: "f", text }];
    let rules = &*RULES;
    let found = BOUND.hold(text.len(), || look(&texts, rules));
    if !found.unread.is_empty() {
        return;
    }
    let found = found.findings;
    for finding in &found {
        assert!(finding.line > 0 && finding.line <= text.lines().count().max(1), "{finding}");
    }
    let (fixed, left) = fix(&texts, rules);
    let [fixed] = &*fixed else { panic!("one text becomes one: {text}") };
    assert!(!fixed.is_changed() || found.iter().any(|finding| finding.fixable), "{text}");
    assert_eq!(diff(fixed).is_empty(), !fixed.is_changed(), "{text}");
    let again = [NamedText { name: "f", text: &fixed.after }];
    let after = look(&again, rules);
    assert!(after.unread.is_empty(), "{} cannot be read, of {text}", fixed.after);
    let names =
        |findings: &[LintFinding]| findings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&after.findings), names(&left), "{text}");
    let (twice, still) = fix(&again, rules);
    assert!(!twice.iter().any(Fixed::is_changed), "{} of {text}", fixed.after);
    assert_eq!(names(&still), names(&left), "{text}");
}
