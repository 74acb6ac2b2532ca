//! What the configs of the device plugin and the MIG manager, given with the workload, would make
//! of the nodes.
//!
//! ```text
//!   ConfigMaps, ClusterPolicy, --partition ─► configs: which node gets which
//!   node ─► Offer ─► MIG: cards into slices ─► sharing: each several times ─► the node as it would be
//!                                              └─► what is said about it
//! ```

mod configs;
mod displaced;
mod layout;
mod log;

pub(crate) use configs::{Configs, in_force};
pub(crate) use displaced::BeforeConfigs;
pub use displaced::{DisplacedDevices, DisplacedHolder};
pub(crate) use log::Log;
pub use log::{ConfigEffect, ConfigOutcome};

use configs::{NamedConfig, NotThere, SaidStrategy};
use divvy_ledger::{Division, Gpus};
use divvy_words::{MigStrategy, Object, Offer, PluginConfig, Sharing, keys};
use layout::{Layout, call, described, divide};
use log::Said;

/// A node as it would be.
pub(crate) struct Changed {
    pub(crate) object: Object,
    layout: Option<Vec<Layout>>,
    sharing: Option<Sharing>,
}

impl Configs {
    /// A node as its configs would make it; `None` if they leave it as it is.
    pub(crate) fn change(&self, node: &Object, log: &mut Log) -> Option<Changed> {
        if self.is_empty() {
            return None;
        }
        let name = &*node.metadata.name;
        let Some(mut offer) = Offer::of(node) else {
            self.say_no_gpus(name, log);
            return None;
        };
        let found = |log: &mut Log, not_there| log.say(name, Said::not_there(not_there), &[]);
        let plugin = self.plugin_of(node).unwrap_or_else(|e| {
            found(log, e);
            None
        });
        let mig = self.mig_of(node).unwrap_or_else(|e| {
            found(log, e);
            None
        });
        let strategy = self.strategy(node, plugin);
        let divided = mig.and_then(|config| match divide(&offer, &config.config) {
            Ok((cards, model)) => Some((config, cards, model)),
            Err(why) => {
                log.say(name, Said::left(config, why), &[]);
                None
            }
        });
        let withheld = |object| Some(Changed { object, layout: None, sharing: None });
        let mut set = Vec::new();
        if let Some((config, cards, model)) = &divided {
            let mut label = |key: &str, text: &str| set.push((key.to_owned(), text.to_owned()));
            label(keys::LABEL_MIG_CONFIG, &config.name);
            label(keys::LABEL_MIG_STATE, "success");
            label(keys::LABEL_MIG_STRATEGY, strategy.kind.as_str());
            if let Err(why) = call(&mut offer, cards, model, strategy.kind) {
                log.say(name, Said::withheld(config, format!("{why} ({strategy})")), &[]);
                return withheld(offer.withhold(node, strategy.kind == MigStrategy::Single));
            }
        }
        if let Some(config) = plugin {
            if let Some(why) = mps_refusal(config, &strategy, &offer) {
                log.say(name, Said::withheld(config, why), &[]);
                return withheld(offer.withhold(node, false));
            }
            set.push((keys::LABEL_PLUGIN_CONFIG.to_owned(), config.name.clone()));
        }
        if divided.is_none() && plugin.is_none() {
            return None;
        }
        let sharing = plugin.and_then(|config| config.config.sharing.clone());
        let (object, offered) = offer.write(node, sharing.as_ref(), divided.is_some(), set);
        if let Some((config, cards, _)) = &divided {
            let (what, details) = (described(cards), format!("; {strategy}"));
            let said =
                Said { config: config.label(), effect: ConfigEffect::Applied, what, details };
            log.say(name, said, &offered);
        }
        if let Some(config) = plugin {
            log.say(name, shared(config, &offer), &offered);
        }
        // Without a strategy cards are handed out whole, divided or not.
        let divided = divided.filter(|_| strategy.kind != MigStrategy::None);
        Some(Changed { object, layout: divided.map(|(_, cards, _)| cards), sharing })
    }

    /// A node without GPUs is worth a word only if somebody asked about it.
    fn say_no_gpus(&self, node: &str, log: &mut Log) {
        for (_, config) in self.asked_nodes().filter(|(asked, _)| *asked == node) {
            let why = "it has no GPU that the device plugin hands out".to_owned();
            log.say(node, Said::not_there(NotThere { config: config.to_owned(), why }), &[]);
        }
    }
}

/// Why the device plugin would not share by MPS.
fn mps_refusal(
    config: &NamedConfig<PluginConfig>,
    strategy: &SaidStrategy,
    offer: &Offer,
) -> Option<&'static str> {
    let is_mps = config.config.sharing.as_ref().is_some_and(|s| s.by == Division::Mps);
    if !is_mps {
        None
    } else if offer.is_divided {
        Some("MPS does not share cards that MIG divides")
    } else if strategy.is_said && strategy.kind == MigStrategy::Mixed {
        Some("the device plugin does not start with MPS and the MIG strategy mixed")
    } else {
        None
    }
}

impl Changed {
    /// The numbers of the cards that MIG divides.
    pub(crate) fn divided(&self) -> impl Iterator<Item = u32> {
        let cards = self.layout.iter().flatten().zip(0u32..);
        cards.filter(|(card, _)| **card != Layout::Whole).map(|(_, number)| number)
    }

    /// What the labels do not say: what is on which card, and what is refused.
    pub(crate) fn complete(&self, gpus: &mut Gpus, before: &Gpus) {
        if let Some(layout) = &self.layout {
            layout::enter(layout, self.sharing.as_ref(), gpus, before);
        }
        self.sharing.iter().for_each(|sharing| sharing.enter(gpus));
    }
}

/// `4 replicas`, or of which resources so many.
fn shared(config: &NamedConfig<PluginConfig>, offer: &Offer) -> Said {
    let PluginConfig { sharing, ignored, .. } = &config.config;
    let here = offer.resources();
    let is_here = |name: &str| here.iter().any(|(known, _)| known == name);
    let made: Vec<(&str, u32)> = sharing
        .iter()
        .flat_map(|sharing| &sharing.resources)
        .filter(|(name, _)| is_here(name))
        .map(|(name, n)| (name.as_str(), *n))
        .collect();
    let kind = match sharing.as_ref().map(|sharing| sharing.by) {
        Some(Division::Mps) => "MPS replicas",
        _ => "replicas",
    };
    let what = match (&made[..], here.len()) {
        ([], _) => "no replicas".to_owned(),
        ([(_, n)], 1) => format!("{n} {kind}"),
        (all, _) => {
            let each: Vec<String> = all.iter().map(|(name, n)| format!("{n} of {name}")).collect();
            format!("{kind}, {}", each.join(" and "))
        }
    };
    let mut details = String::new();
    if !made.is_empty() && sharing.as_ref().is_some_and(|sharing| sharing.one_each) {
        details.push_str(", one for each container");
    }
    if !ignored.is_empty() {
        details.push_str(&format!("; the device plugin passes over {}", ignored.join(", ")));
    }
    Said { config: config.label(), effect: ConfigEffect::Applied, what, details }
}
