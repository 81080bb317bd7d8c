//! Kafka: one retraction under which very many nodes fall: how long it takes until the cascade is published, whole, and what it takes
//! of memory; and what a stock client that is slow takes to consume it.

use std::{fs, time::Duration};

use recant_tests::{
    binary::Desk,
    kafka::{
        broker::Broker,
        cascade::{Seen, append_beliefs, append_retraction, consume_slowly, is_applied_whole, wait_until_published},
        log,
        member::Member,
    },
};

use crate::kafka::KafkaError;

const INSTANCE: &str = "cascade";
/// So long each part may take.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// A consumer that takes at most 200,000 records a second.
const CONSUMER_PAUSE: Duration = Duration::from_millis(5);

/// What was measured.
pub struct Cascade {
    /// From the append of the retraction until all is published.
    pub published: Duration,
    /// What `recant serve` took of memory at most, before the retraction and in all.
    pub before_peak_kib: u64,
    /// As above.
    pub peak_kib: u64,
    /// What the consumer saw.
    pub seen: Seen,
    /// Whether it saw all of it, in order, as one transaction, and nothing in the state is believed any more.
    pub is_whole: bool,
}

/// Measures a cascade of so many changes.
pub fn measure(broker: &Broker, changes: u64) -> Result<Cascade, KafkaError> {
    let (desk, address) = (Desk::new(), broker.address());
    let log = log(&address, INSTANCE, 1);
    append_beliefs(&log, changes - 1);
    let mut member = Member::start(&desk, &address, INSTANCE, "data", &[]);
    wait_until_published(&log, PATIENCE);
    member.wait_until_serving(1);
    let before_peak_kib = peak_kib(&member)?;
    let from = append_retraction(&log);
    let published = wait_until_published(&log, PATIENCE);
    let peak_kib = peak_kib(&member)?;
    let seen = consume_slowly(&log, from, CONSUMER_PAUSE);
    let is_whole = seen.is_whole(changes) && is_applied_whole(&desk, &address, INSTANCE, &member.data);
    member.stop();
    Ok(Cascade { published, before_peak_kib, peak_kib, seen, is_whole })
}

/// The most that a process has had in memory.
fn peak_kib(member: &Member) -> Result<u64, KafkaError> {
    let status = fs::read_to_string(format!("/proc/{}/status", member.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    number.ok_or(KafkaError::Missing("the memory of a process"))
}
