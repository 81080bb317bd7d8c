//! A state in the making: where a replay writes.
//!
//! It is written by a thread of its own while the next batch is folded, and without a write-ahead log: until it is complete it is
//! of no use to anybody, and whoever wants it to last flushes it then. Of the memory of a replay it takes a quarter, half of that for blocks that
//! are read, half for rows that are not in tables yet; open spaces take the rest.

use std::path::Path;

use recant_projections::store::{StoreError, behind::WriteBehind, rocks::RocksStore, settings::Buffers};

/// Opens one in a directory that is empty, or holds a copy of a state to go on from.
pub fn state(directory: &Path, memory_budget_bytes: usize) -> Result<WriteBehind, StoreError> {
    let half_bytes = store_bytes(memory_budget_bytes) / 2;
    RocksStore::open_unlogged(directory, &Buffers::within(half_bytes, half_bytes)).and_then(WriteBehind::new)
}

/// What is left of the memory of a replay for open spaces.
pub(crate) fn spaces_bytes(memory_budget_bytes: usize) -> usize {
    memory_budget_bytes - store_bytes(memory_budget_bytes)
}

fn store_bytes(memory_budget_bytes: usize) -> usize {
    memory_budget_bytes / 4
}
