//! What members announce in their topic, read from its beginning and followed from there: the topic is compacted, so that the last
//! announcement of each is there, however old it is.

use std::time::Duration;

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::Message,
    topic_partition_list::Offset,
};

use super::{
    KafkaLog,
    client::{Quiet, create_consumer, failed},
};
use crate::LogError;

/// The topic has one partition: announcements have one order.
const PARTITION: i32 = 0;

/// An announcement, or that there is none any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// Whose.
    pub member: Vec<u8>,
    /// Its bytes; none once the member has left.
    pub announcement: Option<Vec<u8>>,
}

/// Follows the announcements.
pub struct Announcements {
    consumer: BaseConsumer<Quiet>,
}

impl KafkaLog {
    /// All announcements that still count, and those to come.
    pub fn announcements(&self) -> Result<Announcements, LogError> {
        let consumer = create_consumer(&self.settings.reader(), &self.settings)?;
        let mut assignment = TopicPartitionList::with_capacity(1);
        assignment
            .add_partition_offset(self.settings.names.members(), PARTITION, Offset::Beginning)
            .and_then(|()| consumer.assign(&assignment))
            .map_err(|error| failed("following the members", &error))?;
        Ok(Announcements { consumer })
    }
}

impl Announcements {
    /// The next announcement, in their order; none if there is none within this time.
    pub fn next(&self, timeout: Duration) -> Result<Option<Announced>, LogError> {
        match self.consumer.poll(timeout) {
            None | Some(Err(KafkaError::PartitionEOF(_))) => Ok(None),
            Some(Ok(message)) => {
                let member = message.key().unwrap_or_default().to_vec();
                Ok(Some(Announced { member, announcement: message.payload().map(<[u8]>::to_vec) }))
            }
            Some(Err(error)) => Err(failed("following the members", &error)),
        }
    }
}
