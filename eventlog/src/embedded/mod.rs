//! The log on one machine: a RocksDB database in a directory of its own, written by one process and followed by any.
//!
//! What it promises:
//! - An append or commit that is answered is on disk, and survives kill -9 and loss of power. Calls made at the same time
//!   share an fsync (`committer.rs`, which also says what happens when one fails).
//! - Offsets have no gaps, and append times never fall within a topic's partition, whatever the clock does.
//! - Outputs, position and metadata of a commit are in one batch, and only the last to acquire a partition can commit.
//! - One process writes; a second is refused and told who has the log (`holder.rs`). Others read with a [`Follower`].
//! - A full disk or a failed fsync stops it: it says so, takes nothing more, and goes on when it is opened again.
//! - It opens after kill -9 at any moment, also in the midst of its creation, which then counts as not begun. Where its
//!   files are damaged other than by a torn end it refuses to open, or to read the record, rather than lose some; `seal.rs`
//!   tells a torn end from a lost one, and `docs/damage.md` has a table of what was tried.
//!
//! Formats: `tables.rs` has the layout of the database, `record.rs` that of a record, `holder.rs` that of the file
//! `writer`, `seal.rs` that of `seal`; everything else in the directory is RocksDB's, set as `settings.rs` says.

mod committer;
mod compacted;
mod durable;
mod follower;
mod footprint;
mod holder;
mod record;
mod seal;
mod settings;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recant_proto::position::{Incarnation, Position};

pub use self::committer::{Counters, WriterOptions};
pub use self::compacted::EmbeddedCompactedTopic;
pub use self::follower::Follower;
pub use self::footprint::Footprint;
pub use self::seal::{Files, Sealed, Sealer, check as check_sealed};
pub use self::settings::Buffers;

use self::committer::{Committer, encode_events, place_events};
use self::holder::Holder;
use self::tables::{Batch, Header, IDENTITY_FILE, Tables};
use crate::partition::PartitionState;
use crate::{
    AppendLog, Bounds, Clock, Commit, Committed, Epoch, LogError, NewRecord, Output, ProcessLog, ReadLimit, ReadLog,
    Record, Topic,
};

/// What a new log is to be.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Its name, for ever.
    pub incarnation: Incarnation,
    /// How many partitions each topic has, for ever.
    pub partitions: u32,
    /// The events it begins with, which are there as soon as the log is: `LogCreated`, one for each partition.
    pub first_records: Vec<NewRecord>,
    /// The bounds of the writer, this time.
    pub writer: WriterOptions,
}

/// Whether every file that belongs to the log in a directory is there, with its length. A follower cannot be strict about
/// that: it takes a table whose file is missing as it was before. Only for what nobody writes meanwhile; changes nothing.
pub fn check_files(dir: &Path) -> Result<(), LogError> {
    Tables::check_files(dir)
}

/// What a table takes, about: RocksDB's own figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableUse {
    /// Its name.
    pub table: String,
    /// Bytes of the files that hold it, compressed.
    pub file_bytes: u64,
    /// Bytes that are in memory and the write-ahead log alone.
    pub memory_bytes: u64,
    /// An estimate of how many keys it has; too high where many were overwritten.
    pub keys: u64,
}

/// The log, open to write, until it is dropped.
pub struct EmbeddedLog {
    dir: PathBuf,
    header: Header,
    // Dropped in this order: the thread ends, then the file `writer` goes, then the lock.
    committer: Committer,
    _holder: Holder,
    tables: Arc<Tables>,
}

impl EmbeddedLog {
    /// Makes a log in a directory that holds none, and opens it.
    pub fn create(dir: &Path, options: CreateOptions, clock: Arc<dyn Clock>) -> Result<EmbeddedLog, LogError> {
        let CreateOptions { incarnation, partitions, first_records, writer } = options;
        if partitions == 0 {
            return Err(LogError::Format("a log has at least one partition".to_owned()));
        }
        check_partitions(&first_records, partitions)?;
        let events = encode_events(&first_records, writer.request_bytes_max)?;

        let tables = Tables::create(dir, &writer)?;
        let header = Header { incarnation, partitions };
        let mut states = vec![PartitionState::default(); partitions as usize];
        let mut batch = Batch::new(writer.piece_bytes);
        place_events(&tables, &mut batch, &mut states, events, clock.now_ms())?;
        for (partition, state) in (0..partitions).zip(&states) {
            tables.put_state(&mut batch, partition, state)?;
        }
        // From this write on there is a log.
        tables.put_header(&mut batch, header)?;
        tables.write(batch)?;
        tracing::info!(dir = %dir.display(), %incarnation, partitions, "created the log");
        Self::start(dir, header, tables, states, writer, clock)
    }

    /// Opens a log to write.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> Result<EmbeddedLog, LogError> {
        Self::open_with(dir, WriterOptions::default(), clock)
    }

    /// Opens a log to write, within other bounds.
    pub fn open_with(dir: &Path, writer: WriterOptions, clock: Arc<dyn Clock>) -> Result<EmbeddedLog, LogError> {
        let tables = Tables::open(dir, &writer)?;
        let header = tables.header()?;
        let states: Vec<_> =
            (0..header.partitions).map(|partition| tables.partition_state(partition)).collect::<Result<_, _>>()?;
        for (partition, state) in states.iter().enumerate() {
            let Bounds { earliest, end } = state.extent(Topic::Events).bounds;
            let committed = state.committed.next_offset;
            tracing::info!(dir = %dir.display(), partition, earliest, end, committed, "opened the log");
        }
        Self::start(dir, header, tables, states, writer, clock)
    }

    fn start(
        dir: &Path,
        header: Header,
        tables: Tables,
        states: Vec<PartitionState>,
        writer: WriterOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<EmbeddedLog, LogError> {
        let holder = Holder::write(dir).map_err(|error| failed(format!("{}: {error}", dir.display())))?;
        let tables = Arc::new(tables);
        let committer = Committer::start(tables.clone(), states, clock, writer)?;
        Ok(EmbeddedLog { dir: dir.to_owned(), header, committer, _holder: holder, tables })
    }

    /// The first event that the log took at this time of its clock or later; the end if there is none.
    pub fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        let bounds = self.bounds(Topic::Events, partition)?;
        self.tables.find_by_time(partition, bounds, log_time_ms)
    }

    /// Makes a copy of the log, of one moment, in a directory that does not exist; whole tables are linked rather than
    /// copied where the file system can.
    pub fn checkpoint(&self, to: &Path) -> Result<(), LogError> {
        self.tables.checkpoint(to)?;
        // RocksDB leaves this one out, and makes it anew when the copy is opened to write; who reads needs it, too.
        let copied = std::fs::copy(self.dir.join(IDENTITY_FILE), to.join(IDENTITY_FILE));
        copied.map(|_| ()).map_err(|error| LogError::Io(format!("{}: {error}", to.display())))
    }

    /// What each table takes.
    pub fn disk_use(&self) -> Result<Vec<TableUse>, LogError> {
        self.tables.disk_use()
    }

    /// What the writer has done since it was opened.
    pub fn counters(&self) -> Counters {
        self.committer.counters()
    }
}

/// What an error of the system or of RocksDB means; both say in their texts alone that the disk, a quota or a file is full.
fn failed(text: String) -> LogError {
    let is_full = |words: &&str| text.contains(*words);
    if ["No space left on device", "Disk quota exceeded", "File too large"].iter().any(is_full) {
        LogError::NoRoom(text)
    } else {
        LogError::Io(text)
    }
}

/// Refuses records for partitions that do not exist, before any is taken.
fn check_partitions(records: &[NewRecord], partitions: u32) -> Result<(), LogError> {
    match records.iter().find(|record| record.partition >= partitions) {
        None => Ok(()),
        Some(record) => Err(LogError::NoPartition(record.partition)),
    }
}

impl std::fmt::Debug for EmbeddedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedLog").field("dir", &self.dir).field("header", &self.header).finish_non_exhaustive()
    }
}

impl ReadLog for EmbeddedLog {
    fn incarnation(&self) -> Incarnation {
        self.header.incarnation
    }

    fn partitions(&self) -> u32 {
        self.header.partitions
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        Ok(self.tables.partition_state(partition)?.extent(topic).bounds)
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let bounds = self.tables.partition_state(partition)?.check_readable(topic, partition, from_offset)?;
        self.tables.read(topic, partition, from_offset..bounds.end, limit)
    }

    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        Ok(self.tables.partition_state(partition)?.committed)
    }

    fn refresh(&self) -> Result<(), LogError> {
        Ok(())
    }
}

impl AppendLog for EmbeddedLog {
    fn append(&self, records: Vec<NewRecord>) -> Result<Vec<Position>, LogError> {
        check_partitions(&records, self.header.partitions)?;
        self.committer.append(&records)
    }
}

impl ProcessLog for EmbeddedLog {
    fn acquire(&self, partition: u32) -> Result<(Epoch, Committed), LogError> {
        if partition >= self.header.partitions {
            return Err(LogError::NoPartition(partition));
        }
        let (epoch, committed) = self.committer.acquire(partition)?;
        tracing::info!(partition, epoch = epoch.0, next_offset = committed.next_offset, "acquired a partition");
        Ok((epoch, committed))
    }

    fn commit(&self, partition: u32, epoch: Epoch, outputs: Vec<Output>, committed: Committed) -> Commit {
        self.committer.commit(partition, epoch, outputs, committed)
    }
}
