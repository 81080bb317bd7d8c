//! The loop of every replay: a partition's events from where its state is, folded batch by batch and stored.
//!
//! A thread reads the log ahead, by two batches at most, while this one folds. Spaces keep within a memory budget as they
//! do live.

use std::{
    collections::BTreeSet,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use recant_eventlog::{LogError, ReadLimit, ReadLog, Record, Topic};
use recant_projections::{
    fold::{self, FoldError, Folded, Forms, Input, Logic, Partition},
    store::{StoreError, WriteStore},
};
use recant_proto::{
    id::CONTROL_SPACE,
    names,
    position::Position,
    v1::{Event, event::Body},
    wire,
};

use crate::making;

/// A batch: as live.
const BATCH: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// So many batches are read ahead.
const BATCHES_AHEAD: usize = 2;

/// A replay folds many events of a space: it is loaded whole where it takes at most half of the memory, by so many bytes for
/// each node and justification.
const LOADED_ITEM_BYTES: usize = 2 * 72;

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
    /// Folding the same events gave other outputs than before.
    #[error(
        "partition {partition}: folding up to offset {offset} gave other outputs than were published; this is a fault of recant, or another version published them"
    )]
    NotDeterministic {
        /// The partition.
        partition: u32,
        /// Up to where.
        offset: u64,
    },
    /// The state that a new one is held against is not there, or not of this log.
    #[error("the old state of partition {partition} cannot be compared with the new one: {detail}")]
    OldState {
        /// The partition.
        partition: u32,
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

/// Who looks on while a partition is replayed.
pub trait Observer<S> {
    /// An event is next; the state, with the open batch, is as the events before it left it.
    fn before(&mut self, record: &Record, partition: &mut Partition<S>) -> Result<(), ReplayError>;

    /// It was folded, and did this.
    fn after(&mut self, record: &Record, folded: &Folded) -> Result<(), ReplayError>;
}

/// Nobody looks on.
pub struct Nobody;

impl<S> Observer<S> for Nobody {
    fn before(&mut self, _: &Record, _: &mut Partition<S>) -> Result<(), ReplayError> {
        Ok(())
    }

    fn after(&mut self, _: &Record, _: &Folded) -> Result<(), ReplayError> {
        Ok(())
    }
}

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
    /// What happens otherwise than in the log.
    otherwise: Otherwise,
    progress: Progress<'l>,
}

/// A history that is not the log's: events that are in no log, and some of the log that are left out.
#[derive(Debug, Clone, Default)]
struct Otherwise {
    /// Every later event has an offset larger by so much.
    inserted: u64,
    /// The offset in the log behind which that is so.
    from: u64,
    /// Offsets of events that are left out.
    without: BTreeSet<u64>,
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
        Self::over_by(log, number, store, memory_budget_bytes, progress, Logic::default())
    }

    /// The same, folded by some logic.
    pub fn over_by(
        log: &'l L,
        number: u32,
        store: S,
        memory_budget_bytes: usize,
        progress: Progress<'l>,
        logic: Logic,
    ) -> Result<Self, ReplayError> {
        let memory_budget_bytes = making::spaces_bytes(memory_budget_bytes);
        let resident_max = u32::try_from(memory_budget_bytes / LOADED_ITEM_BYTES).unwrap_or(u32::MAX);
        let forms = Forms { memory_budget_bytes, resident_max, ..Forms::default() };
        let partition = Partition::open_by(store, log.incarnation(), number, logic)?.with_forms(forms);
        let (next_offset, log_time_ms) = (partition.next_offset(), partition.row().log_time_ms);
        let earliest = log.bounds(Topic::Events, number)?.earliest;
        if next_offset < earliest {
            let detail = format!("its events begin at {earliest}, and are needed from {next_offset} on");
            return Err(ReplayError::Incomplete { partition: number, detail });
        }
        check_history(log, number, &partition)?;
        let otherwise = Otherwise::default();
        Ok(Replay { log, number, only_space: None, partition, next_offset, log_time_ms, otherwise, progress })
    }

    /// The same for one space alone. Its cascades have the same ids, and its state the same digest, as among the others.
    pub fn of_space(self, only_space: Option<&'l str>) -> Self {
        Replay { only_space, ..self }
    }

    /// The same without some events, by their offsets.
    pub fn without(mut self, offsets: impl IntoIterator<Item = u64>) -> Self {
        self.otherwise.without.extend(offsets);
        self
    }

    /// Folds an event that is in no log behind the one that was folded last. Those that follow have larger offsets than in the log,
    /// and positions in them that lie behind this one are moved with them.
    pub fn insert(&mut self, event: &Event) -> Result<Folded, ReplayError> {
        self.otherwise.from = self.next_offset;
        let value = wire::to_protobuf(event);
        let headers = [(names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())];
        let input = Input {
            offset: self.next_offset + self.otherwise.inserted,
            append_time_ms: self.log_time_ms,
            key: event.space.as_bytes(),
            headers: &headers,
            value: &value,
        };
        let folded = self.partition.fold(&input)?;
        self.otherwise.inserted += 1;
        self.partition.store()?;
        Ok(folded)
    }

    /// The state.
    pub fn partition(&mut self) -> &mut Partition<S> {
        &mut self.partition
    }

    /// Which partition.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The offset of the first event that was not looked at.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Folds the events below an offset and stores them. `observer` is told of each.
    pub fn up_to(&mut self, end: u64, observer: &mut impl Observer<S>) -> Result<(), ReplayError> {
        if self.next_offset >= end {
            return Ok(());
        }
        let (log, number, from) = (self.log, self.number, self.next_offset);
        std::thread::scope(|scope| {
            let (batches, read) = sync_channel(BATCHES_AHEAD);
            scope.spawn(move || read_ahead(log, number, from, end, &batches));
            self.fold_all(end, &read, observer)
        })
    }

    fn fold_all(
        &mut self,
        end: u64,
        batches: &Receiver<Result<Vec<Record>, LogError>>,
        observer: &mut impl Observer<S>,
    ) -> Result<(), ReplayError> {
        for batch in batches {
            let batch = batch?;
            self.fold(&batch, observer)?;
            self.partition.store()?;
            self.partition.keep_within_budget();
            self.partition.load_busy()?;
            (self.progress)(batch.len() as u64);
        }
        if self.next_offset < end {
            let detail = format!("its log ends at {}, and was processed up to {end}", self.next_offset);
            return Err(ReplayError::Incomplete { partition: self.number, detail });
        }
        Ok(self.partition.finish()?)
    }

    fn fold(&mut self, batch: &[Record], observer: &mut impl Observer<S>) -> Result<(), ReplayError> {
        let (mut records, mut times_ms) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for record in batch {
            self.log_time_ms = self.log_time_ms.max(record.append_time_ms);
            self.next_offset = record.position.offset + 1;
            if self.is_wanted(record) {
                records.push(record);
                times_ms.push(self.log_time_ms);
            }
        }
        let Some(first) = records.first() else { return Ok(()) };
        let moved: Vec<_> = records.iter().map(|record| self.otherwise.moved(record)).collect();
        let inserted = self.otherwise.inserted;
        let with_values = records.iter().zip(&moved).zip(&times_ms);
        let inputs: Vec<_> =
            with_values.map(|((record, moved), time_ms)| as_input(record, moved, *time_ms, inserted)).collect();
        observer.before(first, &mut self.partition)?;
        self.partition.fold_all(&inputs, &mut |partition, place, folded| {
            observer.after(records[place], &folded)?;
            records.get(place + 1).map_or(Ok(()), |next| observer.before(next, partition))
        })
    }

    fn is_wanted(&self, record: &Record) -> bool {
        let is_of_space = self
            .only_space
            .is_none_or(|space| record.key == space.as_bytes() || record.key == CONTROL_SPACE.as_bytes());
        is_of_space && !self.otherwise.without.contains(&record.position.offset)
    }
}

/// A record as it is folded: behind what was inserted, with the value that is not the log's if it has one.
fn as_input<'a>(record: &'a Record, moved: &'a Option<Vec<u8>>, append_time_ms: i64, inserted: u64) -> Input<'a> {
    Input {
        offset: record.position.offset + inserted,
        append_time_ms,
        value: moved.as_deref().unwrap_or(&record.value),
        headers: if moved.is_some() { &[] } else { &record.headers },
        ..record.input()
    }
}

impl Otherwise {
    /// The bytes of an event that holds a position behind what was inserted, with that moved; none of one that does not.
    fn moved(&self, record: &Record) -> Option<Vec<u8>> {
        if self.inserted == 0 {
            return None;
        }
        let content_type = record.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(names::CONTENT_TYPE));
        let content_type = content_type.map(|(_, value)| String::from_utf8_lossy(value));
        let mut event = wire::decode(&record.value, content_type.as_deref()).ok()?.event;
        let only_if = match event.body.as_mut()? {
            Body::Retracted(retracted) => &mut retracted.only_if_position,
            Body::Reinstated(reinstated) => &mut reinstated.only_if_position,
            _ => return None,
        };
        let position = only_if.parse::<Position>().ok().filter(|position| position.offset >= self.from)?;
        *only_if = Position { offset: position.offset + self.inserted, ..position }.to_string();
        Some(wire::to_protobuf(&event))
    }
}

/// Whether the last record that a state applied is the one in the log.
fn check_history<S: WriteStore>(log: &impl ReadLog, number: u32, partition: &Partition<S>) -> Result<(), ReplayError> {
    let Some(last) = partition.next_offset().checked_sub(1) else { return Ok(()) };
    let records = log.read(Topic::Events, number, last, ReadLimit { records_max: 1, bytes_max: 1 })?;
    match records.first() {
        Some(record) if fold::record_hash(&record.input()) == partition.last_record_hash() => Ok(()),
        _ => {
            let detail = format!("the record at offset {last} is not the one that the state to begin with applied");
            Err(ReplayError::Incomplete { partition: number, detail })
        }
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
