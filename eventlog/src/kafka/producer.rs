//! A transactional producer of librdkafka, for one partition.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rdkafka::{
    TopicPartitionList,
    consumer::ConsumerGroupMetadata,
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, Producer, ThreadedProducer},
    topic_partition_list::Offset,
};

use super::{
    client::{Quiet, create_transactional},
    native,
    settings::Settings,
    transactions::{After, Failure, Transactions},
};
use crate::{Committed, LogError, Output, Topic};

/// One attempt of a call that may be made again when it has timed out.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a full queue is looked at, and how often at most before it is said to be full.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(1);
const QUEUE_FULL_LOOKS_MAX: u32 = 5_000;

pub(super) struct BrokerProducer {
    producer: ThreadedProducer<Quiet>,
    settings: Settings,
    partition: u32,
    /// Of the group, without a member: so that a rebalance aborts no batch of a partition that stays where it is.
    no_member: Arc<ConsumerGroupMetadata>,
    made_at: Instant,
}

impl BrokerProducer {
    pub(super) fn new(
        settings: &Settings,
        partition: u32,
        transactional_id: &str,
        timeout_ms: u32,
        no_member: Arc<ConsumerGroupMetadata>,
    ) -> Result<BrokerProducer, LogError> {
        let producer = create_transactional(&settings.publisher(transactional_id, timeout_ms), settings)?;
        Ok(BrokerProducer { producer, settings: settings.clone(), partition, no_member, made_at: Instant::now() })
    }

    fn position(&self, committed: &Committed) -> Result<TopicPartitionList, KafkaError> {
        let mut position = TopicPartitionList::with_capacity(1);
        let mut entry = position.add_partition(self.settings.names.topic(Topic::Events), self.partition as i32);
        entry.set_offset(Offset::Offset(i64::try_from(committed.next_offset).unwrap_or(i64::MAX)))?;
        entry.set_metadata(URL_SAFE_NO_PAD.encode(&committed.metadata));
        Ok(position)
    }

    fn failure(&self, failure: native::Failure) -> Failure {
        if failure.is_retriable {
            return Failure { after: After::Again, text: failure.text };
        }
        use RDKafkaErrorCode as Code;
        // After a fatal error every call fails with that code, and the first cause is kept aside.
        let (code, text) = self.producer.client().fatal_error().unwrap_or((failure.code, failure.text));
        let after = match code {
            Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => After::Fenced,
            _ if failure.is_fatal || failure.code == Code::Fatal => After::Dead,
            _ if failure.requires_abort => After::Abort,
            _ => After::Dead,
        };
        Failure { after, text }
    }

    fn answer(&self, answer: Result<(), KafkaError>) -> Result<(), Failure> {
        answer.map_err(|error| self.failure(error.into()))
    }
}

impl Transactions for BrokerProducer {
    fn initialise(&self) -> Result<(), Failure> {
        self.answer(self.producer.init_transactions(ATTEMPT_TIMEOUT))
    }

    fn begin(&self) -> Result<(), Failure> {
        self.answer(self.producer.begin_transaction())
    }

    fn send(&self, output: &Output) -> Result<(), Failure> {
        let headers = output
            .headers
            .iter()
            .fold(OwnedHeaders::new_with_capacity(output.headers.len()), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(value) })
            });
        let mut record = BaseRecord::to(self.settings.names.topic(output.topic))
            .partition(self.partition as i32)
            .key(&output.key)
            .payload(&output.value)
            .headers(headers);
        for _ in 0..QUEUE_FULL_LOOKS_MAX {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    std::thread::sleep(QUEUE_FULL_PAUSE);
                }
                Err((error, _)) => return Err(self.failure(error.into())),
            }
        }
        Err(Failure { after: After::Again, text: "the producer's queue is full".to_owned() })
    }

    fn send_position(&self, committed: &Committed) -> Result<(), Failure> {
        let position = self
            .position(committed)
            .map_err(|error| Failure { after: After::Abort, text: format!("naming the position: {error}") })?;
        self.answer(self.producer.send_offsets_to_transaction(&position, &self.no_member, ATTEMPT_TIMEOUT))
    }

    fn commit(&self) -> Result<(), Failure> {
        native::commit_transaction(&self.producer, ATTEMPT_TIMEOUT).map_err(|failure| self.failure(failure))
    }

    fn abort(&self) -> Result<(), Failure> {
        self.answer(self.producer.abort_transaction(ATTEMPT_TIMEOUT))
    }

    fn elapsed(&self) -> Duration {
        self.made_at.elapsed()
    }
}

/// What stands beside a committed offset.
pub(super) fn metadata_of(text: &str) -> Result<Vec<u8>, LogError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|error| {
        LogError::Format(format!("what stands beside the committed offset is not recant's ({error}): {text:?}"))
    })
}
