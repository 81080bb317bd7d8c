//! How RocksDB is set for the log. Every setting that differs from RocksDB's default is here, with its reason.

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompressionType, DBRecoveryMode, LogLevel, Options,
    WriteBufferManager,
};

use super::tables::{META, RECORD_FAMILIES};

const MIB: usize = 1 << 20;

/// What each column family gathers in memory before it writes a table, and so about what an opening has to read again.
pub(super) const WRITE_BUFFER_BYTES: usize = 32 * MIB;

/// Of a database that shares nothing.
const CACHE_BYTES: usize = 64 * MIB;

/// What the databases of a process share, so that there is one budget for all of them.
#[derive(Clone)]
pub struct Buffers {
    /// Blocks of tables that were read.
    pub blocks: Cache,
    /// What is gathered in memory before it is written as a table.
    pub write_buffers: WriteBufferManager,
}

impl std::fmt::Debug for Buffers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Buffers").finish_non_exhaustive()
    }
}

/// What the end of the newest write-ahead log can be, as its seal tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// A write that was not acknowledged may be there in part.
    MayBeTorn,
    /// All of it was acknowledged.
    IsWhole,
}

/// The whole database, as its writer opens it.
pub(super) fn writer(create: bool, tail: Tail, shared: Option<&Buffers>) -> Options {
    let mut options = bounded_diary();
    if let Some(shared) = shared {
        options.set_write_buffer_manager(&shared.write_buffers);
    }
    options.create_if_missing(create);
    options.create_missing_column_families(create);
    // A torn record at the end of the write-ahead log is what kill -9 leaves behind; damage anywhere else is an error. The
    // default takes the log as ended where it is damaged, and would lose acknowledged records without a word. A flipped
    // length in the last block looks like a torn end: where nothing can be torn, that is an error too.
    options.set_wal_recovery_mode(match tail {
        Tail::MayBeTorn => DBRecoveryMode::TolerateCorruptedTailRecords,
        Tail::IsWhole => DBRecoveryMode::AbsoluteConsistency,
    });
    // Write-ahead logs that are no longer the newest must be there, and as long as they were.
    options.set_track_and_verify_wals_in_manifest(true);
    // All families are flushed together: the few rejections would otherwise hold back old write-ahead logs for ever.
    options.set_atomic_flush(true);
    // Tables are written out as they grow rather than in one stall at their end, which appends would feel.
    options.set_bytes_per_sync(MIB as u64);
    // A log that is kept for ever has many tables; they need not all be open.
    options.set_max_open_files(512);
    options
}

/// The whole database, as a follower opens it.
pub(super) fn follower() -> Options {
    // It reads write-ahead logs as RocksDB does by default, up to where they are damaged: whether that is all that was
    // acknowledged, the seal tells.
    let mut options = bounded_diary();
    // A secondary instance must hold its tables open, since the writer deletes them when it has compacted them.
    options.set_max_open_files(-1);
    // Its diary is never read, and must be one file that is opened once (`follower.rs`).
    options.set_log_level(LogLevel::Fatal);
    options.set_max_log_file_size(0);
    options
}

/// The whole database, opened read-only for a moment. It must watch write-ahead logs as the writer does: RocksDB 11.8 follows
/// a null pointer where a manifest names some and a read-only instance is not told to.
pub(super) fn reader() -> Options {
    let mut options = follower();
    options.set_track_and_verify_wals_in_manifest(true);
    options
}

/// The column families. The default one is always there and stays empty.
pub(super) fn families(write_buffer_bytes: usize, shared: Option<&Buffers>) -> Vec<ColumnFamilyDescriptor> {
    let own = Cache::new_lru_cache(CACHE_BYTES);
    let cache = shared.map_or(&own, |shared| &shared.blocks);
    let records = RECORD_FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, records(cache, write_buffer_bytes)));
    let mut meta = Options::default();
    // Tens of bytes for each partition, overwritten with every batch.
    meta.set_write_buffer_size(write_buffer_bytes);
    meta.set_compression_type(DBCompressionType::None);
    records.into_iter().chain([ColumnFamilyDescriptor::new(META, meta)]).collect()
}

fn records(cache: &Cache, write_buffer_bytes: usize) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    // Records are read in runs, and larger blocks compress better; point reads are rare.
    blocks.set_block_size(32 * 1024);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    // Events are text and repeat themselves; lz4 costs less than the disk that it saves.
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(write_buffer_bytes);
    // Fewer, larger tables: keys only grow, so compaction mostly moves tables without rewriting them.
    options.set_target_file_size_base(128 * MIB as u64);
    options
}

fn bounded_diary() -> Options {
    let mut options = Options::default();
    // RocksDB's own diary, bounded.
    options.set_log_level(LogLevel::Info);
    options.set_max_log_file_size(8 * MIB);
    options.set_keep_log_file_num(4);
    options
}
