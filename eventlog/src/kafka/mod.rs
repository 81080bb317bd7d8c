//! The log on Kafka: the topics of `docs/contract.md`, section 12, written and read by many processes.
//!
//! What it promises:
//! - An append that is answered is on every in-sync replica (`acks=all`, idempotent). One that fails may be there all the same,
//!   wholly or in part: append it again, event ids make that safe.
//! - Outputs, position and metadata of a commit are one transaction, and only the last to acquire a partition can commit
//!   (`publisher.rs`). What is not committed, nobody reads (`reader.rs`).
//! - Offsets have gaps: a transaction leaves a marker.
//! - Topics are made with the settings that the log needs, and found otherwise they are refused (`topics.rs`).
//! - A log's name stands in its first events (`origin.rs`), and whoever opens it finds or makes them (`opening.rs`).
//! - Queues are bounded: 16 MiB for a partition that is read, twice 32 MiB for one that is published to (`settings.rs`).
//!
//! All calls block, and are to be made from plain threads. What librdkafka does between them, threads of its own do.

mod appender;
mod client;
mod compacted;
mod copy;
mod limits;
mod members;
mod membership;
mod names;
mod native;
mod opening;
mod origin;
mod producer;
mod publisher;
mod reader;
mod settings;
mod topics;
mod transactions;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    topic_partition_list::Offset,
};
use recant_proto::{
    names as contract,
    position::{Incarnation, Position},
};

use self::{
    appender::{Appender, Letter},
    client::{Quiet, create_consumer, failed},
    producer::{BrokerProducer, metadata_of},
    reader::Reader,
};
pub use self::{
    compacted::KafkaCompactedTopic,
    copy::CopyTarget,
    members::{Announced, Announcements},
    membership::{Membership, Turn},
    names::Names,
    opening::NewLog,
    publisher::{Identity, Publisher},
    settings::{Passthrough, Settings},
    transactions::{After, Failure, Transactions},
};
use crate::{
    AppendLog, Bounds, Commit, Committed, Epoch, LogError, NewRecord, Output, ProcessLog, ReadLimit, ReadLog, Record,
    Topic,
};

/// So long the brokers may take for an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// So often it is looked whether a transaction is decided.
const DECISION_PAUSE: Duration = Duration::from_millis(2);
/// So old the end of a partition may be when it is asked for for measures.
const RECENT: Duration = Duration::from_secs(1);

/// Tells of a step within a call, for those who end processes between steps (`docs/how-to/crashes.md`).
pub(crate) fn step(name: &str, partition: u32) {
    tracing::trace!(target: "recant::step", step = name, partition);
}

/// A topic's partition.
type Place = (Topic, u32);

/// The log, open to read, to append and to process.
pub struct KafkaLog {
    settings: Settings,
    incarnation: Incarnation,
    partitions: u32,
    /// Asks for what is no record: ends, positions, times. Is no member of the group.
    asker: BaseConsumer<Quiet>,
    /// Sees what is not committed, too.
    witness: OnceLock<BaseConsumer<Quiet>>,
    readers: Mutex<HashMap<Place, Arc<Mutex<Reader>>>>,
    recent_ends: Mutex<HashMap<Place, (Instant, u64)>>,
    appender: OnceLock<Appender>,
    owned: Mutex<HashMap<u32, Arc<Owned>>>,
}

/// A partition that was acquired here.
struct Owned {
    epoch: Epoch,
    publisher: Publisher<BrokerProducer>,
}

impl KafkaLog {
    /// What the log is called on the brokers, and how they are reached.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The first event that the log took at this time of its clock or later; the end if there is none.
    pub fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        self.check_partition(partition)?;
        let name = self.settings.names.topic(Topic::Events);
        let mut times = TopicPartitionList::with_capacity(1);
        times
            .add_partition_offset(name, partition as i32, Offset::Offset(log_time_ms.max(0)))
            .map_err(|error| failed("asking for a time", &error))?;
        let found = self
            .asker
            .offsets_for_times(times, REQUEST_TIMEOUT)
            .map_err(|error| failed("asking for a time", &error))?;
        match found.elements().first().map(|element| element.offset()) {
            Some(Offset::Offset(offset)) => Ok(u64::try_from(offset).unwrap_or_default()),
            _ => Ok(self.bounds(Topic::Events, partition)?.end),
        }
    }

    /// Waits until there is a record to read from this offset on, at most so long.
    pub fn wait(&self, topic: Topic, partition: u32, from_offset: u64, timeout: Duration) -> Result<(), LogError> {
        let reader = self.reader(topic, partition)?;
        lock(&reader).wait(from_offset, timeout)
    }

    /// Waits, at most so long, until all that was written to a partition by now is decided, committed or aborted; gives the end.
    pub fn settled_end(&self, topic: Topic, partition: u32, timeout: Duration) -> Result<u64, LogError> {
        self.check_partition(partition)?;
        let name = self.settings.names.topic(topic);
        if self.witness.get().is_none() {
            let witness = create_consumer(&self.settings.witness(), &self.settings)?;
            // Another thread may have been quicker; then this one goes.
            let _ = self.witness.set(witness);
        }
        let witness = self.witness.get().ok_or_else(|| LogError::NotAccepting("there is no consumer".to_owned()))?;
        let written = reader::bounds(witness, name, partition)?.end;
        let begun = Instant::now();
        loop {
            let end = self.bounds(topic, partition)?.end;
            if end >= written {
                return Ok(end);
            }
            if begun.elapsed() > timeout {
                return Err(LogError::Unreachable(format!(
                    "{name} [{partition}]: a transaction has been open for {} s at offset {end}",
                    timeout.as_secs()
                )));
            }
            std::thread::sleep(DECISION_PAUSE);
        }
    }

    /// Puts a member's announcement in the place of its last one, or takes that away.
    pub fn announce(&self, member: &str, announcement: Option<&[u8]>) -> Result<(), LogError> {
        let headers = [(contract::CONTENT_TYPE.to_owned(), contract::JSON.into())];
        let letter = Letter {
            topic: self.settings.names.members(),
            partition: 0,
            key: member.as_bytes(),
            headers: &headers,
            value: announcement,
            time_ms: None,
        };
        self.appender()?.send(&[letter]).map(|_| ())
    }

    /// How long the brokers keep events, in ms, if not for ever: somebody has changed it since the log was opened.
    pub fn retention_of_events_ms(&self) -> Result<Option<u64>, LogError> {
        topics::retention_of_events_ms(&self.settings)
    }

    /// Lets go of a partition: what is open of it ends when someone takes it. Its reader goes, too.
    pub fn let_go(&self, partition: u32) {
        lock(&self.owned).remove(&partition);
        lock(&self.readers).remove(&(Topic::Events, partition));
    }

    fn check_partition(&self, partition: u32) -> Result<(), LogError> {
        if partition < self.partitions { Ok(()) } else { Err(LogError::NoPartition(partition)) }
    }

    /// Takes a partition's identities away from whoever had them, both at the same time: each waits for its broker, half a
    /// second as a rule.
    fn take_identities(&self, partition: u32) -> Result<[Identity<BrokerProducer>; 2], LogError> {
        let no_member = self.asker.group_metadata().map(Arc::new);
        let no_member = no_member.ok_or_else(|| LogError::Setting("the group has no name".to_owned()))?;
        let timeout_ms = limits::transaction_timeout_ms(&self.asker, &self.settings);
        let [a, b] = self.settings.names.transactional_ids(partition);
        let take = |transactional_id: String| {
            let producer =
                BrokerProducer::new(&self.settings, partition, &transactional_id, timeout_ms, no_member.clone())?;
            Identity::take(producer, partition)
        };
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| take(a));
            let b = take(b);
            (a.join().unwrap_or_else(|_| Err(LogError::Io("a thread ended by a panic".to_owned()))), b)
        });
        Ok([a?, b?])
    }

    fn reader(&self, topic: Topic, partition: u32) -> Result<Arc<Mutex<Reader>>, LogError> {
        self.check_partition(partition)?;
        let mut readers = lock(&self.readers);
        if let Some(reader) = readers.get(&(topic, partition)) {
            return Ok(reader.clone());
        }
        let reader = Arc::new(Mutex::new(Reader::new(&self.settings, topic, partition)?));
        readers.insert((topic, partition), reader.clone());
        Ok(reader)
    }

    fn appender(&self) -> Result<&Appender, LogError> {
        if self.appender.get().is_none() {
            let appender = Appender::new(&self.settings)?;
            // Another thread may have been quicker; then this one goes.
            let _ = self.appender.set(appender);
        }
        self.appender.get().ok_or_else(|| LogError::NotAccepting("there is no producer".to_owned()))
    }

    /// The end, if a position is beyond it. What was read here is not, and costs no question.
    fn is_beyond_end(&self, partition: u32, next_offset: u64) -> Result<Option<u64>, LogError> {
        let read_to = lock(&*self.reader(Topic::Events, partition)?).next().unwrap_or_default();
        if next_offset <= read_to {
            return Ok(None);
        }
        let end = self.bounds(Topic::Events, partition)?.end;
        Ok((next_offset > end).then_some(end))
    }

    /// Refuses a partition of which something was published, and no position is known: it has been forgotten.
    fn check_never_processed(&self, partition: u32) -> Result<(), LogError> {
        for topic in [Topic::Changes, Topic::Rejected] {
            // What was aborted takes offsets, too.
            let earliest = self.bounds(topic, partition)?.earliest;
            let one = ReadLimit { records_max: 1, bytes_max: 1 };
            let is_published = !self.read(topic, partition, earliest, one)?.is_empty();
            lock(&self.readers).remove(&(topic, partition));
            if is_published {
                return Err(LogError::PositionLost {
                    group: self.settings.names.group().to_owned(),
                    partition,
                    topic: self.settings.names.topic(topic).to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panicked has left is as it was between two of librdkafka's calls.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for KafkaLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaLog")
            .field("settings", &self.settings)
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

impl ReadLog for KafkaLog {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn bounds(&self, topic: Topic, partition: u32) -> Result<Bounds, LogError> {
        self.check_partition(partition)?;
        let bounds = reader::bounds(&self.asker, self.settings.names.topic(topic), partition)?;
        lock(&self.recent_ends).insert((topic, partition), (Instant::now(), bounds.end));
        Ok(bounds)
    }

    fn recent_end(&self, topic: Topic, partition: u32) -> Result<u64, LogError> {
        match lock(&self.recent_ends).get(&(topic, partition)) {
            Some((asked_at, end)) if asked_at.elapsed() < RECENT => return Ok(*end),
            _ => {}
        }
        Ok(self.bounds(topic, partition)?.end)
    }

    fn read(&self, topic: Topic, partition: u32, from_offset: u64, limit: ReadLimit) -> Result<Vec<Record>, LogError> {
        let reader = self.reader(topic, partition)?;
        lock(&reader).read(from_offset, limit)
    }

    fn committed(&self, partition: u32) -> Result<Committed, LogError> {
        self.check_partition(partition)?;
        let mut asked = TopicPartitionList::with_capacity(1);
        asked.add_partition(self.settings.names.topic(Topic::Events), partition as i32);
        let found = self
            .asker
            .committed_offsets(asked, REQUEST_TIMEOUT)
            .map_err(|error| failed("asking for the committed position", &error))?;
        let Some(element) = found.elements().into_iter().next() else { return Ok(Committed::default()) };
        element.error().map_err(|error| failed("asking for the committed position", &error))?;
        match element.offset() {
            Offset::Offset(offset) => Ok(Committed {
                next_offset: u64::try_from(offset).unwrap_or_default(),
                metadata: metadata_of(element.metadata())?,
            }),
            _ => Ok(Committed::default()),
        }
    }

    fn refresh(&self) -> Result<(), LogError> {
        Ok(())
    }
}

impl AppendLog for KafkaLog {
    fn append(&self, records: Vec<NewRecord>) -> Result<Vec<Position>, LogError> {
        let topic = self.settings.names.topic(Topic::Events);
        let mut letters = Vec::with_capacity(records.len());
        for record in &records {
            self.check_partition(record.partition)?;
            if record.append_time_ms.is_some() {
                return Err(LogError::NotAccepting("the clock of a log on Kafka is the brokers'".to_owned()));
            }
            let bytes = record.key.len() + record.value.len();
            if bytes > topics::EVENT_RECORD_BYTES_MAX {
                return Err(LogError::TooLarge { bytes, bytes_max: topics::EVENT_RECORD_BYTES_MAX });
            }
            letters.push(Letter {
                topic,
                partition: record.partition,
                key: &record.key,
                headers: &record.headers,
                value: Some(&record.value),
                time_ms: None,
            });
        }
        let offsets = self.appender()?.send(&letters)?;
        let position = |(record, offset): (&NewRecord, u64)| Position { partition: record.partition, offset };
        Ok(records.iter().zip(offsets).map(position).collect())
    }
}

impl ProcessLog for KafkaLog {
    fn acquire(&self, partition: u32) -> Result<(Epoch, Committed), LogError> {
        self.check_partition(partition)?;
        step("acquiring", partition);
        let before = lock(&self.owned).remove(&partition);
        let epoch = Epoch(before.map_or(0, |owned| owned.epoch.0) + 1);
        let identities = self.take_identities(partition)?;
        step("fenced", partition);
        // Read after the one before was fenced: nobody moves it any more.
        let committed = self.committed(partition)?;
        if committed == Committed::default() {
            self.check_never_processed(partition)?;
        }
        let owned = Owned { epoch, publisher: Publisher::new(identities, &committed) };
        lock(&self.owned).insert(partition, Arc::new(owned));
        tracing::info!(partition, next_offset = committed.next_offset, "acquired a partition");
        step("acquired", partition);
        Ok((epoch, committed))
    }

    fn commit(&self, partition: u32, epoch: Epoch, outputs: Vec<Output>, committed: Committed) -> Commit {
        if let Err(error) = self.check_partition(partition) {
            return Commit::Aborted(error.to_string());
        }
        let owned = lock(&self.owned).get(&partition).cloned();
        let Some(owned) = owned.filter(|owned| owned.epoch == epoch) else { return Commit::Fenced };
        match self.is_beyond_end(partition, committed.next_offset) {
            Ok(None) => {}
            Ok(Some(end)) => {
                let next = committed.next_offset;
                return Commit::Aborted(format!("the position {next} is beyond the end of the events, {end}"));
            }
            Err(error) => return Commit::Aborted(error.to_string()),
        }
        owned.publisher.publish(&outputs, &committed)
    }
}
