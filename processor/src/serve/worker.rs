//! One partition in this process, on a thread of its own: from when the group gives it until it is given up or lost.
//!
//! What may pass, such as brokers that do not answer or a commit whose outcome is open, ends one life of the partition and begins
//! the next, which acquires it anew: after a pause that grows. A state that is of no use is made anew (`mending.rs`). What does not
//! pass (an event that this version must understand and does not) halts the partition; the others go on.

use std::{
    path::PathBuf,
    sync::Arc,
    thread::{Builder, JoinHandle},
    time::Duration,
};

use crossbeam_channel::Sender;
use recant_eventlog::{LogError, ProcessLog as _, kafka::KafkaLog};
use recant_projections::{
    fold::FoldError,
    store::{behind::WriteBehind, rocks::RocksStore},
};

use super::{
    Told,
    held::Held,
    mending::Mending,
    phases::{Ended, Life, Next, Orders, Serving, may_pass},
    snapshotting::{SnapshotOptions, Snapshotting},
};
use crate::{
    driver::{BatchLimit, DriveError},
    measures::SnapshotMeasures,
    memory::Memory,
    snapshots::{Restored, Skipped, Snapshots},
    standalone::{open_state, state_directory},
    switch::finish_switch,
};

/// After what did not succeed it is tried again after this, then after twice as long, up to the second.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So often a pause looks at its orders.
const PAUSE_PIECE: Duration = Duration::from_millis(50);

/// A snapshot that is ahead by fewer events than this is not worth its download: they are folded in a second or two.
const RESTORED_AHEAD_EVENTS_MIN: u64 = 50_000;

/// What a worker works on.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) log: Arc<KafkaLog>,
    pub(super) data: PathBuf,
    pub(super) partition: u32,
    pub(super) limit: BatchLimit,
    pub(super) memory: Memory,
    /// Where snapshots are, and which are made.
    pub(super) snapshots: Option<(Arc<Snapshots>, SnapshotOptions)>,
    pub(super) held: Held,
}

/// A partition's thread.
pub(super) struct Worker {
    pub(super) orders: Orders,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Begins. What happens is told; `Told::Ended` or `Told::Halted` is the last of it.
    pub(super) fn start(work: Work, tell: Sender<Told>) -> Result<Worker, LogError> {
        let orders = Orders::default();
        let own = orders.clone();
        let thread = Builder::new()
            .name(format!("partition {}", work.partition))
            .spawn(move || live(&work, &own, &tell))
            .map_err(|error| LogError::Io(format!("starting a thread: {error}")))?;
        Ok(Worker { orders, thread })
    }

    /// Waits for its end.
    pub(super) fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("a partition's thread ended by a panic");
        }
    }
}

fn live(work: &Work, orders: &Orders, tell: &Sender<Told>) {
    let partition = work.partition;
    // Whoever listens ends only after its workers.
    let told = |what: Told| drop(tell.send(what));
    let mut pause = PAUSE_MIN;
    let mut mending = Mending::default();
    let last = loop {
        let mut has_served = false;
        // What the one before has left open hides how far it came.
        let acquire = || work.log.acquire(partition).map(drop);
        let lived = restore_if_far_behind(work, tell, &acquire).and_then(|()| {
            one_life(work, orders, tell, &mut |serving| {
                has_served = true;
                told(Told::Serving { partition, next_offset: serving.next_offset() });
            })
        });
        work.log.let_go(partition);
        if has_served {
            pause = PAUSE_MIN;
            mending.served();
        }
        match lived {
            Ok(ended) => break Told::Ended { partition, ended },
            Err(error) if may_pass(&error) => {
                tracing::warn!(partition, %error, "acquiring the partition anew");
                told(Told::Interrupted { partition, error: error.to_string() });
                if !wait(pause, orders) {
                    break Told::Ended { partition, ended: Ended::Lost };
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => match mending.put_aside(work, &error) {
                Some(put_aside) => told(put_aside),
                None => {
                    tracing::error!(partition, %error, "the partition is halted");
                    break Told::Halted { partition, error: Arc::new(error) };
                }
            },
        }
    };
    told(last);
}

/// Waits, and says whether to go on.
pub(super) fn wait(pause: Duration, orders: &Orders) -> bool {
    let mut left = pause;
    while !left.is_zero() && !orders.is_to_end() {
        let piece = left.min(PAUSE_PIECE);
        std::thread::sleep(piece);
        left -= piece;
    }
    !orders.is_to_end()
}

/// Puts the newest good snapshot in the place of a state that is far behind it, once what is to be done before that is. Without one
/// the log is folded.
pub(super) fn restore_if_far_behind(
    work: &Work,
    tell: &Sender<Told>,
    prepare: &dyn Fn() -> Result<(), LogError>,
) -> Result<(), DriveError> {
    let (partition, Some((snapshots, _))) = (work.partition, &work.snapshots) else { return Ok(()) };
    finish_switch(&work.data, partition)?;
    let here = RocksStore::row_of(&state_directory(&work.data, partition)).map_err(FoldError::from)?;
    let ahead_of = here.map_or(0, |row| row.next_offset + RESTORED_AHEAD_EVENTS_MIN);
    match snapshots.names(partition) {
        Ok(names) if names.iter().all(|name| name.next_offset <= ahead_of) => return Ok(()),
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(partition, %error, "it is not known which snapshots there are; the log is folded instead");
            return Ok(());
        }
    }
    prepare()?;
    let restored = snapshots.restore_newest(&*work.log, &work.data, partition, ahead_of, &mut |skipped| {
        tracing::warn!(partition, skipped.snapshot, skipped.detail, "a snapshot is skipped");
        SnapshotMeasures::of(partition).skipped();
        let Skipped { snapshot, detail } = skipped;
        let _ = tell.send(Told::SnapshotSkipped { partition, snapshot, detail });
    });
    match restored {
        Ok(None) => {}
        Ok(Some(Restored { next_offset, bytes })) => {
            let _ = tell.send(Told::Restored { partition, next_offset, bytes });
        }
        // The log has it all.
        Err(error) => tracing::warn!(partition, %error, "no snapshot was restored; the log is folded instead"),
    }
    Ok(())
}

fn one_life(
    work: &Work,
    orders: &Orders,
    tell: &Sender<Told>,
    begins_to_serve: &mut dyn FnMut(&mut Serving<KafkaLog, WriteBehind>),
) -> Result<Ended, DriveError> {
    let (store, mut sealer) = open_state(&work.data, work.partition, &work.memory)?;
    let mut snapshotting = work.snapshots.clone().map(|(snapshots, options)| {
        Snapshotting::new(snapshots, options, work.log.clone(), &work.data, work.partition, tell.clone())
    });
    let reader = store.reader();
    let mut held = None;
    let mut life = Life::begin(work.log.clone(), store, work.partition, work.limit)?;
    // What is written is in the write-ahead log; it is sealed where there is time for it.
    let mut is_restored = false;
    loop {
        life = match life.step(orders, &mut |_, _| {})? {
            Next::Ended(ended) => {
                sealer.seal(0);
                return Ok(ended);
            }
            Next::Life { life, .. } => life,
        };
        if !is_restored && !matches!(life, Life::Restoring(_)) {
            is_restored = true;
            sealer.seal(0);
        }
        if let Some(snapshotting) = &mut snapshotting {
            snapshotting.begin_if_due(&mut life)?;
        }
        if let Life::Serving(serving) = &mut life {
            if held.is_none() {
                held = Some(work.held.hold_served(work.partition, reader.clone()));
                begins_to_serve(serving);
            }
            if serving.is_idle() {
                serving.wait()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a restart would not mend is not tried for ever, and what it would does not halt a partition.
    #[test]
    fn what_passes_is_told_from_what_does_not() {
        assert!(may_pass(&DriveError::Fenced(0)));
        assert!(may_pass(&LogError::Unreachable(String::new()).into()));
        assert!(!may_pass(&DriveError::NotDeterministic { partition: 0, offset: 0 }));
        assert!(!may_pass(&LogError::Setting(String::new()).into()));
        let orders = Orders::default();
        assert!(wait(Duration::from_millis(1), &orders));
        orders.give_up();
        assert!(!wait(Duration::from_secs(3600), &orders));
    }
}
