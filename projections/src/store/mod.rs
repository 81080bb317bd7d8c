//! Where state lies: ordered tables of bytes, written one atomic batch at a time.

mod batch;
pub mod behind;
pub mod memory;
pub mod rocks;
pub mod settings;

use std::ops::ControlFlow;

pub use batch::Batch;

use crate::tables::Table;

/// What can go wrong with a store.
#[derive(Debug, Clone, thiserror::Error)]
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
    /// The disk is full.
    #[error(
        "there is no room for the state ({0}). The log has everything: make room and start again, and the state is brought up to date from it"
    )]
    NoRoom(String),
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

    /// The values of keys, in their order.
    fn get_all(&self, table: Table, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        keys.iter().map(|key| self.get(table, key)).collect()
    }

    /// Visits the entries whose keys begin with `prefix` and are at least `from`, in order of their bytes.
    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;

    /// The last entry whose key begins with `prefix` and is at most `at_most`.
    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError>;
}

/// Writes tables.
pub trait WriteStore: Store {
    /// Writes a batch: all of it or nothing, also when the process is killed.
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// The same, but it may be written later, in its turn: what is read is as if it were written. Takes the rows.
    fn hand_over(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        self.write(batch)?;
        batch.clear();
        Ok(())
    }

    /// Waits until all that was handed over is written.
    fn finish(&mut self) -> Result<(), StoreError> {
        Ok(())
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
    pub fn put(&mut self, table: Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.batch.put(table, key, value);
    }

    /// Removes a key.
    pub fn delete(&mut self, table: Table, key: impl AsRef<[u8]>) {
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

/// Reads single rows, and all rows under a prefix of tables whose rows are never changed once written: then what is staged
/// is simply more of them.
pub trait Rows: Read {
    /// Visits the rows under a prefix: those that are stored, then those that are staged.
    fn scan_under(&self, table: Table, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError>;
}

impl<S: Store> Rows for S {
    fn scan_under(&self, table: Table, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.scan(table, prefix, prefix, visit)
    }
}

impl<S: Store> Rows for Staged<'_, S> {
    fn scan_under(&self, table: Table, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let mut ended = false;
        self.store.scan(table, prefix, prefix, &mut |key, value| {
            let flow = visit(key, value);
            ended = flow.is_break();
            flow
        })?;
        if !ended {
            let _ = self.batch.put_under(table, prefix).into_iter().try_for_each(|(key, value)| visit(key, value));
        }
        Ok(())
    }
}
