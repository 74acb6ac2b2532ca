//! Which cards a process sees.

use crate::inventory::Inventory;

/// The cards, by index, that the caller may see.
///
/// Outside of containers `NVIDIA_VISIBLE_DEVICES` is not set: all. In a container the driver shows
/// the cards whose device node is there; the container runtime made those that the variable asked
/// for and, in CDI mode, set the variable itself to `void`.
pub fn visible(
    inventory: &Inventory,
    variable: Option<&str>,
    has_node: impl Fn(u32) -> bool,
) -> Vec<usize> {
    let all = 0..inventory.cards.len();
    match variable {
        None | Some("all") => all.collect(),
        Some("" | "void" | "none") => all.filter(|i| has_node(inventory.cards[*i].minor)).collect(),
        Some(names) => {
            let is_named = |index: usize| {
                let uuid = inventory.cards[index].uuid.as_str();
                names.split(',').any(|name| name == uuid || name == index.to_string())
            };
            all.filter(|i| is_named(*i)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::visible;
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
            let has_node = |minor| nodes.contains(&minor);
            assert_eq!(visible(&inventory, variable, has_node), seen, "{variable:?} {nodes:?}");
        }
    }
}
