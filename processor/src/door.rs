//! Appends to a log on Kafka that other processes serve, and learns what became of it.
//!
//! An event's fate is known once the position that is committed for its partition has passed it, and every transaction that was
//! under way then is decided: what was rejected stands in `recant.rejected`, what it changed in `recant.changes`. An event that was
//! applied before and one that is applied now cannot be told apart without the state; both are in force, and count as accepted.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use recant_eventlog::{AppendLog, LogError, NewRecord, ReadLimit, ReadLog, Record, Topic, kafka::KafkaLog};
use recant_projections::fold::Fate;
use recant_proto::{
    names,
    position::Position,
    reject::{Code, Violation},
    v1::{Change, Rejection},
};

use crate::{signer::Signer, standalone::NewEvent};

/// So often the committed position is asked for: soon at first, since a lone event takes some milliseconds.
const ASK_MIN: Duration = Duration::from_millis(2);
const ASK_MAX: Duration = Duration::from_millis(50);

const READ: ReadLimit = ReadLimit { records_max: 10_000, bytes_max: 32 << 20 };

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Nobody has processed it.
    #[error(
        "the event at {position} was appended, and nobody has processed it in {} s: is a `recant serve` running? Its fate is not known yet; appending the same event again is safe, and asks again",
        patience.as_secs()
    )]
    FateUnknown {
        /// The first one.
        position: Position,
        /// So long it was waited.
        patience: Duration,
    },
    /// A record of ours cannot be read.
    #[error("what was published at {topic}, offset {offset}, cannot be read: {detail}")]
    Unreadable {
        /// The topic.
        topic: &'static str,
        /// Where in it.
        offset: u64,
        /// Why.
        detail: String,
    },
}

/// A door to a log.
pub struct Door {
    log: KafkaLog,
    patience: Duration,
    signer: Option<Arc<Signer>>,
}

/// What was appended, and where what it causes will stand.
pub struct Appended {
    /// Where each event lies.
    pub positions: Vec<Position>,
    /// For each partition the ends of changes and rejections before.
    ends_before: BTreeMap<u32, (u64, u64)>,
}

impl Door {
    /// To a log; a fate is waited for at most so long.
    pub fn new(log: KafkaLog, patience: Duration) -> Door {
        Door { log, patience, signer: None }
    }

    /// The same, signing what it appends where that is needed.
    pub fn signing(self, signer: Option<Arc<Signer>>) -> Door {
        Door { signer, ..self }
    }

    /// Appends events. When it returns they are on every in-sync replica.
    pub fn append(&self, events: Vec<NewEvent>) -> Result<Appended, LogError> {
        let record = |event: NewEvent| event.into_record(&self.log, self.signer.as_deref());
        self.append_records(events.into_iter().map(record).collect())
    }

    /// The log.
    pub fn log(&self) -> &KafkaLog {
        &self.log
    }

    /// Appends records as they are, each to the partition that it names.
    pub fn append_records(&self, records: Vec<NewRecord>) -> Result<Appended, LogError> {
        let partitions: BTreeSet<u32> = records.iter().map(|record| record.partition).collect();
        let mut ends_before = BTreeMap::new();
        for partition in partitions {
            let end = |topic| Ok::<_, LogError>(self.log.bounds(topic, partition)?.end);
            ends_before.insert(partition, (end(Topic::Changes)?, end(Topic::Rejected)?));
        }
        Ok(Appended { positions: self.log.append(records)?, ends_before })
    }

    /// Waits until all of it is processed, and gives the fate of each.
    pub fn fates(&self, appended: &Appended) -> Result<Vec<Fate>, DoorError> {
        let mut rejected = HashMap::new();
        for (partition, (_, end_before)) in &appended.ends_before {
            self.wait(*partition, appended)?;
            self.read(Topic::Rejected, *partition, *end_before, &mut |record| {
                let rejection = decode::<Rejection>(names::REJECTED, record)?;
                rejected.insert(rejection.position.clone(), rejection);
                Ok(())
            })?;
        }
        let fate = |position: &Position| match rejected.get(&position.to_string()) {
            Some(rejection) => Fate::Rejected(violation(rejection)),
            None => Fate::Accepted,
        };
        Ok(appended.positions.iter().map(fate).collect())
    }

    /// The records of the cascade of an event that is processed: its summary first; none if nothing changed.
    pub fn cascade(&self, appended: &Appended, position: Position) -> Result<Vec<Change>, DoorError> {
        let mut records = Vec::new();
        if let Some((end_before, _)) = appended.ends_before.get(&position.partition) {
            let cause = position.to_string();
            self.read(Topic::Changes, position.partition, *end_before, &mut |record| {
                let change = decode::<Change>(names::CHANGES, record)?;
                if change.position == cause {
                    records.push(change);
                }
                Ok(())
            })?;
        }
        Ok(records)
    }

    /// Waits until a partition is processed beyond all that was appended to it.
    fn wait(&self, partition: u32, appended: &Appended) -> Result<(), DoorError> {
        let mut of_partition = appended.positions.iter().filter(|position| position.partition == partition);
        let Some(last) = of_partition.clone().max() else { return Ok(()) };
        let begun = Instant::now();
        let mut pause = ASK_MIN;
        while self.log.committed(partition)?.next_offset <= last.offset {
            if begun.elapsed() > self.patience {
                let first = of_partition.next().unwrap_or(last);
                return Err(DoorError::FateUnknown { position: *first, patience: self.patience });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(ASK_MAX);
        }
        Ok(())
    }

    /// Reads what was published from an offset up to now.
    fn read(
        &self,
        topic: Topic,
        partition: u32,
        from: u64,
        take: &mut dyn FnMut(&Record) -> Result<(), DoorError>,
    ) -> Result<(), DoorError> {
        // A position is visible before all that was committed with it is.
        let end = self.log.settled_end(topic, partition, self.patience)?;
        let mut next = from;
        while next < end {
            let records = self.log.read(topic, partition, next, READ)?;
            let Some(last) = records.last() else { return Ok(()) };
            next = last.position.offset + 1;
            records.iter().try_for_each(&mut *take)?;
        }
        Ok(())
    }
}

fn decode<M: prost::Message + Default>(topic: &'static str, record: &Record) -> Result<M, DoorError> {
    M::decode(record.value.as_slice()).map_err(|error| DoorError::Unreadable {
        topic,
        offset: record.position.offset,
        detail: error.to_string(),
    })
}

fn violation(rejection: &Rejection) -> Violation {
    match Code::parse(&rejection.code) {
        Some(code) => Violation::new(code, &*rejection.detail),
        // Of whoever serves, who is newer.
        None => Violation::new(Code::NotInThisVersion, format!("{}: {}", rejection.code, rejection.detail)),
    }
}
