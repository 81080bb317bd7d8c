//! Protects CASES 7: no depth limit, no stack overflow, one cascade. A chain of 100,000, written in order and the other way
//! round, a fan-out of 100,000, and a ring of 100,000: retracted, previewed, reinstated, read back, explained.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod engine;
mod table;

use engine::{Engine, in_words, records};
use recant_projections::{audit, fold::Folded, query};
use recant_proto::v1::Event;
use table::{derived, justified, observed, reinstated, retracted, source};

const NODES: usize = 100_000;

#[test]
fn case_07_a_chain_100_000_deep() {
    let chain = (0..NODES).map(|at| derived(&name(at), &[&below(at)]));
    let mut engine = built([observed("O", "S")].into_iter().chain(chain));
    falls_and_rises(&mut engine, &|at| at as u32 + 1);
}

/// Everything waits for the last event, and then comes IN at once.
#[test]
fn case_07_a_chain_100_000_deep_that_is_written_from_its_end() {
    let mut engine = Engine::new();
    for at in (0..NODES).rev() {
        assert_eq!(engine.fold(&derived(&name(at), &[&below(at)])).outputs.len(), 2, "a birth OUT, and its summary");
    }
    let arrived = engine.fold(&observed("O", "S"));
    assert_eq!(changes(&arrived).len(), NODES);
    assert_eq!(changes(&arrived)[NODES - 1], format!("{} OUT>IN @{NODES}", name(NODES - 1)));
    falls_and_rises(&mut engine, &|at| at as u32 + 1);
}

#[test]
fn case_07_a_fan_out_of_100_000() {
    let fan = (0..NODES).map(|at| derived(&name(at), &["O"]));
    let mut engine = built([observed("O", "S")].into_iter().chain(fan));
    falls_and_rises(&mut engine, &|_| 1);
}

#[test]
fn case_07_a_ring_of_100_000() {
    let chain = (0..NODES).map(|at| derived(&name(at), &[&below(at)]));
    let closing = justified(&name(0), &[&name(NODES - 1)]);
    let mut engine = built([observed("O", "S")].into_iter().chain(chain).chain([closing]));
    falls_and_rises(&mut engine, &|at| at as u32 + 1);
}

fn name(at: usize) -> String {
    format!("B{at:05}")
}

fn below(at: usize) -> String {
    at.checked_sub(1).map_or("O".to_owned(), name)
}

fn built(events: impl Iterator<Item = Event>) -> Engine {
    let mut engine = Engine::new();
    for event in events {
        assert_eq!(engine.fold(&event).outputs, []);
    }
    engine
}

fn changes(folded: &Folded) -> Vec<String> {
    records(folded).iter().skip(1).map(in_words).collect()
}

fn falls_and_rises(engine: &mut Engine, distance: &dyn Fn(usize) -> u32) {
    let before = engine.digest("s");
    let retraction = retracted("r", &[source("S")]);
    let previewed = engine.preview(&retraction);
    let fallen = engine.fold(&retraction);
    assert_eq!(previewed.records.iter().skip(1).map(in_words).collect::<Vec<_>>(), changes(&fallen));
    let cascade = records(&fallen);
    assert_eq!(cascade.len(), NODES + 2);
    assert!(cascade.iter().all(|record| record.cascade.as_ref().unwrap().total as usize == NODES + 1));
    let falls: Vec<String> =
        (0..NODES).map(|at| format!("{} IN>OUT unsupported @{}", name(at), distance(at))).collect();
    let words = changes(&fallen);
    assert_eq!(words[0], "O IN>OUT retracted @0");
    // Nodes at one distance are in the order of their arrival, which here is that of their names.
    assert_eq!(words[1..], falls);
    assert!(fallen.work.suspects as usize == NODES && fallen.work.restored == 0, "{:?}", fallen.work);

    assert_eq!(audit::space(engine.partition.stored(), "s").unwrap(), Vec::<String>::new());
    let store = engine.partition.stored();
    let last = name(NODES - 1);
    let explained = query::explain(store, &engine.loaded("s"), &engine.now(), &last, usize::MAX).unwrap().unwrap();
    assert!(explained.nodes.iter().all(|node| node.node.status == "OUT"));
    let some = query::explain(store, &engine.loaded("s"), &engine.now(), "O", 10).unwrap().unwrap();
    assert!(some.rests_on_it.len() <= 10 && some.rests_on_it_total >= 1);

    let risen = engine.fold(&reinstated("r"));
    assert_eq!(changes(&risen).len(), NODES + 1);
    assert_eq!(engine.digest("s"), before);
    assert_eq!(audit::space(engine.partition.stored(), "s").unwrap(), Vec::<String>::new());
}
