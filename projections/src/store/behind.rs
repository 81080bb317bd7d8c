//! State in RocksDB, written by a thread of its own: while one batch is written the next can be folded.
//!
//! At most one batch is under way, and reads see it as if it were written. Batches are written whole and in order, so that a
//! process that is killed leaves the state as it was after one of them, at most one batch further behind the log than if it
//! had waited; it is folded forward from there. A batch that cannot be written is the last that is taken: everything that
//! is asked of the store from then on fails in the same way.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use super::{
    Batch, Entry, Store, StoreError, Visit, WriteStore,
    rocks::{Reader, RocksStore},
};
use crate::tables::Table;

/// So many rows are written before a thread would have woken.
const AT_ONCE_MAX: usize = 64;

/// A store whose batches are written while its owner goes on.
pub struct WriteBehind {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    store: RocksStore,
    flight: Mutex<Flight>,
    changed: Condvar,
}

/// What is under way.
#[derive(Default)]
struct Flight {
    /// The batch that is being written.
    batch: Option<Arc<Batch>>,
    /// Why it could not be; it stays the one under way then, so that reads go on seeing it.
    failed: Option<StoreError>,
    /// The one before, emptied, for the next.
    spare: Batch,
    /// Whether there will be no more.
    is_over: bool,
}

impl WriteBehind {
    /// Writes to a store from now on, by a thread.
    pub fn new(store: RocksStore) -> Result<WriteBehind, StoreError> {
        let shared = Arc::new(Shared { store, flight: Mutex::default(), changed: Condvar::new() });
        let writing = shared.clone();
        let writer = std::thread::Builder::new()
            .name("state-writer".to_owned())
            .spawn(move || writing.write_all())
            .map_err(|error| StoreError::Io(format!("no thread for the state's writes: {error}")))?;
        Ok(WriteBehind { shared, writer: Some(writer) })
    }

    /// The store, once all that was handed over is written.
    pub fn written(&self) -> Result<&RocksStore, StoreError> {
        self.shared.landed().map(|_| &self.shared.store)
    }

    /// A hand for other threads on what is written.
    pub fn reader(&self) -> Reader {
        self.shared.store.reader()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Flight> {
        // Nothing panics while it holds the lock.
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, flight: MutexGuard<'a, Flight>) -> MutexGuard<'a, Flight> {
        self.changed.wait(flight).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing is under way.
    fn landed(&self) -> Result<MutexGuard<'_, Flight>, StoreError> {
        let mut flight = self.lock();
        while flight.batch.is_some() {
            if let Some(failed) = &flight.failed {
                return Err(failed.clone());
            }
            flight = self.wait(flight);
        }
        Ok(flight)
    }

    /// What the writing thread does.
    fn write_all(&self) {
        let mut flight = self.lock();
        while flight.failed.is_none() {
            let Some(batch) = flight.batch.clone() else {
                if flight.is_over {
                    return;
                }
                flight = self.wait(flight);
                continue;
            };
            drop(flight);
            let written = self.store.write_batch(&batch);
            flight = self.lock();
            match written {
                Ok(()) => flight.batch = None,
                Err(error) => flight.failed = Some(error),
            }
            self.changed.notify_all();
            drop(flight);
            // Nobody else has it, unless it failed or is being read.
            let emptied = Arc::into_inner(batch).map(|mut batch| {
                batch.clear();
                batch
            });
            flight = self.lock();
            flight.spare = emptied.unwrap_or_default();
        }
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        if let Some(writer) = self.writer.take() {
            // It does not panic, and there is nobody left to tell.
            let _ = writer.join();
        }
    }
}

impl Store for WriteBehind {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(value) = self.shared.lock().batch.as_ref().and_then(|batch| batch.get(table, key)) {
            return Ok(value.map(<[u8]>::to_vec));
        }
        self.shared.store.get(table, key)
    }

    fn get_all(&self, table: Table, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let flying = self.shared.lock().batch.clone();
        let mut found = self.shared.store.get_all(table, keys)?;
        if let Some(batch) = flying {
            for (key, found) in keys.iter().zip(&mut found) {
                if let Some(value) = batch.get(table, key) {
                    *found = value.map(<[u8]>::to_vec);
                }
            }
        }
        Ok(found)
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.written()?.scan(table, prefix, from, visit)
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.written()?.last(table, prefix, at_most)
    }
}

impl WriteStore for WriteBehind {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.written()?.write_batch(batch)
    }

    fn hand_over(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        let mut flight = self.shared.landed()?;
        if batch.len() <= AT_ONCE_MAX {
            self.shared.store.write_batch(batch)?;
            batch.clear();
            return Ok(());
        }
        let next = std::mem::take(&mut flight.spare);
        flight.batch = Some(Arc::new(std::mem::replace(batch, next)));
        self.shared.changed.notify_all();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.written().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(rows: &[(&str, Option<&str>)]) -> Batch {
        let mut batch = Batch::default();
        for (key, value) in rows {
            match value {
                Some(value) => batch.put(Table::Spaces, key.as_bytes(), value.as_bytes()),
                None => batch.delete(Table::Spaces, key.as_bytes()),
            }
        }
        batch
    }

    /// Protects reads while a batch is under way: what was handed over is seen at once, and last, by each way of reading.
    #[test]
    fn what_was_handed_over_is_read_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = WriteBehind::new(RocksStore::open(directory.path()).unwrap()).unwrap();
        for round in 0..500 {
            let value = round.to_string();
            let mut put = batch(&[("a", Some(&value)), ("b", if round % 2 == 0 { Some(&value) } else { None })]);
            // Some are large enough for the thread.
            for row in 0..(round % 3) * AT_ONCE_MAX {
                put.put(Table::Spaces, format!("c{row}").into_bytes(), Vec::new());
            }
            store.hand_over(&mut put).unwrap();
            assert!(put.is_empty(), "the rows were taken");
            assert_eq!(store.get(Table::Spaces, b"a").unwrap(), Some(value.clone().into_bytes()));
            assert_eq!(store.get(Table::Spaces, b"b").unwrap().is_some(), round % 2 == 0);
            if round % 100 == 0 {
                let found = store.last(Table::Spaces, b"", b"a").unwrap();
                assert_eq!(found, Some((b"a".to_vec(), value.into_bytes())), "a scan waits");
            }
        }
        drop(store);
        let store = RocksStore::open(directory.path()).unwrap();
        assert_eq!(store.get(Table::Spaces, b"a").unwrap(), Some(b"499".to_vec()), "all was written before it ended");
    }
}
