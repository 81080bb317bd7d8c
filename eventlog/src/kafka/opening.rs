//! Opens a log on Kafka, and makes what is not there of it: topics, and the first event of each partition.

use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;
use recant_proto::position::Incarnation;

use super::{
    KafkaLog,
    client::{Quiet, create_consumer},
    origin,
    settings::Settings,
    topics::{self, EventsClock},
};
use crate::{AppendLog as _, LogError, NewRecord};

/// So long another process that has just made the topics is given to write the first event.
const CREATOR_PATIENCE: Duration = Duration::from_secs(5);

/// What a log that does not exist yet is to be.
pub struct NewLog<'a> {
    /// Its name, for ever.
    pub incarnation: Incarnation,
    /// How many partitions its topics have, where they are not there yet.
    pub partitions: u32,
    /// The first event of a partition: of which log, of how many partitions, and of which.
    pub first_event: &'a dyn Fn(Incarnation, u32, u32) -> NewRecord,
}

impl KafkaLog {
    /// Opens the log, and makes what is not there of it.
    pub fn open_or_create(settings: Settings, new: &NewLog<'_>) -> Result<KafkaLog, LogError> {
        let asker = create_consumer(&settings.reader(), &settings)?;
        let made_now = topics::create_missing(&asker, &settings, new.partitions, EventsClock::Brokers)?;
        let mut log = KafkaLog::over(settings, asker)?;
        log.take_name(new, if made_now { Duration::ZERO } else { CREATOR_PATIENCE })?;
        let all: Vec<u32> = (0..log.partitions).collect();
        let found = origin::find(&log.settings, &all)?;
        for partition in all.iter().filter(|partition| !found.contains_key(partition)) {
            log.append(vec![(new.first_event)(log.incarnation, log.partitions, *partition)])?;
        }
        origin::check(&log.settings, &found, log.partitions)?;
        tracing::info!(incarnation = %log.incarnation, partitions = log.partitions, "opened the log on Kafka");
        Ok(log)
    }

    /// Opens a log that is there.
    pub fn open(settings: Settings) -> Result<KafkaLog, LogError> {
        let asker = create_consumer(&settings.reader(), &settings)?;
        let mut log = KafkaLog::over(settings, asker)?;
        let found = origin::find(&log.settings, &[0])?;
        origin::check(&log.settings, &found, log.partitions)?;
        log.incarnation = found.get(&0).map_or_else(|| Err(origin::absent(&log.settings)), origin::incarnation_of)?;
        Ok(log)
    }

    /// Opens a log to read that is still being filled (`copy.rs`).
    pub(super) fn open_unfinished(settings: Settings) -> Result<KafkaLog, LogError> {
        let asker = create_consumer(&settings.reader(), &settings)?;
        let partitions = topics::count_partitions(&asker, &settings)?;
        let mut log = KafkaLog::with(settings, asker, partitions);
        let found = origin::find(&log.settings, &[0])?;
        log.incarnation = found.get(&0).map_or_else(|| Err(origin::absent(&log.settings)), origin::incarnation_of)?;
        Ok(log)
    }

    fn over(settings: Settings, asker: BaseConsumer<Quiet>) -> Result<KafkaLog, LogError> {
        let partitions = topics::check(&asker, &settings)?;
        Ok(KafkaLog::with(settings, asker, partitions))
    }

    fn with(settings: Settings, asker: BaseConsumer<Quiet>, partitions: u32) -> KafkaLog {
        KafkaLog {
            settings,
            incarnation: Incarnation([0; 16]),
            partitions,
            asker,
            witness: Default::default(),
            readers: Default::default(),
            recent_ends: Default::default(),
            appender: Default::default(),
            owned: Default::default(),
        }
    }

    /// Reads the log's name, and writes it if nobody does within this time.
    fn take_name(&mut self, new: &NewLog<'_>, patience: Duration) -> Result<(), LogError> {
        let begun = Instant::now();
        let mut has_written = false;
        loop {
            if let Some(created) = origin::find(&self.settings, &[0])?.get(&0) {
                // Not ours, if another process was quicker.
                self.incarnation = origin::incarnation_of(created)?;
                return Ok(());
            }
            if has_written {
                return Err(origin::absent(&self.settings));
            }
            if begun.elapsed() >= patience {
                self.append(vec![(new.first_event)(new.incarnation, self.partitions, 0)])?;
                has_written = true;
            } else {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}
