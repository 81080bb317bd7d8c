//! Snapshots of the states of a log on Kafka, in a directory or an object store that all its processes reach: so that a lost disk
//! costs a download and the end of the log, and not a replay of all of it.
//!
//! ```text
//! INCARNATION/PARTITION/files/BLAKE3                        a file of some snapshots, by the hash of its content
//! INCARNATION/PARTITION/snapshots/NEXT_OFFSET-MADE_AT.json  a snapshot: its manifest
//! ```
//!
//! What they promise:
//! - A snapshot is a RocksDB checkpoint of what the owner has stored, and that is never ahead of what it has committed.
//! - Its manifest is written last, once all its files are there: what has one is whole.
//! - A file that an earlier snapshot has is not uploaded again. RocksDB never changes a table that is complete, so that mostly
//!   a few are new.
//! - [`Snapshots::restore_newest`] takes the newest one that is good: of this log, of a version that this program reads, not ahead
//!   of what was published, with every file and the digest of every space as its manifest says. One that is not is skipped, and
//!   [`Skipped`] says which and why.
//! - The newest few are kept and those that are young. A file goes when no snapshot that is kept has it, and not while it is so young
//!   that a snapshot under way may have it ([`FILE_GRACE_MS`]).
//!
//! They are for speed alone, and any can be removed.

mod keep;
mod make;
mod manifest;
mod remote;
mod restore;

use std::path::PathBuf;

use recant_eventlog::LogError;
use recant_proto::position::Incarnation;

pub use self::{
    make::Made,
    manifest::{SNAPSHOT_FORMAT, StateManifest},
    remote::Remote,
    restore::{Restored, Skipped},
};
use crate::{backup::BackupError, driver::DriveError};

/// A file that no snapshot has stays for so long: it may be one of a snapshot that is being made.
pub const FILE_GRACE_MS: i64 = 6 * 3_600_000;

/// Which snapshots are kept: those that either says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// So many of the newest.
    pub count: usize,
    /// Those that are younger than this.
    pub age_ms: i64,
}

impl Default for Keep {
    fn default() -> Self {
        Keep { count: 3, age_ms: 24 * 3_600_000 }
    }
}

/// The snapshots of a log's states in one place.
#[derive(Debug)]
pub struct Snapshots {
    remote: Remote,
    incarnation: Incarnation,
}

impl Snapshots {
    /// Those of a log.
    pub fn of(remote: Remote, incarnation: Incarnation) -> Snapshots {
        Snapshots { remote, incarnation }
    }

    fn directory(&self, partition: u32, kind: &str) -> String {
        format!("{}/{partition}/{kind}", self.incarnation)
    }

    fn file(&self, partition: u32, blake3: &str) -> String {
        format!("{}/{blake3}", self.directory(partition, "files"))
    }

    /// The names of a partition's snapshots, the newest first: by their position, then by their time.
    pub fn names(&self, partition: u32) -> Result<Vec<SnapshotName>, SnapshotError> {
        let found = self.remote.list(&self.directory(partition, "snapshots"))?;
        let mut names: Vec<SnapshotName> = found.into_iter().filter_map(|found| SnapshotName::of(found.path)).collect();
        names.sort_unstable_by_key(|name| std::cmp::Reverse((name.next_offset, name.made_at_ms)));
        Ok(names)
    }
}

/// What the name of a snapshot says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotName {
    /// Where its manifest is.
    pub path: String,
    /// The offset of the first event that is not in it.
    pub next_offset: u64,
    /// When it was made, in ms since 1970.
    pub made_at_ms: i64,
}

impl SnapshotName {
    fn of(path: String) -> Option<SnapshotName> {
        let name = path.rsplit('/').next()?.strip_suffix(".json")?;
        let (next_offset, made_at_ms) = name.split_once('-')?;
        let (next_offset, made_at_ms) = (next_offset.parse().ok()?, made_at_ms.parse().ok()?);
        Some(SnapshotName { path, next_offset, made_at_ms })
    }

    /// The last part of its path.
    fn file_name(next_offset: u64, made_at_ms: i64) -> String {
        format!("{next_offset:020}-{made_at_ms}.json")
    }
}

/// What can go wrong with the snapshots of states.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The place's name is none.
    #[error(
        "{url:?} is no place for snapshots: {detail}. Name a directory, or s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH"
    )]
    Place {
        /// What was named.
        url: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The place does not answer, or refuses.
    #[error("the snapshots' place failed: {0}")]
    Remote(#[from] object_store::Error),
    /// A file could not be read or written here.
    #[error("{}: {detail}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
    /// What was uploaded is not there any more.
    #[error("a file of the snapshot went away while it was made: {0}; the next snapshot has it again")]
    WentAway(String),
    /// The state cannot be read.
    #[error(transparent)]
    State(#[from] BackupError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The state could not be put in its place.
    #[error(transparent)]
    Switch(#[from] Box<DriveError>),
}

impl From<DriveError> for SnapshotError {
    fn from(error: DriveError) -> Self {
        SnapshotError::Switch(Box::new(error))
    }
}

fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> SnapshotError + '_ {
    move |error| SnapshotError::Io { path: path.to_owned(), detail: error.to_string() }
}
