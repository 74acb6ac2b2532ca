//! Cards that are divided by MIG (Multi-Instance GPU): which slices there may be and where.
//!
//! Each slice is a GPU instance with one compute instance, number 0, of all of it.

use crate::inventory::Card;
use serde::{Deserialize, Serialize};

/// How many slices of memory a card has.
const SLICES: u32 = 8;

/// A slice of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slice {
    /// Such as `1g.5gb`.
    pub profile: String,
    /// The first slice of memory that it has.
    pub start: u32,
}

/// A kind of slice, as NVML describes it on an A100.
#[derive(Debug)]
pub struct Profile {
    /// `NVML_GPU_INSTANCE_PROFILE_...`.
    pub number: u32,
    /// Its number in `nvidia-smi`, which instances name.
    pub id: u32,
    /// Slices of compute.
    pub compute: u32,
    /// Slices of memory.
    pub memory: u32,
    /// Where it may start.
    pub starts: &'static [u32],
    /// How many of them a card has at most.
    pub most: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    pub decoders: u32,
    /// JPEG engines, and as many for optical flow.
    pub media: u32,
    suffix: &'static str,
}

const ANYWHERE: &[u32] = &[0, 1, 2, 3, 4, 5, 6];

#[rustfmt::skip]
const PROFILES: [Profile; 7] = [
    Profile { number: 0, id: 19, compute: 1, memory: 1, starts: ANYWHERE, most: 7, multiprocessors: 14, decoders: 0, media: 0, suffix: "" },
    Profile { number: 7, id: 20, compute: 1, memory: 1, starts: ANYWHERE, most: 1, multiprocessors: 14, decoders: 1, media: 1, suffix: "+me" },
    Profile { number: 9, id: 15, compute: 1, memory: 2, starts: &[0, 2, 4, 6], most: 4, multiprocessors: 14, decoders: 1, media: 0, suffix: "" },
    Profile { number: 1, id: 14, compute: 2, memory: 2, starts: &[0, 2, 4], most: 3, multiprocessors: 28, decoders: 1, media: 0, suffix: "" },
    Profile { number: 2, id: 9, compute: 3, memory: 4, starts: &[0, 4], most: 2, multiprocessors: 42, decoders: 2, media: 0, suffix: "" },
    Profile { number: 3, id: 5, compute: 4, memory: 4, starts: &[0], most: 1, multiprocessors: 56, decoders: 2, media: 0, suffix: "" },
    Profile { number: 4, id: 0, compute: 7, memory: 8, starts: &[0], most: 1, multiprocessors: 98, decoders: 5, media: 1, suffix: "" },
];

/// What a card has in MiB, and slices of 1, 2, 4 and 8 eighths of its memory.
const MEMORY: [(u64, [u64; 4]); 2] =
    [(40_960, [4_864, 9_856, 19_968, 40_192]), (81_920, [9_856, 19_968, 40_192, 80_384])];

impl Profile {
    /// The number of the GPU instance that starts there: 0 is the whole card, 1 and 2 its halves, 3
    /// to 6 its quarters, 7 to 14 its eighths.
    const fn instance(&self, start: u32) -> u32 {
        (SLICES + start) / self.memory - 1
    }

    /// The number of the profile of its only compute instance: `NVML_COMPUTE_INSTANCE_PROFILE_...`.
    pub const fn compute_instance(&self) -> u32 {
        match self.compute {
            7 => 4,
            slices => slices - 1,
        }
    }
}

impl Card {
    /// The kinds of slices that it may have; none if it cannot be divided.
    pub(crate) fn profiles(&self) -> &'static [Profile] {
        if MEMORY.iter().any(|(card, _)| *card == self.mib) { &PROFILES } else { &[] }
    }

    /// What a slice of this kind has of its memory.
    pub(crate) fn slice_mib(&self, profile: &Profile) -> u64 {
        let of = MEMORY.iter().find(|(card, _)| *card == self.mib);
        of.map_or(0, |(_, slices)| slices[profile.memory.ilog2() as usize])
    }

    fn profile_name(&self, profile: &Profile) -> String {
        let gb = self.mib / 1024 * u64::from(profile.memory) / u64::from(SLICES);
        format!("{}g.{gb}gb{}", profile.compute, profile.suffix)
    }

    /// The kind of a slice, if there is such a kind.
    pub(crate) fn profile(&self, slice: &Slice) -> Option<&'static Profile> {
        self.profiles().iter().find(|profile| self.profile_name(profile) == slice.profile)
    }

    /// The number of a slice's GPU instance on the card.
    pub fn instance(&self, slice: &Slice) -> u32 {
        self.profile(slice).map_or(0, |profile| profile.instance(slice.start))
    }

    /// The name of a slice, which is the same for each slice of its kind at its place.
    pub fn slice_uuid(&self, slice: &Slice) -> String {
        let profile = self.profile(slice).map_or(0, |profile| profile.id);
        let card = self.minor;
        format!("MIG-{card:08x}-{profile:04x}-5a10-8000-{:012x}", self.instance(slice))
    }

    /// The minors of the device nodes without which nobody may use a slice: those of its GPU instance
    /// and of its compute instance.
    pub fn capabilities(&self, slice: &Slice) -> [u32; 2] {
        // The driver has a number for each that there may be: of the configuration, the monitor,
        // and on each card of 15 GPU instances and 8 compute instances on each of these.
        let of_instance = 3 + self.minor * 15 * 9 + self.instance(slice) * 9;
        [of_instance, of_instance + 1]
    }

    /// The same card, divided by MIG into these slices, such as `1g.5gb`: the largest first, each as
    /// far to the end as it may be. Or what is wrong.
    pub fn divided(self, profiles: &[&str]) -> Result<Self, String> {
        let mut wanted = Vec::new();
        for name in profiles {
            let profile = self.profiles().iter().find(|p| self.profile_name(p) == *name);
            wanted.push(profile.ok_or_else(|| format!("a {} has no slices {name}", self.name))?);
        }
        wanted.sort_by_key(|profile| std::cmp::Reverse((profile.memory, profile.starts.len())));
        let (mut slices, mut taken) = (Vec::new(), [false; SLICES as usize]);
        for profile in wanted {
            let name = self.profile_name(profile);
            let part = |start: u32| start as usize..(start + profile.memory) as usize;
            let is_free = |start: &&u32| !taken[part(**start)].contains(&true);
            let same = slices.iter().filter(|slice: &&Slice| slice.profile == name).count();
            let start = profile.starts.iter().rev().find(is_free);
            let Some(start) = start.filter(|_| same < profile.most as usize) else {
                return Err(format!("a {} has no room for {profiles:?}", self.name));
            };
            taken[part(*start)].fill(true);
            slices.push(Slice { profile: name, start: *start });
        }
        slices.sort_by_key(|slice| slice.start);
        Ok(Self { slices: Some(slices), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::Card;

    fn starts(profiles: &[&str]) -> Result<Vec<(String, u32)>, String> {
        let slices = Card::a100_80(0).divided(profiles)?.slices.unwrap_or_default();
        Ok(slices.into_iter().map(|slice| (slice.profile, slice.start)).collect())
    }

    #[test]
    fn what_a_card_has_room_for_is_placed_and_the_rest_is_refused() {
        let recipe = ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"];
        let placed = [("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 4)];
        let placed = placed.map(|(profile, start)| (profile.to_owned(), start));
        assert_eq!(starts(&recipe).unwrap(), placed);
        for legal in [
            &["1g.10gb"; 7][..],
            &["1g.20gb"; 4],
            &["3g.40gb"; 2],
            &["3g.40gb", "4g.40gb"],
            &["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"],
            &["2g.20gb", "2g.20gb", "2g.20gb", "1g.20gb"],
            &["1g.10gb+me", "1g.10gb"],
            &["7g.80gb"],
            &[],
        ] {
            assert_eq!(starts(legal).unwrap().len(), legal.len(), "{legal:?}");
        }
        for illegal in [
            &["1g.10gb"; 8][..],
            &["3g.40gb", "3g.40gb", "1g.10gb"],
            &["4g.40gb", "4g.40gb"],
            &["1g.10gb+me", "1g.10gb+me"],
            &["7g.80gb", "1g.10gb"],
            &["1g.5gb"],
        ] {
            assert!(starts(illegal).is_err(), "{illegal:?}");
        }
    }

    #[test]
    fn slices_have_names_and_numbers_of_their_own() {
        let card = Card::a100(1).divided(&["1g.5gb", "2g.10gb", "3g.20gb"]).unwrap();
        let slices = card.slices.as_ref().unwrap();
        let instances: Vec<u32> = slices.iter().map(|slice| card.instance(slice)).collect();
        // 1g.5gb at 1, 2g.10gb at 2, 3g.20gb at 4.
        assert_eq!(instances, [8, 4, 2]);
        // As the driver counts: gpu1/gi2/access is 156.
        assert_eq!(card.capabilities(&slices[2]), [156, 157]);
        assert_eq!(card.slice_uuid(&slices[0]), "MIG-00000001-0013-5a10-8000-000000000008");
    }
}
