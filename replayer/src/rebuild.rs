//! State, made anew from the log.
//!
//! The new state is made beside the old one, and folded without publishing up to where the log says that the partition was
//! processed. The hash of what it would have published must be the one that the log keeps beside that position: so the new
//! state is known to be right before the old one goes. What is found wrong with the old one is told.

use std::{fs, path::Path};

use recant_eventlog::{Committed, ReadLog};
use recant_projections::{
    audit, fold,
    justification::digest::to_hex,
    store::{Store, StoreError, rocks::RocksStore},
    tables::{partition, spaces},
};

use crate::{
    making,
    replay::{Nobody, Progress, Replay, ReplayError},
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

/// Makes the state of a partition in an empty directory, complete and on disk, and compares it with the old one on the way. Only
/// for whoever holds the log: the old state is read as nobody writes it.
pub fn anew<L: ReadLog + Sync>(
    log: &L,
    number: u32,
    old: &Path,
    building: &Path,
    memory_budget_bytes: usize,
    progress: Progress<'_>,
) -> Result<Rebuilt, ReplayError> {
    let committed = log.committed(number)?;
    let old = Old::read(old, log, &committed);
    let store = making::state(building, memory_budget_bytes)?;
    let mut replay = Replay::over(log, number, store, memory_budget_bytes, progress)?;
    let mut differences = Vec::new();
    if let Some(at) = old.comparable_at(&committed) {
        replay.up_to(at, &mut Nobody)?;
        let partition = replay.partition();
        differences = old.differences(partition.row(), &digests(partition.stored())?);
    }
    replay.up_to(committed.next_offset, &mut Nobody)?;
    let partition = replay.partition();
    partition.check_in_force()?;
    if partition.outputs_hash() != committed.metadata {
        return Err(ReplayError::NotDeterministic { partition: number, offset: committed.next_offset });
    }
    partition.stored().written()?.flush()?;
    let old = match old {
        Old::Readable { found, .. } if found.is_empty() && differences.is_empty() => OldState::Same,
        Old::Readable { found, .. } => OldState::Differs(found.into_iter().chain(differences).collect()),
        Old::Told(told) => told,
    };
    Ok(Rebuilt {
        partition: number,
        events: committed.next_offset,
        next_offset: committed.next_offset,
        spaces: digests(partition.stored())?,
        old,
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
    fn read(directory: &Path, log: &impl ReadLog, committed: &Committed) -> Old {
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
        log: &impl ReadLog,
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
