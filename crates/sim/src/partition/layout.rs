//! What a config of mig-parted makes of each card of a node, and how the slices are called.

use divvy_ledger::mig::{self, CardIndexes, EntryOutcome, Geometry, MigConfig, Model, listed};
use divvy_ledger::{Bytes, Device, DividedCard, Division, Gpus, Profile};
use divvy_words::{MigStrategy, Offer, Sharing, Single, keys};
use std::collections::BTreeMap;

/// What a card is made into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// It is not divided.
    Whole,
    /// It has these slices.
    Slices(Vec<(Profile, u32)>),
}

/// What a config of mig-parted makes of each card of a node, or why it cannot.
pub(super) fn divide(
    offer: &Offer,
    partition: &MigConfig,
) -> Result<(Vec<Layout>, &'static Model), String> {
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
            EntryOutcome::OtherModel => continue,
            EntryOutcome::Undivided => Ok(Layout::Whole),
            EntryOutcome::Divided(..) => Ok(Layout::Slices(entry.profiles.clone())),
            EntryOutcome::Misfit(misfit) => Err(misfit.to_string()),
            EntryOutcome::UnknownFilter | EntryOutcome::NoModel => {
                Err("no model is meant".to_owned())
            }
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
                CardIndexes::All => true,
                CardIndexes::These(these) => these.contains(&index),
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
pub(super) fn call(
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

/// Enters what is on which card.
pub(super) fn enter(layout: &[Layout], sharing: Option<&Sharing>, gpus: &mut Gpus, before: &Gpus) {
    if layout.iter().all(|card| *card == Layout::Whole) {
        return;
    }
    let replicas = |name: &str| sharing.map_or(1, |sharing| sharing.replicas(name));
    let of_divided = || before.divided.first().map(|card| card.memory);
    let memory = before.cards.first().copied().or_else(of_divided).flatten();
    let pools = &*gpus;
    let part = |(profile, count): &(Profile, u32)| {
        let own = Device::Slice(*profile).to_string();
        let device = called(pools, &own).map(|device| (device, replicas(&own)));
        let single = || Some((called(pools, keys::GPU)?, replicas(keys::GPU)));
        let (device, times) = device.or_else(single)?;
        Some((device, count.saturating_mul(times)))
    };
    let divided = layout.iter().filter_map(|card| match card {
        Layout::Whole => {
            let of_gpu = Some(replicas(keys::GPU)).filter(|replicas| *replicas > 1)?;
            let into = [(called(pools, keys::GPU)?, of_gpu)].into_iter().collect();
            Some(DividedCard { memory, by: sharing?.by, into })
        }
        Layout::Slices(slices) => {
            let into = slices.iter().filter_map(part).collect();
            Some(DividedCard { memory, by: Division::Mig, into })
        }
    });
    gpus.divided = divided.collect();
    for pool in &mut gpus.pools {
        let has = |card: &&DividedCard| card.into.iter().any(|(d, _)| *d == pool.device);
        let cards = gpus.divided.iter().filter(has).count();
        pool.cards = u32::try_from(cards).unwrap_or(u32::MAX);
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

/// `every card into 2 x 1g.10gb, 1 x 3g.40gb`, or `cards 0-3 into 7 x 1g.10gb, cards 4-7 whole`.
pub(super) fn described(layout: &[Layout]) -> String {
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
