//! Snapshots of a data directory, and their way back.
//!
//! A snapshot is a directory with the log and the state of every partition, laid out as in a data directory, and the file
//! `SNAPSHOT.json` ([`manifest`]), which says what must be in it. It is made under another name, synced, and then renamed:
//! what has the name is whole.
//!
//! [`snapshot`] makes one of a directory that another process may be writing ([`capture`] has how); the writer itself makes
//! one with `Standalone::snapshot`. In both the states are taken before the log, so that no state is ahead of the log, and
//! opening what was restored folds the states forward. [`verify()`] holds a snapshot against its manifest, down to the digest of
//! every space counted anew; [`restore()`] does that first.

mod capture;
mod manifest;
mod place;
mod restore;
mod verify;

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use recant_eventlog::{Clock, LogError, ReadLog};
use recant_projections::{
    fold::FoldError,
    store::{StoreError, rocks::RocksStore},
};
use recant_proto::time::format_log_ms;

use self::capture::Capture;
pub(crate) use self::{
    manifest::files_in,
    verify::{check_digests, check_history},
};
pub use self::{
    manifest::{
        FileEntry, LogExtent, MANIFEST_FILE, Manifest, PartitionEntry, SNAPSHOT_FORMAT, SpaceEntry, StateEntry,
    },
    place::NewDirectory,
    restore::restore,
    verify::verify,
};
use crate::{
    driver::DriveError,
    standalone::{log_directory, state_directory},
    viewer::{ViewError, Viewer},
};

/// Told of so many bytes more that were read, written or checked.
pub type Progress<'a> = &'a dyn Fn(u64);

/// What can go wrong with a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The data cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The data cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory is no snapshot.
    #[error(
        "{} is no snapshot: it has no {MANIFEST_FILE}. One that was interrupted has .partial- in its name, and is of no use",
        .0.display()
    )]
    NotASnapshot(PathBuf),
    /// The snapshot was made by a newer version.
    #[error(
        "{} is a snapshot of format {found}; this recant reads format {SNAPSHOT_FORMAT}: use the version that made it, or a newer one",
        path.display()
    )]
    Newer {
        /// The snapshot.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
    /// A file is not there.
    #[error("the snapshot is damaged: {} is missing. Nothing was restored; use another snapshot", .0.display())]
    Missing(PathBuf),
    /// What is there is not what the snapshot was made of.
    #[error("the snapshot is damaged: {what}: {detail}. Nothing was restored; use another snapshot")]
    Damaged {
        /// A file, a partition or a space.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// State and log of the data directory do not belong together.
    #[error("partition {partition}: the state does not fit the log: {detail}; run `recant rebuild` first")]
    Mismatch {
        /// The partition.
        partition: u32,
        /// What does not fit.
        detail: String,
    },
    /// Something is there already.
    #[error("{} is not empty; name a directory that does not exist yet", .0.display())]
    NotEmpty(PathBuf),
    /// A file could not be read or written.
    #[error("{}: {detail}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
}

impl From<ViewError> for BackupError {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Log(error) => BackupError::Log(error),
            ViewError::Store(error) => BackupError::Store(error),
            ViewError::Mismatch { partition, detail } => BackupError::Mismatch { partition, detail },
        }
    }
}

impl From<DriveError> for BackupError {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::Log(error) => BackupError::Log(error),
            DriveError::Fold(FoldError::Store(error)) => BackupError::Store(error),
            other => BackupError::Log(LogError::Io(other.to_string())),
        }
    }
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> BackupError + '_ {
    move |error| BackupError::Io { path: path.to_owned(), detail: error.to_string() }
}

/// Makes a snapshot of a data directory, whether another process writes it or not. Changes nothing in it.
pub fn snapshot(data: &Path, to: &Path, clock: &dyn Clock, progress: Progress<'_>) -> Result<Manifest, BackupError> {
    let target = NewDirectory::beside(to)?;
    // Tells whether there is a log, and one that this version reads.
    let viewer = Viewer::open(data)?;
    let mut states = Vec::new();
    for partition in 0..viewer.log().partitions() {
        if let Some(state) = Capture::of(&viewer.directory_of_state(partition))? {
            states.push((partition, state));
        }
    }
    let log = Capture::of(&log_directory(data))?
        .ok_or_else(|| LogError::Absent(log_directory(data).display().to_string()))?;
    log.write_to(&log_directory(target.path()), progress)?;
    for (partition, state) in states {
        state.write_to(&state_directory(target.path(), partition), progress)?;
    }
    finish(target, clock, progress)
}

/// Makes a snapshot of what this process writes: `checkpoint_states` copies every state into a data directory, and after
/// it `checkpoint_log` the log.
pub(crate) fn snapshot_of_writer(
    to: &Path,
    clock: &dyn Clock,
    checkpoint_states: impl FnOnce(&Path) -> Result<(), BackupError>,
    checkpoint_log: impl FnOnce(&Path) -> Result<(), BackupError>,
) -> Result<Manifest, BackupError> {
    let target = NewDirectory::beside(to)?;
    checkpoint_states(target.path())?;
    checkpoint_log(target.path())?;
    finish(target, clock, &|_| {})
}

/// Says what is in the copy, syncs it, and gives it its name.
fn finish(target: NewDirectory, clock: &dyn Clock, progress: Progress<'_>) -> Result<Manifest, BackupError> {
    let copy = target.path();
    let viewer = Viewer::open(copy)?;
    viewer.check_files_of_log()?;
    capture::remove_what_is_not_needed(&log_directory(copy), &viewer.log().live_files()?)?;
    let mut partitions = Vec::new();
    for partition in 0..viewer.log().partitions() {
        let state = state_of(&viewer, partition)?;
        if let Some(store) = &state {
            viewer.check_files_of_state(partition)?;
            capture::remove_what_is_not_needed(&state_directory(copy, partition), &store.live_files()?)?;
            verify::check_history(viewer.log(), store, partition)?
                .map_err(|detail| BackupError::Mismatch { partition, detail })?;
        }
        partitions.push(PartitionEntry::of(viewer.log(), state.as_ref(), partition)?);
    }
    let files = manifest::files_in(copy, progress)?;
    let manifest = Manifest {
        format_version: SNAPSHOT_FORMAT,
        recant_version: env!("CARGO_PKG_VERSION").to_owned(),
        made_at: format_log_ms(clock.now_ms()),
        incarnation: viewer.log().incarnation().to_string(),
        bytes: files.iter().map(|file| file.bytes).sum(),
        partitions,
        files,
    };
    for file in &manifest.files {
        sync(&copy.join(&file.path))?;
    }
    manifest.write(copy)?;
    target.take_its_name()?;
    Ok(manifest)
}

/// The state of a partition in a snapshot or in what is to become one; nothing if the partition has none yet.
fn state_of(viewer: &Viewer, partition: u32) -> Result<Option<RocksStore>, BackupError> {
    match viewer.state(partition) {
        Ok(store) => Ok(Some(store)),
        Err(ViewError::Store(StoreError::Absent(_))) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn sync(path: &Path) -> Result<(), BackupError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(io(path))
}
