#![allow(clippy::unwrap_used)]

use super::*;

fn peer(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

/// Seats for `most`, with those of each peer taken in this order; a connection is its peer and its
/// ticket.
fn seats(most: usize, order: &[u8]) -> Seats<(u8, u64)> {
    let mut seats = Seats::new(most);
    for number in order {
        let ticket = seats.ticket();
        seats.take(peer(*number), ticket, (*number, ticket));
    }
    seats
}

#[test]
fn the_peer_with_most_gives_way_with_the_one_that_has_waited_longest() {
    let mut seats = seats(6, &[1, 2, 2, 3, 3, 2]);
    let ended: Vec<_> = std::iter::from_fn(|| seats.give_way()).collect();
    assert_eq!(ended, [(2, 2), (2, 3), (3, 4), (1, 1), (3, 5), (2, 6)]);
    assert_eq!(seats.taken(), 0);
}

#[test]
fn who_opens_thousands_takes_them_from_itself() {
    let mut seats = seats(8, &[1, 2, 3]);
    for _ in 0..5000 {
        if seats.taken() >= 8 {
            assert_eq!(seats.give_way().unwrap().0, 9);
        }
        let ticket = seats.ticket();
        seats.take(peer(9), ticket, (9, ticket));
    }
    assert_eq!(seats.taken(), 8);
}

#[test]
fn a_peer_that_was_answered_gives_way_after_strangers_with_new_connections_too() {
    let mut seats = seats(6, &[1, 1, 2, 3, 4]);
    assert_eq!(seats.answered(peer(1), 1), 6);
    let ticket = seats.ticket();
    seats.take(peer(1), ticket, (1, ticket));
    let ended: Vec<_> = std::iter::from_fn(|| seats.give_way()).collect();
    assert_eq!(ended, [(2, 3), (3, 4), (4, 5), (1, 2), (1, 1), (1, 7)]);
}

#[test]
fn known_peers_keep_half_of_the_seats_and_leave_half_to_strangers() {
    let mut seats = seats(8, &[]);
    let mut enter = |number: u8, is_answered: bool| {
        if seats.taken() >= 8 {
            seats.give_way().unwrap();
        }
        let ticket = seats.ticket();
        seats.take(peer(number), ticket, (number, ticket));
        if is_answered {
            seats.answered(peer(number), ticket);
        }
        let known = seats.peers.values().filter(|peer| peer.answered.is_some());
        let known: usize = known.map(|peer| peer.seats.len()).sum();
        (known, seats.taken() - known)
    };
    for _ in 0..20 {
        enter(1, true);
    }
    assert_eq!(enter(1, true), (8, 0), "nobody else wants them");
    for number in 2..40 {
        enter(number, false);
    }
    assert_eq!(enter(40, false), (4, 4));
    for _ in 0..20 {
        enter(1, true);
        enter(41, false);
    }
    assert_eq!(enter(41, false), (4, 4));
}

#[test]
fn what_is_remembered_of_peers_that_have_gone_has_a_bound() {
    let mut seats = seats(4, &[]);
    for number in 0..200 {
        let ticket = seats.ticket();
        seats.take(peer(number), ticket, (number, ticket));
        let ticket = seats.answered(peer(number), ticket);
        seats.leave(peer(number), ticket);
        assert_eq!(seats.taken(), 0);
    }
    let known: Vec<_> = seats.peers.keys().copied().collect();
    assert_eq!(known, [196, 197, 198, 199].map(peer));
}

#[test]
fn a_seat_that_was_given_up_is_not_taken_again_by_a_late_answer() {
    let mut seats = seats(1, &[1]);
    assert_eq!(seats.give_way(), Some((1, 1)));
    assert_eq!(seats.answered(peer(1), 1), 1);
    seats.leave(peer(1), 1);
    assert_eq!(seats.taken(), 0);
    assert_eq!(seats.give_way(), None);
}

#[test]
fn a_request_under_way_gives_way_after_idle_connections_of_anybody() {
    // An API server with 20 reviews, and 10 pods that had one answered each and keep 5 connections.
    let api_server = [1; 20];
    let pods = (10..20).flat_map(|number| [number; 5]);
    let mut seats = seats(70, &api_server.into_iter().chain(pods).collect::<Vec<_>>());
    for ticket in 1..=20 {
        seats.is_under_way(peer(1), ticket, true);
    }
    for number in (10..20).chain([1]) {
        let ticket = *seats.peers[&peer(number)].seats.keys().next().unwrap();
        seats.answered(peer(number), ticket);
    }
    let ended: Vec<_> = std::iter::from_fn(|| seats.give_way()).map(|(peer, _)| peer).collect();
    assert_eq!(ended.len(), 70);
    let (idle, under_way) = ended.split_at(50);
    assert!(!idle.contains(&1), "{idle:?}");
    assert_eq!(under_way, [1; 20]);
}

#[test]
fn of_one_peer_the_idle_connection_gives_way_before_an_older_one_with_a_request() {
    let mut seats = seats(4, &[1, 1, 1]);
    seats.is_under_way(peer(1), 1, true);
    seats.is_under_way(peer(1), 2, true);
    seats.is_under_way(peer(1), 2, true);
    seats.is_under_way(peer(1), 2, false);
    assert_eq!(seats.give_way(), Some((1, 3)));
    seats.is_under_way(peer(1), 2, false);
    assert_eq!(seats.give_way(), Some((1, 2)), "its last answer has left");
    assert_eq!(seats.give_way(), Some((1, 1)));
}

#[test]
fn who_begins_thousands_of_requests_keeps_nobody_out_that_is_still_to_ask() {
    for addresses in [1, 10, 100] {
        let mut seats = seats(512, &[1]);
        for number in 0..5000 {
            if seats.taken() >= 512 {
                assert_ne!(seats.give_way().unwrap().0, 1, "{addresses} addresses");
            }
            let ticket = seats.ticket();
            let from = 100 + (number % addresses) as u8;
            seats.take(peer(from), ticket, (from, ticket));
            seats.is_under_way(peer(from), ticket, true);
        }
    }
}
