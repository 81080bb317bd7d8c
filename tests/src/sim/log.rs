//! The log as one process sees it: the log in memory, with the steps of a call named, and told to fail at times.

use recant_eventlog::{
    Bounds, Commit, Committed, Epoch, LogError, Output, ProcessLog, ReadLimit, ReadLog, Record, Topic,
    memory::{CommitFault, MemoryLog},
};
use recant_proto::position::Incarnation;

use super::{
    mishaps::{Died, Mishaps, Phase, TOLD_TO},
    names::{Fault, Step},
};

/// What a commit can be told to answer.
const COMMIT_FAULTS: [Fault; 5] = [
    Fault::CommitAborted,
    Fault::CommitUnknownApplied,
    Fault::CommitUnknownLost,
    Fault::CommitUnknownDelayed,
    Fault::CommitFenced,
];

/// The one record by which a driver that opens compares its state with the log; batches are read with other limits.
const CHECK: ReadLimit = ReadLimit { records_max: 1, bytes_max: 1 };

/// A process's log.
pub struct SimLog {
    log: MemoryLog,
    mishaps: Mishaps,
}

impl SimLog {
    /// The log as a process sees it that has these failpoints.
    pub fn new(log: MemoryLog, mishaps: Mishaps) -> SimLog {
        SimLog { log, mishaps }
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
        self.log.incarnation()
    }

    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        self.log.bounds(topic, partition)
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let (before, after) = match self.mishaps.phase() {
            Phase::Driving => (Step::LogReadBefore, Some(Step::LogReadAfter)),
            _ if limit == CHECK => (Step::OpenCheck, None),
            _ => {
                self.mishaps.enter(Phase::Recovering);
                (Step::RecoverReadBefore, Some(Step::RecoverReadAfter))
            }
        };
        self.mishaps.pass(before)?;
        if self.mishaps.fails(Fault::ReadFailed) {
            return Err(failed());
        }
        let records = self.log.read(topic, partition, from_offset, limit)?;
        after.map_or(Ok(()), |after| self.mishaps.pass(after))?;
        Ok(records)
    }

    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        self.log.committed(partition)
    }

    fn refresh(&self) -> Result<(), LogError> {
        self.log.refresh()
    }
}

impl ProcessLog for SimLog {
    fn acquire(&self, partition: u32) -> Result<(Epoch, Committed), LogError> {
        self.mishaps.pass(Step::OpenAcquireBefore)?;
        if self.mishaps.fails(Fault::AcquireFailed) {
            return Err(failed());
        }
        let acquired = self.log.acquire(partition)?;
        self.mishaps.acquire();
        self.mishaps.pass(Step::OpenAcquireAfter)?;
        Ok(acquired)
    }

    fn commit(&self, partition: u32, epoch: Epoch, outputs: Vec<Output>, committed: Committed) -> Commit {
        let unheard = |_| Commit::Unknown(TOLD_TO.to_owned());
        if let Err(died) = self.mishaps.pass(Step::LogCommitBefore) {
            return unheard(died);
        }
        if let Err(died) = self.mishaps.pass(Step::LogCommitInFlight) {
            self.log.fail_next_commit(CommitFault::UnknownDelayed);
            self.log.commit(partition, epoch, outputs, committed);
            self.log.forget_faults();
            return unheard(died);
        }
        let fault = self.mishaps.take(&COMMIT_FAULTS);
        fault.and_then(of_log).into_iter().for_each(|fault| self.log.fail_next_commit(fault));
        let answer = self.log.commit(partition, epoch, outputs, committed);
        // One that was not met was refused before: its committer no longer has the partition.
        if let (Some(fault), 0) = (fault, self.log.forget_faults()) {
            self.mishaps.happened(fault);
        }
        self.mishaps.pass(Step::LogCommitAfter).map_or_else(unheard, |()| answer)
    }
}

fn of_log(fault: Fault) -> Option<CommitFault> {
    match fault {
        Fault::CommitAborted => Some(CommitFault::Aborted),
        Fault::CommitUnknownApplied => Some(CommitFault::UnknownApplied),
        Fault::CommitUnknownLost => Some(CommitFault::UnknownLost),
        Fault::CommitUnknownDelayed => Some(CommitFault::UnknownDelayed),
        Fault::CommitFenced => Some(CommitFault::Fenced),
        _ => None,
    }
}
