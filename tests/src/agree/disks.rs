//! Where the state of a run lies, so that a partition can be dropped and opened again over the same rows.

use std::{cell::RefCell, ops::ControlFlow, path::Path, rc::Rc};

use recant_projections::{
    store::{Batch, Store, StoreError, Visit, WriteStore, memory::MemoryStore, rocks::RocksStore},
    tables::Table,
};
use tempfile::TempDir;

/// Holds the rows of one partition.
pub trait Disk {
    /// What reads and writes them.
    type Store: WriteStore;

    /// Opens them. There is one owner at a time.
    fn open(&self) -> Result<Self::Store, StoreError>;
}

/// Rows in memory that several handles see.
#[derive(Debug, Clone, Default)]
pub struct SharedMemory(Rc<RefCell<MemoryStore>>);

impl Store for SharedMemory {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.borrow().get(table, key)
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.0.borrow().scan(table, prefix, from, &mut |key, value| -> ControlFlow<()> { visit(key, value) })
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>, StoreError> {
        self.0.borrow().last(table, prefix, at_most)
    }
}

impl WriteStore for SharedMemory {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.0.borrow_mut().write(batch)
    }
}

/// Rows in memory.
#[derive(Debug, Default)]
pub struct MemoryDisk(SharedMemory);

impl Disk for MemoryDisk {
    type Store = SharedMemory;

    fn open(&self) -> Result<SharedMemory, StoreError> {
        Ok(self.0.clone())
    }
}

/// A RocksDB database in a directory that is removed with this.
#[derive(Debug)]
pub struct RocksDisk {
    directory: TempDir,
}

impl RocksDisk {
    /// A new one.
    pub fn new() -> std::io::Result<RocksDisk> {
        Ok(RocksDisk { directory: TempDir::with_prefix("recant-agree-")? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Disk for RocksDisk {
    type Store = RocksStore;

    fn open(&self) -> Result<RocksStore, StoreError> {
        RocksStore::open(self.path())
    }
}
