//! Events that could not be applied, the newest last. An event may lie in a partition that is not its space's: that may be why it was
//! rejected.

use prost::Message;
use recant_eventlog::{ReadLimit, ReadLog, Topic};
use recant_proto::v1::Rejection;

use crate::changes::PlaceError;

/// So many records are read at once, backwards from the end.
const READ_RECORDS: u64 = 1_000;
const READ_BYTES_MAX: usize = 16 << 20;
/// So many records of a partition are looked at, at most, for those of one space.
const LOOKED_AT_MAX: u64 = 100_000;

/// The newest rejections of a space, at most so many.
pub fn newest(log: &(impl ReadLog + ?Sized), space: &str, rejections_max: usize) -> Result<Vec<Rejection>, PlaceError> {
    let mut found = Vec::new();
    for partition in 0..log.partitions() {
        found.extend(newest_of(log, partition, space, rejections_max)?);
    }
    found.sort_by(|one, other| one.time.cmp(&other.time));
    found.drain(..found.len().saturating_sub(rejections_max));
    Ok(found)
}

fn newest_of(
    log: &(impl ReadLog + ?Sized),
    partition: u32,
    space: &str,
    rejections_max: usize,
) -> Result<Vec<Rejection>, PlaceError> {
    let bounds = log.bounds(Topic::Rejected, partition)?;
    let earliest = bounds.earliest.max(bounds.end.saturating_sub(LOOKED_AT_MAX));
    let mut newest_first = Vec::new();
    let mut end = bounds.end;
    while end > earliest && newest_first.len() < rejections_max {
        let begin = end.saturating_sub(READ_RECORDS).max(earliest);
        newest_first.extend(of_space(log, partition, begin, end, space)?.into_iter().rev());
        end = begin;
    }
    newest_first.truncate(rejections_max);
    newest_first.reverse();
    Ok(newest_first)
}

fn of_space(
    log: &(impl ReadLog + ?Sized),
    partition: u32,
    begin: u64,
    end: u64,
    space: &str,
) -> Result<Vec<Rejection>, PlaceError> {
    let mut found = Vec::new();
    let mut next = begin;
    while next < end {
        let limit = ReadLimit { records_max: (end - next) as usize, bytes_max: READ_BYTES_MAX };
        let records = log.read(Topic::Rejected, partition, next, limit)?;
        let Some(last) = records.last() else { break };
        next = last.position.offset + 1;
        for record in records.iter().filter(|record| record.position.offset < end) {
            let rejection = Rejection::decode(record.value.as_slice()).map_err(|error| PlaceError::Unreadable {
                offset: record.position.offset,
                detail: error.to_string(),
            })?;
            // One whose space could not be read is of the space under whose key it was written.
            let is_its_own =
                rejection.space == space || (rejection.space.is_empty() && rejection.key == space.as_bytes());
            if is_its_own {
                found.push(rejection);
            }
        }
    }
    Ok(found)
}
