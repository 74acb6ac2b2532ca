//! Nominated nodes: those of our pods, and those that other schedulers gave to theirs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/relations.rs"]
mod relations;
use common::*;
use divvy_engine::*;
use relations::*;

fn nominated(name: &str, node: &str, spec: PodSpec) -> Event {
    Event::Pod(Box::new(PodRecord { nominated: Some(node.into()), ..pod(name, spec) }))
}

#[test]
fn a_pod_goes_to_its_nominated_node_if_it_can_and_else_where_it_can() {
    for (why, node, cpu_there, expected) in [
        ("there is room", "b1", 0, "p b1"),
        ("there is none", "b1", 64_000, "p a1"),
        ("there is no such node", "gone", 0, "p a1"),
    ] {
        let mut s = zones();
        runs(&mut s, "r", "b1", cpu(cpu_there));
        // Packing would take the fullest.
        runs(&mut s, "x", "a1", cpu(60_000));
        s.apply(nominated("p", node, cpu(10))).unwrap();
        assert_eq!(pass(&mut s), [expected], "{why}");
    }
}

#[test]
fn a_nomination_does_not_overrule_other_pods() {
    let mut s = zones();
    runs(&mut s, "r", "b1", labelled("app=web"));
    let anti_affinity = vec![term("app=web", "zone")];
    let shy = related("", Relations { anti_affinity, ..Relations::default() });
    s.apply(nominated("p", "b1", shy)).unwrap();
    assert_eq!(pass(&mut s), ["p a1"]);
}

#[test]
fn a_pod_of_another_scheduler_holds_its_nominated_node_but_meets_no_affinity_there() {
    let mut s = zones();
    let spec = PodSpec { cpu: divvy_ledger::MilliCpu(63_000), ..labelled("app=db") };
    let bound = Bound { nominated: true, ..Bound::new("b1", BoundCards::Nothing) };
    let theirs = PodRecord { bound: Some(bound), ..pod("theirs", spec) };
    s.apply(Event::Pod(Box::new(theirs.clone()))).unwrap();
    assert_eq!(allowed(&s, &cpu(2_000)), "a1 a2 c1", "what it will take is taken");
    let apart = Relations { anti_affinity: vec![term("app=db", "host")], ..Relations::default() };
    assert_eq!(allowed(&s, &related("", apart)), "a1 a2 c1", "it is in the way already");
    let near = Relations { affinity: vec![term("app=db", "host")], ..Relations::default() };
    assert_eq!(allowed(&s, &related("", near.clone())), "", "it may still go elsewhere");
    let bound = Some(Bound::new("b1", BoundCards::Nothing));
    s.apply(Event::Pod(Box::new(PodRecord { bound, ..theirs }))).unwrap();
    assert_eq!(allowed(&s, &related("", near)), "b1");
}
