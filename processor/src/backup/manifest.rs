//! `SNAPSHOT.json`: what a snapshot must hold, so that whoever restores it can tell. JSON, one object:
//!
//! | member | says |
//! |---|---|
//! | `format_version` | [`SNAPSHOT_FORMAT`]; a newer one is refused |
//! | `recant_version`, `made_at` | which program made it, and when |
//! | `incarnation` | the log |
//! | `bytes`, `files` | every file with its length and BLAKE3 hash |
//! | `partitions` | of each partition: where topics begin and end, up to where it was processed, the hash of what was published up to there; and of its state, if there is one: versions, position, and each space with its digest |
//!
//! Offsets named `next_offset` and `end` are those of the first event that is not included.

use std::{
    fs::{self, File},
    io::{self as std_io, Write},
    path::{Path, PathBuf},
};

use recant_eventlog::{ReadLog, Topic};
use recant_projections::{
    justification::digest::{to_hex, to_hex_bytes},
    store::{Store, StoreError},
    tables::{partition, spaces},
};
use serde::{Deserialize, Serialize};

use super::{BackupError, Progress, io};

/// The version of the layout of snapshots.
pub const SNAPSHOT_FORMAT: u32 = 1;

/// The name of the file.
pub const MANIFEST_FILE: &str = "SNAPSHOT.json";

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SNAPSHOT_FORMAT`].
    pub format_version: u32,
    /// The program that made it.
    pub recant_version: String,
    /// When, in RFC 3339.
    pub made_at: String,
    /// The log's name.
    pub incarnation: String,
    /// The lengths of all files, together.
    pub bytes: u64,
    /// In order of their numbers.
    pub partitions: Vec<PartitionEntry>,
    /// In order of their paths.
    pub files: Vec<FileEntry>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionEntry {
    /// Its number.
    pub partition: u32,
    /// What each topic holds.
    pub events: LogExtent,
    /// As above.
    pub changes: LogExtent,
    /// As above.
    pub rejected: LogExtent,
    /// Up to where its events were processed.
    pub committed_next_offset: u64,
    /// The hash of what was published up to there, in hex.
    pub committed_outputs_hash: String,
    /// Its state, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateEntry>,
}

/// What is kept of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogExtent {
    /// The first offset.
    pub earliest: u64,
    /// The offset that the next record gets.
    pub end: u64,
}

/// The state of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateEntry {
    /// The version of its layout.
    pub format_version: u32,
    /// The version of the rules.
    pub logic_version: u32,
    /// Up to where it has applied events.
    pub next_offset: u64,
    /// In order of their names.
    pub spaces: Vec<SpaceEntry>,
}

/// A space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceEntry {
    /// Its name.
    pub space: String,
    /// Its state digest, in hex.
    pub digest: String,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its path below the snapshot.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The BLAKE3 hash of its bytes, in hex.
    pub blake3: String,
}

impl Manifest {
    /// The manifest of a snapshot.
    pub fn read(snapshot: &Path) -> Result<Manifest, BackupError> {
        let path = snapshot.join(MANIFEST_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), std_io::ErrorKind::NotFound | std_io::ErrorKind::NotADirectory) => {
                return Err(BackupError::NotASnapshot(snapshot.to_owned()));
            }
            Err(error) => return Err(io(&path)(error)),
        };
        let damaged = |error: serde_json::Error| BackupError::Damaged {
            what: path.display().to_string(),
            detail: error.to_string(),
        };
        // The version first: of a newer one nothing else is known.
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
        match value.get("format_version").and_then(serde_json::Value::as_u64) {
            Some(found) if found > u64::from(SNAPSHOT_FORMAT) => {
                Err(BackupError::Newer { path: snapshot.to_owned(), found })
            }
            _ => serde_json::from_value(value).map_err(damaged),
        }
    }

    pub(super) fn write(&self, snapshot: &Path) -> Result<(), BackupError> {
        let path = snapshot.join(MANIFEST_FILE);
        let write = || -> std_io::Result<()> {
            let mut file = File::create_new(&path)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.write_all(b"\n")?;
            file.sync_all()
        };
        write().map_err(io(&path))
    }
}

impl PartitionEntry {
    pub(super) fn of(
        log: &impl ReadLog,
        state: Option<&impl Store>,
        partition: u32,
    ) -> Result<PartitionEntry, BackupError> {
        let extent = |topic| -> Result<LogExtent, BackupError> {
            let bounds = log.bounds(topic, partition)?;
            Ok(LogExtent { earliest: bounds.earliest, end: bounds.end })
        };
        let committed = log.committed(partition)?;
        Ok(PartitionEntry {
            partition,
            events: extent(Topic::Events)?,
            changes: extent(Topic::Changes)?,
            rejected: extent(Topic::Rejected)?,
            committed_next_offset: committed.next_offset,
            committed_outputs_hash: to_hex_bytes(&committed.metadata),
            state: state.map(StateEntry::of).transpose()?,
        })
    }
}

impl StateEntry {
    /// What a state says of itself.
    pub(crate) fn of(store: &impl Store) -> Result<StateEntry, StoreError> {
        // A state that was opened and to which nothing was applied has no row.
        let row = partition::get(store)?.unwrap_or_else(|| partition::Row {
            format_version: partition::FORMAT_VERSION,
            logic_version: partition::LOGIC_VERSION,
            ..partition::Row::default()
        });
        let spaces = spaces::all(store)?.into_iter();
        Ok(StateEntry {
            format_version: row.format_version,
            logic_version: row.logic_version,
            next_offset: row.next_offset,
            spaces: spaces.map(|(space, row)| SpaceEntry { space, digest: to_hex(row.digest()) }).collect(),
        })
    }
}

/// Every file of a snapshot but its manifest, as it is now.
pub(crate) fn files_in(snapshot: &Path, progress: Progress<'_>) -> Result<Vec<FileEntry>, BackupError> {
    let mut paths = Vec::new();
    collect(snapshot, &mut paths)?;
    paths.sort_unstable();
    let mut files = Vec::new();
    for path in paths {
        let below = path.strip_prefix(snapshot).unwrap_or(&path);
        if below == Path::new(MANIFEST_FILE) {
            continue;
        }
        let (bytes, blake3) = hash(&path, progress).map_err(io(&path))?;
        files.push(FileEntry { path: below.to_string_lossy().into_owned(), bytes, blake3 });
    }
    Ok(files)
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<(), BackupError> {
    for entry in fs::read_dir(directory).map_err(io(directory))? {
        let entry = entry.map_err(io(directory))?;
        if entry.file_type().map_err(io(directory))?.is_dir() {
            collect(&entry.path(), paths)?;
        } else {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// How long a file is, and its hash.
fn hash(path: &Path, progress: Progress<'_>) -> std_io::Result<(u64, String)> {
    let mut hasher = blake3::Hasher::new();
    let bytes = copy_in_pieces(&mut File::open(path)?, &mut hasher, progress)?;
    Ok((bytes, hasher.finalize().to_hex().to_string()))
}

/// Copies to the end, and gives how many bytes there were.
pub(super) fn copy_in_pieces(
    from: &mut impl std_io::Read,
    to: &mut impl Write,
    progress: Progress<'_>,
) -> std_io::Result<u64> {
    let mut piece = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let read = from.read(&mut piece)?;
        let Some(piece) = piece.get(..read).filter(|piece| !piece.is_empty()) else { return Ok(bytes) };
        to.write_all(piece)?;
        bytes += read as u64;
        progress(read as u64);
    }
}
