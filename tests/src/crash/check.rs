//! What must hold of a data directory after crashes of whatever kind:
//!
//! - every event that was acknowledged lies in the log, where it was said to lie; each writer's events are there without a
//!   gap; none is there twice;
//! - what is published is what an undisturbed fold of the same log gives: every change once, in order, whole cascades;
//! - the state is the one that such a fold comes to: position, running hash, digest of every space; and it stands an audit;
//! - whoever followed saw every change of its space once, in order, after dropping repeats by their ids, and nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a log that cannot be read at all ends the run"
)]

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
};

use prost::Message as _;
use recant_eventlog::{ReadLimit, ReadLog, Record, Topic};
use recant_processor::viewer::Viewer;
use recant_projections::{
    audit,
    fold::{Message, Partition},
    store::{Store, memory::MemoryStore},
    tables::{partition, spaces},
};
use recant_proto::{
    names,
    v1::{Change, Event},
    wire,
};

/// What does not hold, in words.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Acknowledged, and missing.
    pub lost: Vec<String>,
    /// There more than once.
    pub twice: Vec<String>,
    /// Anything else.
    pub wrong: Vec<String>,
}

impl Verdict {
    /// Whether everything holds.
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.twice.is_empty() && self.wrong.is_empty()
    }

    /// Adds what another found.
    pub fn add(&mut self, other: Verdict) {
        self.lost.extend(other.lost);
        self.twice.extend(other.twice);
        self.wrong.extend(other.wrong);
    }

    /// The first things that do not hold.
    pub fn first(&self) -> Vec<&String> {
        self.lost.iter().chain(&self.twice).chain(&self.wrong).take(5).collect()
    }
}

/// What was acknowledged: the ids of events by their offsets.
#[derive(Debug, Default, Clone)]
pub struct Acknowledged(pub BTreeMap<u64, String>);

impl Acknowledged {
    /// Takes a line of the victim; whether it was an acknowledgement.
    pub fn take(&mut self, line: &str) -> bool {
        let Some(told) = line.strip_prefix("ack ") else { return false };
        for one in told.split(' ') {
            let (position, id) = one.split_once('=').expect("a position and an id");
            let offset = position.strip_prefix("0:").expect("of partition 0").parse().expect("an offset");
            self.0.insert(offset, id.to_owned());
        }
        true
    }
}

/// All records of a topic.
pub fn read_all(log: &impl ReadLog, topic: Topic) -> Vec<Record> {
    let bounds = log.bounds(topic, 0).unwrap();
    let mut records: Vec<Record> = Vec::new();
    let mut next = bounds.earliest;
    while next < bounds.end {
        let limit = ReadLimit { records_max: 5_000, bytes_max: 16 << 20 };
        records.extend(log.read(topic, 0, next, limit).unwrap());
        next = records.last().unwrap().position.offset + 1;
    }
    records
}

/// Whether the log holds what was acknowledged, once, and no writer's events with a gap.
pub fn events(events: &[Record], acknowledged: &Acknowledged) -> Verdict {
    let mut verdict = Verdict::default();
    let mut ids = BTreeSet::new();
    let mut next_of: BTreeMap<String, u64> = BTreeMap::new();
    let mut at: BTreeMap<u64, String> = BTreeMap::new();
    for record in events {
        let Event { id, space, .. } = wire::decode(&record.value, Some(names::PROTOBUF)).unwrap().event;
        if !ids.insert((space, id.clone())) {
            verdict.twice.push(format!("event {id} lies twice in the log"));
        }
        if let Some((writer, number)) = id.strip_prefix("e-").and_then(|rest| rest.rsplit_once('-')) {
            let next = next_of.entry(writer.to_owned()).or_default();
            if number.parse() != Ok(*next) {
                verdict.wrong.push(format!("{id} is there, and is not number {next} of its writer"));
            }
            *next += 1;
        }
        at.insert(record.position.offset, id);
    }
    for (offset, id) in &acknowledged.0 {
        match at.get(offset) {
            Some(found) if found == id => {}
            found => verdict.lost.push(format!("{id} was acknowledged at 0:{offset}, where {found:?} lies")),
        }
    }
    verdict
}

/// A change as its followers name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The space.
    pub space: String,
    /// Its id.
    pub id: String,
}

/// Checks a whole directory that nobody writes, whose state is said to be at the end of its log, and gives what was
/// published.
pub fn directory(data: &Path, acknowledged: &Acknowledged) -> (Verdict, Vec<Published>) {
    let viewer = Viewer::open(data).unwrap();
    let log = viewer.log();
    let records = read_all(log, Topic::Events);
    let mut verdict = events(&records, acknowledged);
    let undisturbed = Undisturbed::of(log, &records);
    let published = published(log, &undisturbed, &mut verdict);
    let state = viewer.state(0).unwrap();
    verdict.wrong.extend(undisturbed.differences(&state, &log.committed(0).unwrap().metadata));
    (verdict, published)
}

/// Checks a log as a crash left it, before anybody goes on with it: what was acknowledged is there, and what is published is
/// what an undisturbed fold gives up to where the log says that it was processed.
pub fn as_it_lies(log: &impl ReadLog, acknowledged: &Acknowledged) -> Verdict {
    let records = read_all(log, Topic::Events);
    let mut verdict = events(&records, acknowledged);
    let next_offset = log.committed(0).unwrap().next_offset;
    let processed = records.iter().take_while(|record| record.position.offset < next_offset).count();
    published(log, &Undisturbed::of(log, &records[..processed]), &mut verdict);
    verdict
}

/// What is published, which must be what an undisturbed fold gives.
fn published(log: &impl ReadLog, undisturbed: &Undisturbed, verdict: &mut Verdict) -> Vec<Published> {
    let mut published = Vec::new();
    let mut ids = HashSet::new();
    for (topic, expected) in [(Topic::Changes, &undisturbed.changes), (Topic::Rejected, &undisturbed.rejected)] {
        let mut found = read_all(log, topic);
        // Where processes end differs from run to run, and with it where digests are; `recant verify` compares those.
        found.retain(|record| topic != Topic::Changes || !is_digest(&record.value));
        if found.len() != expected.len() {
            verdict.wrong.push(format!("{topic:?} has {} records, and should have {}", found.len(), expected.len()));
        }
        let differs = found.iter().zip(expected).position(|(found, expected)| found.value != *expected);
        if let Some(at) = differs {
            verdict.wrong.push(format!("record {at} of {topic:?} is not the one that an undisturbed fold gives"));
        }
        if topic == Topic::Changes {
            for record in &found {
                let Change { id, space, .. } = Change::decode(record.value.as_slice()).unwrap();
                if !ids.insert(id.clone()) {
                    verdict.twice.push(format!("change {id} is published twice"));
                }
                published.push(Published { space, id });
            }
        }
    }
    published
}

/// Whether a record of the changes, by its value, is a digest, and no change.
pub fn is_digest(value: &[u8]) -> bool {
    Change::decode(value).unwrap().digest.is_some()
}

/// What an undisturbed fold of a log comes to.
struct Undisturbed {
    partition: Partition<MemoryStore>,
    changes: Vec<Vec<u8>>,
    rejected: Vec<Vec<u8>>,
}

impl Undisturbed {
    fn of(log: &impl ReadLog, records: &[Record]) -> Undisturbed {
        let mut partition = Partition::open(MemoryStore::default(), log.incarnation(), 0).unwrap();
        let (mut changes, mut rejected) = (Vec::new(), Vec::new());
        for (number, record) in records.iter().enumerate() {
            for output in partition.fold(&record.input()).unwrap().outputs {
                let topic = if matches!(output.message, Message::Rejection(_)) { &mut rejected } else { &mut changes };
                topic.push(output.value);
            }
            if number % 500 == 499 {
                partition.store().unwrap();
            }
        }
        partition.store().unwrap();
        Undisturbed { partition, changes, rejected }
    }

    /// What differs in a state, and in what was committed beside the log's position.
    fn differences(&self, state: &impl Store, committed_hash: &[u8]) -> Vec<String> {
        let mut wrong = Vec::new();
        let Some(row) = partition::get(state).unwrap() else { return vec!["there is no state".to_owned()] };
        if row.next_offset != self.partition.next_offset() {
            wrong.push(format!("the state is at {}, and not at {}", row.next_offset, self.partition.next_offset()));
        }
        if row.outputs_hash != self.partition.outputs_hash() || committed_hash != self.partition.outputs_hash() {
            wrong.push("the running hash of outputs differs".to_owned());
        }
        let digests = |spaces: Vec<(String, spaces::Row)>| -> Vec<(String, u128, u32, u32)> {
            spaces.into_iter().map(|(name, row)| (name, row.digest(), row.arrived, row.nodes_in)).collect()
        };
        let (found, expected) = (spaces::all(state).unwrap(), spaces::all(self.partition.stored()).unwrap());
        let names: Vec<String> = found.iter().map(|(name, _)| name.clone()).collect();
        if digests(found) != digests(expected) {
            wrong.push("digests or numbers of nodes differ".to_owned());
        }
        for name in names {
            let found = audit::space(state, &name).unwrap();
            wrong.extend(found.into_iter().map(|found| format!("audit of {name}: {found}")));
        }
        wrong
    }
}

/// Whether a follower saw what was published in its space (in any, if it names none): each change once, in order, after
/// repeats are dropped by their ids. Gives how many it dropped.
pub fn follower(name: &str, seen: &[String], published: &[Published], space: Option<&str>) -> (Verdict, usize) {
    let mut verdict = Verdict::default();
    let expected = expected_of(published, space);
    let mut known = HashSet::new();
    let first_seen: Vec<&String> = seen.iter().filter(|id| known.insert(id.as_str())).collect();
    let differs = first_seen.iter().zip(&expected).position(|(seen, expected)| seen != expected);
    if let Some(at) = differs {
        verdict.wrong.push(format!("follower {name} saw {} as its change {at}, not {}", first_seen[at], expected[at]));
    }
    if first_seen.len() < expected.len() {
        verdict.lost.push(format!("follower {name} saw {} of {} changes", first_seen.len(), expected.len()));
    }
    if first_seen.len() > expected.len() {
        verdict.wrong.push(format!("follower {name} saw {} changes of {}", first_seen.len(), expected.len()));
    }
    (verdict, seen.len() - first_seen.len())
}

/// The ids of what is published in a space, or in any.
pub fn expected_of<'a>(published: &'a [Published], space: Option<&str>) -> Vec<&'a String> {
    published.iter().filter(|change| space.is_none_or(|space| change.space == space)).map(|change| &change.id).collect()
}
