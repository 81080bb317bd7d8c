//! Places in the stream of changes: where it begins for whoever comes with a cursor or a time, and whether what they have not seen is
//! still there. Ids of changes rise with their offsets, so that places are found by halving.

use prost::Message;
use recant_eventlog::{LogError, ReadLimit, Record, Topic};
use recant_proto::{
    position::{ChangeId, Incarnation, Position},
    time,
    v1::Change,
};

use crate::{
    host::TimedLog,
    problem::{Problem, Sort},
};

/// Where to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// With the first change that is kept.
    Earliest,
    /// With the next one.
    Latest,
    /// With the first change of an event that the log took at this time or later, in ms since 1970.
    Time(i64),
    /// After the one that was seen last.
    After(ChangeId),
}

impl std::str::FromStr for From {
    type Err = Problem;

    /// `earliest`, `latest`, a time or a cursor.
    fn from_str(text: &str) -> Result<From, Problem> {
        match text {
            "earliest" => return Ok(From::Earliest),
            "latest" => return Ok(From::Latest),
            _ => {}
        }
        if let Ok(instant) = time::parse("from", text) {
            return Ok(From::Time(instant.to_log_ms()));
        }
        let cursor = ChangeId::from_cursor(text.trim()).map_err(|error| {
            let detail = format!("{error}; give earliest, latest, a cursor, or a time with an offset");
            Problem::new(Sort::Wrong, "bad_cursor", "The cursor cannot be read", detail)
        })?;
        Ok(From::After(cursor))
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A record of ours cannot be read.
    #[error("the change at offset {offset} cannot be read: {detail}")]
    Unreadable {
        /// Where.
        offset: u64,
        /// Why.
        detail: String,
    },
    /// The cursor is of another log or partition.
    #[error("the cursor is of another log or partition. List what there is (recant list), then watch from its cursor")]
    OtherLog,
    /// The log was taken back.
    #[error(
        "the cursor is at {seen}, and the log was processed up to {processed}: it was restored from an older snapshot, or is another copy. What followed the snapshot is gone. List what there is (recant list), then watch from its cursor"
    )]
    Ahead {
        /// What was seen.
        seen: Position,
        /// The end.
        processed: Position,
    },
    /// What followed the cursor is no longer kept.
    #[error("what followed the cursor is no longer kept. List what there is (recant list), then watch from its cursor")]
    Gone {
        /// The cursor of the first change that is kept.
        earliest: String,
    },
}

impl std::convert::From<PlaceError> for Problem {
    fn from(error: PlaceError) -> Problem {
        let detail = error.to_string();
        match error {
            PlaceError::Log(error) => Problem::known(std::iter::once(&error as &dyn std::error::Error))
                .unwrap_or_else(|| Problem::new(Sort::CouldNot, "log_failed", "The log failed", detail)),
            PlaceError::Unreadable { .. } => Problem::new(Sort::CouldNot, "damaged", "The log is damaged", detail),
            PlaceError::OtherLog => Problem::new(Sort::No, "other_log", "The cursor is of another log", detail),
            PlaceError::Ahead { .. } => {
                Problem::new(Sort::No, "cursor_ahead", "The cursor is ahead of the log", detail)
            }
            PlaceError::Gone { earliest } => Problem {
                earliest: Some(earliest),
                ..Problem::new(Sort::No, "history_gone", "The history after the cursor is gone", detail)
            },
        }
    }
}

/// The offset in the changes topic at which to begin.
pub fn start(log: &(impl TimedLog + ?Sized), partition: u32, from: &From) -> Result<u64, PlaceError> {
    let bounds = log.bounds(Topic::Changes, partition)?;
    match from {
        From::Earliest => Ok(bounds.earliest),
        From::Latest => Ok(bounds.end),
        From::Time(log_time_ms) => {
            let offset = log.find_by_time(partition, *log_time_ms)?;
            first_of(log, partition, |id| id.position >= Position { partition, offset })
        }
        From::After(seen) => after(log, partition, seen),
    }
}

fn after(log: &(impl TimedLog + ?Sized), partition: u32, seen: &ChangeId) -> Result<u64, PlaceError> {
    if seen.incarnation != log.incarnation() || seen.position.partition != partition {
        return Err(PlaceError::OtherLog);
    }
    // Whoever has told of a position has processed it before; only a log that was taken back can be behind it.
    let processed = log.committed(partition)?.next_offset;
    if seen.position.offset >= processed {
        return Err(PlaceError::Ahead { seen: seen.position, processed: Position { partition, offset: processed } });
    }
    let next = first_of(log, partition, |id| (id.position, id.index) > (seen.position, seen.index))?;
    let bounds = log.bounds(Topic::Changes, partition)?;
    if next == bounds.earliest && bounds.earliest > 0 {
        return Err(PlaceError::Gone { earliest: earliest_cursor(log, partition)? });
    }
    Ok(next)
}

/// From where one can follow at the earliest: the cursor of the first change that is kept, after which all are.
fn earliest_cursor(log: &(impl TimedLog + ?Sized), partition: u32) -> Result<String, PlaceError> {
    let earliest = log.bounds(Topic::Changes, partition)?.earliest;
    match one(log, partition, earliest)? {
        Some(record) => Ok(id_of(&record)?.to_cursor()),
        None => Ok(cursor_behind(log.incarnation(), partition, log.committed(partition)?.next_offset)),
    }
}

/// The cursor of one who has seen every change of the events before an offset.
pub fn cursor_behind(incarnation: Incarnation, partition: u32, next_offset: u64) -> String {
    let position = Position { partition, offset: next_offset.saturating_sub(1) };
    ChangeId { incarnation, position, index: u32::MAX }.to_cursor()
}

/// The first offset of the changes topic whose id is in the upper part.
pub fn first_of(
    log: &(impl TimedLog + ?Sized),
    partition: u32,
    is_upper: impl Fn(&ChangeId) -> bool,
) -> Result<u64, PlaceError> {
    let bounds = log.bounds(Topic::Changes, partition)?;
    let (mut low, mut high) = (bounds.earliest, bounds.end);
    while low < high {
        let middle = low + (high - low) / 2;
        // On Kafka the rest may be markers of transactions.
        let Some(record) = one(log, partition, middle)? else {
            high = middle;
            continue;
        };
        if is_upper(&id_of(&record)?) { high = middle } else { low = record.position.offset + 1 }
    }
    Ok(low)
}

fn one(log: &(impl TimedLog + ?Sized), partition: u32, offset: u64) -> Result<Option<Record>, PlaceError> {
    if log.bounds(Topic::Changes, partition)?.end <= offset {
        return Ok(None);
    }
    let limit = ReadLimit { records_max: 1, bytes_max: 1 };
    Ok(log.read(Topic::Changes, partition, offset, limit)?.into_iter().next())
}

/// The change in a record.
pub fn decode(record: &Record) -> Result<Change, PlaceError> {
    Change::decode(record.value.as_slice())
        .map_err(|error| PlaceError::Unreadable { offset: record.position.offset, detail: error.to_string() })
}

fn id_of(record: &Record) -> Result<ChangeId, PlaceError> {
    let change = decode(record)?;
    change
        .id
        .parse()
        .map_err(|error| PlaceError::Unreadable { offset: record.position.offset, detail: format!("{error}") })
}

/// The change before an offset of the stream; none if it is not kept.
pub fn before(log: &(impl TimedLog + ?Sized), partition: u32, offset: u64) -> Result<Option<Change>, PlaceError> {
    let earliest = log.bounds(Topic::Changes, partition)?.earliest;
    let Some(last) = offset.checked_sub(1).filter(|last| *last >= earliest) else { return Ok(None) };
    // On Kafka it may be the mark of a transaction: then what comes is behind the offset.
    let record = one(log, partition, last)?.filter(|record| record.position.offset < offset);
    record.as_ref().map(decode).transpose()
}

/// How many records one read of a cascade brings.
const CASCADE_READ: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// The records of the cascade of an event that was processed, its summary first; none if nothing changed.
pub fn cascade(log: &(impl TimedLog + ?Sized), position: Position) -> Result<Vec<Change>, PlaceError> {
    let mut next = first_of(log, position.partition, |id| id.position >= position)?;
    let mut records = Vec::new();
    loop {
        if log.bounds(Topic::Changes, position.partition)?.end <= next {
            return Ok(records);
        }
        let read = log.read(Topic::Changes, position.partition, next, CASCADE_READ)?;
        let Some(last) = read.last() else { return Ok(records) };
        next = last.position.offset + 1;
        for record in &read {
            let change = decode(record)?;
            if change.position != position.to_string() {
                return Ok(records);
            }
            // A digest belongs to no cascade.
            if change.digest.is_none() {
                records.push(change);
            }
        }
    }
}
