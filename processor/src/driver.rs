//! A partition's driver: a state machine that takes one named step at a time, so that a crash between any two can be tried.
//!
//! Poll takes the next events from the log. Fold applies them to the open batch of the state. Publish commits their
//! outputs and the position behind them to the log, whole. Store writes the state with the same position. A crash after
//! publish and before store leaves the state behind the log's committed position K; on opening, the driver folds up to K
//! without publishing, and compares the running hash of what it would have published with the one committed beside K.
//!
//! Now and then a batch has no events, and publishes digests ([`crate::digests`]).

mod recovery;

use std::{sync::Arc, time::Instant};

use recant_eventlog::{Commit, Committed, Epoch, LogError, Output, ProcessLog, ReadLimit, ReadLog, Record, Topic};
use recant_projections::{
    fold::{self, FoldError, Folded, Forms, Logic, Message, Partition},
    store::WriteStore,
};
use recant_proto::{names, position::Position};

pub use self::recovery::{Recovery, Shadow};
use crate::{
    digests::{DIGEST_INTERVAL_EVENTS, Digests},
    measures::Measures,
};

/// Bounds on one batch, and what folds it.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimit {
    /// At most so many events, and so many bytes of their values.
    pub read: ReadLimit,
    /// Which spaces are resident, and how much memory they take between batches.
    pub forms: Forms,
    /// So many events at most without a digest of what they changed.
    pub digest_interval_events: u64,
    /// By which logic it is folded.
    pub logic: Logic,
}

impl Default for BatchLimit {
    fn default() -> Self {
        BatchLimit {
            read: ReadLimit { records_max: 1_000, bytes_max: 4 << 20 },
            forms: Forms::default(),
            digest_interval_events: DIGEST_INTERVAL_EVENTS,
            logic: Logic::default(),
        }
    }
}

/// A step that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Events were taken from the log.
    Polled,
    /// There are none.
    Idle,
    /// They were applied to the open batch.
    Folded,
    /// Outputs and position are in the log.
    Published,
    /// Nothing was published; the batch begins anew.
    Aborted,
    /// State and position are written.
    Stored,
}

/// What stops a driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Folding cannot go on.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// Another process has the partition.
    #[error("another process has taken partition {0}; this one has published nothing since")]
    Fenced(u32),
    /// It is not known whether a commit happened.
    #[error(
        "it is not known whether the last commit of partition {partition} happened ({detail}); start again, and it is found out"
    )]
    Unknown {
        /// The partition.
        partition: u32,
        /// What the log said.
        detail: String,
    },
    /// The directory is the past.
    #[error("{0} is the past, made by `recant replay`, and is not written to; write to the data that it was made from")]
    Past(String),
    /// The state is of a log with another history.
    #[error(
        "the state of partition {partition} does not fit the log: {detail}. If the log is the right one, and not an older copy of it or one that lost its end, make the state anew with `recant rebuild`; else restore the log from its newest snapshot (recant restore SNAPSHOT --data DIR)"
    )]
    Mismatch {
        /// The partition.
        partition: u32,
        /// What does not fit.
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
}

enum Phase {
    Ready,
    Polled(Vec<Record>),
    Folded { outputs: Vec<Output>, events: usize },
    Published { events: usize },
}

/// Of a batch of digests.
const NO_EVENTS: usize = 0;

/// Drives one partition.
pub struct Driver<L, S> {
    log: Arc<L>,
    partition: Partition<S>,
    number: u32,
    epoch: Epoch,
    phase: Phase,
    limit: BatchLimit,
    measures: Measures,
    /// The log, as the source of what it causes.
    source: String,
    digests: Digests,
    /// Why the last commit that was aborted was.
    last_abort: String,
}

impl<L: ProcessLog, S: WriteStore> Driver<L, S> {
    /// Takes a partition, and brings its state to where the log says that it has been processed.
    pub fn open(log: Arc<L>, store: S, number: u32, limit: BatchLimit) -> Result<Self, DriveError> {
        Recovery::begin(log, store, number, limit)?.finish()
    }

    /// The state, with the open batch.
    pub fn state(&mut self) -> &mut Partition<S> {
        &mut self.partition
    }

    /// Waits until all that was handed to the store is written.
    pub fn finish(&mut self) -> Result<(), DriveError> {
        Ok(self.partition.finish()?)
    }

    /// Why the last commit that was aborted was; empty if none was.
    pub fn last_abort(&self) -> &str {
        &self.last_abort
    }

    /// Whether no batch is under way: everything that was folded is published and stored.
    pub fn is_between_batches(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// The log.
    pub fn log(&self) -> &Arc<L> {
        &self.log
    }

    /// Which partition.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Takes the next step. `observe` is told of each event that is folded; it is told again if the batch is aborted.
    pub fn step(&mut self, observe: &mut dyn FnMut(Position, &Folded)) -> Result<Step, DriveError> {
        match std::mem::replace(&mut self.phase, Phase::Ready) {
            Phase::Ready => self.poll(),
            Phase::Polled(records) => self.fold(&records, observe),
            Phase::Folded { outputs, events } => self.publish(outputs, events),
            Phase::Published { events } => self.store(events),
        }
    }

    fn poll(&mut self) -> Result<Step, DriveError> {
        let next = self.partition.next_offset();
        let mut records = self.log.read(Topic::Events, self.number, next, self.limit.read)?;
        let due_before = self.digests.due_before();
        if records.first().is_some_and(|record| record.position.offset >= due_before) {
            return self.digest();
        }
        records.retain(|record| record.position.offset < due_before);
        if records.is_empty() {
            self.measures.lag(0, None);
            self.partition.finish()?;
            self.partition.load_busy()?;
            return Ok(Step::Idle);
        }
        let end = self.log.recent_end(Topic::Events, self.number)?;
        self.measures.lag(end.saturating_sub(next), records.first().map(|record| record.append_time_ms));
        self.phase = Phase::Polled(records);
        Ok(Step::Polled)
    }

    /// A batch of digests, and no events.
    fn digest(&mut self) -> Result<Step, DriveError> {
        let outputs = self.digest_outputs()?;
        self.phase = Phase::Folded { outputs, events: NO_EVENTS };
        Ok(Step::Folded)
    }

    /// Publishes the digests of what changed since the last ones: for an orderly end, between two batches. Nothing, if the
    /// log is not where the state is, which was told when it came about.
    pub fn publish_digests(&mut self) -> Result<(), DriveError> {
        let next_offset = self.partition.next_offset();
        let is_between_batches = self.is_between_batches() && !self.partition.is_batch_open();
        if !is_between_batches || self.log.committed(self.number)?.next_offset != next_offset {
            return Ok(());
        }
        let outputs = self.digest_outputs()?;
        if !outputs.is_empty() {
            self.publish(outputs, NO_EVENTS)?;
            self.phase = Phase::Ready;
        }
        Ok(())
    }

    fn digest_outputs(&self) -> Result<Vec<Output>, DriveError> {
        let records = self.digests.records(&*self.log, &self.partition)?;
        Ok(records.into_iter().map(|output| to_log(output, &self.source, None)).collect())
    }

    fn fold(&mut self, records: &[Record], observe: &mut dyn FnMut(Position, &Folded)) -> Result<Step, DriveError> {
        let span = tracing::debug_span!("fold", partition = self.number, events = records.len());
        let _entered = span.enter();
        let begun = Instant::now();
        let mut outputs = Vec::new();
        let mut events = 0;
        let inputs: Vec<_> = records.iter().map(Record::input).collect();
        let Driver { partition, measures, digests, source, .. } = self;
        let done = partition.fold_all(&inputs, &mut |partition, place, folded| {
            // Of each event, so that how events fall into batches decides nothing.
            partition.check_in_force()?;
            let record = &records[place];
            measures.folded(&folded);
            digests.note(&folded.space);
            if let fold::Fate::Rejected(violation) = &folded.fate {
                tracing::warn!(position = %record.position, code = %violation.code, %violation, "rejected");
            }
            observe(record.position, &folded);
            events += 1;
            let traceparent = record.headers.iter().find(|(name, _)| name == names::TRACEPARENT);
            outputs.extend(folded.outputs.into_iter().map(|output| to_log(output, source, traceparent)));
            Ok(())
        });
        match done {
            Ok(()) => {}
            // What came before is published and stored; the partition stops at this event.
            Err(FoldError::MustUnderstand { .. } | FoldError::LogicVersion { .. }) if events > 0 => {}
            Err(error) => {
                self.partition.abandon()?;
                return Err(error.into());
            }
        }
        self.measures.fold_took(begun);
        self.phase = Phase::Folded { outputs, events };
        Ok(Step::Folded)
    }

    fn publish(&mut self, outputs: Vec<Output>, events: usize) -> Result<Step, DriveError> {
        let span = tracing::debug_span!("publish", partition = self.number, outputs = outputs.len());
        let _entered = span.enter();
        let next_offset = self.partition.next_offset();
        let committed = Committed { next_offset, metadata: self.partition.outputs_hash().to_vec() };
        let begun = Instant::now();
        let commit = self.log.commit(self.number, self.epoch, outputs, committed);
        self.measures.commit_took(begun);
        match commit {
            Commit::Committed => {
                if events == NO_EVENTS {
                    self.digests.published(next_offset);
                }
                self.phase = Phase::Published { events };
                Ok(Step::Published)
            }
            Commit::Aborted(detail) => {
                tracing::warn!(partition = self.number, detail, "commit aborted");
                self.last_abort = detail;
                self.measures.aborted();
                self.partition.abandon()?;
                Ok(Step::Aborted)
            }
            Commit::Unknown(detail) => {
                self.partition.abandon()?;
                Err(DriveError::Unknown { partition: self.number, detail })
            }
            Commit::Fenced => {
                self.partition.abandon()?;
                Err(DriveError::Fenced(self.number))
            }
        }
    }

    fn store(&mut self, events: usize) -> Result<Step, DriveError> {
        let span = tracing::debug_span!("store", partition = self.number, rows = self.partition.open_rows());
        let _entered = span.enter();
        let rows = self.partition.open_rows();
        let begun = Instant::now();
        self.partition.store()?;
        self.measures.store_took(begun);
        self.measures.stored(events, rows);
        self.partition.keep_within_budget();
        // A space that turns resident does so a few milliseconds at a time, so that it holds up no other.
        self.partition.load_busy()?;
        let turns = self.partition.take_turns();
        self.measures.spaces(self.partition.resident_bytes(), turns);
        Ok(Step::Stored)
    }

    /// Takes steps until there are no more events.
    pub fn catch_up(&mut self, observe: &mut dyn FnMut(Position, &Folded)) -> Result<(), DriveError> {
        while self.take_batch(observe)? {}
        Ok(())
    }

    /// Takes steps until one batch is handed to the store; false if there are no more events.
    pub fn take_batch(&mut self, observe: &mut dyn FnMut(Position, &Folded)) -> Result<bool, DriveError> {
        let mut aborted_in_a_row = 0;
        loop {
            match self.step(observe)? {
                Step::Idle => return Ok(false),
                Step::Aborted if aborted_in_a_row == ABORTED_IN_A_ROW_MAX => {
                    let detail = format!(
                        "{ABORTED_IN_A_ROW_MAX} commits in a row were aborted, the last because {}",
                        self.last_abort
                    );
                    return Err(LogError::Io(detail).into());
                }
                Step::Aborted => aborted_in_a_row += 1,
                Step::Stored => return Ok(true),
                Step::Polled | Step::Folded | Step::Published => {}
            }
        }
    }
}

/// After so many aborted commits without one that went through, the driver gives up.
pub(crate) const ABORTED_IN_A_ROW_MAX: u32 = 8;

/// The log, as the source of what it causes.
pub fn source_of(log: &impl ReadLog) -> String {
    format!("urn:recant:{}", log.incarnation())
}

/// An output as it lies in its topic: a CloudEvent in binary mode.
pub fn to_log(output: fold::Output, source: &str, traceparent: Option<&(String, Vec<u8>)>) -> Output {
    let (topic, id, kind) = match &output.message {
        Message::Rejection(rejection) => (Topic::Rejected, rejection.position.clone(), names::CE_TYPE_REJECTION),
        Message::Change(change) => (Topic::Changes, change.id.clone(), names::CE_TYPE_CHANGE),
    };
    let header = |name: &str, value: &str| (name.to_owned(), value.into());
    let mut headers = vec![
        header(names::CONTENT_TYPE, names::PROTOBUF),
        header(names::CE_SPECVERSION, names::CE_VERSION),
        header(names::CE_ID, &id),
        header(names::CE_SOURCE, source),
        header(names::CE_TYPE, kind),
    ];
    headers.extend(traceparent.cloned());
    Output { topic, key: output.key, headers, value: output.value }
}
