//! Writes beside the bindings that wait for their turn.

use crate::state::Action;
use std::collections::VecDeque;

/// What pods and claims wait for goes first; reasons and events take turns.
#[derive(Debug, Default)]
pub(crate) struct Side {
    urgent: VecDeque<Action>,
    reasons: VecDeque<Action>,
    events: VecDeque<Action>,
    /// Whether a reason went last.
    told: bool,
}

/// Events that wait at most; beyond that the oldest are dropped.
const MAX_EVENTS: usize = 20_000;

impl Side {
    pub(crate) fn push(&mut self, action: Action) {
        match action {
            Action::Tell { .. } => self.reasons.push_back(action),
            Action::Announce { .. } => {
                self.events.push_back(action);
                if self.events.len() > MAX_EVENTS {
                    self.events.pop_front();
                }
            }
            _ => self.urgent.push_back(action),
        }
    }

    /// The next one; no event if `spares_events`.
    pub(crate) fn pop(&mut self, spares_events: bool) -> Option<Action> {
        if let Some(action) = self.urgent.pop_front() {
            return Some(action);
        }
        if spares_events {
            return self.reasons.pop_front();
        }
        self.told = !self.told;
        let (first, second) = if self.told {
            (&mut self.reasons, &mut self.events)
        } else {
            (&mut self.events, &mut self.reasons)
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    pub(crate) fn len(&self) -> usize {
        self.urgent.len() + self.reasons.len() + self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Target;
    use divvy_engine::ObjectKey;

    #[test]
    fn a_pod_in_doubt_does_not_wait_for_thousands_of_reasons() {
        let pod = || Target { key: ObjectKey::new("ml", "p"), uid: "u".into() };
        let mut side = Side::default();
        for _ in 0..3 {
            let (version, text) = ("1".into(), "why".into());
            side.push(Action::Tell { pod: pod(), version, text, again: false });
        }
        side.push(Action::Announce { pod: pod(), node: "a".into() });
        side.push(Action::Look { pod: pod() });
        let name = |action: Action| match action {
            Action::Tell { .. } => "tell",
            Action::Announce { .. } => "announce",
            Action::Look { .. } => "look",
            _ => "other",
        };
        let order: Vec<_> = std::iter::from_fn(|| side.pop(false)).map(name).collect();
        assert_eq!(order, ["look", "tell", "announce", "tell", "tell"]);
    }

    #[test]
    fn events_wait_where_bindings_go_first() {
        let pod = || Target { key: ObjectKey::new("ml", "p"), uid: "u".into() };
        let mut side = Side::default();
        side.push(Action::Announce { pod: pod(), node: "a".into() });
        side.push(Action::Look { pod: pod() });
        assert!(matches!(side.pop(true), Some(Action::Look { .. })));
        assert!(side.pop(true).is_none());
        assert!(matches!(side.pop(false), Some(Action::Announce { .. })));
    }

    #[test]
    fn events_that_nobody_could_write_are_dropped_oldest_first() {
        let mut side = Side::default();
        for i in 0..=MAX_EVENTS {
            let pod = Target { key: ObjectKey::new("ml", &i.to_string()), uid: "u".into() };
            side.push(Action::Announce { pod, node: "a".into() });
        }
        assert_eq!(side.len(), MAX_EVENTS);
        let first = side.pop(false);
        assert!(matches!(first, Some(Action::Announce { pod, .. }) if pod.key.name() == "1"));
    }
}
