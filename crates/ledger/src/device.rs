//! Devices that are counted by node: the device plugin chooses which card is behind one.

use crate::Bytes;
use std::fmt;

/// What a device plugin offers besides cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// A replica, or a slice, under the name of a whole GPU: whole requests take it.
    Gpu,
    /// A replica under its own name.
    Replica,
    /// A MIG slice.
    Slice(Profile),
    /// A replica of a MIG slice, under its own name.
    SliceReplica(Profile),
}

/// Which card devices of a pod are on, where the kubelet tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOn {
    /// The card.
    pub uuid: Box<str>,
    /// Of which kind.
    pub device: Device,
    /// How many.
    pub count: u32,
}

const GPU: &str = "nvidia.com/gpu";
const MIG: &str = "nvidia.com/mig-";
const SHARED: &str = ".shared";

impl Device {
    /// The device of a resource; `None` for cards, and for what is no GPU.
    pub fn of_resource(name: &str) -> Option<Self> {
        if let Some(profile) = name.strip_prefix(MIG) {
            return match profile.strip_suffix(SHARED) {
                Some(profile) => Profile::parse(profile).map(Self::SliceReplica),
                None => Profile::parse(profile).map(Self::Slice),
            };
        }
        (name.strip_prefix(GPU)? == SHARED).then_some(Self::Replica)
    }

    /// The profile of a MIG slice, as far as its name says that it is one.
    pub const fn profile(self) -> Option<Profile> {
        match self {
            Self::Gpu | Self::Replica => None,
            Self::Slice(profile) | Self::SliceReplica(profile) => Some(profile),
        }
    }
}

/// The name of the resource.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu => f.write_str(GPU),
            Self::Replica => write!(f, "{GPU}{SHARED}"),
            Self::Slice(profile) => write!(f, "{MIG}{profile}"),
            Self::SliceReplica(profile) => write!(f, "{MIG}{profile}{SHARED}"),
        }
    }
}

/// The kind of a MIG slice, by the parts of its name (`1g.10gb`, `1c.3g.40gb`, `1g.24gb.me.all`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Profile {
    /// Compute slices (`3g`).
    pub slices: u8,
    /// Memory in GB, as the name rounds it (`40gb`).
    pub gb: u16,
    /// Compute instances (`1c`), if the slice is divided once more.
    pub instances: Option<u8>,
    /// What it has of the engines that a card has few of.
    pub engines: Engines,
}

/// What a slice has of the engines that a card has few of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engines {
    /// As many as are usual.
    #[default]
    Usual,
    /// Media engines (`+me`).
    Media,
    /// All media engines (`+me.all`).
    AllMedia,
    /// No media engines (`-me`).
    NoMedia,
    /// Graphics (`+gfx`).
    Graphics,
}

impl Engines {
    const ALL: [Self; 5] =
        [Self::Usual, Self::Media, Self::AllMedia, Self::NoMedia, Self::Graphics];

    /// As it stands in a resource, where the device plugin writes a dot for a plus.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Media => ".me",
            Self::AllMedia => ".me.all",
            Self::NoMedia => "-me",
            Self::Graphics => ".gfx",
        }
    }
}

impl Profile {
    /// Its memory as its name says it, which is rounded.
    pub const fn memory(self) -> Bytes {
        Bytes::from_mib(self.gb as u64 * 1024)
    }

    /// Reads the name as it stands in a resource.
    pub fn parse(name: &str) -> Option<Self> {
        let (instances, rest) = match name.split_once('.')? {
            (first, rest) if first.ends_with('c') => (Some(number(first, "c")?), rest),
            _ => (None, name),
        };
        let (slices, rest) = rest.split_once('.')?;
        let (gb, engines) = rest.split_once("gb")?;
        let engines = Engines::ALL.into_iter().find(|known| known.suffix() == engines)?;
        let profile =
            Self { slices: number(slices, "g")?, gb: number(gb, "")?, instances, engines };
        // One kind has one name.
        (profile.to_string() == name).then_some(profile)
    }
}

/// A positive number before its unit.
fn number<N: std::str::FromStr + Default + PartialEq>(text: &str, unit: &str) -> Option<N> {
    let number = text.strip_suffix(unit)?.parse().ok()?;
    (number != N::default()).then_some(number)
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(instances) = self.instances {
            write!(f, "{instances}c.")?;
        }
        write!(f, "{}g.{}gb", self.slices, self.gb)?;
        f.write_str(self.engines.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn devices_are_known_by_their_resource() {
        for name in [
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-1g.5gb",
            "nvidia.com/mig-7g.141gb",
            "nvidia.com/mig-1c.3g.40gb",
            "nvidia.com/mig-1g.10gb.me",
            "nvidia.com/mig-1g.24gb.me.all",
            "nvidia.com/mig-4g.96gb.gfx",
            "nvidia.com/mig-1g.24gb-me",
            "nvidia.com/mig-1g.5gb.shared",
        ] {
            assert_eq!(Device::of_resource(name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn what_is_no_device_stays_a_resource_like_others() {
        for name in [
            "nvidia.com/gpu",
            "nvidia.com/gpus",
            "nvidia.com/gpu.shared.",
            "nvidia.com/mig-",
            "nvidia.com/mig-1g",
            "nvidia.com/mig-0g.5gb",
            "nvidia.com/mig-01g.5gb",
            "nvidia.com/mig-+1g.5gb",
            "nvidia.com/mig-1g.5gb.",
            "nvidia.com/mig-1g.5gb.fast",
            "nvidia.com/mig-1c.5gb",
            "nvidia.com/mig-999g.5gb",
            "amd.com/gpu",
        ] {
            assert_eq!(Device::of_resource(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_read_as_it_is_printed_or_not_at_all(name in "nvidia.com/(mig-|gpu).{0,16}") {
            if let Some(device) = Device::of_resource(&name) {
                prop_assert_eq!(device.to_string(), name);
            }
        }
    }
}
