//! What is left of pods that vanished while their containers may run: written on the reservation
//! pod of the card that they had, so that whoever schedules next knows of it too.
//!
//! `namespace/name/uid:bytes:until[:percent:class][,...]`: until when is in seconds since 1970, and what
//! follows it is left out if no compute was asked and nobody tells classes apart.

use crate::isolation::Isolation;
use divvy_engine::ObjectKey;
use divvy_ledger::{Bytes, Part, Percent, Portion};

/// A share of a card that is not to be given yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ghost {
    /// The namespace of the pod.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Which pod of that name.
    pub uid: Box<str>,
    /// How much of the card it had.
    pub bytes: Bytes,
    /// Until when its containers may run, in seconds since 1970.
    pub until: i64,
    /// How much of the card's compute it had.
    pub compute: Percent,
    /// Its class, as [`Isolation::recorded_as`] writes it; empty if nobody tells classes apart.
    pub class: Box<str>,
}

impl Ghost {
    /// What it is called beside pods; no pod can have such a name.
    pub fn key(&self) -> ObjectKey {
        let uid = self.uid.split_once('-').map_or(&*self.uid, |(first, _)| first);
        ObjectKey::new(&self.namespace, &format!("{}(gone-{uid})", self.name))
    }

    /// What it has of its card.
    pub fn part(&self, isolation: Option<&Isolation>) -> Part {
        let class = isolation.map(|isolation| isolation.recorded(&self.class));
        let class = class.filter(|_| !self.class.is_empty()).unwrap_or_default();
        let portion = Portion::Memory(self.bytes);
        Part { compute: self.compute, class, ..Part::of(portion) }
    }
}

/// The value of the annotation [`crate::keys::GHOSTS`].
pub fn print(ghosts: &[Ghost]) -> String {
    let print = |ghost: &Ghost| {
        let Ghost { namespace, name, uid, bytes, until, compute, class } = ghost;
        let more = match compute.0 > 0 || !class.is_empty() {
            true => format!(":{}:{class}", compute.0),
            false => String::new(),
        };
        format!("{namespace}/{name}/{uid}:{}:{until}{more}", bytes.0)
    };
    ghosts.iter().map(print).collect::<Vec<_>>().join(",")
}

/// Reads what [`print`] wrote; what cannot be read is left out.
pub fn parse(text: &str) -> Vec<Ghost> {
    text.split(',').filter_map(ghost).collect()
}

fn ghost(part: &str) -> Option<Ghost> {
    let mut parts = part.split(':');
    let (pod, bytes, until) = (parts.next()?, parts.next()?, parts.next()?);
    let mut names = pod.split('/');
    let (namespace, name, uid) = (names.next()?, names.next()?, names.next()?);
    let (compute, class) = match parts.next() {
        Some(percent) => (Percent(percent.parse().ok()?), parts.next()?),
        None => (Percent(0), ""),
    };
    if parts.next().is_some() || names.next().is_some() {
        return None;
    }
    let (bytes, until) = (Bytes(bytes.parse().ok()?), until.parse().ok()?);
    let (namespace, name, uid) = (namespace.into(), name.into(), uid.into());
    Some(Ghost { namespace, name, uid, bytes, until, compute, class: class.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_what_is_not_ours_is_left_out() {
        let ghost = |name: &str, until| Ghost {
            namespace: "ml".into(),
            name: name.into(),
            uid: "u-1".into(),
            bytes: Bytes(5),
            until,
            compute: Percent(0),
            class: "".into(),
        };
        let limited =
            Ghost { compute: Percent(30), class: "Isolated/HAMi-core".into(), ..ghost("r", 7) };
        let ghosts = [ghost("p", 1_700_000_000), ghost("q", -1), limited];
        let text = print(&ghosts);
        assert_eq!(text, "ml/p/u-1:5:1700000000,ml/q/u-1:5:-1,ml/r/u-1:5:7:30:Isolated/HAMi-core");
        assert_eq!(parse(&text), ghosts);
        for broken in ["", "x", "a/b:5:1", "a/b/c/d:5:1", "a/b/c:5", "a/b/c:5:1:2", "a/b/c:-5:1"] {
            assert_eq!(parse(broken), [], "{broken}");
            assert_eq!(parse(&format!("{broken},{text}")), ghosts, "{broken}");
        }
    }
}
