//! The first event of each partition, which says of which log it is.
//!
//! Whoever finds none in partition 0 writes one, and whichever comes first in the log is its name. Each further partition gets its
//! own after that, with the same name; two processes at once write the same bytes, which count once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::Message,
    topic_partition_list::Offset,
};
use recant_proto::{
    id::CONTROL_SPACE,
    names as contract,
    position::Incarnation,
    v1::{LogCreated, event::Body},
    wire,
};

use super::{
    client::{Quiet, create_consumer, failed},
    native,
    settings::Settings,
};
use crate::{LogError, Topic};

/// It is among the first so many records of a partition: agents may have been quicker than whoever creates the log.
const RECORDS_MAX: usize = 10_000;
/// So long the brokers may take to show all of them.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the log says of itself in these partitions, as far as it does.
pub(super) fn find(settings: &Settings, partitions: &[u32]) -> Result<BTreeMap<u32, LogCreated>, LogError> {
    let consumer = create_consumer(&settings.reader(), settings)?;
    let name = settings.names.topic(Topic::Events);
    let failed = |error: KafkaError| failed(&format!("reading {name}"), &error);
    let mut all = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        all.add_partition_offset(name, *partition as i32, Offset::Beginning).map_err(failed)?;
    }
    consumer.assign(&all).map_err(failed)?;
    let mut found = BTreeMap::new();
    let mut open: BTreeSet<u32> = partitions.iter().copied().collect();
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    let begun = Instant::now();
    while !open.is_empty() {
        let partition = match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let partition = message.partition() as u32;
                if let Some(created) = log_created(&message) {
                    found.entry(partition).or_insert(created);
                }
                let seen = seen.entry(partition).or_default();
                *seen += 1;
                (found.contains_key(&partition) || *seen >= RECORDS_MAX).then_some(partition)
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => Some(partition as u32),
            Some(Err(error)) => {
                tracing::debug!(%error, "reading the first events");
                None
            }
            None => None,
        };
        if let Some(partition) = partition.filter(|partition| open.remove(partition)) {
            stop_reading(&consumer, name, partition).map_err(failed)?;
        }
        if begun.elapsed() > PATIENCE {
            return Err(LogError::Unreachable(format!(
                "{name}: the first records did not come in {} s",
                PATIENCE.as_secs()
            )));
        }
    }
    Ok(found)
}

fn stop_reading(consumer: &BaseConsumer<Quiet>, name: &str, partition: u32) -> Result<(), KafkaError> {
    let mut done = TopicPartitionList::with_capacity(1);
    done.add_partition(name, partition as i32);
    consumer.incremental_unassign(&done)
}

/// Which log an event names.
pub(super) fn incarnation_of(created: &LogCreated) -> Result<Incarnation, LogError> {
    created.incarnation.parse().map_err(|error| LogError::Format(format!("the log's first event: {error}")))
}

/// Whether all partitions are of one log, and as many as when it was created.
pub(super) fn check(settings: &Settings, found: &BTreeMap<u32, LogCreated>, partitions: u32) -> Result<(), LogError> {
    let topic = settings.names.topic(Topic::Events);
    let refuse = |detail: String| Err(LogError::Topic { topic: topic.to_owned(), detail });
    let Some((first, of_first)) = found.first_key_value() else { return Ok(()) };
    for (partition, created) in found {
        if created.incarnation != of_first.incarnation {
            return refuse(format!(
                "partition {first} is of the log {}, and partition {partition} of the log {}; it was put together from two. Restore the topic, or name another --instance",
                of_first.incarnation, created.incarnation
            ));
        }
        if created.partitions != partitions {
            return refuse(format!(
                "the log was created with {} partitions, and the topic has {partitions}: spaces are no longer where their keys lead. Put a topic with {} partitions in its place, and copy each record into the partition where it was (docs/how-to/kafka.md)",
                created.partitions, created.partitions
            ));
        }
    }
    Ok(())
}

/// What there is to do where the log has no name.
pub(super) fn absent(settings: &Settings) -> LogError {
    LogError::Topic {
        topic: settings.names.topic(Topic::Events).to_owned(),
        detail: format!(
            "its first {RECORDS_MAX} records do not say which log it is; `recant serve` writes that into a topic that is new"
        ),
    }
}

fn log_created(message: &rdkafka::message::BorrowedMessage<'_>) -> Option<LogCreated> {
    if message.key() != Some(CONTROL_SPACE.as_bytes()) {
        return None;
    }
    let headers = native::headers(message);
    let content_type = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(contract::CONTENT_TYPE));
    let content_type = content_type.and_then(|(_, value)| std::str::from_utf8(value).ok());
    match wire::decode(message.payload()?, content_type).ok()?.event.body? {
        Body::LogCreated(created) => Some(created),
        _ => None,
    }
}
