//! Differences planted in a data directory, which `recant verify` must find and name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what fails here fails a test"
)]

use std::{fs, ops::ControlFlow, path::Path, process::Command, sync::Arc};

use prost::Message as _;
use recant_eventlog::{
    AppendLog, Commit, Committed, NewRecord, Output, ProcessLog, ReadLimit, ReadLog, Record, Topic,
    clock::ManualClock,
    embedded::{CreateOptions, EmbeddedLog, Follower, WriterOptions},
};
use recant_projections::{
    store::{Batch, Store, WriteStore, rocks::RocksStore},
    tables::{Table, partition},
};
use recant_proto::v1::Change;

use crate::{
    binary::{json_lines, story},
    crash::process::program,
};

/// A difference, how it is planted into the only partition of a directory, and as what it must be found.
pub struct Planted {
    /// What it is, in words.
    pub name: &'static str,
    /// Plants it.
    pub plant: fn(&Path),
    /// The `what` of the first difference that is told.
    pub found_as: &'static str,
    /// Whether the node is named.
    pub names_node: bool,
}

const fn in_state(name: &'static str, names_node: bool, plant: fn(&Path)) -> Planted {
    Planted { name, plant, found_as: "state", names_node }
}

/// Every kind of difference.
pub const ALL: &[Planted] = &[
    in_state("a byte of a node's row", true, |data| flip_row(data, Table::Nodes)),
    in_state("a byte of a justification", true, |data| flip_row(data, Table::Justifications)),
    in_state("a byte of what an event moved", true, |data| flip_row(data, Table::Moves)),
    in_state("a byte of an action", true, |data| flip_row(data, Table::Actions)),
    in_state("a byte of a retraction", false, |data| flip_row(data, Table::Retractions)),
    in_state("a byte of a source", false, |data| flip_row(data, Table::Sources)),
    in_state("a byte of an event's fate", false, |data| flip_row(data, Table::Events)),
    in_state("an id less", false, drop_id),
    in_state("a time less", false, drop_time),
    in_state("a byte of a space", false, flip_space),
    Planted {
        name: "a byte of a file of the state",
        plant: flip_file,
        found_as: "state_unreadable",
        names_node: false,
    },
    Planted {
        name: "the state of another logic version",
        plant: other_logic,
        found_as: "logic_version",
        names_node: false,
    },
    Planted {
        name: "a change dropped",
        plant: |data| relog(data, |log| drop(log.changes.remove(first_change(log)))),
        found_as: "missing",
        names_node: true,
    },
    Planted {
        name: "a summary dropped",
        plant: |data| relog(data, |log| drop(log.changes.remove(first_change(log) - 1))),
        found_as: "missing",
        names_node: false,
    },
    Planted {
        name: "the last change dropped",
        plant: |data| relog(data, |log| drop(log.changes.remove(last_change(log)))),
        found_as: "missing",
        names_node: true,
    },
    Planted {
        name: "two changes reordered",
        plant: |data| relog(data, swap_changes),
        found_as: "out_of_order",
        names_node: true,
    },
    Planted {
        name: "a change altered",
        plant: |data| relog(data, alter_change),
        found_as: "altered",
        names_node: true,
    },
    Planted {
        name: "a change twice",
        plant: |data| relog(data, |log| log.changes.insert(first_change(log), log.changes[first_change(log)].clone())),
        found_as: "unexpected",
        names_node: true,
    },
    Planted {
        name: "another digest",
        plant: |data| relog(data, |log| edit_digest(log, |digest| digest.digest = "00".repeat(16))),
        found_as: "digest",
        names_node: false,
    },
    Planted {
        name: "a digest of another logic version",
        plant: |data| relog(data, |log| edit_digest(log, |digest| digest.logic_version += 1)),
        found_as: "logic_version",
        names_node: false,
    },
    Planted {
        name: "a rejection dropped",
        plant: |data| relog(data, |log| drop(log.rejected.remove(0))),
        found_as: "missing",
        names_node: false,
    },
    Planted {
        name: "another hash of outputs",
        plant: |data| relog(data, |log| log.committed.metadata[0] ^= 1),
        found_as: "outputs_hash",
        names_node: false,
    },
];

/// Makes a data directory with the story in its default space: a retraction, an event that was rejected and a reinstatement,
/// each by a process of its own.
pub fn story(data: &Path) -> std::io::Result<()> {
    let taken = serde_json::json!(
        {"id": "e-bad", "observed": {"node": "o-contract", "source": "s", "content": {"text": "another"}}});
    let parts = [
        story::events(),
        vec![story::retracted("r-1", "web:portal")],
        vec![taken],
        vec![story::reinstated("lifted", "r-1")],
    ];
    for events in parts {
        let file = data.with_extension("jsonl");
        fs::write(&file, json_lines(&events))?;
        // One of them is rejected, and says so.
        Command::new(program("recant")).arg("append").arg(&file).arg("--data").arg(data).output()?;
    }
    Ok(())
}

fn state(data: &Path) -> std::path::PathBuf {
    data.join("state/0")
}

/// Writes to a state.
fn edit(data: &Path, change: impl FnOnce(&RocksStore, &mut Batch)) {
    let mut store = RocksStore::open(&state(data)).unwrap();
    let mut batch = Batch::default();
    change(&store, &mut batch);
    store.write(&batch).unwrap();
}

/// The last row of a table.
fn last_row(store: &RocksStore, table: Table) -> (Vec<u8>, Vec<u8>) {
    let mut last = None;
    store
        .scan(table, b"", b"", &mut |key, value| {
            last = Some((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    last.unwrap_or_else(|| panic!("the table {} is empty", table.name()))
}

fn flip_row(data: &Path, table: Table) {
    edit(data, |store, batch| {
        let (key, mut value) = last_row(store, table);
        *value.last_mut().unwrap() ^= 1;
        batch.put(table, key, value);
    });
}

fn drop_id(data: &Path) {
    edit(data, |store, batch| batch.delete(Table::Ids, last_row(store, Table::Ids).0));
}

fn drop_time(data: &Path) {
    edit(data, |store, batch| batch.delete(Table::Times, last_row(store, Table::Times).0));
}

fn flip_space(data: &Path) {
    edit(data, |store, batch| {
        let key = b"default".to_vec();
        let mut row: recant_projections::tables::spaces::Row =
            prost::Message::decode(store.get(Table::Spaces, &key).unwrap().unwrap().as_slice()).unwrap();
        row.digest[7] ^= 1;
        batch.put(Table::Spaces, key, row.encode_to_vec());
    });
}

fn other_logic(data: &Path) {
    edit(data, |store, batch| {
        let mut row = partition::get(store).unwrap().unwrap();
        row.logic_version += 1;
        batch.put(Table::Partition, partition::KEY, row.encode_to_vec());
    });
}

/// In the midst of the largest table file: in a block of rows.
fn flip_file(data: &Path) {
    // What lies in the write-ahead log goes into tables.
    RocksStore::open(&state(data)).unwrap().flush().unwrap();
    let files = fs::read_dir(state(data)).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|extension| extension == "sst"));
    let largest = tables.max_by_key(|path| fs::metadata(path).unwrap().len()).expect("there is a table");
    let mut bytes = fs::read(&largest).unwrap();
    bytes[20] ^= 1;
    fs::write(&largest, bytes).unwrap();
}

/// What is published, to be changed.
pub struct LogOfOne {
    changes: Vec<Record>,
    rejected: Vec<Record>,
    committed: Committed,
}

fn change(record: &Record) -> Change {
    Change::decode(record.value.as_slice()).unwrap()
}

fn first_change(log: &LogOfOne) -> usize {
    log.changes.iter().position(|record| !change(record).node.is_empty()).unwrap()
}

fn last_change(log: &LogOfOne) -> usize {
    log.changes.iter().rposition(|record| !change(record).node.is_empty()).unwrap()
}

fn swap_changes(log: &mut LogOfOne) {
    let first = first_change(log);
    log.changes.swap(first, first + 1);
}

fn alter_change(log: &mut LogOfOne) {
    let at = first_change(log);
    let mut altered = change(&log.changes[at]);
    std::mem::swap(&mut altered.from, &mut altered.to);
    log.changes[at].value = altered.encode_to_vec();
}

fn edit_digest(log: &mut LogOfOne, edit: impl FnOnce(&mut recant_proto::v1::Digest)) {
    let at = log.changes.iter().position(|record| change(record).digest.is_some()).expect("there is a digest");
    let mut record = change(&log.changes[at]);
    edit(record.digest.as_mut().unwrap());
    log.changes[at].value = record.encode_to_vec();
}

/// Makes the log of a directory anew, with something else published.
fn relog(data: &Path, edit: impl FnOnce(&mut LogOfOne)) {
    let directory = data.join("log");
    let all = |log: &Follower, topic| {
        let bounds = log.bounds(topic, 0).unwrap();
        let mut records = Vec::new();
        while (records.len() as u64) < bounds.end {
            let limit = ReadLimit { records_max: 1_000, bytes_max: 8 << 20 };
            records.extend(log.read(topic, 0, records.len() as u64, limit).unwrap());
        }
        records
    };
    let log = Follower::open(&directory).unwrap();
    let events = all(&log, Topic::Events).into_iter().map(|record| NewRecord {
        partition: 0,
        key: record.key,
        headers: record.headers,
        value: record.value,
        append_time_ms: Some(record.append_time_ms),
    });
    let mut events: Vec<NewRecord> = events.collect();
    let mut published = LogOfOne {
        changes: all(&log, Topic::Changes),
        rejected: all(&log, Topic::Rejected),
        committed: log.committed(0).unwrap(),
    };
    let incarnation = log.incarnation();
    drop(log);
    edit(&mut published);
    fs::remove_dir_all(&directory).unwrap();
    let first_records = vec![events.remove(0)];
    let options = CreateOptions { incarnation, partitions: 1, first_records, writer: WriterOptions::default() };
    let log = EmbeddedLog::create(&directory, options, Arc::new(ManualClock::new(0))).unwrap();
    log.append(events).unwrap();
    let (epoch, _) = log.acquire(0).unwrap();
    let output =
        |topic| move |record: Record| Output { topic, key: record.key, headers: record.headers, value: record.value };
    let changes = published.changes.into_iter().map(output(Topic::Changes));
    let outputs = changes.chain(published.rejected.into_iter().map(output(Topic::Rejected))).collect();
    assert_eq!(log.commit(0, epoch, outputs, published.committed), Commit::Committed);
}
