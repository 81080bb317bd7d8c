//! Follows what was published without publishing: for a standby for ever, and for whoever takes a partition until its state is where
//! the log says that it has been processed.

use std::sync::Arc;

use recant_eventlog::{Committed, Epoch, ProcessLog, ReadLimit, ReadLog, Record, Topic};
use recant_projections::{
    fold::{self, FoldError, Partition},
    store::WriteStore,
};

use super::{BatchLimit, DriveError, Driver, Phase, source_of};
use crate::{digests::Digests, measures::Measures};

/// The state of a partition that follows what was published, and publishes nothing.
pub struct Shadow<L, S> {
    log: Arc<L>,
    partition: Partition<S>,
    number: u32,
    limit: BatchLimit,
}

impl<L: ReadLog, S: WriteStore> Shadow<L, S> {
    /// Opens the state, which must be one of this log's.
    pub fn open(log: Arc<L>, store: S, number: u32, limit: BatchLimit) -> Result<Self, DriveError> {
        let partition = Partition::open_by(store, log.incarnation(), number, limit.logic)?.with_forms(limit.forms);
        let shadow = Shadow { log, partition, number, limit };
        shadow.check_history()?;
        Ok(shadow)
    }

    /// Whether the last record that the state applied is the one in the log.
    fn check_history(&self) -> Result<(), DriveError> {
        let Some(last) = self.partition.next_offset().checked_sub(1) else { return Ok(()) };
        let one = ReadLimit { records_max: 1, bytes_max: 1 };
        let records = self.log.read(Topic::Events, self.number, last, one)?;
        let same = records
            .first()
            .is_some_and(|record| fold::record_hash(&record.input()) == self.partition.last_record_hash());
        if same {
            Ok(())
        } else {
            Err(self.mismatch(format!("the record at offset {last} is not the one that it applied")))
        }
    }

    /// A state that is ahead of what was published has heard of something that nobody else has.
    fn check_not_ahead(&self, committed: &Committed) -> Result<(), DriveError> {
        let (at, to) = (self.partition.next_offset(), committed.next_offset);
        if at > to {
            return Err(self.mismatch(format!("it is at offset {at}, and the log was processed up to {to}")));
        }
        Ok(())
    }

    /// Folds a batch of what was published up to a position, and stores it; whether there is more. At the position itself the hash
    /// of what it would have published is compared with the one committed there.
    pub fn step_towards(&mut self, committed: &Committed) -> Result<bool, DriveError> {
        self.check_not_ahead(committed)?;
        let from = self.partition.next_offset();
        if from < committed.next_offset {
            let mut records = self.log.read(Topic::Events, self.number, from, self.limit.read)?;
            records.retain(|record| record.position.offset < committed.next_offset);
            if records.is_empty() {
                let to = committed.next_offset;
                return Err(self.mismatch(format!("the log ends at {from}, and was processed up to {to}")));
            }
            let inputs: Vec<_> = records.iter().map(Record::input).collect();
            self.partition.fold_all(&inputs, &mut |_, _, _| Ok::<_, FoldError>(()))?;
        }
        let next = self.partition.next_offset();
        if next == committed.next_offset {
            // Before the last batch is stored, so that a state that is wrong is not kept.
            self.compare(committed)?;
        }
        self.partition.store()?;
        self.partition.keep_within_budget();
        Ok(next < committed.next_offset)
    }

    fn compare(&self, committed: &Committed) -> Result<(), DriveError> {
        self.partition.check_in_force()?;
        let hash = self.partition.outputs_hash();
        // Without a hash nothing was published yet, or an operator has set the position.
        if committed.metadata.is_empty() && !hash.is_empty() {
            tracing::warn!(
                partition = self.number,
                "no hash stands beside the position: what was folded is not compared"
            );
            return Ok(());
        }
        if hash == committed.metadata {
            return Ok(());
        }
        Err(DriveError::NotDeterministic { partition: self.number, offset: committed.next_offset })
    }

    fn mismatch(&self, detail: String) -> DriveError {
        DriveError::Mismatch { partition: self.number, detail }
    }
}

/// A partition that was acquired, and whose state is still behind what was published.
pub struct Recovery<L, S> {
    shadow: Shadow<L, S>,
    epoch: Epoch,
    committed: Committed,
}

impl<L: ProcessLog, S: WriteStore> Recovery<L, S> {
    /// Takes a partition, and checks that its state is one of this log's.
    pub fn begin(log: Arc<L>, store: S, number: u32, limit: BatchLimit) -> Result<Self, DriveError> {
        let (epoch, committed) = log.acquire(number)?;
        let partition = Partition::open_by(store, log.incarnation(), number, limit.logic)?.with_forms(limit.forms);
        let shadow = Shadow { log, partition, number, limit };
        let (from, to) = (shadow.partition.next_offset(), committed.next_offset);
        shadow.check_not_ahead(&committed)?;
        shadow.check_history()?;
        if from < to {
            tracing::info!(partition = number, from, to, "folding what was published");
        }
        Ok(Recovery { shadow, epoch, committed })
    }

    /// Folds a batch of what was published without publishing it; whether there is more.
    pub fn step(&mut self) -> Result<bool, DriveError> {
        self.shadow.step_towards(&self.committed)
    }

    /// Folds what is left, and gives the driver, whose next batch is published.
    pub fn finish(mut self) -> Result<Driver<L, S>, DriveError> {
        while self.step()? {}
        let Shadow { log, partition, number, limit } = self.shadow;
        let digests = Digests::resume(&*log, number, partition.next_offset(), limit.digest_interval_events)?;
        Ok(Driver {
            source: source_of(&*log),
            log,
            partition,
            number,
            epoch: self.epoch,
            phase: Phase::Ready,
            limit,
            measures: Measures::of(number),
            digests,
            last_abort: String::new(),
        })
    }
}
