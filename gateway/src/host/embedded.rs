//! The embedded log and its state, written by this process.
//!
//! Two threads. One appends: whatever has gathered while an fsync was under way goes into the next, so that fifty writers are one batch
//! and a lone one does not wait. The other processes, batch by batch, tells each writer the fates of its events once they can be
//! read, and everyone who waits for a position how far it has come. A long cascade holds up processing, and not appending.
//!
//! If either fails it stops, nothing more is taken, and everyone is told why: what was acknowledged is in the log, and is processed
//! when it is opened again.

use std::{
    sync::{Arc, mpsc as threads},
    thread::{Builder, JoinHandle},
};

use recant_eventlog::{LogError, embedded::EmbeddedLog};
use recant_processor::{
    driver::DriveError,
    standalone::{Appender, NewEvent, Standalone},
};
use recant_projections::{fold::Fate, store::rocks::Reader};
use recant_proto::position::Position;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Accepted, Applied,
    error::HostError,
    fates::{Appended, Fates},
};

/// So many calls may wait to be appended.
const WAITING_MAX: usize = 1_024;
/// No further call joins an append that holds so many events.
const GATHERED_EVENTS_MAX: usize = 4_096;
/// So many appends may wait to be processed. Beyond that, appending waits too.
const UNPROCESSED_APPENDS_MAX: usize = 1_024;

/// A call that appends.
struct Request {
    events: Vec<NewEvent>,
    positions: oneshot::Sender<Result<Vec<Position>, HostError>>,
    fates: oneshot::Sender<Vec<Fate>>,
}

/// The log and its state.
pub(super) struct Embedded {
    log: Arc<EmbeddedLog>,
    readers: Vec<Reader>,
    requests: mpsc::Sender<Request>,
    applied: watch::Receiver<Applied>,
}

impl Embedded {
    /// Begins to append and to process.
    pub(super) fn start(mut standalone: Standalone) -> Result<(Embedded, Vec<JoinHandle<()>>), HostError> {
        let log = standalone.shared_log();
        let readers = standalone.readers();
        let (told, applied) = watch::channel(Applied::at(standalone.next_offsets()));
        let (requests, requested) = mpsc::channel(WAITING_MAX);
        let (processed, to_process) = threads::sync_channel(UNPROCESSED_APPENDS_MAX);
        let appender = standalone.appender();
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let started = Builder::new().name(name.to_owned()).spawn(body);
            started.map_err(|error| LogError::Io(format!("starting a thread: {error}")))
        };
        let appending = spawn("append", Box::new(move || append_all(&appender, requested, &processed)))?;
        let processing = spawn("process", Box::new(move || process_all(standalone, &to_process, &told)))?;
        Ok((Embedded { log, readers, requests, applied }, vec![appending, processing]))
    }

    /// The log.
    pub(super) fn log(&self) -> Arc<EmbeddedLog> {
        self.log.clone()
    }

    /// The state of a partition.
    pub(super) fn reader(&self, partition: u32) -> Option<Reader> {
        self.readers.get(partition as usize).cloned()
    }

    /// How far processing has come.
    pub(super) fn applied(&self) -> watch::Receiver<Applied> {
        self.applied.clone()
    }

    /// Appends events, all or none.
    pub(super) async fn append(&self, events: Vec<NewEvent>) -> Result<Accepted, HostError> {
        let (positions, appended) = oneshot::channel();
        let (fates, told) = oneshot::channel();
        self.requests.send(Request { events, positions, fates }).await.map_err(|_| self.why_over())?;
        let positions = appended.await.map_err(|_| self.why_over())??;
        Ok(Accepted { positions, fates: told })
    }

    fn why_over(&self) -> HostError {
        self.applied.borrow().halted.clone().map_or(HostError::Closing, HostError::Halted)
    }
}

fn append_all(appender: &Appender, mut requested: mpsc::Receiver<Request>, processed: &threads::SyncSender<Appended>) {
    while let Some(first) = requested.blocking_recv() {
        let mut gathered = vec![first];
        let mut events = gathered.iter().map(|request| request.events.len()).sum::<usize>();
        while events < GATHERED_EVENTS_MAX
            && let Ok(next) = requested.try_recv()
        {
            events += next.events.len();
            gathered.push(next);
        }
        if !append_gathered(appender, gathered, processed) {
            return;
        }
    }
}

/// Appends what several have asked for; false if there is nobody to process it.
fn append_gathered(appender: &Appender, gathered: Vec<Request>, processed: &threads::SyncSender<Appended>) -> bool {
    let mut events = Vec::new();
    let mut callers = Vec::new();
    for request in gathered {
        callers.push((request.events.len(), request.positions, request.fates));
        events.extend(request.events);
    }
    let appended = appender.append(events);
    let mut positions = match appended {
        Ok(positions) => positions.into_iter(),
        Err(error) => {
            let error = Arc::new(error);
            for (_, caller, _) in callers {
                let _ = caller.send(Err(HostError::Append(error.clone())));
            }
            return true;
        }
    };
    for (events, caller, tell) in callers {
        let positions: Vec<Position> = positions.by_ref().take(events).collect();
        // Whoever asked may have stopped waiting; the events are there all the same.
        let _ = caller.send(Ok(positions.clone()));
        if processed.send(Appended { positions, tell }).is_err() {
            return false;
        }
    }
    true
}

fn process_all(mut standalone: Standalone, appended: &threads::Receiver<Appended>, told: &watch::Sender<Applied>) {
    let mut fates = Fates::default();
    while let Ok(first) = appended.recv() {
        fates.expect(first);
        if let Err(error) = process_what_is_there(&mut standalone, appended, &mut fates, told) {
            tracing::error!(%error, "processing has stopped");
            told.send_modify(|applied| applied.halted = Some(Arc::new(error)));
            return;
        }
    }
}

fn process_what_is_there(
    standalone: &mut Standalone,
    appended: &threads::Receiver<Appended>,
    fates: &mut Fates,
    told: &watch::Sender<Applied>,
) -> Result<(), DriveError> {
    loop {
        appended.try_iter().for_each(|more| fates.expect(more));
        let found_some = standalone.process_batch(&mut |position, folded| fates.note(position, &folded.fate))?;
        if !found_some {
            // Who appended the last events may have said so meanwhile.
            fates.tell();
            return Ok(());
        }
        told.send_modify(|applied| applied.next_offsets = standalone.next_offsets());
        fates.tell();
    }
}
