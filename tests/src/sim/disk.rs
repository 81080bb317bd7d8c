//! Where the state of a partition lies in one process, as that process sees it, and as readers do.

use std::{cell::RefCell, ops::ControlFlow, rc::Rc};

use recant_projections::{
    store::{
        Batch, Entry, Store, StoreError, Visit, WriteStore,
        memory::{self, MemoryStore},
    },
    tables::Table,
};

use super::{
    mishaps::{Died, Mishaps, Phase, TOLD_TO},
    names::{Fault, Step},
};

/// Rows that outlive the process that writes them. Clones are the same rows. Readers read through this.
#[derive(Clone, Default)]
pub struct Disk(Rc<RefCell<Rows>>);

#[derive(Default)]
struct Rows {
    written: MemoryStore,
    /// Planted: an open batch over what is written, which readers see.
    leaked: Option<MemoryStore>,
    /// What a reader saw in the middle of a step.
    glimpsed: Option<MemoryStore>,
}

impl Disk {
    /// A disk with nothing on it.
    pub fn empty() -> Disk {
        let disk = Disk::default();
        disk.sync();
        disk
    }

    /// What is written survives when the power fails.
    pub fn sync(&self) {
        self.0.borrow_mut().written.sync();
    }

    /// How many batches may be forgotten when the power fails.
    pub fn unsynced(&self) -> usize {
        self.0.borrow().written.unsynced().unwrap_or_default()
    }

    /// The power fails, and the last batches are forgotten.
    pub fn lose(&self, batches: usize) {
        self.0.borrow_mut().written.lose(batches);
    }

    /// The disk is replaced by an empty one.
    pub fn wipe(&self) {
        *self.0.borrow_mut() = Rows::default();
        self.sync();
    }

    /// What a reader saw in the middle of the last step, if one looked.
    pub fn take_glimpse(&self) -> Option<MemoryStore> {
        self.0.borrow_mut().glimpsed.take()
    }

    /// Planted: ends the leaking of the open batch, which is written or forgotten.
    pub fn end_leak(&self, is_written: bool) {
        let rows = &mut *self.0.borrow_mut();
        if let (Some(leaked), true) = (rows.leaked.take(), is_written) {
            rows.written = leaked;
        }
    }

    fn read<T>(&self, read: impl FnOnce(&MemoryStore) -> T) -> T {
        let rows = self.0.borrow();
        read(rows.leaked.as_ref().unwrap_or(&rows.written))
    }
}

impl Store for Disk {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|rows| rows.get(table, key))
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.read(|rows| rows.scan(table, prefix, from, &mut |key, value| -> ControlFlow<()> { visit(key, value) }))
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.read(|rows| rows.last(table, prefix, at_most))
    }
}

/// Written to as by a process to which nothing happens.
impl WriteStore for Disk {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.0.borrow_mut().written.write(batch)
    }
}

/// How a process writes batches; other than whole only where a fault is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// All of a batch or nothing.
    Whole,
    /// Planted: first everything but the position, then the position.
    PositionApart,
    /// Planted: into what readers see, before it is known whether it may be written.
    Leaking,
}

/// A disk as the process sees it that writes to it.
pub struct SimStore {
    disk: Disk,
    mishaps: Mishaps,
    writes: Writes,
}

impl SimStore {
    /// The disk as a process sees it that has these failpoints.
    pub fn new(disk: Disk, mishaps: Mishaps, writes: Writes) -> SimStore {
        SimStore { disk, mishaps, writes }
    }

    fn pass_read(&self) -> Result<(), StoreError> {
        self.mishaps.pass(match self.mishaps.phase() {
            Phase::Driving => Step::StoreRead,
            Phase::Opening => Step::OpenStoreRead,
            Phase::Recovering => Step::RecoverFold,
            Phase::StandingBy => Step::StandbyFold,
        })?;
        if self.mishaps.fails(Fault::StoreReadFailed) { Err(failed()) } else { Ok(()) }
    }

    fn write_whole(&self, batch: &Batch) -> Result<(), StoreError> {
        let (before, after) = match self.mishaps.phase() {
            Phase::Driving => (Step::StoreWriteBefore, Step::StoreWriteAfter),
            Phase::Opening | Phase::Recovering => (Step::RecoverWriteBefore, Step::RecoverWriteAfter),
            Phase::StandingBy => (Step::StandbyWriteBefore, Step::StandbyWriteAfter),
        };
        self.mishaps.pass(before)?;
        let rows = &mut *self.disk.0.borrow_mut();
        let is_full = self.mishaps.is_disk_full();
        if is_full {
            self.mishaps.happened(Fault::DiskFull);
        }
        let refused = is_full || self.mishaps.fails(Fault::StoreRefused);
        let target = match self.writes {
            Writes::Leaking => rows.leaked.insert(rows.written.clone()),
            Writes::Whole | Writes::PositionApart => &mut rows.written,
        };
        if refused {
            target.fail_next(memory::Fault::Refuse);
        } else if self.mishaps.tears() {
            target.fail_next(memory::Fault::Tear(batch.len() / 2));
        }
        target.write(batch)?;
        if self.mishaps.take_glimpse() {
            let seen = target.clone();
            rows.glimpsed = Some(seen);
        }
        self.mishaps.pass(after)?;
        Ok(())
    }
}

fn failed() -> StoreError {
    StoreError::Io(TOLD_TO.to_owned())
}

impl From<Died> for StoreError {
    fn from(_: Died) -> Self {
        failed()
    }
}

/// A process reads what is written, whatever leaks.
impl Store for SimStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.pass_read()?;
        self.disk.0.borrow().written.get(table, key)
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.pass_read()?;
        self.disk.0.borrow().written.scan(table, prefix, from, visit)
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.pass_read()?;
        self.disk.0.borrow().written.last(table, prefix, at_most)
    }
}

impl WriteStore for SimStore {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.writes != Writes::PositionApart {
            return self.write_whole(batch);
        }
        let (mut position, mut rest) = (Batch::default(), Batch::default());
        for (table, key, value) in batch.rows() {
            let part = if table == Table::Partition { &mut position } else { &mut rest };
            match value {
                Some(value) => part.put(table, key, value),
                None => part.delete(table, key),
            }
        }
        self.write_whole(&rest)?;
        self.write_whole(&position)
    }
}
