//! Protects the simulation from being blind: faults of recant that are not there, each planted, must be found within a
//! thousand seeds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it found"
)]

use recant_tests::sim::{Plant, many, run};

/// A fault that so many seeds do not show is not found.
const SEEDS_MAX: u64 = 1_000;

#[test]
fn a_position_that_is_not_in_the_batch_is_found() {
    assert_found(Plant::PositionApart);
}

#[test]
fn state_before_outputs_is_found() {
    assert_found(Plant::StateBeforeOutputs);
}

#[test]
fn a_replay_that_is_not_silent_is_found() {
    assert_found(Plant::ReplayNotSilent);
}

#[test]
fn an_open_batch_that_readers_see_is_found() {
    assert_found(Plant::OpenBatchLeaks);
}

#[test]
fn a_torn_batch_is_found() {
    assert_found(Plant::TornBatch);
}

#[test]
fn an_unknown_commit_taken_for_one_that_happened_is_found() {
    assert_found(Plant::UnknownIsCommitted);
}

#[test]
fn an_unknown_commit_taken_for_one_that_did_not_happen_is_found() {
    assert_found(Plant::UnknownIsAborted);
}

#[test]
fn an_aborted_batch_that_is_not_forgotten_is_found() {
    assert_found(Plant::AbortKeepsBatch);
}

#[test]
fn a_process_that_stores_what_it_could_not_publish_is_found() {
    assert_found(Plant::FencedStores);
}

#[test]
fn a_position_that_is_not_in_the_transaction_is_found() {
    assert_found(Plant::PositionNotInTransaction);
}

#[test]
fn an_owner_that_is_not_fenced_is_found() {
    assert_found(Plant::NoFencing);
}

#[test]
fn a_batch_torn_over_two_transactions_is_found() {
    assert_found(Plant::TornTransaction);
}

/// What is found above is the fault, and not the second driver in which it is planted.
#[test]
fn the_second_driver_without_a_fault_passes() {
    for seed in 0..50 {
        let run = run(seed, Some(Plant::Nothing));
        assert_eq!(run.wrong, None, "seed {seed}");
    }
}

/// What a failure prints is enough to see it again.
#[test]
fn a_failure_says_how_to_see_it_again() {
    let report = many(0, SEEDS_MAX, Some(Plant::UnknownIsAborted));
    let (failure, wrong) = (report.failure().unwrap(), report.wrong.unwrap());
    let again = run(wrong.seed, Some(Plant::UnknownIsAborted));
    assert_eq!((&again.wrong, &again.tail, again.trace), (&wrong.wrong, &wrong.tail, wrong.trace));
    for part in [&format!("make sim SEEDS=1 FIRST={}", wrong.seed), &wrong.wrong.unwrap(), wrong.tail.last().unwrap()] {
        assert!(failure.contains(part.as_str()), "{part:?} is not in\n{failure}");
    }
}

fn assert_found(plant: Plant) {
    let found = (0..SEEDS_MAX).find_map(|seed| run(seed, Some(plant)).wrong.map(|wrong| (seed + 1, wrong)));
    let (seeds, wrong) = found.unwrap_or_else(|| panic!("{SEEDS_MAX} seeds do not show {plant:?}"));
    println!("{plant:?} is found within {seeds} seeds: {wrong}");
}
