//! The files of a RocksDB database that another process writes, to tell whether a reader has seen one whole moment of it.
//!
//! A secondary instance reads the manifest, then lists the write-ahead logs, then reads them one by one. A flush by the
//! writer in between makes it miss the end of one log and apply the next. What was read between two footprints of which
//! the first [`Footprint::only_grew_into`] the second has no such hole.

use std::{fs, io, path::Path};

use crate::LogError;

/// What a catch-up depends on: which manifest is current, and which write-ahead logs there are, and how long they are.
#[derive(Debug, PartialEq, Eq)]
pub struct Footprint {
    manifest: (String, u64),
    older_logs: Vec<(u64, u64)>,
    newest_log: Option<(u64, u64)>,
}

impl Footprint {
    /// Whether a catch-up in between has seen whole batches, and all of them up to some moment: nothing has changed but
    /// that the newest log has grown, which a catch-up reads last, batch by batch.
    pub fn only_grew_into(&self, after: &Footprint) -> bool {
        let number = |log: Option<(u64, u64)>| log.map(|(number, _)| number);
        self.manifest == after.manifest
            && self.older_logs == after.older_logs
            && number(self.newest_log) == number(after.newest_log)
    }

    /// The footprint of a database's directory; nothing while files come and go.
    pub fn of(dir: &Path) -> Result<Option<Footprint>, LogError> {
        match Self::try_of(dir) {
            Ok(footprint) => Ok(Some(footprint)),
            // Nor is there one where a file lies in its place.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(LogError::Io(format!("{}: {error}", dir.display()))),
        }
    }

    fn try_of(dir: &Path) -> io::Result<Footprint> {
        let manifest = String::from_utf8_lossy(&fs::read(dir.join("CURRENT"))?).trim().to_owned();
        let manifest_len = fs::metadata(dir.join(&manifest))?.len();
        let mut logs = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                logs.push((number, fs::metadata(dir.join(&name))?.len()));
            }
        }
        logs.sort_unstable();
        let newest_log = logs.pop();
        Ok(Footprint { manifest: (manifest, manifest_len), older_logs: logs, newest_log })
    }
}
