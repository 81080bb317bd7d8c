//! However large a cascade is: it is published in one transaction, applied whole, and consumed whole; and where the brokers give a
//! transaction less time than it takes, it is tried again, and there is never half of it. `make bench NAME=cascade` has 5,000,000
//! changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use recant_eventlog::ReadLog as _;
use recant_tests::{
    binary::{Desk, PATIENCE, wait_until},
    kafka::{
        broker::Broker,
        cascade::{append_beliefs, append_retraction, consume_slowly, is_applied_whole, wait_until_published},
        check, instance, log,
        member::Member,
    },
};
use rustix::process::Signal;

#[test]
fn a_cascade_of_100_001_changes_is_published_applied_and_consumed_whole() {
    const CHANGES: u64 = 100_001;
    let (desk, instance) = (Desk::new(), instance("large"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, 1);
    append_beliefs(&log, CHANGES - 1);
    let mut member = Member::start(&desk, &address, &instance, "data", &[]);
    member.wait_until_serving(1);
    wait_until_published(&log, PATIENCE);
    let from = append_retraction(&log);
    wait_until_published(&log, PATIENCE);
    let seen = consume_slowly(&log, from, Duration::from_millis(5));
    assert!(seen.is_whole(CHANGES), "{seen:?}");
    assert!(is_applied_whole(&desk, &address, &instance, &member.data));
    member.stop();
    check::holds(&check::what_a_stock_client_sees(&log));
}

/// The brokers allow less than the 15 minutes that they allow as they come, and the owner stands still for longer than that with all of
/// the cascade sent. They abort it, and it is published whole by the next attempt.
#[test]
fn a_transaction_that_takes_too_long_is_tried_again_whole() {
    const CHANGES: u64 = 20_001;
    let desk = Desk::new();
    let broker = Broker::start_with(&[
        "transaction.max.timeout.ms=10000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
    ]);
    let address = broker.address();
    let log = log(&address, "late", 1);
    append_beliefs(&log, CHANGES - 1);
    let mut member = Member::start(&desk, &address, "late", "data", &[]);
    member.wait_until_serving(1);
    wait_until_published(&log, PATIENCE);
    member.stop();
    let from = append_retraction(&log);
    let mut owner = Member::victim(&address, "late", &desk.path("data"), "stand_still=position_sent:1");
    owner.wait_until("it stands still", |owner| owner.count("standing_still") == 1);
    // What is pending of the position is not told before the transaction has ended: that it is the old one says how it ended.
    let before = wait_until("the brokers abort the transaction", || log.committed(0).ok());
    let end = log.bounds(recant_eventlog::Topic::Events, 0).unwrap().end;
    assert!(before.next_offset < end);
    owner.signal(Signal::CONT);
    let is_published = |_: &Member| log.committed(0).is_ok_and(|committed| committed.next_offset == end);
    owner.wait_until("the cascade is published", is_published);
    owner.kill();
    let seen = consume_slowly(&log, from, Duration::ZERO);
    assert!(seen.is_whole(CHANGES), "{seen:?}");
    check::holds(&check::what_a_stock_client_sees(&log));
}
