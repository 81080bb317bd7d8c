//! Exactly once on Kafka: whatever step a process is killed at, a stock client sees each change once, whole and in order, nothing
//! that was acknowledged is lost, and the state that is left is that of an undisturbed fold.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

use recant_tests::{
    binary::Desk,
    crash::full,
    kafka::{
        broker::Broker,
        check::{self, Published, compare},
        disks::{self, Damage},
        instance,
        load::Load,
        log, matrix,
        member::Member,
        victim::STEPS,
    },
};

#[test]
fn killed_at_every_step_each_change_is_published_once() {
    let figures = matrix::kill_at_every_step(1, 5, &mut |_| {});
    assert_eq!(figures.kills, STEPS.len() as u64, "each died where it was to die");
    check::holds(&figures.verdict);
}

/// A disk that is lost costs a replay, and nothing is published again; so does a state that another process has left behind.
#[test]
fn a_state_that_is_gone_is_made_anew_silently() {
    const PARTITIONS: u32 = 3;
    let (desk, instance) = (Desk::new(), instance("disk"));
    let address = Broker::shared().address();
    let log = log(&address, &instance, PARTITIONS);
    let mut load = Load::new(6, 4);
    load.append(&log, 300);
    let mut first = Member::start(&desk, &address, &instance, "first", &["--static-member", "only"]);
    first.wait_until_serving(PARTITIONS as usize);
    check::wait_until_processed(&log);
    first.kill();
    load.append(&log, 300);
    std::fs::remove_dir_all(desk.path("first")).unwrap();
    for name in ["first", "second"] {
        let mut member = Member::start(&desk, &address, &instance, name, &["--static-member", "only"]);
        member.wait_until_serving(PARTITIONS as usize);
        check::wait_until_processed(&log);
        member.stop();
        check::holds(&check::all(&log, &load, &[&desk.path(name)]));
    }
}

/// What was removed, cut, flipped or exchanged is put aside and made anew, from a snapshot or from the log, with a word of it.
#[test]
fn a_state_that_is_damaged_is_made_anew() {
    for (seed, damage) in (40..).zip(Damage::ALL) {
        check::holds(&disks::damaged(damage, seed).verdict);
    }
}

/// A full disk halts nothing: what is missing in the state is in the log, and once there is room it goes on.
#[test]
fn a_full_disk_is_waited_for() {
    if !full::is_possible() {
        eprintln!("SKIPPED: no small disk can be mounted here; `make crash` tries it in a name space of its own");
        return;
    }
    check::holds(&disks::full(29).verdict);
}

/// A checker that finds nothing proves nothing: each kind of fault, planted, is found as what it is.
#[test]
fn the_checker_finds_what_is_planted() {
    let record = |id: &str| Published { id: id.to_owned(), key: "space".to_owned(), value: id.into() };
    let expected: Vec<Published> = ["1", "2", "3", "4"].map(record).to_vec();
    assert!(compare(0, &expected, &expected).is_clean());
    let seen = |ids: &[&str]| compare(0, &ids.iter().map(|id| record(id)).collect::<Vec<_>>(), &expected);
    assert_eq!(seen(&["1", "2", "2", "3", "4"]).twice.len(), 1);
    assert_eq!(seen(&["1", "2", "3", "4", "3"]).twice.len(), 1);
    assert_eq!(seen(&["1", "3", "4"]).lost.len(), 1);
    assert_eq!(seen(&["1", "2", "3"]).lost.len(), 1);
    assert_eq!(seen(&["2", "1", "3", "4"]).wrong.len(), 1);
    assert_eq!(seen(&["1", "2", "3", "4", "5"]).wrong.len(), 1);
    let mut other_bytes = expected.clone();
    other_bytes[2].value.push(0);
    assert_eq!(compare(0, &other_bytes, &expected).wrong.len(), 1);
}
