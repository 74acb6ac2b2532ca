//! Connections of whoever can reach a port: so many at a time, and always room for one more.
//!
//! ```text
//!   listener ─► seats: who is here, who gives way ─► a task for each connection
//! ```
//!
//! Every pod of a cluster can reach the ports of every other, and connections cost it nothing. The
//! kubelet must get in with its probes all the same, and the API server with its reviews. So nobody
//! waits for a seat: when all are taken, a connection of the peer that has most of them is closed
//! for the newcomer. What a connection may do once it is there is not decided here, but one that is to
//! end when its peer does not read is a [`WriteDeadline`].

mod deadline;
mod seats;

pub use deadline::WriteDeadline;

use seats::Seats;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// The connections of a listener.
#[derive(Debug)]
pub struct Connections {
    listener: TcpListener,
    seats: Shared,
    most: usize,
    tasks: JoinSet<()>,
}

type Shared = Arc<Mutex<Seats<AbortHandle>>>;

fn lock(seats: &Shared) -> MutexGuard<'_, Seats<AbortHandle>> {
    // A panic elsewhere leaves at worst a seat too many.
    seats.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of one connection, until the last clone is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Shared,
    peer: IpAddr,
    ticket: AtomicU64,
}

impl Seat {
    /// Who has it.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// How many seats are taken, this one included.
    pub fn taken(&self) -> usize {
        lock(&self.seats).taken()
    }

    /// The peer was answered what it is here for: it is known from now on, and its connections give
    /// way after those of strangers.
    pub fn answered(&self) {
        let mut seats = lock(&self.seats);
        let next = seats.answered(self.peer, self.ticket.load(Ordering::Relaxed));
        self.ticket.store(next, Ordering::Relaxed);
    }

    /// A request has begun; until what is returned is dropped, the connection gives way last.
    pub fn begin(self: &Arc<Self>) -> UnderWay {
        self.is_under_way(true);
        UnderWay(Arc::clone(self))
    }

    fn is_under_way(&self, is_so: bool) {
        let mut seats = lock(&self.seats);
        seats.is_under_way(self.peer, self.ticket.load(Ordering::Relaxed), is_so);
    }
}

/// A request on a connection, until its answer has left.
#[derive(Debug)]
pub struct UnderWay(Arc<Seat>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.is_under_way(false);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.seats).leave(self.peer, self.ticket.load(Ordering::Relaxed));
    }
}

impl Connections {
    /// Those that will come to `listener`, at most so many at a time. A few more are open while
    /// they are being closed, up to one and a half times as many: keep that below the number of
    /// files that a process may have.
    pub fn new(listener: TcpListener, most: usize) -> Self {
        let seats = Arc::new(Mutex::new(Seats::new(most)));
        Self { listener, seats, most, tasks: JoinSet::new() }
    }

    /// Answers each connection in a task of its own, for ever. Can be dropped and called again.
    pub async fn answer<F>(&mut self, answer: impl Fn(TcpStream, Arc<Seat>) -> F) -> Infallible
    where
        F: Future<Output = ()> + Send + 'static,
    {
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok((stream, address)) => (stream, address.ip().to_canonical()),
                Err(error) => {
                    // Out of files, say: one that is closed helps, asking again at once does not.
                    tracing::warn!("failed to accept a connection: {error}");
                    self.close_one();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            while self.tasks.try_join_next().is_some() {}
            if lock(&self.seats).taken() >= self.most {
                self.close_one();
            }
            // What was told to end does so when its turn comes among those that have work to do.
            // To wait for each would be to accept as slowly.
            while self.tasks.len() >= self.most + self.most / 2 {
                self.tasks.join_next().await;
            }
            self.seat(stream, peer, &answer);
        }
    }

    fn seat<F>(
        &mut self,
        stream: TcpStream,
        peer: IpAddr,
        answer: impl Fn(TcpStream, Arc<Seat>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let ticket = lock(&self.seats).ticket();
        let seat = Seat { seats: Arc::clone(&self.seats), peer, ticket: ticket.into() };
        let seat = Arc::new(seat);
        let answering = answer(stream, Arc::clone(&seat));
        // Held until the seat is taken: the task may end before, and must not leave it first.
        let mut seats = lock(&self.seats);
        let task = self.tasks.spawn(async move {
            answering.await;
            drop(seat);
        });
        seats.take(peer, ticket, task);
    }

    fn close_one(&self) {
        let task = lock(&self.seats).give_way();
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Lets nobody in any more, and waits until all that are here have gone.
    pub async fn end(self) {
        let Self { listener, mut tasks, .. } = self;
        drop(listener);
        while tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests;
