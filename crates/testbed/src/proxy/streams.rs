//! The open watches, which can be broken in the middle.

use super::Failure;
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use kube::client::Body;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::{mpsc, watch};

/// What is done to all open watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Nothing,
    Cut,
    Freeze,
    Expire,
}

/// The error event of the API server. In JSON, as all watches of ours are.
const EXPIRED: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"#,
    r#""status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#,
    "\n"
);

#[derive(Debug)]
pub(super) struct Streams {
    orders: watch::Sender<Order>,
    open: Arc<AtomicUsize>,
}

impl Default for Streams {
    fn default() -> Self {
        Self { orders: watch::Sender::new(Order::Nothing), open: Arc::default() }
    }
}

impl Streams {
    pub(super) fn order(&self, order: Order) {
        // Whoever subscribes later has not seen it as a change.
        self.orders.send_replace(order);
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The same bytes, until somebody orders otherwise.
    pub(super) fn pass_on(&self, mut body: Body) -> Pipe {
        let (sender, receiver) = mpsc::channel(16);
        let mut orders = self.orders.subscribe();
        let open = Arc::clone(&self.open);
        open.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let mut frozen = false;
            loop {
                let order = tokio::select! {
                    frame = body.frame(), if !frozen => {
                        let Some(Ok(frame)) = frame else { break };
                        if sender.send(Ok(frame)).await.is_err() {
                            break;
                        }
                        continue;
                    }
                    () = sender.closed() => break,
                    changed = orders.changed() => match changed {
                        Ok(()) => *orders.borrow_and_update(),
                        Err(_) => break,
                    },
                };
                let last = match order {
                    Order::Nothing => continue,
                    Order::Cut => Err(Failure::other("cut")),
                    Order::Expire => Ok(Frame::data(Bytes::from_static(EXPIRED.as_bytes()))),
                    Order::Freeze => {
                        frozen = true;
                        continue;
                    }
                };
                let _ = sender.send(last).await;
                break;
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
        Pipe(receiver)
    }
}

/// A body that is fed by a task.
pub(super) struct Pipe(mpsc::Receiver<Result<Frame<Bytes>, Failure>>);

impl http_body::Body for Pipe {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        self.0.poll_recv(context)
    }
}
