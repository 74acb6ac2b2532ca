//! Mending: changes are made as far as they do not touch each other, and what is there then is looked
//! at anew, until nothing is left that can be mended.

use crate::edit::{Edit, apply};
use crate::finding::{LintFinding, NamedText, lint};
use divvy_words::PodRules;
use similar::TextDiff;
use std::collections::BTreeSet;

/// A text as it was and as it is.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// Its name.
    pub name: String,
    /// As it was.
    pub before: String,
    /// Mended, as far as can be.
    pub after: String,
}

impl Fixed {
    /// Whether anything was mended.
    pub fn is_changed(&self) -> bool {
        self.before != self.after
    }
}

/// Nobody's mistakes are nested deeper in each other.
const MOST_ROUNDS: usize = 200;

/// Mends texts that are looked at together. Returns them, and what is left to people.
pub fn fix(texts: &[NamedText<'_>], rules: &PodRules) -> (Vec<Fixed>, Vec<LintFinding>) {
    let mut all: Vec<Fixed> = texts
        .iter()
        .map(|text| Fixed {
            name: text.name.to_owned(),
            before: text.text.to_owned(),
            after: text.text.to_owned(),
        })
        .collect();
    let mut findings = look(&all, rules);
    for _ in 0..MOST_ROUNDS {
        let mut is_changed = false;
        for (index, fixed) in all.iter_mut().enumerate() {
            let own =
                findings.iter().filter(|finding| finding.origin.0 == index && finding.fixable);
            let own: Vec<&LintFinding> = own.collect();
            if let Some(text) = mended(fixed, &own) {
                is_changed |= text != fixed.after;
                fixed.after = text;
            }
        }
        if !is_changed {
            break;
        }
        findings = look(&all, rules);
    }
    for finding in &mut findings {
        finding.fixable = false;
    }
    (all, findings)
}

fn look(all: &[Fixed], rules: &PodRules) -> Vec<LintFinding> {
    let texts: Vec<NamedText<'_>> =
        all.iter().map(|fixed| NamedText { name: &fixed.name, text: &fixed.after }).collect();
    lint(&texts, rules).findings
}

/// The text after one round; one that could not be read any more is none.
fn mended(fixed: &Fixed, findings: &[&LintFinding]) -> Option<String> {
    let can_be_read = |text: &String| divvy_words::read(&fixed.name, text, &|_| {}).is_ok();
    // One change of an object at a time, so that none is made for what another has changed; names are
    // changed in place and do not matter to others.
    let mut changed = BTreeSet::new();
    let mut groups: Vec<&[Edit]> = Vec::new();
    for finding in findings {
        let is_first = changed.insert(finding.origin.1);
        if is_first || is_in_place(&fixed.after, &finding.edits) {
            groups.push(&finding.edits);
        }
    }
    let text = apply(&fixed.after, groups.iter().copied()).filter(can_be_read);
    // One of them is wrong: those that are not still help.
    text.or_else(|| {
        let mut alone = groups.iter().take(MOST_ALONE);
        alone.find_map(|group| apply(&fixed.after, std::iter::once(*group)).filter(can_be_read))
    })
}

/// So many are tried one by one, each time reading all of the text.
const MOST_ALONE: usize = 20;

fn is_in_place(text: &str, edits: &[Edit]) -> bool {
    let is_word = |edit: &Edit| {
        let old = text.get(edit.at.clone()).unwrap_or_default();
        !old.is_empty() && !old.contains('\n') && !edit.text.is_empty() && !edit.text.contains('\n')
    };
    edits.iter().all(is_word)
}

/// What was changed, as `diff -u` shows it.
pub fn diff(fixed: &Fixed) -> String {
    if !fixed.is_changed() {
        return String::new();
    }
    let diff = TextDiff::from_lines(&fixed.before, &fixed.after);
    let name = fixed.name.trim_start_matches('/');
    let (old, new) = (format!("a/{name}"), format!("b/{name}"));
    diff.unified_diff().context_radius(3).header(&old, &new).to_string()
}
