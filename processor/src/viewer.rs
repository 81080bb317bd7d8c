//! Another process's log and state, to read and to follow.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use recant_eventlog::{
    LogError, ReadLimit, ReadLog, Topic,
    embedded::{Follower, Footprint, check_files},
};
use recant_projections::{
    fold,
    store::{StoreError, rocks::RocksStore},
    tables::partition as standing,
};
use recant_proto::names;

use crate::{
    standalone::{check_state_files, log_directory},
    switch::readable_state,
};

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
    /// The state is of another log, or of another history of this one.
    #[error(
        "the state of partition {partition} does not fit the log: {detail}. If the log is the right one, and not an older copy of it or one that lost its end, make the state anew with `recant rebuild`; else restore the log from its newest snapshot (recant restore SNAPSHOT --data DIR)"
    )]
    Mismatch {
        /// The partition.
        partition: u32,
        /// What does not fit.
        detail: String,
    },
}

/// Which directory a path leads to now.
fn inode(directory: &Path) -> Option<u64> {
    std::fs::metadata(directory).ok().map(|metadata| metadata.ino())
}

/// A data directory that is read, and the log that its states are of. Opening it changes nothing in it.
pub struct Viewer<L = Follower> {
    data: PathBuf,
    log: L,
}

impl Viewer {
    /// Opens a data directory with its log.
    pub fn open(data: &Path) -> Result<Viewer, ViewError> {
        Ok(Viewer::over(data, Follower::open(&log_directory(data))?))
    }

    /// Whether every file of the log is there.
    pub fn check_files_of_log(&self) -> Result<(), ViewError> {
        let directory = log_directory(&self.data);
        undisturbed(&directory, || Ok(check_files(&directory)?))
    }
}

impl<L: ReadLog> Viewer<L> {
    /// A data directory whose log is elsewhere.
    pub fn over(data: &Path, log: L) -> Viewer<L> {
        Viewer { data: data.to_owned(), log }
    }

    /// The log.
    pub fn log(&self) -> &L {
        &self.log
    }

    /// The log, once the states are open.
    pub fn into_log(self) -> L {
        self.log
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
            // A rebuild puts another directory in its place, whose files may have the same names.
            let place = inode(&directory);
            if let Err(error) = check_state_files(&directory) {
                if inode(&directory) == place {
                    return Err(error.into());
                }
                failure = Some(error);
                continue;
            }
            let before = Footprint::of(&directory)?;
            let store = RocksStore::follow(&directory);
            let after = Footprint::of(&directory)?;
            if let (Some(before), Some(after)) = (&before, &after)
                && before.only_grew_into(after)
                && inode(&directory) == place
            {
                let store = store.map_err(|error| refuse_other_tables(&directory).err().unwrap_or(error))?;
                if let Some(row) = standing::get(&store)? {
                    fold::check_versions(&row)?;
                    self.check_history(partition, &row)?;
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

    /// Whether every file of a partition's state is there.
    pub fn check_files_of_state(&self, partition: u32) -> Result<(), ViewError> {
        let directory = self.directory_of_state(partition);
        undisturbed(&directory, || Ok(RocksStore::check_files(&directory)?))
    }

    /// Whether the last record that the state applied is the one in the log.
    fn check_history(&self, partition: u32, row: &standing::Row) -> Result<(), ViewError> {
        let mismatch = |detail: String| Err(ViewError::Mismatch { partition, detail });
        let (of_state, of_log) = (fold::incarnation_of(row), self.log.incarnation());
        if of_state != of_log {
            return mismatch(format!("the state is of the log {of_state}, and this is the log {of_log}"));
        }
        let Some(last) = row.next_offset.checked_sub(1) else { return Ok(()) };
        let mut bounds = self.log.bounds(Topic::Events, partition)?;
        // The state may have been written since the log was opened, but not before the log was.
        for _ in 0..OPEN_ATTEMPTS {
            if bounds.end > last {
                break;
            }
            self.log.refresh()?;
            bounds = self.log.bounds(Topic::Events, partition)?;
            if bounds.end <= last {
                std::thread::sleep(OPEN_RETRY_AFTER);
            }
        }
        if last >= bounds.end {
            return mismatch(format!("it is at offset {last}, and the log ends at {}", bounds.end));
        }
        if last < bounds.earliest {
            return Ok(());
        }
        let records = self.log.read(Topic::Events, partition, last, ReadLimit { records_max: 1, bytes_max: 1 })?;
        let same = records.first().is_some_and(|record| fold::record_hash(&record.input()) == row.last_record_hash);
        if same { Ok(()) } else { mismatch(format!("the record at offset {last} is not the one that it applied")) }
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
