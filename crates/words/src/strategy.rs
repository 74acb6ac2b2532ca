//! The words for placement strategies.

use divvy_engine::Strategy;

/// What [`parse`] reads.
pub(crate) const ALLOWED: &str = "binpack, spread";

/// A strategy by its name.
pub(crate) fn parse(text: &str) -> Option<Strategy> {
    match text {
        "binpack" => Some(Strategy::Binpack),
        "spread" => Some(Strategy::Spread),
        _ => None,
    }
}
