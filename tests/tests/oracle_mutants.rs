//! Protects the oracle and the generator from being vacuous: rules of belief that are wrong in one way, and readers of
//! events that are blind to one thing, must each be told from the oracle by random sequences, and often.

use std::collections::{BTreeSet, HashSet};

use recant_proto::v1::{Event, event::Body, target::What};
use recant_tests::{
    generate::{PARTITION, SPACES, records, seeded},
    oracle::{Oracle, Space, Target},
};

const SEQUENCES: usize = 300;

/// So many sequences must tell a mistake: then a run of a few hundred finds it.
const PERCENT_MIN: f64 = 3.0;

/// A rule of belief that is wrong in one way.
type WrongRule = fn(&Space) -> HashSet<&str>;

const WRONG_RULES: &[(&str, WrongRule)] = &[
    ("the greatest fixed point instead of the least", |space| {
        let mut believed: HashSet<&str> = space.nodes.keys().map(String::as_str).collect();
        loop {
            let next = one_round(space, &believed);
            if next.len() == believed.len() {
                return believed;
            }
            believed = next;
        }
    }),
    ("three rounds instead of a fixed point", |space| {
        (0..3).fold(HashSet::new(), |believed, _| one_round(space, &believed))
    }),
    ("one premise is enough", |space| {
        let any = |believed: &HashSet<&str>, premises: &BTreeSet<String>| {
            premises.iter().any(|premise| believed.contains(premise.as_str()))
        };
        least(space, &space.covered_nodes(), &space.covered_justifications(), &any)
    }),
    ("a premise that has not arrived does no harm", |space| {
        let lenient = |believed: &HashSet<&str>, premises: &BTreeSet<String>| {
            premises.iter().all(|id| believed.contains(id.as_str()) || !space.nodes.contains_key(id))
        };
        least(space, &space.covered_nodes(), &space.covered_justifications(), &lenient)
    }),
    ("covers of justifications do not count", |space| least(space, &space.covered_nodes(), &HashSet::new(), &all)),
    ("covers of nodes do not count", |space| least(space, &HashSet::new(), &space.covered_justifications(), &all)),
    ("a lifted retraction uncovers what another covers", |space| {
        let lifted: Vec<&Target> = space
            .retractions
            .iter()
            .filter(|(id, _)| space.lifted.contains(*id))
            .flat_map(|(_, targets)| targets)
            .collect();
        let mut nodes = space.covered_nodes();
        nodes.retain(|id| !lifted.iter().any(|target| target.covers_node(id, &space.nodes[*id])));
        let mut reasons = space.covered_justifications();
        reasons.retain(|id| !lifted.iter().any(|target| target.covers_justification(id, &space.justifications[*id])));
        least(space, &nodes, &reasons, &all)
    }),
    ("the first justification alone decides", |space| {
        let mut heads: HashSet<&str> = HashSet::new();
        let others = space.justifications.iter().filter(|(_, reason)| !heads.insert(&reason.head));
        let covered = others.map(|(id, _)| id.as_str()).chain(space.covered_justifications()).collect();
        least(space, &space.covered_nodes(), &covered, &all)
    }),
    ("justified observations are IN despite their cover", |space| {
        let mut nodes = space.covered_nodes();
        nodes.retain(|id| !space.justifications.values().any(|reason| reason.head == **id));
        least(space, &nodes, &space.covered_justifications(), &all)
    }),
];

type Holds<'a> = &'a dyn Fn(&HashSet<&str>, &BTreeSet<String>) -> bool;

fn all(believed: &HashSet<&str>, premises: &BTreeSet<String>) -> bool {
    premises.iter().all(|premise| believed.contains(premise.as_str()))
}

fn round<'a>(
    space: &'a Space,
    believed: &HashSet<&'a str>,
    nodes: &HashSet<&str>,
    reasons: &HashSet<&str>,
    holds: Holds<'_>,
) -> HashSet<&'a str> {
    let is_observation = |id: &str| space.nodes.get(id).is_some_and(|node| node.identity.kind == "observation");
    let valid = space.justifications.iter().filter(|(id, reason)| {
        !reasons.contains(id.as_str()) && !is_observation(&reason.head) && holds(believed, &reason.premises)
    });
    let heads = valid.map(|(_, reason)| reason.head.as_str()).filter(|head| space.nodes.contains_key(*head));
    let observations = space.nodes.keys().map(String::as_str).filter(|id| is_observation(id));
    heads.chain(observations).filter(|id| !nodes.contains(id)).collect()
}

fn one_round<'a>(space: &'a Space, believed: &HashSet<&'a str>) -> HashSet<&'a str> {
    round(space, believed, &space.covered_nodes(), &space.covered_justifications(), &all)
}

fn least<'a>(space: &'a Space, nodes: &HashSet<&str>, reasons: &HashSet<&str>, holds: Holds<'_>) -> HashSet<&'a str> {
    let mut believed = HashSet::new();
    loop {
        let next = round(space, &believed, nodes, reasons, holds);
        if next.len() == believed.len() {
            return believed;
        }
        believed = next;
    }
}

/// The rounds above with the right rule are the oracle's rule in other words: so a wrong one differs by its mistake
/// alone.
#[test]
fn the_right_rule_in_other_words_agrees() {
    assert_eq!(
        told_apart_by_rule(|space| least(space, &space.covered_nodes(), &space.covered_justifications(), &all)),
        0
    );
}

#[test]
fn wrong_rules_are_told_apart() {
    for (mistake, rule) in WRONG_RULES {
        let percent = percent(told_apart_by_rule(*rule));
        println!("{percent:5.1} % of sequences tell: {mistake}");
        assert!(percent >= PERCENT_MIN, "{percent} % of sequences tell: {mistake}");
    }
}

fn told_apart_by_rule(rule: WrongRule) -> usize {
    let differs = |space: &Space| rule(space) != space.believed();
    let tells = |sequence| {
        let mut oracle = Oracle::new(PARTITION);
        records(&sequence).iter().any(|record| {
            oracle.step(record.offset, record.append_time_ms, &record.event, &record.value);
            oracle.space(&record.event.space).is_some_and(differs)
        })
    };
    seeded(4, 60, 160).take(SEQUENCES).filter_map(|sequence| tells(sequence).then_some(())).count()
}

/// Takes something out of an event that the oracle must not overlook.
type Blindness = fn(&mut Event);

const BLINDNESSES: &[(&str, Blindness)] = &[
    ("windows", |event| targets(event, |target| target.window = None)),
    ("where windows begin", |event| windows(event, |window| window.from.clear())),
    ("where windows end", |event| windows(event, |window| window.to.clear())),
    ("the clock of windows", |event| windows(event, |window| window.clock.clear())),
    ("the run of agents", |event| {
        targets(event, |target| {
            if let Some(What::Agent(agent)) = &mut target.what {
                agent.run.clear();
            }
        });
    }),
    ("all targets but the first", |event| {
        if let Some(Body::Retracted(retracted)) = &mut event.body {
            retracted.targets.truncate(1);
        }
    }),
    ("replaces", |event| {
        if let Some(Body::Retracted(retracted)) = &mut event.body {
            retracted.replaces.clear();
        }
    }),
    ("only_if_position", |event| match &mut event.body {
        Some(Body::Retracted(retracted)) => retracted.only_if_position.clear(),
        Some(Body::Reinstated(reinstated)) => reinstated.only_if_position.clear(),
        _ => {}
    }),
    ("reinstatements", |event| {
        if let Some(Body::Reinstated(reinstated)) = &mut event.body {
            reinstated.retraction = "nothing".to_owned();
        }
    }),
    ("who writes", |event| event.agent = "planner".to_owned()),
    ("when it occurred", |event| event.occurred_at.clear()),
    ("when it was observed", |event| {
        if let Some(Body::Observed(observed)) = &mut event.body {
            observed.observed_at.clear();
        }
    }),
    ("all premises but the first", |event| reasons(event, |reason| reason.premises.truncate(1))),
    ("the ids of justifications", |event| reasons(event, |reason| reason.id.clear())),
    ("the operator", |event| {
        if let Some(Body::SourceDeclared(declared)) = &mut event.body {
            declared.operator.clear();
        }
    }),
];

fn targets(event: &mut Event, change: impl FnMut(&mut recant_proto::v1::Target)) {
    if let Some(Body::Retracted(retracted)) = &mut event.body {
        retracted.targets.iter_mut().for_each(change);
    }
}

fn windows(event: &mut Event, mut change: impl FnMut(&mut recant_proto::v1::Window)) {
    targets(event, |target| target.window.iter_mut().for_each(&mut change));
}

fn reasons(event: &mut Event, change: impl FnMut(&mut recant_proto::v1::Justification)) {
    match &mut event.body {
        Some(Body::Derived(derived)) => derived.justification.iter_mut().for_each(change),
        Some(Body::ActionProposed(proposed)) => proposed.justification.iter_mut().for_each(change),
        Some(Body::Justified(justified)) => justified.justification.iter_mut().for_each(change),
        _ => {}
    }
}

#[test]
fn blind_readers_are_told_apart() {
    for (to_what, blind) in BLINDNESSES {
        let count = seeded(5, 60, 160).take(SEQUENCES).filter(|sequence| sees(&records(sequence), *blind)).count();
        let percent = percent(count);
        println!("{percent:5.1} % of sequences tell who is blind to {to_what}");
        assert!(percent >= PERCENT_MIN, "{percent} % of sequences tell who is blind to {to_what}");
    }
}

/// Whether fates or cascades, not merely digests, show that the reader is blind.
fn sees(records: &[recant_tests::generate::Record], blind: Blindness) -> bool {
    let (mut oracle, mut other) = (Oracle::new(PARTITION), Oracle::new(PARTITION));
    records.iter().any(|record| {
        let mut event = record.event.clone();
        blind(&mut event);
        let outcome = oracle.step(record.offset, record.append_time_ms, &record.event, &record.value);
        outcome != other.step(record.offset, record.append_time_ms, &event, &record.value)
    })
}

/// The digest tells apart what cascades cannot: the same statuses for other reasons.
#[test]
fn the_digest_sees_more_than_statuses() {
    let mut same_statuses = 0;
    for sequence in seeded(6, 60, 160).take(SEQUENCES) {
        let (mut oracle, mut other) = (Oracle::new(PARTITION), Oracle::new(PARTITION));
        for record in records(&sequence) {
            let mut event = record.event.clone();
            event.run = "another run".to_owned();
            oracle.step(record.offset, record.append_time_ms, &record.event, &record.value);
            other.step(record.offset, record.append_time_ms, &event, &record.value);
        }
        for space in SPACES {
            let (Some(one), Some(two)) = (oracle.space(space), other.space(space)) else { continue };
            if one.standings() == two.standings() && !one.justifications.is_empty() {
                same_statuses += 1;
                assert_ne!(oracle.digest(space), other.digest(space));
            }
        }
    }
    assert!(same_statuses > SEQUENCES / 4, "{same_statuses}");
}

fn percent(count: usize) -> f64 {
    count as f64 * 100.0 / SEQUENCES as f64
}
