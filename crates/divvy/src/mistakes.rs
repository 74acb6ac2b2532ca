//! What a command line that cannot be read was probably meant to be.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// `explain pod/a` as kubectl takes it: `explain pod a`. In `pod/ml/a` what follows is a namespace too.
pub fn kinds_apart(command: &Command, words: Vec<OsString>) -> Vec<OsString> {
    let explain = command.find_subcommand("explain");
    let mut apart = Vec::with_capacity(words.len() + 1);
    for word in words {
        let is_explained = apart.len() == 2 && apart.get(1).is_some_and(|word| word == "explain");
        let parts = word.to_str().filter(|_| is_explained).and_then(|word| word.split_once('/'));
        match parts {
            Some((kind, name)) if explain.is_some_and(|e| e.find_subcommand(kind).is_some()) => {
                apart.extend([kind.into(), name.into()]);
            }
            _ => apart.push(word),
        }
    }
    apart
}

/// The error, with what to write instead where that is known.
pub fn explained(mut error: clap::Error) -> clap::Error {
    if let Some(tip) = output_is_no_place(&error) {
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// `-o now.yaml`: elsewhere that is a file.
fn output_is_no_place(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_output = text(ContextKind::InvalidArg)?.starts_with("--output <");
    let given = text(ContextKind::InvalidValue)?;
    let is_place = given == "-" || given.contains(['.', '/']);
    (error.kind() == ErrorKind::InvalidValue && is_output && is_place).then(|| {
        let file = divvy_views::clean(given);
        format!("-o is the format; the place is written `> {file}`, or --output-file where there is such an option")
    })
}
