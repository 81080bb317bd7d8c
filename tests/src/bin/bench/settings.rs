//! What else RocksDB could be told: the rows of the same events, written, compacted and read again, with one setting changed at
//! a time. Why the chosen ones are chosen is in `docs/storage.md`.

use std::time::Instant;

use recant_projections::{
    store::{
        Batch, Store as _, WriteStore as _,
        rocks::RocksStore,
        settings::{
            Compression::{Lz4, None as Uncompressed, Zstd},
            Tuning,
        },
    },
    tables::Table,
};

use crate::{durable::DurableError, ingest, workload::Random};

/// What one choice came to.
#[derive(Debug, Clone, Copy)]
pub struct Tried {
    /// Which.
    pub name: &'static str,
    /// Writing the rows of an event, compactions beside it included as far as they held it up.
    pub write_us_per_event: f64,
    /// Bringing all into its last level.
    pub compact_us_per_event: f64,
    /// What that takes then.
    pub disk_bytes_per_event: f64,
    /// Reading the row of a node at random, just after opening.
    pub cold_read_us: f64,
    /// Finding that an id is new.
    pub absent_read_us: f64,
}

const READS: u32 = 20_000;

fn choices() -> [(&'static str, Tuning); 8] {
    let chosen = Tuning::default();
    [
        ("chosen", chosen),
        ("uncompressed", Tuning { compression: Uncompressed, last_compression: Uncompressed, ..chosen }),
        ("zstd_last", Tuning { last_compression: Zstd, ..chosen }),
        ("lz4_only_last", Tuning { compression: Uncompressed, last_compression: Lz4, ..chosen }),
        ("blocks_4k", Tuning { block_bytes: 4 << 10, ..chosen }),
        ("blocks_64k", Tuning { block_bytes: 64 << 10, ..chosen }),
        ("buffers_8m", Tuning { write_buffer_bytes: 8 << 20, ..chosen }),
        ("buffers_128m", Tuning { write_buffer_bytes: 128 << 20, ..chosen }),
    ]
}

/// Measures each choice.
pub fn try_all(events: u32, seed: u64) -> Result<Vec<Tried>, DurableError> {
    let batches = ingest::rows(events, seed)?;
    choices().into_iter().map(|(name, tuning)| try_one(name, &tuning, &batches, events, seed)).collect()
}

fn try_one(
    name: &'static str,
    tuning: &Tuning,
    batches: &[Batch],
    events: u32,
    seed: u64,
) -> Result<Tried, DurableError> {
    let directory = tempfile::tempdir()?;
    let mut store = RocksStore::open_with(directory.path(), tuning, None)?;
    let started = Instant::now();
    batches.iter().try_for_each(|batch| store.write(batch))?;
    let write_us_per_event = started.elapsed().as_secs_f64() * 1e6 / f64::from(events);
    let started = Instant::now();
    store.compact()?;
    let compact_us_per_event = started.elapsed().as_secs_f64() * 1e6 / f64::from(events);
    let file_bytes: u64 = store.disk_use()?.iter().map(|table| table.file_bytes).sum();
    drop(store);
    let store = RocksStore::open_with(directory.path(), tuning, None)?;
    let nodes: Vec<&[u8]> = keys(batches, Table::Nodes);
    let mut random = Random::new(seed);
    let mut at_random = || nodes[random.below(nodes.len() as u32) as usize];
    let started = Instant::now();
    for _ in 0..READS {
        std::hint::black_box(store.get(Table::Nodes, at_random())?);
    }
    let cold_read_us = started.elapsed().as_secs_f64() * 1e6 / f64::from(READS);
    let started = Instant::now();
    for _ in 0..READS {
        // No id has the key of a node.
        std::hint::black_box(store.get(Table::Ids, at_random())?);
    }
    let absent_read_us = started.elapsed().as_secs_f64() * 1e6 / f64::from(READS);
    Ok(Tried {
        name,
        write_us_per_event,
        compact_us_per_event,
        disk_bytes_per_event: file_bytes as f64 / f64::from(events),
        cold_read_us,
        absent_read_us,
    })
}

fn keys(batches: &[Batch], of: Table) -> Vec<&[u8]> {
    batches.iter().flat_map(Batch::rows).filter(|(table, _, _)| *table == of).map(|(_, key, _)| key).collect()
}
