//! The phases of a partition's life in a process, as types: what may be done in a phase is what its type can do.
//!
//! ```text
//! Restoring ──► CatchingUp ──► Serving ──► Draining ──► (given up: everything that was folded is published and stored)
//!     │              │            │            │
//!     └──────────────┴────────────┴────────────┴──────► Lost (nothing more is published; state is what is stored)
//! ```
//!
//! Every phase ends at the latest when the partition is to be given up or is lost, which [`Orders`] tells: it is looked at between
//! the driver's steps, which are short. What is generic here over log and store is so for the simulator.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use recant_eventlog::{LogError, ProcessLog, ReadLog, Topic};
use recant_projections::store::WriteStore;

use crate::driver::{ABORTED_IN_A_ROW_MAX, BatchLimit, DriveError, Driver, Recovery, Step};

/// A log at whose end one can wait.
pub trait WaitLog: ReadLog {
    /// Waits until there is a record to read from this offset on, at most so long.
    fn wait(&self, topic: Topic, partition: u32, from_offset: u64, timeout: Duration) -> Result<(), LogError>;
}

impl WaitLog for recant_eventlog::kafka::KafkaLog {
    fn wait(&self, topic: Topic, partition: u32, from_offset: u64, timeout: Duration) -> Result<(), LogError> {
        recant_eventlog::kafka::KafkaLog::wait(self, topic, partition, from_offset, timeout)
    }
}

/// So long a partition that has nothing to do does not look at its orders.
const IDLE_WAIT: Duration = Duration::from_millis(50);

/// What a partition is to do, told by the thread that speaks with the group.
#[derive(Debug, Clone, Default)]
pub struct Orders(Arc<AtomicU8>);

const GO_ON: u8 = 0;
const GIVE_UP: u8 = 1;
const LOST: u8 = 2;

impl Orders {
    /// Finish the batch that is under way, and give the partition up.
    pub fn give_up(&self) {
        // One that is lost stays so.
        let _ = self.0.compare_exchange(GO_ON, GIVE_UP, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Another has the partition: publish nothing more.
    pub fn lose(&self) {
        self.0.store(LOST, Ordering::SeqCst);
    }

    pub(super) fn is_to_end(&self) -> bool {
        self.0.load(Ordering::SeqCst) != GO_ON
    }

    fn is_lost(&self) -> bool {
        self.0.load(Ordering::SeqCst) == LOST
    }
}

/// How a phase ended.
pub enum Next<P> {
    /// In the next one.
    Phase(P),
    /// With the partition: it was given up, or lost.
    Ended(Ended),
}

/// How a partition's life in this process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was folded is published and stored.
    GivenUp,
    /// What was under way is not published.
    Lost,
}

/// The partition is acquired, and its state is behind what was published.
pub struct Restoring<L, S> {
    recovery: Recovery<L, S>,
}

impl<L: ProcessLog + WaitLog, S: WriteStore> Restoring<L, S> {
    /// Takes the partition: from here on whoever had it publishes nothing more.
    pub fn begin(log: Arc<L>, store: S, number: u32, limit: BatchLimit) -> Result<Self, DriveError> {
        Ok(Restoring { recovery: Recovery::begin(log, store, number, limit)? })
    }

    /// Folds up to what was published, silently.
    pub fn restore(mut self, orders: &Orders) -> Result<Next<CatchingUp<L, S>>, DriveError> {
        passed("recovering");
        while self.recovery.step()? {
            passed("recovery_stored");
            if orders.is_to_end() {
                // What is folded is stored; nothing was to be published.
                let ended = if orders.is_lost() { Ended::Lost } else { Ended::GivenUp };
                return Ok(Next::Ended(ended));
            }
        }
        let driver = self.recovery.finish()?;
        passed("recovered");
        Ok(Next::Phase(CatchingUp { running: Running::new(driver) }))
    }
}

/// The state is where the log was published to, and that is behind the log's end.
pub struct CatchingUp<L, S> {
    running: Running<L, S>,
}

impl<L: ProcessLog + WaitLog, S: WriteStore> CatchingUp<L, S> {
    /// Publishes what came while nobody did, in batches as large as they may be.
    pub fn catch_up(mut self, orders: &Orders) -> Result<Next<Serving<L, S>>, DriveError> {
        while !orders.is_to_end() {
            if self.running.step()? == Step::Idle {
                return Ok(Next::Phase(Serving { running: self.running }));
            }
        }
        Ok(Next::Ended(end(self.running, orders)?))
    }
}

/// The state follows the log's end.
pub struct Serving<L, S> {
    running: Running<L, S>,
}

impl<L: ProcessLog + WaitLog, S: WriteStore> Serving<L, S> {
    /// Publishes what comes, as soon as it comes: a lone event at once, and what has gathered meanwhile together.
    pub fn serve(mut self, orders: &Orders) -> Result<Ended, DriveError> {
        while !orders.is_to_end() {
            if self.running.step()? == Step::Idle {
                self.running.wait()?;
            }
        }
        end(self.running, orders)
    }

    /// Up to where the state is.
    pub fn next_offset(&mut self) -> u64 {
        self.running.driver.state().next_offset()
    }
}

fn end<L: ProcessLog + WaitLog, S: WriteStore>(running: Running<L, S>, orders: &Orders) -> Result<Ended, DriveError> {
    if orders.is_lost() { Ok(Lost { _running: running }.end()) } else { Draining { running }.drain(orders) }
}

/// No further batch is begun.
struct Draining<L, S> {
    running: Running<L, S>,
}

impl<L: ProcessLog + WaitLog, S: WriteStore> Draining<L, S> {
    fn drain(mut self, orders: &Orders) -> Result<Ended, DriveError> {
        while !self.running.driver.is_between_batches() {
            if orders.is_lost() {
                return Ok(Lost { _running: self.running }.end());
            }
            self.running.step()?;
        }
        self.running.driver.finish()?;
        Ok(Ended::GivenUp)
    }
}

/// Another has the partition. There is nothing that one can do here but end.
struct Lost<L, S> {
    _running: Running<L, S>,
}

impl<L, S> Lost<L, S> {
    fn end(self) -> Ended {
        Ended::Lost
    }
}

/// Tells of a step, for those who end processes between steps (`docs/how-to/crashes.md`).
fn passed(step: &str) {
    tracing::trace!(target: "recant::step", step);
}

fn name_of(step: Step) -> &'static str {
    match step {
        Step::Polled => "polled",
        Step::Idle => "idle",
        Step::Folded => "folded",
        Step::Published => "published",
        Step::Aborted => "aborted",
        Step::Stored => "stored",
    }
}

/// A driver that goes on after commits that were aborted, up to a bound.
struct Running<L, S> {
    driver: Driver<L, S>,
    aborted_in_a_row: u32,
}

impl<L: ProcessLog + WaitLog, S: WriteStore> Running<L, S> {
    fn new(driver: Driver<L, S>) -> Self {
        Running { driver, aborted_in_a_row: 0 }
    }

    fn step(&mut self) -> Result<Step, DriveError> {
        let step = self.driver.step(&mut |_, _| {})?;
        passed(name_of(step));
        match step {
            Step::Aborted if self.aborted_in_a_row == ABORTED_IN_A_ROW_MAX => {
                let last = self.driver.last_abort();
                return Err(LogError::Io(format!(
                    "{ABORTED_IN_A_ROW_MAX} commits in a row were aborted, the last because {last}"
                ))
                .into());
            }
            Step::Aborted => self.aborted_in_a_row += 1,
            Step::Stored => self.aborted_in_a_row = 0,
            Step::Polled | Step::Idle | Step::Folded | Step::Published => {}
        }
        Ok(step)
    }

    fn wait(&mut self) -> Result<(), DriveError> {
        let (next, number) = (self.driver.state().next_offset(), self.driver.number());
        Ok(self.driver.log().wait(Topic::Events, number, next, IDLE_WAIT)?)
    }
}
