//! Protects what a digest promises: it is a function of what was said in a space, not of how it came. The same events
//! appended one by one, in batches of many sizes, to a log of one partition and of four, on a log that is reopened in
//! between, and rebuilt from the log, give the same digest for each space, and it is the oracle's.
//!
//! Left out of the random sequences is what does depend on the place: `only_if_position` names an offset.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::Path, sync::Arc};

use recant_eventlog::clock::ManualClock;
use recant_processor::{
    standalone::{NewEvent, NewLog, Standalone},
    viewer::Viewer,
};
use recant_projections::{
    audit,
    fold::{Fate, FoldError, Folded, Input, Partition, digest_of},
    store::{WriteStore, behind::WriteBehind, memory::MemoryStore, rocks::RocksStore},
    tables::{Table, partition, spaces},
};
use recant_proto::{
    id::CONTROL_SPACE,
    position::Incarnation,
    reject::Code,
    v1::{ActionReviewed, Event, Limits, LogCreated, Observed, event::Body},
};
use recant_tests::{
    generate::{BEGIN_MS, records, seeded},
    oracle::Oracle,
};

const SEQUENCES: usize = 24;

/// How events reach the log.
#[derive(Debug, Clone, Copy)]
struct Way {
    partitions: u32,
    /// Of how many events an append is, one after the other, over and over.
    appends_of: &'static [usize],
    /// After how many appends what was appended is processed.
    processed_after: usize,
    /// After how many appends the log and its state are closed and opened again.
    reopened_after: usize,
    in_json: bool,
}

const ONE_BY_ONE: Way =
    Way { partitions: 1, appends_of: &[1], processed_after: 1, reopened_after: usize::MAX, in_json: false };

const WAYS: [Way; 5] = [
    ONE_BY_ONE,
    Way { appends_of: &[7, 1, 400, 33], processed_after: 3, reopened_after: 5, ..ONE_BY_ONE },
    Way { appends_of: &[usize::MAX], ..ONE_BY_ONE },
    Way { partitions: 4, in_json: true, ..ONE_BY_ONE },
    Way { partitions: 4, appends_of: &[250, 3], processed_after: 2, reopened_after: 4, ..ONE_BY_ONE },
];

#[test]
fn the_way_that_events_take_does_not_show_in_the_digest() {
    let events = events();
    let expected = by_oracle(&events);
    assert!(expected.len() >= 2 * SEQUENCES - 4 && events.len() > 1_000, "{} spaces", expected.len());
    for way in WAYS {
        let data = tempfile::tempdir().unwrap();
        append(data.path(), way, &events);
        let digests = digests(data.path(), way, expected.keys());
        assert_eq!(digests, expected, "{way:?}");
        std::fs::remove_dir_all(data.path().join("state")).unwrap();
        drop(opened(data.path(), way));
        assert_eq!(self::digests(data.path(), way, expected.keys()), expected, "rebuilt from the log: {way:?}");
    }
}

/// A state is a function of its log to the last row: also the numbers of spaces, which are in nearly all keys, where everything
/// of a space was rejected at first, by a process that went on or by one that ended.
#[test]
fn what_is_rejected_numbers_no_space() {
    let in_space = |id: &str, space: &str, body| Event {
        id: id.to_owned(),
        space: space.to_owned(),
        body: Some(body),
        ..Event::default()
    };
    let rejected = |id: &str, space: &str| {
        let reviewed =
            ActionReviewed { action: "a".into(), verdict: "allow".into(), by: "kim".into(), ..Default::default() };
        in_space(id, space, Body::ActionReviewed(reviewed))
    };
    let observed = |id: &str, space: &str| {
        let observed = Observed { node: id.into(), source: "web:page".into(), ..Observed::default() };
        in_space(id, space, Body::Observed(observed))
    };
    let events = [
        rejected("1", "never"),
        rejected("2", "at first"),
        observed("3", "second"),
        rejected("4", "third"),
        observed("5", "at first"),
        observed("6", "third"),
        observed("7", "second"),
    ];
    let mut states = Vec::new();
    let ended = Way { reopened_after: 1, ..ONE_BY_ONE };
    for way in
        [ONE_BY_ONE, ended, Way { appends_of: &[3], ..ONE_BY_ONE }, Way { appends_of: &[usize::MAX], ..ONE_BY_ONE }]
    {
        let data = tempfile::tempdir().unwrap();
        append(data.path(), way, &events);
        let store = Viewer::open(data.path()).unwrap().state(0).unwrap();
        let numbers = spaces::all(&store).unwrap().into_iter().map(|(name, row)| (name, row.number));
        let next = partition::get(&store).unwrap().unwrap().next_space;
        states.push((numbers.collect::<BTreeMap<_, _>>(), next));
    }
    let expected = [("at first", 2), ("recant.control", 0), ("second", 1), ("third", 3)];
    let expected: BTreeMap<String, u32> = expected.map(|(name, number)| (name.to_owned(), number)).into();
    assert_eq!(states, vec![(expected, 4); 4]);
}

/// Protects the short ways of a batch: events that are prepared ahead, by the limits that were in force then, and questions that
/// are asked for many events at once, while the batch before is being written. Every fate, output and row is as one by one,
/// for repeated and contradicting ids, also within a batch, for spaces that begin in it, and for limits that change in it.
#[test]
fn a_batch_is_folded_as_its_events_are_one_by_one() {
    let records = awkward(events());
    let one_by_one = folded(
        MemoryStore::default(),
        |partition, inputs, all| {
            for input in inputs {
                all.push(partition.fold(input).unwrap());
                partition.store().unwrap();
            }
        },
        &records,
    );
    let directory = tempfile::tempdir().unwrap();
    let behind = WriteBehind::new(RocksStore::open(directory.path()).unwrap()).unwrap();
    let in_batches = folded(
        behind,
        |partition, inputs, all| {
            let mut sizes = [400, 130, 1, 37, 1_000].into_iter().cycle();
            let mut rest = inputs;
            while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
                let (batch, after) = rest.split_at(rest.len().min(size));
                partition
                    .fold_all(batch, &mut |_, _, folded| {
                        all.push(folded);
                        Ok::<_, FoldError>(())
                    })
                    .unwrap();
                partition.store().unwrap();
                rest = after;
            }
        },
        &records,
    );
    let fates = |wanted: fn(&Fate) -> bool| one_by_one.0.iter().filter(|folded| wanted(&folded.fate)).count();
    let rejected = |code: Code| {
        one_by_one
            .0
            .iter()
            .filter(|folded| matches!(&folded.fate, Fate::Rejected(violation) if violation.code == code))
            .count()
    };
    assert!(
        fates(|fate| matches!(fate, Fate::Accepted)) > 800 && fates(|fate| matches!(fate, Fate::Duplicate(_))) > 200
    );
    assert!(rejected(Code::EventIdTaken) > 100 && rejected(Code::TooManyPremises) > 10);
    for (at, (one, batched)) in one_by_one.0.iter().zip(&in_batches.0).enumerate() {
        assert_eq!((&one.fate, &one.outputs), (&batched.fate, &batched.outputs), "record {at}");
    }
    assert!(one_by_one.1 == in_batches.1, "rows differ");
}

/// The events, some of them said again, soon or late, in the same words or in others, and a log that becomes strict.
fn awkward(events: Vec<Event>) -> Vec<Event> {
    let mut records = Vec::new();
    for (at, event) in events.iter().enumerate() {
        records.push(event.clone());
        let other = |event: &Event| Event { agent: "somebody else".to_owned(), ..event.clone() };
        match at % 8 {
            0 => records.push(event.clone()),
            3 => records.push(other(event)),
            5 => records.push(events[at / 2].clone()),
            7 => records.push(other(&events[at / 3])),
            _ => {}
        }
    }
    let strict = LogCreated {
        incarnation: INCARNATION.to_string(),
        partitions: 1,
        writers: "open".to_owned(),
        limits: Some(Limits { max_premises: 1, ..Limits::default() }),
        ..LogCreated::default()
    };
    let created = Event {
        id: "created".to_owned(),
        space: CONTROL_SPACE.to_owned(),
        body: Some(Body::LogCreated(strict)),
        ..Event::default()
    };
    records.insert(records.len() / 2, created);
    records
}

const INCARNATION: Incarnation = Incarnation([9; 16]);

type Rows = Vec<(&'static str, Vec<u8>, Vec<u8>)>;

fn folded<S: WriteStore>(
    store: S,
    fold: impl FnOnce(&mut Partition<S>, &[Input<'_>], &mut Vec<Folded>),
    events: &[Event],
) -> (Vec<Folded>, Rows) {
    let values: Vec<_> = events.iter().map(recant_proto::wire::to_protobuf).collect();
    let input = |(at, (event, value)): (usize, (_, _))| {
        let (event, value): (&Event, &Vec<u8>) = (event, value);
        Input {
            offset: at as u64,
            append_time_ms: append_time_ms(at),
            key: event.space.as_bytes(),
            headers: &[],
            value,
        }
    };
    let inputs: Vec<_> = events.iter().zip(&values).enumerate().map(input).collect();
    let mut partition = Partition::open(store, INCARNATION, 0).unwrap();
    let mut all = Vec::new();
    fold(&mut partition, &inputs, &mut all);
    partition.finish().unwrap();
    let mut rows = Rows::new();
    // Of a millisecond the last event of a batch is noted.
    for table in Table::ALL.iter().filter(|table| !matches!(table, Table::Times)) {
        let mut visit = |key: &[u8], value: &[u8]| {
            rows.push((table.name(), key.to_vec(), value.to_vec()));
            std::ops::ControlFlow::Continue(())
        };
        partition.stored().scan(*table, &[], &[], &mut visit).unwrap();
    }
    (all, rows)
}

/// Events of many spaces, interleaved, a minute apart.
fn events() -> Vec<Event> {
    let mut by_sequence: Vec<Vec<Event>> = Vec::new();
    for (number, sequence) in seeded(7, 40, 120).take(SEQUENCES).enumerate() {
        let in_space = |mut event: Event| {
            event.space = format!("{} {number}", event.space);
            anywhere(event)
        };
        let written = records(&sequence).into_iter().map(|record| record.event);
        let kept = written.filter(|event| event.space != CONTROL_SPACE && event.body.is_some());
        by_sequence.push(kept.map(in_space).collect());
    }
    let longest = by_sequence.iter().map(Vec::len).max().unwrap_or_default();
    (0..longest).flat_map(|at| by_sequence.iter().filter_map(move |events| events.get(at).cloned())).collect()
}

/// The event without what ties it to an offset.
fn anywhere(mut event: Event) -> Event {
    match &mut event.body {
        Some(Body::Retracted(retracted)) => retracted.only_if_position.clear(),
        Some(Body::Reinstated(reinstated)) => reinstated.only_if_position.clear(),
        _ => {}
    }
    event
}

fn append_time_ms(index: usize) -> i64 {
    BEGIN_MS + index as i64 * 60_000
}

fn by_oracle(events: &[Event]) -> BTreeMap<String, String> {
    let mut oracle = Oracle::new(0);
    for (index, event) in events.iter().enumerate() {
        oracle.step(index as u64, append_time_ms(index), event, &[]);
    }
    oracle.spaces().map(|(name, _)| (name.to_owned(), oracle.digest(name))).collect()
}

fn opened(data: &Path, way: Way) -> Standalone {
    let new = NewLog { incarnation: INCARNATION, partitions: way.partitions, log_time_occurred: true };
    Standalone::open_or_create(data, &new, Arc::new(ManualClock::new(BEGIN_MS))).unwrap()
}

fn append(data: &Path, way: Way, events: &[Event]) {
    let mut standalone = opened(data, way);
    let mut sizes = way.appends_of.iter().cycle();
    let (mut index, mut appends) = (0, 0);
    while index < events.len() {
        let end = index.saturating_add(*sizes.next().unwrap()).min(events.len());
        let new = |index: usize| {
            let mut new = NewEvent::of(&events[index]);
            if way.in_json {
                new.value = recant_proto::wire::to_json(&events[index]).to_string().into_bytes();
                new.content_type = recant_proto::names::JSON;
            }
            NewEvent { append_time_ms: Some(append_time_ms(index)), ..new }
        };
        standalone.append((index..end).map(new).collect()).unwrap();
        (index, appends) = (end, appends + 1);
        if appends % way.processed_after == 0 {
            standalone.process(&mut |_, _| {}).unwrap();
        }
        if appends % way.reopened_after == 0 {
            drop(standalone);
            standalone = opened(data, way);
        }
    }
    standalone.process(&mut |_, _| {}).unwrap();
}

/// As another process reads them; what `doctor` counts anew is right too.
fn digests<'a>(data: &Path, way: Way, spaces: impl Iterator<Item = &'a String>) -> BTreeMap<String, String> {
    let viewer = Viewer::open(data).unwrap();
    let stores: Vec<_> = (0..way.partitions).map(|partition| viewer.state(partition).unwrap()).collect();
    let mut digests = BTreeMap::new();
    for space in spaces {
        let store = &stores[viewer.partition_of(space) as usize];
        assert_eq!(audit::space(store, space).unwrap(), Vec::<String>::new(), "{space}");
        digests.insert(space.clone(), format!("{:032x}", digest_of(store, space).unwrap()));
    }
    let used: std::collections::BTreeSet<u32> = digests.keys().map(|space| viewer.partition_of(space)).collect();
    assert_eq!(used.len(), way.partitions as usize, "every partition has spaces");
    digests
}
