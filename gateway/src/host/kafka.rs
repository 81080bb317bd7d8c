//! A log on Kafka, and the states that this process holds of it: of the partitions that it serves or stands by for (`--standby all`).
//!
//! Events are appended by one thread (`gather.rs`), and their fates are learned by another once the position that is
//! committed has passed them, whoever serves the partition. A read needs the state here: a partition that is served elsewhere, or is
//! moving, is told as such, and where it was announced is known.

use std::{
    sync::{Arc, mpsc as threads},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use recant_eventlog::{LogError, ReadLimit, ReadLog, Topic, kafka::KafkaLog};
use recant_processor::{
    door::{Appended as AtTheDoor, Door},
    serve::{held::Held, members::Members},
    standalone::NewEvent,
};
use recant_projections::{store::rocks::Reader, tables::partition as standing};
use tokio::sync::watch;

use super::{
    Applied,
    error::HostError,
    gather::{Accepted, Appended, Calls, calls},
};

/// So many appends may wait for their fates. Beyond that, appending waits too.
const UNKNOWN_MAX: usize = 1_024;
/// So often the states that are here are looked at, for those who follow or wait.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// An append whose fates are not known yet, and whom they belong to.
struct Unknown {
    at_the_door: AtTheDoor,
    appended: Vec<Appended>,
}

/// The log, and what is here of its states.
pub(super) struct Kafka {
    log: Arc<KafkaLog>,
    held: Held,
    members: Members,
    calls: Calls,
    applied: watch::Receiver<Applied>,
}

impl Kafka {
    /// Begins to append, and to look at the states.
    pub(super) fn start(
        log: Arc<KafkaLog>,
        door: Door,
        held: Held,
        members: Members,
    ) -> Result<(Kafka, Vec<JoinHandle<()>>), HostError> {
        let (calls, gathering) = calls();
        let (unknown, to_learn) = threads::sync_channel(UNKNOWN_MAX);
        let (told, applied) = watch::channel(Applied::at(vec![0; log.partitions() as usize]));
        let door = Arc::new(door);
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let started = Builder::new().name(name.to_owned()).spawn(body);
            started.map_err(|error| LogError::Io(format!("starting a thread: {error}")))
        };
        let (appending, learning, looked_at) = (door.clone(), door, held.clone());
        let append = move |events| {
            let at_the_door = appending.append(events)?;
            Ok((at_the_door.positions.clone(), at_the_door))
        };
        let hand_on = move |at_the_door, appended| unknown.send(Unknown { at_the_door, appended }).is_ok();
        let handles = vec![
            spawn("append", Box::new(move || gathering.append_all(append, hand_on)))?,
            spawn("fates", Box::new(move || learn_all(&learning, &to_learn)))?,
            spawn("look", Box::new(move || look(&looked_at, &told)))?,
        ];
        Ok((Kafka { log, held, members, calls, applied }, handles))
    }

    pub(super) fn log(&self) -> Arc<KafkaLog> {
        self.log.clone()
    }

    /// The state of a partition, if it is here.
    pub(super) fn reader(&self, partition: u32) -> Option<Reader> {
        self.held.reader(partition)
    }

    /// Whether it is served here.
    pub(super) fn serves(&self, partition: u32) -> bool {
        self.held.serves(partition)
    }

    /// Where another process answers for a partition, if one has announced that it does.
    pub(super) fn url_of(&self, partition: u32) -> Option<String> {
        self.members.url_of(partition)
    }

    pub(super) fn applied(&self) -> watch::Receiver<Applied> {
        self.applied.clone()
    }

    /// Appends events. They are on every in-sync replica when it is answered.
    pub(super) async fn append(&self, events: Vec<NewEvent>) -> Result<Accepted, HostError> {
        self.calls.append(events).await.unwrap_or(Err(HostError::Closing))
    }
}

/// Whether a partition has no record from an offset up to another: what lies there are the marks of transactions.
pub(super) fn has_none(log: &KafkaLog, partition: u32, from: u64, end: u64) -> Result<bool, LogError> {
    let one = ReadLimit { records_max: 1, bytes_max: 1 };
    let next = log.read(Topic::Events, partition, from, one)?;
    Ok(next.first().is_none_or(|record| record.position.offset >= end))
}

fn learn_all(door: &Door, to_learn: &threads::Receiver<Unknown>) {
    for Unknown { at_the_door, appended } in to_learn {
        let fates = match door.fates(&at_the_door) {
            Ok(fates) => fates,
            Err(error) => {
                // Those who wait are told that it is not known.
                tracing::warn!(%error, "fates could not be learned");
                continue;
            }
        };
        let mut fates = fates.into_iter();
        for Appended { positions, tell } in appended {
            // Whoever asked may have stopped waiting.
            let _ = tell.send(fates.by_ref().take(positions.len()).collect());
        }
    }
}

/// Tells how far the states have come that are here, until nobody listens.
fn look(held: &Held, told: &watch::Sender<Applied>) {
    while told.receiver_count() > 0 {
        std::thread::sleep(LOOK_EVERY);
        told.send_if_modified(|applied| {
            let mut has_moved = false;
            for (partition, known) in (0..).zip(&mut applied.next_offsets) {
                let next_offset = match held.reader(partition).map(|reader| standing::get(&reader.moment())) {
                    Some(Ok(Some(row))) => row.next_offset,
                    // Whoever reads the state says what is wrong with it.
                    Some(_) => continue,
                    None => 0,
                };
                has_moved |= next_offset != *known;
                *known = next_offset;
            }
            has_moved
        });
    }
}
