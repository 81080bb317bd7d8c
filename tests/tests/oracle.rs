//! Protects the oracle itself: hand-written tables for the rows of CASES that the rule of belief decides. Each line of
//! a table is an event and the cascade that it must cause, worked out by hand.

mod table;

use std::collections::BTreeMap;

use recant_proto::v1::{Event, Retracted, event::Body};
use recant_tests::{
    generate::{BEGIN_MS, SPACES, records, seeded},
    oracle::{Fate, Oracle, Standing},
};
use table::{
    HOUR_MS, Table, derived, event, justification, justified, named_retraction, node, observed, reinstated, retracted,
    source,
};

/// CASES 1: what rests on a retracted source falls, one change each, the nearer first.
#[test]
fn a_chain_falls_in_order() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(derived("B", &["O"]), &[]);
    table.step(derived("C", &["B"]), &[]);
    table.step(
        retracted("r", &[source("S")]),
        &["O IN>OUT retracted @0", "B IN>OUT unsupported @1", "C IN>OUT unsupported @2"],
    );
    table.step(reinstated("r"), &["O OUT>IN @0", "B OUT>IN @1", "C OUT>IN @2"]);
}

/// DESIGN 5: distance decides the order, then arrival; a later node that is nearer comes first.
#[test]
fn the_nearer_comes_before_the_earlier() {
    let mut table = Table::new();
    table.step(derived("far", &["near"]), &["far >OUT pending @0"]);
    table.step(derived("near", &["O"]), &["near >OUT pending @0"]);
    table.step(derived("also near", &["O"]), &["also near >OUT pending @0"]);
    table.step(observed("O", "S"), &["near OUT>IN @1", "also near OUT>IN @1", "far OUT>IN @2"]);
}

/// DESIGN 5: distance counts steps through nodes that changed; one that was OUT before is no step.
#[test]
fn distance_leads_through_what_changed() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(observed("P", "T"), &[]);
    table.step(derived("A", &["P"]), &[]);
    table.step(derived("B", &["A"]), &[]);
    table.step(justified("B", &["O"]), &[]);
    table.step(retracted("r1", &[source("S")]), &["O IN>OUT retracted @0"]);
    // O is named again, is OUT already, and B has a reason that rests on it.
    let cascade = ["P IN>OUT retracted @0", "A IN>OUT unsupported @1", "B IN>OUT unsupported @2"];
    table.step(retracted("r2", &[source("S"), source("T")]), &cascade);
    // What was lifted before does not end a second time: of r3, A is not named.
    table.step(retracted("r3", &[node("A")]), &[]);
    table.step(reinstated("r3"), &[]);
    let replacing = Retracted {
        replaces: vec!["r2".to_owned(), "r3".to_owned()],
        targets: vec![node("X")],
        ..Retracted::default()
    };
    table.step(event("r4", Body::Retracted(replacing)), &["P OUT>IN @0", "A OUT>IN @1", "B OUT>IN @2"]);
}

/// CASES 2: a belief with two independent reasons stays, and nothing is published of it.
#[test]
fn a_second_reason_holds() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(observed("P", "T"), &[]);
    table.step(derived("B", &["O"]), &[]);
    table.step(justified("B", &["P"]), &[]);
    table.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0"]);
    table.is("B", Standing::In);
}

/// A reason needs all of its premises: one of two that falls takes the belief with it.
#[test]
fn premises_are_all_needed() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(observed("P", "T"), &[]);
    table.step(derived("B", &["O", "P"]), &[]);
    table.step(retracted("r", &[source("T")]), &["P IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
}

/// CASES 3: three sources, each alone enough: OUT only at the third, IN again with any one.
#[test]
fn the_last_of_three_sources_decides() {
    let mut table = Table::new();
    for (observation, source) in [("O1", "S1"), ("O2", "S2"), ("O3", "S3")] {
        table.step(observed(observation, source), &[]);
        table.step(derived("B", &[observation]), &[]);
    }
    table.step(retracted("r1", &[source("S1")]), &["O1 IN>OUT retracted @0"]);
    table.step(retracted("r2", &[source("S2")]), &["O2 IN>OUT retracted @0"]);
    table.step(retracted("r3", &[source("S3")]), &["O3 IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
    for (retraction, observation) in [("r1", "O1"), ("r2", "O2"), ("r3", "O3")] {
        let mut branch = Table { oracle: table.oracle.clone(), offset: table.offset };
        branch.step(reinstated(retraction), &[&format!("{observation} OUT>IN @0"), "B OUT>IN @1"]);
    }
}

/// CASES 4: a derived write and the retraction of its premise, in both orders.
#[test]
fn a_race_ends_the_same_in_both_orders() {
    let mut first = Table::new();
    first.step(observed("O", "S"), &[]);
    first.step(derived("B", &["O"]), &[]);
    first.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
    let mut second = Table::new();
    second.step(observed("O", "S"), &[]);
    second.step(retracted("r", &[source("S")]), &["O IN>OUT retracted @0"]);
    second.step(derived("B", &["O"]), &["B >OUT unsupported @0"]);
    assert_eq!(first.oracle.digest("s"), second.oracle.digest("s"));
}

/// CASES 6: nodes that support only each other are OUT, and come back with their outside reason.
#[test]
fn rings_fall_with_their_outside_reason() {
    let rings: [&[&str]; 3] = [&["B1"], &["B1", "B2"], &["B1", "B2", "B3"]];
    for ring in rings {
        let mut table = Table::new();
        table.step(observed("O", "S"), &[]);
        table.step(derived("B1", &["O"]), &[]);
        for pair in ring.windows(2) {
            table.step(derived(pair[1], &[pair[0]]), &[]);
        }
        table.step(justified("B1", &[ring[ring.len() - 1]]), &[]);
        let falls = |index: usize| format!("B{} IN>OUT unsupported @{}", index + 1, index + 1);
        let rises = |index: usize| format!("B{} OUT>IN @{}", index + 1, index + 1);
        let cascade = |own: &str, others: &dyn Fn(usize) -> String| -> Vec<String> {
            [own.to_owned()].into_iter().chain((0..ring.len()).map(others)).collect()
        };
        let (down, up) = (cascade("O IN>OUT retracted @0", &falls), cascade("O OUT>IN @0", &rises));
        table.step(retracted("r", &[source("S")]), &down.iter().map(String::as_str).collect::<Vec<_>>());
        table.step(reinstated("r"), &up.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// CASES 16: a retraction waits for what it names; what then arrives is born OUT. So does a reinstatement.
#[test]
fn what_is_retracted_in_advance_is_born_out() {
    let mut table = Table::new();
    table.step(retracted("r", &[source("S"), node("B"), justification("C<P")]), &[]);
    table.step(observed("O", "S"), &["O >OUT retracted @0"]);
    table.step(observed("P", "T"), &[]);
    table.step(derived("B", &["P"]), &["B >OUT retracted @0"]);
    table.step(derived("C", &["P"]), &["C >OUT unsupported @0"]);
    table.step(reinstated("later"), &[]);
    table.step(retracted("later", &[source("T")]), &[]);
    table.is("P", Standing::In);
    let taken = (Fate::Rejected("retraction_id_taken"), vec![]);
    assert_eq!(table.fate(Event { id: "later again".to_owned(), ..named_retraction("later", &[source("T")]) }), taken);
    table.step(reinstated("r"), &["O OUT>IN @0", "B OUT>IN @0", "C OUT>IN @0"]);
    assert_eq!(table.fate(Event { id: "r again".to_owned(), ..named_retraction("r", &[source("T")]) }), taken);
}

/// CASES 26: what is stored again because it was recalled rests on what was recalled; it holds nothing up by itself.
#[test]
fn an_echo_is_no_independent_reason() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(derived("B", &["O"]), &[]);
    for round in 0..100 {
        let echo = Event { id: format!("echo {round}"), ..derived("Echo", &["B"]) };
        table.step(echo, &[]);
        table.step(Event { id: format!("back {round}"), ..justified("B", &["Echo"]) }, &[]);
    }
    let cascade = ["O IN>OUT retracted @0", "B IN>OUT unsupported @1", "Echo IN>OUT unsupported @2"];
    table.step(retracted("r", &[source("S")]), &cascade);
}

/// CASES 29: what another retraction covers stays OUT when one is lifted, also when `replaces` lifts it.
#[test]
fn overlapping_covers_are_lifted_one_by_one() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(observed("P", "S"), &[]);
    table.step(derived("B", &["O"]), &[]);
    let falls = ["O IN>OUT retracted @0", "P IN>OUT retracted @0", "B IN>OUT unsupported @1"];
    table.step(retracted("r1", &[source("S")]), &falls);
    table.step(retracted("r2", &[node("O")]), &[]);
    table.step(reinstated("r1"), &["P OUT>IN @0"]);
    let narrower = Retracted { replaces: vec!["r2".to_owned()], targets: vec![node("P")], ..Retracted::default() };
    table.step(event("r3", Body::Retracted(narrower)), &["O OUT>IN @0", "P IN>OUT retracted @0", "B OUT>IN @1"]);
}

/// CASES 30: a reason gained while OUT, itself covered, counts as soon as its own cover is lifted.
#[test]
fn a_new_reason_counts_when_it_is_uncovered() {
    let mut table = Table::new();
    table.step(observed("O", "S"), &[]);
    table.step(observed("P", "T"), &[]);
    table.step(derived("B", &["O"]), &[]);
    table.step(retracted("r1", &[source("S")]), &["O IN>OUT retracted @0", "B IN>OUT unsupported @1"]);
    table.step(retracted("r2", &[justification("B<P")]), &[]);
    table.step(justified("B", &["P"]), &[]);
    table.step(reinstated("r2"), &["B OUT>IN @0"]);
}

/// DESIGN 2: why is a function of the present state; a change of why alone is kept in the history and not published.
#[test]
fn why_follows_the_reasons() {
    let mut table = Table::new();
    table.step(derived("B", &["late"]), &["B >OUT pending @0"]);
    table.step(retracted("r1", &[justification("B<late")]), &[]);
    table.is("B", Standing::Unsupported);
    table.step(reinstated("r1"), &[]);
    table.is("B", Standing::Pending);
    table.step(derived("C", &["also late"]), &["C >OUT pending @0"]);
    table.step(justified("B", &["C"]), &[]);
    table.is("B", Standing::Unsupported);
    table.step(retracted("r2", &[node("B")]), &[]);
    table.is("B", Standing::Retracted);
    table.step(reinstated("r2"), &[]);
    table.step(observed("late", "S"), &["B OUT>IN @1"]);
    let history = |offset: u64| table.oracle.standing_as_of("s", "B", offset);
    use Standing::{In, Pending, Retracted, Unsupported};
    let expected = [Pending, Unsupported, Pending, Pending, Unsupported, Retracted, Unsupported, In].map(Some);
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(history), expected);
    // Each event that changed it, and no other.
    assert_eq!(table.oracle.space("s").map(|space| space.history("B").len()), Some(7));
    assert_eq!(table.oracle.offset_as_of(BEGIN_MS + 3 * HOUR_MS + 1), Some(3));
}

/// What holds of every cascade, whatever the events: it is complete, ordered, and each change has a distance.
#[test]
fn cascades_account_for_every_move() {
    for sequence in seeded(1, 20, 60).take(300) {
        let mut oracle = Oracle::new(0);
        let mut statuses: BTreeMap<(String, String), &str> = BTreeMap::new();
        for record in records(&sequence) {
            let outcome = oracle.step(record.offset, record.append_time_ms, &record.event, &record.value);
            let space = &record.event.space;
            for change in &outcome.changes {
                let key = (space.clone(), change.node.clone());
                assert_eq!(statuses.insert(key, change.to), change.from, "{change:?}");
                assert!(change.distance < u32::MAX, "nothing that the event names reaches {change:?}");
            }
            assert!(outcome.changes.is_sorted_by_key(|change| change.distance));
            for name in SPACES {
                for (node, standing) in oracle.space(name).into_iter().flat_map(|space| space.standings()) {
                    let status = statuses.entry((name.to_owned(), node.clone())).or_insert("IN");
                    assert_eq!(*status, standing.status(), "{node} moved and no change says so");
                    assert_eq!(oracle.standing_as_of(name, node, record.offset), Some(*standing));
                }
            }
        }
    }
}
