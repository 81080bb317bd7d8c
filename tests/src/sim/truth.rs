//! What must be in a partition's topics and in its state, by the oracle, which is told each record as it lies in the log.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use recant_eventlog::{ReadLimit, ReadLog as _, Record, Topic};
use recant_projections::{
    fold,
    query::{self, Filter, Moment, PageRequest},
    store::Store,
    tables::partition,
};
use recant_proto::{
    id::CONTROL_SPACE,
    names,
    position::Position,
    v1::{Change, Rejection},
    wire,
};

use super::{
    Checked, Wrong,
    kafka::brokers::Brokers,
    letters::{Said, Sayings},
    trace::Trace,
    wrong,
};
use crate::{
    agree::expected,
    generate,
    oracle::{Fate, Oracle},
};

/// Everything there is.
pub const ALL: ReadLimit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };

/// A record of the change stream.
struct Published {
    key: Vec<u8>,
    /// In the order of their names.
    headers: Vec<(String, Vec<u8>)>,
    value: Vec<u8>,
}

impl Published {
    /// A change that an event caused: its headers are those of a CloudEvent, and the trace goes on.
    fn of(change: &Change, cause: &Record) -> Published {
        // The id begins with the log's incarnation. The names are in the order in which they are compared.
        let incarnation = change.id.split(':').next().unwrap_or_default();
        let mut headers = vec![
            (names::CE_ID.to_owned(), change.id.clone().into_bytes()),
            (names::CE_SOURCE.to_owned(), format!("urn:recant:{incarnation}").into_bytes()),
            (names::CE_SPECVERSION.to_owned(), b"1.0".to_vec()),
            (names::CE_TYPE.to_owned(), b"recant.v1.change".to_vec()),
            (names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into()),
        ];
        headers.extend(cause.headers.iter().find(|(name, _)| name == names::TRACEPARENT).cloned());
        Published { key: change.space.clone().into_bytes(), headers, value: change.encode_to_vec() }
    }

    fn is(&self, record: &Record) -> bool {
        let mut headers = record.headers.clone();
        headers.sort();
        self.key == record.key && self.headers == headers && self.value == record.value
    }
}

/// A partition by the oracle.
pub struct Truth {
    partition: u32,
    oracle: Oracle,
    /// What becomes of each record, and how many changes and rejections there are behind it.
    fates: Vec<(String, usize, usize)>,
    /// The log's time at each record; it never falls.
    times_ms: Vec<i64>,
    changes: Vec<Published>,
    rejections: Vec<(Record, String)>,
    accepted: BTreeMap<(String, String), u64>,
    /// The digest of each space after each record that was applied to it.
    digests: BTreeMap<String, Vec<(u64, String)>>,
    changes_seen: usize,
    rejections_seen: usize,
    /// From where on the topics are read.
    changes_next: u64,
    rejections_next: u64,
    /// The digests that were published, by space and position.
    digests_seen: BTreeSet<(String, String)>,
    committed: u64,
}

impl Truth {
    /// A partition in which nothing was written.
    pub fn new(partition: u32) -> Truth {
        Truth {
            partition,
            oracle: Oracle::new(partition),
            fates: Vec::new(),
            times_ms: Vec::new(),
            changes: Vec::new(),
            rejections: Vec::new(),
            accepted: BTreeMap::new(),
            digests: BTreeMap::new(),
            changes_seen: 0,
            rejections_seen: 0,
            changes_next: 0,
            rejections_next: 0,
            digests_seen: BTreeSet::new(),
            committed: 0,
        }
    }

    /// How many records the oracle was told.
    pub fn end(&self) -> u64 {
        self.fates.len() as u64
    }

    /// The spaces in which something was written, the log's own left out.
    pub fn spaces(&self) -> Vec<String> {
        let spaces = self.oracle.spaces().map(|(name, _)| name.to_owned());
        spaces.filter(|name| name != CONTROL_SPACE && self.digests.contains_key(name)).collect()
    }

    /// What becomes of a record.
    pub fn fate(&self, offset: u64) -> &str {
        self.fates.get(offset as usize).map_or("not in the log", |(fate, _, _)| fate)
    }

    /// Tells the oracle what was appended since.
    pub fn learn(&mut self, log: &Brokers, sayings: &Sayings) -> Checked {
        for record in log.read(Topic::Events, self.partition, self.end(), ALL)? {
            let Some(said) = sayings.get(&record.value) else {
                return wrong(format!("the record at {} was written by nobody", record.position));
            };
            self.learn_one(record, said);
        }
        Ok(())
    }

    fn learn_one(&mut self, record: Record, said: &Said) {
        let offset = record.position.offset;
        let time_ms = self.times_ms.last().map_or(record.append_time_ms, |last| record.append_time_ms.max(*last));
        self.times_ms.push(time_ms);
        let fate = match said.refused {
            Some(code) => Fate::Rejected(code),
            None => self.step(&record, time_ms, said),
        };
        let id = (said.event.space.clone(), said.event.id.clone());
        let fate = match fate {
            Fate::Accepted => {
                self.accepted.insert(id, offset);
                "accepted".to_owned()
            }
            Fate::Skipped => {
                self.accepted.insert(id, offset);
                "skipped".to_owned()
            }
            Fate::Duplicate => format!("duplicate of {}", self.accepted.get(&id).copied().unwrap_or(u64::MAX)),
            Fate::Stopped => "stopped".to_owned(),
            Fate::Rejected(code) => {
                self.rejections.push((record, code.to_owned()));
                code.to_owned()
            }
        };
        self.fates.push((fate, self.changes.len(), self.rejections.len()));
    }

    fn step(&mut self, record: &Record, time_ms: i64, said: &Said) -> Fate {
        let (offset, name) = (record.position.offset, &said.event.space);
        let outcome = self.oracle.step(offset, time_ms, &said.event, &record.value);
        if outcome.fate == Fate::Accepted {
            self.digests.entry(name.clone()).or_default().push((offset, self.oracle.digest(name)));
        }
        if let (false, Some(space)) = (outcome.changes.is_empty(), self.oracle.space(name)) {
            let told = generate::Record {
                offset,
                append_time_ms: time_ms,
                event: said.event.clone(),
                value: record.value.clone(),
            };
            let changes = expected::changes(space, &outcome, &told, record.position, time_ms);
            self.changes.extend(changes.iter().map(|change| Published::of(change, record)));
        }
        outcome.fate
    }

    /// What was published up to now is what the events call for up to the committed position: each cascade once, whole, in
    /// order, and nothing else. Looks at what is new since it was last called.
    pub fn check_published(&mut self, log: &Brokers, trace: &Trace) -> Checked {
        let (partition, committed) = (self.partition, log.decided_position(self.partition).next_offset);
        if committed < self.committed {
            return wrong(format!(
                "partition {partition}: the committed position went back from {} to {committed}",
                self.committed
            ));
        }
        self.committed = committed;
        let behind = committed.checked_sub(1).and_then(|last| self.fates.get(last as usize));
        let ends = behind.map_or((0, 0), |(_, changes, rejections)| (*changes, *rejections));
        self.check_changes(log, ends.0, trace)?;
        self.check_rejections(log, ends.1, trace)?;
        let found = (self.changes_seen, self.rejections_seen);
        if found == ends {
            return Ok(());
        }
        wrong(format!(
            "partition {partition}, committed up to {committed}: {found:?} changes and rejections are published, and the events call for {ends:?}"
        ))
    }

    fn check_changes(&mut self, log: &Brokers, end: usize, trace: &Trace) -> Checked {
        for record in log.decided(Topic::Changes, self.partition, self.changes_next) {
            self.changes_next = record.position.offset + 1;
            trace.bytes(&record.value);
            let change = Change::decode(record.value.as_slice()).map_err(|error| Wrong(error.to_string()))?;
            if change.digest.is_some() {
                self.check_digest(&change)?;
                continue;
            }
            let expected = self.changes[..end].get(self.changes_seen);
            if expected.is_none_or(|expected| !expected.is(&record)) {
                let expected =
                    expected.map_or("nothing".to_owned(), |expected| shown(&expected.value, &expected.headers));
                return wrong(format!(
                    "partition {}, committed up to {}: of the changes, number {} is\n  {}\nand the events call for\n  {expected}",
                    self.partition,
                    self.committed,
                    self.changes_seen,
                    shown(&record.value, &record.headers)
                ));
            }
            self.changes_seen += 1;
        }
        Ok(())
    }

    /// A digest that was published is that of its position, which no event was applied behind yet, and is there once.
    fn check_digest(&mut self, change: &Change) -> Checked {
        let position: Position =
            change.position.parse().map_err(|_| Wrong("a digest without a position".to_owned()))?;
        let next_offset = position.offset + 1;
        let found = change.digest.as_ref().map(|digest| digest.digest.as_str());
        let expected = self.digest(&change.space, next_offset);
        if found != expected || next_offset > self.committed {
            return wrong(format!("the digest of {} at {position} is {found:?}, and {expected:?}", change.space));
        }
        if !self.digests_seen.insert((change.space.clone(), change.position.clone())) {
            return wrong(format!("the digest of {} at {position} is there twice", change.space));
        }
        Ok(())
    }

    fn check_rejections(&mut self, log: &Brokers, end: usize, trace: &Trace) -> Checked {
        for record in log.decided(Topic::Rejected, self.partition, self.rejections_next) {
            self.rejections_next = record.position.offset + 1;
            let expected = self.rejections[..end].get(self.rejections_seen);
            let found = Rejection::decode(record.value.as_slice()).map_err(|error| Wrong(error.to_string()))?;
            if expected.is_none_or(|(refused, code)| !is_rejection_of(&found, refused, code)) {
                return wrong(format!(
                    "partition {}, committed up to {}: of the rejections, number {} is {found:?}, and {expected:?} is called for",
                    self.partition, self.committed, self.rejections_seen
                ));
            }
            trace.bytes(&record.value);
            self.rejections_seen += 1;
        }
        Ok(())
    }

    /// How a node stood when the events below a position were applied: its status, and why.
    pub fn standing(&self, space: &str, node: &str, next_offset: u64) -> Option<(&'static str, Option<&'static str>)> {
        let standing = self.oracle.standing_as_of(space, node, next_offset.checked_sub(1)?)?;
        Some((standing.status(), standing.why()))
    }

    /// Every node that had arrived when the events below a position were applied, with its status and why.
    pub fn standings(&self, space: &str, next_offset: u64) -> BTreeMap<&str, (&'static str, Option<&'static str>)> {
        let nodes = self.oracle.space(space).into_iter().flat_map(|space| space.nodes.keys());
        nodes.filter_map(|id| Some((id.as_str(), self.standing(space, id, next_offset)?))).collect()
    }

    /// The digest of a space when the events below a position were applied.
    pub fn digest(&self, space: &str, next_offset: u64) -> Option<&str> {
        let digests = self.digests.get(space)?;
        let applied = digests.partition_point(|(offset, _)| *offset < next_offset);
        applied.checked_sub(1).map(|last| digests[last].1.as_str())
    }

    /// Where a state stands; wrong if it is ahead of what was committed.
    pub fn check_position(&self, store: &impl Store, log: &Brokers) -> Checked<u64> {
        let next = partition::get(store)?.map_or(0, |row| row.next_offset);
        let committed = log.decided_position(self.partition).next_offset;
        if next > committed {
            return wrong(format!(
                "partition {}: the state is at {next}, ahead of the committed position {committed}",
                self.partition
            ));
        }
        Ok(next)
    }

    /// The moment behind an earlier event; its offset is found by the log's time too.
    fn as_of(&self, store: &impl Store, now: Moment, offset: u64) -> Checked<Moment> {
        let applied = now.position.offset + 1;
        let time_ms = self.times_ms.get(offset as usize).copied().unwrap_or_default();
        let expected = self.times_ms.partition_point(|time| *time <= time_ms) as u64;
        let expected = expected.min(applied) - 1;
        let found = now.clone().at_time(store, time_ms)?.map(|moment| moment.position.offset);
        if found != Some(expected) {
            return wrong(format!("as of {time_ms} ms is {found:?} in the state, and {expected} in the log"));
        }
        Ok(now.at_offset(offset))
    }

    /// What a state says of a space is what the oracle says at its position, or at an earlier one; the answer.
    pub fn check_answer(&self, store: &impl Store, space: &str, earlier: Option<u64>) -> Checked<Vec<u8>> {
        let Some(now) = Moment::now(store)? else { return Ok(Vec::new()) };
        let moment = match earlier {
            None => now,
            Some(offset) => self.as_of(store, now, offset)?,
        };
        let (position, is_now) = (moment.position, moment.is_now);
        let next_offset = position.offset + 1;
        let all = PageRequest { after: None, items_max: usize::MAX };
        let page = query::list(store, space, moment, &Filter::default(), &all)?;
        let found: BTreeMap<&str, _> =
            page.items.iter().map(|view| (view.id.as_str(), (view.status, view.why))).collect();
        let expected = self.standings(space, next_offset);
        if found != expected || found.len() != page.items.len() {
            return wrong(difference(space, position, &expected, &found));
        }
        if is_now {
            let found = format!("{:032x}", fold::digest_of(store, space)?);
            let expected = self.digest(space, next_offset).unwrap_or("00000000000000000000000000000000");
            if found != expected {
                return wrong(format!("the digest of {space} at {position} is {found}, and {expected} by the oracle"));
            }
        }
        serde_json::to_vec(&page).map_err(|error| Wrong(error.to_string()))
    }
}

fn difference<T: PartialEq + std::fmt::Debug>(
    space: &str,
    position: Position,
    expected: &BTreeMap<&str, T>,
    found: &BTreeMap<&str, T>,
) -> String {
    let ids = expected.keys().chain(found.keys());
    let differs = ids.into_iter().find(|id| expected.get(*id) != found.get(*id));
    let (of_oracle, of_state) = (differs.map(|id| expected.get(id)), differs.map(|id| found.get(id)));
    format!(
        "what is read of {space} at {position} differs from the oracle: {} nodes and {}; {differs:?} is {of_state:?}, and {of_oracle:?} by the oracle",
        found.len(),
        expected.len()
    )
}

fn shown(value: &[u8], headers: &[(String, Vec<u8>)]) -> String {
    let headers: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect();
    match Change::decode(value) {
        Ok(change) => format!("{} with {}", wire::to_json(&change), headers.join(", ")),
        Err(error) => error.to_string(),
    }
}

fn is_rejection_of(rejection: &Rejection, record: &Record, code: &str) -> bool {
    rejection.code == code
        && rejection.position == record.position.to_string()
        && rejection.value == record.value
        && rejection.key == record.key
        && rejection.headers.len() == record.headers.len()
        && rejection
            .headers
            .iter()
            .zip(&record.headers)
            .all(|(kept, (name, value))| (&kept.name, &kept.value) == (name, value))
}
