//! A scheduler's writes without the scheduler: the same client, encoding, concurrency and watches,
//! with decisions that were made before. What is measured beside it is what deciding costs.

use crate::metrics::Metrics;
use crate::run::SIDE_WRITES;
use crate::settings::{HandOffSettings, Settings};
use crate::sources::Watches;
use crate::state::{Action, Binding, Grant, HandOff, Outcome, Target};
use crate::writer::Writer;
use divvy_api::watch::{Change, Pace};
use divvy_api::{Api, ClientError, Fence};
use divvy_engine::{ObjectKey, Placement};
use divvy_ledger::CardShare;
use divvy_words::cards::{CardName, NamedShare};
use divvy_words::reservation;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// A write to repeat.
#[derive(Clone, Debug)]
pub enum Repeated {
    /// A reservation pod.
    Reservation {
        /// The node that it took a card of.
        node: String,
        /// The node's uid.
        node_uid: String,
        /// The group that it was made for.
        group: String,
    },
    /// A binding.
    Binding(RepeatedBinding),
}

/// A binding to repeat.
#[derive(Clone, Debug)]
pub struct RepeatedBinding {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid now.
    pub uid: String,
    /// The pod's version now.
    pub version: String,
    /// The node it went to.
    pub node: String,
    /// The record of its cards, if it has one.
    pub cards: Option<String>,
    /// The group of its card, if its card was handed to it.
    pub group: Option<String>,
    /// The part of its card that it was told.
    pub portion: String,
}

/// Does the writes, `writes` at a time, and announces what is bound; gives how many were accepted.
/// Reservation pods are of this image.
pub async fn replay(
    kubeconfig: &Path,
    writes: usize,
    image: &str,
    steps: Vec<Repeated>,
) -> Result<usize, ClientError> {
    let config = divvy_api::config(Some(kubeconfig), None).await?;
    let (fence, metrics) = (Fence::alone(Settings::TAKEOVER_WAIT), Metrics::new());
    let api = Api::connect(config, fence)?.observed(metrics.clone());
    let pace = Pace { page: 500, silence: Duration::from_secs(90) };
    let watches = Watches { api: api.clone(), pace };
    let mut heard = watches.start();
    let (mut pods, _) = watches.start_pods();
    let is_last = |change: &Change<_>| matches!(change, Change::Listed);
    while let Some(batch) = pods.recv().await
        && !batch.changes.iter().any(is_last)
    {}
    // Nobody minds the rest, but it is read.
    let mut readers = JoinSet::new();
    readers.spawn(async move { while heard.recv().await.is_some() {} });
    readers.spawn(async move { while pods.recv().await.is_some() {} });
    let reservation = reservation::Settings {
        image: image.to_owned(),
        runtime_class: String::new(),
        resources: reservation::USUAL,
    };
    let hand_off = HandOffSettings { reservation, cdi: false, max_grace_period: 600 };
    let writer = Writer::new(api, "replay", metrics, Some(hand_off));
    let steps = Arc::new(steps);
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let side = Arc::new(Semaphore::new(SIDE_WRITES));
    let mut workers = JoinSet::new();
    for _ in 0..writes {
        let (writer, steps, side) = (writer.clone(), Arc::clone(&steps), Arc::clone(&side));
        let (next, done) = (Arc::clone(&next), Arc::clone(&done));
        workers.spawn(async move {
            let mut announced = JoinSet::new();
            while let Some(step) = steps.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = writer.perform(action(step.clone())).await;
                let is_done = matches!(
                    outcome,
                    Some(
                        Outcome::Bound { result: Ok(()), .. }
                            | Outcome::Reserved { result: Ok(()), .. }
                    )
                );
                done.fetch_add(usize::from(is_done), Ordering::Relaxed);
                if let Some(Outcome::Bound { pod, node, result: Ok(()) }) = outcome {
                    let (writer, side) = (writer.clone(), Arc::clone(&side));
                    announced.spawn(async move {
                        let _turn = side.acquire().await;
                        writer.perform(Action::Announce { pod, node }).await;
                    });
                }
            }
            while announced.join_next().await.is_some() {}
        });
    }
    while workers.join_next().await.is_some() {}
    Ok(done.load(Ordering::Relaxed))
}

fn action(repeated: Repeated) -> Action {
    match repeated {
        Repeated::Binding(repeated) => Action::Bind(Box::new(binding(repeated))),
        Repeated::Reservation { node, node_uid, group } => {
            let key = ObjectKey::new(reservation::NAMESPACE, &reservation::name(&node, &group));
            Action::Reserve {
                key,
                node: node.into(),
                node_uid: node_uid.into(),
                group: group.into(),
            }
        }
    }
}

fn binding(repeated: RepeatedBinding) -> Binding {
    let RepeatedBinding { namespace, name, uid, version, node, cards, group, portion } = repeated;
    let shares = cards.as_ref().and_then(|text| divvy_words::cards::parse(text).ok());
    let shares = shares.unwrap_or_default();
    let grant = match (cards, group) {
        (Some(_), Some(group)) => {
            let groups = vec![group.into()];
            Grant::HandOff(Some(HandOff {
                cards: shares.clone(),
                groups,
                portion,
                devices: None,
                device_allocated: None,
            }))
        }
        (Some(_), None) => Grant::Indexes,
        (None, _) => Grant::Nothing,
    };
    let index = |share: NamedShare| match share.card {
        CardName::Index(index) => Some(CardShare { index, bytes: share.bytes }),
        CardName::Uuid(_) => None,
    };
    let cards = shares.into_iter().filter_map(index).collect();
    Binding {
        pod: Target { key: ObjectKey::new(&namespace, &name), uid: uid.into() },
        version: version.into(),
        placement: Placement { node: node.into(), cards },
        grant,
        limits: Vec::new(),
        asks_as_koordinators: false,
        volumes: Vec::new(),
    }
}
