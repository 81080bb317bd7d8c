//! The state of a partition that another process serves, kept up beside it: so that taking the partition needs no restore, and this
//! process can answer reads, too.
//!
//! A standby folds up to the position that the owner has committed, never beyond, and publishes nothing. At each such position it
//! compares its running hash with the owner's: two processes that fold the same events are the proof of each other.

use std::{
    sync::Arc,
    thread::{Builder, JoinHandle},
    time::Duration,
};

use crossbeam_channel::Sender;
use recant_eventlog::{LogError, ReadLog};

use super::{
    Told,
    mending::Mending,
    phases::{Orders, may_pass},
    worker::{Work, restore_if_far_behind, wait},
};
use crate::{
    driver::{DriveError, Shadow},
    standalone::open_state,
};

/// So often the owner's position is asked for. A standby is behind by this much, and the tail is short all the same.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// After what did not succeed it is tried again after this.
const PAUSE: Duration = Duration::from_secs(2);

/// A standby's thread.
pub(super) struct Standby {
    orders: Orders,
    thread: JoinHandle<()>,
}

impl Standby {
    /// Begins.
    pub(super) fn start(work: Work, tell: Sender<Told>) -> Result<Standby, LogError> {
        let orders = Orders::default();
        let own = orders.clone();
        let thread = Builder::new()
            .name(format!("standby {}", work.partition))
            .spawn(move || live(&work, &own, &tell))
            .map_err(|error| LogError::Io(format!("starting a thread: {error}")))?;
        Ok(Standby { orders, thread })
    }

    /// Has it end after the batch that is under way. The state may be opened to write once it has been joined.
    pub(super) fn end(&self) {
        self.orders.give_up();
    }

    /// Waits for its end.
    pub(super) fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("a standby's thread ended by a panic");
        }
    }
}

fn live(work: &Work, orders: &Orders, tell: &Sender<Told>) {
    let partition = work.partition;
    // Whoever listens ends only after its threads.
    let told = |what: Told| drop(tell.send(what));
    let mut mending = Mending::default();
    loop {
        let followed = restore_if_far_behind(work, tell, &|| Ok(())).and_then(|()| follow(work, orders, &mut mending));
        work.log.let_go(partition);
        match followed {
            Ok(()) => return,
            Err(error) if may_pass(&error) => {
                tracing::warn!(partition, %error, "the standby follows anew");
                if !wait(PAUSE, orders) {
                    return;
                }
            }
            Err(error) => match mending.put_aside(work, &error) {
                Some(put_aside) => told(put_aside),
                None => {
                    tracing::error!(partition, %error, "the standby is halted");
                    told(Told::Halted { partition, error: Arc::new(error) });
                    return;
                }
            },
        }
    }
}

fn follow(work: &Work, orders: &Orders, mending: &mut Mending) -> Result<(), DriveError> {
    let (store, mut sealer) = open_state(&work.data, work.partition, &work.memory)?;
    let reader = store.reader();
    let mut shadow = Shadow::open(work.log.clone(), store, work.partition, work.limit)?;
    let _held = work.held.hold(work.partition, reader);
    loop {
        let committed = work.log.committed(work.partition)?;
        while shadow.step_towards(&committed)? {
            if orders.is_to_end() {
                return Ok(());
            }
        }
        mending.served();
        if !wait(ASK_EVERY, orders) {
            sealer.seal(0);
            return Ok(());
        }
    }
}
