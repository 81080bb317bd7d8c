//! Drives partitions: reads the log, folds, publishes, and commits exactly once.
//!
//! [`driver`] takes one partition one named step at a time. [`standalone`] is a log, its state and the drivers of all its
//! partitions in one process; [`viewer`] reads the same directory from another one. [`backup`] makes snapshots of it and brings
//! them back, [`switch`] puts a state that was made anew in the place of the old one. [`serve`] shares the partitions of a log on
//! Kafka with other processes, [`snapshots`] are of its states, and [`moving`] copies a log there; [`door`] appends to such a log, and learns what became of it, and [`signer`] signs what needs it. [`past`] marks what is not to be
//! written, [`memory`] is what a process may take, [`measures`] what is measured; [`digests`] and [`checkpoints`] are for those
//! who replay.

pub mod backup;
pub mod checkpoints;
pub mod digests;
pub mod door;
pub mod driver;
pub mod measures;
pub mod memory;
pub mod moving;
pub mod past;
pub mod serve;
pub mod signer;
pub mod snapshots;
pub mod standalone;
mod steps;
pub mod switch;
pub mod viewer;
