//! The compacted topic on one machine: a RocksDB database of its own beside the log's.
//!
//! | key | value |
//! |---|---|
//! | `f` | the format's version, u32 big endian |
//! | `k`, partition, u32 big endian, and the key | the value |
//!
//! A write that is answered is on disk. The process that writes the log writes this, and RocksDB's lock keeps a second one out.

use std::path::{Path, PathBuf};

use rocksdb::{DB, DBRecoveryMode, Direction, IteratorMode, LogLevel, Options, WriteBatch, WriteOptions};

use super::{durable, failed};
use crate::{
    LogError,
    compacted::{Change, CompactedTopic, Standing, check_size},
};

/// The version of this layout.
const FORMAT: u32 = 1;
const FORMAT_KEY: &[u8] = b"f";
const RECORD: u8 = b'k';
/// What is gathered in memory before it is written as a table: little is kept here, and overwritten often.
const WRITE_BUFFER_BYTES: usize = 4 << 20;
const DIARY_BYTES_MAX: usize = 1 << 20;

/// The topic, open to write.
pub struct EmbeddedCompactedTopic {
    db: DB,
    directory: PathBuf,
    partitions: u32,
}

impl EmbeddedCompactedTopic {
    /// Opens it; makes it if it is not there.
    pub fn open(directory: &Path, partitions: u32) -> Result<EmbeddedCompactedTopic, LogError> {
        durable::create_directory(directory).map_err(|error| failed(format!("{}: {error}", directory.display())))?;
        let db = DB::open(&settings(), directory).map_err(|error| {
            let path = directory.display().to_string();
            match error.to_string() {
                text if text.contains("lock") => LogError::Held { path, holder: "not known".to_owned() },
                text if text.starts_with("Corruption") => LogError::DamagedFiles { path, detail: text },
                text => failed(format!("{path}: {text}")),
            }
        })?;
        let topic = EmbeddedCompactedTopic { db, directory: directory.to_owned(), partitions };
        topic.check_format()?;
        Ok(topic)
    }

    fn check_format(&self) -> Result<(), LogError> {
        let found = self.db.get(FORMAT_KEY).map_err(|error| self.failed(&error))?;
        match found.as_deref().map(<[u8; 4]>::try_from) {
            Some(Ok(version)) if u32::from_be_bytes(version) == FORMAT => Ok(()),
            Some(_) => Err(LogError::Format(format!(
                "{} was written by a newer version of recant, or by something else",
                self.directory.display()
            ))),
            None => {
                let mut first = WriteBatch::default();
                first.put(FORMAT_KEY, FORMAT.to_be_bytes());
                self.write_durably(first)
            }
        }
    }

    fn write_durably(&self, batch: WriteBatch) -> Result<(), LogError> {
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        self.db.write_opt(batch, &durable).map_err(|error| self.failed(&error))
    }

    fn check_partition(&self, partition: u32) -> Result<(), LogError> {
        if partition < self.partitions { Ok(()) } else { Err(LogError::NoPartition(partition)) }
    }

    fn failed(&self, error: &rocksdb::Error) -> LogError {
        failed(format!("{}: {error}", self.directory.display()))
    }
}

fn settings() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    // As for the log: a torn end is what kill -9 leaves behind, and damage anywhere else is an error.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_log_level(LogLevel::Warn);
    options.set_max_log_file_size(DIARY_BYTES_MAX);
    options.set_keep_log_file_num(2);
    options
}

fn prefix(partition: u32) -> Vec<u8> {
    [&[RECORD][..], &partition.to_be_bytes()].concat()
}

impl CompactedTopic for EmbeddedCompactedTopic {
    fn may_hold_any(&self, partition: u32) -> Result<bool, LogError> {
        self.check_partition(partition).map(|()| true)
    }

    /// One process writes: there is nobody to take it from.
    fn take(&self, partition: u32) -> Result<Vec<Standing>, LogError> {
        self.check_partition(partition)?;
        let prefix = prefix(partition);
        let mut standing = Vec::new();
        for entry in self.db.iterator(IteratorMode::From(&prefix, Direction::Forward)) {
            let (key, value) = entry.map_err(|error| self.failed(&error))?;
            let Some(key) = key.strip_prefix(prefix.as_slice()) else { break };
            standing.push(Standing { key: key.to_vec(), value: value.into_vec() });
        }
        Ok(standing)
    }

    fn write(&self, partition: u32, changes: Vec<Change>) -> Result<(), LogError> {
        self.check_partition(partition)?;
        check_size(&changes)?;
        let prefix = prefix(partition);
        let mut batch = WriteBatch::default();
        for Change { key, value } in changes {
            let key = [prefix.as_slice(), &key].concat();
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        self.write_durably(batch)
    }

    fn let_go(&self, _: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Change {
        Change { key: key.into(), value: Some(value.into()) }
    }

    fn standing(topic: &EmbeddedCompactedTopic, partition: u32) -> Vec<(String, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let all = topic.take(partition).unwrap();
        all.into_iter().map(|standing| (text(standing.key), text(standing.value))).collect()
    }

    /// Protects what was acknowledged: the newest of each key is there after it is opened again, in its partition and in no other.
    #[test]
    fn the_newest_of_each_key_stands() {
        let directory = tempfile::tempdir().unwrap();
        let topic = EmbeddedCompactedTopic::open(directory.path(), 2).unwrap();
        topic.write(0, vec![put("a", "1"), put("b", "1")]).unwrap();
        topic.write(1, vec![put("a", "other")]).unwrap();
        topic.write(0, vec![put("a", "2"), Change { key: b"b".to_vec(), value: None }, put("c", "")]).unwrap();
        assert!(EmbeddedCompactedTopic::open(directory.path(), 2).is_err(), "a second one that writes");
        drop(topic);
        let topic = EmbeddedCompactedTopic::open(directory.path(), 2).unwrap();
        assert_eq!(standing(&topic, 0), [("a".to_owned(), "2".to_owned()), ("c".to_owned(), String::new())]);
        assert_eq!(standing(&topic, 1), [("a".to_owned(), "other".to_owned())]);
        assert!(matches!(topic.take(2), Err(LogError::NoPartition(2))));
        let large = Change { key: b"d".to_vec(), value: Some(vec![0; crate::compacted::WRITE_BYTES_MAX]) };
        assert!(matches!(topic.write(0, vec![large]), Err(LogError::TooLarge { .. })));
    }
}
