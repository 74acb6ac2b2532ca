//! Who is connected, and who gives way when one more comes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The seats that are taken, each by a connection that `H` can end.
///
/// The peer with the most connections gives way, with the one that has waited longest for an
/// answer: whoever opens thousands takes them from itself, and who has one keeps it. Peers that
/// were once answered as they should are known, and have half of the seats before strangers do.
/// Connections with a request under way give way last. Half of the seats are for them, in equal
/// parts for all peers that have one: who has more of them does not keep out those that still are
/// to ask.
#[derive(Debug)]
pub(crate) struct Seats<H> {
    most: usize,
    peers: BTreeMap<IpAddr, Peer<H>>,
    tickets: u64,
}

#[derive(Debug)]
struct Peer<H> {
    /// Its connections by ticket; the lowest has waited longest.
    seats: BTreeMap<u64, Connection<H>>,
    /// The ticket of its last answer, if it is known.
    answered: Option<u64>,
}

#[derive(Debug)]
struct Connection<H> {
    end: H,
    /// Requests under way: one may begin before the answer to the last has left.
    under_way: usize,
}

impl<H> Peer<H> {
    fn under_way(&self) -> usize {
        self.seats.values().filter(|connection| connection.under_way > 0).count()
    }

    /// The ticket of the connection that it would lose next.
    fn first(&self) -> Option<u64> {
        let is_idle = |(_, connection): &(&u64, &Connection<H>)| connection.under_way == 0;
        let idle = self.seats.iter().find(is_idle);
        idle.or_else(|| self.seats.first_key_value()).map(|(ticket, _)| *ticket)
    }
}

impl<H> Seats<H> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, peers: BTreeMap::new(), tickets: 0 }
    }

    pub(crate) fn taken(&self) -> usize {
        self.peers.values().map(|peer| peer.seats.len()).sum()
    }

    /// A ticket that is higher than all before.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(crate) fn take(&mut self, address: IpAddr, ticket: u64, connection: H) {
        let nobody = || Peer { seats: BTreeMap::new(), answered: None };
        let peer = self.peers.entry(address).or_insert_with(nobody);
        peer.seats.insert(ticket, Connection { end: connection, under_way: 0 });
    }

    /// A request begins on the connection, or the answer to one has left.
    pub(crate) fn is_under_way(&mut self, address: IpAddr, ticket: u64, is_so: bool) {
        let peer = self.peers.get_mut(&address);
        let Some(connection) = peer.and_then(|peer| peer.seats.get_mut(&ticket)) else { return };
        let count = &mut connection.under_way;
        *count = if is_so { *count + 1 } else { count.saturating_sub(1) };
    }

    pub(crate) fn leave(&mut self, address: IpAddr, ticket: u64) {
        if let Some(peer) = self.peers.get_mut(&address) {
            peer.seats.remove(&ticket);
            self.tidy(address);
        }
    }

    /// The connection had an answer that only a peer gets that is wanted here. Its ticket from now
    /// on.
    pub(crate) fn answered(&mut self, address: IpAddr, ticket: u64) -> u64 {
        let next = self.ticket();
        let Some(peer) = self.peers.get_mut(&address) else { return ticket };
        let Some(connection) = peer.seats.remove(&ticket) else { return ticket };
        peer.seats.insert(next, connection);
        let is_new = peer.answered.replace(next).is_none();
        if is_new {
            self.forget_one();
        }
        next
    }

    /// Takes a seat from the one who has to give way.
    pub(crate) fn give_way(&mut self) -> Option<H> {
        let is_known = |peer: &Peer<H>| peer.answered.is_some();
        let seats_of = |of_known: bool| {
            let peers = self.peers.values().filter(|peer| is_known(peer) == of_known);
            peers.map(|peer| peer.seats.len()).sum::<usize>()
        };
        // Those that are known keep no more than half, or nobody could become it.
        let of_known = seats_of(true) > self.most / 2 || seats_of(false) == 0;
        let under_way = self.peers.values().map(Peer::under_way);
        let each = self.most / 2 / under_way.filter(|count| *count > 0).count().max(1);
        let candidates = self.peers.iter_mut().filter(|(_, peer)| is_known(peer) == of_known);
        let (address, peer) =
            candidates.filter(|(_, peer)| !peer.seats.is_empty()).max_by_key(|(_, peer)| {
                let count = peer.seats.len();
                (count - peer.under_way().min(each), count, Reverse(peer.first()))
            })?;
        let address = *address;
        let connection = peer.seats.remove(&peer.first()?)?;
        self.tidy(address);
        Some(connection.end)
    }

    /// Of more known peers than there are seats, the one that was answered longest ago is not known
    /// any more.
    fn forget_one(&mut self) {
        let known =
            self.peers.iter().filter_map(|(address, p)| p.answered.map(|at| (at, *address)));
        if known.clone().count() <= self.most {
            return;
        }
        if let Some((_, oldest)) = known.min()
            && let Some(peer) = self.peers.get_mut(&oldest)
        {
            peer.answered = None;
            self.tidy(oldest);
        }
    }

    /// Nothing is kept of a peer that is neither here nor known.
    fn tidy(&mut self, address: IpAddr) {
        let is_gone = |peer: &Peer<H>| peer.seats.is_empty() && peer.answered.is_none();
        if self.peers.get(&address).is_some_and(is_gone) {
            self.peers.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests;
