//! The embedded log and its state, written by this process.
//!
//! Two threads. One appends (`gather.rs`). The other processes, batch by batch, tells each writer the fates of its events once they can be
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
    standalone::{NewEvent, Standalone},
};
use recant_projections::store::rocks::Reader;
use tokio::sync::watch;

use super::{
    Applied,
    error::HostError,
    fates::Fates,
    gather::{Accepted, Appended, Calls, calls},
};

/// So many appends may wait to be processed. Beyond that, appending waits too.
const UNPROCESSED_APPENDS_MAX: usize = 1_024;

/// The log and its state.
pub(super) struct Embedded {
    log: Arc<EmbeddedLog>,
    readers: Vec<Reader>,
    calls: Calls,
    applied: watch::Receiver<Applied>,
}

impl Embedded {
    /// Begins to append and to process.
    pub(super) fn start(mut standalone: Standalone) -> Result<(Embedded, Vec<JoinHandle<()>>), HostError> {
        let log = standalone.shared_log();
        let readers = standalone.readers();
        let (told, applied) = watch::channel(Applied::at(standalone.next_offsets()));
        let (calls, gathering) = calls();
        let (processed, to_process) = threads::sync_channel(UNPROCESSED_APPENDS_MAX);
        let appender = standalone.appender();
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let started = Builder::new().name(name.to_owned()).spawn(body);
            started.map_err(|error| LogError::Io(format!("starting a thread: {error}")))
        };
        let append = move |events| Ok((appender.append(events)?, ()));
        let hand_on =
            move |(), appended: Vec<Appended>| appended.into_iter().all(|appended| processed.send(appended).is_ok());
        let appending = spawn("append", Box::new(move || gathering.append_all(append, hand_on)))?;
        let processing = spawn("process", Box::new(move || process_all(standalone, &to_process, &told)))?;
        Ok((Embedded { log, readers, calls, applied }, vec![appending, processing]))
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
        self.calls.append(events).await.unwrap_or_else(|| Err(self.why_over()))
    }

    fn why_over(&self) -> HostError {
        self.applied.borrow().halted.clone().map_or(HostError::Closing, HostError::Halted)
    }
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
