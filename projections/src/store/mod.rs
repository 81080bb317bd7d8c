//! Where state lies: ordered tables of bytes, written one atomic batch at a time.

pub mod memory;
pub mod rocks;

use std::{collections::BTreeMap, ops::ControlFlow};

use crate::tables::Table;

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no state in this place.
    #[error("{0} holds no state yet; the next command that writes makes it")]
    Absent(String),
    /// Another process writes to it.
    #[error("{0} is being written by another process")]
    Held(String),
    /// The state is of a newer version, of another log, or of something else.
    #[error("{0}")]
    Format(String),
    /// The files are not what they were.
    #[error(
        "the state in {path} is damaged: {detail}. The log is not concerned: make the state anew with `recant rebuild`"
    )]
    DamagedFiles {
        /// The directory.
        path: String,
        /// What is wrong.
        detail: String,
    },
    /// A row cannot be read back.
    #[error(
        "a row of table {table} is damaged: {detail}. The log is not concerned: make the state anew with `recant rebuild`"
    )]
    Damaged {
        /// The table.
        table: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// The disk failed.
    #[error("the state store failed: {0}")]
    Io(String),
}

/// A key with its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Visits an entry, and says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Reads tables. What it reads is of one moment, that of the last batch written or the last refresh.
pub trait Store {
    /// The value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits the entries whose keys begin with `prefix` and are at least `from`, in order of their bytes.
    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;

    /// The last entry whose key begins with `prefix` and is at most `at_most`.
    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError>;
}

/// Writes tables.
pub trait WriteStore: Store {
    /// Writes a batch: all of it or nothing, also when the process is killed.
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError>;
}

/// Writes that are not yet in the store: the last one of each key counts.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    rows: BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>,
}

impl Batch {
    /// Puts a value.
    pub fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.rows.insert((table, key), Some(value));
    }

    /// Removes a key.
    pub fn delete(&mut self, table: Table, key: Vec<u8>) {
        self.rows.insert((table, key), None);
    }

    /// What the batch says of a key: nothing, that it is removed, or its value.
    pub fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        // The map is keyed by an owned key; the copy is small beside the read that it may save.
        self.rows.get(&(table, key.to_vec())).map(Option::as_deref)
    }

    /// Every row, in order.
    pub fn rows(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.rows.iter().map(|((table, key), value)| (*table, key.as_slice(), value.as_deref()))
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.rows.clear();
    }
}

/// A store as it will be once the open batch is written.
pub struct Staged<'a, S> {
    /// What is written.
    pub store: &'a S,
    /// What is not.
    pub batch: &'a mut Batch,
}

impl<S: Store> Staged<'_, S> {
    /// The value of a key.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.batch.get(table, key) {
            Some(staged) => Ok(staged.map(<[u8]>::to_vec)),
            None => self.store.get(table, key),
        }
    }

    /// Puts a value.
    pub fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.batch.put(table, key, value);
    }

    /// Removes a key.
    pub fn delete(&mut self, table: Table, key: Vec<u8>) {
        self.batch.delete(table, key);
    }
}

/// Whether anything has a value for this key: the part of a store that single rows are read through.
pub trait Read {
    /// The value of a key.
    fn read(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
}

impl<S: Store> Read for S {
    fn read(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(table, key)
    }
}

impl<S: Store> Read for Staged<'_, S> {
    fn read(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(table, key)
    }
}
