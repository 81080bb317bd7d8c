//! One partition in this process, on a thread of its own: from when the group gives it until it is given up or lost.
//!
//! What may pass, such as brokers that do not answer or a commit whose outcome is open, ends one life of the partition and begins
//! the next, which acquires it anew: after a pause that grows. What does not pass (a state that does not fit, an event that this
//! version must understand and does not) halts the partition; the others go on.

use std::{
    path::PathBuf,
    sync::Arc,
    thread::{Builder, JoinHandle},
    time::Duration,
};

use crossbeam_channel::Sender;
use recant_eventlog::{LogError, kafka::KafkaLog};
use recant_projections::store::behind::WriteBehind;

use super::{
    Told,
    held::Held,
    phases::{CatchingUp, Ended, Next, Orders, Restoring, Serving},
};
use crate::{
    driver::{BatchLimit, DriveError},
    memory::Memory,
    standalone::open_state,
};

/// After what did not succeed it is tried again after this, then after twice as long, up to the second.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So often a pause looks at its orders.
const PAUSE_PIECE: Duration = Duration::from_millis(50);

/// What a worker works on.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) log: Arc<KafkaLog>,
    pub(super) data: PathBuf,
    pub(super) partition: u32,
    pub(super) limit: BatchLimit,
    pub(super) memory: Memory,
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
    let last = loop {
        let mut has_served = false;
        let lived = one_life(work, orders, &mut |serving| {
            has_served = true;
            told(Told::Serving { partition, next_offset: serving.next_offset() });
        });
        work.log.let_go(partition);
        match lived {
            Ok(ended) => break Told::Ended { partition, ended },
            Err(error) if may_pass(&error) => {
                tracing::warn!(partition, %error, "acquiring the partition anew");
                told(Told::Interrupted { partition, error: error.to_string() });
                if has_served {
                    pause = PAUSE_MIN;
                }
                if !wait(pause, orders) {
                    break Told::Ended { partition, ended: Ended::Lost };
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error) => {
                tracing::error!(partition, %error, "the partition is halted");
                break Told::Halted { partition, error: Arc::new(error) };
            }
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

fn one_life(
    work: &Work,
    orders: &Orders,
    begins_to_serve: &mut dyn FnMut(&mut Serving<KafkaLog, WriteBehind>),
) -> Result<Ended, DriveError> {
    let (store, mut sealer) = open_state(&work.data, work.partition, &work.memory)?;
    let reader = store.reader();
    let restoring = Restoring::begin(work.log.clone(), store, work.partition, work.limit)?;
    let catching_up: CatchingUp<_, _> = match restoring.restore(orders)? {
        Next::Phase(phase) => phase,
        Next::Ended(ended) => return Ok(ended),
    };
    sealer.seal(0);
    let mut serving = match catching_up.catch_up(orders)? {
        Next::Phase(phase) => phase,
        Next::Ended(ended) => return Ok(ended),
    };
    let _held = work.held.hold(work.partition, reader);
    begins_to_serve(&mut serving);
    let ended = serving.serve(orders)?;
    sealer.seal(0);
    Ok(ended)
}

/// Whether another attempt may succeed where nobody has done anything about it.
pub(super) fn may_pass(error: &DriveError) -> bool {
    match error {
        // Another has taken it, and the group will say so; or the broker ended a transaction that took too long.
        DriveError::Fenced(_) | DriveError::Unknown { .. } => true,
        DriveError::Log(error) => {
            matches!(error, LogError::Unreachable(_) | LogError::NotAccepting(_) | LogError::Io(_))
        }
        _ => false,
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
