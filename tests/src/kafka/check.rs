//! What must hold on Kafka, whatever happened: what a stock client sees of the changes and rejections is exactly what an undisturbed
//! fold of the events publishes, in its order; nothing acknowledged is lost; and the states that are left are that fold's.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use recant_eventlog::{ReadLimit, ReadLog, Record, Topic, kafka::KafkaLog};
use recant_processor::viewer::Viewer;
use recant_projections::{
    fold::{Message, Partition},
    store::{Store, memory::MemoryStore},
    tables::{partition as standing, spaces},
};
use recant_proto::wire;
use serde_json::Value;

use super::{load::Load, python};
use crate::{
    binary::{text, wait_until},
    crash::check::{Verdict, is_digest},
};

/// A record, as a stock client and as the fold has it.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Published {
    /// Its `ce_id`.
    pub id: String,
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
}

/// What an undisturbed fold makes of a partition.
struct Undisturbed {
    changes: Vec<Published>,
    rejections: Vec<Published>,
    digests: Vec<(String, u128)>,
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
fn undisturbed(log: &KafkaLog, number: u32) -> Undisturbed {
    let mut partition = Partition::open(MemoryStore::default(), log.incarnation(), number).expect("it is empty");
    let (mut changes, mut rejections) = (Vec::new(), Vec::new());
    for record in events(log, number) {
        let folded = partition.fold(&record.input()).expect("it can be folded");
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
    Undisturbed { changes, rejections, digests: digests(partition.stored()), next_offset }
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

/// Everything. All must be processed, and the processes that wrote these directories must have ended.
pub fn all(log: &KafkaLog, load: &Load, directories: &[&Path]) -> Verdict {
    let mut verdict = what_a_stock_client_sees(log);
    verdict.add(what_was_acknowledged(log, load));
    verdict.add(states(log, directories));
    verdict
}

/// Ends the test unless everything holds.
#[track_caller]
pub fn holds(verdict: &Verdict) {
    assert!(verdict.is_clean(), "{:#?}", verdict.first());
}

/// Compares what a stock client sees with the undisturbed fold of all partitions.
pub fn what_a_stock_client_sees(log: &KafkaLog) -> Verdict {
    let [changes, rejections] = [Topic::Changes, Topic::Rejected].map(|topic| consumed(log, topic));
    let mut verdict = Verdict::default();
    let none = Vec::new();
    for partition in 0..log.partitions() {
        let expected = undisturbed(log, partition);
        let committed = log.committed(partition).expect("it answers").next_offset;
        if committed != expected.next_offset {
            let end = expected.next_offset;
            verdict.wrong.push(format!("partition {partition} is processed up to {committed}, and ends at {end}"));
        }
        verdict.add(compare(partition, changes.get(&partition).unwrap_or(&none), &expected.changes));
        verdict.add(compare(partition, rejections.get(&partition).unwrap_or(&none), &expected.rejections));
    }
    verdict
}

/// Compares what was seen of a partition with what there must be.
pub fn compare(partition: u32, seen: &[Published], expected: &[Published]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut ids = HashSet::new();
    for record in seen {
        if !ids.insert(&record.id) {
            verdict.twice.push(format!("partition {partition}: {} is there again", record.id));
        }
    }
    for record in expected.iter().filter(|record| !ids.contains(&record.id)) {
        verdict.lost.push(format!("partition {partition}: {} is missing", record.id));
    }
    let differs = seen.iter().zip(expected).find(|(seen, expected)| seen != expected);
    if let Some((seen, expected)) = differs {
        verdict.wrong.push(format!("partition {partition}: {} stands where {} belongs", seen.id, expected.id));
    }
    if seen.len() > expected.len() {
        verdict.wrong.push(format!(
            "partition {partition}: {} records, and {} belong there",
            seen.len(),
            expected.len()
        ));
    }
    verdict
}

fn consumed(log: &KafkaLog, topic: Topic) -> BTreeMap<u32, Vec<Published>> {
    let settings = log.settings();
    let mut seen: BTreeMap<u32, Vec<Published>> = BTreeMap::new();
    for record in python::run("consume", &[&settings.brokers, settings.names.topic(topic)]) {
        let partition = record["partition"].as_u64().expect("a number") as u32;
        let record = published(&record);
        // Where processes end differs from run to run, and with it where digests are; `recant verify` compares those.
        if topic != Topic::Changes || !is_digest(&record.value) {
            seen.entry(partition).or_default().push(record);
        }
    }
    seen
}

/// How many changes and summaries of cascades a stock client sees, over all partitions.
pub fn changes_seen(log: &KafkaLog) -> usize {
    consumed(log, Topic::Changes).values().map(Vec::len).sum()
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

/// Compares the states in some data directories with the undisturbed fold: of each partition the newest must be that fold's.
pub fn states(log: &KafkaLog, directories: &[&Path]) -> Verdict {
    let mut verdict = Verdict::default();
    let log_again = || KafkaLog::open(log.settings().clone()).expect("it was open before");
    let viewers: Vec<Viewer<KafkaLog>> =
        directories.iter().map(|directory| Viewer::over(directory, log_again())).collect();
    for partition in 0..log.partitions() {
        let expected = undisturbed(log, partition);
        let newest = viewers.iter().filter_map(|viewer| {
            let store = viewer.state(partition).ok()?;
            Some((standing::get(&store).ok()??.next_offset, digests(&store)))
        });
        let (next_offset, digests) = newest.max().unwrap_or_default();
        if (next_offset, &digests) != (expected.next_offset, &expected.digests) {
            let end = expected.next_offset;
            verdict
                .wrong
                .push(format!("partition {partition}: the state at {next_offset} is not that of a fold up to {end}"));
        }
    }
    verdict
}

/// Whether everything that was acknowledged lies where it was told to lie.
pub fn what_was_acknowledged(log: &KafkaLog, load: &Load) -> Verdict {
    let mut verdict = Verdict::default();
    let mut there = HashMap::new();
    for partition in 0..log.partitions() {
        there.extend(events(log, partition).into_iter().map(|record| (record.position, record.value)));
    }
    for (position, id) in &load.acknowledged {
        let is_there = there
            .get(position)
            .and_then(|value| wire::decode(value, None).ok())
            .is_some_and(|decoded| &decoded.event.id == id);
        if !is_there {
            verdict.lost.push(format!("{id} was acknowledged at {position}, and is not there"));
        }
    }
    verdict
}
