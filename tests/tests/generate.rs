//! Protects the generator: what it writes is valid, readable and always the same, and it does reach the cases that
//! matter.

use std::collections::{BTreeMap, BTreeSet};

use recant_proto::{names, time, v1::event::Body, validate, wire};
use recant_tests::{
    generate::{self, BEGIN_MS, PARTITION, Record, records, seeded},
    oracle::{Fate, Oracle, Outcome, Space, Standing},
};

#[test]
fn records_are_valid_and_always_the_same() {
    let again = seeded(2, 60, 80);
    for (sequence, same) in seeded(2, 60, 80).zip(again).take(300) {
        let written = records(&sequence);
        for (record, same) in written.iter().zip(records(&same)) {
            validate::check(&record.event, record.value.len(), &validate::DEFAULT_LIMITS).unwrap();
            let decoded = wire::decode(&record.value, None).unwrap();
            assert_eq!(decoded.event, record.event);
            assert_eq!(decoded.unknown_body.is_some(), record.event.body.is_none());
            assert_eq!(names::partition_of(record.event.space.as_bytes(), 1), PARTITION);
            assert_eq!(
                (record.offset, record.append_time_ms, &record.value),
                (same.offset, same.append_time_ms, &same.value)
            );
        }
        assert!(written.is_sorted_by(|earlier, later| earlier.offset < later.offset));
    }
}

#[test]
fn times_are_quarters_of_an_hour_from_the_beginning() {
    for quarters in 0..=u8::MAX {
        let instant = time::parse("time", &generate::time(quarters)).unwrap();
        assert_eq!(instant.to_log_ms(), BEGIN_MS + i64::from(quarters) * 15 * 60 * 1000);
    }
}

/// What is left of a failing run is what the failure needs: here an observation, a belief that rests on it, a retraction.
#[test]
fn what_fails_is_minimized() {
    let falls = |records: &[Record]| {
        let mut oracle = Oracle::new(PARTITION);
        records.iter().any(|record| {
            let outcome = oracle.step(record.offset, record.append_time_ms, &record.event, &record.value);
            outcome.changes.iter().any(|change| change.from == Some("IN") && change.distance == 1)
        })
    };
    let sequences = seeded(7, 60, 160).map(|sequence| records(&sequence));
    for records in sequences.filter(|records| falls(records)).take(20) {
        let left = generate::minimized(records, falls);
        assert!(falls(&left) && left.len() <= 5, "{}", generate::listing(&left));
    }
}

/// A case, and the least share of sequences of at most 160 steps that must reach it, in percent.
const CASES: &[(&str, u32)] = &[
    ("cycle among IN nodes", 45),
    ("cycle falls in one cascade", 25),
    ("cycle rises in one cascade", 35),
    ("covered node", 50),
    ("covered justification", 50),
    ("overlapping covers on one node", 30),
    ("overlapping covers on one justification", 20),
    ("lifted cover leaves another", 20),
    ("node keeps a second reason", 30),
    ("born OUT, retracted", 25),
    ("born OUT, unsupported", 55),
    ("born OUT, pending", 45),
    ("pending to IN", 20),
    ("pending to unsupported", 40),
    ("why alone changes", 45),
    ("reinstatement before its retraction", 20),
    ("replaced retraction stood", 30),
    ("one cascade with falls and rises", 4),
    ("distance 2", 20),
    ("distance 3", 6),
    ("ten changes in one cascade", 3),
    ("window spares some and covers others", 5),
    ("justification of an observation", 40),
    ("node of one kind and source in both spaces", 45),
    ("log's clock goes back", 55),
    ("duplicate", 45),
    ("skipped", 15),
    ("only_if_position holds", 25),
    ("event_id_taken", 35),
    ("node_id_taken", 30),
    ("justification_id_taken", 35),
    ("retraction_id_taken", 20),
    ("bad_value", 3),
    ("position_passed", 35),
    ("operator_needed", 20),
    ("action_transition", 15),
    ("not_in_this_version", 20),
];

#[test]
fn the_cases_that_matter_are_frequent() {
    const SEQUENCES: u32 = 1000;
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for sequence in seeded(3, 60, 160).take(SEQUENCES as usize) {
        for case in cases_of(&records(&sequence)) {
            *counts.entry(case).or_default() += 1;
        }
    }
    let mut rare = Vec::new();
    for (case, percent_min) in CASES {
        let count = counts.remove(case).unwrap_or_default();
        println!("{:5.1} % of sequences: {case}", f64::from(count) * 100.0 / f64::from(SEQUENCES));
        if count * 100 < percent_min * SEQUENCES {
            rare.push((case, count, percent_min));
        }
    }
    assert!(rare.is_empty(), "too rare (case, sequences of {SEQUENCES}, percent asked for): {rare:?}");
    assert!(counts.is_empty(), "not listed: {counts:?}");
}

fn cases_of(records: &[Record]) -> BTreeSet<&'static str> {
    let mut oracle = Oracle::new(PARTITION);
    let mut cases = BTreeSet::new();
    let mut latest_ms = i64::MIN;
    for record in records {
        let before = oracle.space(&record.event.space).cloned().unwrap_or_default();
        let outcome = oracle.step(record.offset, record.append_time_ms, &record.event, &record.value);
        let mut saw = |case, holds: bool| {
            if holds {
                cases.insert(case);
            }
        };
        saw("log's clock goes back", record.append_time_ms < latest_ms);
        latest_ms = latest_ms.max(record.append_time_ms);
        fate_cases(record, &outcome, &mut saw);
        let Some(after) = oracle.space(&record.event.space) else { continue };
        cover_cases(&before, after, record, &mut saw);
        cascade_cases(&before, after, &outcome, &mut saw);
        let [north, south] = generate::SPACES.map(|space| oracle.space(space));
        if let (Some(north), Some(south)) = (north, south) {
            let shared = |id: &String| north.nodes[id].identity == south.nodes[id].identity;
            let shared = north.nodes.keys().filter(|id| south.nodes.contains_key(*id)).any(shared);
            saw("node of one kind and source in both spaces", shared);
        }
    }
    cases
}

fn fate_cases(record: &Record, outcome: &Outcome, saw: &mut impl FnMut(&'static str, bool)) {
    let only_if_position = match &record.event.body {
        Some(Body::Retracted(retracted)) => &retracted.only_if_position,
        Some(Body::Reinstated(reinstated)) => &reinstated.only_if_position,
        _ => "",
    };
    match outcome.fate {
        Fate::Accepted => saw("only_if_position holds", !only_if_position.is_empty()),
        Fate::Duplicate => saw("duplicate", true),
        Fate::Rejected(code) => saw(code, true),
        Fate::Skipped => saw("skipped", true),
        // Not listed: the generator must not stop the partition.
        Fate::Stopped => saw("stopped", true),
    }
}

/// How many standing retractions cover each node, and each justification.
fn covers(space: &Space) -> (BTreeMap<&str, usize>, BTreeMap<&str, usize>) {
    let count = |covers: &dyn Fn(&recant_tests::oracle::Target) -> bool| {
        space.standing_retractions().filter(|(_, targets)| targets.iter().any(covers)).count()
    };
    let nodes = space.nodes.iter().map(|(id, node)| (id.as_str(), count(&|target| target.covers_node(id, node))));
    let reasons = &space.justifications;
    let reasons =
        reasons.iter().map(|(id, reason)| (id.as_str(), count(&|target| target.covers_justification(id, reason))));
    (nodes.collect(), reasons.collect())
}

fn cover_cases(before: &Space, after: &Space, record: &Record, saw: &mut impl FnMut(&'static str, bool)) {
    let ((nodes_before, _), (nodes, reasons)) = (covers(before), covers(after));
    saw("covered node", nodes.values().any(|count| *count > 0));
    saw("covered justification", reasons.values().any(|count| *count > 0));
    saw("overlapping covers on one node", nodes.values().any(|count| *count > 1));
    saw("overlapping covers on one justification", reasons.values().any(|count| *count > 1));
    let falls = |(id, count): (&&str, &usize)| *count > 0 && nodes_before.get(id).is_some_and(|before| before > count);
    saw("lifted cover leaves another", nodes.iter().any(falls));
    let is_observation = |head: &String| after.nodes.get(head).is_some_and(|node| node.identity.kind == "observation");
    saw("justification of an observation", after.justifications.values().any(|reason| is_observation(&reason.head)));
    if let Some(Body::Retracted(retracted)) = &record.event.body {
        let id = if retracted.retraction.is_empty() { &record.event.id } else { &retracted.retraction };
        let arrived = after.retractions.len() > before.retractions.len();
        saw("reinstatement before its retraction", arrived && before.lifted.contains(id));
        let stood = |id: &String| before.retractions.contains_key(id) && !before.lifted.contains(id);
        let lifted = |id: &&String| after.lifted.contains(*id);
        saw("replaced retraction stood", retracted.replaces.iter().filter(lifted).any(stood));
        if arrived {
            for target in &retracted.targets {
                let Some(recant_proto::v1::target::What::Source(source)) = &target.what else { continue };
                let of_source = after.nodes.iter().filter(|(_, node)| node.identity.source == *source);
                let targets = &after.retractions[id];
                let within: BTreeSet<bool> =
                    of_source.map(|(id, node)| targets.iter().any(|target| target.covers_node(id, node))).collect();
                saw("window spares some and covers others", target.window.is_some() && within.len() == 2);
            }
        }
    }
}

fn cascade_cases(before: &Space, after: &Space, outcome: &Outcome, saw: &mut impl FnMut(&'static str, bool)) {
    for change in &outcome.changes {
        let (was, is) = (before.standings().get(&change.node), after.standings().get(&change.node));
        match (was, is) {
            (None, Some(Standing::Retracted)) => saw("born OUT, retracted", true),
            (None, Some(Standing::Unsupported)) => saw("born OUT, unsupported", true),
            (None, Some(Standing::Pending)) => saw("born OUT, pending", true),
            (Some(Standing::Pending), Some(Standing::In)) => saw("pending to IN", true),
            _ => {}
        }
        saw("distance 2", change.distance >= 2);
        saw("distance 3", change.distance >= 3);
    }
    let moves: BTreeSet<_> = outcome.changes.iter().map(|change| (change.from, change.to)).collect();
    saw(
        "one cascade with falls and rises",
        moves.contains(&(Some("IN"), "OUT")) && moves.contains(&(Some("OUT"), "IN")),
    );
    saw("ten changes in one cascade", outcome.changes.len() >= 10);
    for (node, is) in after.standings() {
        let was = before.standings().get(node);
        saw("pending to unsupported", (was, *is) == (Some(&Standing::Pending), Standing::Unsupported));
        saw("why alone changes", was.is_some_and(|was| was != is && was.status() == is.status()));
        let reasons = |space: &Space| valid_reasons(space, node);
        saw("node keeps a second reason", *is == Standing::In && (1..reasons(before)).contains(&reasons(after)));
    }
    let (cycles_before, cycles) = (cyclic(before), cyclic(after));
    saw("cycle among IN nodes", !cycles.is_empty());
    let out =
        |space: &Space, node: &String| space.standings().get(node).is_some_and(|standing| *standing != Standing::In);
    saw("cycle falls in one cascade", cycles_before.iter().any(|node| out(after, node)) && cycles.is_empty());
    saw("cycle rises in one cascade", cycles.iter().any(|node| out(before, node)) && cycles_before.is_empty());
}

fn valid_reasons(space: &Space, node: &str) -> usize {
    let (believed, covered) = (space.believed(), space.covered_justifications());
    let valid = |id: &str, premises: &BTreeSet<String>| {
        !covered.contains(id) && premises.iter().all(|premise| believed.contains(premise.as_str()))
    };
    space.justifications.iter().filter(|(id, reason)| reason.head == node && valid(id, &reason.premises)).count()
}

/// The nodes that stay when those are taken away, again and again, which no valid reason of another such node rests on:
/// IN nodes on or behind a cycle.
fn cyclic(space: &Space) -> BTreeSet<String> {
    let (believed, covered) = (space.believed(), space.covered_justifications());
    let is_in = |id: &String| believed.contains(id.as_str());
    let reasons = space.justifications.iter().filter(|(id, reason)| {
        !covered.contains(id.as_str()) && is_in(&reason.head) && reason.premises.iter().all(is_in)
    });
    let is_observation = |id: &str| space.nodes[id].identity.kind == "observation";
    let reasons: Vec<_> = reasons.map(|(_, reason)| reason).filter(|reason| !is_observation(&reason.head)).collect();
    let mut left: BTreeSet<String> = believed.iter().map(|id| id.to_string()).collect();
    loop {
        let rests_on_left = |node: &String| {
            reasons
                .iter()
                .any(|reason| reason.head == *node && reason.premises.iter().any(|premise| left.contains(premise)))
        };
        let next: BTreeSet<String> = left.iter().filter(|node| rests_on_left(node)).cloned().collect();
        if next.len() == left.len() {
            return left;
        }
        left = next;
    }
}
