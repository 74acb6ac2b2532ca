//! A scheduler's writes without the scheduler: the same client, encoding, concurrency and watches,
//! with decisions that were made before. What is measured beside it is what deciding costs.

use crate::api::Api;
use crate::client::{self, ClientError};
use crate::fence::Fence;
use crate::metrics::Metrics;
use crate::run::SIDE_WRITES;
use crate::sources::Watches;
use crate::state::{Action, Binding, Grant, Outcome, Target};
use crate::watch::{Change, Pace};
use crate::writer::Writer;
use divvy_engine::{Placement, PodKey};
use divvy_ledger::CardShare;
use divvy_words::cards::{CardName, NamedShare};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// A binding to repeat.
#[derive(Clone, Debug)]
pub struct Repeated {
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
}

/// Binds the pods and announces them, `writes` at a time; gives how many bindings were accepted.
pub async fn replay(
    kubeconfig: &Path,
    writes: usize,
    bindings: Vec<Repeated>,
) -> Result<usize, ClientError> {
    let config = client::config(Some(kubeconfig), None).await?;
    let (fence, metrics) = (Fence::open(), Metrics::new());
    let api = Api::new(client::client(config, &fence)?, fence, metrics.clone());
    let pace = Pace { page: 500, silence: Duration::from_secs(90) };
    let watches = Watches { api: api.clone(), pace, metrics: metrics.clone() };
    let mut heard = watches.start();
    let (mut pods, _) = watches.start_pods();
    let is_last = |change: &Change<_>| matches!(change, Change::Listed);
    while let Some(batch) = pods.recv().await
        && !batch.iter().any(is_last)
    {}
    // Nobody minds the rest, but it is read.
    let mut readers = JoinSet::new();
    readers.spawn(async move { while heard.recv().await.is_some() {} });
    readers.spawn(async move { while pods.recv().await.is_some() {} });
    let writer = Writer::new(api, "replay", metrics, None);
    let bindings: Arc<Vec<Binding>> = Arc::new(bindings.into_iter().map(binding).collect());
    let (next, bound) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let side = Arc::new(Semaphore::new(SIDE_WRITES));
    let mut workers = JoinSet::new();
    for _ in 0..writes {
        let (writer, bindings, side) = (writer.clone(), Arc::clone(&bindings), Arc::clone(&side));
        let (next, bound) = (Arc::clone(&next), Arc::clone(&bound));
        workers.spawn(async move {
            let mut announced = JoinSet::new();
            while let Some(binding) = bindings.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = writer.perform(Action::Bind(Box::new(binding.clone()))).await;
                if let Some(Outcome::Bound { pod, node }) = outcome {
                    bound.fetch_add(1, Ordering::Relaxed);
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
    Ok(bound.load(Ordering::Relaxed))
}

fn binding(repeated: Repeated) -> Binding {
    let Repeated { namespace, name, uid, version, node, cards } = repeated;
    let grant = if cards.is_some() { Grant::Indexes } else { Grant::Nothing };
    let shares = cards.and_then(|text| divvy_words::cards::parse(&text).ok()).unwrap_or_default();
    let index = |share: NamedShare| match share.card {
        CardName::Index(index) => Some(CardShare { index, bytes: share.bytes }),
        CardName::Uuid(_) => None,
    };
    let cards = shares.into_iter().filter_map(index).collect();
    Binding {
        pod: Target { key: PodKey::new(&namespace, &name), uid: uid.into() },
        version: version.into(),
        placement: Placement { node: node.into(), cards },
        grant,
        volumes: Vec::new(),
    }
}
