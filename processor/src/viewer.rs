//! Another process's log and state, to read and to follow.

use std::path::{Path, PathBuf};

use recant_eventlog::{LogError, ReadLog, embedded::Follower};
use recant_projections::store::{StoreError, rocks::RocksStore};
use recant_proto::names;

use crate::standalone::{log_directory, state_directory};

/// What can go wrong with reading.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The state failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A data directory that is read. Opening it changes nothing in it.
pub struct Viewer {
    data: PathBuf,
    log: Follower,
}

impl Viewer {
    /// Opens the log of a data directory.
    pub fn open(data: &Path) -> Result<Viewer, ViewError> {
        Ok(Viewer { data: data.to_owned(), log: Follower::open(&log_directory(data))? })
    }

    /// The log.
    pub fn log(&self) -> &Follower {
        &self.log
    }

    /// The state of a partition, of this moment.
    pub fn state(&self, partition: u32) -> Result<RocksStore, ViewError> {
        let store = RocksStore::follow(&state_directory(&self.data, partition))?;
        if let Some(row) = recant_projections::tables::partition::get(&store)? {
            recant_projections::fold::check_versions(&row)?;
        }
        Ok(store)
    }

    /// The partition of a space.
    pub fn partition_of(&self, space: &str) -> u32 {
        names::partition_of(space.as_bytes(), self.log.partitions())
    }
}
