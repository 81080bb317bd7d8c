//! A second fold of the log, which goes on from minute to minute and is never killed, over a database of its own. It says what
//! should be published and what the state should be; and while it reads the log, each acknowledged event is looked for.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a log that cannot be read at all ends the run"
)]

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
};

use prost::Message as _;
use recant_eventlog::{ReadLimit, ReadLog, Record, Topic, embedded::Follower};
use recant_projections::{
    audit,
    fold::{Message, Partition, record_hash, space::Space},
    query::{self, Moment},
    store::{Store, rocks::RocksStore},
    tables::{partition, spaces},
};
use recant_proto::{
    names,
    v1::{Change, Event},
    wire,
};

use super::planted::{Fault, Planted};
use crate::crash::check::{Published, Verdict, is_digest};

const LIMIT: ReadLimit = ReadLimit { records_max: 2_000, bytes_max: 16 << 20 };

/// So many nodes are kept for questions.
const NODES_MAX: usize = 200;

/// Explanations are of at most so many nodes.
const EXPLAINED_NODES_MAX: usize = 50;

/// What was acknowledged and not looked for yet: ids by partition and offset.
pub type Unchecked = BTreeMap<(u32, u64), String>;

/// The fold of one partition.
pub struct Undisturbed {
    number: u32,
    partition: Partition<RocksStore>,
    /// The next number of each writer in each space.
    next_of: BTreeMap<String, u64>,
    /// What should be published and was not looked for yet.
    expected: BTreeMap<Topic, VecDeque<Vec<u8>>>,
    next_published: BTreeMap<Topic, u64>,
    /// Over the records that were folded.
    hash: blake3::Hasher,
    /// The last observations: space and id.
    pub nodes: VecDeque<(String, String)>,
    /// How many events were folded.
    pub events: u64,
    /// How many changes and summaries were published.
    pub changes: u64,
}

impl Undisturbed {
    /// A fold that has not begun.
    pub fn begin(directory: &Path, log: &Follower, number: u32) -> Undisturbed {
        let directory = directory.join(number.to_string());
        std::fs::create_dir_all(&directory).unwrap();
        let store = RocksStore::open(&directory).unwrap();
        Undisturbed {
            number,
            partition: Partition::open(store, log.incarnation(), number).unwrap(),
            next_of: BTreeMap::new(),
            expected: BTreeMap::new(),
            next_published: BTreeMap::new(),
            hash: blake3::Hasher::new(),
            nodes: VecDeque::new(),
            events: 0,
            changes: 0,
        }
    }

    /// Folds up to an end, and looks for each event that was acknowledged.
    pub fn fold_to(
        &mut self,
        log: &Follower,
        end: u64,
        unchecked: &mut Unchecked,
        planted: &mut Planted,
        verdict: &mut Verdict,
    ) {
        while self.partition.next_offset() < end {
            let next = self.partition.next_offset();
            let mut records = log.read(Topic::Events, self.number, next, LIMIT).unwrap();
            records.retain(|record| record.position.offset < end);
            if records.is_empty() {
                verdict.wrong.push(format!("partition {} has no records at {next}, before {end}", self.number));
                return;
            }
            for record in &records {
                self.look_at(record, unchecked, planted, verdict);
                self.fold(record);
            }
            self.partition.store().unwrap();
            self.partition.keep_within_budget();
        }
    }

    fn look_at(&mut self, record: &Record, unchecked: &mut Unchecked, planted: &mut Planted, verdict: &mut Verdict) {
        let Event { id, .. } = wire::decode(&record.value, Some(names::PROTOBUF)).unwrap().event;
        let place = (self.number, record.position.offset);
        if unchecked.contains_key(&place) && !planted.takes(Fault::Lost) {
            let acknowledged = unchecked.remove(&place).unwrap();
            if acknowledged != id {
                verdict.lost.push(format!("{acknowledged} was acknowledged at {}, where {id} lies", record.position));
            }
        }
        let Some((stream, number)) = id.strip_prefix("e-").and_then(|rest| rest.rsplit_once('-')) else { return };
        let number: u64 = number.parse().unwrap();
        let next = self.next_of.entry(stream.to_owned()).or_default();
        let times = if number > 0 && planted.takes(Fault::Twice) { 2 } else { 1 };
        for _ in 0..times {
            match number.cmp(next) {
                std::cmp::Ordering::Less => {
                    verdict.twice.push(format!("{id} lies in the log twice, at last at {place:?}"))
                }
                std::cmp::Ordering::Equal => *next += 1,
                std::cmp::Ordering::Greater => {
                    verdict.lost.push(format!("{id} lies at {place:?}, and not all that its writer wrote before"));
                    *next = number + 1;
                }
            }
        }
    }

    fn fold(&mut self, record: &Record) {
        self.hash.update(&record_hash(&record.input()));
        self.events += 1;
        let folded = self.partition.fold(&record.input()).unwrap();
        for output in folded.outputs {
            let topic = if matches!(output.message, Message::Rejection(_)) { Topic::Rejected } else { Topic::Changes };
            self.expected.entry(topic).or_default().push_back(output.value);
        }
        let body = wire::decode(&record.value, Some(names::PROTOBUF)).unwrap().event.body;
        if let Some(recant_proto::v1::event::Body::Observed(observed)) = body {
            self.nodes.push_back((folded.space, observed.node));
            if self.nodes.len() > NODES_MAX {
                self.nodes.pop_front();
            }
        }
    }

    /// What was published since it was last asked, which must be what this fold gives, and nothing more.
    pub fn published(&mut self, log: &Follower, verdict: &mut Verdict) -> Vec<Published> {
        let mut published = Vec::new();
        for topic in [Topic::Changes, Topic::Rejected] {
            let expected = self.expected.entry(topic).or_default();
            let next = self.next_published.entry(topic).or_default();
            let end = log.bounds(topic, self.number).unwrap().end;
            while *next < end {
                for record in log.read(topic, self.number, *next, LIMIT).unwrap() {
                    *next = record.position.offset + 1;
                    // `recant verify` compares those.
                    if topic == Topic::Changes && is_digest(&record.value) {
                        continue;
                    }
                    if expected.pop_front().as_ref() != Some(&record.value) {
                        verdict.wrong.push(format!("{topic:?} {} is not what a fold gives", record.position));
                    }
                    if topic == Topic::Changes {
                        let Change { id, space, .. } = Change::decode(record.value.as_slice()).unwrap();
                        published.push(Published { space, id });
                    }
                }
            }
            if !expected.is_empty() {
                verdict.lost.push(format!("{} records of {topic:?} are not published", expected.len()));
                expected.clear();
            }
        }
        self.changes += published.len() as u64;
        published
    }

    /// Whether a state is the one that this fold has come to; how many digests of spaces are equal.
    pub fn compare(
        &self,
        state: &RocksStore,
        committed_hash: &[u8],
        planted: &mut Planted,
        verdict: &mut Verdict,
    ) -> u64 {
        let mut wrong = |what: String| verdict.wrong.push(format!("partition {}: {what}", self.number));
        let Some(row) = partition::get(state).unwrap() else {
            wrong("there is no state".to_owned());
            return 0;
        };
        if row.next_offset != self.partition.next_offset() {
            wrong(format!("the state is at {}, and not at {}", row.next_offset, self.partition.next_offset()));
        }
        if row.outputs_hash != self.partition.outputs_hash() || committed_hash != self.partition.outputs_hash() {
            wrong("the running hash of outputs differs".to_owned());
        }
        let found = spaces::all(state).unwrap();
        let expected = spaces::all(self.partition.stored()).unwrap();
        if found.len() != expected.len() {
            wrong(format!("there are {} spaces, and should be {}", found.len(), expected.len()));
        }
        let mut equal = 0;
        for ((name, found), (expected_name, expected)) in found.iter().zip(&expected) {
            let digest = found.digest() ^ u128::from(planted.takes(Fault::Digest));
            let same = (name, digest, found.arrived, found.nodes_in)
                == (expected_name, expected.digest(), expected.arrived, expected.nodes_in);
            equal += u64::from(same);
            if !same {
                wrong(format!("the digest or the number of nodes of {name} differs from that of {expected_name}"));
            }
        }
        equal
    }

    /// Audits all spaces of a state of this position, and asks both for explanations, which must be the same. How many.
    pub fn question(&self, state: &RocksStore, verdict: &mut Verdict) -> u64 {
        for (name, _) in spaces::all(state).unwrap() {
            let found = audit::space(state, &name).unwrap();
            verdict.wrong.extend(found.into_iter().map(|found| format!("audit of {name}: {found}")));
        }
        let mut asked = 0;
        for (space, node) in self.nodes.iter().step_by(10) {
            let expected = explain(self.partition.stored(), space, node);
            if explain(state, space, node) != expected || expected.is_none() {
                verdict.wrong.push(format!("{node} of {space} is explained in two ways, or in none"));
            }
            asked += 1;
        }
        asked
    }

    /// Reads the whole log once more: the records must be those that were folded.
    pub fn read_again(&self, log: &Follower, verdict: &mut Verdict) {
        let (mut next, end) = (0, self.partition.next_offset());
        let mut hash = blake3::Hasher::new();
        while next < end {
            let records = log.read(Topic::Events, self.number, next, LIMIT).unwrap();
            for record in records.iter().filter(|record| record.position.offset < end) {
                hash.update(&record_hash(&record.input()));
            }
            next = records.last().map_or(end, |record| record.position.offset + 1);
        }
        if hash.finalize() != self.hash.finalize() {
            verdict.lost.push(format!("the log of partition {} is not what it was when it was folded", self.number));
        }
    }
}

fn explain(store: &impl Store, space: &str, node: &str) -> Option<query::Explanation> {
    let moment = Moment::now(store).unwrap()?;
    let space = Space::open(store, space, 0).unwrap()?;
    query::explain(store, &space, &moment, node, EXPLAINED_NODES_MAX).unwrap()
}
