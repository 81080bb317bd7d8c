//! A real Kafka for tests: a broker of one's own, and stock clients of other languages beside it.
//!
//! [`broker`] starts, stops, freezes and restarts a broker; [`s3`] is a place for snapshots; [`python`] runs `confluent-kafka` and `cloudevents`, as other people's
//! agents do. [`member`] is the real `recant serve`, [`victim`] one that kills itself at a named step, and
//! [`matrix`] goes through all of these; [`turmoil`] is what befalls several at once, and [`disks`] what befalls states. [`load`] is what is
//! appended meanwhile, [`cascade`] a very large one, [`check`] says what must hold afterwards; [`questions`] asks several processes over HTTP, and
//! the oracle what they had to answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what fails here fails a test"
)]

pub mod broker;
pub mod cascade;
pub mod check;
pub mod disks;
pub mod java;
pub mod load;
pub mod matrix;
pub mod member;
pub mod python;
pub mod questions;
pub mod s3;
pub mod turmoil;
pub mod victim;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use recant_eventlog::kafka::{KafkaLog, Names, NewLog, Passthrough, Settings};
use recant_processor::standalone::log_created;
use recant_proto::position::Incarnation;

/// The checkout.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the checkout")
}

/// Where things are kept from run to run.
pub fn cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").expect("there is a home")).join(".cache");
    cache.unwrap_or_else(home).join("recant")
}

/// A name for an instance that no other test of this process has.
pub fn instance(test: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{test}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Opens an instance's log on some brokers, and makes it with so many partitions if it is not there.
pub fn log(brokers: &str, instance: &str, partitions: u32) -> KafkaLog {
    let first_event = |incarnation, partitions, partition| log_created(incarnation, partitions, partition, false);
    let new = NewLog { incarnation: Incarnation([0x5a; 16]), partitions, first_event: &first_event };
    KafkaLog::open_or_create(settings(brokers, instance), &new).expect("the brokers are there")
}

/// The settings of an instance on some brokers.
pub fn settings(brokers: &str, instance: &str) -> Settings {
    Settings {
        brokers: brokers.to_owned(),
        names: Names::of(Some(instance)).expect("a name"),
        passthrough: Passthrough::default(),
    }
}
