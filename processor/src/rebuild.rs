//! State, made anew from the log.
//!
//! The new state is made beside the old one, and folded without publishing up to where the log says that the partition was
//! processed. The hash of what it would have published must be the one that the log keeps beside that position: so the new
//! state is known to be right before the old one goes. What is found wrong with the old one is told.
//!
//! ```text
//! state/P.rebuild-PID   in the making; of no use
//! state/P.new           complete and on disk: from now on it is the partition's state
//! state/P.new-keep      the same, and the old one is to be kept
//! state/P.discarded-N   the old one, on its way out
//! state/P.old-N         the old one, kept
//! ```
//!
//! Between the two renames of a switch there is no `state/P`. Whoever opens the directory to write goes on with the switch
//! from wherever it was broken off ([`finish_switch`]); who reads takes the complete new one ([`readable_state`]).

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use recant_eventlog::{Clock, Committed, LogError, ReadLog, Topic, embedded::EmbeddedLog};
use recant_projections::{
    audit,
    fold::{self, FoldError, Partition},
    justification::digest::to_hex,
    store::{Store, StoreError, WriteStore, rocks::RocksStore},
    tables::{partition, spaces},
};

use crate::{
    checkpoints,
    driver::{BatchLimit, DriveError, input},
    standalone::{log_directory, state_directory},
};

/// What became of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// Its number.
    pub partition: u32,
    /// How many events were folded.
    pub events: u64,
    /// The offset of the first event that was not.
    pub next_offset: u64,
    /// Its spaces with their digests, in hex.
    pub spaces: Vec<(String, String)>,
    /// How the old state compares.
    pub old: OldState,
    /// Where the old state was kept, if it was.
    pub kept: Option<PathBuf>,
}

/// What the old state was, beside the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OldState {
    /// As the new one, at the position where it was.
    Same,
    /// There was none.
    Missing,
    /// It could not be read.
    Unreadable(String),
    /// It was of another version.
    OtherVersion(String),
    /// It could be read, and was wrong; in words.
    Differs(Vec<String>),
}

/// Told of so many events more that were folded.
pub type Progress<'a> = &'a dyn Fn(u64);

/// Makes the state of one partition, or of all, anew.
pub fn rebuild(
    data: &Path,
    only: Option<u32>,
    keep_old: bool,
    clock: Arc<dyn Clock>,
    progress: Progress<'_>,
) -> Result<Vec<Rebuilt>, DriveError> {
    // Open to write: whoever holds the log may be writing the state.
    let log = EmbeddedLog::open(&log_directory(data), clock)?;
    let partitions = match only {
        Some(partition) if partition >= log.partitions() => return Err(LogError::NoPartition(partition).into()),
        Some(partition) => partition..partition + 1,
        None => 0..log.partitions(),
    };
    partitions.map(|partition| rebuild_partition(data, &log, partition, keep_old, progress)).collect()
}

fn rebuild_partition(
    data: &Path,
    log: &EmbeddedLog,
    number: u32,
    keep_old: bool,
    progress: Progress<'_>,
) -> Result<Rebuilt, DriveError> {
    let standing = state_directory(data, number);
    if let Some(parent) = standing.parent() {
        fs::create_dir_all(parent).map_err(io(parent))?;
    }
    finish_switch(data, number)?;
    let committed = log.committed(number)?;
    let old = Old::read(&standing, log, &committed);
    let building = named(&standing, &format!("rebuild-{}", std::process::id()));
    let made = build(&building, log, number, &committed, &old, progress);
    let (spaces, differences) = match made {
        Ok(made) => made,
        Err(error) => {
            remove(&building);
            return Err(error);
        }
    };
    let kept = switch(&standing, &building, keep_old).map_err(io(&standing))?;
    // What was wrong with the old one may be in them.
    checkpoints::forget(data, number);
    let old = match old {
        Old::Readable { found, .. } if found.is_empty() && differences.is_empty() => OldState::Same,
        Old::Readable { found, .. } => OldState::Differs(found.into_iter().chain(differences).collect()),
        Old::Told(told) => told,
    };
    Ok(Rebuilt {
        partition: number,
        events: committed.next_offset,
        next_offset: committed.next_offset,
        spaces,
        old,
        kept,
    })
}

/// The old state, as far as it is to be compared.
enum Old {
    Readable {
        row: partition::Row,
        digests: Vec<(String, String)>,
        /// What is wrong with it whatever the new one is.
        found: Vec<String>,
    },
    Told(OldState),
}

impl Old {
    fn read(directory: &Path, log: &EmbeddedLog, committed: &Committed) -> Old {
        let is_empty = fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none());
        if is_empty {
            return Old::Told(OldState::Missing);
        }
        // By its row alone: another version may have other tables.
        match RocksStore::row_of(directory) {
            Ok(Some(row)) => {
                if let Err(error) = fold::check_versions(&row) {
                    return Old::Told(OldState::OtherVersion(error.to_string()));
                }
                Self::audit(directory, row, log, committed)
                    .unwrap_or_else(|error| Old::Told(OldState::Unreadable(error.to_string())))
            }
            Ok(None) => Old::Told(OldState::Unreadable("it does not say of which version it is".to_owned())),
            Err(error) => Old::Told(OldState::Unreadable(error.to_string())),
        }
    }

    fn audit(
        directory: &Path,
        row: partition::Row,
        log: &EmbeddedLog,
        committed: &Committed,
    ) -> Result<Old, StoreError> {
        let mut found = Vec::new();
        if fold::incarnation_of(&row) != log.incarnation() {
            found.push(format!("it was of the log {}", fold::incarnation_of(&row)));
        }
        if row.next_offset > committed.next_offset {
            let (state, log) = (row.next_offset, committed.next_offset);
            found.push(format!("it was at offset {state}, and the log was processed up to {log}"));
        }
        RocksStore::check_files(directory)?;
        let store = RocksStore::follow(directory)?;
        for (space, _) in spaces::all(&store)? {
            found.extend(audit::space(&store, &space)?.into_iter().map(|wrong| format!("space {space:?}: {wrong}")));
        }
        Ok(Old::Readable { row, digests: digests(&store)?, found })
    }

    /// Where it can be compared with a state of the same log, which never passes the committed position.
    fn comparable_at(&self, committed: &Committed) -> Option<u64> {
        match self {
            Old::Readable { row, .. } => Some(row.next_offset).filter(|at| *at <= committed.next_offset),
            Old::Told(_) => None,
        }
    }

    /// What differs from a state at the same position.
    fn differences(&self, new: &partition::Row, new_digests: &[(String, String)]) -> Vec<String> {
        let Old::Readable { row, digests, .. } = self else { return Vec::new() };
        let mut found = Vec::new();
        if row.last_record_hash != new.last_record_hash {
            found.push("the last record that it had applied is not the one in the log".to_owned());
        }
        if row.outputs_hash != new.outputs_hash {
            found.push("the hash of what it had published is another".to_owned());
        }
        let of = |digests: &[(String, String)], space: &str| {
            digests.iter().find(|(name, _)| name == space).map(|(_, digest)| digest.clone())
        };
        for (space, digest) in new_digests {
            match of(digests, space) {
                None => found.push(format!("space {space:?} was missing")),
                Some(old) if old != *digest => {
                    found.push(format!("space {space:?}: its digest was {old}, and is {digest}"))
                }
                Some(_) => {}
            }
        }
        for (space, _) in digests.iter().filter(|(space, _)| of(new_digests, space).is_none()) {
            found.push(format!("space {space:?} is in no event of the log"));
        }
        found
    }
}

fn digests(store: &impl Store) -> Result<Vec<(String, String)>, StoreError> {
    Ok(spaces::all(store)?.into_iter().map(|(space, row)| (space, to_hex(row.digest()))).collect())
}

/// Makes the state in a directory, complete and on disk; gives its spaces, and what differs in the old one.
#[allow(clippy::type_complexity, reason = "two lists that only the caller needs")]
fn build(
    directory: &Path,
    log: &EmbeddedLog,
    number: u32,
    committed: &Committed,
    old: &Old,
    progress: Progress<'_>,
) -> Result<(Vec<(String, String)>, Vec<String>), DriveError> {
    remove(directory);
    fs::create_dir_all(directory).map_err(io(directory))?;
    let store = RocksStore::open(directory).map_err(FoldError::from)?;
    let mut partition = Partition::open(store, log.incarnation(), number)?;
    let mut differences = Vec::new();
    if let Some(at) = old.comparable_at(committed) {
        fold_up_to(&mut partition, log, number, at, progress)?;
        let digests = digests(partition.stored()).map_err(FoldError::from)?;
        differences = old.differences(partition.row(), &digests);
    }
    fold_up_to(&mut partition, log, number, committed.next_offset, progress)?;
    if partition.outputs_hash() != committed.metadata {
        return Err(DriveError::NotDeterministic { partition: number, offset: committed.next_offset });
    }
    let spaces = digests(partition.stored()).map_err(FoldError::from)?;
    partition.stored().flush().map_err(FoldError::from)?;
    Ok((spaces, differences))
}

/// Folds and stores without publishing.
fn fold_up_to<S: WriteStore>(
    partition: &mut Partition<S>,
    log: &impl ReadLog,
    number: u32,
    end: u64,
    progress: Progress<'_>,
) -> Result<(), DriveError> {
    let limit = BatchLimit::default();
    while partition.next_offset() < end {
        let mut records = log.read(Topic::Events, number, partition.next_offset(), limit.read)?;
        records.retain(|record| record.position.offset < end);
        if records.is_empty() {
            let detail = format!("the log ends at {}, and was processed up to {end}", partition.next_offset());
            return Err(DriveError::Mismatch { partition: number, detail });
        }
        for record in &records {
            partition.fold(&input(record))?;
        }
        partition.store()?;
        partition.keep_within_budget();
        progress(records.len() as u64);
    }
    Ok(())
}

/// Puts a complete new state in the place of the old one. Says where the old one was kept, if it was.
fn switch(standing: &Path, complete: &Path, keep_old: bool) -> std::io::Result<Option<PathBuf>> {
    let marked = named(standing, if keep_old { NEW_AND_KEEP } else { NEW });
    sync(complete)?;
    rename(complete, &marked)?;
    put_in_place(standing, &marked, keep_old)
}

fn put_in_place(standing: &Path, new: &Path, keep_old: bool) -> std::io::Result<Option<PathBuf>> {
    let mut aside = None;
    if standing.exists() {
        let to = free_name(standing, if keep_old { "old" } else { "discarded" });
        rename(standing, &to)?;
        aside = Some(to);
    }
    rename(new, standing)?;
    match aside {
        Some(old) if !keep_old => {
            remove(&old);
            Ok(None)
        }
        kept => Ok(kept),
    }
}

const NEW: &str = "new";
const NEW_AND_KEEP: &str = "new-keep";

/// Goes on with a switch that was broken off, and clears away what is of no use any more. For whoever holds the log.
pub fn finish_switch(data: &Path, partition: u32) -> Result<(), DriveError> {
    let standing = state_directory(data, partition);
    for (name, keep_old) in [(NEW, false), (NEW_AND_KEEP, true)] {
        let new = named(&standing, name);
        if new.exists() {
            put_in_place(&standing, &new, keep_old).map_err(io(&new))?;
            tracing::info!(partition, "a rebuild that was broken off has been finished");
        }
    }
    for leftover in leftovers(&standing).map_err(io(&standing))? {
        remove(&leftover);
    }
    Ok(())
}

/// The directory of a partition's state for who reads: the new one's in the midst of a switch.
pub fn readable_state(data: &Path, partition: u32) -> PathBuf {
    let standing = state_directory(data, partition);
    if !standing.exists() {
        for name in [NEW, NEW_AND_KEEP] {
            let new = named(&standing, name);
            if new.exists() {
                return new;
            }
        }
    }
    standing
}

/// What rebuilds that were broken off have left behind.
fn leftovers(standing: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (Some(parent), Some(number)) = (standing.parent(), standing.file_name()) else { return Ok(Vec::new()) };
    let number = number.to_string_lossy();
    let prefixes = [format!("{number}.rebuild-"), format!("{number}.discarded-")];
    let entries = match fs::read_dir(parent) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if prefixes.iter().any(|prefix| entry.file_name().to_string_lossy().starts_with(prefix.as_str())) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The name of a directory beside a state's.
fn named(standing: &Path, name: &str) -> PathBuf {
    let mut path = standing.as_os_str().to_owned();
    path.push(".");
    path.push(name);
    PathBuf::from(path)
}

fn free_name(standing: &Path, name: &str) -> PathBuf {
    let mut number = 1_u64;
    loop {
        let path = named(standing, &format!("{name}-{number}"));
        if !path.exists() {
            return path;
        }
        number += 1;
    }
}

/// Renames, and returns when that is on disk.
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::rename(from, to)?;
    to.parent().map_or(Ok(()), sync)
}

fn sync(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Removes a directory that nobody needs; if that fails it is in nobody's way, and is tried again at the next opening.
fn remove(directory: &Path) {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(path = %directory.display(), %error, "could not be removed");
        }
        _ => {}
    }
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> DriveError + '_ {
    move |error| LogError::Io(format!("{}: {error}", path.display())).into()
}
