//! A full disk and an fsync that fails: the log stops accepting, says so and what to do, loses nothing, publishes nothing in
//! part, and goes on when it can. `make crash` does more rounds.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

use std::process::Command;

use recant_tests::crash::{fsync, full};

/// Under everything, under the log alone, under the state alone.
#[test]
fn a_full_disk_stops_it_and_with_room_it_goes_on() {
    if !full::is_possible() {
        return in_a_name_space_of_its_own();
    }
    let figures = full::fill(3, 13);
    println!("{figures:?}");
    assert!(figures.verdict.is_clean(), "{:?}", figures.verdict.first());
    assert_eq!(figures.rounds, 3);
    assert!(
        figures.refused >= 1 && figures.openings_refused >= 3 && figures.acknowledged > 500,
        "little was at stake: {figures:?}"
    );
}

/// Who is not root may mount in a name space of their own, where that is allowed.
fn in_a_name_space_of_its_own() {
    let elsewhere = tempfile::tempdir().unwrap();
    let mut crash = Command::new(env!("CARGO_BIN_EXE_crash"));
    let output = crash.args(["disk", "3"]).current_dir(elsewhere.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("cannot be mounted here") || told.contains("unshare failed") {
        eprintln!("SKIPPED: full disks were not tried, since no small disk can be mounted here: {told}");
        return;
    }
    assert!(output.status.success(), "{}{told}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn an_fsync_that_fails_is_not_taken_for_one_that_did_not() {
    let figures = fsync::fail(2, 17);
    println!("{figures:?}");
    assert!(figures.verdict.is_clean(), "{:?}", figures.verdict.first());
    assert_eq!(figures.rounds, 2);
}
