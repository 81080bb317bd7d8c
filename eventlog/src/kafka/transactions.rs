//! A transactional producer as a partition's publisher uses it (`publisher.rs`). Brokers stand behind it (`producer.rs`), or a
//! simulation of them.

use std::time::Duration;

use crate::{Committed, Output};

/// What may be done after a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The same call may be made again; it has its effect once.
    Again,
    /// The transaction has to be aborted. Then the producer goes on.
    Abort,
    /// Nothing: another has the identity, or the brokers ended a transaction that took too long.
    Fenced,
    /// Nothing: the producer is of no further use.
    Dead,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What may be done.
    pub after: After,
    /// What happened.
    pub text: String,
}

/// A producer with a transactional identity.
pub trait Transactions {
    /// Takes the identity: whoever had it can do nothing more with it, and what it had under way is ended.
    fn initialise(&self) -> Result<(), Failure>;

    /// Begins a transaction.
    fn begin(&self) -> Result<(), Failure>;

    /// Sends a record as part of it. That it is delivered, `commit` finds out.
    fn send(&self, output: &Output) -> Result<(), Failure>;

    /// Sends the group's position as part of it.
    fn send_position(&self, committed: &Committed) -> Result<(), Failure>;

    /// Ends the transaction, so that all of it is there.
    fn commit(&self) -> Result<(), Failure>;

    /// Ends the transaction, so that nothing of it is there.
    fn abort(&self) -> Result<(), Failure>;

    /// How long it is since some moment that stays the same.
    fn elapsed(&self) -> Duration;
}
