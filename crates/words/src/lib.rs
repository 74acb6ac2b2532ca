//! The words of manifests and configuration files: parse, validate, print.
//!
//! ```text
//!   text ─► read ─► Entry: Object ─┬─► pod ──► PodRecord ─┐
//!                                  ├─► node ─► NodeRecord ├─► engine
//!                                  └─► Priorities         │
//!   config file ─► config ─► Config ──────────────────────┘
//!   a pod about to be stored ─► admission ─► patch, refusal
//! ```
//!
//! Whatever stands in a file ends in a record, a text that says what is wrong with one object, or
//! an error that says where the file makes no sense; never in a panic.

pub mod admission;
mod affinity;
pub mod cards;
mod config;
pub mod device_allocated;
mod documents;
mod gates;
pub mod ghosts;
mod grace_period;
mod groups;
mod hand_off;
pub mod isolation;
mod kai;
mod kai_texts;
pub mod keys;
mod koordinator;
pub mod manifest;
pub mod mistakes;
mod namespace;
mod node;
mod pod;
mod pods_of;
mod priorities;
mod problem;
mod quantity;
mod relations;
mod request;
pub mod reservation;
mod resources;
mod schedulers;
mod selector;
mod strategy;
#[cfg(test)]
mod testing;
mod time;
mod volumes;

pub use config::{
    ConfigError, MigStrategy, PluginConfig, PluginConfigs, Sharing, config,
    is_device_plugin_config, is_mig_config, isolation_providers, mig_configs, mig_configs_text,
    plugin_config, usual_config,
};
pub use documents::{Entry, ReadError, read, untyped};
pub use gates::FeatureGates;
pub use grace_period::{MAX_GRACE_PERIOD, grace_period_allowed};
pub use groups::PodGroups;
pub use hand_off::{hand_off_ready, limits_ready};
pub use kai::{is_kai_binder, is_kai_scheduler};
pub use koordinator::{asks_as_koordinators, is_koordinator_scheduler};
pub use manifest::{Content, Kind, Metadata, Object, PodManifest, StorageKind, StorageManifest};
pub use namespace::{namespace_of, namespaces};
pub use node::{Offer, Single, is_unsettled, mig_strategy_of, node};
pub use pod::pod;
pub use pods_of::{PodRules, TemplatePods};
pub use priorities::Priorities;
pub use problem::{is_subdomain, shortened};
pub use quantity::{Quantity, decimal, whole};
pub use schedulers::OtherSchedulers;
pub use selector::selector;
pub use volumes::storage;
