//! Reading a log that another process writes. A follower is a RocksDB secondary instance: any number may follow, none
//! disturbs the writer, and each sees the log as it was when it last asked. It goes on through the writer's death and
//! restart.
//!
//! RocksDB alone does not promise that: a catch-up reads the manifest, then lists the write-ahead logs, then reads them one
//! by one, and a flush by the writer in between makes it miss the end of one log and apply the next. So what a catch-up
//! found is taken only if the files it depends on were the same before and after it ([`Footprint`]); otherwise it is
//! repeated, and until one succeeds the follower answers from what it took last. An instance that has failed stays so,
//! whatever the writer does: another is opened in its place.
//!
//! A follower reads what the writer has handed to the system, perhaps some microseconds before it is on disk and
//! acknowledged. Only if the whole machine then fails at once can it have seen records that are gone afterwards.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use recant_proto::position::Incarnation;

use super::TableUse;
use super::footprint::Footprint;
use super::tables::{Header, Tables};
use crate::partition::PartitionState;
use crate::{Bounds, Committed, LogError, ReadLimit, ReadLog, Record, Topic};

/// How often a catch-up is repeated at once while the writer changes its files.
const CATCH_UP_ATTEMPTS: u32 = 20;

/// How often an opening is repeated, and after which pause: the writer may be replacing its manifest.
const OPEN_ATTEMPTS: u32 = 50;
const OPEN_RETRY_AFTER: Duration = Duration::from_millis(20);

/// A log that another process writes, or none at present.
pub struct Follower {
    dir: PathBuf,
    header: Header,
    /// Of the database, which may be removed and made anew while we follow it.
    identity: Vec<u8>,
    /// As the last whole catch-up found them. Records below their ends are there, whatever has been read since.
    states: RwLock<Vec<PartitionState>>,
    /// The files as they were when the last whole catch-up began. Held during a catch-up: one at a time.
    taken: Mutex<Option<Footprint>>,
    tables: RwLock<Arc<Tables>>,
}

impl Follower {
    /// Follows the log in this directory, from as it is now.
    pub fn open(dir: &Path) -> Result<Follower, LogError> {
        let mut attempt = 1;
        loop {
            let before = footprint(dir);
            match Self::try_open(dir) {
                Err(error) if attempt < OPEN_ATTEMPTS && may_pass(dir, &error, before.as_ref()) => {
                    tracing::debug!(dir = %dir.display(), %error, attempt, "opening to follow failed; trying again");
                    attempt += 1;
                    std::thread::sleep(OPEN_RETRY_AFTER);
                }
                opened => return opened,
            }
        }
    }

    fn try_open(dir: &Path) -> Result<Follower, LogError> {
        let identity = Tables::identity(dir)?;
        let tables = open_tables(dir)?;
        let header = tables.header()?;
        let follower = Follower {
            dir: dir.to_owned(),
            header,
            identity,
            states: RwLock::default(),
            taken: Mutex::new(None),
            tables: RwLock::new(Arc::new(tables)),
        };
        if !follower.catch_up()? {
            return Err(LogError::Io(format!("{} changes too fast to be followed; try again", dir.display())));
        }
        tracing::debug!(dir = %dir.display(), incarnation = %header.incarnation, "following the log");
        Ok(follower)
    }

    /// The first event that the log took at this time of its clock or later; the end if there is none.
    pub fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        let bounds = self.bounds(Topic::Events, partition)?;
        self.tables().find_by_time(partition, bounds, log_time_ms)
    }

    /// The names of the files that hold tables, as of the last catch-up.
    pub fn live_files(&self) -> Result<Vec<String>, LogError> {
        self.tables().live_files()
    }

    /// What each table takes.
    pub fn disk_use(&self) -> Result<Vec<TableUse>, LogError> {
        self.tables().disk_use()
    }

    /// Takes what the writer has written since. Whether it could: not if its files changed all the while.
    fn catch_up(&self) -> Result<bool, LogError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..CATCH_UP_ATTEMPTS {
            let Some(before) = Footprint::of(&self.dir)? else { continue };
            // A catch-up costs milliseconds even when there is nothing new; looking at the files costs microseconds.
            if taken.as_ref() == Some(&before) {
                return Ok(true);
            }
            // The manifest may name tables that the writer has compacted and removed by now.
            let tables = self.tables();
            let caught_up = tables.catch_up();
            if Footprint::of(&self.dir)?.is_some_and(|after| before.only_grew_into(&after)) {
                if let Err(error) = caught_up {
                    tracing::debug!(dir = %self.dir.display(), %error, "catching up failed; opening anew");
                    self.open_anew()?;
                    continue;
                }
                let states = (0..self.header.partitions).map(|partition| tables.partition_state(partition));
                let states = states.collect::<Result<_, _>>()?;
                *self.states.write().unwrap_or_else(PoisonError::into_inner) = states;
                *taken = Some(before);
                return Ok(true);
            }
        }
        tracing::debug!(dir = %self.dir.display(), "the log's files changed during every catch-up");
        Ok(false)
    }

    fn tables(&self) -> Arc<Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another instance in the place of one that has failed. What was taken last stands until it has caught up.
    fn open_anew(&self) -> Result<(), LogError> {
        if Tables::identity(&self.dir)? != self.identity {
            return Err(self.replaced());
        }
        let tables = match open_tables(&self.dir) {
            Ok(tables) => tables,
            // The writer may be changing its files; the next attempt tells.
            Err(LogError::Io(error)) => {
                tracing::debug!(dir = %self.dir.display(), error, "opening anew failed");
                std::thread::sleep(OPEN_RETRY_AFTER);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
        Ok(())
    }

    fn replaced(&self) -> LogError {
        let dir = self.dir.display();
        LogError::Format(format!("{dir} no longer holds the log that was being read; begin again"))
    }

    fn with_state<T>(
        &self,
        partition: u32,
        look: impl FnOnce(&PartitionState) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        look(states.get(partition as usize).ok_or(LogError::NoPartition(partition))?)
    }
}

fn open_tables(dir: &Path) -> Result<Tables, LogError> {
    let own_dir = tempfile::Builder::new()
        .prefix("recant-follower-")
        .tempdir()
        .map_err(|error| LogError::Io(format!("no directory for a follower: {error}")))?;
    let tables = Tables::follow(dir, own_dir.path());
    // For RocksDB's diary, which is open by now. Removed at once: a follower is ended with Ctrl-C as a rule.
    drop(own_dir);
    tables
}

/// Whether an opening failed only because the writer changed its files meanwhile. When a writer opens its log it turns
/// write-ahead logs into tables: who has read the manifest before, and looks for those logs after, finds an empty log.
fn may_pass(dir: &Path, error: &LogError, before: Option<&Footprint>) -> bool {
    let has_changed = match (before, footprint(dir)) {
        (Some(before), Some(after)) => !before.only_grew_into(&after),
        (None, None) => false,
        _ => true,
    };
    has_changed || matches!(error, LogError::Io(_))
}

/// Where even that cannot be read, opening says why.
fn footprint(dir: &Path) -> Option<Footprint> {
    Footprint::of(dir).ok().flatten()
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("dir", &self.dir).field("header", &self.header).finish_non_exhaustive()
    }
}

impl ReadLog for Follower {
    fn incarnation(&self) -> Incarnation {
        self.header.incarnation
    }

    fn partitions(&self) -> u32 {
        self.header.partitions
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        self.with_state(partition, |state| Ok(state.extent(topic).bounds))
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let bounds = self.with_state(partition, |state| state.check_readable(topic, partition, from_offset))?;
        match self.tables().read(topic, partition, from_offset..bounds.end, limit) {
            // What it took last may name tables that are gone; what there is now has the same records.
            Err(error @ (LogError::Io(_) | LogError::DamagedFiles { .. } | LogError::Damaged { .. })) => {
                tracing::debug!(dir = %self.dir.display(), %error, "reading failed; opening anew");
                self.open_anew()?;
                self.catch_up()?;
                self.tables().read(topic, partition, from_offset..bounds.end, limit)
            }
            read => read,
        }
    }

    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        self.with_state(partition, |state| Ok(state.committed.clone()))
    }

    fn refresh(&self) -> Result<(), LogError> {
        if Tables::identity(&self.dir)? != self.identity {
            return Err(self.replaced());
        }
        self.catch_up().map(|_| ())
    }
}
