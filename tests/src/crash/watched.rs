//! The real log and the real store behind their traits, with a named step before and after each call. Shipped code has no
//! failpoints: whatever a process can be killed at is a call that one of its parts makes of another, or is seen from aside.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use recant_eventlog::{
    AppendLog, Bounds, Commit, Committed, Epoch, LogError, NewRecord, Output, ProcessLog, ReadLimit, ReadLog, Record,
    Topic, embedded::EmbeddedLog,
};
use recant_projections::{
    store::{Batch, Entry, Store, StoreError, Visit, WriteStore, behind::WriteBehind},
    tables::Table,
};
use recant_proto::position::{Incarnation, Position};

use super::{
    gun::{Gun, Phase, Scene, tell},
    steps::Step,
};

/// The embedded log, watched.
pub struct WatchedLog {
    /// The log.
    pub log: EmbeddedLog,
    /// Its directory.
    pub directory: PathBuf,
    /// What ends the process.
    pub gun: Arc<Gun>,
    /// What the others are at.
    pub scene: Arc<Scene>,
}

impl ReadLog for WatchedLog {
    fn incarnation(&self) -> Incarnation {
        self.log.incarnation()
    }

    fn partitions(&self) -> u32 {
        self.log.partitions()
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        self.log.bounds(topic, partition)
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        // The driver also reads one record, to see whether its state is of this log.
        if self.scene.phase() == Phase::Recovering && limit.records_max > 1 {
            self.scene.is_recovery_folding.store(true, Ordering::SeqCst);
        }
        self.log.read(topic, partition, from_offset, limit)
    }

    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        self.log.committed(partition)
    }

    fn refresh(&self) -> Result<(), LogError> {
        self.log.refresh()
    }
}

impl AppendLog for WatchedLog {
    fn append(&self, records: Vec<NewRecord>) -> Result<Vec<Position>, LogError> {
        self.gun.reached(Step::AppendBegins);
        self.scene.appends_under_way.fetch_add(1, Ordering::SeqCst);
        let positions = self.log.append(records);
        self.scene.appends_under_way.fetch_sub(1, Ordering::SeqCst);
        if positions.is_ok() {
            self.gun.reached(Step::AppendReturned);
        }
        positions
    }
}

impl ProcessLog for WatchedLog {
    fn acquire(&self, partition: u32) -> Result<(Epoch, Committed), LogError> {
        self.gun.reached(Step::AcquireBegins);
        let acquired = self.log.acquire(partition)?;
        self.gun.reached(Step::Acquired);
        self.gun.reached(Step::RecoveryAcquired);
        Ok(acquired)
    }

    fn commit(&self, partition: u32, epoch: Epoch, outputs: Vec<Output>, committed: Committed) -> Commit {
        self.gun.reached(Step::CommitBegins);
        if self.gun.step() == Some(Step::CommitBetweenPieces) {
            tell(&format!("committing up to {}", committed.next_offset));
        }
        self.scene.wal_bytes_at_commit.store(wal_bytes(&self.directory), Ordering::SeqCst);
        self.scene.commit.fetch_add(1, Ordering::SeqCst);
        let answer = self.log.commit(partition, epoch, outputs, committed);
        self.scene.commit.fetch_add(1, Ordering::SeqCst);
        self.gun.reached(Step::CommitReturned);
        answer
    }
}

/// How long the write-ahead logs in a directory are together.
pub fn wal_bytes(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let is_wal = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    let lengths = entries.flatten().map(|entry| entry.path()).filter(is_wal).map(std::fs::metadata);
    lengths.flatten().map(|metadata| metadata.len()).sum()
}

/// The state in RocksDB, watched.
pub struct WatchedStore {
    /// The store.
    pub store: WriteBehind,
    /// What ends the process.
    pub gun: Arc<Gun>,
    /// What the others are at.
    pub scene: Arc<Scene>,
}

impl WatchedStore {
    fn looked_up(&self) {
        if self.scene.is_folding.load(Ordering::SeqCst) {
            self.gun.reached(Step::Folding);
        }
        if self.scene.phase() == Phase::Recovering && self.scene.is_recovery_folding.load(Ordering::SeqCst) {
            self.gun.reached(Step::RecoveryFolding);
        }
    }
}

impl Store for WatchedStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.looked_up();
        self.store.get(table, key)
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.looked_up();
        self.store.scan(table, prefix, from, visit)
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.looked_up();
        self.store.last(table, prefix, at_most)
    }
}

impl WriteStore for WatchedStore {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.watch(|store| store.write(batch))
    }

    fn hand_over(&mut self, batch: &mut Batch) -> Result<(), StoreError> {
        self.watch(|store| store.hand_over(batch))
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.store.finish()
    }
}

impl WatchedStore {
    fn watch(&mut self, write: impl FnOnce(&mut WriteBehind) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let recovering = self.scene.phase() == Phase::Recovering;
        self.gun.reached(if recovering { Step::RecoveryStoreBegins } else { Step::StoreBegins });
        self.scene.store.fetch_add(1, Ordering::SeqCst);
        let written = write(&mut self.store);
        self.scene.store.fetch_add(1, Ordering::SeqCst);
        self.gun.reached(if recovering { Step::RecoveryStored } else { Step::StoreWritten });
        written
    }
}
