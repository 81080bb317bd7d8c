//! Digests among the changes: what the state of a space added up to at a position, for whoever replays the log.
//!
//! When the first event at a multiple of [`DIGEST_INTERVAL_EVENTS`] comes, the digests of the spaces that changed since the last
//! ones are published, of the position before it: so where they stand follows from the log alone. At an orderly end those
//! that are not published yet are.
//!
//! A digest is no output of folding and does not count in the hash of outputs: what a replay publishes is the same whether
//! there were ends in between or not. Its id is `incarnation:partition:offset:index` like a change's, and larger than that of
//! every change at its position, so that ids still rise: the digests of a position count down from the largest index but
//! one.

use std::collections::BTreeSet;

use prost::Message as _;
use recant_eventlog::{LogError, ReadLimit, ReadLog, Record, Topic};
use recant_projections::{
    fold::{FoldError, Message, Output, Partition},
    justification::digest::to_hex,
    store::WriteStore,
    tables::{partition as standing, spaces},
};
use recant_proto::{
    id::CONTROL_SPACE,
    position::{ChangeId, Position},
    time,
    v1::{Change, Digest},
};

use crate::driver::DriveError;

/// So many events of a partition at most without a digest of what they changed.
pub const DIGEST_INTERVAL_EVENTS: u64 = 10_000;

/// So many records are read at once.
const READ: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// So far back from the end of the changes their last record is looked for at first.
const LOOK_BACK_OFFSETS: u64 = 16;

/// Which spaces of a partition need a digest. Its bound is that of an interval: a name for each event.
#[derive(Debug)]
pub(crate) struct Digests {
    number: u32,
    interval_events: u64,
    /// What changed a space at this offset or later is in no digest yet.
    since: u64,
    /// The spaces of events from this offset on are noted; those of earlier ones are in the log.
    noted_from: u64,
    noted: BTreeSet<String>,
}

impl Digests {
    /// Goes on where the partition's last processor stopped.
    pub fn resume(
        log: &impl ReadLog,
        number: u32,
        next_offset: u64,
        interval_events: u64,
    ) -> Result<Digests, LogError> {
        // Behind a multiple nothing is folded before its digests are published.
        let last_multiple = next_offset.saturating_sub(1) / interval_events * interval_events;
        let since = last_multiple.max(behind_last_digest(log, number)?);
        Ok(Digests { number, interval_events, since, noted_from: next_offset, noted: BTreeSet::new() })
    }

    /// No event at this offset or later is folded before digests are published.
    pub fn due_before(&self) -> u64 {
        (self.since / self.interval_events + 1) * self.interval_events
    }

    /// An event of a space was folded.
    pub fn note(&mut self, space: &str) {
        if !self.noted.contains(space) {
            self.noted.insert(space.to_owned());
        }
    }

    /// The digests that are due, of a partition without an open batch.
    pub fn records<S: WriteStore>(
        &self,
        log: &impl ReadLog,
        partition: &Partition<S>,
    ) -> Result<Vec<Output>, DriveError> {
        let Some(last) = partition.next_offset().checked_sub(1) else { return Ok(Vec::new()) };
        let mut names = self.noted.clone();
        self.read_names(log, &mut names)?;
        let mut changed = Vec::new();
        for name in names.into_iter().filter(|name| name != CONTROL_SPACE) {
            let row = spaces::get(partition.stored(), &name).map_err(FoldError::from)?;
            // One of which everything was rejected has no row, or an old one.
            changed.extend(row.filter(|row| row.last_offset > self.since).map(|row| (name, row.digest())));
        }
        let position = Position { partition: self.number, offset: last };
        // An interval has fewer events than there are indexes.
        let first = u32::MAX - changed.len() as u32;
        let record = |(index, (space, digest)): (u32, (String, u128))| {
            let id = ChangeId { incarnation: log.incarnation(), position, index };
            digest_record(id, space, digest, partition.row())
        };
        Ok((first..).zip(changed).map(record).collect())
    }

    /// The spaces of the events that were folded before this process began to note them.
    fn read_names(&self, log: &impl ReadLog, names: &mut BTreeSet<String>) -> Result<(), LogError> {
        let mut next = self.since;
        while next < self.noted_from {
            let records = log.read(Topic::Events, self.number, next, READ)?;
            let Some(last) = records.last() else { return Ok(()) };
            next = last.position.offset + 1;
            let folded = records.into_iter().filter(|record| record.position.offset < self.noted_from);
            names.extend(folded.filter_map(|record| String::from_utf8(record.key).ok()));
        }
        Ok(())
    }

    /// They were published, up to this offset.
    pub fn published(&mut self, next_offset: u64) {
        (self.since, self.noted_from) = (next_offset, next_offset);
        self.noted.clear();
    }
}

fn digest_record(id: ChangeId, space: String, digest: u128, row: &standing::Row) -> Output {
    let record = Change {
        id: id.to_string(),
        position: id.position.to_string(),
        time: time::format_log_ms(row.log_time_ms),
        digest: Some(Digest { digest: to_hex(digest), logic_version: row.logic_version }),
        space: space.clone(),
        ..Change::default()
    };
    Output { key: space.into_bytes(), value: record.encode_to_vec(), message: Message::Change(record) }
}

/// The offset behind the position of a digest that is the last of all changes; 0 if something else is.
fn behind_last_digest(log: &impl ReadLog, number: u32) -> Result<u64, LogError> {
    // What cannot be read says nothing; whoever reads the changes tells.
    let last = last_change(log, number)?.and_then(|last| Change::decode(last.value.as_slice()).ok());
    let position = last.filter(|last| last.digest.is_some()).and_then(|last| last.position.parse::<Position>().ok());
    Ok(position.map_or(0, |position| position.offset + 1))
}

/// The last record of the changes. On Kafka markers and what was aborted lie behind it, so it is looked for from further and
/// further back.
fn last_change(log: &impl ReadLog, number: u32) -> Result<Option<Record>, LogError> {
    let bounds = log.bounds(Topic::Changes, number)?;
    let mut back = LOOK_BACK_OFFSETS;
    let mut until = bounds.end;
    while until > bounds.earliest {
        let from = bounds.end.saturating_sub(back).max(bounds.earliest);
        if let Some(last) = last_below(log, number, from, until)? {
            return Ok(Some(last));
        }
        (until, back) = (from, back * 2);
    }
    Ok(None)
}

fn last_below(log: &impl ReadLog, number: u32, from: u64, until: u64) -> Result<Option<Record>, LogError> {
    let (mut last, mut next) = (None, from);
    while next < until {
        let records = log.read(Topic::Changes, number, next, READ)?;
        let Some(end) = records.last() else { break };
        next = end.position.offset + 1;
        last = records.into_iter().rfind(|record| record.position.offset < until).or(last);
    }
    Ok(last)
}
