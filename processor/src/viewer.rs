//! Another process's log and state, to read and to follow.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use recant_eventlog::{
    LogError, ReadLog,
    embedded::{Follower, Footprint, check_files},
};
use recant_projections::store::{StoreError, rocks::RocksStore};
use recant_proto::names;

use crate::{rebuild::readable_state, standalone::log_directory};

/// How often an opening is repeated while the writer changes its files, and after which pause.
const OPEN_ATTEMPTS: u32 = 50;
const OPEN_RETRY_AFTER: Duration = Duration::from_millis(10);

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

    /// Where the state of a partition is now.
    pub fn directory_of_state(&self, partition: u32) -> PathBuf {
        readable_state(&self.data, partition)
    }

    /// The state of a partition, of this moment: of one moment, whatever the writer does meanwhile.
    pub fn state(&self, partition: u32) -> Result<RocksStore, ViewError> {
        let mut failure = None;
        for _ in 0..OPEN_ATTEMPTS {
            let directory = self.directory_of_state(partition);
            let before = Footprint::of(&directory)?;
            let store = RocksStore::follow(&directory);
            let after = Footprint::of(&directory)?;
            if let (Some(before), Some(after)) = (&before, &after)
                && before.only_grew_into(after)
            {
                let store = store.map_err(|error| refuse_other_tables(&directory).err().unwrap_or(error))?;
                if let Some(row) = recant_projections::tables::partition::get(&store)? {
                    recant_projections::fold::check_versions(&row)?;
                }
                return Ok(store);
            }
            let is_absent = before.is_none() && !directory.join("CURRENT").exists();
            // A rebuild that is being put in place may have moved it.
            if is_absent && self.directory_of_state(partition) == directory {
                return Err(StoreError::Absent(directory.display().to_string()).into());
            }
            failure = store.err();
            std::thread::sleep(OPEN_RETRY_AFTER);
        }
        let too_fast = || {
            let directory = self.directory_of_state(partition);
            StoreError::Io(format!("{} changes too fast to be read; try again", directory.display()))
        };
        Err(failure.unwrap_or_else(too_fast).into())
    }

    /// Whether every file of the log is there.
    pub fn check_files_of_log(&self) -> Result<(), ViewError> {
        let directory = log_directory(&self.data);
        undisturbed(&directory, || Ok(check_files(&directory)?))
    }

    /// Whether every file of a partition's state is there.
    pub fn check_files_of_state(&self, partition: u32) -> Result<(), ViewError> {
        let directory = self.directory_of_state(partition);
        undisturbed(&directory, || Ok(RocksStore::check_files(&directory)?))
    }

    /// The partition of a space.
    pub fn partition_of(&self, space: &str) -> u32 {
        names::partition_of(space.as_bytes(), self.log.partitions())
    }
}

/// Looks at a database until the writer has changed no files meanwhile.
fn undisturbed(directory: &Path, look: impl Fn() -> Result<(), ViewError>) -> Result<(), ViewError> {
    for _ in 0..OPEN_ATTEMPTS {
        let before = Footprint::of(directory)?;
        let found = look();
        if let (Some(before), Some(after)) = (before, Footprint::of(directory)?)
            && before.only_grew_into(&after)
        {
            return found;
        }
        std::thread::sleep(OPEN_RETRY_AFTER);
    }
    Err(LogError::Io(format!("{} changes too fast to be looked at; try again", directory.display())).into())
}

/// Refuses the state of another version that has other tables; does nothing about one that cannot be read at all. One that
/// has the same tables is opened, and then refused.
pub(crate) fn refuse_other_tables(directory: &Path) -> Result<(), StoreError> {
    if RocksStore::has_our_tables(directory).unwrap_or(true) {
        return Ok(());
    }
    match RocksStore::row_of(directory) {
        Ok(Some(row)) => recant_projections::fold::check_versions(&row),
        // Whoever opens it says what is wrong.
        Ok(None) | Err(_) => Ok(()),
    }
}
