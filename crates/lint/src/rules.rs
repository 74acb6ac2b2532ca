//! What is looked for. A rule looks at one object; two know what the other objects say.

mod claims;
mod configs;
mod fields;
mod foreign;
mod kinds;
mod levels;
mod names;
mod refused;
mod resources;
mod tables;

pub use kinds::meant;

use crate::edit::SourceText;
use crate::object::{Found, Look, WrittenObject};
use std::collections::BTreeSet;

/// What is known of all files together.
#[derive(Default)]
pub(crate) struct Together {
    queues: BTreeSet<String>,
    configs: configs::ConfigsTogether,
}

impl Together {
    pub(crate) fn add(&mut self, objects: &[WrittenObject<'_>]) {
        self.queues.extend(levels::queues(objects));
        self.configs.add(objects);
    }
}

/// All that is wrong with an object, in the order of the text.
pub(crate) fn look(
    source: SourceText<'_>,
    object: &WrittenObject<'_>,
    together: &Together,
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut look = Look::new(source, object, &mut found);
    kinds::look(&mut look);
    fields::look(&mut look);
    names::look(&mut look);
    resources::look(&mut look);
    foreign::look(&mut look);
    levels::look(&mut look, &together.queues);
    claims::look(&mut look);
    configs::look(&mut look, &together.configs);
    refused::look(&mut look);
    found.sort_by_key(|found| found.at);
    found
}

/// Findings that a rehearsal tells of each pod, as the reason why it waits.
pub(crate) const REASONS: [&str; 2] = [refused::REFUSED, refused::WRONG_TYPE];

/// All stable names.
pub const NAMES: [&str; 24] = [
    divvy_words::mistakes::MISSPELT,
    divvy_words::mistakes::MISPLACED,
    divvy_words::mistakes::SHARING_ANNOTATION,
    divvy_words::mistakes::FOREIGN_RESOURCE,
    names::NOT_ON_TEMPLATE,
    names::MISSPELT_SCHEDULER,
    resources::FRACTIONAL,
    resources::SHARE_BESIDE_WHOLE,
    fields::UNKNOWN_FIELD,
    kinds::UNKNOWN_KIND,
    kinds::WRONG_VERSION,
    levels::ISOLATION_LEVEL,
    levels::UNKNOWN_QUEUE,
    claims::CLASS_NAME,
    claims::CONFIG_LIST,
    claims::DRIVER,
    claims::PARAMETERS,
    claims::REQUEST,
    configs::PLUGIN_CONFIG,
    configs::MIG_CONFIG,
    configs::RENAMED_RESOURCE,
    configs::DEFAULT_CONFIG,
    refused::REFUSED,
    refused::WRONG_TYPE,
];
