//! The one thread that writes. Whatever wants to be written goes through a bounded queue; the thread takes what is queued,
//! up to a bound, gives it offsets and times, writes it as one batch with one fsync, and then answers all of it. So a lone
//! caller waits for one fsync, and many share one.
//!
//! Where flushes find no room, RocksDB may hold a write back until there is, and say nothing. A call that waits for its
//! answer looks for that, and then stops the log as if the write had failed.
//!
//! When a write fails, everything in its batch is answered with an error, and the log takes nothing more until it is
//! opened again. Whether that batch is in the log is only then known: the kernel may hold it although the fsync failed.
//! Opening reads the write-ahead log and writes what it finds there into new tables, with an fsync of its own; so an
//! offset that was answered for is never given out twice, and what was answered with an error is either there or not, but
//! from then on for good.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use recant_proto::position::Position;

use super::tables::{Batch, Tables};
use super::{record, settings::Buffers};
use crate::partition::PartitionState;
use crate::{Clock, Commit, Committed, Epoch, LogError, NewRecord, Output, Topic};

/// The bounds of the writer.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// How many calls may wait to be written.
    pub queue_requests_max: usize,
    /// How long a call waits for a place in that queue.
    pub queue_wait_max: Duration,
    /// No further call joins a batch once it holds so many records.
    pub batch_records_max: usize,
    /// No further call joins a batch once it holds so many bytes.
    pub batch_bytes_max: usize,
    /// How many bytes one call may hold, as they lie in the log. A cascade of a million changes must fit; RocksDB's own
    /// limit is 4 GiB.
    pub request_bytes_max: usize,
    /// A batch is written, with an fsync each, in pieces of about so many bytes. RocksDB reads each back whole, and whoever
    /// follows pays for that in memory; a cascade can have hundreds of MiB.
    pub piece_bytes: usize,
    /// How much of each topic is gathered in memory before it is written as a table.
    pub write_buffer_bytes: usize,
    /// What the database shares with others of the process, if anything.
    pub shared: Option<Buffers>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            queue_requests_max: 1024,
            queue_wait_max: Duration::from_secs(5),
            batch_records_max: 4096,
            batch_bytes_max: 8 << 20,
            request_bytes_max: 1 << 30,
            piece_bytes: 4 << 20,
            write_buffer_bytes: super::settings::WRITE_BUFFER_BYTES,
            shared: None,
        }
    }
}

/// What the writer has done since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// How many calls wait in the queue now.
    pub queue_depth: u64,
    /// Batches written, each with one fsync.
    pub batches: u64,
    /// Records written, of all topics.
    pub records: u64,
    /// Their bytes, as they lie in the log.
    pub bytes: u64,
    /// Calls that found no place in the queue in time.
    pub queue_refusals: u64,
    /// Batches that could not be written; after the first the log takes nothing more.
    pub sync_failures: u64,
}

/// An event as its caller encoded it.
pub(super) struct EncodedEvent {
    pub(super) partition: u32,
    pub(super) append_time_ms: Option<i64>,
    pub(super) bytes: Vec<u8>,
}

/// The calling side of the thread.
pub(super) struct Committer {
    /// Taken when the log closes, which ends the thread once the queue is empty.
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    options: WriterOptions,
    shared: Arc<Shared>,
    tables: Arc<Tables>,
}

/// So often a call that waits for its answer looks whether the write is held back.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Shared {
    batches: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    queue_refusals: AtomicU64,
    sync_failures: AtomicU64,
    /// How often RocksDB had failed in the background when a write last ended well.
    background_failures: AtomicU64,
    /// Why nothing more is taken.
    stopped: OnceLock<String>,
}

enum Request {
    Append {
        events: Vec<EncodedEvent>,
        answer: Sender<Result<Vec<Position>, LogError>>,
    },
    Acquire {
        partition: u32,
        answer: Sender<Result<(Epoch, Committed), LogError>>,
    },
    Commit {
        partition: u32,
        epoch: Epoch,
        outputs: Vec<Output>,
        encoded: Vec<Vec<u8>>,
        committed: Committed,
        answer: Sender<Commit>,
    },
}

/// What is told to a caller once the batch is on disk.
enum Answer {
    Append(Sender<Result<Vec<Position>, LogError>>, Vec<Position>),
    Acquire(Sender<Result<(Epoch, Committed), LogError>>, (Epoch, Committed)),
    Commit(Sender<Commit>),
}

struct Thread {
    requests: Receiver<Request>,
    tables: Arc<Tables>,
    partitions: Vec<PartitionState>,
    clock: Arc<dyn Clock>,
    options: WriterOptions,
    shared: Arc<Shared>,
}

/// What is written together.
struct Group {
    now_ms: i64,
    batch: Batch,
    records: usize,
    bytes: usize,
    /// The partitions whose state has changed.
    changed: BTreeSet<u32>,
    answers: Vec<Answer>,
}

impl Committer {
    pub(super) fn start(
        tables: Arc<Tables>,
        partitions: Vec<PartitionState>,
        clock: Arc<dyn Clock>,
        options: WriterOptions,
    ) -> Result<Committer, LogError> {
        let (sender, requests) = bounded(options.queue_requests_max.max(1));
        let shared = Arc::new(Shared::default());
        let thread = Thread {
            requests,
            tables: tables.clone(),
            partitions,
            clock,
            options: options.clone(),
            shared: shared.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("log-committer".to_owned())
            .spawn(move || thread.run())
            .map_err(|error| LogError::Io(format!("no thread for the log's writer: {error}")))?;
        Ok(Committer { requests: Some(sender), thread: Some(thread), options, shared, tables })
    }

    /// The records' partitions must exist.
    pub(super) fn append(&self, records: &[NewRecord]) -> Result<Vec<Position>, LogError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let events = encode_events(records, self.options.request_bytes_max)?;
        let (answer, answered) = bounded(1);
        self.send(Request::Append { events, answer })?;
        self.wait(&answered)?
    }

    /// The partition must exist.
    pub(super) fn acquire(&self, partition: u32) -> Result<(Epoch, Committed), LogError> {
        let (answer, answered) = bounded(1);
        self.send(Request::Acquire { partition, answer })?;
        self.wait(&answered)?
    }

    /// The partition must exist.
    pub(super) fn commit(&self, partition: u32, epoch: Epoch, outputs: Vec<Output>, committed: Committed) -> Commit {
        let parts = outputs.iter().map(|output| (&output.key[..], &output.headers[..], &output.value[..]));
        let encoded = match encode_all(parts, self.options.request_bytes_max) {
            Ok(encoded) => encoded,
            Err(error) => return Commit::Aborted(error.to_string()),
        };
        let (answer, answered) = bounded(1);
        match self.send(Request::Commit { partition, epoch, outputs, encoded, committed, answer }) {
            Ok(()) => self.wait(&answered).unwrap_or_else(|error| Commit::Unknown(error.to_string())),
            Err(error) => Commit::Aborted(error.to_string()),
        }
    }

    pub(super) fn counters(&self) -> Counters {
        let shared = &self.shared;
        Counters {
            queue_depth: self.requests.as_ref().map_or(0, |requests| requests.len() as u64),
            batches: shared.batches.load(Ordering::Relaxed),
            records: shared.records.load(Ordering::Relaxed),
            bytes: shared.bytes.load(Ordering::Relaxed),
            queue_refusals: shared.queue_refusals.load(Ordering::Relaxed),
            sync_failures: shared.sync_failures.load(Ordering::Relaxed),
        }
    }

    /// Waits for the answer to a call, for as long as its write goes on.
    fn wait<T>(&self, answered: &Receiver<T>) -> Result<T, LogError> {
        loop {
            match answered.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(LogError::Io(ENDED.to_owned())),
                Err(RecvTimeoutError::Timeout) => self.check_not_held_back()?,
            }
        }
    }

    fn check_not_held_back(&self) -> Result<(), LogError> {
        let failures = self.tables.background_failures();
        if failures == self.shared.background_failures.load(Ordering::Relaxed) || !self.tables.is_held_back() {
            return Ok(());
        }
        let detail = "tables cannot be written, and appends are held back until they can".to_owned();
        self.shared.sync_failures.fetch_add(1, Ordering::Relaxed);
        self.shared.stop(&LogError::NoRoom(detail.clone()));
        Err(LogError::NoRoom(detail))
    }

    fn send(&self, request: Request) -> Result<(), LogError> {
        self.shared.check_accepting()?;
        let requests = self.requests.as_ref().ok_or_else(|| LogError::NotAccepting("it is closing".to_owned()))?;
        requests.send_timeout(request, self.options.queue_wait_max).map_err(|error| match error {
            SendTimeoutError::Timeout(_) => {
                self.shared.queue_refusals.fetch_add(1, Ordering::Relaxed);
                let (queued, waited) = (self.options.queue_requests_max, self.options.queue_wait_max);
                tracing::warn!(queued, ?waited, "the log's queue is full");
                LogError::NotAccepting(format!("{queued} calls were queued, for {waited:?}; try again later"))
            }
            SendTimeoutError::Disconnected(_) => LogError::NotAccepting(ENDED.to_owned()),
        })
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.requests = None;
        if self.shared.stopped.get().is_some() {
            // A write that is held back would be for as long as there is no room.
            self.tables.end_writes();
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the log's writer panicked");
        }
    }
}

const ENDED: &str = "its writer has ended; open the log again to see what is in it";

impl Shared {
    fn check_accepting(&self) -> Result<(), LogError> {
        match self.stopped.get() {
            None => Ok(()),
            Some(reason) => Err(LogError::NotAccepting(reason.clone())),
        }
    }

    /// From now on nothing is taken. The first reason stays.
    fn stop(&self, error: &LogError) {
        tracing::error!(%error, "a batch could not be written; the log takes nothing more until it is opened again");
        let _ = self.stopped.set(format!("an earlier write failed ({error}); mend the cause, then open the log again"));
    }
}

/// Encodes events, in the thread of the caller.
pub(super) fn encode_events(records: &[NewRecord], bytes_max: usize) -> Result<Vec<EncodedEvent>, LogError> {
    let parts = records.iter().map(|record| (&record.key[..], &record.headers[..], &record.value[..]));
    let encoded = encode_all(parts, bytes_max)?.into_iter().zip(records);
    Ok(encoded
        .map(|(bytes, &NewRecord { partition, append_time_ms, .. })| EncodedEvent { partition, append_time_ms, bytes })
        .collect())
}

type Parts<'a> = (&'a [u8], &'a [(String, Vec<u8>)], &'a [u8]);

fn encode_all<'a>(parts: impl Iterator<Item = Parts<'a>> + Clone, bytes_max: usize) -> Result<Vec<Vec<u8>>, LogError> {
    let bytes = parts.clone().map(|(key, headers, value)| record::encoded_len(key, headers, value)).sum();
    let too_large = LogError::TooLarge { bytes, bytes_max };
    if bytes > bytes_max {
        return Err(too_large);
    }
    let encoded = parts.map(|(key, headers, value)| record::encode(key, headers, value));
    encoded.collect::<Option<_>>().ok_or(too_large)
}

/// Gives events their places and times, and puts them into a batch.
pub(super) fn place_events(
    tables: &Tables,
    batch: &mut Batch,
    partitions: &mut [PartitionState],
    events: Vec<EncodedEvent>,
    now_ms: i64,
) -> Result<Vec<Position>, LogError> {
    let place = |EncodedEvent { partition, append_time_ms, mut bytes }| {
        let state = partitions.get_mut(partition as usize).ok_or(LogError::NoPartition(partition))?;
        let (offset, time_ms) = state.extent_mut(Topic::Events).place(append_time_ms.unwrap_or(now_ms));
        record::set_append_time(&mut bytes, time_ms);
        let position = Position { partition, offset };
        tables.put_record(batch, Topic::Events, position, &bytes)?;
        Ok(position)
    };
    events.into_iter().map(place).collect()
}

impl Thread {
    fn run(mut self) {
        while let Ok(request) = self.requests.recv() {
            let mut group = Group {
                now_ms: self.clock.now_ms(),
                batch: Batch::new(self.options.piece_bytes),
                records: 0,
                bytes: 0,
                changed: BTreeSet::new(),
                answers: Vec::new(),
            };
            let mut next = Some(request);
            while let Some(request) = next {
                self.join(&mut group, request);
                let room = group.records < self.options.batch_records_max && group.bytes < self.options.batch_bytes_max;
                next = if room { self.requests.try_recv().ok() } else { None };
            }
            self.write(group);
        }
    }

    /// Adds a call to the group, or answers it at once if it is refused.
    fn join(&mut self, group: &mut Group, request: Request) {
        let accepting = self.shared.check_accepting();
        match request {
            Request::Append { events, answer } => match accepting.and_then(|()| self.place_events(group, events)) {
                Ok(positions) => group.answers.push(Answer::Append(answer, positions)),
                Err(error) => tell(&answer, Err(error)),
            },
            Request::Acquire { partition, answer } => match accepting.and_then(|()| self.acquire(group, partition)) {
                Ok(acquired) => group.answers.push(Answer::Acquire(answer, acquired)),
                Err(error) => tell(&answer, Err(error)),
            },
            Request::Commit { partition, epoch, outputs, encoded, committed, answer } => {
                let refusal = match accepting {
                    Ok(()) => self.place_commit(group, partition, epoch, (&outputs, encoded), committed),
                    Err(error) => Err(Commit::Aborted(error.to_string())),
                };
                match refusal {
                    Ok(()) => group.answers.push(Answer::Commit(answer)),
                    Err(refusal) => tell(&answer, refusal),
                }
            }
        }
    }

    fn place_events(&mut self, group: &mut Group, events: Vec<EncodedEvent>) -> Result<Vec<Position>, LogError> {
        group.records += events.len();
        group.bytes += events.iter().map(|event| event.bytes.len()).sum::<usize>();
        group.changed.extend(events.iter().map(|event| event.partition));
        place_events(&self.tables, &mut group.batch, &mut self.partitions, events, group.now_ms)
    }

    fn acquire(&mut self, group: &mut Group, partition: u32) -> Result<(Epoch, Committed), LogError> {
        let state = self.partitions.get_mut(partition as usize).ok_or(LogError::NoPartition(partition))?;
        group.changed.insert(partition);
        Ok((state.acquire(), state.committed.clone()))
    }

    fn place_commit(
        &mut self,
        group: &mut Group,
        partition: u32,
        epoch: Epoch,
        (outputs, encoded): (&[Output], Vec<Vec<u8>>),
        committed: Committed,
    ) -> Result<(), Commit> {
        let aborted = |error: LogError| Commit::Aborted(error.to_string());
        let state =
            self.partitions.get_mut(partition as usize).ok_or(LogError::NoPartition(partition)).map_err(aborted)?;
        if let Some(refusal) = state.commit_refusal(epoch, outputs, &committed) {
            tracing::warn!(partition, ?epoch, now = state.epoch, ?refusal, "a commit was refused");
            return Err(refusal);
        }
        group.changed.insert(partition);
        group.records += outputs.len();
        for (output, mut bytes) in outputs.iter().zip(encoded) {
            let (offset, time_ms) = state.extent_mut(output.topic).place(group.now_ms);
            record::set_append_time(&mut bytes, time_ms);
            group.bytes += bytes.len();
            let position = Position { partition, offset };
            self.tables.put_record(&mut group.batch, output.topic, position, &bytes).map_err(aborted)?;
        }
        state.committed = committed;
        Ok(())
    }

    fn write(&mut self, group: Group) {
        let Group { mut batch, records, bytes, changed, answers, .. } = group;
        if answers.is_empty() {
            return;
        }
        let span = tracing::trace_span!("write_batch", records, bytes, calls = answers.len());
        let written = span.in_scope(|| {
            for partition in changed {
                if let Some(state) = self.partitions.get(partition as usize) {
                    self.tables.put_state(&mut batch, partition, state)?;
                }
            }
            self.tables.write(batch)
        });
        match written {
            Ok(()) => {
                self.shared.background_failures.store(self.tables.background_failures(), Ordering::Relaxed);
                self.shared.batches.fetch_add(1, Ordering::Relaxed);
                self.shared.records.fetch_add(records as u64, Ordering::Relaxed);
                self.shared.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                answers.into_iter().for_each(Answer::written);
            }
            Err(error) => {
                self.shared.sync_failures.fetch_add(1, Ordering::Relaxed);
                self.shared.stop(&error);
                answers.into_iter().for_each(|answer| answer.failed(&error));
            }
        }
    }
}

impl Answer {
    fn written(self) {
        match self {
            Answer::Append(answer, positions) => tell(&answer, Ok(positions)),
            Answer::Acquire(answer, acquired) => tell(&answer, Ok(acquired)),
            Answer::Commit(answer) => tell(&answer, Commit::Committed),
        }
    }

    fn failed(self, error: &LogError) {
        let known_later =
            |detail: &dyn Display| format!("{detail}; whether it was written is known once the log is opened again");
        let again = || match error {
            LogError::NoRoom(detail) => LogError::NoRoom(detail.clone()),
            LogError::Io(detail) => LogError::Io(known_later(detail)),
            other => LogError::Io(known_later(other)),
        };
        match self {
            Answer::Append(answer, _) => tell(&answer, Err(again())),
            Answer::Acquire(answer, _) => tell(&answer, Err(again())),
            Answer::Commit(answer) => tell(&answer, Commit::Unknown(again().to_string())),
        }
    }
}

/// Answers a caller. It waits for that, so it can only be gone if it panicked, and then nobody asks.
fn tell<T>(answer: &Sender<T>, with: T) {
    let _ = answer.send(with);
}
