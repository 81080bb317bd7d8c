//! What the tests of the logs share: small logs, small records, and reading all of them.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;
use std::sync::Arc;

use recant_eventlog::clock::ManualClock;
use recant_eventlog::embedded::{CreateOptions, EmbeddedLog, WriterOptions};
use recant_eventlog::memory::MemoryLog;
use recant_eventlog::{LogError, NewRecord, Output, ReadLimit, ReadLog, Record, Topic};
use recant_proto::position::Incarnation;
use tempfile::TempDir;

pub const INCARNATION: Incarnation = Incarnation(*b"a log for tests!");
pub const NOW_MS: i64 = 1_700_000_000_000;

pub fn event(partition: u32, value: impl Into<Vec<u8>>) -> NewRecord {
    NewRecord {
        partition,
        key: b"space".to_vec(),
        headers: vec![("ce_id".to_owned(), b"e".to_vec())],
        value: value.into(),
        append_time_ms: None,
    }
}

pub fn output(topic: Topic, value: impl Into<Vec<u8>>) -> Output {
    let NewRecord { key, headers, value, .. } = event(0, value);
    Output { topic, key, headers, value }
}

pub fn options(partitions: u32) -> CreateOptions {
    let first_records = (0..partitions).map(|partition| event(partition, "first")).collect();
    CreateOptions { incarnation: INCARNATION, partitions, first_records, writer: WriterOptions::default() }
}

pub fn embedded(partitions: u32) -> (EmbeddedLog, Arc<ManualClock>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(NOW_MS));
    let log = EmbeddedLog::create(dir.path(), options(partitions), clock.clone()).unwrap();
    (log, clock, dir)
}

pub fn memory(partitions: u32) -> (MemoryLog, Arc<ManualClock>, ()) {
    let clock = Arc::new(ManualClock::new(NOW_MS));
    let first_records = options(partitions).first_records;
    (MemoryLog::create(INCARNATION, partitions, first_records, clock.clone()).unwrap(), clock, ())
}

pub fn reopen(dir: &Path) -> Result<EmbeddedLog, LogError> {
    EmbeddedLog::open(dir, Arc::new(ManualClock::new(NOW_MS)))
}

pub const ALL: ReadLimit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };

pub fn read_all(log: &impl ReadLog, topic: Topic, partition: u32) -> Vec<Record> {
    let records = log.read(topic, partition, 0, ALL).unwrap();
    let offsets: Vec<_> = records.iter().map(|record| record.position.offset).collect();
    assert_eq!(offsets, (0..log.bounds(topic, partition).unwrap().end).collect::<Vec<_>>(), "offsets have no gaps");
    records
}

pub fn texts(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| std::str::from_utf8(&record.value).unwrap()).collect()
}
