//! Bodies of reviews: read as a whole, up to a size, and large ones in turn, as are large answers.
//!
//! What a body costs while it is decided on is a few times its size, so the memory of the process
//! has a bound if the bytes of all bodies, and of all answers until they are read, have one. Ordinary
//! reviews never wait. Large ones do, and a peer has one at a time, so that no pod can keep the API
//! server waiting by sending slowly, or by not reading.

use axum::body::{Body, HttpBody};
use http::StatusCode;
use http_body_util::BodyExt;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The API server takes objects of up to 3 MB, and a review of an update has two of them.
const MOST_BYTES: usize = 7 << 20;
/// So much more is read and thrown away: a client that is still sending would see a broken
/// connection instead of the answer.
const MOST_READ: usize = 64 << 20;
/// More than all but a few pods have, and far more than their answers.
pub(crate) const ORDINARY_BYTES: usize = 64 << 10;
/// Larger ones that are read, decided on or answered at a time.
const LARGE_AT_ONCE: usize = 2;
/// A body that takes longer is given up, its wait for its turn included; the API server would not
/// wait for the answer either.
const PATIENCE: Duration = Duration::from_secs(10);

/// A whole body, and its turn if it is large: others wait until that is dropped.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) turn: Option<BodyTurn>,
}

/// The turn of a large body or answer, of its peer and among all.
#[derive(Debug)]
pub(crate) struct BodyTurn {
    _own: Option<OwnedSemaphorePermit>,
    _all: Option<OwnedSemaphorePermit>,
}

/// Which large bodies have their turn.
#[derive(Debug)]
pub(crate) struct Bodies {
    all: Arc<Semaphore>,
    /// Those of each peer that has one now.
    peers: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

impl Bodies {
    pub(crate) fn new() -> Self {
        let all = Arc::new(Semaphore::new(LARGE_AT_ONCE));
        Self { all, peers: Mutex::default() }
    }

    /// Reads a body; an error has the status and the text of the answer. A large one that is not to
    /// queue is read only if it is nobody else's turn.
    pub(crate) async fn read(
        &self,
        peer: IpAddr,
        body: Body,
        queues: bool,
    ) -> Result<Whole, (StatusCode, String)> {
        let Ok(read) = tokio::time::timeout(PATIENCE, self.whole(peer, body, queues)).await else {
            let why = format!("the body did not come within {} s", PATIENCE.as_secs());
            return Err((StatusCode::REQUEST_TIMEOUT, why));
        };
        read
    }

    /// The turn of a large answer to an ordinary body; an error as for a body.
    pub(crate) async fn turn_to_answer(
        &self,
        peer: IpAddr,
    ) -> Result<BodyTurn, (StatusCode, String)> {
        tokio::time::timeout(PATIENCE, self.turn(peer)).await.map_err(|_| {
            let seconds = PATIENCE.as_secs();
            let why = format!(
                "the answer is larger than {ORDINARY_BYTES} bytes, and its turn did not come within {seconds} s"
            );
            (StatusCode::SERVICE_UNAVAILABLE, why)
        })
    }

    async fn whole(
        &self,
        peer: IpAddr,
        mut body: Body,
        queues: bool,
    ) -> Result<Whole, (StatusCode, String)> {
        let declared = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        let is_too_large = |read: usize| read.max(declared.unwrap_or(0)) > MOST_BYTES;
        let (mut bytes, mut turn, mut read, mut is_late) = (Vec::new(), None, 0, false);
        while let Some(frame) = body.frame().await {
            let broken = |why| (StatusCode::BAD_REQUEST, format!("the body broke off: {why}"));
            let frame = frame.map_err(broken)?;
            let Some(data) = frame.data_ref() else { continue };
            read += data.len();
            if read > MOST_READ {
                break;
            }
            if is_late || is_too_large(read) {
                (bytes, turn) = (Vec::new(), None);
                continue;
            }
            if read > ORDINARY_BYTES && turn.is_none() {
                turn = if queues { Some(self.turn(peer).await) } else { self.free_turn(peer) };
                if turn.is_none() {
                    (bytes, is_late) = (Vec::new(), true);
                    continue;
                }
                bytes.reserve_exact(declared.unwrap_or(0).saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(data);
        }
        if is_too_large(read) {
            let why = format!("the body is larger than {MOST_BYTES} bytes, which no review needs");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        if is_late {
            let why = "other large reviews have their turn, and none is to wait for this one";
            return Err((StatusCode::SERVICE_UNAVAILABLE, why.to_owned()));
        }
        Ok(Whole { bytes, turn })
    }

    /// A turn that nobody has or waits for.
    fn free_turn(&self, peer: IpAddr) -> Option<BodyTurn> {
        let _own = Some(self.of(peer).try_acquire_owned().ok()?);
        let _all = Some(Arc::clone(&self.all).try_acquire_owned().ok()?);
        Some(BodyTurn { _own, _all })
    }

    async fn turn(&self, peer: IpAddr) -> BodyTurn {
        // There would be none if somebody closed a semaphore, which nobody does.
        let _own = self.of(peer).acquire_owned().await.ok();
        let _all = Arc::clone(&self.all).acquire_owned().await.ok();
        BodyTurn { _own, _all }
    }

    fn of(&self, peer: IpAddr) -> Arc<Semaphore> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, turn| turn.strong_count() > 0);
        let known = peers.get(&peer).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let one = Arc::new(Semaphore::new(1));
            peers.insert(peer, Arc::downgrade(&one));
            one
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Whoever changes large Deployments all the time keeps no large pod of others waiting.
    #[tokio::test]
    async fn a_large_body_that_is_not_to_queue_is_refused_while_others_have_their_turn() {
        let bodies = Bodies::new();
        let peer = |last| IpAddr::from(Ipv4Addr::new(10, 0, 0, last));
        let large = || Body::from(vec![b' '; ORDINARY_BYTES + 1]);
        let held = bodies.turn_to_answer(peer(1)).await.unwrap();
        let (status, why) = bodies.read(peer(1), large(), false).await.unwrap_err();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{why}");
        // Ordinary ones need no turn, and another peer has the other one.
        let small = bodies.read(peer(1), Body::from("{}"), false).await.unwrap();
        assert_eq!((small.bytes, small.turn.is_none()), (b"{}".to_vec(), true));
        let other = bodies.read(peer(2), large(), false).await.unwrap();
        assert!(bodies.read(peer(3), large(), false).await.is_err(), "all turns are taken");
        drop((held, other));
        let read = bodies.read(peer(1), large(), false).await.unwrap();
        assert_eq!((read.bytes.len(), read.turn.is_some()), (ORDINARY_BYTES + 1, true));
        // What is too large is told so, and takes no turn.
        let (status, _) =
            bodies.read(peer(2), Body::from(vec![b' '; MOST_BYTES + 1]), false).await.unwrap_err();
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
