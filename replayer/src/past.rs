//! A data directory of an earlier moment: the log up to there, the state that it makes, and what had been published by then.
//!
//! Each batch of events is appended to the new log, folded into the new state, and committed with the very records that
//! were published for it; the hash of what folding gives is committed beside them, so that whoever opens the directory
//! finds it as a processor would have left it. The log keeps its incarnation, so positions and change ids are those of the
//! original.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use recant_eventlog::{
    AppendLog, Clock, Commit, Committed, LogError, NewRecord, Output, ProcessLog, ReadLimit, ReadLog, Record, Topic,
    embedded::{CreateOptions, EmbeddedLog, WriterOptions},
};
use recant_projections::store::behind::WriteBehind;

use crate::{
    making, parallel,
    published::Stream,
    replay::{Nobody, Progress, Replay, ReplayError},
};

/// A batch of the copy.
const BATCH: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// Where a past is made.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The directory of the new log, which does not exist.
    pub log: &'a Path,
    /// The directory of the state of a partition, which does not exist.
    pub state: &'a (dyn Fn(u32) -> PathBuf + Sync),
}

/// Makes the past of a log in which each partition ends at an offset of its own. Each must have its first record.
pub fn make<L: ReadLog + Sync>(
    log: &L,
    ends: &[u64],
    place: Place<'_>,
    clock: Arc<dyn Clock>,
    memory_budget_bytes: usize,
    progress: Progress<'_>,
) -> Result<(), ReplayError> {
    let partitions = log.partitions();
    let mut first_records = Vec::new();
    for (partition, end) in (0..partitions).zip(ends) {
        let first = log.read(Topic::Events, partition, 0, ReadLimit { records_max: 1, bytes_max: 1 })?;
        match first.into_iter().next() {
            Some(record) if record.position.offset == 0 && *end > 0 => first_records.push(to_append(record)),
            _ => {
                let detail = "it no longer has its first record, or had none then".to_owned();
                return Err(ReplayError::Incomplete { partition, detail });
            }
        }
    }
    let options =
        CreateOptions { incarnation: log.incarnation(), partitions, first_records, writer: WriterOptions::default() };
    let copy = EmbeddedLog::create(place.log, options, clock)?;
    let budget_bytes = memory_budget_bytes / parallel::workers(partitions as usize);
    parallel::each((0..partitions).collect(), |number| {
        let end = ends.get(number as usize).copied().unwrap_or(0);
        let directory = (place.state)(number);
        std::fs::create_dir_all(&directory)
            .map_err(|error| LogError::Io(format!("{}: {error}", directory.display())))?;
        let store = making::state(&directory, budget_bytes)?;
        copy_partition(log, &copy, number, end, store, budget_bytes, progress)
    })?;
    Ok(())
}

fn copy_partition<L: ReadLog + Sync>(
    log: &L,
    copy: &EmbeddedLog,
    number: u32,
    end: u64,
    store: WriteBehind,
    memory_budget_bytes: usize,
    progress: Progress<'_>,
) -> Result<(), ReplayError> {
    let (epoch, _) = copy.acquire(number)?;
    let stream = |topic| Stream::up_to(log, topic, number, log.bounds(topic, number)?.end, None);
    let mut published = [stream(Topic::Changes)?, stream(Topic::Rejected)?];
    let mut replay = Replay::over(copy, number, store, memory_budget_bytes, progress)?;
    let mut next = 1;
    loop {
        let mut records = log.read(Topic::Events, number, next, BATCH)?;
        records.retain(|record| record.position.offset < end);
        if records.is_empty() && next < end {
            let detail = format!("its log ends at {next}");
            return Err(ReplayError::Incomplete { partition: number, detail });
        }
        append(copy, records, &mut next)?;
        replay.up_to(next, &mut Nobody)?;
        let mut outputs = Vec::new();
        for stream in &mut published {
            while stream.peek()?.is_some_and(|record| record.position.offset < next) {
                let Some(record) = stream.take()? else { break };
                outputs.push(to_publish(record.topic, record.record));
            }
        }
        let metadata = replay.partition().outputs_hash().to_vec();
        match copy.commit(number, epoch, outputs, Committed { next_offset: next, metadata }) {
            Commit::Committed => {}
            Commit::Aborted(detail) | Commit::Unknown(detail) => return Err(LogError::Io(detail).into()),
            Commit::Fenced => return Err(LogError::Io(format!("partition {number} was taken by another")).into()),
        }
        if next >= end {
            replay.partition().stored().written()?.flush()?;
            return Ok(());
        }
    }
}

/// Appends records that begin at an offset, and moves it on. A past has the offsets of its log, so that log has no gaps.
fn append(copy: &EmbeddedLog, records: Vec<Record>, next: &mut u64) -> Result<(), ReplayError> {
    for record in &records {
        if record.position.offset != *next {
            let detail = format!("its events have a gap before {}", record.position.offset);
            return Err(ReplayError::Incomplete { partition: record.position.partition, detail });
        }
        *next += 1;
    }
    copy.append(records.into_iter().map(to_append).collect())?;
    Ok(())
}

fn to_append(record: Record) -> NewRecord {
    NewRecord {
        partition: record.position.partition,
        key: record.key,
        headers: record.headers,
        value: record.value,
        append_time_ms: Some(record.append_time_ms),
    }
}

fn to_publish(topic: Topic, record: Record) -> Output {
    Output { topic, key: record.key, headers: record.headers, value: record.value }
}
