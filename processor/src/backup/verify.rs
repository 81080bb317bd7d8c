//! Whether a snapshot is what its manifest says: first file by file, then what is in them.
//!
//! The hashes say that nothing has changed since the snapshot was made. That what was snapshotted was right is another
//! question: so every record of the log is read, the state is held against the log, and the digest of each space is counted
//! anew from its rows. The snapshot is opened to read, and nothing in it changes.

use std::{collections::BTreeMap, path::Path};

use recant_eventlog::{LogError, ReadLimit, ReadLog, Topic};
use recant_projections::{
    audit,
    fold::{self, incarnation_of, space::Space},
    justification::digest::to_hex,
    store::Store,
    tables::partition,
};

use super::{BackupError, FileEntry, Manifest, PartitionEntry, Progress, StateEntry, manifest, state_of};
use crate::viewer::Viewer;

const READ: ReadLimit = ReadLimit { records_max: 10_000, bytes_max: 32 << 20 };

/// Verifies a snapshot, and gives its manifest.
pub fn verify(snapshot: &Path, progress: Progress<'_>) -> Result<Manifest, BackupError> {
    let manifest = Manifest::read(snapshot)?;
    check_files(snapshot, &manifest, progress)?;
    let viewer = Viewer::open(snapshot)?;
    let log = viewer.log();
    if log.incarnation().to_string() != manifest.incarnation {
        return Err(damaged("the log", format!("it is {}, not {}", log.incarnation(), manifest.incarnation)));
    }
    if log.partitions() as usize != manifest.partitions.len() {
        return Err(damaged("the log", format!("it has {} partitions", log.partitions())));
    }
    for (number, entry) in (0..).zip(&manifest.partitions) {
        let what = format!("partition {number}");
        let state = state_of(&viewer, number)?;
        let found = PartitionEntry::of(log, state.as_ref(), number)?;
        if found != *entry {
            return Err(damaged(what, "positions, versions or digests are not those of the manifest".to_owned()));
        }
        read_through(log, number, progress).map_err(|error| damaged(what.clone(), error.to_string()))?;
        if let Some(store) = state {
            check_history(log, &store, number)?.map_err(|detail| damaged(what, detail))?;
            entry.state.iter().try_for_each(|state| check_digests(&store, state))?;
        }
    }
    Ok(manifest)
}

fn damaged(what: impl Into<String>, detail: String) -> BackupError {
    BackupError::Damaged { what: what.into(), detail }
}

/// Every file that must be there is as it was, and there is no other.
fn check_files(snapshot: &Path, manifest: &Manifest, progress: Progress<'_>) -> Result<(), BackupError> {
    let by_path = |files: &[FileEntry]| -> BTreeMap<String, FileEntry> {
        files.iter().map(|file| (file.path.clone(), file.clone())).collect()
    };
    let found = by_path(&manifest::files_in(snapshot, progress)?);
    for (path, expected) in by_path(&manifest.files) {
        match found.get(&path) {
            None => return Err(BackupError::Missing(snapshot.join(path))),
            Some(file) if *file == expected => {}
            Some(file) if file.bytes == expected.bytes => {
                return Err(damaged(path, "its content has changed".to_owned()));
            }
            Some(file) => {
                return Err(damaged(path, format!("it has {} bytes, not {}", file.bytes, expected.bytes)));
            }
        }
    }
    match found.keys().find(|path| !manifest.files.iter().any(|file| file.path == **path)) {
        Some(foreign) => Err(damaged(foreign, "it is not part of the snapshot".to_owned())),
        None => Ok(()),
    }
}

/// Reads every record of a partition.
fn read_through(log: &impl ReadLog, partition: u32, progress: Progress<'_>) -> Result<(), LogError> {
    for topic in Topic::ALL {
        let bounds = log.bounds(topic, partition)?;
        let mut next = bounds.earliest;
        while next < bounds.end {
            let records = log.read(topic, partition, next, READ)?;
            let Some(last) = records.last() else { break };
            next = last.position.offset + 1;
            progress(records.iter().map(|record| record.value.len() as u64).sum());
        }
    }
    Ok(())
}

/// Whether a state is of this log, not ahead of it, and has applied what is in it; if not, what is wrong.
pub(crate) fn check_history(
    log: &impl ReadLog,
    store: &impl Store,
    partition: u32,
) -> Result<Result<(), String>, BackupError> {
    let Some(row) = partition::get(store)? else { return Ok(Ok(())) };
    let committed = log.committed(partition)?;
    if incarnation_of(&row) != log.incarnation() {
        return Ok(Err(format!("it is of the log {}, not {}", incarnation_of(&row), log.incarnation())));
    }
    if row.next_offset > committed.next_offset {
        let (state, log) = (row.next_offset, committed.next_offset);
        return Ok(Err(format!("it is at offset {state}, and the log was processed up to {log}")));
    }
    if row.next_offset == committed.next_offset && row.outputs_hash != committed.metadata {
        return Ok(Err(
            "the hash of what was published is not the one that is kept beside the log's position".to_owned()
        ));
    }
    let Some(last) = row.next_offset.checked_sub(1) else { return Ok(Ok(())) };
    let one = ReadLimit { records_max: 1, bytes_max: 1 };
    let records = log.read(Topic::Events, partition, last, one)?;
    let same = records.first().is_some_and(|record| fold::record_hash(&record.input()) == row.last_record_hash);
    Ok(if same { Ok(()) } else { Err(format!("the record at offset {last} is not the one that it applied")) })
}

/// The digest of each space, counted anew from its rows.
pub(crate) fn check_digests(store: &impl Store, state: &StateEntry) -> Result<(), BackupError> {
    for space in &state.spaces {
        let what = format!("space {:?}", space.space);
        let loaded = Space::load(store, &space.space)?.ok_or_else(|| damaged(&what, "it is missing".to_owned()))?;
        let counted = to_hex(audit::digest(store, &loaded)?);
        if counted != space.digest {
            return Err(damaged(&what, format!("its digest is {}, and {counted} was counted", space.digest)));
        }
    }
    Ok(())
}
