//! Faults that are planted, to see that the simulation finds them; and a second driver, in which some of them are.
//!
//! The second driver does what `recant_processor::driver` promises, in the same steps, and deviates where it is told to.
//! Without a deviation the simulation must find nothing: then what it finds is the fault, and not the second driver.

use std::sync::Arc;

use recant_eventlog::{Commit, Committed, Epoch, Output, ProcessLog as _, ReadLimit, ReadLog as _, Record, Topic};
use recant_processor::{
    driver::{self, BatchLimit, DriveError},
    serve::phases::{Ended, Life, Next, Orders},
};
use recant_projections::fold::{Folded, Partition};
use recant_proto::{names, position::Position};

use super::{
    disk::{Disk, SimStore, Writes},
    log::SimLog,
};

/// A fault of recant that is not there, and must be found if it were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// None, but the second driver drives.
    Nothing,
    /// The state is written in two parts: everything, and then the position.
    PositionApart,
    /// The state is stored before its outputs are committed.
    StateBeforeOutputs,
    /// What is folded again after a crash is published again.
    ReplayNotSilent,
    /// Readers see the open batch.
    OpenBatchLeaks,
    /// The store writes half of a batch at times, and says that all is well.
    TornBatch,
    /// A commit whose fate is not known is taken for one that happened.
    UnknownIsCommitted,
    /// A commit whose fate is not known is taken for one that did not happen.
    UnknownIsAborted,
    /// A batch that was aborted is not forgotten.
    AbortKeepsBatch,
    /// One whose partition was taken stores what it could not publish.
    FencedStores,
    /// The position is committed by itself, beside the transaction.
    PositionNotInTransaction,
    /// Whoever takes a partition fences nobody.
    NoFencing,
    /// The outputs of a batch are committed in two transactions.
    TornTransaction,
}

impl Plant {
    /// How batches are written.
    pub fn writes(plant: Option<Plant>) -> Writes {
        match plant {
            Some(Plant::PositionApart) => Writes::PositionApart,
            Some(Plant::OpenBatchLeaks) => Writes::Leaking,
            _ => Writes::Whole,
        }
    }
}

/// What came of a step.
pub enum Driven {
    /// It goes on.
    On {
        /// What drives on.
        drives: Box<dyn Drives>,
        /// What it has done.
        took: driver::Step,
        /// Whether its state is still behind what was published.
        is_restoring: bool,
    },
    /// It has given the partition up, or lost it.
    Ended(Ended),
}

/// What drives a partition, one step at a time, until it is told otherwise.
pub trait Drives {
    /// Takes the next step.
    fn step(self: Box<Self>, orders: &Orders, observe: &mut dyn FnMut(Position, &Folded))
    -> Result<Driven, DriveError>;

    /// Whether its state is still behind what was published.
    fn is_restoring(&self) -> bool;
}

impl Drives for Life<SimLog, SimStore> {
    fn step(
        self: Box<Self>,
        orders: &Orders,
        observe: &mut dyn FnMut(Position, &Folded),
    ) -> Result<Driven, DriveError> {
        Ok(match Life::step(*self, orders, observe)? {
            Next::Life { life, took } => {
                let is_restoring = matches!(life, Life::Restoring(_));
                Driven::On { drives: Box::new(life), took, is_restoring }
            }
            Next::Ended(ended) => Driven::Ended(ended),
        })
    }

    fn is_restoring(&self) -> bool {
        matches!(self, Life::Restoring(_))
    }
}

/// Takes a partition: as recant does, or with the second driver, if what is planted is planted there.
pub fn begin(
    log: Arc<SimLog>,
    store: SimStore,
    disk: &Disk,
    partition: u32,
    limit: BatchLimit,
    plant: Option<Plant>,
) -> Result<Box<dyn Drives>, DriveError> {
    use Plant as P;
    match plant {
        None
        | Some(P::PositionApart | P::TornBatch | P::PositionNotInTransaction | P::NoFencing | P::TornTransaction) => {
            Ok(Box::new(Life::begin(log, store, partition, limit)?))
        }
        Some(plant) => Ok(Box::new(Second::open(log, store, disk.clone(), partition, limit, plant)?)),
    }
}

enum Phase {
    Ready,
    Polled(Vec<Record>),
    Folded(Vec<Output>),
    Published,
}

struct Second {
    log: Arc<SimLog>,
    disk: Disk,
    state: Partition<SimStore>,
    number: u32,
    epoch: Epoch,
    phase: Phase,
    limit: BatchLimit,
    plant: Plant,
}

impl Second {
    fn open(
        log: Arc<SimLog>,
        store: SimStore,
        disk: Disk,
        number: u32,
        limit: BatchLimit,
        plant: Plant,
    ) -> Result<Second, DriveError> {
        disk.end_leak(false);
        let (epoch, committed) = log.acquire(number)?;
        let state = Partition::open(store, log.incarnation(), number)?;
        let mut second = Second { log, disk, state, number, epoch, phase: Phase::Ready, limit, plant };
        second.check_history(&committed)?;
        second.recover(&committed)?;
        Ok(second)
    }

    fn check_history(&self, committed: &Committed) -> Result<(), DriveError> {
        let mismatch = |detail: &str| Err(DriveError::Mismatch { partition: self.number, detail: detail.to_owned() });
        let next = self.state.next_offset();
        if next > committed.next_offset {
            return mismatch("it is ahead of the log");
        }
        let Some(last) = next.checked_sub(1) else { return Ok(()) };
        let one = ReadLimit { records_max: 1, bytes_max: 1 };
        let records = self.log.read(Topic::Events, self.number, last, one)?;
        let hash = records.first().map(|record| recant_projections::fold::record_hash(&record.input()));
        if hash == Some(self.state.last_record_hash()) { Ok(()) } else { mismatch("it is of another log") }
    }

    fn recover(&mut self, committed: &Committed) -> Result<(), DriveError> {
        let (source, mut outputs) = (driver::source_of(&*self.log), Vec::new());
        while self.state.next_offset() < committed.next_offset {
            let mut records = self.log.read(Topic::Events, self.number, self.state.next_offset(), self.limit.read)?;
            records.retain(|record| record.position.offset < committed.next_offset);
            if records.is_empty() {
                return Err(DriveError::Mismatch {
                    partition: self.number,
                    detail: "the log ends too early".to_owned(),
                });
            }
            for record in &records {
                outputs.extend(to_log(self.state.fold(&record.input())?, &source, record));
            }
            self.write()?;
        }
        if self.state.outputs_hash() != committed.metadata {
            return Err(DriveError::NotDeterministic { partition: self.number, offset: committed.next_offset });
        }
        if self.plant == Plant::ReplayNotSilent && !outputs.is_empty() {
            self.log.commit(self.number, self.epoch, outputs, committed.clone());
        }
        Ok(())
    }

    /// Writes the open batch where it belongs.
    fn write(&mut self) -> Result<(), DriveError> {
        self.state.store()?;
        self.disk.end_leak(true);
        Ok(())
    }

    fn forget(&mut self) -> Result<(), DriveError> {
        self.disk.end_leak(false);
        self.state.abandon()?;
        Ok(())
    }

    fn fold(
        &mut self,
        records: &[Record],
        observe: &mut dyn FnMut(Position, &Folded),
    ) -> Result<driver::Step, DriveError> {
        let (source, mut outputs) = (driver::source_of(&*self.log), Vec::new());
        for record in records {
            let folded = self.state.fold(&record.input())?;
            observe(record.position, &folded);
            outputs.extend(to_log(folded, &source, record));
        }
        if self.plant == Plant::OpenBatchLeaks {
            self.state.store()?;
        }
        self.phase = Phase::Folded(outputs);
        Ok(driver::Step::Folded)
    }

    fn publish(&mut self, outputs: Vec<Output>) -> Result<driver::Step, DriveError> {
        let metadata = self.state.outputs_hash().to_vec();
        let committed = Committed { next_offset: self.state.next_offset(), metadata };
        if self.plant == Plant::StateBeforeOutputs {
            self.write()?;
        }
        match (self.log.commit(self.number, self.epoch, outputs, committed), self.plant) {
            (Commit::Committed, _) | (Commit::Unknown(_), Plant::UnknownIsCommitted) => {
                self.phase = Phase::Published;
                Ok(driver::Step::Published)
            }
            (Commit::Aborted(_), Plant::AbortKeepsBatch) => Ok(driver::Step::Aborted),
            (Commit::Aborted(_), _) | (Commit::Unknown(_), Plant::UnknownIsAborted) => {
                self.forget()?;
                Ok(driver::Step::Aborted)
            }
            (Commit::Unknown(detail), _) => {
                self.forget()?;
                Err(DriveError::Unknown { partition: self.number, detail })
            }
            (Commit::Fenced, plant) => {
                if plant == Plant::FencedStores {
                    self.write()?;
                }
                self.forget()?;
                Err(DriveError::Fenced(self.number))
            }
        }
    }
}

impl Second {
    fn next(&mut self, observe: &mut dyn FnMut(Position, &Folded)) -> Result<driver::Step, DriveError> {
        match std::mem::replace(&mut self.phase, Phase::Ready) {
            Phase::Ready => {
                let next = self.state.next_offset();
                let records = self.log.read(Topic::Events, self.number, next, self.limit.read)?;
                if records.is_empty() {
                    return Ok(driver::Step::Idle);
                }
                self.phase = Phase::Polled(records);
                Ok(driver::Step::Polled)
            }
            Phase::Polled(records) => self.fold(&records, observe),
            Phase::Folded(outputs) => self.publish(outputs),
            Phase::Published => {
                self.write()?;
                self.state.keep_within_budget();
                Ok(driver::Step::Stored)
            }
        }
    }
}

impl Drives for Second {
    fn step(
        mut self: Box<Self>,
        orders: &Orders,
        observe: &mut dyn FnMut(Position, &Folded),
    ) -> Result<Driven, DriveError> {
        if orders.is_to_end() && matches!(self.phase, Phase::Ready) {
            return Ok(Driven::Ended(Ended::GivenUp));
        }
        let took = self.next(observe)?;
        Ok(Driven::On { drives: self, took, is_restoring: false })
    }

    fn is_restoring(&self) -> bool {
        false
    }
}

fn to_log(folded: Folded, source: &str, record: &Record) -> Vec<Output> {
    let traceparent = record.headers.iter().find(|(name, _)| name == names::TRACEPARENT);
    folded.outputs.into_iter().map(|output| driver::to_log(output, source, traceparent)).collect()
}
