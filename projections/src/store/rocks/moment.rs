//! A state at one moment, for those who read it while its owner goes on writing: whole batches, and the same ones for every
//! question that is asked of a moment.

use std::{ops::ControlFlow, sync::Arc};

use rocksdb::{DB, Direction, IteratorMode, ReadOptions, Snapshot};

use super::{RocksStore, after_all};
use crate::{
    store::{Entry, Store, StoreError, Visit},
    tables::Table,
};

/// A hand on a store, to read it from other threads. It keeps the database open.
#[derive(Clone)]
pub struct Reader {
    store: Arc<RocksStore>,
}

/// The state at a moment. What it was then is kept on disk for as long as this lives.
pub struct AtMoment<'a> {
    store: &'a RocksStore,
    snapshot: Snapshot<'a>,
    point_reads: ReadOptions,
}

impl Reader {
    /// The state as it is now, and stays for the one who asks.
    pub fn moment(&self) -> AtMoment<'_> {
        let snapshot = self.store.database.snapshot();
        let mut point_reads = ReadOptions::default();
        point_reads.set_snapshot(&snapshot);
        AtMoment { store: &self.store, snapshot, point_reads }
    }
}

impl Reader {
    /// Whether there are other hands on it that were made of this one, or of which this one was made.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.store) > 1
    }
}

impl From<RocksStore> for Reader {
    fn from(store: RocksStore) -> Reader {
        Reader { store: Arc::new(store) }
    }
}

impl RocksStore {
    /// A hand on it for other threads.
    pub fn reader(&self) -> Reader {
        let database: Arc<DB> = self.database.clone();
        Reader::from(RocksStore {
            database,
            point_reads: ReadOptions::default(),
            writes: rocksdb::WriteOptions::default(),
            is_owner: false,
        })
    }
}

impl Store for AtMoment<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let family = self.store.family(table)?;
        let found = self.store.database.get_pinned_cf_opt(family, key, &self.point_reads);
        Ok(found.map_err(|error| self.store.failed(error))?.map(|value| value.to_vec()))
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let mut options = ReadOptions::default();
        options.set_total_order_seek(true);
        if let Some(end) = after_all(prefix) {
            options.set_iterate_upper_bound(end);
        }
        let mut rows = self.snapshot.raw_iterator_cf_opt(self.store.family(table)?, options);
        rows.seek(prefix.max(from));
        while let Some((key, value)) = rows.item() {
            if !key.starts_with(prefix) || visit(key, value) == ControlFlow::Break(()) {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|error| self.store.failed(error))
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        let mode = IteratorMode::From(at_most, Direction::Reverse);
        match self.snapshot.iterator_cf(self.store.family(table)?, mode).next() {
            None => Ok(None),
            Some(entry) => {
                let (key, value) = entry.map_err(|error| self.store.failed(error))?;
                Ok(key.starts_with(prefix).then(|| (key.into_vec(), value.into_vec())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Batch, WriteStore};

    /// Protects answers that ask several questions: what is written meanwhile is not mixed into them, by any way of reading.
    #[test]
    fn a_moment_does_not_change_while_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = RocksStore::open(directory.path()).unwrap();
        let mut put = |key: &str, value: &str| {
            let mut batch = Batch::default();
            batch.put(Table::Spaces, key.as_bytes(), value.as_bytes());
            store.write(&batch).unwrap();
            store.reader()
        };
        let reader = put("a", "1");
        let before = reader.moment();
        put("a", "2");
        put("b", "2");
        let rows = |moment: &AtMoment<'_>| {
            let mut rows = Vec::new();
            let visit = &mut |key: &[u8], value: &[u8]| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            moment.scan(Table::Spaces, b"", b"", visit).unwrap();
            rows
        };
        assert_eq!(before.get(Table::Spaces, b"a").unwrap(), Some(b"1".to_vec()));
        assert_eq!(before.get(Table::Spaces, b"b").unwrap(), None);
        assert_eq!(before.last(Table::Spaces, b"", b"z").unwrap(), Some((b"a".to_vec(), b"1".to_vec())));
        assert_eq!(rows(&before), [(b"a".to_vec(), b"1".to_vec())]);
        let now = reader.moment();
        assert_eq!(now.get(Table::Spaces, b"a").unwrap(), Some(b"2".to_vec()));
        assert_eq!(rows(&now).len(), 2);
    }
}
