//! Protects exactly once (DESIGN 6) against everything that can go wrong between any two steps: seeded runs of writers,
//! processes and readers in one thread. What is checked is in `recant_tests::sim`. And protects the simulation: that it
//! meets every named step and fault, and that a seed gives the same run, byte for byte.
//!
//! ```text
//! RECANT_SEEDS=20000 cargo test --release -p recant-tests --test sim
//! ```
//!
//! or `make sim SEEDS=20000`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it found"
)]

use std::{collections::BTreeSet, process::Command};

use recant_tests::sim::{CRASHES_MIN, EVENTS_MIN, FAULTS_MIN, many, run};

/// How many seeds, unless RECANT_SEEDS says otherwise.
const SEEDS: u64 = 2_000;

/// Over so many every step and fault must be met.
const SEEDS_THAT_COVER: u64 = 200;

#[test]
fn whatever_goes_wrong_nothing_is_lost_twice_or_wrong() {
    let seeds = std::env::var("RECANT_SEEDS").ok().filter(|text| !text.is_empty());
    let seeds = seeds.map_or(SEEDS, |text| text.parse().unwrap());
    let report = many(0, seeds, None);
    println!("{}", report.figures.coverage.table());
    if let Some(failure) = report.failure() {
        panic!("{failure}");
    }
    let figures = report.figures;
    assert_eq!(figures.seeds, seeds);
    assert!(figures.events >= seeds * EVENTS_MIN, "{} events", figures.events);
    assert!(figures.coverage.fault_count() >= seeds * FAULTS_MIN, "{} faults", figures.coverage.fault_count());
    assert!(figures.coverage.crashes() >= seeds * CRASHES_MIN, "{} deaths", figures.coverage.crashes());
    assert!(figures.changes >= seeds * 50, "a run has {} changes on average", figures.changes / seeds);
    if seeds >= SEEDS_THAT_COVER {
        assert_eq!(report.figures.coverage.missing(), Vec::<&str>::new(), "never met over {seeds} seeds");
    }
}

/// A failure that cannot be seen again is of no use.
#[test]
fn a_seed_gives_the_same_run() {
    let first: Vec<_> = (0..20).map(|seed| run(seed, None)).collect();
    let again = (0..20).map(|seed| run(seed, None));
    for (first, again) in first.iter().zip(again) {
        assert_eq!(first.tail, again.tail);
        assert_eq!(first.trace, again.trace, "seed {}", first.seed);
    }
    let different: BTreeSet<_> = first.iter().map(|run| run.trace).collect();
    assert_eq!(different.len(), first.len(), "seeds give runs of their own");
}

/// In another process hash maps have another order, and memory lies elsewhere.
#[test]
fn a_seed_gives_the_same_run_in_another_process() {
    let simulated = || {
        let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(["20", "0"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        text.split("trace=").nth(1).unwrap().trim().to_owned()
    };
    assert_eq!(simulated(), many(0, 20, None).trace);
    assert_eq!(simulated(), simulated());
}
