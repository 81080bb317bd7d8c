//! Kafka, as far as exactly once rests on it, in memory and without threads: topics whose offsets have gaps, transactions with
//! fencing, time-outs and a last stable offset (`brokers`), the consumer group that shares out partitions (`group`), and a
//! transactional producer that can fail at each of its calls (`producer`).
//!
//! What the brokers do is modelled on what Apache Kafka 4.4.0 was seen to do (`shared/KAFKA-AND-ROCKSDB.md`):
//!
//! - A commit is decided when the coordinator has noted it, and visible when its markers are written, which may be much later.
//!   Until then it holds back everything behind it on its partitions, for those who read what is committed.
//! - A transaction that stays open holds back, too, until its identity is initialised anew or it times out; then its records
//!   are there and skipped.
//! - Whoever initialises an identity fences whoever used it before.
//! - Of two positions that are committed the one that was sent later counts, in whatever order their markers are written.
//! - A member that is not heard of for longer than the session loses its partitions to others, and is told when it comes back.

pub mod brokers;
pub mod group;
pub mod producer;
mod reading;
