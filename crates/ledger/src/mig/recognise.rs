//! Which model is meant by what people and tools write.

use super::{MODELS, Model};
use std::fmt;
use std::str::FromStr;

/// A name that is no model's, or more than one's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel {
    /// What was given.
    pub given: String,
    /// The models that it may be.
    pub like: Vec<&'static str>,
}

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given, like } = self;
        if like.is_empty() {
            let all: Vec<_> = MODELS.iter().map(|model| model.name).collect();
            write!(f, "{given:?} is no model that MIG divides; allowed are {}", all.join(", "))
        } else {
            write!(f, "{given:?} may be {}: say which", like.join(" or "))
        }
    }
}

impl std::error::Error for UnknownModel {}

/// Reads `A100-80GB`, a product name such as `NVIDIA-A100-SXM4-80GB` or `NVIDIA H100 80GB HBM3`,
/// or a PCI id such as `0x20B210DE`.
impl FromStr for &'static Model {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        let given = || text.chars().filter(|c| !c.is_control()).take(64).collect();
        let upper = text.to_ascii_uppercase();
        if let Some(model) = MODELS.iter().find(|model| model.name == upper) {
            return Ok(model);
        }
        if let Some(model) = model_of_filter(text) {
            return Ok(model);
        }
        // Behind this a label says how cards are divided already.
        let product = upper.split("-MIG-").next().unwrap_or_default();
        let words = product.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> =
            words.map(|w| w.strip_suffix("GB").or(w.strip_suffix('G')).unwrap_or(w)).collect();
        let is_meant = |chip: &&[&str]| chip.iter().all(|word| words.contains(word));
        let is_chip = |model: &Model| model.chips.iter().any(is_meant);
        let is_marked = |model: &Model| model.marks.iter().any(|mark| words.contains(mark));
        let chips: Vec<&'static Model> = MODELS.iter().filter(|model| is_chip(model)).collect();
        let marked: Vec<&'static Model> =
            chips.iter().copied().filter(|model| is_marked(model)).collect();
        let plain = || chips.iter().copied().filter(|model| model.marks.is_empty());
        match (marked.as_slice(), plain().next()) {
            ([model], _) => Ok(model),
            ([], Some(model)) => Ok(model),
            _ => {
                let like = chips.iter().map(|model| model.name).collect();
                Err(UnknownModel { given: given(), like })
            }
        }
    }
}

/// The model of a `device-filter` of mig-parted: device and vendor, `0x20B210DE`.
pub fn model_of_filter(text: &str) -> Option<&'static Model> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let id = u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 8)?;
    let (device, vendor) = ((id >> 16) as u16, id & 0xFFFF);
    MODELS.iter().find(|model| vendor == 0x10DE && model.pci.contains(&device))
}
