//! Time travel: how fast a log is replayed, beside live ingest of the same events and beside RocksDB alone with the same rows;
//! what a what-if near the end takes of a full replay; and whether `recant verify` finds what is planted.

use std::{
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use recant_eventlog::{ReadLog, clock::SystemClock};
use recant_processor::{
    standalone::{NewEvent, NewLog, Standalone},
    viewer::Viewer,
};
use recant_projections::{
    store::{Batch, Entry, Store, StoreError, Visit, WriteStore, rocks::RocksStore},
    tables::Table,
};
use recant_proto::{names, position::Incarnation, v1::Event};
use recant_replayer::{
    making, parallel,
    replay::{Nobody, Replay},
};
use recant_tests::{crash::process::program, plant};
use serde_json::Value;

use crate::{
    durable::{DurableError, SPACE},
    ingest::{belief, observation},
    workload::Random,
};

/// Observations that beliefs rest on, in each space.
const OBSERVATIONS: u32 = 10_000;

/// Memory for open spaces, over all partitions.
const MEMORY_BUDGET_BYTES: usize = 1 << 30;

/// How fast.
#[derive(Debug, Clone, Copy)]
pub struct Replayed {
    /// How many partitions.
    pub partitions: u32,
    /// Events a second, replayed.
    pub events_per_s: f64,
    /// Events a second, appended and processed live by 1,000 at once.
    pub live_events_per_s: f64,
    /// Events a second of RocksDB alone, writing the same rows in the same batches.
    pub limit_events_per_s: f64,
}

/// A space in each partition.
fn spaces(partitions: u32) -> Vec<String> {
    let name = |partition: u32| {
        let mut candidates = (0_u32..).map(|number| format!("{SPACE}-{number}"));
        candidates.find(|name| names::partition_of(name.as_bytes(), partitions) == partition).unwrap_or_default()
    };
    (0..partitions).map(name).collect()
}

fn event(number: u32, space: &str, random: &mut Random) -> Event {
    let event = if number < OBSERVATIONS { observation(number) } else { belief(number, random) };
    Event { space: space.to_owned(), ..event }
}

/// Fills a new data directory with so many events, and gives the time that took.
fn fill(data: &Path, partitions: u32, events: u32, seed: u64) -> Result<Duration, DurableError> {
    let new = NewLog { incarnation: Incarnation([7; 16]), partitions, log_time_occurred: false };
    let mut standalone = Standalone::create(data, &new, Arc::new(SystemClock))?;
    let (spaces, mut random) = (spaces(partitions), Random::new(seed));
    let mut taken = Duration::ZERO;
    let each = events / partitions;
    for first in (0..each).step_by(1_000 / partitions as usize) {
        let numbers = first..(first + 1_000 / partitions).min(each);
        let batch: Vec<NewEvent> = spaces
            .iter()
            .flat_map(|space| {
                numbers.clone().map(|number| NewEvent::of(&event(number, space, &mut random))).collect::<Vec<_>>()
            })
            .collect();
        let started = Instant::now();
        standalone.append(batch)?;
        standalone.process(&mut |_, _| {})?;
        taken += started.elapsed();
    }
    Ok(taken)
}

/// Replays so many events in so many partitions.
pub fn replay(partitions: u32, events: u32, seed: u64) -> Result<Replayed, Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");
    let live = fill(&data, partitions, events, seed)?;
    let viewer = Viewer::open(&data)?;
    let log = viewer.log();
    let budget_bytes = MEMORY_BUDGET_BYTES / parallel::workers(partitions as usize);
    let started = Instant::now();
    parallel::each((0..partitions).collect(), |number| {
        let store = making::state(&directory.path().join(format!("replayed-{number}")), budget_bytes)?;
        let mut replay = Replay::over(log, number, store, budget_bytes, &|_| {})?;
        replay.up_to(log.committed(number)?.next_offset, &mut Nobody)
    })?;
    let replayed = started.elapsed();
    // The same rows once more, kept, and then written by RocksDB alone.
    let batches = parallel::each((0..partitions).collect(), |number| {
        let store = RocksStore::open(&directory.path().join(format!("recorded-{number}")))?;
        let mut replay = Replay::over(log, number, Recording { store, batches: Vec::new() }, budget_bytes, &|_| {})?;
        replay.up_to(log.committed(number)?.next_offset, &mut Nobody)?;
        Ok::<_, recant_replayer::replay::ReplayError>(replay.partition().stored().batches.clone())
    })?;
    let numbered = (0..).zip(batches).collect::<Vec<(u32, Vec<Batch>)>>();
    let started = Instant::now();
    parallel::each(numbered, |(number, batches)| {
        let mut alone = RocksStore::open(&directory.path().join(format!("alone-{number}")))?;
        batches.iter().try_for_each(|batch| alone.write(batch))
    })?;
    let limit = started.elapsed();
    let rate = |taken: Duration| f64::from(events) / taken.as_secs_f64();
    Ok(Replayed {
        partitions,
        events_per_s: rate(replayed),
        live_events_per_s: rate(live),
        limit_events_per_s: rate(limit),
    })
}

/// A store that keeps what is written to it.
struct Recording {
    store: RocksStore,
    batches: Vec<Batch>,
}

impl Store for Recording {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.store.scan(table, prefix, from, visit)
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.store.last(table, prefix, at_most)
    }
}

impl WriteStore for Recording {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.batches.push(batch.clone());
        self.store.write(batch)
    }
}

/// What a what-if takes at a moment a tenth before the end of a log, and a full replay of it.
pub fn what_if(events: u32, seed: u64) -> Result<(Duration, Duration), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("data");
    fill(&data, 1, events, seed)?;
    let viewer = Viewer::open(&data)?;
    let log = viewer.log();
    let started = Instant::now();
    let store = making::state(&directory.path().join("replayed"), MEMORY_BUDGET_BYTES)?;
    Replay::over(log, 0, store, MEMORY_BUDGET_BYTES, &|_| {})?.up_to(log.committed(0)?.next_offset, &mut Nobody)?;
    let full = started.elapsed();
    let at = format!("0:{}", u64::from(events) * 9 / 10);
    let space = spaces(1).remove(0);
    // Of the last tenth before that moment: one of the first ten thousand carries nearly all that came after it, and what was
    // measured would be the telling of that.
    let node = crate::workload::node_id(events / 10 * 8);
    let started = Instant::now();
    let told = Command::new(program("recant"))
        .args(["--json", "what-if", "--node", &node, "--at", &at, "--space", &space])
        .arg("--data")
        .arg(&data)
        .output()?;
    let taken = started.elapsed();
    let told: Value = serde_json::from_slice(&told.stdout)?;
    if told["changed"].as_u64().unwrap_or(0) == 0 {
        return Err(format!("the what-if changed nothing: {told}").into());
    }
    Ok((taken, full))
}

/// Plants every kind of difference, each into a directory of its own: how many, and how many `recant verify` finds.
pub fn verify() -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let mut found = 0;
    for (number, planted) in plant::ALL.iter().enumerate() {
        let data = directory.path().join(number.to_string());
        plant::story(&data)?;
        (planted.plant)(&data);
        let told = Command::new(program("recant")).args(["--json", "verify", "--data"]).arg(&data).output()?;
        let told: Value = serde_json::from_slice(&told.stdout)?;
        let first = &told["partitions"][0]["differences"][0];
        let is_named = first.get("node").is_some() || !planted.names_node;
        found += usize::from(first["what"] == planted.found_as && is_named);
    }
    Ok((plant::ALL.len(), found))
}
