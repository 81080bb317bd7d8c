//! What the embedded log promises beyond what every log does: it is on disk, has one writer, groups its writes, and does
//! not lose records without saying so.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use recant_eventlog::clock::ManualClock;
use recant_eventlog::embedded::{CreateOptions, EmbeddedLog, Follower, WriterOptions};
use recant_eventlog::{AppendLog, Clock, Commit, Committed, LogError, ProcessLog, ReadLog, Topic};
use support::{INCARNATION, NOW_MS, embedded, event, options, output, read_all, reopen, texts};

fn create(dir: &Path, options: CreateOptions) -> Result<EmbeddedLog, LogError> {
    EmbeddedLog::create(dir, options, Arc::new(ManualClock::new(NOW_MS)))
}

#[test]
fn everything_is_there_again_after_reopening() {
    let (log, clock, dir) = embedded(2);
    clock.set(NOW_MS + 50);
    log.append(vec![event(1, "a"), event(1, "b")]).unwrap();
    let (epoch, _) = log.acquire(1).unwrap();
    let committed = Committed { next_offset: 2, metadata: b"hash".to_vec() };
    assert_eq!(log.commit(1, epoch, vec![output(Topic::Changes, "c")], committed.clone()), Commit::Committed);
    drop(log);

    // This clock shows less than the last record's time.
    let log = reopen(dir.path()).unwrap();
    assert_eq!((log.incarnation(), log.partitions()), (INCARNATION, 2));
    log.append(vec![event(1, "d")]).unwrap();
    let events = read_all(&log, Topic::Events, 1);
    assert_eq!(texts(&events), ["first", "a", "b", "d"]);
    assert_eq!(events[3].append_time_ms, NOW_MS + 50, "time does not go back");
    assert_eq!(texts(&read_all(&log, Topic::Changes, 1)), ["c"]);
    assert_eq!(log.committed(1).unwrap(), committed);
    let (later, _) = log.acquire(1).unwrap();
    assert!(later > epoch);
    assert_eq!(log.commit(1, epoch, vec![], committed), Commit::Fenced, "epochs outlive the process");
}

#[test]
fn where_there_is_no_log_it_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for path in [dir.path(), &missing] {
        assert!(matches!(reopen(path), Err(LogError::Absent(_))));
        assert!(matches!(Follower::open(path), Err(LogError::Absent(_))));
    }
    assert!(!missing.exists(), "asking makes nothing");
}

#[test]
fn a_log_is_not_created_over_another() {
    let (log, _, dir) = embedded(1);
    assert!(matches!(create(dir.path(), options(1)), Err(LogError::Held { .. })));
    drop(log);
    assert!(matches!(create(dir.path(), options(1)), Err(LogError::Format(text)) if text.contains("already")));
    assert_eq!(texts(&read_all(&reopen(dir.path()).unwrap(), Topic::Events, 0)), ["first"]);
}

#[test]
fn a_log_that_cannot_be_is_not_begun() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(create(dir.path(), options(0)), Err(LogError::Format(_))));
    let elsewhere = CreateOptions { first_records: vec![event(1, "first")], ..options(1) };
    assert!(matches!(create(dir.path(), elsewhere), Err(LogError::NoPartition(1))));
    assert!(create(dir.path(), options(1)).is_ok());
}

#[test]
fn a_second_writer_in_this_process_is_refused_and_told_so() {
    let (_log, _, dir) = embedded(1);
    let refused = reopen(dir.path()).unwrap_err();
    let LogError::Held { holder, .. } = &refused else { panic!("{refused}") };
    assert!(holder.contains(&format!("pid {},", std::process::id())), "{holder}");
}

#[test]
fn a_follower_sees_what_was_written_when_it_asks() {
    let (log, _, dir) = embedded(1);
    let follower = Follower::open(dir.path()).unwrap();
    assert_eq!((follower.incarnation(), follower.partitions()), (INCARNATION, 1));
    log.append(vec![event(0, "a")]).unwrap();
    assert_eq!(texts(&read_all(&follower, Topic::Events, 0)), ["first"]);
    follower.refresh().unwrap();
    assert_eq!(texts(&read_all(&follower, Topic::Events, 0)), ["first", "a"]);
    assert_eq!(follower.find_by_time(0, NOW_MS + 1).unwrap(), 2);
    assert!(matches!(follower.bounds(Topic::Events, 1), Err(LogError::NoPartition(1))));
    let (epoch, _) = log.acquire(0).unwrap();
    let committed = Committed { next_offset: 2, metadata: vec![7] };
    log.commit(0, epoch, vec![output(Topic::Changes, "c")], committed.clone());
    follower.refresh().unwrap();
    assert_eq!(follower.committed(0).unwrap(), committed);
    assert_eq!(texts(&read_all(&follower, Topic::Changes, 0)), ["c"]);
}

/// A cursor of one log means nothing in another, even if it lies in the same place.
#[test]
fn a_follower_does_not_slip_into_another_log_that_took_the_place_of_its_own() {
    let (log, _, dir) = embedded(1);
    let follower = Follower::open(dir.path()).unwrap();
    drop(log);
    fs::remove_dir_all(dir.path()).unwrap();
    assert!(matches!(follower.refresh(), Err(LogError::Absent(_))));
    let _other = create(dir.path(), options(1)).unwrap();
    assert!(matches!(follower.refresh(), Err(LogError::Format(_))));
}

/// Group commit must neither lose, double nor reorder what one thread appends.
#[test]
fn many_threads_at_once_each_keep_their_order() {
    const THREADS: usize = 32;
    const EACH: usize = 100;
    let (log, _, dir) = embedded(2);
    let acknowledged: Vec<Vec<_>> = std::thread::scope(|scope| {
        let append = |thread: usize| {
            let log = &log;
            let one = move |number: usize| {
                let value = format!("{thread}:{number}");
                let position = log.append(vec![event(thread as u32 % 2, value.clone())]).unwrap()[0];
                (position, value)
            };
            scope.spawn(move || (0..EACH).map(one).collect())
        };
        let threads: Vec<_> = (0..THREADS).map(append).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let counters = log.counters();
    assert_eq!((counters.records, counters.queue_depth, counters.sync_failures), ((THREADS * EACH) as u64, 0, 0));
    drop(log);

    let log = reopen(dir.path()).unwrap();
    let mut expected: Vec<_> = acknowledged.iter().flatten().cloned().collect();
    expected.sort();
    let mut found = Vec::new();
    for partition in 0..2 {
        let records = read_all(&log, Topic::Events, partition).into_iter().skip(1);
        found.extend(records.map(|record| (record.position, String::from_utf8(record.value).unwrap())));
    }
    assert_eq!(found, expected);
    for thread in acknowledged {
        assert!(thread.is_sorted_by_key(|(position, _)| *position), "each thread's own order");
    }
}

/// A clock that makes the committer wait, so that what queues up behind it is known.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    asked: Mutex<u32>,
}

impl Gate {
    fn set_open(&self, open: bool) {
        *self.open.lock().unwrap() = open;
        self.opened.notify_all();
    }

    fn wait_until(&self, mut done: impl FnMut(&Self) -> bool) {
        while !done(self) {
            std::thread::yield_now();
        }
    }
}

impl Clock for Gate {
    fn now_ms(&self) -> i64 {
        *self.asked.lock().unwrap() += 1;
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        NOW_MS
    }
}

fn gated(writer: WriterOptions) -> (EmbeddedLog, Arc<Gate>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    gate.set_open(true);
    let log = EmbeddedLog::create(dir.path(), CreateOptions { writer, ..options(1) }, gate.clone()).unwrap();
    gate.set_open(false);
    *gate.asked.lock().unwrap() = 0;
    (log, gate, dir)
}

#[test]
fn what_is_queued_shares_one_write_up_to_the_bound() {
    let (log, gate, _dir) = gated(WriterOptions { batch_records_max: 8, ..WriterOptions::default() });
    std::thread::scope(|scope| {
        scope.spawn(|| log.append(vec![event(0, "alone")]).unwrap());
        gate.wait_until(|gate| *gate.asked.lock().unwrap() == 1);
        for _ in 0..20 {
            scope.spawn(|| log.append(vec![event(0, "with others")]).unwrap());
        }
        gate.wait_until(|_| log.counters().queue_depth == 20);
        gate.set_open(true);
    });
    // The waiting one takes 7 of the 20 with it, then come 8, then 5.
    assert_eq!((log.counters().batches, log.counters().records), (3, 21));
}

#[test]
fn when_the_queue_stays_full_the_caller_is_told() {
    let queue_wait_max = Duration::from_millis(1);
    let (log, gate, _dir) = gated(WriterOptions { queue_requests_max: 1, queue_wait_max, ..WriterOptions::default() });
    std::thread::scope(|scope| {
        scope.spawn(|| log.append(vec![event(0, "taken")]).unwrap());
        gate.wait_until(|gate| *gate.asked.lock().unwrap() == 1);
        scope.spawn(|| log.append(vec![event(0, "queued")]).unwrap());
        gate.wait_until(|_| log.counters().queue_depth == 1);
        assert!(matches!(log.append(vec![event(0, "refused")]), Err(LogError::NotAccepting(_))));
        gate.set_open(true);
    });
    assert_eq!(log.counters().queue_refusals, 1);
    assert_eq!(texts(&read_all(&log, Topic::Events, 0)), ["first", "taken", "queued"]);
}

#[test]
fn a_call_over_its_bound_is_refused_whole_and_harms_nothing() {
    let writer = WriterOptions { request_bytes_max: 2_000, ..WriterOptions::default() };
    let dir = tempfile::tempdir().unwrap();
    let log = create(dir.path(), CreateOptions { writer, ..options(1) }).unwrap();
    let refused = log.append(vec![event(0, [0; 1_000]), event(0, [0; 1_000])]);
    assert!(matches!(refused, Err(LogError::TooLarge { bytes_max: 2_000, .. })));
    let (epoch, _) = log.acquire(0).unwrap();
    let answer = log.commit(0, epoch, vec![output(Topic::Changes, [0; 2_000])], Committed::default());
    assert!(matches!(answer, Commit::Aborted(_)));
    assert_eq!(log.append(vec![event(0, [0; 1_000])]).unwrap()[0].offset, 1);
}

fn write_ahead_log(dir: &Path) -> PathBuf {
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    let logs = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(is_log);
    logs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

fn log_with_50_appends() -> tempfile::TempDir {
    let (log, _, dir) = embedded(1);
    for number in 0..50 {
        log.append(vec![event(0, format!("record {number}"))]).unwrap();
    }
    dir
}

/// A flipped byte in the middle must not silently end the log there: what follows was acknowledged.
#[test]
fn a_damaged_middle_is_an_error() {
    let dir = log_with_50_appends();
    let path = write_ahead_log(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(reopen(dir.path()), Err(LogError::DamagedFiles { .. })));
    assert!(matches!(Follower::open(dir.path()), Err(LogError::DamagedFiles { .. })));
}

/// A torn end is what a crash in the midst of a write leaves; that write was not acknowledged.
#[test]
fn a_torn_end_is_cut_off() {
    let (log, _, dir) = embedded(1);
    for number in 0..50 {
        log.append(vec![event(0, format!("record {number}"))]).unwrap();
    }
    let sealed = fs::read(dir.path().join("seal")).unwrap();
    log.append(vec![event(0, "torn")]).unwrap();
    drop(log);
    // As if the machine had failed in the midst of the last write.
    fs::write(dir.path().join("seal"), sealed).unwrap();
    cut(&write_ahead_log(dir.path()), 3);

    assert_eq!(texts(&read_all(&Follower::open(dir.path()).unwrap(), Topic::Events, 0)).len(), 51);
    let log = reopen(dir.path()).unwrap();
    assert_eq!(log.append(vec![event(0, "next")]).unwrap()[0].offset, 51);
    assert_eq!(texts(&read_all(&log, Topic::Events, 0))[48..], ["record 47", "record 48", "record 49", "next"]);
}

fn cut(path: &Path, bytes: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

/// What was acknowledged is on disk; where it is gone, that is told rather than taken for a torn end.
#[test]
fn an_end_that_was_acknowledged_and_is_gone_is_an_error() {
    let whole = log_with_50_appends();
    let bytes = fs::read(write_ahead_log(whole.path())).unwrap();
    // RocksDB's records: a checksum of four bytes, the length, u16 little endian, a type.
    let first_length_high = 5;
    for damage in ["cut by 1", "cut by 100", "empty", "missing", "a length that runs over the end"] {
        let dir = log_with_50_appends();
        let path = write_ahead_log(dir.path());
        match damage {
            "cut by 1" => cut(&path, 1),
            "cut by 100" => cut(&path, 100),
            "empty" => cut(&path, bytes.len() as u64),
            "missing" => fs::remove_file(&path).unwrap(),
            _ => {
                let mut bytes = bytes.clone();
                bytes[first_length_high] ^= 0x40;
                fs::write(&path, bytes).unwrap();
            }
        }
        let refusals = [
            Follower::open(dir.path()).map(|_| ()),
            reopen(dir.path()).map(|_| ()),
            create(dir.path(), options(1)).map(|_| ()),
        ];
        for refusal in refusals {
            assert!(matches!(refusal, Err(LogError::DamagedFiles { .. })), "{damage}: {refusal:?}");
        }
    }
}

/// Without CURRENT, RocksDB would make a new database over the old one.
#[test]
fn a_log_that_lost_its_current_is_not_made_anew() {
    let dir = log_with_50_appends();
    fs::remove_file(dir.path().join("CURRENT")).unwrap();
    for _ in 0..2 {
        assert!(matches!(reopen(dir.path()), Err(LogError::DamagedFiles { .. })));
        assert!(matches!(create(dir.path(), options(1)), Err(LogError::DamagedFiles { .. })));
    }
    assert!(!dir.path().join("CURRENT").exists());
}

/// An older log has no seal, and a machine may fail while one is written.
#[test]
fn a_log_without_its_seal_opens_and_is_sealed_again() {
    for left in [None, Some("torn")] {
        let dir = log_with_50_appends();
        let seal = dir.path().join("seal");
        match left {
            None => fs::remove_file(&seal).unwrap(),
            Some(text) => fs::write(&seal, text).unwrap(),
        }
        let log = reopen(dir.path()).unwrap();
        log.append(vec![event(0, "next")]).unwrap();
        drop(log);
        cut(&write_ahead_log(dir.path()), 1);
        assert!(matches!(reopen(dir.path()), Err(LogError::DamagedFiles { .. })), "{left:?}");
    }
}
