//! The limit of ingest on Kafka: what is left if nothing is thought about. A thread for each partition reads the very events from the
//! brokers, and RocksDB writes the very rows that they come to, in the batches of `recant serve`, by a thread of its own as there.

use std::time::Instant;

use recant_eventlog::{ReadLimit, ReadLog as _, Topic, kafka::KafkaLog};
use recant_projections::{
    fold::Partition,
    store::{Batch, WriteStore as _, behind::WriteBehind, rocks::RocksStore},
};

use crate::kafka::KafkaError;

/// As `recant serve` reads.
const READ: ReadLimit = ReadLimit { records_max: 10_000, bytes_max: 8 << 20 };
/// Rows are kept in memory while they are written again: so many events are enough for a rate.
const EVENTS_MAX: u64 = 200_000;

/// The rows of some events of a partition.
struct Rows {
    partition: u32,
    /// With the offset behind the events that they come from.
    batches: Vec<(u64, Batch)>,
}

/// Events a second that are read, and whose rows are written.
pub fn measure(log: &KafkaLog) -> Result<f64, KafkaError> {
    let of_partition = EVENTS_MAX / u64::from(log.partitions());
    let all: Vec<Rows> =
        (0..log.partitions()).map(|partition| rows(log, partition, of_partition)).collect::<Result<_, _>>()?;
    let events: u64 = all.iter().filter_map(|rows| rows.batches.last()).map(|(end, _)| end).sum();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let working: Vec<_> = all.into_iter().map(|rows| scope.spawn(|| read_and_write(log, rows))).collect();
        working
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| KafkaError::Missing("a thread of the limit"))?)
    })?;
    Ok(events as f64 / begun.elapsed().as_secs_f64())
}

/// The rows that the first events of a partition come to.
fn rows(log: &KafkaLog, number: u32, events: u64) -> Result<Rows, KafkaError> {
    let directory = tempfile::tempdir()?;
    let store = WriteBehind::new(RocksStore::open(directory.path())?)?;
    let mut partition = Partition::open(store, log.incarnation(), number)?;
    let mut batches = Vec::new();
    while partition.next_offset() < events {
        let records = log.read(Topic::Events, number, partition.next_offset(), READ)?;
        if records.is_empty() {
            break;
        }
        for record in &records {
            partition.fold(&record.input())?;
        }
        let batch = partition.complete_batch().clone();
        partition.store()?;
        batches.push((partition.next_offset(), batch));
    }
    partition.finish()?;
    Ok(Rows { partition: number, batches })
}

fn read_and_write(log: &KafkaLog, rows: Rows) -> Result<(), KafkaError> {
    let directory = tempfile::tempdir()?;
    let mut store = WriteBehind::new(RocksStore::open(directory.path())?)?;
    let mut next = 0;
    for (end, mut batch) in rows.batches {
        while next < end {
            let records = log.read(Topic::Events, rows.partition, next, READ)?;
            next = records.last().map_or(end, |last| last.position.offset + 1);
        }
        store.hand_over(&mut batch)?;
    }
    Ok(store.finish()?)
}
