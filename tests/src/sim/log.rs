//! The log on Kafka as one process sees it in one life of a partition: with the steps of a call named, and told to fail at times.
//! What publishes is recant's own (`recant_eventlog::kafka::Publisher`), over producers of the simulator.

use std::cell::RefCell;

use recant_eventlog::{
    Bounds, Commit, Committed, Epoch, LogError, Output, ProcessLog, ReadLimit, ReadLog, Record, Topic,
    kafka::{Identity, Publisher},
};
use recant_proto::position::Incarnation;

use super::{
    kafka::{brokers::Brokers, producer::SimProducer},
    mishaps::{Died, Mishaps, Phase, TOLD_TO},
    names::{Fault, Step},
    planted::Plant,
};

/// The one record by which a driver that opens compares its state with the log; batches are read with other limits.
const CHECK: ReadLimit = ReadLimit { records_max: 1, bytes_max: 1 };

/// A process's log.
pub struct SimLog {
    brokers: Brokers,
    mishaps: Mishaps,
    plant: Option<Plant>,
    owned: RefCell<Option<Publisher<SimProducer>>>,
}

impl SimLog {
    /// The log as a process sees it that has these failpoints.
    pub fn new(brokers: Brokers, mishaps: Mishaps, plant: Option<Plant>) -> SimLog {
        SimLog { brokers, mishaps, plant, owned: RefCell::new(None) }
    }

    fn take_identity(&self, partition: u32, turn: usize) -> Result<Identity<SimProducer>, LogError> {
        let producer = SimProducer::new(self.brokers.clone(), (partition, turn), self.mishaps.clone(), self.plant);
        Identity::take(producer, partition)
    }
}

fn failed() -> LogError {
    LogError::Io(TOLD_TO.to_owned())
}

impl From<Died> for LogError {
    fn from(_: Died) -> Self {
        failed()
    }
}

impl ReadLog for SimLog {
    fn incarnation(&self) -> Incarnation {
        self.brokers.incarnation()
    }

    fn partitions(&self) -> u32 {
        self.brokers.partitions()
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        self.brokers.bounds(topic, partition)
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let (before, after) = match self.mishaps.phase() {
            Phase::Driving => (Step::LogReadBefore, Some(Step::LogReadAfter)),
            Phase::StandingBy => (Step::StandbyRead, None),
            _ if limit == CHECK => (Step::OpenCheck, None),
            _ if topic != Topic::Events => (Step::OpenDigests, None),
            _ => {
                self.mishaps.enter(Phase::Recovering);
                (Step::RecoverReadBefore, Some(Step::RecoverReadAfter))
            }
        };
        self.mishaps.pass(before)?;
        if self.mishaps.fails(Fault::ReadFailed) {
            return Err(failed());
        }
        let records = self.brokers.read(topic, partition, from_offset, limit)?;
        after.map_or(Ok(()), |after| self.mishaps.pass(after))?;
        Ok(records)
    }

    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        let committed = self.brokers.committed(partition);
        if committed.is_err() {
            self.mishaps.happened(Fault::PositionUndecided);
        }
        committed
    }

    fn refresh(&self) -> Result<(), LogError> {
        self.brokers.refresh()
    }
}

impl ProcessLog for SimLog {
    fn acquire(&self, partition: u32) -> Result<(Epoch, Committed), LogError> {
        self.mishaps.pass(Step::OpenAcquireBefore)?;
        if self.mishaps.fails(Fault::AcquireFailed) {
            return Err(failed());
        }
        let a = self.take_identity(partition, 0)?;
        self.mishaps.pass(Step::OpenAcquireBetween)?;
        let b = self.take_identity(partition, 1)?;
        // Read after the one before was fenced: nobody moves it any more.
        let committed = self.committed(partition)?;
        self.owned.replace(Some(Publisher::new([a, b], &committed)));
        self.mishaps.pass(Step::OpenAcquireAfter)?;
        Ok((Epoch(1), committed))
    }

    fn commit(&self, _: u32, _: Epoch, outputs: Vec<Output>, committed: Committed) -> Commit {
        // A life has one log, and acquires once.
        match &*self.owned.borrow() {
            Some(publisher) => publisher.publish(&outputs, &committed),
            None => Commit::Fenced,
        }
    }
}
