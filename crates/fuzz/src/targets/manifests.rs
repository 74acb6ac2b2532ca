//! Texts of manifests, and objects in them: the quick reader of YAML agrees with the full one,
//! JSON with YAML, and nothing takes more memory than its size explains.

use crate::cost::Bound;
use crate::edit::edit;
use crate::input::Input;
use crate::objects;
use divvy_words::cards;
use divvy_words::{Content, Entry, Object, PodGroups, Priorities, keys, read};
use serde_json::Value;

/// A JSON value takes far more than its text, and what is wrong is read twice.
const BOUND: Bound = Bound { base: 1 << 20, each: 1024 };

fn entries(text: &str) -> Option<Vec<Entry>> {
    BOUND.hold(text.len(), || read("input", text, &|_| ())).ok()
}

/// Any text.
pub fn manifests(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let found = entries(text);
    if let Some(found) = &found {
        digest(found);
    }
    // What is not ASCII is read by the full parser, and a comment says nothing. Where a document
    // begins with a brace it is JSON, of which more is allowed than of YAML.
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        let full = entries(&format!("# é\n{}", text.trim_start_matches('\u{feff}')));
        assert_eq!(found, full, "{text}");
    }
}

/// An object of any kind with changes, as JSON and as YAML.
pub fn objects(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut object = input.pick(&objects::ALL.iter().collect::<Vec<_>>()).clone();
    edit(&mut input, &mut object);
    let json = object.to_string();
    let found = entries(&json);
    if let Some(found) = &found {
        digest(found);
    }
    let (Some(found), Some(yaml)) = (found, yaml(&object)) else { return };
    assert_eq!(entries(&yaml).as_ref(), Some(&found), "{yaml}");
}

fn yaml(object: &Value) -> Option<String> {
    serde_saphyr::to_string(object).ok()
}

/// Makes records of all that is there.
fn digest(entries: &[Entry]) {
    let mut priorities = Priorities::default();
    let mut groups = PodGroups::default();
    for entry in entries {
        let Entry::Object(object) = entry else { continue };
        priorities.add(object);
        groups.add(object);
        let _ = divvy_words::node(object);
        if let Some(text) = object.metadata.annotations.get(keys::CARDS) {
            let _ = cards::parse(text);
        }
        content(object, &priorities, &groups);
    }
}

fn content(object: &Object, priorities: &Priorities, groups: &PodGroups) {
    match &object.content {
        Content::Pod(spec, status) => {
            let mut record =
                divvy_words::pod(&object.metadata, spec, Some(status), None, priorities);
            groups.refuse(&object.metadata, spec, &mut record);
        }
        Content::Workload(workload) => {
            let template = &workload.template;
            let owner = Some(&object.metadata);
            divvy_words::pod(&template.metadata, &template.spec, None, owner, priorities);
        }
        Content::Storage(kind, manifest) => {
            let _ = divvy_words::storage(*kind, manifest);
        }
        _ => {}
    }
}
