//! However large a cascade is: it is published in one transaction, applied whole, and consumed whole. `make bench NAME=cascade` has
//! 5,000,000 changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use recant_tests::{
    binary::{Desk, PATIENCE},
    kafka::{
        broker::Broker,
        cascade::{append_beliefs, append_retraction, consume_slowly, is_applied_whole, wait_until_published},
        check, instance, log,
        member::Member,
    },
};

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
