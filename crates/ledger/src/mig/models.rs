//! The models that can be divided, as data. NVIDIA's mock tables and mig-parted's checks accept
//! layouts that the hardware refuses, so this table is our own.

use crate::{Bytes, Engines, Profile};

/// A model of cards that MIG divides.
#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// How divvy calls it.
    pub name: &'static str,
    /// Its kind of slices.
    pub(super) frame: &'static Frame,
    /// The memory of its profiles as their names round it, by [`Frame::cuts`]; drivers differ.
    pub(super) gb: &'static [&'static [u16]],
    /// The memory of each profile in MiB, as drivers report it, where that was seen.
    pub(super) mib: Option<&'static [u32]>,
    /// The memory of a card in MiB.
    pub(super) total: u32,
    /// What its chips are called, each in words of product names.
    pub(super) chips: &'static [&'static [&'static str]],
    /// Words that tell it from others with the same chip: its memory in GB, or its board.
    pub(super) marks: &'static [&'static str],
    /// PCI device ids, without NVIDIA's own.
    pub(super) pci: &'static [u16],
}

/// What models with the same slices have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) memory_slices: u8,
    pub(super) compute_slices: u8,
    /// How often a card has the engines of [`FrameCut::media`].
    pub(super) media: u8,
    pub(super) cuts: &'static [FrameCut],
}

/// One profile, whatever its memory is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameCut {
    pub(super) compute: u8,
    /// Memory slices.
    pub(super) size: u8,
    pub(super) starts: &'static [u8],
    pub(super) engines: Engines,
    /// Which of [`Model::gb`] and [`Model::mib`].
    pub(super) named: usize,
    /// Media engines that it takes of those that are counted.
    pub(super) media: u8,
    /// Whether it has what a card has once (`+me`).
    pub(super) unique: bool,
}

const fn cut(compute: u8, size: u8, starts: &'static [u8], named: usize) -> FrameCut {
    let engines = Engines::Usual;
    FrameCut { compute, size, starts, engines, named, media: 0, unique: false }
}

const fn with(cut: FrameCut, engines: Engines, media: u8) -> FrameCut {
    let unique = matches!(engines, Engines::Media | Engines::AllMedia);
    FrameCut { engines, media, unique, ..cut }
}

const ONES: &[u8] = &[0, 1, 2, 3, 4, 5, 6];

/// GA100, GH100 and GB100. There is no start 7 for one slice: compute has only seven.
const EIGHTHS: Frame = Frame {
    memory_slices: 8,
    compute_slices: 7,
    media: 0,
    cuts: &[
        cut(1, 1, ONES, 0),
        with(cut(1, 1, ONES, 0), Engines::Media, 0),
        cut(1, 2, &[0, 2, 4, 6], 1),
        cut(2, 2, &[0, 2, 4], 2),
        cut(3, 4, &[0, 4], 3),
        cut(4, 4, &[0], 4),
        cut(7, 8, &[0], 5),
    ],
};

const QUARTERS: &[u8] = &[0, 1, 2, 3];
const HALVES: &[u8] = &[0, 2];

/// A30.
const AMPERE_QUARTERS: Frame = Frame {
    memory_slices: 4,
    compute_slices: 4,
    media: 0,
    cuts: &[
        cut(1, 1, QUARTERS, 0),
        with(cut(1, 1, QUARTERS, 0), Engines::Media, 0),
        cut(2, 2, HALVES, 1),
        with(cut(2, 2, HALVES, 1), Engines::Media, 0),
        cut(4, 4, &[0], 2),
    ],
};

/// GB202: each quarter has its media engines, unless one slice takes all of them.
const BLACKWELL_QUARTERS: Frame = Frame {
    memory_slices: 4,
    compute_slices: 4,
    media: 4,
    cuts: &[
        with(cut(1, 1, QUARTERS, 0), Engines::Usual, 1),
        with(cut(1, 1, QUARTERS, 0), Engines::Media, 1),
        with(cut(1, 1, QUARTERS, 0), Engines::Graphics, 1),
        with(cut(1, 1, QUARTERS, 0), Engines::AllMedia, 4),
        with(cut(1, 1, QUARTERS, 0), Engines::NoMedia, 0),
        with(cut(2, 2, HALVES, 1), Engines::Usual, 2),
        with(cut(2, 2, HALVES, 1), Engines::Graphics, 2),
        with(cut(2, 2, HALVES, 1), Engines::AllMedia, 4),
        with(cut(2, 2, HALVES, 1), Engines::NoMedia, 0),
        with(cut(4, 4, &[0], 2), Engines::Usual, 4),
        with(cut(4, 4, &[0], 2), Engines::Graphics, 4),
    ],
};

const fn eighths(
    name: &'static str,
    gb: &'static [&'static [u16]],
    total: u32,
    chips: &'static [&'static [&'static str]],
    marks: &'static [&'static str],
    pci: &'static [u16],
) -> Model {
    Model { name, frame: &EIGHTHS, gb, mib: None, total, chips, marks, pci }
}

/// All models, from small to large.
pub static MODELS: [Model; 15] = [
    Model {
        name: "A30",
        frame: &AMPERE_QUARTERS,
        gb: &[&[6, 12, 24]],
        mib: Some(&[5_952, 11_968, 24_000]),
        total: 24_576,
        chips: &[&["A30"]],
        marks: &[],
        pci: &[0x20B7],
    },
    Model {
        mib: Some(&[4_864, 9_856, 9_856, 19_968, 19_968, 40_192]),
        ..eighths(
            "A100-40GB",
            &[&[5, 10, 10, 20, 20, 40]],
            40_960,
            &[&["A100"], &["A800"]],
            &["40"],
            &[0x20B0, 0x20B1, 0x20F1, 0x20F6],
        )
    },
    Model {
        mib: Some(&[9_856, 19_968, 19_968, 40_192, 40_192, 80_384]),
        ..eighths(
            "A100-80GB",
            &[&[10, 20, 20, 40, 40, 80], &[10, 20, 20, 40, 40, 79]],
            81_920,
            &[&["A100"], &["A800"]],
            &["80"],
            &[0x20B2, 0x20B5, 0x20F3, 0x20F5],
        )
    },
    Model {
        mib: Some(&[9_984, 20_096, 20_096, 40_448, 40_448, 81_152]),
        ..eighths(
            "H100-80GB",
            &[&[10, 20, 20, 40, 40, 80]],
            81_559,
            &[&["H100"], &["H800"]],
            &["80", "PCIE"],
            &[0x2330, 0x2331, 0x2322],
        )
    },
    eighths(
        "H100-94GB",
        &[&[12, 24, 24, 47, 47, 94]],
        95_830,
        &[&["H100"], &["H800"]],
        &["94", "NVL"],
        &[0x2321, 0x233A],
    ),
    eighths("H20", &[&[12, 24, 24, 48, 48, 96]], 97_871, &[&["H20"]], &[], &[0x2329, 0x20B6]),
    eighths(
        "GH200-96GB",
        &[&[12, 24, 24, 48, 48, 96]],
        97_871,
        &[&["GH200"]],
        &["96", "480"],
        &[0x2342, 0x233D],
    ),
    Model {
        name: "RTX-PRO-6000",
        frame: &BLACKWELL_QUARTERS,
        gb: &[&[24, 48, 96]],
        mib: Some(&[24_192, 48_512, 97_280]),
        total: 97_887,
        chips: &[&["RTX", "PRO", "6000"]],
        marks: &[],
        pci: &[],
    },
    eighths("H200", &[&[18, 35, 35, 71, 71, 141]], 143_771, &[&["H200"]], &[], &[0x2335, 0x233B]),
    eighths(
        "GH200-144GB",
        &[&[18, 36, 36, 72, 72, 144]],
        145_920,
        &[&["GH200"]],
        &["144"],
        &[0x2348],
    ),
    eighths("B200", &[&[23, 45, 45, 90, 90, 180]], 183_359, &[&["B200"]], &[], &[0x2901]),
    eighths(
        "GB200",
        &[&[23, 47, 47, 93, 93, 186], &[24, 47, 47, 95, 95, 189]],
        189_471,
        &[&["GB200"]],
        &[],
        &[0x2941],
    ),
    eighths("B300", &[&[34, 67, 67, 135, 135, 269]], 275_040, &[&["B300"]], &[], &[0x3182]),
    eighths("GB300", &[&[35, 70, 70, 139, 139, 278]], 284_208, &[&["GB300"]], &[], &[0x31C2]),
    eighths("H20-141GB", &[&[18, 35, 35, 71, 71, 141]], 143_771, &[&["H20"]], &["141", "3E"], &[]),
];

impl Model {
    /// Memory slices of a card.
    pub const fn memory_slices(&self) -> u8 {
        self.frame.memory_slices
    }

    /// Compute slices of a card.
    pub const fn compute_slices(&self) -> u8 {
        self.frame.compute_slices
    }

    /// The memory of so many memory slices: of what the card has as one slice, and where nobody
    /// saw that, of all its memory.
    pub fn memory_of(&self, slices: u8) -> Bytes {
        let whole = self.mib.and_then(|mib| mib.last().copied()).unwrap_or(self.total);
        Bytes::from_mib(u64::from(whole) * u64::from(slices) / u64::from(self.memory_slices()))
    }

    /// The memory of a slice: as drivers report it, else its part of the card.
    pub(super) fn memory(&self, cut: &FrameCut) -> Bytes {
        let seen = self.mib.and_then(|mib| mib.get(cut.named));
        seen.map_or_else(|| self.memory_of(cut.size), |mib| Bytes::from_mib(u64::from(*mib)))
    }

    /// The names of one profile, the usual one first.
    pub(super) fn names(&self, cut: &FrameCut) -> impl Iterator<Item = Profile> {
        let (slices, engines, at) = (cut.compute, cut.engines, cut.named);
        let sizes = self.gb.iter().filter_map(move |gb| gb.get(at).copied());
        sizes.map(move |gb| Profile { slices, gb, instances: None, engines })
    }
}
