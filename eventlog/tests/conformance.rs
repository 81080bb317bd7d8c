//! What every log must do, whatever it is made of: one suite, run over the embedded log and the one in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use recant_eventlog::clock::ManualClock;
use recant_eventlog::embedded::EmbeddedLog;
use recant_eventlog::memory::MemoryLog;
use recant_eventlog::{AppendLog, Bounds, Commit, Committed, Epoch, LogError, NewRecord, ProcessLog, ReadLimit, Topic};
use recant_proto::position::Position;
use support::{ALL, INCARNATION, NOW_MS, event, output, read_all, texts};

/// What a log is to the suite. Finding by time is not among the traits; both logs have it.
trait Log: AppendLog + ProcessLog {
    fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError>;
}

impl Log for EmbeddedLog {
    fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        self.find_by_time(partition, log_time_ms)
    }
}

impl Log for MemoryLog {
    fn find_by_time(&self, partition: u32, log_time_ms: i64) -> Result<u64, LogError> {
        self.find_by_time(partition, log_time_ms)
    }
}

macro_rules! conformance {
    ($($case:ident),* $(,)?) => {
        mod embedded {
            $(#[test]
            fn $case() {
                let (log, clock, _dir) = super::support::embedded(3);
                super::$case(&log, &clock);
            })*
        }
        mod memory {
            $(#[test]
            fn $case() {
                let (log, clock, _) = super::support::memory(3);
                super::$case(&log, &clock);
            })*
        }
    };
}

conformance!(
    a_new_log_holds_its_first_records,
    records_come_back_as_they_were_in_order,
    an_append_is_answered_in_its_own_order,
    an_append_is_taken_whole_or_not_at_all,
    reading_stops_at_its_limits_and_returns_at_least_one_record,
    reading_outside_what_is_kept_is_an_error,
    partitions_that_do_not_exist_are_errors,
    time_never_goes_back,
    given_times_are_used_and_never_take_time_back,
    topics_have_times_of_their_own,
    events_are_found_by_time,
    a_commit_publishes_outputs_position_and_metadata,
    only_the_last_to_acquire_can_commit,
    a_commit_that_breaks_a_rule_leaves_nothing,
    epochs_belong_to_a_partition,
);

fn committed(next_offset: u64) -> Committed {
    Committed { next_offset, metadata: format!("up to {next_offset}").into_bytes() }
}

fn at(partition: u32, offset: u64) -> Position {
    Position { partition, offset }
}

fn limit(records_max: usize, bytes_max: usize) -> ReadLimit {
    ReadLimit { records_max, bytes_max }
}

fn a_new_log_holds_its_first_records(log: &impl Log, _: &ManualClock) {
    assert_eq!((log.incarnation(), log.partitions()), (INCARNATION, 3));
    for partition in 0..3 {
        assert_eq!(texts(&read_all(log, Topic::Events, partition)), ["first"]);
        assert_eq!(log.bounds(Topic::Changes, partition).unwrap(), Bounds { earliest: 0, end: 0 });
        assert_eq!(log.read(Topic::Changes, partition, 0, ALL).unwrap(), []);
        assert_eq!(log.committed(partition).unwrap(), Committed::default());
    }
}

fn records_come_back_as_they_were_in_order(log: &impl Log, _: &ManualClock) {
    let headers = vec![("b".to_owned(), vec![0, 255]), ("a".to_owned(), vec![]), ("b".to_owned(), b"again".to_vec())];
    let sent = NewRecord { partition: 1, key: vec![0, 159], headers, value: vec![], append_time_ms: None };
    assert_eq!(log.append(vec![sent.clone(), event(1, [0, 1, 2])]).unwrap(), [at(1, 1), at(1, 2)]);
    let records = read_all(log, Topic::Events, 1);
    let back = &records[1];
    assert_eq!((&back.key, &back.headers, &back.value), (&sent.key, &sent.headers, &sent.value));
    assert_eq!((back.position, back.append_time_ms), (at(1, 1), NOW_MS));
    assert_eq!(records[2].value, [0, 1, 2]);
    log.refresh().unwrap();
    assert_eq!(log.read(Topic::Events, 1, 2, ALL).unwrap(), records[2..]);
}

fn an_append_is_answered_in_its_own_order(log: &impl Log, _: &ManualClock) {
    assert_eq!(log.append(vec![]).unwrap(), []);
    let positions =
        log.append(vec![event(2, "a"), event(0, "b"), event(2, "c"), event(1, "d"), event(0, "e")]).unwrap();
    assert_eq!(positions, [at(2, 1), at(0, 1), at(2, 2), at(1, 1), at(0, 2)]);
    assert_eq!(texts(&read_all(log, Topic::Events, 0)), ["first", "b", "e"]);
    assert_eq!(texts(&read_all(log, Topic::Events, 2)), ["first", "a", "c"]);
}

fn an_append_is_taken_whole_or_not_at_all(log: &impl Log, _: &ManualClock) {
    let refused = log.append(vec![event(0, "a"), event(3, "b"), event(1, "c")]);
    assert!(matches!(refused, Err(LogError::NoPartition(3))));
    for partition in 0..3 {
        assert_eq!(log.bounds(Topic::Events, partition).unwrap().end, 1);
    }
    assert_eq!(log.append(vec![event(0, "d")]).unwrap(), [at(0, 1)]);
}

fn reading_stops_at_its_limits_and_returns_at_least_one_record(log: &impl Log, _: &ManualClock) {
    log.append((0..5).map(|_| event(0, [7; 10])).collect()).unwrap();
    let lengths = |from: u64, limit| log.read(Topic::Events, 0, from, limit).unwrap().len();
    assert_eq!(lengths(1, limit(3, usize::MAX)), 3);
    assert_eq!(lengths(1, limit(0, usize::MAX)), 0);
    assert_eq!(lengths(1, limit(usize::MAX, 0)), 1);
    assert_eq!(lengths(1, limit(usize::MAX, 10)), 1);
    assert_eq!(lengths(1, limit(usize::MAX, 11)), 2);
    assert_eq!(lengths(4, limit(usize::MAX, usize::MAX)), 2);
    assert_eq!(lengths(6, limit(usize::MAX, usize::MAX)), 0);
}

fn reading_outside_what_is_kept_is_an_error(log: &impl Log, _: &ManualClock) {
    let Err(LogError::OutOfRange { partition: 1, offset: 2, bounds }) = log.read(Topic::Events, 1, 2, ALL) else {
        panic!("offset 2 is beyond the end");
    };
    assert_eq!(bounds, Bounds { earliest: 0, end: 1 });
}

fn partitions_that_do_not_exist_are_errors(log: &impl Log, _: &ManualClock) {
    assert!(matches!(log.bounds(Topic::Events, 3), Err(LogError::NoPartition(3))));
    assert!(matches!(log.read(Topic::Events, 3, 0, ALL), Err(LogError::NoPartition(3))));
    assert!(matches!(log.committed(3), Err(LogError::NoPartition(3))));
    assert!(matches!(log.acquire(3), Err(LogError::NoPartition(3))));
    assert!(matches!(log.commit(3, Epoch(1), vec![], committed(0)), Commit::Aborted(_)));
}

fn times(log: &impl Log, topic: Topic) -> Vec<i64> {
    read_all(log, topic, 0).iter().map(|record| record.append_time_ms - NOW_MS).collect()
}

fn time_never_goes_back(log: &impl Log, clock: &ManualClock) {
    for now in [5, 3, -NOW_MS, 6] {
        clock.set(NOW_MS + now);
        log.append(vec![event(0, "a")]).unwrap();
    }
    assert_eq!(times(log, Topic::Events), [0, 5, 5, 5, 6]);
}

fn given_times_are_used_and_never_take_time_back(log: &impl Log, _: &ManualClock) {
    let filled = |time| NewRecord { append_time_ms: Some(NOW_MS + time), ..event(0, "a") };
    log.append(vec![filled(10), filled(-10), filled(20)]).unwrap();
    log.append(vec![event(0, "the clock shows less")]).unwrap();
    assert_eq!(times(log, Topic::Events), [0, 10, 10, 20, 20]);
}

/// A log filled from the past is processed now: what its outputs' times are must not hold back its events' times.
fn topics_have_times_of_their_own(log: &impl Log, clock: &ManualClock) {
    clock.set(NOW_MS + 1_000);
    let (epoch, _) = log.acquire(0).unwrap();
    assert_eq!(log.commit(0, epoch, vec![output(Topic::Changes, "c")], committed(1)), Commit::Committed);
    log.append(vec![NewRecord { append_time_ms: Some(NOW_MS + 10), ..event(0, "a") }]).unwrap();
    assert_eq!((times(log, Topic::Events), times(log, Topic::Changes)), (vec![0, 10], vec![1_000]));
}

fn events_are_found_by_time(log: &impl Log, clock: &ManualClock) {
    for now in [0, 10, 10, 10, 20, 30] {
        clock.set(NOW_MS + now);
        log.append(vec![event(0, "a")]).unwrap();
    }
    let found = [-1, 0, 1, 10, 11, 30, 31].map(|time| log.find_by_time(0, NOW_MS + time).unwrap());
    assert_eq!(found, [0, 0, 2, 2, 5, 6, 7]);
    assert_eq!((log.find_by_time(0, i64::MIN).unwrap(), log.find_by_time(0, i64::MAX).unwrap()), (0, 7));
    assert!(matches!(log.find_by_time(3, 0), Err(LogError::NoPartition(3))));
}

fn a_commit_publishes_outputs_position_and_metadata(log: &impl Log, clock: &ManualClock) {
    log.append(vec![event(1, "a"), event(1, "b")]).unwrap();
    let (epoch, before) = log.acquire(1).unwrap();
    assert_eq!(before, Committed::default());
    clock.advance(7);
    let outputs = [(Topic::Changes, "c"), (Topic::Rejected, "r"), (Topic::Changes, "d")];
    let outputs = outputs.map(|(topic, value)| output(topic, value)).to_vec();
    assert_eq!(log.commit(1, epoch, outputs, committed(2)), Commit::Committed);
    assert_eq!(log.commit(1, epoch, vec![output(Topic::Changes, "e")], committed(3)), Commit::Committed);
    let changes = read_all(log, Topic::Changes, 1);
    assert_eq!(texts(&changes), ["c", "d", "e"]);
    assert_eq!((changes[0].position, changes[0].append_time_ms), (at(1, 0), NOW_MS + 7));
    assert_eq!((&changes[0].key[..], &changes[0].headers[0].0[..]), (&b"space"[..], "ce_id"));
    assert_eq!(texts(&read_all(log, Topic::Rejected, 1)), ["r"]);
    assert_eq!(log.committed(1).unwrap(), committed(3));
    assert_eq!(log.acquire(1).unwrap().1, committed(3));
    assert_eq!(log.bounds(Topic::Changes, 0).unwrap().end, 0);
}

fn only_the_last_to_acquire_can_commit(log: &impl Log, _: &ManualClock) {
    let commit = |epoch| log.commit(0, epoch, vec![output(Topic::Changes, "c")], committed(1));
    assert_eq!(commit(Epoch(0)), Commit::Fenced, "nobody has acquired it");
    let (first, _) = log.acquire(0).unwrap();
    let (second, _) = log.acquire(0).unwrap();
    assert!(second > first);
    assert_eq!(commit(first), Commit::Fenced);
    assert_eq!(commit(Epoch(second.0 + 1)), Commit::Fenced);
    assert_eq!((log.committed(0).unwrap(), log.bounds(Topic::Changes, 0).unwrap().end), (Committed::default(), 0));
    assert_eq!(commit(second), Commit::Committed);
    assert_eq!(commit(first), Commit::Fenced);
    assert_eq!(log.bounds(Topic::Changes, 0).unwrap().end, 1);
}

fn a_commit_that_breaks_a_rule_leaves_nothing(log: &impl Log, _: &ManualClock) {
    log.append(vec![event(0, "a")]).unwrap();
    let (epoch, _) = log.acquire(0).unwrap();
    assert_eq!(log.commit(0, epoch, vec![], committed(1)), Commit::Committed);
    let change = || output(Topic::Changes, "c");
    let broken = [
        (vec![change(), output(Topic::Events, "e")], 2, "events"),
        (vec![change()], 0, "back from 1 to 0"),
        (vec![change()], 3, "beyond the end"),
    ];
    for (outputs, next_offset, reason) in broken {
        let answer = log.commit(0, epoch, outputs, committed(next_offset));
        assert!(matches!(&answer, Commit::Aborted(text) if text.contains(reason)), "{answer:?}");
    }
    assert_eq!(log.bounds(Topic::Events, 0).unwrap().end, 2);
    assert_eq!((log.committed(0).unwrap(), log.bounds(Topic::Changes, 0).unwrap().end), (committed(1), 0));
    // The same position again, with other metadata, breaks none.
    let again = Committed { metadata: b"logic 2".to_vec(), ..committed(1) };
    assert_eq!(log.commit(0, epoch, vec![change()], again.clone()), Commit::Committed);
    assert_eq!(log.committed(0).unwrap(), again);
}

fn epochs_belong_to_a_partition(log: &impl Log, _: &ManualClock) {
    let (zero, _) = log.acquire(0).unwrap();
    for _ in 0..3 {
        log.acquire(1).unwrap();
    }
    assert_eq!(log.commit(0, zero, vec![], committed(1)), Commit::Committed);
    assert_eq!(log.commit(1, zero, vec![], committed(1)), Commit::Fenced);
    assert_eq!(log.commit(2, zero, vec![], committed(1)), Commit::Fenced);
}
