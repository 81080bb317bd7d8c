//! The database of the log: its column families, its keys and values, and all reading and writing of them.
//!
//! | family | key | value |
//! |---|---|---|
//! | `events`, `changes`, `rejected` | partition, u32, offset, u64 | a record (`record.rs`) |
//! | `meta` | `format` | the format's version, u32 |
//! | `meta` | `log` | incarnation, 16 bytes, number of partitions, u32 |
//! | `meta` | `partition`, u32 | for events, changes and rejected each: earliest offset, u64, end, u64, last append time, i64; then epoch, u64, committed offset, u64, metadata to the end |
//!
//! Numbers are big endian, so that keys sort as offsets do. A batch writes its records piece by piece, and with the last
//! piece the state of their partitions: what lies below an end is there, without gaps. What lies at an end or above it is of
//! a batch that was interrupted; it is not seen, and is written over. A database without `format` is one whose creation was
//! interrupted.
//!
//! Each piece is on disk before the next is written. Pieces may come to lie in several write-ahead logs, which a system
//! writes back in any order: after a loss of power the last piece could be there without one before it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use recant_proto::position::{Incarnation, Position};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::properties::{self, PropName};
use rocksdb::{ColumnFamily, DB, Direction, ErrorKind, IteratorMode, Options, ReadOptions, WriteBatch, WriteOptions};

use super::seal::{self, Files, Sealed, Sealer};
use super::{TableUse, durable, failed, holder, record, settings};
use super::{committer::WriterOptions, settings::Tail};
use crate::partition::{Extent, PartitionState};
use crate::{Bounds, Committed, LogError, ReadLimit, Record, Topic};

/// The version of this layout.
const FORMAT: u32 = 1;

pub(super) const META: &str = "meta";
pub(super) const RECORD_FAMILIES: [&str; 3] = ["events", "changes", "rejected"];

/// RocksDB's name for the database.
pub(super) const IDENTITY_FILE: &str = "IDENTITY";

const FORMAT_KEY: &[u8] = b"format";
const LOG_KEY: &[u8] = b"log";

/// What is fixed when a log is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) incarnation: Incarnation,
    pub(super) partitions: u32,
}

/// The open database.
pub(super) struct Tables {
    db: DB,
    /// Of the writer; nothing more is sealed after a write that failed.
    sealer: Mutex<Option<Sealer>>,
    /// Of the writer; let go after the database is closed.
    _lock: Option<File>,
}

/// What becomes durable, and is seen, together.
pub(super) struct Batch {
    /// A piece takes no further record once it holds so many bytes.
    piece_bytes: usize,
    /// Pieces that are full, of records alone.
    full: Vec<WriteBatch>,
    last: WriteBatch,
}

impl Batch {
    pub(super) fn new(piece_bytes: usize) -> Batch {
        Batch { piece_bytes, full: Vec::new(), last: WriteBatch::default() }
    }
}

impl Tables {
    /// Opens the database to write, making what is missing of it; a log that is already there is an error.
    pub(super) fn create(dir: &Path, writer: &WriterOptions) -> Result<Tables, LogError> {
        let already = || LogError::Format(format!("{} already holds a log; use another directory", dir.display()));
        durable::create_directory(dir).map_err(|error| failed(format!("{}: {error}", dir.display())))?;
        if let Err(error @ LogError::Format(_)) = check_families(dir) {
            return Err(error);
        }
        let lock = holder::lock(dir)?;
        let (sealed, tail) = check_files(dir)?;
        check_families(dir)?;
        let tables = Self::open_to_write(dir, lock, true, tail, writer)?;
        if tables.check_format(dir)? {
            return Err(already());
        }
        tables.check_reaches(dir, sealed)?;
        Ok(tables)
    }

    /// Opens the database of an existing log to write.
    pub(super) fn open(dir: &Path, writer: &WriterOptions) -> Result<Tables, LogError> {
        if !has_database(dir)? {
            check_files(dir)?;
            return Err(absent(dir));
        }
        let lock = holder::lock(dir)?;
        let (sealed, tail) = check_files(dir)?;
        check_complete(dir)?;
        let tables = Self::open_to_write(dir, lock, false, tail, writer)?;
        tables.check_created(dir)?;
        tables.check_reaches(dir, sealed)?;
        Ok(tables)
    }

    /// Opens the database that another process writes, to read. `own_dir` is for what RocksDB writes as it does so.
    pub(super) fn follow(dir: &Path, own_dir: &Path) -> Result<Tables, LogError> {
        let (sealed, _) = check_files(dir)?;
        check_complete(dir)?;
        check_tables(dir)?;
        // A follower's write buffers hold what the writer's hold, whatever their own size is.
        let families = settings::families(settings::WRITE_BUFFER_BYTES, None);
        let db = DB::open_cf_descriptors_as_secondary(&settings::follower(), dir, own_dir, families)
            .map_err(|error| io_in(dir, error))?;
        let tables = Tables { db, sealer: Mutex::new(None), _lock: None };
        tables.check_created(dir)?;
        // Opening has caught up with what was there when the seal was read, and more.
        tables.check_reaches(dir, sealed)?;
        Ok(tables)
    }

    /// What tells this database from another that was later put in its place: the name that RocksDB gave it, and the file
    /// that holds the name, since a copy of the database has the same name.
    pub(super) fn identity(dir: &Path) -> Result<Vec<u8>, LogError> {
        let path = dir.join(IDENTITY_FILE);
        let name_and_file = std::fs::read(&path).and_then(|name| Ok((name, std::fs::metadata(&path)?.ino())));
        match name_and_file {
            Ok((name, file)) => Ok([name, file.to_be_bytes().to_vec()].concat()),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                // Who writes next makes it anew from the manifest.
                if has_database(dir)? { Ok(Vec::new()) } else { Err(absent(dir)) }
            }
            Err(error) => Err(LogError::Io(format!("{}: {error}", dir.display()))),
        }
    }

    fn open_to_write(
        dir: &Path,
        lock: File,
        create: bool,
        tail: Tail,
        writer: &WriterOptions,
    ) -> Result<Tables, LogError> {
        let shared = writer.shared.as_ref();
        let families = settings::families(writer.write_buffer_bytes, shared);
        match DB::open_cf_descriptors(&settings::writer(create, tail, shared), dir, families) {
            Ok(db) => Ok(Tables { db, sealer: Mutex::new(Some(Sealer::of_synced(dir))), _lock: Some(lock) }),
            Err(error) if is_lock(&error) => Err(holder::held(dir)),
            Err(error) => Err(io_in(dir, error)),
        }
    }

    fn check_created(&self, dir: &Path) -> Result<(), LogError> {
        if self.check_format(dir)? { Ok(()) } else { Err(absent(dir)) }
    }

    /// Refuses a database that does not hold all that was acknowledged.
    fn check_reaches(&self, dir: &Path, sealed: Option<Sealed>) -> Result<(), LogError> {
        let reached = self.db.latest_sequence_number();
        match sealed {
            Some(sealed) if reached < sealed.sequence => {
                let lost = sealed.sequence - reached;
                Err(damaged(dir, format!("its last {lost} writes were acknowledged and cannot be read")))
            }
            _ => Ok(()),
        }
    }

    /// Whether there is a log, which must be one that we understand.
    fn check_format(&self, dir: &Path) -> Result<bool, LogError> {
        match self.meta(FORMAT_KEY)? {
            // The first batch, which is sealed, makes the log.
            None if seal::is_of_writes(dir) => Err(damaged(dir, "its format and name are missing".to_owned())),
            None => Ok(false),
            Some(value) => check_version(dir, &value).map(|()| true),
        }
    }

    pub(super) fn header(&self) -> Result<Header, LogError> {
        let value = self.meta(LOG_KEY)?.ok_or_else(|| unreadable("log"))?;
        let mut rest = Fields(&value);
        let fields = rest.array().zip(rest.array()).ok_or_else(|| unreadable("log"))?;
        Ok(Header { incarnation: Incarnation(fields.0), partitions: u32::from_be_bytes(fields.1) })
    }

    pub(super) fn partition_state(&self, partition: u32) -> Result<PartitionState, LogError> {
        let value = self.meta(&partition_key(partition))?.ok_or(LogError::NoPartition(partition))?;
        decode_state(&value).ok_or_else(|| unreadable("state of a partition"))
    }

    /// Records of these offsets, all of which must be there.
    pub(super) fn read(
        &self,
        topic: Topic,
        partition: u32,
        offsets: Range<u64>,
        limit: ReadLimit,
    ) -> Result<Vec<Record>, LogError> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(record_key(partition, offsets.end));
        let start = record_key(partition, offsets.start);
        let mode = IteratorMode::From(&start, Direction::Forward);
        let mut found = self.db.iterator_cf_opt(self.family(name(topic))?, options, mode);
        for offset in offsets.take(limit.records_max) {
            let position = Position { partition, offset };
            let damaged = |detail| LogError::Damaged { position, detail };
            let (key, value) = match found.next() {
                None => return Err(damaged("it is missing".to_owned())),
                Some(Err(error)) if is_damage(&error) => return Err(damaged(error.into_string())),
                Some(found) => found.map_err(|error| self.failed(error))?,
            };
            if *key != record_key(partition, offset) {
                return Err(damaged("it is missing".to_owned()));
            }
            let record = record::decode(position, &value).map_err(damaged)?;
            bytes += record.value.len();
            records.push(record);
            if bytes >= limit.bytes_max {
                break;
            }
        }
        Ok(records)
    }

    /// The first event of this time or later within these bounds, by halving: append times never fall.
    pub(super) fn find_by_time(&self, partition: u32, bounds: Bounds, log_time_ms: i64) -> Result<u64, LogError> {
        let Bounds { earliest: mut low, end: mut high } = bounds;
        let family = self.family(name(Topic::Events))?;
        while low < high {
            let middle = low + (high - low) / 2;
            let damaged = |detail| LogError::Damaged { position: Position { partition, offset: middle }, detail };
            let value = self.db.get_pinned_cf(family, record_key(partition, middle));
            let value = value.map_err(|error| self.failed(error))?;
            let value = value.ok_or_else(|| damaged("it is missing".to_owned()))?;
            if record::decode_append_time(&value).map_err(damaged)? < log_time_ms {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// For a follower: sees what the writer has written since; `follower.rs` has what to mind.
    pub(super) fn catch_up(&self) -> Result<(), LogError> {
        self.db.try_catch_up_with_primary().map_err(|error| self.failed(error))
    }

    pub(super) fn put_header(&self, batch: &mut Batch, header: Header) -> Result<(), LogError> {
        let meta = self.family(META)?;
        batch.last.put_cf(meta, FORMAT_KEY, FORMAT.to_be_bytes());
        let value = [&header.incarnation.0[..], &header.partitions.to_be_bytes()].concat();
        batch.last.put_cf(meta, LOG_KEY, value);
        Ok(())
    }

    pub(super) fn put_state(&self, batch: &mut Batch, partition: u32, state: &PartitionState) -> Result<(), LogError> {
        batch.last.put_cf(self.family(META)?, partition_key(partition), encode_state(state));
        Ok(())
    }

    /// Before the states of a batch are put, since a record that makes its piece full begins another.
    pub(super) fn put_record(
        &self,
        batch: &mut Batch,
        topic: Topic,
        at: Position,
        record: &[u8],
    ) -> Result<(), LogError> {
        if batch.last.size_in_bytes() >= batch.piece_bytes {
            batch.full.push(std::mem::take(&mut batch.last));
        }
        batch.last.put_cf(self.family(name(topic))?, record_key(at.partition, at.offset), record);
        Ok(())
    }

    /// Writes a batch, and returns when it is on disk. Readers of this process see it only then.
    pub(super) fn write(&self, batch: Batch) -> Result<(), LogError> {
        let written = self.write_pieces(batch);
        let mut sealer = self.sealer.lock().unwrap_or_else(PoisonError::into_inner);
        match &written {
            Ok(()) => sealer.iter_mut().for_each(|sealer| sealer.seal(self.db.latest_sequence_number())),
            // What is in the files now is not acknowledged.
            Err(_) => *sealer = None,
        }
        written
    }

    fn write_pieces(&self, batch: Batch) -> Result<(), LogError> {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        for piece in batch.full.into_iter().chain([batch.last]) {
            self.db.write_opt(piece, &options).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// How often RocksDB has failed in the background since the database was opened.
    pub(super) fn background_failures(&self) -> u64 {
        self.property(properties::BACKGROUND_ERRORS)
    }

    /// Whether writes are held back altogether, until tables are written.
    pub(super) fn is_held_back(&self) -> bool {
        self.property(properties::IS_WRITE_STOPPED) > 0
    }

    /// Lets writes that are held back fail. Nothing can be written from now on.
    pub(super) fn end_writes(&self) {
        self.db.cancel_all_background_work(false);
    }

    /// Of the whole database, which any of its families answers for. One that is not known counts as 0.
    fn property(&self, name: &PropName) -> u64 {
        self.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }

    /// Whether every file that belongs to the database is there, with its length.
    pub(super) fn check_files(dir: &Path) -> Result<(), LogError> {
        check_complete(dir)?;
        check_tables(dir)
    }

    /// Makes a database of the same content in a directory that does not exist; of one moment, whatever is written meanwhile.
    pub(super) fn checkpoint(&self, to: &Path) -> Result<(), LogError> {
        Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(to))
            .map_err(|error| self.failed(error))
    }

    /// The names of the files that hold tables and are still needed.
    pub(super) fn live_files(&self) -> Result<Vec<String>, LogError> {
        let files = self.db.live_files().map_err(|error| self.failed(error))?;
        Ok(files.into_iter().map(|file| file.name.trim_start_matches('/').to_owned()).collect())
    }

    /// What each column family of records takes.
    pub(super) fn disk_use(&self) -> Result<Vec<TableUse>, LogError> {
        let of = |name: &&str| -> Result<TableUse, LogError> {
            let family = self.family(name)?;
            let number = |property| {
                Ok(self
                    .db
                    .property_int_value_cf(family, property)
                    .map_err(|error| self.failed(error))?
                    .unwrap_or_default())
            };
            Ok(TableUse {
                table: (*name).to_owned(),
                file_bytes: number(properties::LIVE_SST_FILES_SIZE)?,
                memory_bytes: number(properties::CUR_SIZE_ALL_MEM_TABLES)?,
                keys: number(properties::ESTIMATE_NUM_KEYS)?,
            })
        };
        RECORD_FAMILIES.iter().chain([&META]).map(of).collect()
    }

    fn meta(&self, key: &[u8]) -> Result<Option<Vec<u8>>, LogError> {
        self.db.get_cf(self.family(META)?, key).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: rocksdb::Error) -> LogError {
        io_in(self.db.path(), error)
    }

    fn family(&self, name: &str) -> Result<&ColumnFamily, LogError> {
        self.db.cf_handle(name).ok_or_else(|| LogError::Format(format!("the log has no column family {name}")))
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        // RocksDB's own threads may otherwise outlive what they use.
        self.db.cancel_all_background_work(true);
        // They may have changed the manifest since the last write.
        let sealer = self.sealer.get_mut().unwrap_or_else(PoisonError::into_inner);
        sealer.iter_mut().for_each(|sealer| sealer.seal(self.db.latest_sequence_number()));
    }
}

/// Whether there is a database, of whatever kind.
fn has_database(dir: &Path) -> Result<bool, LogError> {
    match dir.join("CURRENT").try_exists() {
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(false),
        found => found.map_err(|error| LogError::Io(format!("{}: {error}", dir.display()))),
    }
}

/// Refuses a database that is not, or not yet, a whole log.
fn check_complete(dir: &Path) -> Result<(), LogError> {
    let names = check_families(dir)?;
    let complete = RECORD_FAMILIES.iter().chain([&META]).all(|ours| names.iter().any(|name| name == ours));
    if complete { Ok(()) } else { Err(absent(dir)) }
}

/// The column families that are there, all of which must be ours; none if there is no database.
fn check_families(dir: &Path) -> Result<Vec<String>, LogError> {
    if !has_database(dir)? {
        return Ok(Vec::new());
    }
    let names = DB::list_cf(&Options::default(), dir).map_err(|error| io_in(dir, error))?;
    let known = |name: &String| name == "default" || name == META || RECORD_FAMILIES.contains(&name.as_str());
    if names.iter().all(known) {
        return Ok(names);
    }
    // A newer format may have families that we do not know; it still says its version where every version does.
    if names.iter().any(|name| name == META) {
        let failed = |error| io_in(dir, error);
        let newer = DB::open_cf_for_read_only(&settings::reader(), dir, [META], false).map_err(failed)?;
        let value = newer.cf_handle(META).map(|meta| newer.get_cf(meta, FORMAT_KEY));
        let value = value.transpose().map_err(failed)?.flatten();
        if let Some(value) = value {
            check_version(dir, &value)?;
        }
    }
    Err(LogError::Format(format!(
        "{} holds a database that is not a log (families {})",
        dir.display(),
        names.join(", ")
    )))
}

fn check_version(dir: &Path, value: &[u8]) -> Result<(), LogError> {
    match value.try_into().map(u32::from_be_bytes) {
        Ok(FORMAT) => Ok(()),
        Ok(other) => Err(LogError::Format(format!(
            "{} holds a log of format {other}; this recant reads format {FORMAT}: use the version that wrote it, or a newer one",
            dir.display()
        ))),
        Err(_) => Err(unreadable("format")),
    }
}

fn absent(dir: &Path) -> LogError {
    LogError::Absent(dir.display().to_string())
}

fn unreadable(what: &str) -> LogError {
    LogError::Format(format!("the log's own {what} cannot be read"))
}

/// An error of RocksDB, which does not always say of which database.
fn io_in(dir: &Path, error: rocksdb::Error) -> LogError {
    if is_damage(&error) {
        return damaged(dir, error.into_string());
    }
    failed(format!("{}: {}", dir.display(), error.into_string()))
}

/// Whether a file is not what it was, rather than that the disk failed. RocksDB has no kind of its own for one that is gone.
fn is_damage(error: &rocksdb::Error) -> bool {
    match error.kind() {
        ErrorKind::Corruption => true,
        ErrorKind::IOError => error.as_ref().contains("No such file or directory"),
        _ => false,
    }
}

fn damaged(dir: &Path, detail: String) -> LogError {
    LogError::DamagedFiles { path: dir.display().to_string(), detail }
}

/// Whether the tables that the manifest names are there. A secondary instance goes back to the last moment for which they
/// are, and says nothing.
fn check_tables(dir: &Path) -> Result<(), LogError> {
    let families = settings::families(settings::WRITE_BUFFER_BYTES, None);
    DB::open_cf_descriptors_read_only(&settings::reader(), dir, families, false).map_err(|error| io_in(dir, error))?;
    Ok(())
}

/// Holds the files against their seal: what was sealed, and how much may be torn.
fn check_files(dir: &Path) -> Result<(Option<Sealed>, Tail), LogError> {
    match seal::check(dir).map_err(|error| LogError::Io(format!("{}: {error}", dir.display())))? {
        Files::None => Ok((None, Tail::MayBeTorn)),
        Files::Sound { sealed, ends_as_sealed: true } => Ok((sealed, Tail::IsWhole)),
        Files::Sound { sealed, ends_as_sealed: false } => Ok((sealed, Tail::MayBeTorn)),
        Files::Damaged(detail) => Err(damaged(dir, detail)),
    }
}

/// RocksDB has no kind of error of its own for a lock that another holds; these are its two texts, for another process and
/// for this one.
fn is_lock(error: &rocksdb::Error) -> bool {
    let text = error.as_ref();
    error.kind() == ErrorKind::IOError
        && (text.contains("While lock file") || text.contains("lock hold by current process"))
}

fn name(topic: Topic) -> &'static str {
    RECORD_FAMILIES[topic as usize]
}

fn record_key(partition: u32, offset: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&partition.to_be_bytes());
    key[4..].copy_from_slice(&offset.to_be_bytes());
    key
}

fn partition_key(partition: u32) -> Vec<u8> {
    [&b"partition"[..], &partition.to_be_bytes()].concat()
}

fn encode_state(state: &PartitionState) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96 + state.committed.metadata.len());
    for topic in Topic::ALL {
        let Extent { bounds, last_append_time_ms } = state.extent(topic);
        bytes.extend(bounds.earliest.to_be_bytes());
        bytes.extend(bounds.end.to_be_bytes());
        bytes.extend(last_append_time_ms.to_be_bytes());
    }
    bytes.extend(state.epoch.to_be_bytes());
    bytes.extend(state.committed.next_offset.to_be_bytes());
    bytes.extend(&state.committed.metadata);
    bytes
}

fn decode_state(bytes: &[u8]) -> Option<PartitionState> {
    let mut rest = Fields(bytes);
    let mut state = PartitionState::default();
    for topic in Topic::ALL {
        *state.extent_mut(topic) = Extent {
            bounds: Bounds { earliest: rest.number()?, end: rest.number()? },
            last_append_time_ms: i64::from_be_bytes(rest.array()?),
        };
    }
    state.epoch = rest.number()?;
    state.committed = Committed { next_offset: rest.number()?, metadata: rest.0.to_vec() };
    Some(state)
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What version 1 wrote about a partition must stay readable for ever.
    #[test]
    fn the_state_of_a_partition_is_these_bytes() {
        let mut state = PartitionState::default();
        state.epoch = 5;
        *state.extent_mut(Topic::Events) =
            Extent { bounds: Bounds { earliest: 1, end: 9 }, last_append_time_ms: 1_700_000_000_123 };
        state.committed = Committed { next_offset: 7, metadata: b"hash".to_vec() };
        let empty = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0";
        let events = b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x09\0\0\x01\x8b\xcf\xe5\x68\x7b";
        let committed = b"\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x07hash";
        let golden = [&events[..], empty, empty, committed].concat();
        assert_eq!(encode_state(&state), golden);
        assert_eq!(decode_state(&golden), Some(state));
        assert_eq!(decode_state(&golden[..87]), None);
    }

    #[test]
    fn keys_sort_as_offsets_do() {
        let keys = [(0, 0), (0, 255), (0, 256), (0, u64::MAX), (1, 0), (256, 1)].map(|(p, o)| record_key(p, o));
        assert!(keys.is_sorted());
    }

    /// A newer version that has also added a column family is still told apart from a stranger's database.
    #[test]
    fn a_newer_format_is_refused_by_its_version_even_with_families_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        {
            let mut tables = Tables::create(dir.path(), &WriterOptions::default()).unwrap();
            let mut batch = Batch::new(1 << 20);
            batch.last.put_cf(tables.family(META).unwrap(), FORMAT_KEY, 2_u32.to_be_bytes());
            tables.write(batch).unwrap();
            drop(tables);
            let refused = Tables::open(dir.path(), &WriterOptions::default()).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains("format 2") && refused.contains("format 1"), "{refused}");
            let lock = holder::lock(dir.path()).unwrap();
            tables =
                Tables::open_to_write(dir.path(), lock, false, Tail::MayBeTorn, &WriterOptions::default()).unwrap();
            tables.db.create_cf("tiers", &Options::default()).unwrap();
        }
        let own_dir = tempfile::tempdir().unwrap();
        let refusals = [
            Tables::open(dir.path(), &WriterOptions::default()).map(|_| ()),
            Tables::create(dir.path(), &WriterOptions::default()).map(|_| ()),
            Tables::follow(dir.path(), own_dir.path()).map(|_| ()),
        ];
        for refusal in refusals {
            let refused = refusal.unwrap_err().to_string();
            assert!(refused.contains("format 2") && refused.contains("format 1"), "{refused}");
        }
    }

    #[test]
    fn a_strangers_database_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        drop(DB::open_cf(&options, dir.path(), ["theirs"]).unwrap());
        for refusal in
            [Tables::open(dir.path(), &WriterOptions::default()), Tables::create(dir.path(), &WriterOptions::default())]
        {
            assert!(matches!(refusal.map(|_| ()), Err(LogError::Format(text)) if text.contains("theirs")));
        }
        assert_eq!(DB::list_cf(&options, dir.path()).unwrap(), ["default", "theirs"]);
    }

    /// kill -9 between the making of the database and the first batch.
    #[test]
    fn an_interrupted_creation_is_no_log_and_can_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        drop(Tables::create(dir.path(), &WriterOptions::default()).unwrap());
        assert!(matches!(Tables::open(dir.path(), &WriterOptions::default()), Err(LogError::Absent(_))));
        assert!(Tables::create(dir.path(), &WriterOptions::default()).is_ok());
    }
}
