//! A log on Kafka, and the states that this process holds of it: of the partitions that it serves or stands by for (`--standby all`).
//!
//! Events are appended by one thread, which takes what has gathered, and their fates are learned by another once the position that is
//! committed has passed them, whoever serves the partition. A read needs the state here: a partition that is served elsewhere, or is
//! moving, is told as such, and is asked for again a moment later.

use std::{
    sync::{Arc, mpsc as threads},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use recant_eventlog::{LogError, ReadLimit, ReadLog, Topic, kafka::KafkaLog};
use recant_processor::{
    door::{Appended, Door},
    serve::held::Held,
    standalone::NewEvent,
};
use recant_projections::{fold::Fate, store::rocks::Reader, tables::partition as standing};
use recant_proto::position::Position;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Accepted, Applied, error::HostError};

/// So many calls may wait to be appended, and so many appends for their fates.
const WAITING_MAX: usize = 1_024;
/// No further call joins an append that holds so many events.
const GATHERED_EVENTS_MAX: usize = 4_096;
/// So often the states that are here are looked at, for those who follow or wait.
const LOOK_EVERY: Duration = Duration::from_millis(10);

struct Request {
    events: Vec<NewEvent>,
    accepted: oneshot::Sender<Result<Accepted, HostError>>,
}

/// An append whose fates are not known yet, and whom they belong to.
struct Unknown {
    appended: Appended,
    tell: Vec<(usize, oneshot::Sender<Vec<Fate>>)>,
}

/// The log, and what is here of its states.
pub(super) struct Kafka {
    log: Arc<KafkaLog>,
    held: Held,
    requests: mpsc::Sender<Request>,
    applied: watch::Receiver<Applied>,
}

impl Kafka {
    /// Begins to append, and to look at the states.
    pub(super) fn start(log: Arc<KafkaLog>, door: Door, held: Held) -> Result<(Kafka, Vec<JoinHandle<()>>), HostError> {
        let (requests, requested) = mpsc::channel(WAITING_MAX);
        let (unknown, to_learn) = threads::sync_channel(WAITING_MAX);
        let (told, applied) = watch::channel(Applied::at(vec![0; log.partitions() as usize]));
        let door = Arc::new(door);
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let started = Builder::new().name(name.to_owned()).spawn(body);
            started.map_err(|error| LogError::Io(format!("starting a thread: {error}")))
        };
        let (appending, learning, looked_at) = (door.clone(), door, held.clone());
        let handles = vec![
            spawn("append", Box::new(move || append_all(&appending, requested, &unknown)))?,
            spawn("fates", Box::new(move || learn_all(&learning, &to_learn)))?,
            spawn("look", Box::new(move || look(&looked_at, &told)))?,
        ];
        Ok((Kafka { log, held, requests, applied }, handles))
    }

    pub(super) fn log(&self) -> Arc<KafkaLog> {
        self.log.clone()
    }

    /// The state of a partition, if it is here.
    pub(super) fn reader(&self, partition: u32) -> Option<Reader> {
        self.held.reader(partition)
    }

    pub(super) fn applied(&self) -> watch::Receiver<Applied> {
        self.applied.clone()
    }

    /// Appends events. They are on every in-sync replica when it is answered.
    pub(super) async fn append(&self, events: Vec<NewEvent>) -> Result<Accepted, HostError> {
        let (accepted, told) = oneshot::channel();
        self.requests.send(Request { events, accepted }).await.map_err(|_| HostError::Closing)?;
        told.await.map_err(|_| HostError::Closing)?
    }
}

/// Whether a partition has no record from an offset up to another: what lies there are the marks of transactions.
pub(super) fn has_none(log: &KafkaLog, partition: u32, from: u64, end: u64) -> Result<bool, LogError> {
    let one = ReadLimit { records_max: 1, bytes_max: 1 };
    let next = log.read(Topic::Events, partition, from, one)?;
    Ok(next.first().is_none_or(|record| record.position.offset >= end))
}

fn append_all(door: &Door, mut requested: mpsc::Receiver<Request>, unknown: &threads::SyncSender<Unknown>) {
    while let Some(first) = requested.blocking_recv() {
        let mut gathered = vec![first];
        let mut count = gathered.iter().map(|request| request.events.len()).sum::<usize>();
        while count < GATHERED_EVENTS_MAX
            && let Ok(next) = requested.try_recv()
        {
            count += next.events.len();
            gathered.push(next);
        }
        if !append_gathered(door, gathered, unknown) {
            return;
        }
    }
}

/// Appends what several have asked for; false if there is nobody who learns the fates.
fn append_gathered(door: &Door, gathered: Vec<Request>, unknown: &threads::SyncSender<Unknown>) -> bool {
    let (mut events, mut callers) = (Vec::new(), Vec::new());
    for request in gathered {
        callers.push((request.events.len(), request.accepted));
        events.extend(request.events);
    }
    let appended = match door.append(events) {
        Ok(appended) => appended,
        Err(error) => {
            let error = Arc::new(error);
            for (_, caller) in callers {
                let _ = caller.send(Err(HostError::Append(error.clone())));
            }
            return true;
        }
    };
    let mut positions = appended.positions.clone().into_iter();
    let mut tell = Vec::new();
    for (count, caller) in callers {
        let positions: Vec<Position> = positions.by_ref().take(count).collect();
        let (sender, fates) = oneshot::channel();
        // Whoever asked may have stopped waiting; the events are there all the same.
        let _ = caller.send(Ok(Accepted { positions, fates }));
        tell.push((count, sender));
    }
    unknown.send(Unknown { appended, tell }).is_ok()
}

fn learn_all(door: &Door, to_learn: &threads::Receiver<Unknown>) {
    for Unknown { appended, tell } in to_learn {
        let fates = match door.fates(&appended) {
            Ok(fates) => fates,
            Err(error) => {
                // Those who wait are told that it is not known.
                tracing::warn!(%error, "fates could not be learned");
                continue;
            }
        };
        let mut fates = fates.into_iter();
        for (count, caller) in tell {
            let _ = caller.send(fates.by_ref().take(count).collect());
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
                let Some(reader) = held.reader(partition) else { continue };
                // Whoever reads the state says what is wrong with it.
                let Ok(Some(row)) = standing::get(&reader.moment()) else { continue };
                has_moved |= row.next_offset != *known;
                *known = row.next_offset;
            }
            has_moved
        });
    }
}
