//! The brokers as readers and agents see them.

use recant_eventlog::{AppendLog, Bounds, Committed, LogError, NewRecord, ReadLimit, ReadLog, Record, Topic};
use recant_proto::position::{Incarnation, Position};

use super::brokers::{Brokers, Entry, Stage, Transaction};
use crate::sim::mishaps::TOLD_TO;

/// As one reads who sees only what is committed.
impl ReadLog for Brokers {
    fn incarnation(&self) -> Incarnation {
        self.state().incarnation
    }

    fn partitions(&self) -> u32 {
        self.state().partitions.len() as u32
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        Ok(Bounds { earliest: 0, end: self.state().stable_end(topic, partition) as u64 })
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let state = self.state();
        let end = state.stable_end(topic, partition);
        if from_offset > end as u64 {
            let bounds = Bounds { earliest: 0, end: end as u64 };
            return Err(LogError::OutOfRange { partition, offset: from_offset, bounds });
        }
        let (mut records, mut bytes) = (Vec::new(), 0);
        for entry in &state.partitions[partition as usize][topic as usize][from_offset as usize..end] {
            if records.len() >= limit.records_max || bytes >= limit.bytes_max {
                break;
            }
            let Entry::Record { record, transaction } = entry else { continue };
            let is_aborted =
                transaction.is_some_and(|at| state.transactions[at].stage == Stage::Ended { commits: false });
            if !is_aborted {
                bytes += record.value.len();
                records.push(record.clone());
            }
        }
        Ok(records)
    }

    /// As the group answers who asks for what is stable.
    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        let state = self.state();
        let is_pending = |transaction: &Transaction| {
            transaction.partition == partition
                && transaction.position.is_some()
                && !matches!(transaction.stage, Stage::Ended { .. })
        };
        if !state.fences_nobody && state.transactions.iter().any(is_pending) {
            return Err(LogError::Unreachable(format!("a position is not decided: {TOLD_TO}")));
        }
        Ok(state.position(partition, |stage| stage == Stage::Ended { commits: true }))
    }

    fn refresh(&self) -> Result<(), LogError> {
        Ok(())
    }
}

impl AppendLog for Brokers {
    fn append(&self, records: Vec<NewRecord>) -> Result<Vec<Position>, LogError> {
        self.append_with(records, None)
    }
}
