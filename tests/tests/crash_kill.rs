//! DESIGN 6, attacked by kill -9: an acknowledged event is never lost, nothing is published twice or in part, and the state is
//! that of an undisturbed run. One round of some steps of each kind; `make crash` does 20 of each of all steps.

// Helpers of tests fail as tests do.
#![allow(clippy::panic, clippy::print_stdout)]

use recant_tests::crash::{matrix, steps::Step};

fn survives(steps: &[Step], rounds: u32) {
    for step in steps {
        let figures = matrix::rounds_of(*step, rounds, 7);
        println!("{step}: {figures:?}");
        assert!(figures.verdict.is_clean(), "{step}: {:?}", figures.verdict.first());
        assert_eq!(figures.rounds, rounds, "{step} was not reached each time");
        assert!(figures.acknowledged > 0 && figures.changes > 0, "{step}: nothing was at stake");
    }
}

#[test]
fn killed_while_events_are_appended() {
    survives(&[Step::AppendUnderWay, Step::AppendReturned], 2);
}

#[test]
fn killed_while_changes_are_published() {
    survives(&[Step::CommitBetweenPieces, Step::Published], 2);
}

#[test]
fn killed_while_the_state_is_written() {
    survives(&[Step::Folding, Step::StoreUnderWay], 2);
}

#[test]
fn killed_while_it_recovers() {
    survives(&[Step::RecoveryFolding, Step::RecoveryStored], 2);
}

#[test]
fn killed_while_tables_are_written() {
    survives(&[Step::LogTableFlushed, Step::StateOpening], 2);
}

#[test]
fn killed_while_log_and_state_are_created() {
    survives(&[Step::LogBeingCreated, Step::StateBeingCreated], 2);
}
