//! Kafka: how fast a log on a real broker is processed, and how soon a revocation is seen.
//!
//! Ingest: events of 300 bytes with three premises, in 64 spaces, lie in the log before `recant serve` starts; the rate is taken
//! from the committed positions, between a tenth and all of them. Beside it the same records are read and their rows written, and
//! nothing else is done (`kafka_limit.rs`).
//!
//! Latency: at a steady pace a retraction is appended, and awaited by a read-committed reader of `recant.changes`; the time is from
//! just before the append to the change in hand. Beside it, at the same pace, the time from just before the same append to the
//! event itself in a reader's hand: a plain idempotent produce and consume; and a bare loop that reads and publishes in
//! transactions, on its own topics. And once more while ordinary events come beside it to the same partition. `streams.rs` has the peer, `kafka_recovery.rs` what happens after kill -9.

use std::{
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use prost::Message as _;
use recant_eventlog::{
    AppendLog, Commit, Committed, LogError, NewRecord, Output, ProcessLog as _, ReadLimit, ReadLog, Record, Topic,
    kafka::KafkaLog,
};
use recant_projections::{fold::FoldError, store::StoreError};
use recant_proto::{
    v1::{
        Change, Content, Derived, Event, Justification, Observed, Retracted, Target, content::Form, event::Body,
        target::What,
    },
    wire,
};
use recant_tests::{
    crash::process::program,
    kafka::{broker::Broker, load::record, log},
};

use crate::kafka_limit;

/// See the module.
pub const EVENT_BYTES: usize = 300;
/// See the module.
pub const SPACES: u64 = 64;
/// See the module.
pub const APPEND_EVENTS: usize = 5_000;
/// Of the events whose latency is measured.
const MEASURED_SPACE: &str = "s";
const READ: ReadLimit = ReadLimit { records_max: 10_000, bytes_max: 8 << 20 };
/// So long anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// What ingest came to.
pub struct Ingest {
    /// Events processed a second.
    pub events_per_s: f64,
    /// Events a second that are read and whose rows are written, and nothing else.
    pub limit_events_per_s: f64,
}

/// Times, in ms.
pub struct Latency {
    /// From append to change.
    pub p50_ms: f64,
    /// As above.
    pub p99_ms: f64,
    /// From append to the event itself.
    pub plain_p50_ms: f64,
    /// As above.
    pub plain_p99_ms: f64,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A program could not be started.
    #[error("recant serve: {0}")]
    Start(#[from] std::io::Error),
    /// What was awaited did not come.
    #[error("{0} did not come within {PATIENCE:?}")]
    Missing(&'static str),
    /// The state failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Events could not be folded.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// A change cannot be read.
    #[error("a change cannot be read: {0}")]
    Change(#[from] prost::DecodeError),
}

/// A process that serves, killed when it is dropped.
struct Served {
    child: Child,
    _data: tempfile::TempDir,
}

impl Served {
    fn start(brokers: &str, instance: &str) -> Result<Served, KafkaError> {
        let data = tempfile::tempdir()?;
        let child = Command::new(program("recant"))
            .args(["serve", "--log", "kafka", "--brokers", brokers, "--instance", instance, "--data"])
            .arg(data.path())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()?;
        Ok(Served { child, _data: data })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An event of the right length: the first ones of a space are observations, the others beliefs on three earlier nodes.
pub fn event(number: u64, random: &mut impl FnMut(u64) -> u64) -> Event {
    let (space, within) = (number % SPACES, number / SPACES);
    let node = format!("n-{within}");
    let mut event = Event { id: format!("e-{within}"), space: format!("space-{space}"), ..Event::default() };
    let content = |bytes: usize| Some(Content { form: Some(Form::Text("x".repeat(bytes))), ..Content::default() });
    let body = |bytes: usize, premises: Vec<String>| match within {
        0..16 => Body::Observed(Observed {
            node: node.clone(),
            source: format!("s-{}", within % 4),
            content: content(bytes),
            ..Observed::default()
        }),
        _ => Body::Derived(Derived {
            node: node.clone(),
            kind: "belief".to_owned(),
            content: content(bytes),
            justification: Some(Justification { premises, ..Justification::default() }),
            ..Derived::default()
        }),
    };
    let premises: Vec<String> = (0..3).map(|_| format!("n-{}", random(within.max(1)))).collect();
    event.body = Some(body(0, premises.clone()));
    let bytes = EVENT_BYTES.saturating_sub(event.encoded_len() + 4);
    event.body = Some(body(bytes, premises));
    event
}

/// Processes so many events on so many partitions.
pub fn ingest(broker: &Broker, partitions: u32, events: u64, seed: u64) -> Result<Ingest, KafkaError> {
    let instance = format!("ingest-{partitions}-{events}");
    let log = log(&broker.address(), &instance, partitions);
    let mut random = recant_tests::binary::Random(seed);
    let mut batch: Vec<NewRecord> = Vec::with_capacity(APPEND_EVENTS);
    for number in 0..events {
        batch.push(record(&event(number, &mut |below| random.below(below)), partitions));
        if batch.len() == APPEND_EVENTS || number + 1 == events {
            log.append(std::mem::take(&mut batch))?;
        }
    }
    let limit_events_per_s = kafka_limit::measure(&log)?;
    let _served = Served::start(&broker.address(), &instance)?;
    let (mut first, begun) = (None, Instant::now());
    loop {
        let mut done = 0;
        for partition in 0..partitions {
            done += log.committed(partition)?.next_offset;
        }
        let now = Instant::now();
        if first.is_none() && done >= events / 10 {
            first = Some((now, done));
        }
        // Each partition has its first event beside.
        if let Some((since, before)) = first.filter(|_| done >= events + u64::from(partitions)) {
            let events_per_s = (done - before) as f64 / (now - since).as_secs_f64();
            return Ok(Ingest { events_per_s, limit_events_per_s });
        }
        if begun.elapsed() > PATIENCE {
            return Err(KafkaError::Missing("the end of the events"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Retracts so many observations, at this pace, while so many other events come each second.
pub fn latency(
    broker: &Broker,
    retractions: usize,
    pace: Duration,
    other_events_per_s: u64,
) -> Result<Latency, KafkaError> {
    let instance = format!("latency-{other_events_per_s}");
    let log = log(&broker.address(), &instance, 1);
    let in_space =
        |id: String, body: Body| Event { id, space: MEASURED_SPACE.to_owned(), body: Some(body), ..Event::default() };
    let observed = |number: usize| {
        let (node, source) = (format!("o-{number}"), "source".to_owned());
        in_space(format!("e-{number}"), Body::Observed(Observed { node, source, ..Observed::default() }))
    };
    log.append((0..retractions).map(|number| record(&observed(number), 1)).collect())?;
    let _served = Served::start(&broker.address(), &instance)?;
    wait_for_position(&log, retractions as u64 + 1)?;
    let end_of_events = log.bounds(Topic::Events, 0)?.end;
    let is_over = AtomicBool::new(false);
    let (changes, plain) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| append_beside(broker, &instance, other_events_per_s, &is_over));
        let seen = scope.spawn(|| arrivals(&log, Topic::Changes, 0, 2 * retractions, &decode_change));
        let plain = scope.spawn(|| arrivals(&log, Topic::Events, end_of_events, retractions, &decode_event));
        let sent = at_pace(retractions, pace, |number| {
            let targets = vec![Target { what: Some(What::Node(format!("o-{number}"))), window: None }];
            let retraction = format!("r-{number}");
            let retracted = Retracted { retraction: retraction.clone(), targets, ..Retracted::default() };
            Ok(log.append(vec![record(&in_space(retraction, Body::Retracted(retracted)), 1)]).map(drop)?)
        });
        let missing = |_| KafkaError::Missing("a reader's or a writer's thread");
        let (seen, plain) = (seen.join(), plain.join());
        is_over.store(true, Ordering::SeqCst);
        beside.join().map_err(missing)??;
        let (sent, seen, plain) = (sent?, seen.map_err(missing)??, plain.map_err(missing)??);
        // Of each cascade its change, which comes after its summary.
        let changes = times(&sent, seen.iter().skip(1).step_by(2));
        Ok::<_, KafkaError>((changes, times(&sent, plain.iter())))
    })?;
    Ok(Latency {
        p50_ms: percentile(&changes, 0.5),
        p99_ms: percentile(&changes, 0.99),
        plain_p50_ms: percentile(&plain, 0.5),
        plain_p99_ms: percentile(&plain, 0.99),
    })
}

/// So many events of the kind that ingest has are appended a second, by a client of their own, a hundredth of them at a time.
fn append_beside(broker: &Broker, instance: &str, events_per_s: u64, is_over: &AtomicBool) -> Result<(), KafkaError> {
    let log = log(&broker.address(), instance, 1);
    let at_a_time = events_per_s / 100;
    let mut random = recant_tests::binary::Random(events_per_s);
    let (mut number, begun) = (0, Instant::now());
    while at_a_time > 0 && !is_over.load(Ordering::SeqCst) {
        let events = (number..number + at_a_time).map(|number| event(number, &mut |below| random.below(below)));
        log.append(events.map(|event| record(&event, 1)).collect())?;
        number += at_a_time;
        let due = begun + Duration::from_millis(10 * number / at_a_time);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Of times in rising order, the one that this share is below.
pub fn percentile(times: &[f64], share: f64) -> f64 {
    let at = (times.len().saturating_sub(1) as f64 * share).round() as usize;
    times.get(at).copied().unwrap_or(f64::NAN)
}

/// Does something so often at a pace, and gives when each began.
pub fn at_pace(
    count: usize,
    pace: Duration,
    mut act: impl FnMut(usize) -> Result<(), KafkaError>,
) -> Result<Vec<Instant>, KafkaError> {
    let mut sent = Vec::with_capacity(count);
    let begun = Instant::now();
    for number in 0..count {
        let due = begun + pace * number as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        sent.push(Instant::now());
        act(number)?;
    }
    Ok(sent)
}

/// Times from an append to what a bare loop makes of it, in ms, in rising order: it reads, and publishes as many records with
/// the position behind them, in a transaction each time, of what is queued.
pub fn bare_loop(broker: &Broker, records: usize, pace: Duration) -> Result<Vec<f64>, KafkaError> {
    let log = Arc::new(log(&broker.address(), "bare", 1));
    let is_over = AtomicBool::new(false);
    let next = log.bounds(Topic::Events, 0)?.end;
    let (sent, seen) = std::thread::scope(|scope| {
        let looping = scope.spawn(|| consume_transform_produce(&log, next, &is_over));
        let seen = scope.spawn(|| arrivals(&log, Topic::Changes, 0, records, &decode_change));
        let sent = at_pace(records, pace, |number| {
            let event = Event { id: format!("b-{number}"), space: "s".to_owned(), ..Event::default() };
            Ok(log.append(vec![record(&event, 1)]).map(drop)?)
        });
        let seen = seen.join();
        is_over.store(true, Ordering::SeqCst);
        let missing = |_| KafkaError::Missing("a thread of the bare loop");
        looping.join().map_err(missing)??;
        Ok::<_, KafkaError>((sent?, seen.map_err(missing)??))
    })?;
    Ok(times(&sent, seen.iter()))
}

fn consume_transform_produce(log: &KafkaLog, mut next: u64, is_over: &AtomicBool) -> Result<(), KafkaError> {
    let (epoch, _) = log.acquire(0)?;
    while !is_over.load(Ordering::SeqCst) {
        log.wait(Topic::Events, 0, next, Duration::from_millis(50))?;
        let read = log.read(Topic::Events, 0, next, READ)?;
        let Some(last) = read.last() else { continue };
        next = last.position.offset + 1;
        let change = Change::default().encode_to_vec();
        let output = |record: Record| Output {
            topic: Topic::Changes,
            key: record.key,
            headers: record.headers,
            value: change.clone(),
        };
        let committed = Committed { next_offset: next, metadata: Vec::new() };
        if log.commit(0, epoch, read.into_iter().map(output).collect(), committed) != Commit::Committed {
            return Err(KafkaError::Missing("a commit of the bare loop"));
        }
    }
    Ok(())
}

/// The times between, in ms, in rising order.
pub fn times<'a>(sent: &[Instant], seen: impl Iterator<Item = &'a Instant>) -> Vec<f64> {
    let mut times: Vec<f64> = sent.iter().zip(seen).map(|(sent, seen)| (*seen - *sent).as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// When each of so many records came and was taken; those that are not awaited are not counted.
pub fn arrivals(
    log: &KafkaLog,
    topic: Topic,
    from: u64,
    count: usize,
    is_awaited: &dyn Fn(&Record) -> Result<bool, KafkaError>,
) -> Result<Vec<Instant>, KafkaError> {
    let (mut next, mut seen, begun) = (from, Vec::with_capacity(count), Instant::now());
    while seen.len() < count {
        log.wait(topic, 0, next, Duration::from_millis(200))?;
        for record in log.read(topic, 0, next, READ)? {
            next = record.position.offset + 1;
            if is_awaited(&record)? {
                seen.push(Instant::now());
            }
        }
        if begun.elapsed() > PATIENCE {
            return Err(KafkaError::Missing("a record"));
        }
    }
    Ok(seen)
}

/// A change that is decoded when it is taken.
fn decode_change(record: &Record) -> Result<bool, KafkaError> {
    Ok(Change::decode(record.value.as_slice()).map(|_| true)?)
}

/// An event that is decoded when it is taken; others than those whose latency is measured are in other spaces.
fn decode_event(record: &Record) -> Result<bool, KafkaError> {
    let is_measured = record.key == MEASURED_SPACE.as_bytes();
    Ok(is_measured && wire::decode(&record.value, None).is_ok())
}

fn wait_for_position(log: &KafkaLog, next_offset: u64) -> Result<(), KafkaError> {
    let begun = Instant::now();
    while log.committed(0)?.next_offset < next_offset {
        if begun.elapsed() > PATIENCE {
            return Err(KafkaError::Missing("the committed position"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
