//! Membership in the consumer group that shares out the partitions.
//!
//! The group decides who serves what, and nothing else: a member reads its partitions with readers of its own, and what keeps
//! a former owner from publishing is the partition's transactional identity (`publisher.rs`).
//!
//! A turn of the group is taken in two steps: [`Membership::poll`] tells of it, and the group waits until
//! [`Membership::accept`] or [`Membership::release`] answers; so a partition is given up once its last batch is whole.
//!
//! The protocol is the classic one with cooperative-sticky assignment: a partition that stays is not disturbed, and its session
//! time-out is the client's to set, so that the partitions of a process that was killed are elsewhere after 6 s on a broker as it
//! comes. The newer one leaves that to the broker (45 s as it comes), and takes no commit that names no member: with one that
//! does, a rebalance would abort the batches of partitions that stay.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rdkafka::{
    ClientContext, TopicPartitionList,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::KafkaError,
    topic_partition_list::Offset,
    types::RDKafkaRespErr,
};

use super::{
    client::{Quiet, failed, refused},
    settings::Settings,
};
use crate::{LogError, Topic};

/// What the group decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// These partitions are this member's. Answer with [`Membership::accept`].
    Assigned(Vec<u32>),
    /// These are to be given up, once what is under way is done. Answer with [`Membership::release`].
    Revoked(Vec<u32>),
    /// These are others' already. Answer with [`Membership::release`].
    Lost(Vec<u32>),
}

/// A member of the group, until it is dropped.
pub struct Membership {
    consumer: BaseConsumer<Context>,
    turns: Receiver<Turn>,
    topic: String,
}

struct Context {
    quiet: Quiet,
    tell: Sender<Turn>,
    /// Whoever leaves gives everything up at once.
    is_leaving: AtomicBool,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.quiet.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.quiet.error(error, reason);
    }
}

impl ConsumerContext for Context {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if self.is_leaving.load(Ordering::SeqCst) {
            if let Err(error) = consumer.incremental_unassign(list) {
                tracing::debug!(%error, "leaving the group");
            }
            return;
        }
        let partitions = list.elements().iter().filter_map(|element| u32::try_from(element.partition()).ok()).collect();
        let turn = match what {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Turn::Assigned(partitions),
            _ if consumer.assignment_lost() => Turn::Lost(partitions),
            _ => Turn::Revoked(partitions),
        };
        // The receiver lives as long as the consumer does.
        let _ = self.tell.send(turn);
    }
}

impl Membership {
    /// Joins the group, under a name of its own where it has one: a member that comes back under its name within the session
    /// time-out finds its partitions where they were.
    pub fn join(settings: &Settings, static_member: Option<&str>) -> Result<Membership, LogError> {
        // Bounded: the group makes one turn, and waits for the answer to it.
        let (tell, turns) = unbounded();
        let context = Context { quiet: Quiet::new(settings), tell, is_leaving: AtomicBool::new(false) };
        let consumer: BaseConsumer<Context> =
            BaseConsumer::from_config_and_context(&settings.member(static_member), context)
                .map_err(|error| refused(&error, settings))?;
        let topic = settings.names.topic(Topic::Events).to_owned();
        consumer.subscribe(&[&topic]).map_err(|error| failed("joining the group", &error))?;
        Ok(Membership { consumer, turns, topic })
    }

    /// Waits for the group's next turn, at most so long. To be called at least every five minutes (`max.poll.interval.ms`).
    pub fn poll(&self, timeout: Duration) -> Result<Option<Turn>, LogError> {
        if let Ok(turn) = self.turns.try_recv() {
            return Ok(Some(turn));
        }
        match self.consumer.poll(timeout) {
            // A record that was fetched before its partition was paused, or the end of one.
            None | Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => return Err(failed("the group", &error)),
            Some(Err(error)) => tracing::debug!(%error, "the group"),
        }
        Ok(self.turns.try_recv().ok())
    }

    /// Takes partitions. They are read by others than this consumer, so it starts at their ends, and pauses them.
    pub fn accept(&self, partitions: &[u32]) -> Result<(), LogError> {
        let list = self.list(partitions, Offset::End)?;
        self.consumer
            .incremental_assign(&list)
            .and_then(|()| self.consumer.pause(&list))
            .map_err(|error| failed("taking partitions", &error))
    }

    /// Gives partitions up.
    pub fn release(&self, partitions: &[u32]) -> Result<(), LogError> {
        let list = self.list(partitions, Offset::Invalid)?;
        self.consumer.incremental_unassign(&list).map_err(|error| failed("giving up partitions", &error))
    }

    fn list(&self, partitions: &[u32], offset: Offset) -> Result<TopicPartitionList, LogError> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            list.add_partition_offset(&self.topic, *partition as i32, offset)
                .map_err(|error| failed("naming partitions", &error))?;
        }
        Ok(list)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.consumer.context().is_leaving.store(true, Ordering::SeqCst);
        // A turn that was not answered: the group would wait for it, and the consumer for the group.
        for turn in self.turns.try_iter() {
            let answered = match &turn {
                Turn::Assigned(partitions) => self.accept(partitions),
                Turn::Revoked(partitions) | Turn::Lost(partitions) => self.release(partitions),
            };
            if let Err(error) = answered {
                tracing::debug!(%error, "leaving the group");
            }
        }
    }
}
