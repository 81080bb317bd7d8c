//! The log beneath a host, whichever it is: read by those who follow, and by those who ask what was.

use recant_eventlog::{
    LogError, ReadLog,
    embedded::{EmbeddedLog, Follower},
    kafka::KafkaLog,
};

/// A log whose events are found by time, too.
pub trait TimedLog: ReadLog {
    /// The first event that the log took at this time of its clock or later; the end if there is none.
    fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError>;
}

/// A log that threads share.
pub trait SharedLog: TimedLog + Send + Sync {}

impl<L: TimedLog + Send + Sync> SharedLog for L {}

impl TimedLog for EmbeddedLog {
    fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        EmbeddedLog::find_by_time(self, partition, log_time_ms)
    }
}

impl TimedLog for Follower {
    fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        Follower::find_by_time(self, partition, log_time_ms)
    }
}

impl TimedLog for KafkaLog {
    fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        KafkaLog::find_by_time(self, partition, log_time_ms)
    }
}
