//! Checkpoints are made while a process writes, and wherever a replay begins it comes to the same state: from nothing, and
//! from every checkpoint that is kept. One that is of another history is of no use, and is found out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod table;

use std::{fs, path::Path, sync::Arc};

use recant_eventlog::{ReadLog, clock::ManualClock};
use recant_processor::{
    checkpoints::{self, CHECKPOINT_INTERVAL_EVENTS},
    standalone::{NewEvent, NewLog, Standalone},
    viewer::Viewer,
};
use recant_projections::{fold::digest_of, store::rocks::RocksStore};
use recant_proto::position::Incarnation;
use recant_replayer::replay::{Nobody, Replay, ReplayError};
use recant_tests::generate::BEGIN_MS;
use table::{derived, observed, reinstated, retracted, source};

const BUDGET_BYTES: usize = 1 << 28;

/// A little more than two intervals of beliefs on one source, which is retracted and reinstated now and then.
fn fill(data: &Path, incarnation: Incarnation) {
    let new = NewLog { incarnation, partitions: 1, log_time_occurred: false };
    let mut standalone = Standalone::create(data, &new, Arc::new(ManualClock::new(BEGIN_MS))).unwrap();
    let mut append = |events: Vec<_>| {
        standalone.append(events.iter().map(NewEvent::of).collect()).unwrap();
        standalone.process(&mut |_, _| {}).unwrap();
    };
    append((0..100).map(|at| observed(&format!("O{at}"), &format!("S{}", at % 10))).collect());
    for batch in 0..2 * CHECKPOINT_INTERVAL_EVENTS / 2_000 + 5 {
        let premise = format!("O{}", batch % 100);
        append((0..2_000).map(|at| derived(&format!("B{batch}-{at}"), &[premise.as_str()])).collect());
        if batch % 10 == 3 {
            append(vec![retracted(&format!("r{batch}"), &[source(&format!("S{}", batch % 10))])]);
        }
        if batch % 20 == 9 {
            append(vec![reinstated(&format!("r{}", batch - 6))]);
        }
    }
}

#[test]
fn wherever_a_replay_begins_it_comes_to_the_same_state() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fill(&data, Incarnation([7; 16]));
    let viewer = Viewer::open(&data).unwrap();
    let log = viewer.log();
    let end = log.committed(0).unwrap().next_offset;
    let expected = digest_of(&viewer.state(0).unwrap(), "s").unwrap();

    let kept = checkpoints::kept(&data, 0).unwrap();
    assert!(kept.len() >= 2, "{kept:?}");
    assert!(kept.iter().all(|checkpoint| checkpoint.next_offset >= CHECKPOINT_INTERVAL_EVENTS));
    for (number, begin) in [None].into_iter().chain(kept.iter().map(Some)).enumerate() {
        let scratch = directory.path().join(number.to_string());
        fs::create_dir(&scratch).unwrap();
        if let Some(checkpoint) = begin {
            checkpoints::branch(checkpoint, &scratch).unwrap();
        }
        let store = RocksStore::open(&scratch).unwrap();
        let mut replay = Replay::over(log, 0, store, BUDGET_BYTES, &|_| {}).unwrap();
        assert_eq!(replay.next_offset(), begin.map_or(0, |checkpoint| checkpoint.next_offset));
        replay.up_to(end, &mut Nobody).unwrap();
        assert_eq!(digest_of(replay.partition().stored(), "s").unwrap(), expected, "from {begin:?}");
        assert_eq!(replay.partition().outputs_hash(), log.committed(0).unwrap().metadata);
    }

    // The state of one log is nothing to begin with in another, though they are of the same length.
    let other = directory.path().join("other");
    fill(&other, Incarnation([8; 16]));
    let other = Viewer::open(&other).unwrap();
    let store = RocksStore::open(&directory.path().join("1")).unwrap();
    let refused = Replay::over(other.log(), 0, store, BUDGET_BYTES, &|_| {}).map(|_| ());
    assert!(matches!(refused, Err(ReplayError::Fold(_))), "{refused:?}");
}
