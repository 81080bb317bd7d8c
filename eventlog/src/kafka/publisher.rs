//! Publishes what a partition's events cause, together with the position behind them, in transactions.
//!
//! Each partition has transactional identities of its own. Whoever takes the partition initialises them first, which ends what its
//! former owner had under way and fences it, and only then reads the committed position: from then on that position moves by
//! the new owner's commits alone. The group's generation is no part of it: a commit names no member, so that a rebalance aborts no
//! batch of a partition that stays where it is. (Brokers take that from groups of the classic protocol alone.)
//!
//! There are two identities, used by turns. A commit is answered when it is certain, and the broker goes on writing its
//! markers; the next transaction of the same identity would be held up by that, by 20 ms each (`rdkafka_txnmgr.c`).
//!
//! The position is the group's offset of the partition in `recant.events`; what is committed beside it stands in the offset's
//! metadata, as base64url.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
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
    native::{self, Failure},
    settings::Settings,
    step,
};
use crate::{Commit, Committed, LogError, Output, Topic};

/// One attempt of a call that is made again when it has timed out.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// So long the same call is made again before it is given up. What then is open is found out by whoever takes the partition.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a full queue is looked at.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(1);

/// A partition's identities.
pub(super) struct Publisher {
    identities: [Identity; 2],
    turn: AtomicUsize,
}

impl Publisher {
    /// Takes the partition's identities away from whoever had them.
    pub(super) fn take(settings: &Settings, partition: u32) -> Result<Publisher, LogError> {
        let [a, b] = settings.names.transactional_ids(partition);
        // Each waits for its broker, half a second as a rule.
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| Identity::take(settings, partition, &a));
            let b = Identity::take(settings, partition, &b);
            (a.join().unwrap_or_else(|_| Err(LogError::Io("a thread ended by a panic".to_owned()))), b)
        });
        Ok(Publisher { identities: [a?, b?], turn: AtomicUsize::new(0) })
    }

    /// Publishes outputs and position, whole or not at all.
    pub(super) fn publish(
        &self,
        no_member: &ConsumerGroupMetadata,
        outputs: &[Output],
        committed: &Committed,
    ) -> Commit {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.identities.len();
        self.identities[turn].publish(no_member, outputs, committed)
    }
}

/// One transactional producer.
struct Identity {
    producer: ThreadedProducer<Quiet>,
    settings: Settings,
    partition: u32,
}

/// Why a transaction did not come to its end.
enum Refused {
    /// It can be aborted, and the producer goes on.
    Abort(String),
    /// The producer is of no further use, and has not committed.
    Dead(String),
    /// Another has the partition.
    Fenced,
    /// No answer came.
    Unanswered(String),
}

impl Identity {
    fn take(settings: &Settings, partition: u32, transactional_id: &str) -> Result<Identity, LogError> {
        let producer = create_transactional(&settings.publisher(transactional_id), settings)?;
        let identity = Identity { producer, settings: settings.clone(), partition };
        let initialise = || identity.producer.init_transactions(ATTEMPT_TIMEOUT).map_err(Failure::from);
        match identity.insist(initialise) {
            Ok(()) => Ok(identity),
            Err(Refused::Fenced) => {
                Err(LogError::NotAccepting(format!("another process is taking partition {partition} at this moment")))
            }
            Err(Refused::Unanswered(detail)) => {
                Err(LogError::Unreachable(format!("taking partition {partition}: {detail}")))
            }
            Err(Refused::Abort(detail) | Refused::Dead(detail)) => {
                Err(LogError::Io(format!("taking partition {partition}: {detail}")))
            }
        }
    }

    fn publish(&self, no_member: &ConsumerGroupMetadata, outputs: &[Output], committed: &Committed) -> Commit {
        match self.transact(no_member, outputs, committed) {
            Ok(()) => Commit::Committed,
            Err(Refused::Abort(detail)) => self.abort(detail),
            Err(refused) => answer(refused),
        }
    }

    fn transact(
        &self,
        no_member: &ConsumerGroupMetadata,
        outputs: &[Output],
        committed: &Committed,
    ) -> Result<(), Refused> {
        step("transaction_begins", self.partition);
        self.insist(|| self.producer.begin_transaction().map_err(Failure::from))?;
        step("transaction_begun", self.partition);
        for output in outputs {
            self.send(output)?;
            step("output_sent", self.partition);
        }
        let position = self.position(committed).map_err(|error| Refused::Abort(error.to_string()))?;
        step("outputs_sent", self.partition);
        self.insist(|| {
            self.producer.send_offsets_to_transaction(&position, no_member, ATTEMPT_TIMEOUT).map_err(Failure::from)
        })?;
        step("position_sent", self.partition);
        // Begun, a commit can only be asked for again: it happens once.
        self.insist(|| native::commit_transaction(&self.producer, ATTEMPT_TIMEOUT))?;
        step("transaction_committed", self.partition);
        Ok(())
    }

    fn send(&self, output: &Output) -> Result<(), Refused> {
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
        let begun = Instant::now();
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if begun.elapsed() < PATIENCE =>
                {
                    record = back;
                    std::thread::sleep(QUEUE_FULL_PAUSE);
                }
                Err((error, _)) => return Err(self.refusal(error.into())),
            }
        }
    }

    fn position(&self, committed: &Committed) -> Result<TopicPartitionList, KafkaError> {
        let mut position = TopicPartitionList::with_capacity(1);
        let mut entry = position.add_partition(self.settings.names.topic(Topic::Events), self.partition as i32);
        entry.set_offset(Offset::Offset(i64::try_from(committed.next_offset).unwrap_or(i64::MAX)))?;
        entry.set_metadata(URL_SAFE_NO_PAD.encode(&committed.metadata));
        Ok(position)
    }

    fn abort(&self, detail: String) -> Commit {
        match self.insist(|| self.producer.abort_transaction(ATTEMPT_TIMEOUT).map_err(Failure::from)) {
            Ok(()) => Commit::Aborted(detail),
            Err(refused) => answer(refused),
        }
    }

    /// Makes a call again while it may be, and has not been answered.
    fn insist(&self, call: impl Fn() -> Result<(), Failure>) -> Result<(), Refused> {
        let begun = Instant::now();
        loop {
            match call() {
                Ok(()) => return Ok(()),
                Err(failure) if failure.is_retriable && begun.elapsed() < PATIENCE => {
                    tracing::debug!(partition = self.partition, failure = failure.text, "asking again");
                }
                Err(failure) if failure.is_retriable => return Err(Refused::Unanswered(failure.text)),
                Err(failure) => return Err(self.refusal(failure)),
            }
        }
    }

    fn refusal(&self, failure: Failure) -> Refused {
        use RDKafkaErrorCode as Code;
        // After a fatal error every call fails with that code, and the first cause is kept aside.
        let (code, text) = self.producer.client().fatal_error().unwrap_or((failure.code, failure.text));
        match code {
            Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => Refused::Fenced,
            _ if failure.is_fatal || failure.code == Code::Fatal => Refused::Dead(text),
            _ if failure.requires_abort => Refused::Abort(text),
            _ => Refused::Dead(text),
        }
    }
}

fn answer(refused: Refused) -> Commit {
    match refused {
        Refused::Fenced => Commit::Fenced,
        Refused::Abort(detail) | Refused::Dead(detail) | Refused::Unanswered(detail) => Commit::Unknown(detail),
    }
}

/// What stands beside a committed offset.
pub(super) fn metadata_of(text: &str) -> Result<Vec<u8>, LogError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|error| {
        LogError::Format(format!("what stands beside the committed offset is not recant's ({error}): {text:?}"))
    })
}
