//! The newest good snapshot of a partition becomes its state.

use std::path::Path;

use recant_eventlog::{LogError, ReadLog};
use recant_projections::{justification::digest::to_hex_bytes, store::rocks::RocksStore, tables::partition};

use super::{SnapshotError, SnapshotName, Snapshots, StateManifest};
use crate::{
    backup::{BackupError, StateEntry, check_digests, check_history},
    steps::passed,
    switch,
};

/// A snapshot that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where its manifest is.
    pub snapshot: String,
    /// What is wrong with it.
    pub detail: String,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The offset of the first event that is not in it.
    pub next_offset: u64,
    /// What was downloaded.
    pub bytes: u64,
}

impl Snapshots {
    /// Puts the newest good snapshot in the place of a partition's state, if there is one that is ahead of an offset; nothing is
    /// changed otherwise. The partition must not be open here. `skipped` is told of each that is not good.
    pub fn restore_newest(
        &self,
        log: &impl ReadLog,
        data: &Path,
        partition: u32,
        ahead_of: u64,
        skipped: &mut dyn FnMut(Skipped),
    ) -> Result<Option<Restored>, SnapshotError> {
        for name in self.names(partition)?.into_iter().filter(|name| name.next_offset > ahead_of) {
            let building = switch::begin(data, partition)?;
            match self.fetch(log, partition, &name, &building) {
                Ok(bytes) => {
                    passed("snapshot_downloaded");
                    switch::finish(data, partition, &building, false)?;
                    passed("snapshot_restored");
                    return Ok(Some(Restored { next_offset: name.next_offset, bytes }));
                }
                Err(Unusable::Snapshot(detail)) => skipped(Skipped { snapshot: name.path, detail }),
                // Which of them is at fault cannot be told from here.
                Err(Unusable::Place(error)) => {
                    switch::remove(&building);
                    return Err(error);
                }
            }
            switch::remove(&building);
        }
        Ok(None)
    }

    /// Downloads a snapshot, and verifies it; how many bytes it has.
    fn fetch(&self, log: &impl ReadLog, partition: u32, name: &SnapshotName, to: &Path) -> Result<u64, Unusable> {
        let text = self.remote.get(&name.path).map_err(Unusable::of)?;
        let manifest =
            StateManifest::read(&text, &self.incarnation.to_string(), partition).map_err(Unusable::Snapshot)?;
        for file in &manifest.files {
            let hash = self
                .remote
                .download(&self.file(partition, &file.blake3), &to.join(&file.path))
                .map_err(Unusable::of)?;
            if hash != file.blake3 {
                return Err(Unusable::Snapshot(format!("its file {} has changed", file.path)));
            }
        }
        verify(log, partition, name, &manifest, to)?;
        Ok(manifest.files.iter().map(|file| file.bytes).sum())
    }
}

/// Why a snapshot was not restored.
enum Unusable {
    /// It is not good.
    Snapshot(String),
    /// Its place, the log or this disk failed.
    Place(SnapshotError),
}

impl Unusable {
    fn of(error: SnapshotError) -> Unusable {
        match error {
            SnapshotError::Remote(object_store::Error::NotFound { path, .. }) => {
                Unusable::Snapshot(format!("{path} is missing"))
            }
            other => Unusable::Place(other),
        }
    }
}

impl From<BackupError> for Unusable {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Log(LogError::OutOfRange { offset, bounds, .. }) => Unusable::Snapshot(format!(
                "the event at {offset} that it applied last is not in the log any more, which begins at {}",
                bounds.earliest
            )),
            BackupError::Log(error) => Unusable::Place(error.into()),
            other => Unusable::Snapshot(other.to_string()),
        }
    }
}

/// What was downloaded is what the manifest says, and of this log.
fn verify(
    log: &impl ReadLog,
    partition: u32,
    name: &SnapshotName,
    manifest: &StateManifest,
    directory: &Path,
) -> Result<(), Unusable> {
    let store = RocksStore::follow(directory).map_err(BackupError::from)?;
    let state = StateEntry::of(&store).map_err(BackupError::from)?;
    let row = partition::get(&store).map_err(BackupError::from)?.unwrap_or_default();
    let is_as_told = state == manifest.state
        && row.next_offset == name.next_offset
        && to_hex_bytes(&row.outputs_hash) == manifest.outputs_hash;
    if !is_as_told {
        return Err(Unusable::Snapshot("position, versions or digests are not those of its manifest".to_owned()));
    }
    check_history(log, &store, partition)?.map_err(Unusable::Snapshot)?;
    check_digests(&store, &state)?;
    Ok(())
}
