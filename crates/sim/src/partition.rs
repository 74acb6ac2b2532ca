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

pub(crate) use configs::Configs;
pub(crate) use displaced::Before;
pub use displaced::{Displaced, Holder};

use configs::{Map, Named, NotThere, Strategy};
use divvy_ledger::mig::{self, Devices, Geometry, Model, Outcome, Partition, listed};
use divvy_ledger::{Bytes, Device, DividedCard, Division, Gpus, Profile};
use divvy_words::{MigStrategy, Object, Offer, PluginConfig, Sharing, Single, keys};
use std::collections::{BTreeMap, BTreeSet};

/// What a config would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repartition {
    /// The config: its ConfigMap, and its name there if there are several.
    pub config: String,
    /// What comes of it.
    pub effect: Effect,
    /// On which nodes.
    pub nodes: Vec<String>,
    /// What these hand out then.
    pub resources: BTreeMap<String, u64>,
    /// What there is to say before the nodes are named.
    what: String,
    /// And behind it.
    details: String,
}

/// What comes of a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The nodes are changed.
    Applied,
    /// The nodes are left as they are.
    Unchanged,
    /// The device plugin would hand out nothing there.
    Withheld,
}

impl Repartition {
    /// A ConfigMap of which nothing comes.
    fn nothing(config: String, why: String) -> Self {
        let (nodes, resources) = (Vec::new(), BTreeMap::new());
        let (what, details) = ("nothing changes".to_owned(), format!(": {why}"));
        Self { config, effect: Effect::Unchanged, nodes, resources, what, details }
    }

    /// In one sentence.
    pub fn message(&self) -> String {
        let on = match &self.nodes[..] {
            [] => String::new(),
            [node] => format!(" on {node}"),
            nodes => format!(" on {} nodes", nodes.len()),
        };
        let names: Vec<&str> = self.resources.keys().map(String::as_str).collect();
        let resources = match names.len() {
            0 => String::new(),
            1 => format!(", resource {}", names[0]),
            _ => format!(", resources {}", names.join(", ")),
        };
        format!("{}: {}{on}{resources}{}", self.config, self.what, self.details)
    }
}

/// What a card is made into.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    Whole,
    Slices(Vec<(Profile, u32)>),
}

/// A node as it would be.
pub(crate) struct Changed {
    pub(crate) object: Object,
    layout: Option<Vec<Layout>>,
    sharing: Option<Sharing>,
}

/// What is said of one node.
struct Said {
    config: String,
    effect: Effect,
    what: String,
    details: String,
}

impl Said {
    fn left<T>(config: &Named<T>, why: impl Into<String>) -> Self {
        let what = "nothing changes".to_owned();
        let (config, details) = (config.label(), format!(": {}", why.into()));
        Self { config, effect: Effect::Unchanged, what, details }
    }

    fn not_there(not_there: NotThere) -> Self {
        let NotThere { config, why } = not_there;
        let what = "nothing changes".to_owned();
        Self { config, effect: Effect::Unchanged, what, details: format!(": {why}") }
    }

    fn withheld<T>(config: &Named<T>, why: impl Into<String>) -> Self {
        let what = "nothing would be handed out".to_owned();
        let (config, details) = (config.label(), format!(": {}", why.into()));
        Self { config, effect: Effect::Withheld, what, details }
    }
}

/// What is said of all nodes, in the order it was found.
#[derive(Default)]
pub(crate) struct Log {
    all: Vec<Repartition>,
}

impl Log {
    fn say(&mut self, node: &str, said: Said, offered: &[(String, u64)]) {
        let Said { config, effect, what, details } = said;
        let same = |known: &Repartition| {
            (&known.config, known.effect, &known.what, &known.details)
                == (&config, effect, &what, &details)
                && known.resources.keys().eq(offered.iter().map(|(name, _)| name))
        };
        let at = match self.all.iter().position(same) {
            Some(at) => at,
            None => {
                let (nodes, resources) = (Vec::new(), BTreeMap::new());
                self.all.push(Repartition { config, effect, nodes, resources, what, details });
                self.all.len() - 1
            }
        };
        let entry = &mut self.all[at];
        entry.nodes.push(node.to_owned());
        for (name, count) in offered {
            let sum = entry.resources.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// All that was said, and which ConfigMaps no node takes a config of.
    pub(crate) fn finish(mut self, configs: &Configs) -> Vec<Repartition> {
        let said: BTreeSet<String> = self.all.iter().map(|said| said.config.clone()).collect();
        if let Some((policy, map)) = configs.missing_map() {
            let why = format!("ClusterPolicy {policy} names it, and no manifest has it");
            self.all.insert(0, Repartition::nothing(map.to_owned(), why));
        }
        for Map { name, labels, names, label } in configs.maps() {
            if labels.iter().any(|label| said.contains(label)) {
                continue;
            }
            let names = names.join(", ");
            let try_it = format!("try one with --partition NODE=CONFIG: {names}");
            let why = format!("no node takes a config of it by the label {label}; {try_it}");
            self.all.push(Repartition::nothing(name, why));
        }
        self.all
    }
}

impl Configs {
    /// A node as its configs would make it; `None` if they leave it as it is.
    pub(crate) fn change(&self, node: &Object, log: &mut Log) -> Option<Changed> {
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
            let said = Said { config: config.label(), effect: Effect::Applied, what, details };
            log.say(name, said, &offered);
        }
        if let Some(config) = plugin {
            log.say(name, shared(config, &offer), &offered);
        }
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
    config: &Named<PluginConfig>,
    strategy: &Strategy,
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
    /// What the labels do not say: what is on which card, and what is refused.
    pub(crate) fn complete(&self, gpus: &mut Gpus, before: &Gpus) {
        let replicas = |name: &str| self.sharing.as_ref().map_or(1, |s| s.replicas(name));
        if let Some(layout) = &self.layout
            && layout.iter().any(|card| *card != Layout::Whole)
        {
            let of_gpu = replicas(keys::GPU);
            let of_divided = || before.divided.first().map(|card| card.memory);
            let memory = before.cards.first().copied().or_else(of_divided).flatten();
            let pools = &*gpus;
            let divided = layout.iter().filter_map(|card| {
                let (by, parts) = match card {
                    Layout::Whole if of_gpu > 1 => {
                        (self.sharing.as_ref()?.by, vec![(called(pools, keys::GPU)?, of_gpu)])
                    }
                    Layout::Whole => return None,
                    Layout::Slices(slices) => {
                        let part = |(profile, count): &(Profile, u32)| {
                            let own = Device::Slice(*profile).to_string();
                            let device = called(pools, &own).map(|device| (device, replicas(&own)));
                            let single = || Some((called(pools, keys::GPU)?, of_gpu));
                            let (device, times) = device.or_else(single)?;
                            Some((device, count.saturating_mul(times)))
                        };
                        (Division::Mig, slices.iter().filter_map(part).collect())
                    }
                };
                Some(DividedCard { memory, by, into: parts.into_iter().collect() })
            });
            gpus.divided = divided.collect();
            for pool in &mut gpus.pools {
                let has = |card: &&DividedCard| card.into.iter().any(|(d, _)| *d == pool.device);
                let cards = gpus.divided.iter().filter(has).count();
                pool.cards = u32::try_from(cards).unwrap_or(u32::MAX);
            }
        }
        for pool in &mut gpus.pools {
            let name = pool.device.to_string();
            let name = name.strip_suffix(".shared").unwrap_or(&name);
            let one_each = self.sharing.as_ref().is_some_and(|sharing| sharing.one_each);
            pool.one_each |= one_each && replicas(name) > 1;
        }
    }
}

/// By which device a resource is handed out, under its own name or as replicas.
fn called(gpus: &Gpus, resource: &str) -> Option<Device> {
    let is_it = |device: Device| {
        let name = device.to_string();
        name.strip_suffix(".shared").unwrap_or(&name) == resource
    };
    gpus.pools.iter().map(|pool| pool.device).find(|device| is_it(*device))
}

/// What a config of mig-parted makes of each card of a node, or why it cannot.
fn divide(offer: &Offer, partition: &Partition) -> Result<(Vec<Layout>, &'static Model), String> {
    let cards = offer.cards.filter(|cards| (1..=1024).contains(cards)).ok_or_else(|| {
        format!(
            "how many cards it has is not known: that is what the label {} says",
            keys::LABEL_GPU_COUNT
        )
    })?;
    let product = offer.product.as_deref().ok_or_else(|| {
        format!(
            "the model of its cards is not known: that is what the label {} says",
            keys::LABEL_GPU_PRODUCT
        )
    })?;
    let model: &'static Model =
        product.parse().map_err(|why: mig::UnknownModel| why.to_string())?;
    let mut layout: Vec<Option<Layout>> = vec![None; cards as usize];
    let one = std::slice::from_ref(partition);
    for judged in mig::check(one, Some(model)).iter().flat_map(|verdict| &verdict.judged) {
        let entry = judged.entry;
        let made = match &judged.outcome {
            Outcome::OtherModel => continue,
            Outcome::Undivided => Ok(Layout::Whole),
            Outcome::Divided(..) => Ok(Layout::Slices(entry.profiles.clone())),
            Outcome::Misfit(misfit) => Err(misfit.to_string()),
            Outcome::UnknownFilter | Outcome::NoModel => Err("no model is meant".to_owned()),
        };
        let made = made.map_err(|why| {
            format!(
                "on {} the MIG manager would report {}=failed: {why}",
                model.name,
                keys::LABEL_MIG_STATE
            )
        })?;
        for (card, index) in layout.iter_mut().zip(0u32..) {
            let is_meant = match &entry.devices {
                Devices::All => true,
                Devices::These(these) => these.contains(&index),
            };
            if is_meant {
                *card = Some(made.clone());
            }
        }
    }
    if layout.iter().all(Option::is_none) {
        return Err(format!("none of its entries is for a card of {}", model.name));
    }
    if offer.is_divided && layout.iter().any(Option::is_none) {
        return Err(
            "which of the cards that it does not name are divided now is not known".to_owned()
        );
    }
    let layout = layout.into_iter().map(|card| card.unwrap_or(Layout::Whole)).collect();
    Ok((layout, model))
}

/// Calls the slices as the strategy does, or says why the device plugin would not.
fn call(
    offer: &mut Offer,
    layout: &[Layout],
    model: &'static Model,
    strategy: MigStrategy,
) -> Result<(), String> {
    let geometry = Geometry::of(model);
    let memory = |profile: Profile| geometry.find(profile.undivided()).map(|cut| cut.memory);
    let mut slices: BTreeMap<Profile, (u32, Option<Bytes>)> = BTreeMap::new();
    let (mut whole, mut empty) = (0u32, 0u32);
    for card in layout {
        match card {
            Layout::Whole => whole += 1,
            Layout::Slices(profiles) if profiles.is_empty() => empty += 1,
            Layout::Slices(profiles) => {
                for (profile, count) in profiles {
                    let (sum, _) = slices.entry(*profile).or_insert((0, memory(*profile)));
                    *sum = sum.saturating_add(*count);
                }
            }
        }
    }
    let all = u32::try_from(layout.len()).unwrap_or(u32::MAX);
    // Without MIG the plugin goes on handing out the cards that work.
    let usable = if offer.is_divided { whole } else { whole.min(offer.whole) };
    (offer.slices, offer.single, offer.whole) = (BTreeMap::new(), None, usable);
    offer.is_divided = whole < all;
    match strategy {
        MigStrategy::None => offer.whole = all,
        _ if !offer.is_divided => {}
        MigStrategy::Mixed => {
            if let Some(profile) = slices.keys().find(|profile| profile.instances.is_some()) {
                let profile = profile.in_config();
                return Err(format!(
                    "the device plugin has no name for compute instances ({profile})"
                ));
            }
            offer.slices = slices;
        }
        MigStrategy::Single => {
            let wants = "single takes slices of one profile on every card";
            if whole > 0 {
                return Err(format!("{wants}, and {whole} of {all} cards stay whole"));
            }
            if empty > 0 {
                return Err(format!("{wants}, and {empty} of {all} cards have none"));
            }
            let mut kinds = slices.into_iter();
            match (kinds.next(), kinds.len()) {
                (Some((profile, (count, memory))), 0) => {
                    let profile = profile.to_string();
                    offer.single = Some(Single { profile, count, memory });
                }
                (_, more) => return Err(format!("{wants}, and these are {} profiles", more + 1)),
            }
        }
    }
    Ok(())
}

/// `every card into 2 x 1g.10gb, 1 x 3g.40gb`, or `cards 0-3 into 7 x 1g.10gb, cards 4-7 whole`.
fn described(layout: &[Layout]) -> String {
    let into = |card: &Layout| match card {
        Layout::Whole => "whole".to_owned(),
        Layout::Slices(slices) if slices.is_empty() => "with MIG and no slices".to_owned(),
        Layout::Slices(slices) => format!("into {}", listed(slices)),
    };
    let mut runs: Vec<(usize, usize, &Layout)> = Vec::new();
    for (index, card) in layout.iter().enumerate() {
        match runs.last_mut() {
            Some((_, last, same)) if *same == card => *last = index,
            _ => runs.push((index, index, card)),
        }
    }
    let run = |(first, last, card): &(usize, usize, &Layout)| match (runs.len(), first == last) {
        (1, _) => format!("every card {}", into(card)),
        (_, true) => format!("card {first} {}", into(card)),
        (_, false) => format!("cards {first}-{last} {}", into(card)),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

/// `4 replicas`, or of which resources so many.
fn shared(config: &Named<PluginConfig>, offer: &Offer) -> Said {
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
    Said { config: config.label(), effect: Effect::Applied, what, details }
}
