//! Which cards and slices a process sees.

use crate::inventory::{Card, FILE, Inventory};
use crate::mig::Slice;
use std::path::Path;

/// By what a process sees cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It sees all of them.
    All,
    /// By the device nodes that are there, as the driver lets it.
    Nodes,
    /// By names: UUIDs, and indexes of cards.
    Names(Vec<String>),
}

impl Sight {
    /// That of this process.
    pub fn of_this_process() -> Self {
        // Who does not know the file is in a container, and may have lost its environment or have
        // another one than its first process: what counts there are the device nodes.
        if std::env::var_os(FILE).is_none() {
            return Self::Nodes;
        }
        Self::by(std::env::var("NVIDIA_VISIBLE_DEVICES").ok().as_deref())
    }

    /// Outside of containers `NVIDIA_VISIBLE_DEVICES` is not set: all. In a container the driver shows
    /// what has its device nodes there; the container runtime made those that the variable asked
    /// for and, in CDI mode, set the variable itself to `void`.
    fn by(variable: Option<&str>) -> Self {
        match variable {
            None | Some("all") => Self::All,
            Some("" | "void" | "none") => Self::Nodes,
            Some(names) => Self::Names(names.split(',').map(str::to_owned).collect()),
        }
    }

    /// The cards, by index, that are seen: those of slices, too.
    pub fn cards(&self, inventory: &Inventory) -> Vec<usize> {
        let all = inventory.cards.iter().enumerate();
        all.filter(|(i, card)| self.shows(*i, card, has_node)).map(|(i, _)| i).collect()
    }

    /// The slices of a card that are seen.
    pub fn slices<'a>(&self, index: usize, card: &'a Card) -> Vec<&'a Slice> {
        let all = card.slices.iter().flatten();
        all.filter(|slice| self.shows_slice(index, card, slice, has_node)).collect()
    }

    fn shows(&self, index: usize, card: &Card, has_node: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::Nodes => has_node(&format!("/dev/nvidia{}", card.minor)),
            Self::Names(names) => {
                let is_slice = |name: &String| {
                    card.slices.iter().flatten().any(|slice| card.slice_uuid(slice) == *name)
                };
                is_named(names, index, card) || names.iter().any(is_slice)
            }
        }
    }

    fn shows_slice(
        &self,
        index: usize,
        card: &Card,
        slice: &Slice,
        has_node: impl Fn(&str) -> bool,
    ) -> bool {
        match self {
            Self::All => true,
            Self::Nodes => {
                let node = |minor| format!("/dev/nvidia-caps/nvidia-cap{minor}");
                card.capabilities(slice).into_iter().all(|minor| has_node(&node(minor)))
            }
            Self::Names(names) => {
                is_named(names, index, card) || names.contains(&card.slice_uuid(slice))
            }
        }
    }
}

fn is_named(names: &[String], index: usize, card: &Card) -> bool {
    names.iter().any(|name| *name == card.uuid || *name == index.to_string())
}

fn has_node(path: &str) -> bool {
    Path::new(path).exists()
}

#[cfg(test)]
mod tests {
    use super::Sight;
    use crate::{Card, Inventory};

    #[test]
    fn the_variable_and_the_device_nodes_narrow_what_is_seen() {
        let inventory = Inventory::new((0..4).map(Card::a100).collect());
        let second = inventory.cards[1].uuid.as_str();
        let both = format!("3,{second}");
        let table: [(Option<&str>, &[u32], &[usize]); 8] = [
            (None, &[], &[0, 1, 2, 3]),
            (Some("all"), &[], &[0, 1, 2, 3]),
            (Some("2"), &[], &[2]),
            (Some(second), &[], &[1]),
            (Some(&both), &[], &[1, 3]),
            (Some("void"), &[], &[]),
            (Some("void"), &[3], &[3]),
            (Some("GPU-unknown"), &[3], &[]),
        ];
        for (variable, nodes, seen) in table {
            let sight = Sight::by(variable);
            let has_node = |path: &str| nodes.iter().any(|i| path == format!("/dev/nvidia{i}"));
            let cards = inventory.cards.iter().enumerate();
            let found: Vec<usize> =
                cards.filter(|(i, card)| sight.shows(*i, card, has_node)).map(|(i, _)| i).collect();
            assert_eq!(found, seen, "{variable:?} {nodes:?}");
        }
    }

    #[test]
    fn a_slice_is_seen_by_its_name_its_card_or_both_of_its_capabilities() {
        let card = Card::a100(2).divided(&["1g.5gb", "1g.5gb"]).unwrap();
        let slices = card.slices.clone().unwrap();
        let first = card.slice_uuid(&slices[0]);
        let nodes =
            card.capabilities(&slices[0]).map(|i| format!("/dev/nvidia-caps/nvidia-cap{i}"));
        let table: [(Option<&str>, &[String], [bool; 3]); 6] = [
            (None, &[], [true, true, true]),
            (Some(&first), &[], [true, true, false]),
            (Some(&card.uuid), &[], [true, true, true]),
            (Some("void"), &[], [false, false, false]),
            (Some("void"), &nodes, [false, true, false]),
            (Some("void"), &nodes[..1], [false, false, false]),
        ];
        for (variable, nodes, [itself, one, other]) in table {
            let sight = Sight::by(variable);
            let has_node = |path: &str| nodes.iter().any(|node| node == path);
            assert_eq!(sight.shows(2, &card, has_node), itself, "{variable:?} {nodes:?}");
            for (slice, seen) in slices.iter().zip([one, other]) {
                let shown = sight.shows_slice(2, &card, slice, has_node);
                assert_eq!(shown, seen, "{variable:?} {nodes:?} {slice:?}");
            }
        }
    }
}
