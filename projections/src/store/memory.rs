//! State in memory, for tests and simulations. It can lose its last batches, whole ones (the power fails before they are on
//! disk), and can be told to fail or to tear the next one. A real store never tears: tests use it to show that they would
//! notice.

use std::{collections::BTreeMap, ops::ControlFlow};

use super::{Batch, Entry, Store, StoreError, Visit, WriteStore};
use crate::tables::Table;

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// What a batch replaced: keys with the values that they had.
type Undo = Vec<((Table, Vec<u8>), Option<Vec<u8>>)>;

/// What happens to the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is refused, and nothing of it is written.
    Refuse,
    /// Only so many of its rows are written, and the writer is told that all is well.
    Tear(usize),
}

/// Tables in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    rows: Rows,
    /// Of each batch since the last sync, the oldest first; absent before the first sync, when nothing is on disk, so that
    /// a store that never crashes keeps its rows alone.
    unsynced: Option<Vec<Undo>>,
    fault: Option<Fault>,
}

impl MemoryStore {
    /// What is written up to now survives a crash.
    pub fn sync(&mut self) {
        self.unsynced = Some(Vec::new());
    }

    /// How many batches a crash would forget; none before the first sync, when it forgets everything.
    pub fn unsynced(&self) -> Option<usize> {
        self.unsynced.as_ref().map(Vec::len)
    }

    /// Forgets what was not synced.
    pub fn crash(&mut self) {
        self.lose(usize::MAX);
    }

    /// Forgets the last so many batches of those that were not synced: the disk had already taken the others.
    pub fn lose(&mut self, batches: usize) {
        let Some(unsynced) = &mut self.unsynced else {
            self.rows.clear();
            return;
        };
        let kept = unsynced.len().saturating_sub(batches);
        for (key, value) in unsynced.drain(kept..).rev().flatten() {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
    }

    /// Sets what happens to the next batch.
    pub fn fail_next(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    /// Writes a row; its key with the value that it had.
    fn apply(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> ((Table, Vec<u8>), Option<Vec<u8>>) {
        let key = (table, key.to_vec());
        let before = match value {
            Some(value) => self.rows.insert(key.clone(), value.to_vec()),
            None => self.rows.remove(&key),
        };
        (key, before)
    }
}

impl Store for MemoryStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.rows.get(&(table, key.to_vec())).cloned())
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let start = (table, prefix.max(from).to_vec());
        for ((_, key), value) in
            self.rows.range(start..).take_while(|((at, key), _)| *at == table && key.starts_with(prefix))
        {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        let entry = self.rows.range(..=(table, at_most.to_vec())).next_back();
        Ok(entry
            .filter(|((at, key), _)| *at == table && key.starts_with(prefix))
            .map(|((_, key), value)| (key.clone(), value.clone())))
    }
}

impl WriteStore for MemoryStore {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let rows = match self.fault.take() {
            Some(Fault::Refuse) => return Err(StoreError::Io("refused, as told".into())),
            Some(Fault::Tear(rows)) => rows,
            None => usize::MAX,
        };
        let undo: Undo = batch.rows().take(rows).map(|(table, key, value)| self.apply(table, key, value)).collect();
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.push(undo);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(store: &mut MemoryStore, rows: &[(&str, Option<&str>)]) {
        let mut batch = Batch::default();
        for (key, value) in rows {
            match value {
                Some(value) => batch.put(Table::Spaces, key.as_bytes(), value.as_bytes()),
                None => batch.delete(Table::Spaces, key.as_bytes()),
            }
        }
        store.write(&batch).unwrap();
    }

    fn shown(store: &MemoryStore) -> String {
        let mut shown = String::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            shown += &format!("{}={} ", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            ControlFlow::Continue(())
        };
        store.scan(Table::Spaces, b"", b"", &mut visit).unwrap();
        shown.trim_end().to_owned()
    }

    /// A crash goes back to a whole batch: the last synced one, or a later one. A simulation that lost halves, or nothing,
    /// would prove nothing.
    #[test]
    fn a_crash_forgets_whole_batches() {
        let mut store = MemoryStore::default();
        write(&mut store, &[("a", Some("1"))]);
        store.sync();
        write(&mut store, &[("a", Some("2")), ("b", Some("2"))]);
        write(&mut store, &[("a", None), ("c", Some("3"))]);
        write(&mut store, &[("a", Some("4")), ("b", None)]);
        assert_eq!((shown(&store).as_str(), store.unsynced()), ("a=4 c=3", Some(3)));
        store.lose(1);
        assert_eq!(shown(&store), "b=2 c=3");
        store.crash();
        assert_eq!((shown(&store).as_str(), store.unsynced()), ("a=1", Some(0)));
    }

    #[test]
    fn before_the_first_sync_nothing_is_on_disk() {
        let mut store = MemoryStore::default();
        write(&mut store, &[("a", Some("1"))]);
        assert_eq!(store.unsynced(), None);
        store.crash();
        assert_eq!(shown(&store), "");
    }

    #[test]
    fn a_batch_is_refused_or_torn_as_it_was_told_to_be() {
        let mut store = MemoryStore::default();
        store.fail_next(Fault::Refuse);
        let mut batch = Batch::default();
        batch.put(Table::Spaces, b"a", b"1");
        batch.put(Table::Spaces, b"b", b"1");
        assert!(matches!(store.write(&batch), Err(StoreError::Io(_))));
        assert_eq!(shown(&store), "");
        store.fail_next(Fault::Tear(1));
        store.write(&batch).unwrap();
        assert_eq!(shown(&store), "a=1");
        store.write(&batch).unwrap();
        assert_eq!(shown(&store), "a=1 b=1");
    }
}
