//! Brokers that stop, die or stand still, also in the midst of transactions: processing waits, goes on by itself, and publishes
//! nothing twice.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use recant_tests::{
    binary::Desk,
    kafka::{broker::Broker, check, load::Load, log, member::Member, turmoil},
};

const PARTITIONS: usize = 2;

/// A transaction is under way, and its broker goes; `make crash` has more rounds.
#[test]
fn a_broker_goes_within_a_transaction() {
    let mut broker = Broker::start();
    for seed in [3, 4] {
        check::holds(&turmoil::broker_within_a_transaction(&mut broker, seed).verdict);
    }
}

#[test]
fn processing_survives_its_brokers() {
    let desk = Desk::new();
    let mut broker = Broker::start();
    let address = broker.address();
    let log = log(&address, "outage", PARTITIONS as u32);
    let mut load = Load::new(17, 4);
    let mut member = Member::start(&desk, &address, "outage", "data", &[]);
    member.wait_until_serving(PARTITIONS);
    load.append(&log, 300);

    broker.stop();
    broker.start_again();
    load.append(&log, 300);
    broker.kill();
    broker.start_again();
    load.append(&log, 300);
    // Under load, so that a transaction is under way.
    std::thread::scope(|scope| {
        let load = &mut load;
        let log = &log;
        let appending = scope.spawn(move || load.append(log, 600));
        for _ in 0..3 {
            broker.freeze();
            std::thread::sleep(Duration::from_millis(1500));
            broker.thaw();
            std::thread::sleep(Duration::from_millis(300));
        }
        appending.join().unwrap();
    });
    load.append(&log, 100);
    check::wait_until_processed(&log);
    member.wait_until_serving(PARTITIONS);
    assert_eq!(member.count("halted"), 0, "{:?}", member.told);
    member.stop();
    check::holds(&check::all(&log, &load, &[&desk.path("data")]));
}
