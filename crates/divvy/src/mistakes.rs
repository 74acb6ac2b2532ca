//! What a command line that cannot be read was probably meant to be.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

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
