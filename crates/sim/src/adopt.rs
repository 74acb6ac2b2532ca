//! Cards of pods that are already bound.
//!
//! What a pod has is decided as for the scheduler. Here it is found which card of the node that is:
//! of a card that has a name it only matters which pods name the same, so each name is given a card
//! of its own. In a dump of a cluster that KAI runs, the names come from its reservations, which are
//! taken for ours: a rehearsal then neither counts a card twice nor moves a pod off the card it shares.

use divvy_engine::{BoundCards, PodRecord, PodSpec, Scheduler};
use divvy_ledger::{CardShare, Device, Holder, Intake, Name, Node, Opening, Request};
use divvy_words::cards::{self, BoundPod, CardName, Held, NamedShare};
use divvy_words::isolation::Isolation;
use divvy_words::manifest::{Metadata, PodStatus};
use divvy_words::{Content, Entry, Object, Priorities, ghosts, keys, reservation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of a bound pod's cards.
pub(crate) enum OwnWord {
    /// All that there is to know.
    Cards(BoundCards),
    /// It has cards of these names, in common with other pods that name the same.
    Named(Vec<String>),
    /// It asks for shares that nobody has recorded.
    Unrecorded,
    /// Nobody can say what it has: why.
    Unreadable(String),
}

/// A card that a pod has, as far as it is known.
pub(crate) struct HeldCard {
    /// What it is called, by all who have it.
    pub(crate) name: String,
    /// Its number on its node, if somebody says it.
    pub(crate) number: Option<u32>,
}

/// The groups that a reservation pod keeps a card for; none of any other pod.
fn kept_groups(metadata: &Metadata) -> Vec<&str> {
    let is_there = keys::RESERVATION_NAMESPACES.contains(&&*metadata.namespace);
    if is_there { reservation::groups(metadata) } else { Vec::new() }
}

/// Whether a pod only holds a card for others.
pub(crate) fn is_reservation(metadata: &Metadata) -> bool {
    !kept_groups(metadata).is_empty()
}

/// What a pod has. A reservation pod has nothing of the card that it keeps; where cards are replicas,
/// nobody can join the one that it has, nor where no cards are handed to containers one of KAI's.
pub(crate) fn own_word(
    metadata: &Metadata,
    record: &mut PodRecord,
    (node, gets_shares): (&str, bool),
    cluster: &Scheduler,
    names: &CardNames,
) -> OwnWord {
    let found = cluster.ledger().find(node).and_then(|id| cluster.ledger().node(id));
    let has_replicas = found.is_some_and(|n| n.capacity().gpus.pool(Device::Gpu).is_some());
    let adopts = !has_replicas && cluster.config().hand_off.is_some();
    let is_kept = adopts || !has_replicas && reservation::is_ours(metadata);
    if let Some(group) = kept_groups(metadata).first().filter(|_| is_kept) {
        record.spec.request = Request::none();
        record.spec.holder = Holder::Keeper;
        return OwnWord::Named(vec![names.of(node, group)]);
    }
    let groups = reservation::given_groups(metadata);
    let pod = BoundPod { metadata, unreadable: None, groups, gets_shares };
    match pod.held(&mut record.spec) {
        Held::Nothing => OwnWord::Cards(BoundCards::Nothing),
        Held::Whole | Held::Unnamed => OwnWord::Cards(BoundCards::Choose),
        Held::Shares(shares) => named(shares),
        Held::Groups(groups) => {
            let kept = groups.iter().filter(|_| adopts);
            let cards: BTreeSet<&str> = kept.filter_map(|g| names.kept(node, g)).collect();
            match cards.is_empty() {
                true => OwnWord::Unrecorded,
                false => OwnWord::Named(cards.into_iter().map(str::to_owned).collect()),
            }
        }
        Held::Unrecorded => OwnWord::Unrecorded,
        Held::Unreadable(why) => OwnWord::Unreadable(why),
    }
}

/// Cards that are known by index are those; of others it only matters which pods have the same.
fn named(shares: Vec<NamedShare>) -> OwnWord {
    let index = |share: &NamedShare| match share.card {
        CardName::Index(index) => Some(CardShare { index, bytes: share.bytes }),
        CardName::Uuid(_) => None,
    };
    match shares.iter().map(index).collect::<Option<Vec<_>>>() {
        Some(shares) => OwnWord::Cards(BoundCards::Recorded(shares)),
        None => OwnWord::Named(shares.into_iter().map(|share| share.card.to_string()).collect()),
    }
}

/// What a reservation pod says of pods that vanished from its card: each holds its share there.
pub(crate) fn ghosts(
    metadata: &Metadata,
    isolation: Option<&Isolation>,
) -> impl Iterator<Item = PodRecord> {
    let text = metadata.annotations.get(keys::GHOSTS).unwrap_or_default();
    ghosts::parse(text).into_iter().map(move |ghost| {
        let request = Request::share(1, ghost.part(isolation));
        let spec = PodSpec { request, holder: Holder::Ghost, ..PodSpec::default() };
        PodRecord { key: ghost.key(), uid: ghost.uid, spec, ..PodRecord::default() }
    })
}

/// The classes that bindings have recorded, of pods and of what is left of them.
pub(crate) fn recorded_classes(entries: &[Entry]) -> BTreeSet<String> {
    let metadata = entries.iter().filter_map(|entry| match entry {
        Entry::Object(Object { metadata, content: Content::Pod(..), .. }) => Some(metadata),
        Entry::Object(_) | Entry::Malformed { .. } => None,
    });
    let mut classes = BTreeSet::new();
    for metadata in metadata {
        classes.extend(metadata.annotations.get(keys::CLASS).map(str::to_owned));
        let ghosts = metadata.annotations.get(keys::GHOSTS).map(ghosts::parse);
        classes.extend(ghosts.into_iter().flatten().map(|ghost| ghost.class.into_string()));
    }
    classes.remove("");
    classes
}

/// What is known of a cluster's reservation pods before its pods are taken in.
#[derive(Default)]
pub(crate) struct CardNames {
    /// The cards of reservation pods, by node and group.
    cards: BTreeMap<(String, String), String>,
    /// The cards that shares of one group record: those of reservations that do not run yet.
    recorded: BTreeMap<(String, String), String>,
    /// The numbers of cards, by node and UUID.
    numbers: BTreeMap<(String, String), u32>,
    /// What a reservation of divvy asks, else whether shares are handed to their containers.
    hand_off: Option<Option<Opening>>,
}

impl CardNames {
    /// Looks at all pods.
    pub(crate) fn seen(entries: &[Entry]) -> Self {
        let mut seen = Self::default();
        for entry in entries {
            let Entry::Object(Object { metadata, content: Content::Pod(spec, status), .. }) = entry
            else {
                continue;
            };
            if spec.node_name.is_empty() || status.has_ended() {
                continue;
            }
            let groups = kept_groups(metadata);
            let Some(group) = groups.first() else {
                seen.notice_share(metadata, &spec.node_name);
                continue;
            };
            seen.hand_off.get_or_insert_default().get_or_insert(reservation::USUAL);
            if reservation::is_ours(metadata) {
                let asks =
                    divvy_words::pod(metadata, spec, None, None, &Priorities::default()).spec;
                seen.hand_off = Some(Some(Opening { cpu: asks.cpu, memory: asks.memory }));
            }
            if let Some(uuid) = reservation::card(metadata, status) {
                let group = (spec.node_name.to_string(), (*group).to_owned());
                seen.cards.insert(group, uuid.to_owned());
                if let Some(number) = reservation::number(metadata) {
                    seen.numbers.insert((spec.node_name.to_string(), uuid.to_owned()), number);
                }
            }
        }
        seen
    }

    /// A share that is recorded by index was not handed to its containers.
    fn notice_share(&mut self, metadata: &Metadata, node: &str) {
        let recorded = metadata.annotations.get(keys::CARDS).map(cards::parse);
        let Some(Ok(cards)) = recorded else { return };
        if let [NamedShare { card: CardName::Uuid(uuid), .. }] = &cards[..]
            && let [group] = reservation::groups(metadata)[..]
        {
            self.recorded.insert((node.to_owned(), group.to_owned()), uuid.to_string());
        }
        let hand_off = self.hand_off.get_or_insert_default();
        if cards.iter().any(|share| matches!(share.card, CardName::Uuid(_))) {
            hand_off.get_or_insert(reservation::USUAL);
        }
    }

    /// What a reservation asks, if shares are handed to their containers; as it is usual where
    /// nobody can tell.
    pub(crate) fn hand_off(&self, wanted: Option<bool>) -> Option<Opening> {
        let asks = self.hand_off.flatten().unwrap_or(reservation::USUAL);
        wanted.unwrap_or(self.hand_off != Some(None)).then_some(asks)
    }

    /// Which card this is; `None` for the name of a group whose card nobody knows.
    pub(crate) fn card(&self, node: &str, uuid: &str) -> Option<Arc<Name>> {
        let key = (node.to_owned(), uuid.to_owned());
        let number = self.numbers.get(&key).copied();
        cards::is_uuid(uuid).then(|| Arc::new(Name { uuid: uuid.into(), number }))
    }

    /// The cards that a pod is known to have, by its own word or as the kubelet tells.
    pub(crate) fn held(&self, node: &str, word: &OwnWord, status: &PodStatus) -> Vec<HeldCard> {
        let named = |name: &str| {
            let number = self.card(node, name).and_then(|card| card.number);
            HeldCard { name: name.to_owned(), number }
        };
        match word {
            OwnWord::Named(names) => names.iter().map(|name| named(name)).collect(),
            OwnWord::Cards(BoundCards::Choose) => status.devices().map(named).collect(),
            OwnWord::Cards(BoundCards::Recorded(shares)) => {
                let by_index = shares.iter().map(|share| share.index);
                by_index.map(|n| HeldCard { name: n.to_string(), number: Some(n) }).collect()
            }
            OwnWord::Cards(_) | OwnWord::Unrecorded | OwnWord::Unreadable(_) => Vec::new(),
        }
    }

    /// The UUID of the card that a reservation keeps for a group on a node.
    fn kept(&self, node: &str, group: &str) -> Option<&str> {
        self.cards.get(&(node.to_owned(), group.to_owned())).map(String::as_str)
    }

    /// The name of the card of a group's reservation on a node: its UUID, once somebody knows it.
    fn of(&self, node: &str, group: &str) -> String {
        let key = (node.to_owned(), group.to_owned());
        let known = self.cards.get(&key).or_else(|| self.recorded.get(&key)).cloned();
        known.unwrap_or(key.1)
    }
}

/// Why the card of a reservation pod takes nobody new.
pub(crate) fn intake(metadata: &Metadata, status: &PodStatus) -> Intake {
    let returning = !metadata.deletion_timestamp.is_empty();
    let returning = if returning { Intake::RETURNING } else { Intake::OPEN };
    returning.and(if status.has_sick_card() { Intake::SICK } else { Intake::OPEN })
}

/// Why the card of a share takes nobody new, as the scheduler has said on it.
pub(crate) fn trouble(status: &PodStatus) -> Intake {
    let says = |reason| {
        let kind = reservation::condition(reason);
        status.conditions.iter().any(|c| *c.kind == *kind && &*c.status == "True")
    };
    let conflict = if says(reservation::CONFLICT) { Intake::CONFLICT } else { Intake::OPEN };
    conflict.and(if says(reservation::MISSING) { Intake::SICK } else { Intake::OPEN })
}

/// The card of each name, by node and name.
#[derive(Default)]
pub(crate) struct NamedCards(BTreeMap<(String, String), u32>);

impl NamedCards {
    /// The cards of a pod with these names; the first pod of a name takes a free card for it.
    pub(crate) fn of(
        &mut self,
        cluster: &Scheduler,
        spec: &PodSpec,
        node: &str,
        names: &[String],
    ) -> BoundCards {
        let found = cluster.ledger().find(node).and_then(|id| cluster.ledger().node(id));
        let Some(found) = found else { return BoundCards::Choose };
        let portion = spec.request.portion().filter(|_| spec.holder != Holder::Keeper);
        let bytes = portion.map(|portion| portion.of(found.card_size()));
        let mut cards = names.iter().map(|name| self.card(found, name));
        match bytes {
            Some(bytes) => {
                BoundCards::Named(cards.map(|index| CardShare { index, bytes }).collect())
            }
            None => cards.next().map_or(BoundCards::Nothing, BoundCards::Kept),
        }
    }

    fn card(&mut self, node: &Node, name: &str) -> u32 {
        let of_node = |(other, _): &(String, String)| *other == **node.name();
        let taken: Vec<u32> =
            self.0.iter().filter(|(at, _)| of_node(at)).map(|(_, card)| *card).collect();
        let free = node.free_cards().map(|card| card as u32).find(|c| !taken.contains(c));
        let next = free.unwrap_or(node.card_count());
        *self.0.entry((node.name().to_string(), name.to_owned())).or_insert(next)
    }

    /// Each name's node and card.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str, u32)> {
        self.0.iter().map(|((node, name), index)| (&**node, &**name, *index))
    }
}
