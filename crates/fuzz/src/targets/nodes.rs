//! Labels, taints and amounts of a node: whatever they say, the ledger can keep it.

use crate::edit::edit;
use crate::input::Input;
use crate::objects;
use divvy_engine::{Config, Event, Scheduler};
use divvy_ledger::{Bytes, Gpus};
use divvy_words::Object;
use serde::Deserialize;

/// A node with changes.
pub fn nodes(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let Some(mut node) = objects::of_kind("Node").next().cloned() else { return };
    edit(&mut input, &mut node);
    let Ok(object) = Object::deserialize(&node) else { return };
    let (record, warnings) = match divvy_words::node(&object) {
        Ok(read) => read,
        Err(why) => return assert!(why.len() < 2_048, "{why}"),
    };
    assert!(warnings.iter().all(|warning| warning.len() < 2_048), "{warnings:?}");
    let Gpus { cards, usable, .. } = &record.gpus;
    assert!(cards.len() <= 1024 && *usable as usize <= cards.len(), "{record:?}");
    let is_card = |memory: &Bytes| (1..=1 << 50).contains(&memory.0);
    assert!(cards.iter().flatten().all(is_card), "{record:?}");
    let mut scheduler = Scheduler::new(Config::default());
    for _ in 0..2 {
        assert_eq!(scheduler.apply(Event::Node(Box::new(record.clone()))), Ok(()));
        assert_eq!(scheduler.ledger().audit(), Ok(()), "{record:?}");
    }
    assert_eq!(scheduler.node_count(), 1);
    assert_eq!(scheduler.apply(Event::NodeGone(record.name.clone())), Ok(()));
    assert_eq!((scheduler.node_count(), scheduler.ledger().audit()), (0, Ok(())));
}
