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

use std::{collections::BTreeSet, process::Command, sync::Arc};

use recant_eventlog::{Committed, Output, ReadLimit, ReadLog as _, Topic, clock::ManualClock, kafka::Turn};
use recant_proto::position::Incarnation;
use recant_tests::sim::{
    CRASHES_MIN, EVENTS_MIN, FAULTS_MIN,
    kafka::{
        brokers::{Brokers, Markers, Refusal},
        group::Group,
    },
    many, run,
};

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

/// What is simulated must be what brokers do, or it proves nothing: what is open holds back, what is aborted is skipped, what is
/// decided comes with its markers, and whoever was fenced does nothing more.
#[test]
fn simulated_brokers_hold_back_skip_and_fence() {
    let brokers = Brokers::new(Incarnation([0; 16]), 1, Arc::new(ManualClock::new(1)));
    let output = |value: &str| Output { topic: Topic::Changes, key: vec![], headers: vec![], value: value.into() };
    let seen = || -> Vec<String> {
        let all = ReadLimit { records_max: 99, bytes_max: 99 };
        let records = brokers.read(Topic::Changes, 0, 0, all).unwrap();
        records.into_iter().map(|record| String::from_utf8(record.value).unwrap()).collect()
    };
    let at = |next_offset| Committed { next_offset, metadata: vec![] };
    let (a, b) = ((0, 0), (0, 1));
    let (of_a, of_b) = (brokers.initialise(a), brokers.initialise(b));
    brokers.send(a, of_a, &output("a")).unwrap();
    brokers.send_position(a, of_a, &at(1)).unwrap();
    brokers.end(a, of_a, true, Markers::After(u32::MAX)).unwrap();
    brokers.send(b, of_b, &output("b")).unwrap();
    brokers.send_position(b, of_b, &at(2)).unwrap();
    brokers.end(b, of_b, true, Markers::Now).unwrap();
    assert_eq!(seen(), Vec::<String>::new(), "the first has no markers, and holds the second back");
    assert!(brokers.holds_back(Topic::Changes, 0) && brokers.committed(0).is_err());
    assert_eq!(brokers.decided(Topic::Changes, 0, 0).len(), 2);
    assert_eq!(brokers.send(a, of_a, &output("too soon")), Err(Refusal::Concurrent));
    assert!(brokers.land(0) && !brokers.land(0));
    assert_eq!((seen(), brokers.committed(0).unwrap()), (vec!["a".to_owned(), "b".to_owned()], at(2)));

    brokers.send(a, of_a, &output("left open")).unwrap();
    brokers.send_position(a, of_a, &at(9)).unwrap();
    assert_eq!(seen().len(), 2);
    let of_heir = brokers.initialise(a);
    assert_eq!(brokers.send(a, of_a, &output("late")), Err(Refusal::Fenced));
    assert_eq!(brokers.end(a, of_a, true, Markers::Now), Err(Refusal::Fenced));
    brokers.send(a, of_heir, &output("c")).unwrap();
    brokers.end(a, of_heir, true, Markers::Now).unwrap();
    assert_eq!((seen(), brokers.committed(0).unwrap()), (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], at(2)));
    brokers.send(a, of_heir, &output("too long")).unwrap();
    assert_eq!((brokers.pass_round(10), brokers.pass_round(1_000)), (0, 1));
    assert_eq!((seen().len(), brokers.end(a, of_heir, true, Markers::Now)), (3, Err(Refusal::Fenced)));
    assert!(brokers.were_timed_out(0));
}

/// A partition is never two members' at once, what stays is not touched, and who is silent loses all.
#[test]
fn the_simulated_group_moves_no_more_than_it_must() {
    let mut group = Group::new(4);
    let first = group.join(0);
    let assigned = |group: &mut Group, id| -> Vec<u32> {
        std::iter::from_fn(|| group.next_turn(id))
            .flat_map(|turn| match turn {
                Turn::Assigned(partitions) => partitions,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(assigned(&mut group, first), [0, 1, 2, 3]);
    let second = group.join(0);
    assert_eq!(group.next_turn(second), None, "nothing is free yet");
    let revoked: Vec<Turn> = std::iter::from_fn(|| group.next_turn(first)).collect();
    assert_eq!(revoked, [Turn::Revoked(vec![2]), Turn::Revoked(vec![3])]);
    group.release(first, 3);
    assert_eq!(assigned(&mut group, second), [3]);
    group.release(first, 2);
    assert_eq!(assigned(&mut group, second), [2]);
    assert!(group.hear_of(second, 100));
    assert_eq!(group.expire(100), 1);
    assert!(!group.hear_of(first, 100) && !group.come_back(first, 100));
    assert_eq!(assigned(&mut group, second), [0, 1]);
    assert!(group.come_back(second, 101));
    assert_eq!(assigned(&mut group, second), [0, 1, 2, 3]);
}
