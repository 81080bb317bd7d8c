//! The embedded log among processes: killed at any moment, followed from elsewhere, refused to a second writer, and on a
//! disk that fails. The other process is this test binary, run again with a role in its environment.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and its child prints"
)]

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use recant_eventlog::clock::SystemClock;
use recant_eventlog::embedded::{CreateOptions, EmbeddedLog, Follower, WriterOptions};
use recant_eventlog::{AppendLog, Commit, Committed, LogError, ProcessLog, ReadLimit, ReadLog, Record, Topic};
use support::{ALL, event, options, output, read_all, reopen, texts};

const PARTITIONS: u32 = 2;
const THREADS: u32 = 4;
const OUTPUTS_EACH: u64 = 2;

/// Moments that differ from round to round and are the same in every run.
struct Moments(u64);

impl Moments {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

// ---- The child. ----

/// Does nothing unless a test has started this binary again as its child.
#[test]
fn child() {
    let Ok(role) = std::env::var("RECANT_TEST_ROLE") else { return };
    let dir = std::env::var("RECANT_TEST_DIR").unwrap();
    let (dir, run) = (Path::new(&dir), std::env::var("RECANT_TEST_RUN").unwrap());
    println!();
    match role.as_str() {
        "create" => drop(EmbeddedLog::create(dir, many_small_tables(), Arc::new(SystemClock)).unwrap()),
        "hold" => {
            let _log = reopen(dir).unwrap();
            println!("holding");
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        "write" => write_and_process(dir, &run, u32::MAX),
        "write some" => write_and_process(dir, &run, 500),
        "fill the disk" => fill_the_disk(dir),
        other => panic!("no role {other}"),
    }
}

/// Write buffers so small that tables are flushed and compacted all the time.
fn many_small_tables() -> CreateOptions {
    CreateOptions { writer: small_buffers(), ..options(PARTITIONS) }
}

fn small_buffers() -> WriterOptions {
    WriterOptions { write_buffer_bytes: 64 << 10, ..WriterOptions::default() }
}

/// Appends from several threads and processes what they append, printing each acknowledgement once it has it.
fn write_and_process(dir: &Path, run: &str, each: u32) {
    let log = &EmbeddedLog::open_with(dir, small_buffers(), Arc::new(SystemClock)).unwrap();
    let appended_each = u64::from(THREADS / PARTITIONS) * u64::from(each);
    let ends = [0, 1].map(|partition| log.bounds(Topic::Events, partition).unwrap().end.saturating_add(appended_each));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for number in 0..each {
                    let value = format!("{run}/{thread}/{number}");
                    // The rest makes the tables fill.
                    let padded = format!("{value} {}", "x".repeat(500));
                    let position = log.append(vec![event(thread % PARTITIONS, padded)]).unwrap()[0];
                    println!("acknowledged {position} {value}");
                }
            });
        }
        for (partition, end) in (0..PARTITIONS).zip(ends) {
            scope.spawn(move || process(log, partition, end));
        }
    });
}

/// Two outputs for each event, in commits of as many events as there are, until this end.
fn process(log: &EmbeddedLog, partition: u32, end: u64) {
    let (epoch, mut committed) = log.acquire(partition).unwrap();
    while committed.next_offset < end {
        let limit = ReadLimit { records_max: 50, bytes_max: 1 << 20 };
        let events = log.read(Topic::Events, partition, committed.next_offset, limit).unwrap();
        if events.is_empty() {
            std::thread::yield_now();
            continue;
        }
        let outputs = events.iter().flat_map(|event| {
            (0..OUTPUTS_EACH).map(|index| output(Topic::Changes, format!("{}#{index}", event.position.offset)))
        });
        let next_offset = committed.next_offset + events.len() as u64;
        committed = Committed { next_offset, metadata: next_offset.to_string().into_bytes() };
        assert_eq!(log.commit(partition, epoch, outputs.collect(), committed.clone()), Commit::Committed);
        println!("committed {partition}:{next_offset} -");
    }
}

/// Appends until a write fails; then nothing more may be taken, and reading goes on.
fn fill_the_disk(dir: &Path) {
    let log = reopen(dir).unwrap();
    let (epoch, _) = log.acquire(0).unwrap();
    let failure = loop {
        match log.append(vec![event(0, [b'x'; 4_000])]) {
            Ok(positions) => println!("acknowledged {} -", positions[0]),
            Err(error) => break error,
        }
    };
    assert!(matches!(failure, LogError::NoRoom(_)), "{failure}");
    assert_eq!(log.counters().sync_failures, 1);
    assert!(matches!(log.append(vec![event(0, "more")]), Err(LogError::NotAccepting(_))));
    assert!(matches!(log.acquire(0), Err(LogError::NotAccepting(_))));
    assert!(matches!(log.commit(0, epoch, vec![], Committed::default()), Commit::Aborted(_)));
    let readable = read_all(&log, Topic::Events, 0).len();
    println!("stopped 0:{readable} -");
}

// ---- The parent. ----

struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

/// What a child printed: a word, a position, and a value.
#[derive(Debug)]
struct Told {
    word: String,
    partition: u32,
    offset: u64,
    value: String,
}

fn command(role: &str, dir: &Path, run: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]);
    configured(command, role, dir, run)
}

fn configured(mut command: Command, role: &str, dir: &Path, run: u64) -> Command {
    command.env("RECANT_TEST_ROLE", role).env("RECANT_TEST_DIR", dir).env("RECANT_TEST_RUN", run.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { child, lines }
    }

    /// The next thing that it says; nothing once it has ended.
    fn next(&mut self) -> Option<Told> {
        self.lines.by_ref().map(Result::unwrap).find_map(|line| {
            let mut words = line.split(' ');
            let word = words.next().filter(|word| ["acknowledged", "committed", "stopped"].contains(word))?;
            let (partition, offset) = words.next()?.split_once(':')?;
            let (partition, offset) = (partition.parse().unwrap(), offset.parse().unwrap());
            Some(Told { word: word.to_owned(), partition, offset, value: words.next()?.to_owned() })
        })
    }

    /// SIGKILL, and what it had said before.
    fn kill(mut self) -> Vec<Told> {
        self.child.kill().unwrap();
        let rest = std::iter::from_fn(|| self.next()).collect();
        self.child.wait().unwrap();
        rest
    }

    fn succeeds(mut self) -> Vec<Told> {
        let rest = std::iter::from_fn(|| self.next()).collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

fn created() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    EmbeddedLog::create(dir.path(), many_small_tables(), Arc::new(SystemClock)).unwrap();
    dir
}

/// What a thread of a run appended, without what pads it.
fn short(record: &Record) -> &str {
    texts(std::slice::from_ref(record))[0].split(' ').next().unwrap()
}

/// Everything that every reader of such a log must find, at any moment: no gap, no duplicate, each thread's order, and as
/// many outputs as the committed position says.
fn check_whole(log: &impl ReadLog) {
    for partition in 0..PARTITIONS {
        let mut next_of_thread: HashMap<String, u64> = HashMap::new();
        for record in &read_all(log, Topic::Events, partition)[1..] {
            let (thread, number) = short(record).rsplit_once('/').unwrap();
            let next = next_of_thread.entry(thread.to_owned()).or_default();
            assert_eq!(number.parse(), Ok(*next), "{thread} in partition {partition}");
            *next += 1;
        }
        let committed = log.committed(partition).unwrap();
        let changes = read_all(log, Topic::Changes, partition);
        let expected: Vec<_> = (0..committed.next_offset)
            .flat_map(|offset| (0..OUTPUTS_EACH).map(move |index| format!("{offset}#{index}")))
            .collect();
        assert_eq!(texts(&changes), expected);
        if committed != Committed::default() {
            assert_eq!(committed.metadata, committed.next_offset.to_string().into_bytes());
        }
    }
}

/// DESIGN 6: an acknowledged append is on disk, and a commit is whole or not there.
#[test]
fn killed_at_20_moments_nothing_acknowledged_is_missing_or_doubled() {
    let dir = created();
    let mut moments = Moments(1);
    for run in 0..20 {
        let mut running = Running::start(command("write", dir.path(), run));
        let count = 1 + moments.below(400);
        let mut told: Vec<_> = (0..count).map(|_| running.next().unwrap()).collect();
        std::thread::sleep(Duration::from_micros(moments.below(2_000)));
        told.extend(running.kill());

        let log = reopen(dir.path()).unwrap();
        check_whole(&log);
        let events: Vec<_> = (0..PARTITIONS).map(|partition| read_all(&log, Topic::Events, partition)).collect();
        for Told { word, partition, offset, value } in told {
            match word.as_str() {
                "acknowledged" => assert_eq!(short(&events[partition as usize][offset as usize]), value),
                _ => assert!(log.committed(partition).unwrap().next_offset >= offset),
            }
        }
    }
}

/// A creation is whole, or counts as not begun and can be repeated.
#[test]
fn killed_while_it_is_created_it_is_a_whole_log_or_none() {
    let mut moments = Moments(2);
    let mut whole = 0;
    for run in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let running = Running::start(command("create", dir.path(), run));
        std::thread::sleep(Duration::from_micros(moments.below(40_000)));
        running.kill();
        let log = match reopen(dir.path()) {
            Ok(log) => {
                whole += 1;
                log
            }
            Err(LogError::Absent(_)) => {
                EmbeddedLog::create(dir.path(), options(PARTITIONS), Arc::new(SystemClock)).unwrap()
            }
            Err(error) => panic!("run {run}: {error}"),
        };
        for partition in 0..PARTITIONS {
            assert_eq!(texts(&read_all(&log, Topic::Events, partition)), ["first"]);
        }
    }
    println!("{whole} of 20 were whole");
}

/// A reader in another process loses nothing while the writer flushes, compacts, is killed and starts again.
#[test]
fn a_follower_sees_every_record_across_the_writers_deaths() {
    let dir = created();
    let follower = Follower::open(dir.path()).unwrap();
    let mut seen: Vec<Vec<Record>> = vec![Vec::new(); PARTITIONS as usize];
    let mut catch_up = |follower: &Follower| {
        follower.refresh().unwrap();
        for (partition, seen) in (0..PARTITIONS).zip(&mut seen) {
            // `read` itself fails where a record is missing.
            let more = follower.read(Topic::Events, partition, seen.len() as u64, ALL).unwrap();
            seen.extend(more);
            let next_offset = follower.committed(partition).unwrap().next_offset;
            assert_eq!(follower.bounds(Topic::Changes, partition).unwrap().end, next_offset * OUTPUTS_EACH);
            assert!(next_offset <= seen.len() as u64, "a commit is never seen before its events");
        }
    };
    for run in 0..4 {
        let mut running = Running::start(command("write", dir.path(), run));
        for heard in 0..2_000 {
            running.next().unwrap();
            if heard % 20 == 0 {
                catch_up(&follower);
            }
        }
        running.kill();
        catch_up(&follower);
        // One that begins now finds the same.
        check_whole(&Follower::open(dir.path()).unwrap());
    }
    Running::start(command("write some", dir.path(), 4)).succeeds();
    catch_up(&follower);
    check_whole(&follower);
    let log = reopen(dir.path()).unwrap();
    for (partition, seen) in (0..PARTITIONS).zip(&seen) {
        assert_eq!(seen, &read_all(&log, Topic::Events, partition));
    }
}

#[test]
fn a_second_writer_is_told_who_has_the_log_until_that_one_is_killed() {
    let dir = created();
    let mut running = Running::start(command("hold", dir.path(), 0));
    assert!(running.lines.by_ref().any(|line| line.unwrap() == "holding"));
    let refused = reopen(dir.path()).unwrap_err().to_string();
    let pid = running.child.id();
    assert!(refused.contains(&format!("pid {pid},")) && refused.contains("--exact child"), "{refused}");
    running.kill();
    assert!(dir.path().join("writer").exists(), "it had no time to tidy up");
    reopen(dir.path()).unwrap();
    assert!(!dir.path().join("writer").exists());
}

/// Files may grow to 2 MiB only, so that a write fails as on a full disk.
#[test]
fn when_a_write_fails_the_log_stops_and_keeps_what_it_acknowledged() {
    let dir = created();
    let mut shell = Command::new("sh");
    // The shell counts in blocks of 512 bytes, and the signal would end the process where the error should reach it.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" --exact child --nocapture"]);
    shell.arg(std::env::current_exe().unwrap());
    let told = Running::start(configured(shell, "fill the disk", dir.path(), 0)).succeeds();
    let acknowledged: Vec<_> = told.iter().filter(|told| told.word == "acknowledged").map(|told| told.offset).collect();
    let readable = told.iter().find(|told| told.word == "stopped").unwrap().offset;
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    assert_eq!(acknowledged, (1..readable).collect::<Vec<_>>(), "only what was acknowledged was shown");

    let log = reopen(dir.path()).unwrap();
    let end = log.bounds(Topic::Events, 0).unwrap().end;
    assert!(end == readable || end == readable + 1, "the one that failed is there or not: {end}, {readable}");
    assert_eq!(log.append(vec![event(0, "goes on")]).unwrap()[0].offset, end);
    assert_eq!(read_all(&log, Topic::Events, 0).len() as u64, end + 1);
}
