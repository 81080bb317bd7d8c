//! The loop of every replay: a partition's events from where its state is, folded batch by batch and stored.
//!
//! A thread reads the log ahead, by two batches at most, while this one folds. Spaces keep within a memory budget as they
//! do live.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use recant_eventlog::{LogError, ReadLimit, ReadLog, Record, Topic};
use recant_projections::{
    fold::{FoldError, Folded, Forms, Input, Partition},
    store::{StoreError, WriteStore},
};
use recant_proto::{id::CONTROL_SPACE, position::Position};

/// A batch: as live.
const BATCH: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// So many batches are read ahead.
const BATCHES_AHEAD: usize = 2;

/// What stops a replay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Folding cannot go on.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// A record among the changes or rejections is none.
    #[error("what was published at {position} cannot be read: {detail}")]
    Published {
        /// Its place in its topic.
        position: Position,
        /// What is wrong with it.
        detail: String,
    },
    /// The log no longer has its beginning, or ends before where it was processed.
    #[error("partition {partition} cannot be replayed: {detail}")]
    Incomplete {
        /// The partition.
        partition: u32,
        /// What is missing.
        detail: String,
    },
}

impl From<StoreError> for ReplayError {
    fn from(error: StoreError) -> Self {
        ReplayError::Fold(error.into())
    }
}

/// Told of so many events more that were folded, from any thread.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// One partition, folded again.
pub struct Replay<'l, L, S> {
    log: &'l L,
    number: u32,
    /// This space alone, and the control space.
    only_space: Option<&'l str>,
    partition: Partition<S>,
    next_offset: u64,
    /// The running maximum of append times, also of what is left out.
    log_time_ms: i64,
    progress: Progress<'l>,
}

impl<'l, L: ReadLog + Sync, S: WriteStore> Replay<'l, L, S> {
    /// Goes on from where the state in a store is, which may be empty.
    pub fn over(
        log: &'l L,
        number: u32,
        store: S,
        memory_budget_bytes: usize,
        progress: Progress<'l>,
    ) -> Result<Self, ReplayError> {
        let forms = Forms { memory_budget_bytes, ..Forms::default() };
        let partition = Partition::open(store, log.incarnation(), number)?.with_forms(forms);
        let (next_offset, log_time_ms) = (partition.next_offset(), partition.row().log_time_ms);
        let earliest = log.bounds(Topic::Events, number)?.earliest;
        if next_offset < earliest {
            let detail = format!("its events begin at {earliest}, and are needed from {next_offset} on");
            return Err(ReplayError::Incomplete { partition: number, detail });
        }
        Ok(Replay { log, number, only_space: None, partition, next_offset, log_time_ms, progress })
    }

    /// The same for one space alone. Its cascades have the same ids, and its state the same digest, as among the others.
    pub fn of_space(self, only_space: Option<&'l str>) -> Self {
        Replay { only_space, ..self }
    }

    /// The state.
    pub fn partition(&mut self) -> &mut Partition<S> {
        &mut self.partition
    }

    /// The offset of the first event that was not looked at.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Folds the events below an offset and stores them. `observe` is told of each before and after it is folded.
    pub fn up_to(
        &mut self,
        end: u64,
        observe: &mut dyn FnMut(Moment<'_>, &mut Partition<S>) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        if self.next_offset >= end {
            return Ok(());
        }
        let (log, number, from) = (self.log, self.number, self.next_offset);
        std::thread::scope(|scope| {
            let (batches, read) = sync_channel(BATCHES_AHEAD);
            scope.spawn(move || read_ahead(log, number, from, end, &batches));
            self.fold_all(end, &read, observe)
        })
    }

    fn fold_all(
        &mut self,
        end: u64,
        batches: &Receiver<Result<Vec<Record>, LogError>>,
        observe: &mut dyn FnMut(Moment<'_>, &mut Partition<S>) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        for batch in batches {
            let batch = batch?;
            for record in &batch {
                self.fold(record, observe)?;
            }
            self.partition.store()?;
            self.partition.keep_within_budget();
            self.partition.load_busy()?;
            (self.progress)(batch.len() as u64);
        }
        if self.next_offset < end {
            let detail = format!("its log ends at {}, and was processed up to {end}", self.next_offset);
            return Err(ReplayError::Incomplete { partition: self.number, detail });
        }
        Ok(())
    }

    fn fold(
        &mut self,
        record: &Record,
        observe: &mut dyn FnMut(Moment<'_>, &mut Partition<S>) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        self.log_time_ms = self.log_time_ms.max(record.append_time_ms);
        self.next_offset = record.position.offset + 1;
        let wanted = self
            .only_space
            .is_none_or(|space| record.key == space.as_bytes() || record.key == CONTROL_SPACE.as_bytes());
        if !wanted {
            return Ok(());
        }
        observe(Moment::Before(record), &mut self.partition)?;
        let folded = self.partition.fold(&Input { append_time_ms: self.log_time_ms, ..input(record) })?;
        observe(Moment::After(record, &folded), &mut self.partition)
    }
}

/// When an observer of a replay is told.
pub enum Moment<'a> {
    /// The event is next.
    Before(&'a Record),
    /// It was folded into the open batch, and did this.
    After(&'a Record, &'a Folded),
}

/// A record as `fold` takes it.
fn input(record: &Record) -> Input<'_> {
    Input {
        offset: record.position.offset,
        append_time_ms: record.append_time_ms,
        key: &record.key,
        headers: &record.headers,
        value: &record.value,
    }
}

/// Sends the events from an offset to another, until the receiver has gone.
fn read_ahead(
    log: &impl ReadLog,
    number: u32,
    from: u64,
    end: u64,
    batches: &SyncSender<Result<Vec<Record>, LogError>>,
) {
    let mut next = from;
    while next < end {
        let batch = log.read(Topic::Events, number, next, BATCH).map(|mut records| {
            records.retain(|record| record.position.offset < end);
            records
        });
        let (failed, last) = match &batch {
            Ok(records) => (false, records.last().map(|record| record.position.offset)),
            Err(_) => (true, None),
        };
        if !failed && last.is_none() {
            return;
        }
        next = last.map_or(end, |last| last + 1);
        if batches.send(batch).is_err() {
            return;
        }
    }
}
