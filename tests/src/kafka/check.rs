//! What must hold on Kafka, whatever happened: what a stock client sees of the changes and rejections is exactly what an undisturbed
//! fold of the events publishes, in its order, and the states that are left are that fold's.

use std::{collections::BTreeMap, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use recant_eventlog::{ReadLimit, ReadLog, Record, Topic, kafka::KafkaLog};
use recant_processor::{driver::input, viewer::Viewer};
use recant_projections::{
    fold::{Message, Partition},
    store::{Store, memory::MemoryStore},
    tables::{partition as standing, spaces},
};
use serde_json::Value;

use super::{load::Load, python};
use crate::binary::{text, wait_until};

/// A record, as a stock client and as the fold has it.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Published {
    id: String,
    key: String,
    value: Vec<u8>,
}

/// What an undisturbed fold makes of a partition.
pub struct Undisturbed {
    changes: Vec<Published>,
    rejections: Vec<Published>,
    spaces: Vec<(String, u128)>,
    next_offset: u64,
}

/// All events of a partition.
pub fn events(log: &KafkaLog, partition: u32) -> Vec<Record> {
    let limit = ReadLimit { records_max: 10_000, bytes_max: 64 << 20 };
    let mut all: Vec<Record> = Vec::new();
    loop {
        let next = all.last().map_or(0, |record| record.position.offset + 1);
        let records = log.read(Topic::Events, partition, next, limit).expect("the log can be read");
        if records.is_empty() {
            return all;
        }
        all.extend(records);
    }
}

/// Folds a partition in memory, from its first event to its last.
pub fn undisturbed(log: &KafkaLog, number: u32) -> Undisturbed {
    let mut partition = Partition::open(MemoryStore::default(), log.incarnation(), number).expect("it is empty");
    let (mut changes, mut rejections) = (Vec::new(), Vec::new());
    for record in events(log, number) {
        let folded = partition.fold(&input(&record)).expect("it can be folded");
        for output in folded.outputs {
            let key = String::from_utf8_lossy(&output.key).into_owned();
            match output.message {
                Message::Change(change) => changes.push(Published { id: change.id, key, value: output.value }),
                Message::Rejection(rejection) => {
                    rejections.push(Published { id: rejection.position, key, value: output.value });
                }
            }
        }
    }
    partition.store().expect("memory can be written");
    let next_offset = partition.next_offset();
    Undisturbed { changes, rejections, spaces: digests(partition.stored()), next_offset }
}

fn digests(store: &impl Store) -> Vec<(String, u128)> {
    let spaces = spaces::all(store).expect("the state can be read");
    spaces.into_iter().map(|(name, row)| (name, row.digest())).collect()
}

/// Waits until everything is processed.
pub fn wait_until_processed(log: &KafkaLog) {
    for partition in 0..log.partitions() {
        let last = events(log, partition).last().map_or(0, |record| record.position.offset + 1);
        wait_until(&format!("partition {partition} is processed up to {last}"), || {
            let committed = log.committed(partition).ok()?.next_offset;
            (committed >= last).then_some(())
        });
    }
}

/// Compares what a stock client sees with the undisturbed fold of all partitions. Everything must be processed.
pub fn stock_client_sees_each_output_once(log: &KafkaLog) {
    let [changes, rejections] = [Topic::Changes, Topic::Rejected].map(|topic| consumed(log, topic));
    for partition in 0..log.partitions() {
        let expected = undisturbed(log, partition);
        assert_eq!(log.committed(partition).expect("it answers").next_offset, expected.next_offset);
        let none = Vec::new();
        compare(partition, "changes", changes.get(&partition).unwrap_or(&none), &expected.changes);
        compare(partition, "rejections", rejections.get(&partition).unwrap_or(&none), &expected.rejections);
    }
}

fn compare(partition: u32, what: &str, seen: &[Published], expected: &[Published]) {
    let first = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    let at = first.unwrap_or(seen.len().min(expected.len()));
    assert!(
        seen == expected,
        "partition {partition}: a stock client sees {} {what}, and the fold publishes {}; they differ at {at}:\nseen {:?}\nfold {:?}",
        seen.len(),
        expected.len(),
        seen.get(at).map(|record| &record.id),
        expected.get(at).map(|record| &record.id),
    );
}

fn consumed(log: &KafkaLog, topic: Topic) -> BTreeMap<u32, Vec<Published>> {
    let settings = log.settings();
    let mut seen: BTreeMap<u32, Vec<Published>> = BTreeMap::new();
    for record in python::run("consume", &[&settings.brokers, settings.names.topic(topic)]) {
        let partition = record["partition"].as_u64().expect("a number") as u32;
        seen.entry(partition).or_default().push(published(&record));
    }
    seen
}

fn published(record: &Value) -> Published {
    let headers = &record["headers"];
    assert_eq!(text(&headers["ce_specversion"]), "1.0", "{record}");
    Published {
        id: text(&headers["ce_id"]).to_owned(),
        key: record["key"].as_str().unwrap_or_default().to_owned(),
        value: STANDARD.decode(text(&record["value"])).expect("base64"),
    }
}

/// Compares the states in some data directories, whose processes have ended, with the undisturbed fold.
pub fn states_are_the_folds(log: &KafkaLog, directories: &[&Path]) {
    for partition in 0..log.partitions() {
        let expected = undisturbed(log, partition);
        let newest = directories.iter().filter_map(|directory| {
            let store = Viewer::over(directory, log_again(log)).state(partition).ok()?;
            let next_offset = standing::get(&store).ok()??.next_offset;
            Some((next_offset, digests(&store)))
        });
        let (next_offset, digests) = newest.max().unwrap_or_default();
        assert_eq!((next_offset, digests), (expected.next_offset, expected.spaces), "partition {partition}");
    }
}

fn log_again(log: &KafkaLog) -> KafkaLog {
    KafkaLog::open(log.settings().clone()).expect("it was open before")
}

/// Whether everything that was acknowledged lies where it was told to lie.
pub fn nothing_acknowledged_is_lost(log: &KafkaLog, load: &Load) {
    let mut there = std::collections::HashMap::new();
    for partition in 0..log.partitions() {
        there.extend(events(log, partition).into_iter().map(|record| (record.position, record.value)));
    }
    for (position, id) in &load.acknowledged {
        let value = there.get(position).unwrap_or_else(|| panic!("{id} was acknowledged at {position}, and is gone"));
        let decoded = recant_proto::wire::decode(value, None).expect("it is an event");
        assert_eq!(&decoded.event.id, id);
    }
}
