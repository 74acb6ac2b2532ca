//! One file for each kind of reader.

mod agreement;
mod clusters;
mod configs;
mod devices;
mod divisions;
mod events;
mod lint;
mod lists;
mod manifests;
mod nodes;
mod pods;
mod quantities;
mod rehearsals;
mod requests;
mod reviews;
mod snapshots;

pub use agreement::agreement;
pub use clusters::clusters;
pub use configs::configs;
pub use devices::devices;
pub use divisions::divisions;
pub use events::events;
pub use lint::lint;
pub use lists::lists;
pub use manifests::{manifests, objects};
pub use nodes::nodes;
pub use pods::pods;
pub use quantities::quantities;
pub use rehearsals::rehearsals;
pub use requests::requests;
pub use reviews::reviews;
pub use snapshots::snapshots;
