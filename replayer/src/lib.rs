//! Time travel: the log, folded again.
//!
//! [`replay`] is the loop: one partition's events, folded by the very code that ran live, into a state of its own. It
//! publishes nothing, commits no position and touches no directory but the one that it is given ([`making`]). [`verify`] does it beside
//! a live state and compares: rows, digests, every published record. [`what_if`] does it with
//! something changed. [`rebuild`] makes a state anew, [`upgrade`] that of a new logic version, [`past`] a data directory of an earlier moment. [`parallel`] is all
//! partitions at once.
//!
//! What was believed when, and what changed between two moments, is answered from the history without a replay
//! (`recant_projections::query`); a replay must give the same answers.

pub mod compare;
pub mod making;
pub mod parallel;
pub mod past;
pub mod published;
pub mod rebuild;
pub mod replay;
pub mod upgrade;
pub mod verify;
pub mod what_if;
