//! The phases of a partition's life in a process, as types: what may be done in a phase is what its type can do.
//!
//! ```text
//! Restoring ──► CatchingUp ──► Serving ──► Draining ──► (given up: everything that was folded is published and stored)
//!     │              │            │            │
//!     └──────────────┴────────────┴────────────┴──────► Lost (nothing more is published; state is what is stored)
//! ```
//!
//! A phase takes one step at a time and says what comes next ([`Life::step`] goes through all of them), so that the simulator can
//! let other processes act in between. Every phase ends at the latest when the partition is to be given up or is lost, which
//! [`Orders`] tells: it is looked at before each step, and steps are short.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use recant_eventlog::{LogError, ProcessLog, ReadLog, Topic};
use recant_projections::{
    fold::{FoldError, Folded},
    store::{StoreError, WriteStore, behind::WriteBehind, rocks::RocksStore},
};
use recant_proto::position::Position;

use crate::{
    driver::{ABORTED_IN_A_ROW_MAX, BatchLimit, DriveError, Driver, Recovery, Step},
    steps::passed,
};

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

    /// Whether nothing more is to be begun.
    pub fn is_to_end(&self) -> bool {
        self.0.load(Ordering::SeqCst) != GO_ON
    }

    fn is_lost(&self) -> bool {
        self.0.load(Ordering::SeqCst) == LOST
    }
}

/// How a partition's life in this process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was folded is published and stored.
    GivenUp,
    /// What was under way is not published.
    Lost,
}

/// What comes after a step.
// Taken apart as soon as it is made.
#[allow(clippy::large_enum_variant)]
pub enum Next<L, S> {
    /// More.
    Life {
        /// The partition, in the same phase or the next one.
        life: Life<L, S>,
        /// The driver's step that was taken.
        took: Step,
    },
    /// Nothing: the partition was given up, or lost.
    Ended(Ended),
}

/// A partition in one of its phases.
pub enum Life<L, S> {
    /// See [`Restoring`].
    Restoring(Restoring<L, S>),
    /// See [`CatchingUp`].
    CatchingUp(CatchingUp<L, S>),
    /// See [`Serving`].
    Serving(Serving<L, S>),
    /// See [`Draining`].
    Draining(Draining<L, S>),
}

/// What is told of each event that is folded to be published; it is told again if the batch is aborted.
pub type Observe<'a> = dyn FnMut(Position, &Folded) + 'a;

impl<L: ProcessLog, S: WriteStore> Life<L, S> {
    /// Takes the partition: from here on whoever had it publishes nothing more.
    pub fn begin(log: Arc<L>, store: S, number: u32, limit: BatchLimit) -> Result<Self, DriveError> {
        Ok(Life::Restoring(Restoring { recovery: Recovery::begin(log, store, number, limit)? }))
    }

    /// Takes one step of the phase, or ends it if it is to end.
    pub fn step(self, orders: &Orders, observe: &mut Observe<'_>) -> Result<Next<L, S>, DriveError> {
        match self {
            Life::Restoring(phase) => phase.step(orders),
            Life::CatchingUp(phase) => phase.step(orders, observe),
            Life::Serving(phase) => phase.step(orders, observe),
            Life::Draining(phase) => phase.step(orders, observe),
        }
    }
}

/// The partition is acquired, and its state is behind what was published.
pub struct Restoring<L, S> {
    recovery: Recovery<L, S>,
}

impl<L: ProcessLog, S: WriteStore> Restoring<L, S> {
    /// Folds a batch of what was published, silently.
    fn step(mut self, orders: &Orders) -> Result<Next<L, S>, DriveError> {
        if orders.is_to_end() {
            // What is folded is stored; nothing was to be published.
            return Ok(Next::Ended(if orders.is_lost() { Ended::Lost } else { Ended::GivenUp }));
        }
        passed("recovering");
        if self.recovery.step()? {
            passed("recovery_stored");
            return Ok(Next::Life { life: Life::Restoring(self), took: Step::Stored });
        }
        let running = Running::new(self.recovery.finish()?);
        passed("recovered");
        Ok(Next::Life { life: Life::CatchingUp(CatchingUp { running }), took: Step::Stored })
    }
}

/// The state is where the log was published to, and that is behind the log's end.
pub struct CatchingUp<L, S> {
    running: Running<L, S>,
}

impl<L: ProcessLog, S: WriteStore> CatchingUp<L, S> {
    /// Goes on publishing what came while nobody did, in batches as large as they may be.
    fn step(mut self, orders: &Orders, observe: &mut Observe<'_>) -> Result<Next<L, S>, DriveError> {
        if orders.is_to_end() {
            return Draining { running: self.running }.step(orders, observe);
        }
        let took = self.running.step(observe)?;
        let running = self.running;
        let life = if took == Step::Idle {
            Life::Serving(Serving { running, is_idle: true })
        } else {
            Life::CatchingUp(CatchingUp { running })
        };
        Ok(Next::Life { life, took })
    }
}

/// The state follows the log's end.
pub struct Serving<L, S> {
    running: Running<L, S>,
    /// Whether there was nothing to do.
    is_idle: bool,
}

impl<L: ProcessLog, S: WriteStore> Serving<L, S> {
    /// Goes on publishing what comes, as soon as it comes: a lone event at once, and what has gathered meanwhile together.
    fn step(mut self, orders: &Orders, observe: &mut Observe<'_>) -> Result<Next<L, S>, DriveError> {
        if orders.is_to_end() {
            return Draining { running: self.running }.step(orders, observe);
        }
        let took = self.running.step(observe)?;
        self.is_idle = took == Step::Idle;
        Ok(Next::Life { life: Life::Serving(self), took })
    }

    /// Up to where the state is.
    pub fn next_offset(&mut self) -> u64 {
        self.running.driver.state().next_offset()
    }

    /// Whether there was nothing to do when it was last looked.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }
}

impl<L: ProcessLog> Life<L, WriteBehind> {
    /// What is stored, and up to where that has applied events; nothing within a batch, or before the state is where the log was
    /// published to.
    pub fn stored(&mut self) -> Result<Option<(&RocksStore, u64)>, DriveError> {
        let (Life::CatchingUp(CatchingUp { running }) | Life::Serving(Serving { running, .. })) = self else {
            return Ok(None);
        };
        if !running.driver.is_between_batches() {
            return Ok(None);
        }
        let state = running.driver.state();
        let next_offset = state.next_offset();
        Ok(Some((state.stored().written().map_err(FoldError::from)?, next_offset)))
    }
}

impl<L: ProcessLog + WaitLog, S: WriteStore> Serving<L, S> {
    /// Waits a little for something to do.
    pub fn wait(&mut self) -> Result<(), DriveError> {
        let (next, number) = (self.running.driver.state().next_offset(), self.running.driver.number());
        Ok(self.running.driver.log().wait(Topic::Events, number, next, IDLE_WAIT)?)
    }
}

/// No further batch is begun.
pub struct Draining<L, S> {
    running: Running<L, S>,
}

impl<L: ProcessLog, S: WriteStore> Draining<L, S> {
    /// Goes on with the batch that is under way; behind it, publishes the digests of what changed since the last ones.
    fn step(mut self, orders: &Orders, observe: &mut Observe<'_>) -> Result<Next<L, S>, DriveError> {
        if orders.is_lost() {
            // Another has the partition. There is nothing that one can do but end.
            return Ok(Next::Ended(Ended::Lost));
        }
        if !self.running.driver.is_between_batches() {
            let took = self.running.step(observe)?;
            return Ok(Next::Life { life: Life::Draining(self), took });
        }
        self.running.driver.finish()?;
        if let Err(error) = self.running.driver.publish_digests() {
            // The next one publishes them.
            tracing::warn!(partition = self.running.driver.number(), %error, "digests are not published at the end");
        }
        Ok(Next::Ended(Ended::GivenUp))
    }
}

/// Whether another attempt may succeed where nobody has done anything about it.
pub fn may_pass(error: &DriveError) -> bool {
    match error {
        // Another has taken it, and the group will say so; or the broker ended a transaction that took too long.
        DriveError::Fenced(_) | DriveError::Unknown { .. } => true,
        // There may be room again; the log has what the state lacks.
        DriveError::Fold(FoldError::Store(StoreError::NoRoom(_))) => true,
        DriveError::Log(error) => {
            matches!(error, LogError::Unreachable(_) | LogError::NotAccepting(_) | LogError::Io(_))
        }
        _ => false,
    }
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

impl<L: ProcessLog, S: WriteStore> Running<L, S> {
    fn new(driver: Driver<L, S>) -> Self {
        Running { driver, aborted_in_a_row: 0 }
    }

    fn step(&mut self, observe: &mut Observe<'_>) -> Result<Step, DriveError> {
        let step = self.driver.step(observe)?;
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
}
