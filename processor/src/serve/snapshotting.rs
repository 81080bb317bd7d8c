//! When a partition's state is copied to where snapshots are: every so often while it is served, if it has moved since.
//!
//! The checkpoint is made, and uploaded, by a thread of its own, and the partition goes on. One that is given up waits for the
//! checkpoint, which is a matter of moments, and not for the upload.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, bounded};
use recant_eventlog::{Clock as _, ProcessLog, ReadLog as _, Topic, clock::SystemClock, kafka::KafkaLog};
use recant_projections::store::{
    behind::WriteBehind,
    rocks::{Checkpointer, RocksStore},
};

use super::{Told, phases::Life};
use crate::{
    driver::DriveError,
    measures::SnapshotMeasures,
    snapshots::{Keep, Made, SnapshotError, Snapshots},
    steps::passed,
    switch,
};

/// Snapshots, as an operator wants them.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// A directory, or the URL of an object store.
    pub url: String,
    /// So often one is made of each partition.
    pub interval: Duration,
    /// Which stay.
    pub keep: Keep,
}

/// Makes the snapshots of one partition, one at a time.
pub(super) struct Snapshotting {
    snapshots: Arc<Snapshots>,
    options: SnapshotOptions,
    log: Arc<KafkaLog>,
    /// Where checkpoints are, on the file system of the states.
    directory: PathBuf,
    partition: u32,
    due_at: Instant,
    last_next_offset: Option<u64>,
    /// Ends when the checkpoint is made, and when all is.
    under_way: Option<(Receiver<()>, Receiver<()>)>,
    tell: Sender<Told>,
}

impl Snapshotting {
    pub(super) fn new(
        snapshots: Arc<Snapshots>,
        options: SnapshotOptions,
        log: Arc<KafkaLog>,
        data: &std::path::Path,
        partition: u32,
        tell: Sender<Told>,
    ) -> Snapshotting {
        Snapshotting {
            snapshots,
            due_at: Instant::now() + options.interval,
            options,
            log,
            directory: data.join("snapshots-under-way").join(partition.to_string()),
            partition,
            last_next_offset: None,
            under_way: None,
            tell,
        }
    }

    /// Begins one of what is stored, if it is time, the state has moved, and none is under way.
    pub(super) fn begin_if_due<L: ProcessLog>(&mut self, life: &mut Life<L, WriteBehind>) -> Result<(), DriveError> {
        let is_under_way = self.under_way.as_ref().is_some_and(|(_, done)| !is_over(done));
        if is_under_way || Instant::now() < self.due_at {
            return Ok(());
        }
        if let Some((store, next_offset)) = life.stored()?
            && self.last_next_offset != Some(next_offset)
        {
            self.begin(store, next_offset);
        }
        Ok(())
    }

    fn begin(&mut self, store: &RocksStore, next_offset: u64) {
        self.due_at = Instant::now() + self.options.interval;
        self.last_next_offset = Some(next_offset);
        let (checkpointed, has_checkpoint) = bounded::<()>(0);
        let (done, is_done) = bounded::<()>(0);
        let making = Making {
            snapshots: self.snapshots.clone(),
            keep: self.options.keep,
            log: self.log.clone(),
            directory: self.directory.clone(),
            partition: self.partition,
            tell: self.tell.clone(),
        };
        let checkpointer = store.checkpointer();
        let spawned = std::thread::Builder::new().name(format!("snapshot {}", self.partition)).spawn(move || {
            making.make(checkpointer, checkpointed);
            drop(done);
        });
        match spawned {
            Ok(_) => self.under_way = Some((has_checkpoint, is_done)),
            Err(error) => tracing::warn!(partition = self.partition, %error, "no thread for a snapshot"),
        }
    }
}

impl Drop for Snapshotting {
    fn drop(&mut self) {
        if let Some((has_checkpoint, _)) = &self.under_way {
            // An error is what says so: nothing is ever sent.
            let _ = has_checkpoint.recv();
        }
    }
}

fn is_over(channel: &Receiver<()>) -> bool {
    matches!(channel.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected))
}

/// One snapshot in the making.
struct Making {
    snapshots: Arc<Snapshots>,
    keep: Keep,
    log: Arc<KafkaLog>,
    directory: PathBuf,
    partition: u32,
    tell: Sender<Told>,
}

impl Making {
    fn make(&self, checkpointer: Checkpointer, checkpointed: Sender<()>) {
        let partition = self.partition;
        let made = self.checkpoint(checkpointer).and_then(|()| {
            drop(checkpointed);
            passed("snapshot_checkpointed");
            self.upload()
        });
        switch::remove(&self.directory);
        match made {
            Ok(Some(Made { next_offset, bytes, uploaded_bytes })) => {
                SnapshotMeasures::of(partition).made(next_offset, uploaded_bytes);
                self.told(Told::SnapshotMade { partition, next_offset, bytes, uploaded_bytes });
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(partition, %error, "no snapshot was made; the next one is tried at its time");
                SnapshotMeasures::of(partition).failed();
                self.told(Told::SnapshotFailed { partition, error: error.to_string() });
            }
        }
    }

    fn told(&self, told: Told) {
        // Whoever listens may have ended meanwhile.
        let _ = self.tell.send(told);
    }

    fn checkpoint(&self, checkpointer: Checkpointer) -> Result<(), SnapshotError> {
        // One that was broken off may have left something.
        switch::remove(&self.directory);
        let failed =
            |error: std::io::Error| SnapshotError::Io { path: self.directory.clone(), detail: error.to_string() };
        if let Some(parent) = self.directory.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        checkpointer.checkpoint(&self.directory).map_err(crate::backup::BackupError::from)?;
        Ok(())
    }

    fn upload(&self) -> Result<Option<Made>, SnapshotError> {
        let now_ms = SystemClock.now_ms();
        let made = self.snapshots.make(&self.directory, self.partition, now_ms)?;
        passed("snapshot_made");
        let oldest = self.snapshots.clear_away(self.partition, self.keep, now_ms)?;
        self.watch_retention(oldest)?;
        Ok(made)
    }

    /// A log that loses events, or is about to, is told of while the newest snapshot still has its tail.
    fn watch_retention(&self, oldest: Option<u64>) -> Result<(), SnapshotError> {
        let earliest = self.log.bounds(Topic::Events, self.partition)?.earliest;
        let retention_ms = self.log.retention_of_events_ms()?;
        let Some(oldest_snapshot) = oldest else { return Ok(()) };
        // Whoever restores a snapshot compares the event before its position, too.
        let is_cut = earliest > 0 && earliest >= oldest_snapshot;
        if is_cut || retention_ms.is_some() {
            tracing::error!(
                partition = self.partition,
                earliest,
                oldest_snapshot,
                retention_ms,
                "recant.events loses events: set its retention.ms to -1"
            );
            self.told(Told::RetentionAlarm { partition: self.partition, earliest, oldest_snapshot, retention_ms });
        }
        Ok(())
    }
}
