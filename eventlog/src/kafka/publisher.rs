//! Publishes what a partition's events cause, together with the position behind them, in transactions.
//!
//! Each partition has transactional identities of its own. Whoever takes the partition initialises them first, which ends what its
//! former owner had under way and fences it, and only then reads the committed position: from then on that position moves by
//! the new owner's commits alone. The group's generation is no part of it: a commit names no member, so that a rebalance aborts no
//! batch of a partition that stays where it is. (Brokers take that from groups of the classic protocol alone.)
//!
//! There are two identities, used by turns. A commit is answered when it is certain, and the broker goes on writing its
//! markers; the next transaction of the same identity would be held up by that, by 20 ms each (`rdkafka_txnmgr.c`).
//!
//! The position is the group's offset of the partition in `recant.events`; what is committed beside it stands in the offset's
//! metadata, as base64url.
//!
//! It is generic over the producer: the simulator of `tests/` drives this very code over simulated brokers.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{
    step,
    transactions::{After, Failure, Transactions},
};
use crate::{Commit, Committed, LogError, Output, Topic};

/// So long the same call is made again before it is given up. What then is open is found out by whoever takes the partition.
const PATIENCE: Duration = Duration::from_secs(30);

/// A partition's identities, in the hands of the one who took it.
pub struct Publisher<T> {
    identities: [Identity<T>; 2],
    turn: AtomicUsize,
    /// Up to where the partition is committed.
    next_offset: Mutex<u64>,
}

impl<T: Transactions> Publisher<T> {
    /// Publishes with identities that were taken, from the position on that was committed after that.
    pub fn new(identities: [Identity<T>; 2], committed: &Committed) -> Publisher<T> {
        Publisher { identities, turn: AtomicUsize::new(0), next_offset: Mutex::new(committed.next_offset) }
    }

    /// Publishes outputs and position, whole or not at all.
    pub fn publish(&self, outputs: &[Output], committed: &Committed) -> Commit {
        if outputs.iter().any(|output| output.topic == Topic::Events) {
            return Commit::Aborted("an output may not go to the events".to_owned());
        }
        // What a thread that panicked has left is a position that was committed.
        let mut before = self.next_offset.lock().unwrap_or_else(PoisonError::into_inner);
        let next = committed.next_offset;
        if next < *before {
            return Commit::Aborted(format!("the committed position may not go back from {before} to {next}"));
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.identities.len();
        let answer = self.identities[turn].publish(outputs, committed);
        if answer == Commit::Committed {
            *before = next;
        }
        answer
    }
}

/// One transactional identity, taken.
pub struct Identity<T> {
    producer: T,
    partition: u32,
}

impl<T: Transactions> Identity<T> {
    /// Takes it away from whoever had it.
    pub fn take(producer: T, partition: u32) -> Result<Identity<T>, LogError> {
        let identity = Identity { producer, partition };
        match identity.insist(|| identity.producer.initialise()) {
            Ok(()) => Ok(identity),
            Err(Failure { after: After::Fenced, .. }) => {
                Err(LogError::NotAccepting(format!("another process is taking partition {partition} at this moment")))
            }
            Err(Failure { after: After::Again, text }) => {
                Err(LogError::Unreachable(format!("taking partition {partition}: {text}")))
            }
            Err(Failure { after: After::Abort | After::Dead, text }) => {
                Err(LogError::Io(format!("taking partition {partition}: {text}")))
            }
        }
    }

    fn publish(&self, outputs: &[Output], committed: &Committed) -> Commit {
        let failure = match self.transact(outputs, committed) {
            Ok(()) => return Commit::Committed,
            Err(failure) => failure,
        };
        if failure.after != After::Abort {
            return open(failure);
        }
        match self.insist(|| self.producer.abort()) {
            Ok(()) => Commit::Aborted(failure.text),
            Err(failure) => open(failure),
        }
    }

    fn transact(&self, outputs: &[Output], committed: &Committed) -> Result<(), Failure> {
        step("transaction_begins", self.partition);
        self.insist(|| self.producer.begin())?;
        step("transaction_begun", self.partition);
        for output in outputs {
            self.insist(|| self.producer.send(output))?;
            step("output_sent", self.partition);
        }
        step("outputs_sent", self.partition);
        self.insist(|| self.producer.send_position(committed))?;
        step("position_sent", self.partition);
        // Begun, a commit can only be asked for again: it happens once.
        self.insist(|| self.producer.commit())?;
        step("transaction_committed", self.partition);
        Ok(())
    }

    /// Makes a call again while it may be, and has not been answered.
    fn insist(&self, call: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        let begun = self.producer.elapsed();
        loop {
            match call() {
                Err(failure)
                    if failure.after == After::Again && self.producer.elapsed().saturating_sub(begun) < PATIENCE =>
                {
                    tracing::debug!(partition = self.partition, failure = failure.text, "asking again");
                }
                answer => return answer,
            }
        }
    }
}

/// What a transaction has come to that was not aborted, and may be committed.
fn open(failure: Failure) -> Commit {
    match failure.after {
        After::Fenced => Commit::Fenced,
        After::Again | After::Abort | After::Dead => Commit::Unknown(failure.text),
    }
}
