//! The compacted topic on Kafka, with the log's partitions, settings and fencing.
//!
//! Each partition has a transactional identity of its own. Whoever takes it initialises that first, which fences the one before and ends
//! what it had under way, and only then reads what stands: nobody else writes from then on. A write is one transaction.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rdkafka::{
    TopicPartitionList,
    admin::{AdminOptions, NewTopic, TopicReplication},
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
    message::Message,
    producer::{BaseRecord, Producer, ThreadedProducer},
    topic_partition_list::Offset,
};

use super::{
    REQUEST_TIMEOUT,
    client::{Quiet, create_consumer, create_transactional, failed},
    lock, native, reader,
    settings::Settings,
    topics,
};
use crate::{
    LogError,
    compacted::{Change, CompactedTopic, Standing, check_size},
};

/// So long a partition may take to be read whole.
const READ_PATIENCE: Duration = Duration::from_secs(60);
/// So long a call of a transaction may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What one writes is small, and what died while writing holds up its successor's readers for so long at most.
const TRANSACTION_TIMEOUT_MS: u32 = 60_000;

type Writer = ThreadedProducer<Quiet>;

/// The topic.
pub struct KafkaCompactedTopic {
    settings: Settings,
    name: String,
    partitions: u32,
    asker: BaseConsumer<Quiet>,
    taken: Mutex<HashMap<u32, Arc<Mutex<Writer>>>>,
}

impl KafkaCompactedTopic {
    /// Opens it, with as many partitions as the log has; makes it if it is not there.
    pub fn open(settings: Settings, name: String, partitions: u32) -> Result<KafkaCompactedTopic, LogError> {
        let asker = create_consumer(&settings.reader(), &settings)?;
        create_if_missing(&asker, &settings, &name, partitions)?;
        let topic = KafkaCompactedTopic { settings, name, partitions, asker, taken: Mutex::default() };
        topic.check_partitions()?;
        Ok(topic)
    }

    fn check_partitions(&self) -> Result<(), LogError> {
        let begun = Instant::now();
        loop {
            let metadata = self.asker.fetch_metadata(Some(&self.name), REQUEST_TIMEOUT);
            let metadata = metadata.map_err(|error| failed(&format!("asking for {}", self.name), &error))?;
            match metadata.topics().first().map_or(0, |topic| topic.partitions().len()) {
                // The brokers show a new topic some moments after they made it.
                0 if begun.elapsed() < REQUEST_TIMEOUT => std::thread::sleep(Duration::from_millis(100)),
                found if found == self.partitions as usize => return Ok(()),
                found => {
                    let detail = format!("it has {found} partitions, and the log has {}", self.partitions);
                    return Err(LogError::Topic { topic: self.name.clone(), detail });
                }
            }
        }
    }

    fn check_partition(&self, partition: u32) -> Result<(), LogError> {
        if partition < self.partitions { Ok(()) } else { Err(LogError::NoPartition(partition)) }
    }

    fn read_all(&self, partition: u32) -> Result<Vec<Standing>, LogError> {
        let failed = |error: KafkaError| failed(&format!("reading {} [{partition}]", self.name), &error);
        let consumer = create_consumer(&self.settings.reader(), &self.settings)?;
        let mut assignment = TopicPartitionList::with_capacity(1);
        assignment.add_partition_offset(&self.name, partition as i32, Offset::Beginning).map_err(failed)?;
        consumer.assign(&assignment).map_err(failed)?;
        let mut standing: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let begun = Instant::now();
        loop {
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    let key = message.key().unwrap_or_default().to_vec();
                    match message.payload() {
                        Some(value) => drop(standing.insert(key, value.to_vec())),
                        None => drop(standing.remove(&key)),
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => break,
                Some(Err(error)) => tracing::debug!(topic = self.name, partition, %error, "reading goes on"),
                None => {}
            }
            if begun.elapsed() > READ_PATIENCE {
                let waited_s = READ_PATIENCE.as_secs();
                return Err(LogError::Unreachable(format!("{} [{partition}]: not read in {waited_s} s", self.name)));
            }
        }
        Ok(standing.into_iter().map(|(key, value)| Standing { key, value }).collect())
    }

    fn transact(&self, writer: &Writer, partition: u32, changes: &[Change]) -> Result<(), native::Failure> {
        writer.begin_transaction()?;
        for Change { key, value } in changes {
            let mut record = BaseRecord::<[u8], [u8]>::to(&self.name).partition(partition as i32).key(key);
            record.payload = value.as_deref();
            writer.send(record).map_err(|(error, _)| error)?;
        }
        native::commit_transaction(writer, CALL_TIMEOUT)
    }

    /// What a failure means, once the writer is given up: what was under way is ended by whoever takes the partition next.
    fn given_up(&self, partition: u32, failure: &native::Failure) -> LogError {
        use RDKafkaErrorCode as Code;
        self.let_go(partition);
        match failure.code {
            Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch | Code::Fatal => {
                LogError::Taken(partition)
            }
            _ => LogError::Unreachable(format!("writing to {} [{partition}]: {}", self.name, failure.text)),
        }
    }
}

fn create_if_missing(
    asker: &BaseConsumer<Quiet>,
    settings: &Settings,
    name: &str,
    partitions: u32,
) -> Result<(), LogError> {
    let replication = topics::replication(asker, settings)?;
    let topic = NewTopic::new(name, partitions as i32, TopicReplication::Fixed(replication as i32))
        .set("cleanup.policy", "compact")
        .set("min.insync.replicas", topics::in_sync(replication))
        .set("unclean.leader.election.enable", "false");
    let options =
        AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT)).operation_timeout(Some(Duration::from_secs(5)));
    let created = pollster::block_on(topics::admin(settings)?.create_topics([&topic], &options));
    for result in created.map_err(|error| failed("creating a topic", &error))? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((topic, code)) => {
                let detail =
                    format!("it cannot be created: {code}; create it, compacted, with {partitions} partitions");
                return Err(LogError::Topic { topic, detail });
            }
        }
    }
    Ok(())
}

impl CompactedTopic for KafkaCompactedTopic {
    fn may_hold_any(&self, partition: u32) -> Result<bool, LogError> {
        self.check_partition(partition)?;
        Ok(reader::bounds(&self.asker, &self.name, partition)?.end > 0)
    }

    fn take(&self, partition: u32) -> Result<Vec<Standing>, LogError> {
        self.check_partition(partition)?;
        let identity = format!("{}-{partition}", self.name);
        let writer = create_transactional(&self.settings.publisher(&identity, TRANSACTION_TIMEOUT_MS), &self.settings)?;
        writer
            .init_transactions(CALL_TIMEOUT)
            .map_err(|error| failed(&format!("taking {} [{partition}]", self.name), &error))?;
        let standing = self.read_all(partition)?;
        lock(&self.taken).insert(partition, Arc::new(Mutex::new(writer)));
        Ok(standing)
    }

    fn write(&self, partition: u32, changes: Vec<Change>) -> Result<(), LogError> {
        self.check_partition(partition)?;
        check_size(&changes)?;
        let writer = lock(&self.taken).get(&partition).cloned().ok_or(LogError::Taken(partition))?;
        let written = self.transact(&lock(&writer), partition, &changes);
        written.map_err(|failure| self.given_up(partition, &failure))
    }

    fn let_go(&self, partition: u32) {
        lock(&self.taken).remove(&partition);
    }
}
