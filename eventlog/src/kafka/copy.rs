//! A new log on Kafka that is filled with the events of another one, at the times at which that took them.
//!
//! While it is filled, `recant.events` takes its writer's times (`message.timestamp.type=CreateTime`), and no process serves
//! such a topic. [`CopyTarget::finish`] gives it the brokers' clock. So a copy that was broken off is never taken for a log.

use rdkafka::{
    admin::{AdminOptions, AlterConfig, ResourceSpecifier},
    error::KafkaError,
};

use super::{
    KafkaLog, REQUEST_TIMEOUT,
    appender::{Appender, Letter},
    client::{create_consumer, failed},
    settings::Settings,
    topics::{self, EventsClock},
};
use crate::{LogError, NewRecord, Topic};

/// A log that is being filled.
pub struct CopyTarget {
    settings: Settings,
    appender: Appender,
}

impl CopyTarget {
    /// Makes the topics, none of which may be there.
    pub fn create(settings: Settings, partitions: u32) -> Result<CopyTarget, LogError> {
        let asker = create_consumer(&settings.reader(), &settings)?;
        topics::refuse_existing(&asker, &settings)?;
        topics::create_missing(&asker, &settings, partitions, EventsClock::Writers)?;
        Ok(CopyTarget { appender: Appender::new(&settings)?, settings })
    }

    /// Appends events at the times that they bring, and gives the offset of each in its partition. A time before 1970 cannot be
    /// told to a broker.
    pub fn append(&self, records: &[NewRecord]) -> Result<Vec<u64>, LogError> {
        let mut letters = Vec::with_capacity(records.len());
        for record in records {
            let time_ms = record.append_time_ms.unwrap_or_default();
            if time_ms < 0 {
                return Err(LogError::NotAccepting(format!(
                    "an event of partition {} was appended at {time_ms} ms, before 1970, and brokers have no such time",
                    record.partition
                )));
            }
            letters.push(Letter {
                topic: self.settings.names.topic(Topic::Events),
                partition: record.partition,
                key: &record.key,
                headers: &record.headers,
                value: Some(&record.value),
                time_ms: Some(time_ms),
            });
        }
        self.appender.send(&letters)
    }

    /// The log as far as it is filled, to be read and compared.
    pub fn read_back(&self) -> Result<KafkaLog, LogError> {
        KafkaLog::open_unfinished(self.settings.clone())
    }

    /// Everything is there: from now on the clock is the brokers', and the log is one to serve.
    pub fn finish(self) -> Result<KafkaLog, LogError> {
        let name = self.settings.names.topic(Topic::Events);
        let asker = create_consumer(&self.settings.reader(), &self.settings)?;
        let replication = topics::replication(&asker, &self.settings)?;
        let all = topics::settings_of_events(EventsClock::Brokers, replication);
        let change = all
            .iter()
            .fold(AlterConfig::new(ResourceSpecifier::Topic(name)), |change, (key, value)| change.set(key, value));
        let failed = |error: KafkaError| failed("giving recant.events the brokers' clock", &error);
        let options = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT));
        let changed = pollster::block_on(topics::admin(&self.settings)?.alter_configs([&change], &options));
        for answer in changed.map_err(failed)? {
            answer.map_err(|(_, code)| LogError::Topic {
                topic: name.to_owned(),
                detail: format!("it cannot be given the brokers' clock: {code}"),
            })?;
        }
        KafkaLog::open(self.settings)
    }
}
