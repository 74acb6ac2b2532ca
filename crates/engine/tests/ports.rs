//! Host ports: a port of a node belongs to one pod.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/relations.rs"]
mod relations;
use common::*;
use divvy_engine::*;
use relations::*;

/// `80`, `80/UDP` or `80@10.0.0.1`.
fn port(text: &str) -> HostPort {
    let (text, ip) =
        text.split_once('@').map_or((text, None), |(text, ip)| (text, Some(ip.into())));
    let (number, protocol) = match text.split_once('/') {
        Some((number, "UDP")) => (number, Protocol::Udp),
        Some((number, "SCTP")) => (number, Protocol::Sctp),
        _ => (text, Protocol::Tcp),
    };
    HostPort { port: number.parse().unwrap(), protocol, ip }
}

fn with(ports: &[&str]) -> PodSpec {
    let ports = ports.iter().map(|text| port(text)).collect();
    related("", Relations { ports, ..Relations::default() })
}

#[test]
fn a_port_is_taken_by_port_protocol_and_address() {
    for (why, taken, asked, is_free) in [
        ("the same port", "80", &["80"][..], false),
        ("another port", "80", &["81"], true),
        ("one of several", "80", &["81", "80"], false),
        ("another protocol", "80/UDP", &["80"], true),
        ("the same of another protocol", "80/SCTP", &["80/SCTP"], false),
        ("every address takes each one", "80", &["80@10.0.0.1"], false),
        ("each address keeps every one", "80@10.0.0.1", &["80"], false),
        ("another address", "80@10.0.0.1", &["80@10.0.0.2"], true),
        ("the same address", "80@10.0.0.1", &["80@10.0.0.1"], false),
    ] {
        let mut s = zones();
        runs(&mut s, "x", "a1", with(&[taken]));
        let expected = if is_free { "a1 a2 b1 c1" } else { "a2 b1 c1" };
        assert_eq!(allowed(&s, &with(asked)), expected, "{why}");
    }
}

#[test]
fn pods_of_one_controller_with_a_port_go_to_a_node_each_and_the_rest_waits() {
    let mut s = zones();
    for name in ["p1", "p2", "p3", "p4", "p5", "p6"] {
        add(&mut s, name, with(&["80"]));
    }
    let plan = pass(&mut s);
    assert_eq!(plan, ["p1 a1", "p2 a2", "p3 b1", "p4 c1", "p5 waits", "p6 waits"]);
    assert_eq!(reasons(&s, "p5"), ["4 x host port 80/TCP is taken"]);
    gone(&mut s, "p3");
    assert_eq!(pass(&mut s), ["p5 b1"], "a port that is free again is taken again");
}

#[test]
fn the_pod_that_has_the_port_is_named() {
    let mut s = cluster(Config::default(), [node("n", divvy_ledger::Gpus::none())]);
    runs(&mut s, "x", "n", with(&["8080"]));
    add(&mut s, "p", with(&["8080"]));
    pass(&mut s);
    assert_eq!(reasons(&s, "p"), ["1 x host port 8080/TCP is taken by ml/x"]);
}

#[test]
fn a_pod_with_other_ports_waits_no_longer_than_its_own_are_taken() {
    let mut s = cluster(Config::default(), [node("n", divvy_ledger::Gpus::none())]);
    runs(&mut s, "x", "n", with(&["80"]));
    runs(&mut s, "y", "n", with(&["81"]));
    add(&mut s, "p", with(&["80"]));
    pass(&mut s);
    let searches = s.searches();
    gone(&mut s, "y");
    assert_eq!(pass(&mut s), [""; 0]);
    assert_eq!(s.searches(), searches, "what went did not have the port");
    gone(&mut s, "x");
    assert_eq!(pass(&mut s), ["p n"]);
}

#[test]
fn of_several_that_have_the_port_the_first_by_name_is_named_whoever_came_first() {
    for order in [["x", "y"], ["y", "x"]] {
        let mut s = cluster(Config::default(), [node("n", divvy_ledger::Gpus::none())]);
        for name in order {
            let address = if name == "x" { "80@10.0.0.1" } else { "80@10.0.0.2" };
            runs(&mut s, name, "n", with(&[address]));
        }
        add(&mut s, "p", with(&["80"]));
        pass(&mut s);
        assert_eq!(reasons(&s, "p"), ["1 x host port 80/TCP is taken by ml/x"], "{order:?}");
    }
}
