//! Ingest: events of 300 bytes with three premises, into one partition.
//!
//! The state alone, in batches of 1,000: each folded while the one before it is written, beside RocksDB alone, which writes the
//! very rows of the same batches into a directory of its own; and once by turns, which says how long each takes. Then the whole way, log and state: with one writer, with 32, each waiting for its
//! fsync, and with appends of 1,000 events.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use prost::Message as _;
use recant_eventlog::clock::SystemClock;
use recant_processor::standalone::{NewEvent, NewLog, Standalone};
use recant_projections::{
    fold::Forms,
    store::{Batch, WriteStore as _, rocks::RocksStore},
};
use recant_proto::{
    position::Incarnation,
    v1::{self, Content, Derived, Event, Observed, content::Form, event::Body},
};

use crate::{
    durable::{Bed, DurableError, SPACE},
    workload::{Random, node_id, source_id},
};

/// The length of an event.
const EVENT_BYTES: usize = 300;

/// Events in a batch.
const BATCH: usize = 1_000;

/// Observations that are there before anything is measured.
const OBSERVATIONS: u32 = 10_000;

/// What was measured.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Events a second, folded and written.
    pub events_per_s: f64,
    /// Events a second by RocksDB alone.
    pub limit_events_per_s: f64,
    /// The time in folding and in writing, when one waits for the other.
    pub fold: Duration,
    /// As above.
    pub write: Duration,
    /// Rows an event, all rows of all batches counted.
    pub rows_per_event: f64,
    /// Rows an event by table, those of which there is at least one in ten events.
    pub tables: Vec<(&'static str, f64)>,
    /// Bytes an event, keys and values of all rows.
    pub row_bytes_per_event: f64,
    /// Events a second through log and state, with so many writers and so many events an append.
    pub through_the_log: Vec<(usize, usize, f64)>,
}

/// An event of the right length that rests on three earlier ones.
pub fn belief(number: u32, random: &mut Random) -> Event {
    let mut premises: Vec<String> = Vec::with_capacity(3);
    while premises.len() < 3 {
        let premise = node_id(random.below(number));
        if !premises.contains(&premise) {
            premises.push(premise);
        }
    }
    let derived = Derived {
        node: node_id(number),
        kind: "belief".to_owned(),
        justification: Some(v1::Justification { premises, ..v1::Justification::default() }),
        ..Derived::default()
    };
    padded(event(number, Body::Derived(derived)))
}

fn event(number: u32, body: Body) -> Event {
    Event {
        id: format!("0197a3c8-7c1e-7000-8000-{number:012x}"),
        space: SPACE.to_owned(),
        agent: "agent-7".to_owned(),
        run: format!("run-{}", number / 100),
        occurred_at: "2026-11-30T09:00:00Z".to_owned(),
        body: Some(body),
        ..Event::default()
    }
}

/// Fills the text until the event has its length.
fn padded(mut event: Event) -> Event {
    let missing = EVENT_BYTES.saturating_sub(event.encoded_len() + 8);
    let text = "Remit to the account on file. ".repeat(10)[..missing].to_owned();
    let content = Some(Content { form: Some(Form::Text(text)), ..Content::default() });
    if let Some(Body::Derived(derived)) = &mut event.body {
        derived.content = content;
    }
    event
}

/// An observation.
pub fn observation(number: u32) -> Event {
    let observed = Observed { node: node_id(number), source: source_id(number % 100), ..Observed::default() };
    event(number, Body::Observed(observed))
}

/// Beliefs without end, in batches, each folded while the one before it is written.
pub struct Beliefs {
    random: Random,
    next: u32,
}

impl Beliefs {
    /// From the first after the observations.
    pub fn new(seed: u64) -> Beliefs {
        Beliefs { random: Random::new(seed), next: OBSERVATIONS }
    }

    /// The next batch, folded and handed over.
    pub fn batch(&mut self, bed: &mut Bed) -> Result<(), DurableError> {
        for _ in 0..BATCH {
            bed.fold(&belief(self.next, &mut self.random))?;
            self.next += 1;
        }
        Ok(bed.partition.store()?)
    }
}

/// A state with the first observations.
pub fn observed(directory: &Path) -> Result<Bed, DurableError> {
    let mut bed = Bed::open(directory, Forms { resident_max: u32::MAX, ..Forms::default() })?;
    for number in 0..OBSERVATIONS {
        bed.fold(&observation(number))?;
    }
    bed.store()?;
    Ok(bed)
}

fn beliefs(events: u32, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    (OBSERVATIONS..OBSERVATIONS + events).map(|number| belief(number, &mut random).encode_to_vec()).collect()
}

/// What folding and writing take when one waits for the other, and what is written.
struct ByTurns {
    batches: Vec<Batch>,
    fold: Duration,
    write: Duration,
}

fn by_turns(directory: &Path, values: &[Vec<u8>]) -> Result<ByTurns, DurableError> {
    let mut done = ByTurns { batches: Vec::new(), fold: Duration::ZERO, write: Duration::ZERO };
    let mut bed = observed(directory)?;
    for batch in values.chunks(BATCH) {
        let started = Instant::now();
        bed.fold_values(SPACE, batch)?;
        done.fold += started.elapsed();
        done.batches.push(bed.partition.complete_batch().clone());
        let started = Instant::now();
        bed.store()?;
        done.write += started.elapsed();
    }
    Ok(done)
}

/// The rows that so many events write, by batches.
pub fn rows(events: u32, seed: u64) -> Result<Vec<Batch>, DurableError> {
    let directory = tempfile::tempdir()?;
    Ok(by_turns(directory.path(), &beliefs(events, seed))?.batches)
}

/// Measures with so many events.
pub fn measure(events: u32, seed: u64) -> Result<Figures, DurableError> {
    let directory = tempfile::tempdir()?;
    let values = beliefs(events, seed);
    let ByTurns { batches, fold, write } = by_turns(&directory.path().join("by-turns"), &values)?;
    let mut bed = observed(&directory.path().join("state"))?;
    let started = Instant::now();
    for batch in values.chunks(BATCH) {
        bed.fold_values(SPACE, batch)?;
        bed.partition.store()?;
    }
    bed.partition.finish()?;
    let took = started.elapsed();
    drop(bed);
    let mut alone = RocksStore::open(&directory.path().join("alone"))?;
    let started = Instant::now();
    for batch in &batches {
        alone.write(batch)?;
    }
    let limit = started.elapsed();
    let per_event = |count: usize| count as f64 / f64::from(events);
    let mut by_table: std::collections::BTreeMap<&'static str, usize> = std::collections::BTreeMap::new();
    let mut row_bytes = 0;
    for (table, key, value) in batches.iter().flat_map(Batch::rows) {
        *by_table.entry(table.name()).or_default() += 1;
        row_bytes += key.len() + value.map_or(0, <[u8]>::len);
    }
    let rows: usize = by_table.values().sum();
    let tables = by_table.into_iter().map(|(name, rows)| (name, per_event(rows))).filter(|(_, rows)| *rows >= 0.1);
    let mut through_the_log = Vec::new();
    for (writers, events_an_append, appends) in [(1, 1, 2_000), (32, 1, 20_000), (1, 1_000, 100)] {
        let rate = through_the_log_with(writers, events_an_append, appends, seed)?;
        through_the_log.push((writers, events_an_append, rate));
    }
    Ok(Figures {
        events_per_s: f64::from(events) / took.as_secs_f64(),
        limit_events_per_s: f64::from(events) / limit.as_secs_f64(),
        fold,
        write,
        rows_per_event: per_event(rows),
        tables: tables.collect(),
        row_bytes_per_event: per_event(row_bytes),
        through_the_log,
    })
}

/// Events a second that were appended, on disk, folded, published and stored, when all is done.
fn through_the_log_with(
    writers: usize,
    events_an_append: usize,
    appends: usize,
    seed: u64,
) -> Result<f64, DurableError> {
    let directory = tempfile::tempdir()?;
    let new = NewLog { incarnation: Incarnation([7; 16]), partitions: 1, log_time_occurred: false };
    let mut standalone = Standalone::open_or_create(directory.path(), &new, Arc::new(SystemClock))?;
    standalone.append((0..OBSERVATIONS).map(|number| NewEvent::of(&observation(number))).collect())?;
    standalone.process(&mut |_, _| {})?;
    let mut random = Random::new(seed);
    let total = u32::try_from(appends * events_an_append).unwrap_or(u32::MAX);
    let mut events = (OBSERVATIONS..OBSERVATIONS + total).map(|number| NewEvent::of(&belief(number, &mut random)));
    let calls: Vec<Vec<NewEvent>> = (0..appends).map(|_| events.by_ref().take(events_an_append).collect()).collect();
    let of_writers: Vec<Vec<Vec<NewEvent>>> = deal(calls, writers);
    let started = Instant::now();
    let log = standalone.appender();
    std::thread::scope(|scope| -> Result<(), DurableError> {
        let appending: Vec<_> = of_writers
            .into_iter()
            .map(|calls| scope.spawn(|| calls.into_iter().try_for_each(|call| log.append(call).map(drop))))
            .collect();
        while appending.iter().any(|writer| !writer.is_finished()) {
            standalone.process(&mut |_, _| {})?;
        }
        for writer in appending {
            writer.join().map_err(|_| std::io::Error::other("a writer panicked"))??;
        }
        Ok(standalone.process(&mut |_, _| {})?)
    })?;
    Ok(f64::from(total) / started.elapsed().as_secs_f64())
}

/// Deals things to so many hands, one after the other.
fn deal<T>(things: Vec<T>, hands: usize) -> Vec<Vec<T>> {
    let mut dealt: Vec<Vec<T>> = (0..hands).map(|_| Vec::new()).collect();
    for (index, thing) in things.into_iter().enumerate() {
        dealt[index % hands].push(thing);
    }
    dealt
}
