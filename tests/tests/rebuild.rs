//! `recant rebuild`: whatever became of a state, the log makes it anew; what was wrong with it is told; and wherever the
//! switch from old to new is broken off, what is opened is a whole state.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it did"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Instant,
};

use recant_projections::{
    store::{Batch, WriteStore, rocks::RocksStore},
    tables::{Table, partition, spaces},
};
use recant_tests::binary::{Desk, Process, Random, copy_directory, items, number, story, text};
use serde_json::{Value, json};

/// The story in some spaces of a log with three partitions, a retraction, and an event that was rejected.
fn told() -> Desk {
    let desk = Desk::new();
    let events = desk.lines("story.jsonl", &story::events());
    for space in ["default", "acme", "tenant-42", "north"] {
        desk.done(["append", &events, "--partitions", "3", "--space", space]);
    }
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    let taken =
        json!({"id": "e-bad", "observed": {"node": "o-contract", "source": "s", "content": {"text": "another"}}});
    let rejected = desk.lines("rejected.jsonl", &[taken]);
    desk.run(["append", &rejected]).exited(1);
    desk
}

/// What the directory answers.
fn answers(desk: &Desk) -> Vec<Value> {
    let changes = desk.done(["watch", "--from", "earliest", "--until-caught-up", "--json"]);
    let mut found = vec![desk.json(["list", "--spaces"]), desk.json(["list"]), json!(changes)];
    for node in ["a-pay", "a-mail", "b-address"] {
        found.push(desk.json(["explain", node]));
    }
    found
}

fn state(desk: &Desk, name: &str) -> PathBuf {
    desk.path("data/state").join(name)
}

/// The partition of the default space.
fn of_default(desk: &Desk) -> u32 {
    let page = desk.json(["list"]);
    text(&page["position"]).split(':').next().unwrap().parse().unwrap()
}

/// Changes rows of a state.
fn edit(directory: &Path, change: impl FnOnce(&RocksStore, &mut Batch)) {
    let mut store = RocksStore::open(directory).unwrap();
    let mut batch = Batch::default();
    change(&store, &mut batch);
    store.write(&batch).unwrap();
}

fn edit_row(directory: &Path, change: impl FnOnce(&mut partition::Row)) {
    edit(directory, |store, batch| {
        let mut row = partition::get(store).unwrap().unwrap();
        change(&mut row);
        batch.put(Table::Partition, partition::KEY, prost::Message::encode_to_vec(&row));
    });
}

fn rebuilt(desk: &Desk, status: i32, arguments: &[&str]) -> Vec<Value> {
    let run = recant_tests::binary::run(desk.command([&["rebuild", "--json"], arguments].concat())).exited(status);
    run.document()["partitions"].as_array().unwrap().clone()
}

/// Names in the directory of states.
fn names(desk: &Desk) -> Vec<String> {
    let entries = fs::read_dir(desk.path("data/state")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_same_state_comes_of_the_same_log() {
    let desk = told();
    let before = answers(&desk);
    let rebuilt = rebuilt(&desk, 0, &[]);
    assert_eq!(rebuilt.len(), 3);
    for partition in &rebuilt {
        assert_eq!(partition["old"], "same", "{partition}");
        assert!(number(&partition["events"]) >= 1);
        assert!(partition.get("kept").is_none());
    }
    let events: u64 = rebuilt.iter().map(|partition| number(&partition["events"])).sum();
    assert_eq!(events, 4 * story::events().len() as u64 + 3 + 2);
    assert_eq!(answers(&desk), before);
    assert_eq!(names(&desk), ["0", "1", "2"]);
    desk.done(["doctor"]);
    let told = desk.done(["rebuild"]);
    assert_eq!(told.matches("the old state was the same").count(), 3, "{told}");
}

#[test]
fn a_state_that_is_missing_or_damaged_is_made_anew() {
    let desk = told();
    let before = answers(&desk);
    let partition = of_default(&desk);
    let directory = state(&desk, &partition.to_string());
    let good = desk.path("good");
    copy_directory(&directory, &good);
    // Into tables, so that there are files of every kind.
    drop(RocksStore::open(&good).unwrap());
    let mut damages: Vec<(String, Box<dyn Fn()>)> = vec![
        ("missing".into(), Box::new(|| fs::remove_dir_all(&directory).unwrap())),
        (
            "empty".into(),
            Box::new(|| {
                fs::remove_dir_all(&directory).unwrap();
                fs::create_dir(&directory).unwrap();
            }),
        ),
        (
            "no database".into(),
            Box::new(|| {
                fs::remove_dir_all(&directory).unwrap();
                fs::create_dir(&directory).unwrap();
                fs::write(directory.join("CURRENT"), "garbage").unwrap();
            }),
        ),
    ];
    for entry in fs::read_dir(&good).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let path = directory.join(&name);
        if name == "CURRENT" || name.starts_with("MANIFEST") || name.ends_with(".sst") {
            let content = fs::read(good.join(&name)).unwrap();
            let garbage = vec![0x5a; content.len()];
            let (removed, spoilt) = (path.clone(), path.clone());
            damages.push((format!("{name} removed"), Box::new(move || fs::remove_file(&removed).unwrap())));
            damages.push((format!("{name} spoilt"), Box::new(move || fs::write(&spoilt, &garbage).unwrap())));
        }
    }
    let mut outcomes = Vec::new();
    for (what, damage) in &damages {
        let _ = fs::remove_dir_all(&directory);
        copy_directory(&good, &directory);
        damage();
        let found = rebuilt(&desk, 0, &["--partition", &partition.to_string()]);
        let old = text(&found[0]["old"]).to_owned();
        let expected: &[&str] =
            if matches!(what.as_str(), "missing" | "empty") { &["missing"] } else { &["unreadable"] };
        assert!(expected.contains(&old.as_str()), "{what}: {found:?}");
        assert_eq!(answers(&desk), before, "{what}");
        desk.done(["doctor"]);
        outcomes.push((what, old));
    }
    println!("{outcomes:?}");
    assert!(damages.len() > 8, "tables, manifest and CURRENT");
}

/// A state that can be read and is wrong is a finding: something made it so. It is replaced all the same.
#[test]
fn a_state_that_differs_is_told_and_replaced() {
    let desk = told();
    let before = answers(&desk);
    let partition = of_default(&desk).to_string();
    let directory = state(&desk, &partition);
    let good = desk.path("good");
    copy_directory(&directory, &good);
    let digest = |store: &RocksStore, batch: &mut Batch| {
        let mut row = spaces::get(store, "default").unwrap().unwrap();
        row.add_to_digest(1);
        batch.put(Table::Spaces, b"default", prost::Message::encode_to_vec(&row));
    };
    let space_lost = |_: &RocksStore, batch: &mut Batch| batch.delete(Table::Spaces, b"default");
    let foreign_space = |store: &RocksStore, batch: &mut Batch| {
        let row = spaces::Row { number: 77, ..spaces::get(store, "default").unwrap().unwrap() };
        batch.put(
            Table::Spaces,
            b"ghost",
            prost::Message::encode_to_vec(&spaces::Row {
                digest: vec![],
                nodes: 0,
                arrived: 0,
                nodes_in: 0,
                justifications: 0,
                sources: 0,
                retractions: 0,
                ..row
            }),
        );
    };
    type Change<'a> = &'a dyn Fn(&RocksStore, &mut Batch);
    let cases: [(&str, Change<'_>); 3] =
        [("its digest was", &digest), ("was missing", &space_lost), ("ghost", &foreign_space)];
    for (words, change) in cases {
        fs::remove_dir_all(&directory).unwrap();
        copy_directory(&good, &directory);
        edit(&directory, change);
        let found = rebuilt(&desk, 1, &["--partition", &partition]);
        assert_eq!(found[0]["old"], "differs", "{found:?}");
        assert!(found[0]["found"].to_string().contains(words), "{words}: {found:?}");
        assert_eq!(answers(&desk), before);
        desk.done(["doctor"]);
    }
    type RowChange<'a> = &'a dyn Fn(&mut partition::Row);
    let rows: [(&str, RowChange<'_>); 4] = [
        ("was processed up to", &|row| row.next_offset += 1000),
        ("of the log", &|row| row.incarnation = vec![1; 16]),
        ("last record", &|row| row.last_record_hash = vec![1; 16]),
        ("had published", &|row| row.outputs_hash = vec![1; 32]),
    ];
    for (words, change) in rows {
        edit_row(&directory, change);
        let told = desk.run(["rebuild", "--partition", &partition]).exited(1).text();
        assert!(told.contains(words) && told.contains("the old state was wrong"), "{words}:\n{told}");
        assert_eq!(answers(&desk), before);
    }
}

/// A state from before, such as a crash between publishing and storing leaves: compared where it was, not where the log is.
#[test]
fn a_state_that_is_behind_is_the_same() {
    let desk = Desk::new();
    desk.append(&story::events());
    copy_directory(&state(&desk, "0"), &desk.path("before"));
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    let now = answers(&desk);
    fs::remove_dir_all(state(&desk, "0")).unwrap();
    copy_directory(&desk.path("before"), &state(&desk, "0"));
    assert_eq!(rebuilt(&desk, 0, &[])[0]["old"], "same");
    assert_eq!(answers(&desk), now);
}

#[test]
fn of_another_version_is_no_hindrance() {
    let desk = told();
    let before = answers(&desk);
    let partition = of_default(&desk).to_string();
    let versions: [&dyn Fn(&mut partition::Row); 3] =
        [&|row| row.format_version += 1, &|row| row.format_version -= 1, &|row| row.logic_version += 1];
    for change in versions {
        edit_row(&state(&desk, &partition), change);
        desk.problem(3, "format", ["list"]);
        let found = rebuilt(&desk, 0, &["--partition", &partition]);
        assert_eq!(found[0]["old"], "other_version", "{found:?}");
        assert_eq!(answers(&desk), before);
    }
}

#[test]
fn only_one_partition_and_the_old_one_kept() {
    let desk = told();
    let before = answers(&desk);
    desk.problem(1, "not_found", ["rebuild", "--partition", "3"]);
    for time in 1..=2 {
        let found = rebuilt(&desk, 0, &["--partition", "1", "--keep-old"]);
        assert_eq!(found.len(), 1);
        let kept = state(&desk, &format!("1.old-{time}"));
        assert_eq!(found[0]["kept"], kept.to_str().unwrap());
        // It is the old one, whole.
        assert!(partition::get(&RocksStore::follow(&kept).unwrap()).unwrap().is_some());
    }
    // What was kept stays, whatever comes.
    desk.done(["rebuild"]);
    desk.done(["retract", "--node", "a-mail", "--id", "r-2"]);
    desk.done(["reinstate", "r-2"]);
    assert_eq!(names(&desk), ["0", "1", "1.old-1", "1.old-2", "2"]);
    assert_ne!(answers(&desk), before, "the log has gone on");
}

#[test]
fn whoever_writes_is_named() {
    let desk = Desk::new();
    desk.append(&story::events());
    let writer = desk.writer(1);
    let problem = desk.problem(3, "held", ["rebuild"]);
    assert!(text(&problem["detail"]).contains(&format!("pid {}", writer.id())), "{problem}");
    assert_eq!(names(&desk), ["0"]);
    assert_eq!(writer.finish().0, 0);
    desk.done(["rebuild"]);
    desk.problem(3, "no_log", ["rebuild", "--data", "absent"]);
    assert!(!desk.path("absent").exists());
}

/// If what would be published is not what was published, the old state stays.
#[test]
fn what_cannot_be_proven_replaces_nothing() {
    let desk = Desk::new();
    desk.append(&story::events());
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    {
        let options = rocksdb::Options::default();
        let families = ["default", "meta", "events", "changes", "rejected"];
        let log = rocksdb::DB::open_cf(&options, desk.path("data/log"), families).unwrap();
        let meta = log.cf_handle("meta").unwrap();
        let key = [&b"partition"[..], &0_u32.to_be_bytes()].concat();
        let mut row = log.get_cf(meta, &key).unwrap().unwrap();
        // The last bytes are what the committer wrote beside the position: the hash.
        *row.last_mut().unwrap() ^= 1;
        log.put_cf(meta, &key, row).unwrap();
    }
    let before = fs::read(state(&desk, "0").join("CURRENT")).unwrap();
    let problem = desk.problem(3, "not_deterministic", ["rebuild"]);
    assert!(text(&problem["detail"]).contains("other outputs"), "{problem}");
    assert_eq!(names(&desk), ["0"], "nothing is left behind");
    assert_eq!(fs::read(state(&desk, "0").join("CURRENT")).unwrap(), before);
    assert!(!items(&desk.json(["list"])).is_empty(), "the old one still answers");
}

/// Every arrangement in which a crash can leave the directory, made by hand: who reads gets right answers at once; who writes
/// goes on with the switch, and clears up.
#[test]
fn a_switch_goes_on_from_wherever_it_was_broken_off() {
    let desk = Desk::new();
    desk.append(&story::events());
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    let right = answers(&desk);
    let good = desk.path("good");
    copy_directory(&state(&desk, "0"), &good);
    // An old state that is noticed when it answers: its space is not there.
    let wrong = desk.path("wrong");
    copy_directory(&good, &wrong);
    edit(&wrong, |_, batch| batch.delete(Table::Spaces, b"default"));
    let half = desk.path("half");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("CURRENT"), "MANIFEST-0").unwrap();

    // What lies where; whether a reader sees the new state yet; what is left once someone has written.
    type Case<'a> = (&'a [(&'a str, &'a Path)], bool, &'a [&'a str]);
    let cases: [Case<'_>; 9] = [
        // Killed while it was made: the old one stands.
        (&[("0", &good), ("0.rebuild-77", &half)], true, &["0"]),
        (&[("0", &good), ("0.rebuild-77", &wrong)], true, &["0"]),
        // Complete, before and between the renames: the new one takes its place.
        (&[("0", &wrong), ("0.new", &good)], false, &["0"]),
        (&[("0.discarded-1", &wrong), ("0.new", &good)], true, &["0"]),
        (&[("0.discarded-1", &half), ("0.discarded-2", &wrong), ("0.new", &good)], true, &["0"]),
        (&[("0", &wrong), ("0.new-keep", &good)], false, &["0", "0.old-1"]),
        (&[("0.old-1", &wrong), ("0.new-keep", &good)], true, &["0", "0.old-1"]),
        // After them.
        (&[("0", &good), ("0.discarded-1", &wrong)], true, &["0"]),
        (&[("0", &good), ("0.old-1", &wrong), ("0.rebuild-3", &half)], true, &["0", "0.old-1"]),
    ];
    let nothing = desk.file("nothing.jsonl", "");
    for (arrangement, is_right_at_once, left) in cases {
        let what: Vec<_> = arrangement.iter().map(|(name, _)| *name).collect();
        fs::remove_dir_all(desk.path("data/state")).unwrap();
        for (name, content) in arrangement {
            copy_directory(content, &state(&desk, name));
        }
        if is_right_at_once {
            assert_eq!(answers(&desk), right, "{what:?}: read");
        }
        desk.done(["append", &nothing]);
        assert_eq!(answers(&desk), right, "{what:?}: written");
        assert_eq!(names(&desk), left, "{what:?}");
        desk.done(["doctor"]);
        // And a rebuild, too, begins by clearing up.
        assert_eq!(rebuilt(&desk, 0, &[])[0]["old"], "same");
    }
}

/// kill -9 at random moments of a rebuild, readers beside it: every answer is right.
#[test]
fn a_killed_rebuild_leaves_a_whole_state() {
    let desk = Desk::new();
    let observed = (0..4000).map(|number| story::observed(&format!("o-{number}"), "web:portal", "text"));
    desk.append(&observed.collect::<Vec<_>>());
    let right = desk.json(["list", "--spaces"]);
    let begun = Instant::now();
    desk.done(["rebuild"]);
    let takes = begun.elapsed();
    let mut random = Random(0x5eed_0043);
    let mut left_behind = 0;
    for round in 0..25 {
        let mut process = desk.command(["rebuild"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(takes.mul_f64(random.below(1100) as f64 / 1000.0));
        // Whatever the moment, a reader gets the right answer.
        assert_eq!(desk.json(["list", "--spaces"]), right, "round {round}: beside it");
        let _ = process.kill();
        process.wait().unwrap();
        assert_eq!(desk.json(["list", "--spaces"]), right, "round {round}: after it");
        left_behind += usize::from(names(&desk) != ["0"]);
    }
    println!("{left_behind} of 25 kills (seed 0x5eed0043) left something behind");
    assert!(left_behind > 0, "some fell in the midst");
    desk.done(["rebuild"]);
    assert_eq!(names(&desk), ["0"]);
    desk.done(["doctor"]);
}

/// A follower of the stream goes on through a rebuild: it reads the log, which is not touched.
#[test]
fn a_watcher_goes_on() {
    let desk = Desk::new();
    desk.append(&story::events());
    let mut watcher = Process::start(desk.command(["watch", "--from", "earliest", "--json"]));
    desk.done(["rebuild"]);
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    for _ in 0..=story::FALLEN.len() {
        assert_eq!(watcher.json()["cause"]["retraction"], "r-1");
    }
}
