//! What is looked for. A rule looks at one object; two know what the other objects say.

mod claims;
mod configs;
mod fields;
mod foreign;
mod kinds;
mod levels;
mod names;
mod parameters;
mod refused;
mod resources;
mod tables;

pub use kinds::meant;
pub use names::DEFAULT_SCHEDULER;

use crate::edit::SourceText;
use crate::object::{Found, Look, WrittenObject};
use divvy_words::mistakes::QUOTAS;
use divvy_words::{PodRules, keys};
use std::collections::BTreeSet;

/// What is known of all files together.
#[derive(Default)]
pub(crate) struct Together {
    queues: BTreeSet<String>,
    names_queues: bool,
    asks_as_koordinators: bool,
    configs: configs::ConfigsTogether,
}

/// Said once if pods ask by Koordinator's resources.
const KOORDINATOR: &str = "divvy reads Koordinator's resources as they are";

impl Together {
    pub(crate) fn add(&mut self, objects: &[WrittenObject<'_>]) {
        self.queues.extend(levels::queues(objects));
        self.names_queues |= objects.iter().any(|object| !levels::named_queues(object).is_empty());
        self.asks_as_koordinators |=
            objects.iter().any(|object| resources::asks(object, &keys::KOORDINATOR));
        self.configs.add(objects);
    }

    /// What is no mistake and worth to know.
    pub(crate) fn notes(&self) -> Vec<&'static str> {
        let said = [(self.names_queues, QUOTAS), (self.asks_as_koordinators, KOORDINATOR)];
        said.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note).collect()
    }
}

/// All that is wrong with an object, in the order of the text.
pub(crate) fn look(
    source: SourceText<'_>,
    object: &WrittenObject<'_>,
    together: &Together,
    pod_rules: &PodRules,
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
    refused::look(&mut look, pod_rules);
    for found in &mut found {
        if !source.keeps(&found.edits) {
            found.edits.clear();
        }
    }
    found.sort_by_key(|found| found.at);
    // Two parts of an object may make their pods from one template.
    found.dedup_by(|a, b| (a.at, a.name, &a.field) == (b.at, b.name, &b.field));
    found
}

/// Findings that a rehearsal tells of each pod, as the reason why it waits.
pub(crate) const REASONS: [&str; 2] = [refused::REFUSED, refused::WRONG_TYPE];

/// All stable names.
pub const NAMES: [&str; 25] = [
    divvy_words::mistakes::MISSPELT,
    divvy_words::mistakes::MISPLACED,
    divvy_words::mistakes::SHARING_ANNOTATION,
    divvy_words::mistakes::FOREIGN_RESOURCE,
    names::NOT_ON_TEMPLATE,
    names::MISSPELT_SCHEDULER,
    DEFAULT_SCHEDULER,
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
    parameters::PARAMETERS,
    claims::REQUEST,
    configs::PLUGIN_CONFIG,
    configs::MIG_CONFIG,
    configs::RENAMED_RESOURCE,
    configs::DEFAULT_CONFIG,
    refused::REFUSED,
    refused::WRONG_TYPE,
];
