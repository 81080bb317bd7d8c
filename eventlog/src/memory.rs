//! The log in memory, for tests and for the simulator. It keeps every promise of the traits except that of being on disk,
//! answers the same calls in the same way every time, and can be told to fail the next of them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recant_proto::position::{Incarnation, Position};

use crate::partition::PartitionState;
use crate::{
    AppendLog, Bounds, Clock, Commit, Committed, Epoch, LogError, NewRecord, Output, ProcessLog, ReadLimit, ReadLog,
    Record, Topic,
};

/// A handle on a log in memory; clones are handles on the same log.
#[derive(Clone)]
pub struct MemoryLog {
    incarnation: Incarnation,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

/// What the next valid commit answers instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitFault {
    /// `Aborted`; nothing of it is in the log.
    Aborted,
    /// `Unknown`; it is in the log.
    UnknownApplied,
    /// `Unknown`; it is not in the log.
    UnknownLost,
    /// `Unknown`; it is on its way, and in the log when the partition is acquired the next time, or when
    /// [`MemoryLog::settle_delayed`] is called before.
    UnknownDelayed,
    /// `Fenced`: another takes the partition just before.
    Fenced,
}

/// What the next append answers instead.
#[derive(Debug)]
pub enum AppendFault {
    /// The error; the records are not in the log.
    Lost(LogError),
    /// The error; the records are in the log all the same, as when an answer is lost on its way.
    Kept(LogError),
    /// The error; the records are on their way, and in the log right behind those of the next append.
    Delayed(LogError),
    /// None; but the records are in the log twice, as when a client repeats by itself what was not answered in time. The
    /// answer is of the second time.
    Doubled,
}

#[derive(Default)]
struct State {
    partitions: Vec<Partition>,
    commit_faults: VecDeque<CommitFault>,
    append_faults: VecDeque<AppendFault>,
    /// Appends that were answered with an error and are not in the log yet.
    delayed_appends: Vec<NewRecord>,
}

#[derive(Default)]
struct Partition {
    state: PartitionState,
    records: [Vec<Record>; Topic::ALL.len()],
    /// A commit that was answered with `Unknown` and is not applied yet.
    delayed: Option<(Vec<Output>, Committed)>,
}

impl MemoryLog {
    /// A log with so many partitions, which begin with these records.
    pub fn create(
        incarnation: Incarnation,
        partitions: u32,
        first_records: Vec<NewRecord>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LogError> {
        let state = State { partitions: (0..partitions).map(|_| Partition::default()).collect(), ..State::default() };
        let log = MemoryLog { incarnation, clock, state: Arc::new(Mutex::new(state)) };
        log.append(first_records)?;
        Ok(log)
    }

    /// Makes the next commit that would be taken answer so. Several queue up.
    pub fn fail_next_commit(&self, fault: CommitFault) {
        self.lock().commit_faults.push_back(fault);
    }

    /// Makes the next append that would be taken answer so. Several queue up.
    pub fn fail_next_append(&self, fault: AppendFault) {
        self.lock().append_faults.push_back(fault);
    }

    /// Forgets the faults that no commit and no append has met yet; how many there were.
    pub fn forget_faults(&self) -> usize {
        let mut state = self.lock();
        let forgotten = state.commit_faults.len() + state.append_faults.len();
        state.commit_faults.clear();
        state.append_faults.clear();
        forgotten
    }

    /// Applies the commit of a partition that is on its way; whether there was one.
    pub fn settle_delayed(&self, partition: u32) -> Result<bool, LogError> {
        let now_ms = self.clock.now_ms();
        Ok(self.lock().partition_mut(partition)?.settle_delayed(partition, now_ms))
    }

    /// The first event that the log took at this time of its clock or later; the end if there is none.
    pub fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        let state = self.lock();
        let events = &state.partition(partition)?.records[Topic::Events as usize];
        Ok(events.partition_point(|record| record.append_time_ms < log_time_ms) as u64)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked while it held the lock leaves whole records only.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLog").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

impl State {
    fn partition(&self, partition: u32) -> Result<&Partition, LogError> {
        self.partitions.get(partition as usize).ok_or(LogError::NoPartition(partition))
    }

    fn partition_mut(&mut self, partition: u32) -> Result<&mut Partition, LogError> {
        self.partitions.get_mut(partition as usize).ok_or(LogError::NoPartition(partition))
    }
}

impl Partition {
    fn push(&mut self, topic: Topic, record: NewRecord, now_ms: i64) -> Position {
        let wanted_time_ms = record.append_time_ms.unwrap_or(now_ms);
        let (offset, append_time_ms) = self.state.extent_mut(topic).place(wanted_time_ms);
        let position = Position { partition: record.partition, offset };
        let NewRecord { key, headers, value, .. } = record;
        self.records[topic as usize].push(Record { position, append_time_ms, key, headers, value });
        position
    }

    fn apply(&mut self, partition: u32, outputs: Vec<Output>, committed: Committed, now_ms: i64) {
        for Output { topic, key, headers, value } in outputs {
            self.push(topic, NewRecord { partition, key, headers, value, append_time_ms: None }, now_ms);
        }
        self.state.committed = committed;
    }

    fn settle_delayed(&mut self, partition: u32, now_ms: i64) -> bool {
        let Some((outputs, committed)) = self.delayed.take() else { return false };
        self.apply(partition, outputs, committed, now_ms);
        true
    }
}

impl ReadLog for MemoryLog {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn partitions(&self) -> u32 {
        self.lock().partitions.len() as u32
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        Ok(self.lock().partition(partition)?.state.extent(topic).bounds)
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let state = self.lock();
        let kept = state.partition(partition)?;
        kept.state.check_readable(topic, partition, from_offset)?;
        let mut bytes = 0;
        let mut records = Vec::new();
        for record in kept.records[topic as usize].iter().skip(from_offset as usize).take(limit.records_max) {
            bytes += record.value.len();
            records.push(record.clone());
            if bytes >= limit.bytes_max {
                break;
            }
        }
        Ok(records)
    }

    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        Ok(self.lock().partition(partition)?.state.committed.clone())
    }

    fn refresh(&self) -> Result<(), LogError> {
        Ok(())
    }
}

impl AppendLog for MemoryLog {
    fn append(&self, records: Vec<NewRecord>) -> Result<Vec<Position>, LogError> {
        let now_ms = self.clock.now_ms();
        let mut state = self.lock();
        for record in &records {
            state.partition(record.partition)?;
        }
        let fault = match state.append_faults.pop_front() {
            Some(AppendFault::Lost(error)) => return Err(error),
            Some(AppendFault::Delayed(error)) => {
                state.delayed_appends.extend(records);
                return Err(error);
            }
            fault => fault,
        };
        let delayed = std::mem::take(&mut state.delayed_appends);
        let mut append_all = |records: Vec<NewRecord>| -> Result<Vec<Position>, LogError> {
            let mut positions = Vec::with_capacity(records.len());
            for record in records {
                positions.push(state.partition_mut(record.partition)?.push(Topic::Events, record, now_ms));
            }
            Ok(positions)
        };
        if let Some(AppendFault::Doubled) = fault {
            append_all(records.clone())?;
        }
        let positions = append_all(records)?;
        append_all(delayed)?;
        match fault {
            Some(AppendFault::Kept(error)) => Err(error),
            _ => Ok(positions),
        }
    }
}

impl ProcessLog for MemoryLog {
    fn acquire(&self, partition: u32) -> Result<(Epoch, Committed), LogError> {
        let now_ms = self.clock.now_ms();
        let mut state = self.lock();
        let kept = state.partition_mut(partition)?;
        // Who acquires a partition waits for what its owner before had under way.
        kept.settle_delayed(partition, now_ms);
        Ok((kept.state.acquire(), kept.state.committed.clone()))
    }

    fn commit(&self, partition: u32, epoch: Epoch, outputs: Vec<Output>, committed: Committed) -> Commit {
        let now_ms = self.clock.now_ms();
        let mut state = self.lock();
        let state = &mut *state;
        let Some(kept) = state.partitions.get_mut(partition as usize) else {
            return Commit::Aborted(LogError::NoPartition(partition).to_string());
        };
        if let Some(refusal) = kept.state.commit_refusal(epoch, &outputs, &committed) {
            return refusal;
        }
        if kept.delayed.is_some() {
            return Commit::Aborted("the commit before it is still on its way".to_owned());
        }
        match state.commit_faults.pop_front() {
            None => {
                kept.apply(partition, outputs, committed, now_ms);
                Commit::Committed
            }
            Some(CommitFault::Aborted) => Commit::Aborted("told to abort".to_owned()),
            Some(CommitFault::UnknownApplied) => {
                kept.apply(partition, outputs, committed, now_ms);
                Commit::Unknown("told not to say".to_owned())
            }
            Some(CommitFault::UnknownLost) => Commit::Unknown("told not to say".to_owned()),
            Some(CommitFault::UnknownDelayed) => {
                kept.delayed = Some((outputs, committed));
                Commit::Unknown("told not to say".to_owned())
            }
            Some(CommitFault::Fenced) => {
                kept.state.acquire();
                Commit::Fenced
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn event(value: &str) -> NewRecord {
        NewRecord { partition: 0, key: vec![], headers: vec![], value: value.into(), append_time_ms: None }
    }

    fn log() -> MemoryLog {
        MemoryLog::create(Incarnation([0; 16]), 1, vec![event("first")], Arc::new(ManualClock::new(1))).unwrap()
    }

    /// What the simulator injects must do to the log exactly what its name says, or it proves nothing.
    #[test]
    fn a_commit_fails_as_it_was_told_to() {
        for (fault, applied, usable) in [
            (CommitFault::Aborted, false, true),
            (CommitFault::UnknownApplied, true, true),
            (CommitFault::UnknownLost, false, true),
            (CommitFault::Fenced, false, false),
        ] {
            let log = log();
            let (epoch, _) = log.acquire(0).unwrap();
            let commit = || {
                let output = Output { topic: Topic::Changes, key: vec![], headers: vec![], value: vec![] };
                log.commit(0, epoch, vec![output], Committed { next_offset: 1, metadata: vec![1] })
            };
            log.fail_next_commit(fault);
            match (fault, commit()) {
                (CommitFault::Aborted, Commit::Aborted(_)) | (CommitFault::Fenced, Commit::Fenced) => {}
                (CommitFault::UnknownApplied | CommitFault::UnknownLost, Commit::Unknown(_)) => {}
                (_, answer) => panic!("{fault:?} was answered with {answer:?}"),
            }
            let ends =
                |log: &MemoryLog| (log.bounds(Topic::Changes, 0).unwrap().end, log.committed(0).unwrap().next_offset);
            assert_eq!(ends(&log), if applied { (1, 1) } else { (0, 0) }, "{fault:?}");
            assert_eq!(commit(), if usable { Commit::Committed } else { Commit::Fenced }, "{fault:?}");
        }
    }

    /// A commit on its way is seen when it lands: when it is told to, else when someone acquires the partition, and never
    /// twice. Until then its committer can commit nothing more.
    #[test]
    fn a_delayed_commit_lands_once() {
        for lands_by_itself in [false, true] {
            let log = log();
            let (epoch, _) = log.acquire(0).unwrap();
            let commit = |next_offset| {
                let output = Output { topic: Topic::Changes, key: vec![], headers: vec![], value: vec![] };
                log.commit(0, epoch, vec![output], Committed { next_offset, metadata: vec![] })
            };
            log.fail_next_commit(CommitFault::UnknownDelayed);
            assert!(matches!(commit(1), Commit::Unknown(_)));
            assert!(matches!(commit(1), Commit::Aborted(_)));
            assert_eq!(log.bounds(Topic::Changes, 0).unwrap().end, 0);
            assert_eq!(log.committed(0).unwrap().next_offset, 0);
            if lands_by_itself {
                assert!(log.settle_delayed(0).unwrap());
                assert_eq!(log.bounds(Topic::Changes, 0).unwrap().end, 1);
            }
            assert_eq!(log.acquire(0).unwrap().1.next_offset, 1);
            assert_eq!(log.bounds(Topic::Changes, 0).unwrap().end, 1);
            assert!(!log.settle_delayed(0).unwrap());
            assert_eq!(commit(1), Commit::Fenced);
        }
    }

    #[test]
    fn an_append_fails_as_it_was_told_to() {
        let log = log();
        let same = log.clone();
        same.fail_next_append(AppendFault::Lost(LogError::NotAccepting("told".to_owned())));
        same.fail_next_append(AppendFault::Kept(LogError::Io("told".to_owned())));
        assert!(matches!(log.append(vec![event("a")]), Err(LogError::NotAccepting(_))));
        assert!(matches!(log.append(vec![event("b")]), Err(LogError::Io(_))));
        log.append(vec![event("c")]).unwrap();
        same.fail_next_append(AppendFault::Doubled);
        assert_eq!(log.append(vec![event("d")]).unwrap(), [Position { partition: 0, offset: 4 }]);
        same.fail_next_append(AppendFault::Delayed(LogError::Io("told".to_owned())));
        assert!(matches!(log.append(vec![event("e")]), Err(LogError::Io(_))));
        assert_eq!(log.bounds(Topic::Events, 0).unwrap().end, 5);
        assert_eq!(log.append(vec![event("f")]).unwrap(), [Position { partition: 0, offset: 5 }]);
        assert_eq!(log.append(vec![event("g")]).unwrap(), [Position { partition: 0, offset: 7 }]);
        same.fail_next_append(AppendFault::Doubled);
        assert_eq!((same.forget_faults(), same.forget_faults()), (1, 0));
        let limit = ReadLimit { records_max: 19, bytes_max: 19 };
        let values: Vec<_> = same.read(Topic::Events, 0, 1, limit).unwrap().into_iter().map(|r| r.value).collect();
        assert_eq!(values, [b"b", b"c", b"d", b"d", b"f", b"e", b"g"]);
    }
}
