//! An ordered, partitioned log. One set of traits, implemented over RocksDB for one machine ([`embedded`]), over Kafka for
//! many ([`kafka`]), and in memory for tests ([`memory`]).
//!
//! The traits are synchronous and poll-shaped, and time comes in from outside, so that a simulator can stand behind them.

pub mod clock;
pub mod compacted;
pub mod embedded;
pub mod kafka;
pub mod memory;
mod partition;

use recant_proto::{
    input::Input,
    position::{Incarnation, Position},
};

/// The topics of a log; see `recant_proto::names` for what they are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// What agents wrote, and retractions: the truth.
    Events,
    /// Cascades, decisions, digests.
    Changes,
    /// Events that could not be applied.
    Rejected,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Topic; 3] = [Topic::Events, Topic::Changes, Topic::Rejected];
}

/// A record as it lies in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it lies, within its topic.
    pub position: Position,
    /// When the log took it, in ms since 1970; not always rising on Kafka.
    pub append_time_ms: i64,
    /// The space.
    pub key: Vec<u8>,
    /// Names and values, in the order in which they were written.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The event, change or rejection.
    pub value: Vec<u8>,
}

impl Record {
    /// As it is folded.
    pub fn input(&self) -> Input<'_> {
        Input {
            offset: self.position.offset,
            append_time_ms: self.append_time_ms,
            key: &self.key,
            headers: &self.headers,
            value: &self.value,
        }
    }
}

/// A record to append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The partition.
    pub partition: u32,
    /// The space.
    pub key: Vec<u8>,
    /// Names and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The bytes.
    pub value: Vec<u8>,
    /// For a log that is filled from historical data: the time to use instead of the clock's. It never takes the log's
    /// time back: the larger of it and the last record's is used.
    pub append_time_ms: Option<i64>,
}

/// What a batch of events caused: a record for another topic of the same partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Where it goes; never [`Topic::Events`].
    pub topic: Topic,
    /// The space.
    pub key: Vec<u8>,
    /// Names and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The bytes.
    pub value: Vec<u8>,
}

/// Proof of having acquired a partition; a later acquisition by anyone makes it stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// Up to where a partition's events have been processed and their outputs published.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Committed {
    /// The offset of the first event that is not covered.
    pub next_offset: u64,
    /// What the committer wrote beside it.
    pub metadata: Vec<u8>,
}

/// The answer to a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// Outputs and position are durable and visible.
    Committed,
    /// Nothing of it is visible; it may be tried again.
    Aborted(String),
    /// It may or may not have happened: acquire again and look at what is committed.
    Unknown(String),
    /// Another has the partition.
    Fenced,
}

/// Bounds on one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimit {
    /// At most so many records.
    pub records_max: usize,
    /// No further record once this many bytes of values are read; at least one record is returned if there is one.
    pub bytes_max: usize,
}

/// What is kept of a topic in a partition: `earliest <= offset < end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The first offset that is still there.
    pub earliest: u64,
    /// The offset that the next record gets.
    pub end: u64,
}

/// What can go wrong with a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no log in this place.
    #[error("{0} holds no log; write to it first (recant append, recant import) or name another with --data")]
    Absent(String),
    /// Another process writes to it.
    #[error("{path} is being written by another process ({holder}); wait for it, stop it, or read instead")]
    Held {
        /// The directory.
        path: String,
        /// Who holds it, as far as known.
        holder: String,
    },
    /// The directory is of a newer version, or of something else.
    #[error("{0}")]
    Format(String),
    /// The partition does not exist.
    #[error("partition {0} does not exist")]
    NoPartition(u32),
    /// The offset is no longer, or not yet, in the log.
    #[error("offset {offset} of partition {partition} is not in the log (it holds {} to {})", bounds.earliest, bounds.end)]
    OutOfRange {
        /// The partition.
        partition: u32,
        /// What was asked for.
        offset: u64,
        /// What there is.
        bounds: Bounds,
    },
    /// A record cannot be read back.
    #[error(
        "the record at {position} cannot be read: {detail}. Restore the log from a snapshot (recant restore SNAPSHOT --data DIR)"
    )]
    Damaged {
        /// Where it lies.
        position: Position,
        /// What is wrong with it.
        detail: String,
    },
    /// The files are not what they were when something in them was acknowledged.
    #[error(
        "the log in {path} is damaged: {detail}. Restore it from a snapshot (recant restore SNAPSHOT --data DIR); docs/damage.md says what is left without one"
    )]
    DamagedFiles {
        /// The directory.
        path: String,
        /// What is wrong.
        detail: String,
    },
    /// One append or commit holds more than the log takes at once.
    #[error("{bytes} bytes in one append; the log takes at most {bytes_max} at once")]
    TooLarge {
        /// What was to be appended.
        bytes: usize,
        /// The most there may be.
        bytes_max: usize,
    },
    /// The log takes no more for now: its queue is full or it is closing.
    #[error("the log is not accepting: {0}")]
    NotAccepting(String),
    /// The disk is full.
    #[error(
        "there is no room for the log ({0}). What was acknowledged is kept. Make room, start again, and append once more what was not acknowledged: event ids make that safe"
    )]
    NoRoom(String),
    /// A setting of the brokers' clients is not one that can be.
    #[error("{0}")]
    Setting(String),
    /// A topic is not what the log needs.
    #[error("the topic {topic} cannot be used: {detail}")]
    Topic {
        /// The topic.
        topic: String,
        /// What is wrong with it, and what to do.
        detail: String,
    },
    /// The brokers do not answer.
    #[error("the brokers do not answer: {0}")]
    Unreachable(String),
    /// The position up to which a partition was processed is no longer known.
    #[error(
        "the group {group} has no committed position in partition {partition}, and {topic} holds what was published from it: the brokers have forgotten the position (offsets.retention.minutes), and what was published would be again. Commit the offset behind the last event that was published, with `kafka-consumer-groups.sh --reset-offsets`; docs/problems/position_lost.md says how it is found"
    )]
    PositionLost {
        /// The consumer group.
        group: String,
        /// The partition.
        partition: u32,
        /// Where something was published.
        topic: String,
    },
    /// Another process has taken the partition: what was to be written is not.
    #[error("partition {0} has been taken by another process")]
    Taken(u32),
    /// The disk or the network failed.
    #[error("the log failed: {0}")]
    Io(String),
}

/// The reading side, for anyone: events, changes, rejections.
pub trait ReadLog {
    /// The log's name.
    fn incarnation(&self) -> Incarnation;

    /// How many partitions each topic has.
    fn partitions(&self) -> u32;

    /// What is kept.
    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError>;

    /// The end as it was a moment ago, for measures: asking for it costs nothing.
    fn recent_end(&self, topic: Topic, partition: u32) -> Result<u64, LogError> {
        Ok(self.bounds(topic, partition)?.end)
    }

    /// Records from `from_offset` on, in order; none at the end. Offsets may have gaps.
    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError>;

    /// Up to where the partition has been processed.
    fn committed(&self, partition: u32) -> Result<Committed, LogError>;

    /// Sees what other processes have written since; nothing to do where that is always seen.
    fn refresh(&self) -> Result<(), LogError>;
}

/// The writing side, for agents and doors.
pub trait AppendLog {
    /// Appends to [`Topic::Events`]. When it returns they are durable: on disk, or on every in-sync replica. Records of one
    /// call keep their order within a partition. It takes all records or none, but on Kafka, where an error leaves open which
    /// of them are there.
    fn append(&self, records: Vec<NewRecord>) -> Result<Vec<Position>, LogError>;
}

/// The processing side, for the one who drives a partition.
pub trait ProcessLog: ReadLog {
    /// Takes a partition; whoever had it before can commit nothing more.
    fn acquire(&self, partition: u32) -> Result<(Epoch, Committed), LogError>;

    /// Publishes outputs and the position behind the events that caused them, whole or not at all.
    fn commit(&self, partition: u32, epoch: Epoch, outputs: Vec<Output>, committed: Committed) -> Commit;
}

/// The log's clock.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> i64;
}
