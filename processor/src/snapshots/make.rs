//! A snapshot is made: of a checkpoint, which nobody changes.

use std::{collections::BTreeSet, path::Path};

use recant_projections::{
    fold::incarnation_of, justification::digest::to_hex_bytes, store::rocks::RocksStore, tables::partition,
};
use recant_proto::time::format_log_ms;

use super::{SNAPSHOT_FORMAT, SnapshotError, SnapshotName, Snapshots, StateManifest};
use crate::{
    backup::{BackupError, StateEntry, files_in},
    steps::passed,
};

/// A snapshot that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// The offset of the first event that is not in it.
    pub next_offset: u64,
    /// What it holds.
    pub bytes: u64,
    /// What of that no earlier snapshot had.
    pub uploaded_bytes: u64,
}

impl Snapshots {
    /// Makes a snapshot of a checkpoint; nothing if no event is in it.
    pub fn make(&self, checkpoint: &Path, partition: u32, now_ms: i64) -> Result<Option<Made>, SnapshotError> {
        let store = RocksStore::follow(checkpoint).map_err(BackupError::from)?;
        let Some(row) = partition::get(&store).map_err(BackupError::from)? else { return Ok(None) };
        let state = StateEntry::of(&store).map_err(BackupError::from)?;
        drop(store);
        let manifest = StateManifest {
            format_version: SNAPSHOT_FORMAT,
            recant_version: env!("CARGO_PKG_VERSION").to_owned(),
            made_at: format_log_ms(now_ms),
            incarnation: incarnation_of(&row).to_string(),
            partition,
            outputs_hash: to_hex_bytes(&row.outputs_hash),
            state,
            files: files_in(checkpoint, &|_| {})?,
        };
        let uploaded_bytes = self.upload_new(checkpoint, &manifest)?;
        passed("snapshot_uploaded");
        self.write_manifest(&manifest, row.next_offset, now_ms)?;
        let bytes = manifest.files.iter().map(|file| file.bytes).sum();
        Ok(Some(Made { next_offset: row.next_offset, bytes, uploaded_bytes }))
    }

    fn hashes_there(&self, partition: u32) -> Result<BTreeSet<String>, SnapshotError> {
        let found = self.remote.list(&self.directory(partition, "files"))?.into_iter();
        Ok(found.filter_map(|found| found.path.rsplit('/').next().map(str::to_owned)).collect())
    }

    /// Uploads the files that are not there; how many bytes that were.
    fn upload_new(&self, checkpoint: &Path, manifest: &StateManifest) -> Result<u64, SnapshotError> {
        let there = self.hashes_there(manifest.partition)?;
        let mut uploaded_bytes = 0;
        for file in manifest.files.iter().filter(|file| !there.contains(&file.blake3)) {
            self.remote.upload(&checkpoint.join(&file.path), &self.file(manifest.partition, &file.blake3))?;
            uploaded_bytes += file.bytes;
        }
        Ok(uploaded_bytes)
    }

    fn write_manifest(&self, manifest: &StateManifest, next_offset: u64, now_ms: i64) -> Result<(), SnapshotError> {
        let name = SnapshotName::file_name(next_offset, now_ms);
        let path = format!("{}/{name}", self.directory(manifest.partition, "snapshots"));
        let text = serde_json::to_vec_pretty(manifest)
            .map_err(|error| SnapshotError::Io { path: path.clone().into(), detail: error.to_string() })?;
        self.remote.put(&path, text)?;
        // A former owner that does not know may have cleared away what it took for superfluous.
        let there = self.hashes_there(manifest.partition)?;
        if let Some(gone) = manifest.files.iter().find(|file| !there.contains(&file.blake3)) {
            self.remote.remove(&path)?;
            return Err(SnapshotError::WentAway(gone.path.clone()));
        }
        Ok(())
    }
}
