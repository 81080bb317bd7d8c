//! The log that a command reads: of a data directory, or on brokers.

use std::time::Duration;

use recant_eventlog::{
    Bounds, Committed, LogError, ReadLimit, ReadLog, Record, Topic, embedded::Follower, kafka::KafkaLog,
};
use recant_gateway::host::TimedLog;
use recant_proto::position::Incarnation;

/// A log to read and to follow.
// There is one of it in a process.
#[allow(clippy::large_enum_variant)]
pub enum ReadableLog {
    /// Of a data directory.
    Embedded(Follower),
    /// On brokers.
    Kafka(KafkaLog),
}

impl ReadableLog {
    fn any(&self) -> &dyn ReadLog {
        match self {
            ReadableLog::Embedded(log) => log,
            ReadableLog::Kafka(log) => log,
        }
    }

    /// Waits so long, or until there may be more from an offset on.
    pub fn wait(&self, topic: Topic, partition: u32, from_offset: u64, timeout: Duration) -> Result<(), LogError> {
        match self {
            ReadableLog::Embedded(log) => {
                std::thread::sleep(timeout);
                log.refresh()
            }
            ReadableLog::Kafka(log) => log.wait(topic, partition, from_offset, timeout),
        }
    }
}

impl TimedLog for ReadableLog {
    fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        match self {
            ReadableLog::Embedded(log) => log.find_by_time(partition, log_time_ms),
            ReadableLog::Kafka(log) => log.find_by_time(partition, log_time_ms),
        }
    }
}

impl ReadLog for ReadableLog {
    fn incarnation(&self) -> Incarnation {
        self.any().incarnation()
    }

    fn partitions(&self) -> u32 {
        self.any().partitions()
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        self.any().bounds(topic, partition)
    }

    fn recent_end(&self, topic: Topic, partition: u32) -> Result<u64, LogError> {
        self.any().recent_end(topic, partition)
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        self.any().read(topic, partition, from_offset, limit)
    }

    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        self.any().committed(partition)
    }

    fn refresh(&self) -> Result<(), LogError> {
        self.any().refresh()
    }
}
