//! How RocksDB is set for state. Every setting that differs from RocksDB's default is here, with its reason. What else was
//! tried, and what it came to, is in `docs/storage.md`; `make bench NAME=settings` measures it again.

pub use rocksdb::DBCompressionType as Compression;
use rocksdb::{BlockBasedOptions, Cache, ColumnFamilyDescriptor, LruCacheOptions, Options, WriteBufferManager};

use crate::tables::Table;

const MIB: usize = 1 << 20;

/// Of a database that shares nothing.
const CACHE_BYTES: usize = 32 * MIB;

/// A cache is divided into parts of so many bytes at least, and what is larger than its part is read anew for each lookup. The
/// filter of a table takes up to 4 MiB; RocksDB alone would make 64 parts.
const CACHE_PART_BYTES: usize = 16 * MIB;

fn block_cache(bytes: usize) -> Cache {
    let mut options = LruCacheOptions::default();
    options.set_capacity(bytes);
    options.set_num_shard_bits((bytes / CACHE_PART_BYTES).max(1).ilog2().min(6).cast_signed());
    Cache::new_lru_cache_opts(&options)
}

/// What the databases of a process share, so that there is one budget for all of them.
#[derive(Clone)]
pub struct Buffers {
    /// Blocks of tables that were read, indexes and filters included.
    pub blocks: Cache,
    /// What is gathered in memory before it is written as a table.
    pub write_buffers: WriteBufferManager,
}

impl Buffers {
    /// At most so many bytes of each.
    pub fn within(blocks_bytes: usize, write_buffers_bytes: usize) -> Buffers {
        Buffers {
            blocks: block_cache(blocks_bytes),
            // Nobody is made to wait: what is over the budget for a moment is being written.
            write_buffers: WriteBufferManager::new_write_buffer_manager(write_buffers_bytes, false),
        }
    }
}

/// What was chosen by measuring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// How blocks are compressed.
    pub compression: Compression,
    /// How those of the last level are, where nearly everything lies.
    pub last_compression: Compression,
    /// What is read and cached at once.
    pub block_bytes: usize,
    /// What a large table gathers in memory before it is written; a small one an eighth of that.
    pub write_buffer_bytes: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            // Texts repeat themselves; lz4 costs less than the disk that it saves.
            compression: Compression::Lz4,
            last_compression: Compression::Lz4,
            // A point read decompresses a block: half of the time of a cold one is that.
            block_bytes: 16 << 10,
            write_buffer_bytes: 32 * MIB,
        }
    }
}

/// The database, as its writer and its readers open it.
pub(super) fn database(shared: Option<&Buffers>) -> Options {
    let mut options = Options::default();
    options.set_max_background_jobs(2);
    // What a start has to read again at most, for each partition.
    options.set_max_total_wal_size(256 * MIB as u64);
    // Write-ahead logs that are no longer the newest must be there, and as long as they were: the state would have a hole.
    options.set_track_and_verify_wals_in_manifest(true);
    // RocksDB's own diary, bounded.
    options.set_keep_log_file_num(4);
    options.set_max_log_file_size(4 * MIB);
    if let Some(shared) = shared {
        options.set_write_buffer_manager(&shared.write_buffers);
    }
    options
}

/// One column family a table. The default one is always there and stays empty.
pub(super) fn families(tuning: &Tuning, shared: Option<&Buffers>) -> Vec<ColumnFamilyDescriptor> {
    let own = block_cache(CACHE_BYTES);
    let cache = shared.map_or(&own, |shared| &shared.blocks);
    let mut families: Vec<_> = Table::ALL
        .iter()
        .map(|table| ColumnFamilyDescriptor::new(table.name(), family(*table, tuning, cache)))
        .collect();
    families.push(ColumnFamilyDescriptor::new("default", Options::default()));
    families
}

fn family(table: Table, tuning: &Tuning, cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(cache);
    blocks.set_block_size(tuning.block_bytes);
    // Ten bits a key: one absent key in a hundred costs a read. Most lookups of ids and events are for absent keys.
    blocks.set_bloom_filter(10.0, false);
    // They grow with the state, and so belong into what is bounded.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(tuning.compression);
    options.set_bottommost_compression_type(tuning.last_compression);
    options.set_write_buffer_size(if is_large(table) {
        tuning.write_buffer_bytes
    } else {
        tuning.write_buffer_bytes / 8
    });
    if is_mostly_asked_for_what_is_new(table) {
        // A filter answers without a search of what is gathered. It takes its memory at once.
        options.set_memtable_prefix_bloom_ratio(0.1);
        options.set_memtable_whole_key_filtering(true);
    }
    options
}

/// Whether nearly every event writes a row.
fn is_large(table: Table) -> bool {
    matches!(table, Table::Events | Table::Ids | Table::Nodes | Table::Justifications | Table::Moves)
}

fn is_mostly_asked_for_what_is_new(table: Table) -> bool {
    matches!(table, Table::Events | Table::Ids)
}
