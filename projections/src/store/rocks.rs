//! State in RocksDB: one database a partition, one column family a table.
//!
//! Batches go through the write-ahead log without an fsync: killed, the process loses nothing; after a power cut the state
//! may be behind the log of events, and is folded forward from there. Readers in other processes open the database
//! read-only, and see whole batches only.

use std::{ops::ControlFlow, path::Path};

use rocksdb::{
    BlockBasedOptions, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, Direction, IteratorMode, Options,
    ReadOptions, WriteBatch,
};

use super::{Batch, Entry, Store, StoreError, Visit, WriteStore};
use crate::tables::Table;

/// Tables in RocksDB.
pub struct RocksStore {
    database: DB,
}

impl RocksStore {
    /// Opens the state of a partition for writing, and creates it if there is none.
    pub fn open(directory: &Path) -> Result<RocksStore, StoreError> {
        let mut options = database_options();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let database =
            DB::open_cf_descriptors(&options, directory, families()).map_err(|error| open_error(directory, &error))?;
        Ok(RocksStore { database })
    }

    /// Opens the state of a partition that another process may be writing, as it is now.
    ///
    /// Not as a secondary instance: where a table is missing or is not what it was, that goes back to the last moment for
    /// which all tables are there, applies the write-ahead log on top, and answers wrongly.
    pub fn follow(directory: &Path) -> Result<RocksStore, StoreError> {
        if !directory.join("CURRENT").exists() {
            return Err(StoreError::Absent(directory.display().to_string()));
        }
        let mut options = database_options();
        // Every file is held open, so that the writer may remove what it no longer needs.
        options.set_max_open_files(-1);
        let database = DB::open_cf_descriptors_read_only(&options, directory, families(), false)
            .map_err(|error| open_error(directory, &error))?;
        Ok(RocksStore { database })
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

    fn family(&self, table: Table) -> Result<&ColumnFamily, StoreError> {
        self.database
            .cf_handle(table.name())
            .ok_or_else(|| StoreError::Format(format!("the state has no table {}", table.name())))
    }
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        self.database.cancel_all_background_work(true);
    }
}

fn database_options() -> Options {
    let mut options = Options::default();
    options.set_max_background_jobs(2);
    options.set_max_total_wal_size(256 << 20);
    // Write-ahead logs that are no longer the newest must be there, and as long as they were: the state would have a hole.
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_keep_log_file_num(4);
    options.set_max_log_file_size(4 << 20);
    options
}

fn families() -> Vec<ColumnFamilyDescriptor> {
    let mut blocks = BlockBasedOptions::default();
    // Ten bits a key: one absent key in a hundred costs a read. Most lookups of ids and events are for absent keys.
    blocks.set_bloom_filter(10.0, false);
    blocks.set_block_size(16 << 10);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(32 << 20);
    Table::ALL
        .iter()
        .map(|table| ColumnFamilyDescriptor::new(table.name(), options.clone()))
        .chain([ColumnFamilyDescriptor::new("default", Options::default())])
        .collect()
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

/// An error of RocksDB: damage, where a file is not what it was or is gone, for which it has no kind of its own.
fn failed(directory: &Path, error: &rocksdb::Error) -> StoreError {
    let path = directory.display().to_string();
    let is_damage = match error.kind() {
        rocksdb::ErrorKind::Corruption => true,
        rocksdb::ErrorKind::IOError => error.as_ref().contains("No such file or directory"),
        _ => false,
    };
    if is_damage {
        StoreError::DamagedFiles { path, detail: error.to_string() }
    } else {
        StoreError::Io(format!("{path}: {error}"))
    }
}

impl Store for RocksStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.database.get_cf(self.family(table)?, key).map_err(|error| self.failed(error))
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        let start = prefix.max(from);
        let mode = IteratorMode::From(start, Direction::Forward);
        for entry in self.database.iterator_cf_opt(self.family(table)?, options, mode) {
            let (key, value) = entry.map_err(|error| self.failed(error))?;
            if !key.starts_with(prefix) || visit(&key, &value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
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

impl WriteStore for RocksStore {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut writes = WriteBatch::default();
        for (table, key, value) in batch.rows() {
            let family = self.family(table)?;
            match value {
                Some(value) => writes.put_cf(family, key, value),
                None => writes.delete_cf(family, key),
            }
        }
        self.database.write(writes).map_err(|error| self.failed(error))
    }
}
