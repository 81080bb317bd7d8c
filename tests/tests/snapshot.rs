//! Snapshots: what they hold is of one moment, also beside a writer; what was killed never looks whole; what was damaged is
//! never restored; and what was restored goes on as if nothing had been.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it did"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use recant_eventlog::{
    AppendLog, Clock, NewRecord, ReadLimit, ReadLog, Topic,
    clock::{ManualClock, SystemClock},
    embedded::{CreateOptions, EmbeddedLog, Follower, WriterOptions},
};
use recant_processor::{
    backup,
    standalone::{NewEvent, NewLog, Standalone},
};
use recant_proto::{position::Incarnation, wire};
use recant_tests::binary::{Desk, Random, copy_directory, files, items, number, run, story, text};
use serde_json::{Value, json};

fn argument(path: &Path) -> String {
    path.to_str().expect("paths on a desk are text").to_owned()
}

/// Everything that a directory answers, of all spaces.
fn answers(desk: &Desk, data: &Path) -> BTreeMap<String, Value> {
    let data = argument(data);
    let ask = |arguments: &[&str]| desk.json([arguments, &["--data", &data]].concat());
    let spaces = ask(&["list", "--spaces"]);
    let mut found = BTreeMap::from([("spaces".to_owned(), spaces.clone())]);
    for space in items(&spaces).iter().map(|space| text(&space["space"])).filter(|space| *space != "recant.control") {
        for what in [&["list", "--limit", "100000"][..], &["list", "--sources"], &["list", "--retractions"]] {
            found.insert(format!("{space} {what:?}"), ask(&[what, &["--space", space]].concat()));
        }
        let changes = ["watch", "--from", "earliest", "--until-caught-up", "--json", "--space", space, "--data", &data];
        found.insert(format!("{space} changes"), json!(desk.done(changes)));
    }
    found
}

/// Names beside a path that begin like it: itself, and what was not finished.
fn beside(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|found| found.starts_with(name));
    names
}

/// The story in three spaces of a log with four partitions, with a retraction in one.
fn told() -> Desk {
    let desk = Desk::new();
    let events = desk.lines("story.jsonl", &story::events());
    for space in ["default", "acme", "tenant-42"] {
        desk.done(["append", &events, "--partitions", "4", "--space", space]);
    }
    desk.done(["retract", "--source", "web:portal", "--id", "r-1", "--space", "acme"]);
    desk
}

#[test]
fn what_is_restored_answers_as_before_and_goes_on() {
    let desk = told();
    let before = answers(&desk, &desk.path("data"));
    let was = files(&desk.path("data"));
    let snapshot = argument(&desk.path("backups/monday"));
    let made = desk.json(["snapshot", &snapshot]);
    assert_eq!(files(&desk.path("data")), was, "a snapshot changes nothing in the data directory");
    assert_eq!(made["partitions"].as_array().unwrap().len(), 4);
    assert_eq!(made["snapshot"], snapshot.as_str());
    assert!(number(&made["files"]) > 4 && number(&made["bytes"]) > 0, "{made}");
    assert_eq!(beside(Path::new(&snapshot)), ["monday"]);

    // Another machine: of the old directory nothing is left.
    fs::rename(desk.path("data"), desk.path("lost")).unwrap();
    let verified = desk.json(["restore", &snapshot, "--verify-only"]);
    assert_eq!(verified["partitions"], made["partitions"]);
    assert!(!desk.path("data").exists(), "verifying writes nothing");
    let restored = desk.json(["restore", &snapshot]);
    assert_eq!(restored["data"], argument(&desk.path("data")).as_str());
    assert_eq!(answers(&desk, &desk.path("data")), before);

    // The log goes on at the next offset, and a cursor from before resumes with what comes.
    let page = desk.json(["list", "--space", "acme"]);
    let reinstated = desk.json(["reinstate", "r-1", "--space", "acme"]);
    let offset = |position: &Value| text(position).split(':').nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(offset(&reinstated["position"]), offset(&page["position"]) + 1);
    let cursor = text(&page["cursor"]);
    let resumed = desk.done(["watch", "--from", cursor, "--until-caught-up", "--json", "--space", "acme"]);
    assert_eq!(resumed.lines().count(), story::FALLEN.len() + 1, "{resumed}");
    desk.done(["doctor"]);
    // The snapshot is still what it was.
    desk.done(["restore", &snapshot, "--verify-only"]);
}

/// The events of a file that `append` takes seconds for.
fn many_events(count: usize) -> Vec<Value> {
    let mut events = Vec::with_capacity(count);
    for number in 0..count {
        events.push(match number % 4 {
            0 => story::observed(&format!("o-{number}"), &format!("web:{}", number % 97), &"words ".repeat(20)),
            1 => story::derived(&format!("b-{number}"), "belief", &[&format!("o-{}", number - 1)]),
            2 => story::derived(&format!("b-{number}"), "belief", &[&format!("b-{}", number - 1)]),
            // Some of what came falls, and publishes.
            _ if number % 100 == 3 => story::retracted(&format!("r-{number}"), &format!("web:{}", number % 97)),
            _ => story::action(&format!("a-{number}"), None, &[&format!("b-{}", number - 1)]),
        });
    }
    events
}

/// Snapshots beside a writer: of each, the state is that of the events that the log holds, by an undisturbed run of those.
#[test]
fn beside_a_writer_each_snapshot_is_of_one_moment() {
    let desk = Desk::new();
    let events = many_events(60_000);
    let file = desk.lines("many.jsonl", &events);
    let mut writer = desk.command(["append", &file]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !desk.path("data/state/0/CURRENT").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut taken = Vec::new();
    let mut beside_writer = 0;
    loop {
        let has_ended = writer.try_wait().unwrap().is_some();
        let to = desk.path(&format!("snapshot-{}", taken.len()));
        let made = desk.json(["snapshot", &argument(&to)]);
        beside_writer += usize::from(!has_ended && writer.try_wait().unwrap().is_none());
        taken.push((to, number(&made["partitions"][0]["events"]["end"])));
        if has_ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{} snapshots, {beside_writer} beside the writer: ends {:?}", taken.len(), ends(&taken));
    assert!(beside_writer >= 1, "the writer had ended before the first snapshot");
    assert!(ends(&taken).is_sorted());
    assert_eq!(taken.last().unwrap().1, events.len() as u64 + 1);
    for (snapshot, _) in &taken {
        desk.done(["restore", &argument(snapshot), "--verify-only"]);
    }
    // The first, one in the middle and the last, all the way.
    for index in [0, taken.len() / 2, taken.len() - 1] {
        let (snapshot, end) = &taken[index];
        let data = argument(&desk.path(&format!("restored-{index}")));
        desk.done(["restore", &argument(snapshot), "--data", &data]);
        // Whoever writes folds the state forward to the end of the log.
        let nothing = desk.file("nothing.jsonl", "");
        desk.done(["append", &nothing, "--data", &data]);
        desk.done(["doctor", "--data", &data]);
        let undisturbed = argument(&desk.path(&format!("undisturbed-{index}")));
        let prefix = desk.lines("prefix.jsonl", &events[..*end as usize - 1]);
        desk.done(["append", &prefix, "--data", &undisturbed]);
        let spaces = |data: &str| desk.json(["list", "--spaces", "--data", data])["items"].clone();
        assert_eq!(spaces(&data), spaces(&undisturbed), "snapshot {index} at {end}");
    }
}

fn ends(taken: &[(PathBuf, u64)]) -> Vec<u64> {
    taken.iter().map(|(_, end)| *end).collect()
}

/// kill -9 while a snapshot is made, and while one is restored: either nothing has the name, or all of it.
#[test]
fn a_killed_snapshot_or_restore_never_looks_whole() {
    let desk = Desk::new();
    desk.append(&many_events(20_000));
    let whole = argument(&desk.path("whole"));
    let begun = Instant::now();
    desk.done(["snapshot", &whole]);
    let snapshot_takes = begun.elapsed();
    let begun = Instant::now();
    desk.done(["restore", &whole, "--data", &argument(&desk.path("restored"))]);
    let restore_takes = begun.elapsed();
    let mut random = Random(0x5eed_0042);
    let mut outcomes = BTreeMap::new();
    for round in 0..30 {
        let to = argument(&desk.path(&format!("killed-{round}")));
        let (takes, arguments) = if round % 2 == 0 {
            (snapshot_takes, vec!["snapshot", &to])
        } else {
            (restore_takes, vec!["restore", &whole, "--data", &to])
        };
        let mut command = desk.command(&arguments);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(takes.mul_f64(random.below(1500) as f64 / 1000.0));
        // It may have ended.
        let _ = process.kill();
        process.wait().unwrap();
        let exists = Path::new(&to).exists();
        let partial = beside(Path::new(&to)).iter().any(|name| name.contains(".partial-"));
        *outcomes.entry((round % 2 == 0, exists, partial)).or_insert(0) += 1;
        if !exists {
            continue;
        }
        if round % 2 == 0 {
            desk.done(["restore", &to, "--verify-only"]);
        } else {
            desk.done(["doctor", "--data", &to]);
            assert_eq!(desk.json(["list", "--spaces", "--data", &to]), desk.json(["list", "--spaces"]));
        }
    }
    println!("(snapshot, has its name, is partial): times: {outcomes:?}");
    let times = |wanted: bool| -> i32 {
        outcomes.iter().filter(|((_, _, partial), _)| *partial == wanted).map(|(_, times)| times).sum()
    };
    assert!(times(true) > 0, "some were killed in the midst: {outcomes:?}");
    // A directory in the making is no snapshot, by whatever name it is called.
    let left = fs::read_dir(desk.path("")).unwrap().map(|entry| entry.unwrap().path());
    for partial in left.filter(|path| path.to_str().unwrap().contains(".partial-")) {
        if !partial.join(backup::MANIFEST_FILE).exists() {
            desk.problem(2, "not_a_snapshot", ["restore", &argument(&partial), "--verify-only"]);
        }
    }
}

#[test]
fn what_is_damaged_is_told_and_not_restored() {
    let desk = told();
    desk.done(["snapshot", &argument(&desk.path("linked"))]);
    // Its tables are links to those of the data directory: a copy can be damaged without damaging that.
    let good = desk.path("good");
    copy_directory(&desk.path("linked"), &good);
    let bad = desk.path("bad");
    let refused = |what: &str, code: &str, status: i32, damage: &dyn Fn()| {
        let _ = fs::remove_dir_all(&bad);
        copy_directory(&good, &bad);
        damage();
        for arguments in [vec!["--verify-only"], vec![]] {
            let to = argument(&desk.path("target"));
            let problem =
                desk.problem(status, code, [&["restore", &argument(&bad), "--data", &to][..], &arguments].concat());
            assert!(beside(Path::new(&to)).is_empty(), "{what}: nothing is left behind");
            assert!(text(&problem["detail"]).len() > 20, "{what}: {problem}");
        }
    };
    let mut count = 0;
    for (path, content) in files(&good).iter().filter(|(path, _)| !path.ends_with(backup::MANIFEST_FILE)) {
        let path = bad.join(path.strip_prefix(&good).unwrap());
        let name = path.display().to_string();
        refused(&name, "snapshot_damaged", 3, &|| fs::remove_file(&path).unwrap());
        if !content.is_empty() {
            let mut flipped = content.clone();
            flipped[content.len() / 2] ^= 0x10;
            refused(&name, "snapshot_damaged", 3, &|| fs::write(&path, &flipped).unwrap());
            refused(&name, "snapshot_damaged", 3, &|| fs::write(&path, &content[..content.len() - 1]).unwrap());
        }
        refused(&name, "snapshot_damaged", 3, &|| fs::write(path.with_file_name("999999.log"), "foreign").unwrap());
        count += 1;
    }
    println!("{count} files, each missing, flipped, cut, and with a foreign one beside it");
    let manifest = bad.join(backup::MANIFEST_FILE);
    refused("no manifest", "not_a_snapshot", 2, &|| fs::remove_file(&manifest).unwrap());
    refused("half a manifest", "snapshot_damaged", 3, &|| {
        let text = fs::read(&manifest).unwrap();
        fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    });
    let edit = |change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        change(&mut value);
        fs::write(&manifest, value.to_string()).unwrap();
    };
    refused("newer", "newer_snapshot", 3, &|| edit(&|value| value["format_version"] = json!(2)));
    refused("a newer one that says other things", "newer_snapshot", 3, &|| {
        fs::write(&manifest, json!({"format_version": 7, "chunks": []}).to_string()).unwrap();
    });
    refused("another log", "snapshot_damaged", 3, &|| {
        edit(&|value| value["incarnation"] = json!("00000000000000000000000000000000"));
    });
    refused("a path that leads out", "snapshot_damaged", 3, &|| {
        edit(&|value| value["files"][0]["path"] = json!("../good/log/CURRENT"));
    });
    refused("another position", "snapshot_damaged", 3, &|| {
        edit(&|value| value["partitions"][0]["committed_next_offset"] = json!(1_000_000));
    });
    // All that was not damaged is restored.
    desk.done(["restore", &argument(&good), "--data", &argument(&desk.path("target"))]);
}

/// Hashes say that a snapshot is what was made, not that it was right: a state in which a row has changed, in a snapshot whose
/// hashes were made afterwards.
#[test]
fn digests_are_counted_anew() {
    use recant_projections::{
        store::{Batch, WriteStore, rocks::RocksStore},
        tables::{Table, spaces},
    };

    let desk = Desk::new();
    desk.append(&story::events());
    let mut store = RocksStore::open(&desk.path("data/state/0")).unwrap();
    let mut row = spaces::get(&store, "default").unwrap().unwrap();
    row.add_to_digest(1);
    let mut batch = Batch::default();
    batch.put(Table::Spaces, b"default", prost::Message::encode_to_vec(&row));
    store.write(&batch).unwrap();
    drop(store);
    let snapshot = argument(&desk.path("snapshot"));
    desk.done(["snapshot", &snapshot]);
    let problem = desk.problem(3, "snapshot_damaged", ["restore", &snapshot, "--data", "target"]);
    assert!(text(&problem["detail"]).contains("was counted"), "{problem}");
    assert!(!desk.path("target").exists());
}

/// A state of another log beside a log: no snapshot is made of what could not be restored.
#[test]
fn what_does_not_belong_together_is_not_snapshotted() {
    let (desk, other) = (Desk::new(), Desk::new());
    desk.append(&story::events());
    other.append(&story::events());
    fs::remove_dir_all(desk.path("data/state")).unwrap();
    copy_directory(&other.path("data/state"), &desk.path("data/state"));
    let to = argument(&desk.path("snapshot"));
    let problem = desk.problem(3, "state_mismatch", ["snapshot", &to]);
    assert!(text(&problem["detail"]).contains("recant rebuild"), "{problem}");
    assert!(beside(Path::new(&to)).is_empty());
    desk.run(["rebuild"]).exited(1);
    desk.done(["snapshot", &to]);
}

#[test]
fn nothing_is_written_where_something_is() {
    let desk = Desk::new();
    desk.append(&story::events());
    let snapshot = argument(&desk.path("snapshot"));
    fs::create_dir(&snapshot).unwrap();
    desk.done(["snapshot", &snapshot]);
    let file = desk.file("a-file", "mine");
    for taken in [argument(&desk.path("data")), snapshot.clone(), file.clone()] {
        desk.problem(2, "not_empty", ["snapshot", &taken]);
        desk.problem(2, "not_empty", ["restore", &snapshot, "--data", &taken]);
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    for absent in ["absent", "data", "a-file"] {
        desk.problem(2, "not_a_snapshot", ["restore", absent, "--data", "target"]);
    }
    desk.problem(3, "no_log", ["snapshot", "elsewhere", "--data", "absent"]);
    assert!(!desk.path("elsewhere").exists() && !desk.path("absent").exists() && !desk.path("target").exists());
    // An empty directory, and one whose parents do not exist yet.
    fs::create_dir(desk.path("empty")).unwrap();
    desk.done(["restore", &snapshot, "--data", &argument(&desk.path("empty"))]);
    desk.done(["restore", &snapshot, "--data", &argument(&desk.path("not/yet"))]);
    for data in ["empty", "not/yet"] {
        assert_eq!(desk.json(["list", "--spaces", "--data", data]), desk.json(["list", "--spaces"]));
    }
}

/// What was told after the snapshot is not in the restored log: whoever holds a cursor from then is told so, and does not
/// wait for ever at the end, past changes that it will never see.
#[test]
fn a_cursor_from_after_the_snapshot_is_ahead_of_the_restored_log() {
    let desk = Desk::new();
    desk.append(&story::events());
    let snapshot = argument(&desk.path("snapshot"));
    desk.done(["snapshot", &snapshot]);
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    let file = argument(&desk.path("agent.cursor"));
    desk.done(["watch", "--cursor-file", &file, "--until-caught-up"]);
    let of_change = fs::read_to_string(&file).unwrap();
    let of_list = text(&desk.json(["list"])["cursor"]).to_owned();
    let caught_up = ["watch", "--until-caught-up", "--from", &of_list];
    desk.done(caught_up);

    let data = argument(&desk.path("restored"));
    desk.done(["restore", &snapshot, "--data", &data]);
    for cursor in [of_change.trim(), &of_list] {
        let arguments = ["watch", "--until-caught-up", "--from", cursor, "--data", &data];
        let problem = desk.problem(1, "cursor_ahead", arguments);
        assert!(text(&problem["detail"]).contains("snapshot"), "{problem}");
    }
    let arguments = ["watch", "--until-caught-up", "--cursor-file", &file, "--data", &data];
    desk.problem(1, "cursor_ahead", arguments);
    assert_eq!(fs::read_to_string(&file).unwrap(), of_change, "the cursor is kept until someone decides");
    // As the problem says: list, then watch from there.
    let cursor = text(&desk.json(["list", "--data", &data])["cursor"]).to_owned();
    desk.done(["retract", "--source", "web:portal", "--data", &data]);
    let resumed = desk.done(["watch", "--from", &cursor, "--until-caught-up", "--json", "--data", &data]);
    assert_eq!(resumed.lines().count(), story::FALLEN.len() + 1);
}

fn new_log() -> NewLog {
    NewLog { incarnation: Incarnation([7; 16]), partitions: 3, log_time_occurred: false }
}

fn append(standalone: &Standalone, space: &str, events: &[Value]) {
    let events = events.iter().map(|event| {
        let mut event = event.clone();
        event["space"] = json!(space);
        NewEvent::of(&wire::decode(event.to_string().as_bytes(), Some("application/json")).unwrap().event)
    });
    standalone.append(events.collect()).unwrap();
}

/// The writer's own way, by RocksDB's checkpoints: also when the log is ahead of the state.
#[test]
fn the_writer_makes_snapshots_of_itself() {
    let desk = Desk::new();
    let data = desk.path("data");
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1_772_323_200_000));
    let mut standalone = Standalone::create(&data, &new_log(), clock.clone()).unwrap();
    for space in ["north", "south", "east"] {
        append(&standalone, space, &story::events());
    }
    standalone.process(&mut |_, _| {}).unwrap();
    let level = standalone.snapshot(&desk.path("level"), &*clock).unwrap();
    append(&standalone, "north", &[story::retracted("r-1", "web:portal")]);
    let behind = standalone.snapshot(&desk.path("behind"), &*clock).unwrap();
    standalone.process(&mut |_, _| {}).unwrap();
    drop(standalone);

    for partition in &level.partitions {
        let state = partition.state.as_ref().unwrap();
        assert_eq!(state.next_offset, partition.events.end, "{partition:?}");
    }
    let ahead = behind.partitions.iter().filter(|partition| partition.events.end > partition.committed_next_offset);
    assert_eq!(ahead.count(), 1, "the retraction is in the log and not yet processed: {behind:?}");
    let fallen = |data: &Path| {
        let fallen = desk.json(["list", "--status", "out", "--space", "north", "--data", &argument(data)]);
        items(&fallen).len()
    };
    for (name, fallen_before, fallen_after) in [("level", 0, 0), ("behind", 0, story::FALLEN.len())] {
        let restored = desk.path(&format!("{name}-restored"));
        desk.done(["restore", &argument(&desk.path(name)), "--data", &argument(&restored)]);
        assert_eq!(fallen(&restored), fallen_before, "{name}");
        drop(Standalone::open(&restored, Arc::new(SystemClock)).unwrap());
        assert_eq!(fallen(&restored), fallen_after, "{name}");
        desk.done(["doctor", "--data", &argument(&restored)]);
    }
    assert_eq!(fallen(&data), story::FALLEN.len());
    // A snapshot holds what a log needs, and neither locks nor diaries.
    for path in files(&desk.path("level")).keys() {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(!name.starts_with("LO") && !name.starts_with("writer"), "{name}");
    }
}

/// Beside a writer that commits one event after another, so that one falls between any two steps of a snapshot: the state in it
/// is never ahead of the log in it, since it was taken first.
#[test]
fn no_state_is_ahead_of_its_log() {
    let desk = Desk::new();
    let data = desk.path("data");
    let mut standalone = Standalone::create(&data, &new_log(), Arc::new(SystemClock)).unwrap();
    let stop = AtomicBool::new(false);
    // Nothing is checked before the writer has ended: a failure would wait for it for ever.
    let made: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // Of three partitions in turn.
                let space = ["north", "south", "east"][number % 3];
                append(&standalone, space, &[story::observed(&format!("o-{number}"), "web:portal", "text")]);
                standalone.process(&mut |_, _| {}).unwrap();
            }
        });
        let snapshot =
            |number| backup::snapshot(&data, &desk.path(&format!("snapshot-{number}")), &SystemClock, &|_| {});
        let made = (0..SNAPSHOTS_BESIDE_COMMITS).map(snapshot).collect();
        stop.store(true, Ordering::Relaxed);
        made
    });
    let mut ends = Vec::new();
    for made in made {
        let made = made.unwrap();
        for partition in &made.partitions {
            let state = partition.state.as_ref().unwrap().next_offset;
            assert!(state <= partition.committed_next_offset, "{partition:?}");
        }
        ends.push(made.partitions.iter().map(|partition| partition.events.end).sum::<u64>());
    }
    println!("{SNAPSHOTS_BESIDE_COMMITS} snapshots, of logs with {} to {} events", ends[0], ends[ends.len() - 1]);
    ends.dedup();
    assert!(ends.len() > SNAPSHOTS_BESIDE_COMMITS / 2, "the writer went on between them");
}

/// Beside a writer whose files change all the time, since it gathers next to nothing in memory: what was acknowledged before a
/// snapshot began is in it, without holes.
#[test]
fn no_record_is_lost_while_files_come_and_go() {
    let desk = Desk::new();
    let data = desk.path("data");
    let writer = WriterOptions { write_buffer_bytes: 512 << 10, ..WriterOptions::default() };
    let record = |number: u64| NewRecord {
        partition: 0,
        key: b"north".to_vec(),
        headers: Vec::new(),
        value: [&number.to_be_bytes()[..], &Random(number).0.to_le_bytes().repeat(100)].concat(),
        append_time_ms: None,
    };
    let options =
        CreateOptions { incarnation: Incarnation([7; 16]), partitions: 1, first_records: vec![record(0)], writer };
    let log = EmbeddedLog::create(&data.join("log"), options, Arc::new(SystemClock)).unwrap();
    let acknowledged = AtomicU64::new(1);
    let stop = AtomicBool::new(false);
    let made: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            // So that a slow machine does not fill its disk.
            for call in 0..4000 {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let records = (0..20).map(|number| record(call * 20 + number + 1)).collect();
                let positions = log.append(records).unwrap();
                acknowledged.store(positions[19].offset + 1, Ordering::SeqCst);
            }
        });
        let snapshot = |number| {
            let before = acknowledged.load(Ordering::SeqCst);
            (before, backup::snapshot(&data, &desk.path(&format!("snapshot-{number}")), &SystemClock, &|_| {}))
        };
        let made = (0..SNAPSHOTS_BESIDE_FLUSHES).map(snapshot).collect();
        stop.store(true, Ordering::Relaxed);
        made
    });
    let mut files = BTreeSet::new();
    for (number, (before, made)) in made.into_iter().enumerate() {
        let made = made.unwrap();
        let end = made.partitions[0].events.end;
        assert!(end >= before, "snapshot {number}: {before} were acknowledged, {end} are in it");
        files.extend(made.files.into_iter().map(|file| file.path));
        // Reads every record.
        let snapshot = desk.path(&format!("snapshot-{number}"));
        backup::verify(&snapshot, &|_| {}).unwrap();
        let copied = Follower::open(&snapshot.join("log")).unwrap();
        let limit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };
        let records = copied.read(Topic::Events, 0, 0, limit).unwrap();
        assert_eq!(records.len() as u64, end);
        assert!((0..).zip(&records).all(|(number, found)| found.value == record(number).value), "snapshot {number}");
    }
    println!("{} different files were in {SNAPSHOTS_BESIDE_FLUSHES} snapshots", files.len());
    assert!(files.len() > SNAPSHOTS_BESIDE_FLUSHES, "the files changed");
}

const SNAPSHOTS_BESIDE_FLUSHES: usize = 15;

const SNAPSHOTS_BESIDE_COMMITS: usize = 60;

/// A log to which nothing was ever appended, and one whose state was lost.
#[test]
fn a_snapshot_needs_no_state() {
    let desk = Desk::new();
    desk.append(&story::events());
    let digest = desk.digest();
    fs::remove_dir_all(desk.path("data/state")).unwrap();
    let snapshot = argument(&desk.path("snapshot"));
    let made = desk.json(["snapshot", &snapshot]);
    assert!(made["partitions"][0].get("state").is_none(), "{made}");
    fs::rename(desk.path("data"), desk.path("lost")).unwrap();
    desk.done(["restore", &snapshot]);
    desk.done(["append", &desk.file("nothing.jsonl", "")]);
    assert_eq!(desk.digest(), digest);
    let log = Follower::open(&desk.path("data/log")).unwrap();
    let read = log.read(Topic::Events, 0, 0, ReadLimit { records_max: 1000, bytes_max: 1 << 20 }).unwrap();
    assert_eq!(read.len(), story::events().len() + 1);
}

/// For people, too: what was done, and where.
#[test]
fn people_are_told() {
    let desk = told();
    let made = desk.done(["snapshot", "monday"]);
    assert!(made.contains("monday") && made.contains("38 events") && made.contains("partition 3"), "{made}");
    let verified = desk.done(["restore", "monday", "--verify-only"]);
    assert!(verified.starts_with("Verified: 38 events"), "{verified}");
    let restored = desk.done(["restore", "monday", "--data", "elsewhere"]);
    assert!(restored.starts_with("Restored 38 events to elsewhere"), "{restored}");
    for command in ["snapshot", "restore", "rebuild"] {
        let help = run(desk.command([command, "--help"])).exited(0).text();
        assert!(help.contains("Example") && help.contains("docs/how-to/"), "{help}");
    }
}
