//! The manifest of a snapshot: what must be in it. JSON, one object:
//!
//! | member | says |
//! |---|---|
//! | `format_version` | [`SNAPSHOT_FORMAT`]; a newer one is skipped |
//! | `recant_version`, `made_at` | which program made it, and when |
//! | `incarnation`, `partition` | the log, and the partition of it |
//! | `outputs_hash` | the hash of what was published up to its position, in hex |
//! | `state` | versions, position, and each space with its digest |
//! | `files` | every file with its length and BLAKE3 hash |

use recant_projections::tables::partition::{FORMAT_VERSION, LOGIC_VERSION};
use serde::{Deserialize, Serialize};

use crate::backup::{FileEntry, StateEntry};

/// The version of the layout of snapshots of states.
pub const SNAPSHOT_FORMAT: u32 = 1;

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateManifest {
    /// [`SNAPSHOT_FORMAT`].
    pub format_version: u32,
    /// The program that made it.
    pub recant_version: String,
    /// When, in RFC 3339.
    pub made_at: String,
    /// The log's name.
    pub incarnation: String,
    /// The partition.
    pub partition: u32,
    /// The hash of what was published up to its position, in hex.
    pub outputs_hash: String,
    /// What the state says of itself.
    pub state: StateEntry,
    /// In order of their paths.
    pub files: Vec<FileEntry>,
}

impl StateManifest {
    /// Reads a manifest, and says what is wrong with it if this program cannot use it for this partition.
    pub(super) fn read(text: &[u8], incarnation: &str, partition: u32) -> Result<StateManifest, String> {
        let damaged = |error: serde_json::Error| format!("its manifest cannot be read: {error}");
        // The version first: of a newer one nothing else is known.
        let value: serde_json::Value = serde_json::from_slice(text).map_err(damaged)?;
        match value.get("format_version").and_then(serde_json::Value::as_u64) {
            Some(found) if found > u64::from(SNAPSHOT_FORMAT) => {
                return Err(format!("it is of format {found}, and this recant reads {SNAPSHOT_FORMAT}"));
            }
            _ => {}
        }
        let manifest: StateManifest = serde_json::from_value(value).map_err(damaged)?;
        if (manifest.incarnation.as_str(), manifest.partition) != (incarnation, partition) {
            return Err(format!("it is of partition {} of the log {}", manifest.partition, manifest.incarnation));
        }
        let (format, logic) = (manifest.state.format_version, manifest.state.logic_version);
        if (format, logic) != (FORMAT_VERSION, LOGIC_VERSION) {
            return Err(format!(
                "its state has the format {format} and the logic {logic}, and this recant's have {FORMAT_VERSION} and {LOGIC_VERSION}"
            ));
        }
        // They become names of files here.
        let is_name = |path: &str| !path.is_empty() && !path.starts_with('.') && !path.contains(['/', '\\', '\0']);
        if let Some(file) = manifest.files.iter().find(|file| !is_name(&file.path)) {
            return Err(format!("its manifest names a file {:?}", file.path));
        }
        Ok(manifest)
    }
}
