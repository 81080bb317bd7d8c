//! State in memory, for tests and simulations. It can lose its last batches (a crash before they were on disk), and can
//! be told to fail or to tear the next one, which a real store never does: tests use it to show that they would notice.

use std::{collections::BTreeMap, ops::ControlFlow};

use super::{Batch, Entry, Store, StoreError, Visit, WriteStore};
use crate::tables::Table;

type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

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
    synced: Rows,
    fault: Option<Fault>,
}

impl MemoryStore {
    /// What is written up to now survives a crash.
    pub fn sync(&mut self) {
        self.synced = self.rows.clone();
    }

    /// Forgets what was not synced.
    pub fn crash(&mut self) {
        self.rows = self.synced.clone();
    }

    /// Sets what happens to the next batch.
    pub fn fail_next(&mut self, fault: Fault) {
        self.fault = Some(fault);
    }

    fn apply(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.rows.insert((table, key.to_vec()), value.to_vec()),
            None => self.rows.remove(&(table, key.to_vec())),
        };
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
        batch.rows().take(rows).for_each(|(table, key, value)| self.apply(table, key, value));
        Ok(())
    }
}
