//! State in RocksDB: one database a partition, one column family a table.
//!
//! Batches go through the write-ahead log without an fsync: killed, the process loses nothing; after a power cut the state
//! may be behind the log of events, and is folded forward from there. Readers in other processes open the database
//! read-only, and see whole batches only.

mod moment;

use std::{ops::ControlFlow, path::Path, sync::Arc};

use rocksdb::{
    BottommostLevelCompaction, ColumnFamily, CompactOptions, DB, DBPinnableSlice, Direction, IteratorMode, Options,
    ReadOptions, WriteBatch, WriteOptions, properties::BACKGROUND_ERRORS,
};

pub use self::moment::{AtMoment, Reader};
use super::{
    Batch, Entry, Store, StoreError, Visit, WriteStore,
    settings::{self, Buffers, Tuning},
};
use crate::tables::Table;

/// Tables in RocksDB.
pub struct RocksStore {
    database: Arc<DB>,
    /// Kept, since making one for each lookup costs a tenth of it.
    point_reads: ReadOptions,
    /// Whether the database's work in the background ends with this; with its readers it does not.
    is_owner: bool,
    writes: WriteOptions,
}

/// A hand on a store, to make a checkpoint of it from another thread while it is written.
pub struct Checkpointer {
    database: Arc<DB>,
}

impl Checkpointer {
    /// Makes a copy as [`RocksStore::checkpoint`] does, of some moment between the call and its end.
    pub fn checkpoint(&self, to: &Path) -> Result<(), StoreError> {
        checkpoint(&self.database, to)
    }
}

impl RocksStore {
    /// Opens the state of a partition for writing, and creates it if there is none.
    pub fn open(directory: &Path) -> Result<RocksStore, StoreError> {
        Self::open_with(directory, &Tuning::default(), None)
    }

    /// The same, with what it shares with other databases.
    pub fn open_sharing(directory: &Path, shared: &Buffers) -> Result<RocksStore, StoreError> {
        Self::open_with(directory, &Tuning::default(), Some(shared))
    }

    /// The same for a state in the making, which is of no use until it is complete: it lasts once it is flushed
    /// ([`RocksStore::flush`]), and nothing of it need last before.
    pub fn open_unlogged(directory: &Path, shared: &Buffers) -> Result<RocksStore, StoreError> {
        let mut store = Self::open_sharing(directory, shared)?;
        store.writes.disable_wal(true);
        Ok(store)
    }

    /// The same, tuned otherwise.
    pub fn open_with(directory: &Path, tuning: &Tuning, shared: Option<&Buffers>) -> Result<RocksStore, StoreError> {
        let mut options = settings::database(shared);
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let database = DB::open_cf_descriptors(&options, directory, settings::families(tuning, shared))
            .map_err(|error| open_error(directory, &error))?;
        Ok(RocksStore::of(database))
    }

    /// Opens the state of a partition that another process may be writing, as it is now.
    ///
    /// Not as a secondary instance: where a table is missing or is not what it was, that goes back to the last moment for
    /// which all tables are there, applies the write-ahead log on top, and answers wrongly.
    pub fn follow(directory: &Path) -> Result<RocksStore, StoreError> {
        if !directory.join("CURRENT").exists() {
            return Err(StoreError::Absent(directory.display().to_string()));
        }
        Ok(RocksStore::of(open_to_read(directory)?))
    }

    fn of(database: DB) -> RocksStore {
        RocksStore {
            database: Arc::new(database),
            point_reads: ReadOptions::default(),
            writes: WriteOptions::default(),
            is_owner: true,
        }
    }

    /// Reads every table to its end, for damage in what no question has touched; gives the number of rows.
    pub fn read_through(&self) -> Result<u64, StoreError> {
        let mut rows = 0;
        for table in Table::ALL {
            let mut options = ReadOptions::default();
            options.set_total_order_seek(true);
            options.fill_cache(false);
            for entry in self.database.iterator_cf_opt(self.family(*table)?, options, IteratorMode::Start) {
                entry.map_err(|error| self.failed(error))?;
                rows += 1;
            }
        }
        Ok(rows)
    }

    fn failed(&self, error: rocksdb::Error) -> StoreError {
        failed(self.database.path(), &error)
    }

    /// Where tables cannot be written, RocksDB holds writes back in the end, until they can, and says nothing. It has failed in
    /// the background long before that.
    fn check_background(&self) -> Result<(), StoreError> {
        let failures =
            self.database.property_int_value(BACKGROUND_ERRORS).map_err(|error| self.failed(error))?.unwrap_or(0);
        if failures == 0 {
            return Ok(());
        }
        let directory = self.database.path().display();
        Err(StoreError::NoRoom(format!(
            "tables could not be written; {directory}/LOG says why, if it is something else"
        )))
    }

    fn family(&self, table: Table) -> Result<&ColumnFamily, StoreError> {
        self.database
            .cf_handle(table.name())
            .ok_or_else(|| StoreError::Format(format!("the state has no table {}", table.name())))
    }
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        if self.is_owner {
            self.database.cancel_all_background_work(true);
        }
    }
}

fn checkpoint(database: &DB, to: &Path) -> Result<(), StoreError> {
    let failed = |error| failed(database.path(), &error);
    rocksdb::checkpoint::Checkpoint::new(database).map_err(failed)?.create_checkpoint(to).map_err(failed)
}

fn open_to_read(directory: &Path) -> Result<DB, StoreError> {
    let mut options = settings::database(None);
    // Every file is opened at once, and held open, so that the writer may remove what it no longer needs.
    options.set_max_open_files(-1);
    DB::open_cf_descriptors_read_only(&options, directory, settings::families(&Tuning::default(), None), false)
        .map_err(|error| open_error(directory, &error))
}

fn open_error(directory: &Path, error: &rocksdb::Error) -> StoreError {
    let text = error.to_string();
    if text.contains("Column family not found") {
        // The tables are made one by one, and rows come after all of them: this one's making was interrupted, or is not
        // at its end.
        StoreError::Absent(directory.display().to_string())
    } else if error.kind() == rocksdb::ErrorKind::IOError
        && (text.contains("While lock file") || text.contains("lock hold by current process"))
    {
        StoreError::Held(directory.display().to_string())
    } else {
        failed(directory, error)
    }
}

/// The first key after all that begin with a prefix; none if there is no such key.
fn after_all(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// What an error of RocksDB means, which often says it in its text alone: that the disk, a quota or a file is full; or damage,
/// where a file is not what it was or is gone.
fn failed(directory: &Path, error: &rocksdb::Error) -> StoreError {
    let path = directory.display().to_string();
    let text = error.to_string();
    let says = |words: &&str| text.contains(*words);
    if ["No space left on device", "Disk quota exceeded", "File too large"].iter().any(says) {
        return StoreError::NoRoom(format!("{path}: {text}"));
    }
    let is_damage = match error.kind() {
        rocksdb::ErrorKind::Corruption => true,
        rocksdb::ErrorKind::IOError => text.contains("No such file or directory"),
        _ => false,
    };
    if is_damage { StoreError::DamagedFiles { path, detail: text } } else { StoreError::Io(format!("{path}: {text}")) }
}

impl Store for RocksStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.database.get_pinned_cf_opt(self.family(table)?, key, &self.point_reads);
        Ok(found.map_err(|error| self.failed(error))?.map(|value| value.to_vec()))
    }

    fn get_all(&self, table: Table, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let found = self.database.batched_multi_get_cf_opt(self.family(table)?, keys, false, &self.point_reads);
        let value = |found: Result<Option<DBPinnableSlice<'_>>, rocksdb::Error>| {
            Ok(found.map_err(|error| self.failed(error))?.map(|value| value.to_vec()))
        };
        found.into_iter().map(value).collect()
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        if let Some(end) = after_all(prefix) {
            options.set_iterate_upper_bound(end);
        }
        // A raw iterator lends keys and values; the other kind copies each.
        let mut rows = self.database.raw_iterator_cf_opt(self.family(table)?, options);
        rows.seek(prefix.max(from));
        while let Some((key, value)) = rows.item() {
            if !key.starts_with(prefix) || visit(key, value) == ControlFlow::Break(()) {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|error| self.failed(error))
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        let mode = IteratorMode::From(at_most, Direction::Reverse);
        match self.database.iterator_cf(self.family(table)?, mode).next() {
            None => Ok(None),
            Some(entry) => {
                let (key, value) = entry.map_err(|error| self.failed(error))?;
                Ok(key.starts_with(prefix).then(|| (key.into_vec(), value.into_vec())))
            }
        }
    }
}

impl RocksStore {
    /// Writes a batch: all of it or nothing.
    pub(super) fn write_batch(&self, batch: &Batch) -> Result<(), StoreError> {
        self.check_background()?;
        let mut writes = WriteBatch::default();
        for table in batch.tables() {
            let family = self.family(table)?;
            for (key, value) in batch.rows_of(table) {
                match value {
                    Some(value) => writes.put_cf(family, key, value),
                    None => writes.delete_cf(family, key),
                }
            }
        }
        self.database.write_opt(writes, &self.writes).map_err(|error| self.failed(error))
    }
}

impl WriteStore for RocksStore {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.write_batch(batch)
    }
}

/// What a table takes, about: RocksDB's own figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableUse {
    /// The table.
    pub table: Table,
    /// Bytes of the files that hold it, compressed.
    pub file_bytes: u64,
    /// Bytes that are in memory and the write-ahead log alone.
    pub memory_bytes: u64,
    /// An estimate of how many keys it has; too high where many were overwritten.
    pub keys: u64,
}

impl RocksStore {
    /// What each table takes.
    pub fn disk_use(&self) -> Result<Vec<TableUse>, StoreError> {
        let of = |table: &Table| -> Result<TableUse, StoreError> {
            let family = self.family(*table)?;
            let number = |property| {
                Ok::<u64, StoreError>(
                    self.database
                        .property_int_value_cf(family, property)
                        .map_err(|error| self.failed(error))?
                        .unwrap_or_default(),
                )
            };
            Ok(TableUse {
                table: *table,
                file_bytes: number(rocksdb::properties::LIVE_SST_FILES_SIZE)?,
                memory_bytes: number(rocksdb::properties::CUR_SIZE_ALL_MEM_TABLES)?,
                keys: number(rocksdb::properties::ESTIMATE_NUM_KEYS)?,
            })
        };
        Table::ALL.iter().map(of).collect()
    }

    /// Makes a copy, of one moment, in a directory that does not exist; whole files are linked rather than copied where the
    /// file system can.
    pub fn checkpoint(&self, to: &Path) -> Result<(), StoreError> {
        checkpoint(&self.database, to)
    }

    /// The same for another thread. It is to be done before the store is dropped.
    pub fn checkpointer(&self) -> Checkpointer {
        Checkpointer { database: self.database.clone() }
    }

    /// The names of the files that hold tables and are still needed.
    pub fn live_files(&self) -> Result<Vec<String>, StoreError> {
        let files = self.database.live_files().map_err(|error| self.failed(error))?;
        Ok(files.into_iter().map(|file| file.name.trim_start_matches('/').to_owned()).collect())
    }

    /// Returns when everything that was written is on disk, and not in the write-ahead log alone.
    pub fn flush(&self) -> Result<(), StoreError> {
        for table in Table::ALL {
            self.database.flush_cf(self.family(*table)?).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Rewrites everything into the last level of its table, as that is set.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.flush()?;
        let mut options = CompactOptions::default();
        // Else what lies in one piece is only moved there.
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        for table in Table::ALL {
            self.database.compact_range_cf_opt(self.family(*table)?, None::<&[u8]>, None::<&[u8]>, &options);
        }
        Ok(())
    }

    /// Whether every file that belongs to a state is there, with its length. A reader beside a writer cannot be strict about
    /// that: it takes a table whose file is missing as it was before. Only for what nobody writes meanwhile; changes nothing.
    pub fn check_files(directory: &Path) -> Result<(), StoreError> {
        open_to_read(directory).map(drop)
    }

    /// Whether a state has this version's tables, and no other; read from the manifest alone. What holds none has them, too.
    pub fn has_our_tables(directory: &Path) -> Result<bool, StoreError> {
        if !directory.join("CURRENT").exists() {
            return Ok(true);
        }
        let found = DB::list_cf(&Options::default(), directory).map_err(|error| open_error(directory, &error))?;
        let ours = |name: &String| name == "default" || Table::ALL.iter().any(|table| table.name() == name);
        Ok(found.iter().all(ours) && found.len() == Table::ALL.len() + 1)
    }

    /// The row that says of which version a state is, whatever tables that version has: this table and this row are in
    /// every one. Opens nothing but that table, and changes nothing.
    pub fn row_of(directory: &Path) -> Result<Option<crate::tables::partition::Row>, StoreError> {
        if !directory.join("CURRENT").exists() {
            return Ok(None);
        }
        let name = Table::Partition.name();
        let mut options = settings::database(None);
        options.set_max_open_files(-1);
        let database = DB::open_cf_for_read_only(&options, directory, [name], false)
            .map_err(|error| open_error(directory, &error))?;
        let Some(family) = database.cf_handle(name) else { return Ok(None) };
        let row =
            database.get_cf(family, crate::tables::partition::KEY).map_err(|error| open_error(directory, &error))?;
        row.map(|bytes| crate::tables::decode(Table::Partition, &bytes)).transpose()
    }
}
