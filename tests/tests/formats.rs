//! Formats for the future: directories that this version and every one before it have written stay readable, or are refused
//! with what to do; and what a newer version has written is refused by every command, and left as it is.
//!
//! `tests/golden/state/vN/` is a data directory of format N with what it answers, in `answers.json`. Its content covers every
//! table and every body, some of it in tables and some in the write-ahead log alone. It is never changed. A version with
//! a new format adds one: `RECANT_BLESS=1 cargo test --release -p recant-tests --test formats` makes it.

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
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use recant_eventlog::{ReadLimit, ReadLog, Topic, clock::ManualClock, embedded::Follower};
use recant_processor::standalone::{NewEvent, NewLog, Standalone};
use recant_projections::{
    fold::{Forms, Partition},
    store::{Batch, Store, WriteStore, rocks::RocksStore},
    tables::{
        Table,
        partition::{self, FORMAT_VERSION, LOGIC_VERSION},
    },
};
use recant_proto::{names, position::Incarnation, v1::event::Body, wire};
use recant_tests::binary::{Desk, copy_directory, items, run, story, text};
use serde_json::{Value, json};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/state")
}

/// The formats of which there is a golden directory.
fn golden_formats() -> Vec<u32> {
    let entries = fs::read_dir(golden()).map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let number = |name: String| name.strip_prefix('v').and_then(|number| number.parse().ok());
    let mut formats: Vec<u32> =
        entries.into_iter().filter_map(|entry| number(entry.unwrap().file_name().into_string().unwrap())).collect();
    formats.sort_unstable();
    formats
}

/// The events of the golden directories: first those that lie in tables, then those in the write-ahead log.
fn events() -> [Vec<Value>; 2] {
    let by_accounts = |mut event: Value| {
        for (member, value) in
            [("agent", "accounts"), ("run", "run-7"), ("step", "3"), ("occurred_at", "2026-03-02T09:15:00+01:00")]
        {
            event[member] = json!(value);
        }
        event
    };
    let mut first = story::events();
    first.extend([
        by_accounts(json!({"id": "e-declared", "source_declared": {"source": "file:contract", "kind": "file", "name": "The contract",
            "attributes": {"country": "DE"}, "trust_millionths": "850000", "group": "supplier", "cost_millionths": "40000000", "operator": "dana"}})),
        json!({"id": "e-hash", "observed": {"node": "o-hash", "source": "inbox:billing", "source_kind": "inbox", "content": {"media_type": "application/pdf",
            "hash": {"algorithm": "sha256", "digest": "Yb7hB2oMW/hGsuEvsZjj8qfDAcYwJYhDo1ctDPpgSwM=", "length_bytes": "48211"}}}}),
        json!({"id": "e-encrypted", "observed": {"node": "o-encrypted", "source": "user:dana", "source_kind": "user", "polarity": "denies",
            "content": {"encrypted": {"key_id": "dek-31", "nonce": "AAECAwQFBgcICQoL", "ciphertext": "yMnKy8zNzs/Q0dLT1NXW19jZ2tvc3d7f4OHi4+Tl5uc="}}}}),
        by_accounts(json!({"id": "e-pending", "derived": {"node": "b-pending", "kind": "belief", "subject": "supplier",
            "content": {"text": "Waits for what has not come."}, "justification": {"premises": ["o-hash", "o-never"],
                "rule": {"name": "reads", "model": "m-1", "prompt_version": "2", "input_hash": "00ff"}}}})),
        by_accounts(json!({"id": "e-justified", "justified": {"node": "b-account", "justification": {"id": "j-second", "premises": ["o-hash"]}}})),
        json!({"id": "r-1", "retracted": {"retraction": "r-1", "targets": [{"source": "web:portal"}], "by": "kim", "reason": "taken over"}}),
        json!({"id": "r-2", "retracted": {"retraction": "r-2", "targets": [{"node": "a-mail"}], "by": "kim"}}),
        json!({"id": "e-reinstated", "reinstated": {"retraction": "r-2", "by": "kim"}}),
        // Of an agent, in a window: covers justifications.
        json!({"id": "r-3", "retracted": {"retraction": "r-3", "by": "kim", "targets": [{"agent": {"agent": "messenger", "run": "run-8"},
            "window": {"clock": "log", "from": "2026-03-01T00:00:00Z"}}, {"justification": "j-second"}]}}),
        // Of what is never seen.
        json!({"id": "r-4", "retracted": {"retraction": "r-4", "targets": [{"source": "web:unseen"}]}}),
        json!({"id": "e-ahead", "reinstated": {"retraction": "r-never"}}),
        json!({"id": "e-read", "agent": "accounts", "read": {"nodes": ["b-account", "o-hash"], "query": "the supplier's details"}}),
        json!({"id": "e-handoff", "agent": "accounts", "handoff": {"nodes": ["p-pay"], "to_agent": "payments", "to_run": "run-9"}}),
        json!({"id": "e-ask", "action_proposed": {"action": "a-ask", "type": "mail.send", "mode": "ask", "justification": {"premises": ["b-address"]}}}),
        json!({"id": "e-reviewed", "action_reviewed": {"action": "a-ask", "verdict": "allow", "by": "dana", "reason": "Looks right."}}),
        // Of a newer writer, a broken rule, and one that is there already.
        json!({"id": "e-unknown", "conjectured": {"node": "b-address"}}),
        json!({"id": "e-rejected", "observed": {"node": "o-rejected"}}),
        story::observed("o-contract", "file:contract", "The address is 1 Main Street."),
        json!({"id": "e-policy", "space": "recant.control", "policy_set": {"policy": "permit(principal, action, resource);", "by": "dana"}}),
        json!({"id": "e-tick", "space": "recant.control", "tick": {}}),
        json!({"id": "e-logic", "space": "recant.control", "logic_activated": {"logic_version": LOGIC_VERSION}}),
    ]);
    let mut second = story::events();
    for event in &mut second {
        event["space"] = json!("acme");
    }
    second.push(json!({"id": "r-1", "space": "acme", "retracted": {"retraction": "r-1", "targets": [{"source": "file:contract"}]}}));
    second.push(json!({"id": "e-late", "observed": {"node": "o-late", "source": "web:portal", "content": {"text": "Born OUT."}}}));
    second.push(json!({"id": "e-undone", "action_settled": {"action": "a-pay", "outcome": "failed", "detail": "No such account."}}));
    [first, second]
}

/// Every body, as long as there is one: a new body does not compile until it has its place here, and then in a golden directory.
const BODIES: [&str; 17] = [
    "source_declared",
    "observed",
    "derived",
    "justified",
    "retracted",
    "reinstated",
    "action_proposed",
    "action_settled",
    "action_reviewed",
    "read",
    "handoff",
    "log_created",
    "policy_set",
    "logic_activated",
    "tick",
    "key_enrolled",
    "key_revoked",
];

/// Those that only logs have whose writers sign: of these there is a golden log in `signed_writers.rs`.
const OF_SIGNED_LOGS: [&str; 2] = ["key_enrolled", "key_revoked"];

fn number_of_body(body: &Body) -> usize {
    match body {
        Body::SourceDeclared(_) => 0,
        Body::Observed(_) => 1,
        Body::Derived(_) => 2,
        Body::Justified(_) => 3,
        Body::Retracted(_) => 4,
        Body::Reinstated(_) => 5,
        Body::ActionProposed(_) => 6,
        Body::ActionSettled(_) => 7,
        Body::ActionReviewed(_) => 8,
        Body::Read(_) => 9,
        Body::Handoff(_) => 10,
        Body::LogCreated(_) => 11,
        Body::PolicySet(_) => 12,
        Body::LogicActivated(_) => 13,
        Body::Tick(_) => 14,
        Body::KeyEnrolled(_) => 15,
        Body::KeyRevoked(_) => 16,
    }
}

/// 2026-03-02T08:00:00Z, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_772_438_400_000;

/// Makes the golden directory of this version.
fn bless() {
    let desk = Desk::new();
    let data = desk.path("data");
    let clock = Arc::new(ManualClock::new(BEGIN_MS));
    let new = NewLog { incarnation: Incarnation(*b"golden directory"), partitions: 1, log_time_occurred: false };
    let mut standalone = Standalone::create(&data, &new, clock.clone()).unwrap();
    for (part, events) in events().into_iter().enumerate() {
        for mut event in events {
            if event.get("space").is_none() {
                event["space"] = json!("default");
            }
            clock.advance(60_000);
            let space = text(&event["space"]).to_owned();
            let new = NewEvent {
                space,
                value: event.to_string().into_bytes(),
                content_type: names::JSON,
                append_time_ms: None,
                traceparent: None,
            };
            standalone.append(vec![new]).unwrap();
            standalone.process(&mut |_, _| {}).unwrap();
        }
        if part == 0 {
            // A checkpoint brings what lies in memory into tables.
            standalone.snapshot(&desk.path("scratch"), &*clock).unwrap();
        }
    }
    drop(standalone);
    write_segments(&data);
    let directory = golden().join(format!("v{FORMAT_VERSION}"));
    let _ = fs::remove_dir_all(&directory);
    for database in ["log", "state/0"] {
        fs::create_dir_all(directory.join("data").join(database)).unwrap();
        for entry in fs::read_dir(data.join(database)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !(name.starts_with("LO") || name.starts_with("OPTIONS") || name.starts_with("writer")) {
                let path = Path::new(database).join(name);
                fs::copy(data.join(&path), directory.join("data").join(path)).unwrap();
            }
        }
    }
    // One question a line, so that a change can be read.
    let answers: Vec<String> = answers(&desk).iter().map(Value::to_string).collect();
    fs::write(directory.join("answers.json"), format!("[{}]\n", answers.join(",\n"))).unwrap();
    println!("wrote {}", directory.display());
}

/// Makes the state anew with segments of few items, so that a small directory has rows in every table: most of them in
/// tables, some in the write-ahead log, and some in no segment yet.
fn write_segments(data: &Path) {
    let state = data.join("state/0");
    fs::remove_dir_all(&state).unwrap();
    let log = Follower::open(&data.join("log")).unwrap();
    let forms = Forms { segment_items_min: 11, ..Forms::default() };
    let store = RocksStore::open(&state).unwrap();
    let mut partition = Partition::open(store, log.incarnation(), 0).unwrap().with_forms(forms);
    let limit = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };
    let records = log.read(Topic::Events, 0, 0, limit).unwrap();
    for (number, record) in records.iter().enumerate() {
        partition.fold(&record.input()).unwrap();
        partition.store().unwrap();
        if number == records.len() - 5 {
            partition.stored().flush().unwrap();
        }
    }
}

/// What the directory of a desk answers: each question with its answer.
fn answers(desk: &Desk) -> Vec<Value> {
    let mut questions: Vec<Vec<String>> = vec![vec!["list".into(), "--spaces".into()]];
    for space in ["default", "acme"] {
        let mut ask = |question: &[&str]| {
            questions.push([question, &["--space", space]].concat().into_iter().map(str::to_owned).collect());
        };
        for what in ["--sources", "--retractions", "--limit=1000", "--status=out", "--kind=action", "--as-of=0:13"] {
            ask(&["list", what]);
        }
        ask(&["run", "run-7"]);
        ask(&["rejected", "list"]);
        ask(&["watch", "--from", "earliest", "--until-caught-up"]);
        let page = desk.json(["list", "--limit", "1000", "--space", space]);
        for node in items(&page) {
            ask(&["explain", text(&node["id"])]);
        }
    }
    questions.into_iter().map(|question| json!({"question": question, "answer": answer(desk, &question)})).collect()
}

fn answer(desk: &Desk, question: &[String]) -> Value {
    if question[0] == "watch" {
        let printed = run(desk.command(question.iter().map(String::as_str).chain(["--json"]))).exited(0).text();
        return printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    }
    desk.json(question)
}

/// Everything that was recorded is still said. Members may have come since, in objects; nothing may have gone, or changed.
fn says(recorded: &Value, now: &Value) -> bool {
    match (recorded, now) {
        (Value::Object(recorded), Value::Object(now)) => {
            recorded.iter().all(|(name, value)| now.get(name).is_some_and(|now| says(value, now)))
        }
        (Value::Array(recorded), Value::Array(now)) => {
            recorded.len() == now.len() && recorded.iter().zip(now).all(|(recorded, now)| says(recorded, now))
        }
        (recorded, now) => recorded == now,
    }
}

fn check_answers(desk: &Desk, format: u32, when: &str) {
    let recorded = fs::read(golden().join(format!("v{format}/answers.json"))).unwrap();
    let recorded: Vec<Value> = serde_json::from_slice(&recorded).unwrap();
    assert!(recorded.len() > 30, "every node is explained");
    for entry in &recorded {
        let question: Vec<String> = serde_json::from_value(entry["question"].clone()).unwrap();
        let now = answer(desk, &question);
        assert!(
            says(&entry["answer"], &now),
            "format {format}, {when}: {question:?}\nwas {}\nis  {now}",
            entry["answer"]
        );
    }
}

/// A desk with a copy of a golden directory.
fn desk_with(format: u32) -> Desk {
    let desk = Desk::new();
    copy_directory(&golden().join(format!("v{format}/data")), &desk.path("data"));
    desk
}

#[test]
fn directories_of_every_version_are_opened_or_refused_with_advice_and_rebuilt() {
    if std::env::var_os("RECANT_BLESS").is_some() {
        bless();
    }
    let formats = golden_formats();
    let needed: Vec<u32> = (1..=FORMAT_VERSION).collect();
    assert_eq!(formats, needed, "one golden directory for each format; RECANT_BLESS=1 makes that of this version");
    for format in formats {
        let desk = desk_with(format);
        let nothing = desk.file("nothing.jsonl", "");
        let row = RocksStore::row_of(&desk.path("data/state/0")).unwrap().unwrap();
        assert_eq!(row.format_version, format, "it is what its name says");
        // The rules may have another version although the layout is the same.
        if format == FORMAT_VERSION && row.logic_version == LOGIC_VERSION {
            check_answers(&desk, format, "read");
            desk.done(["doctor"]);
            desk.done(["append", &nothing]);
            check_answers(&desk, format, "opened to write");
        } else {
            for arguments in [&["list"][..], &["explain", "a-pay"], &["append", &nothing], &["snapshot", "snapshot"]] {
                let problem = desk.problem(3, "format", arguments);
                assert!(text(&problem["detail"]).contains("recant rebuild"), "{problem}");
            }
            assert!(desk.run(["doctor"]).exited(1).text().contains("recant rebuild"));
            let row = RocksStore::row_of(&desk.path("data/state/0")).unwrap().unwrap();
            assert_eq!(row.format_version, format, "what was refused is left as it was");
        }
        let rebuilt = desk.json(["rebuild"]);
        let is_same = rebuilt["partitions"][0]["old"] == "same";
        assert_eq!(is_same, format == FORMAT_VERSION && row.logic_version == LOGIC_VERSION, "{rebuilt}");
        check_answers(&desk, format, "rebuilt");
        desk.done(["doctor"]);
        println!("format {format}: well");
    }
}

/// A golden directory protects only what is in it.
#[test]
fn the_golden_directory_covers_every_table_and_every_body() {
    for format in golden_formats() {
        let desk = desk_with(format);
        let log = Follower::open(&desk.path("data/log")).unwrap();
        let limit = ReadLimit { records_max: 1000, bytes_max: 1 << 20 };
        let records = log.read(Topic::Events, 0, 0, limit).unwrap();
        let mut bodies = BTreeSet::new();
        let mut unknown = 0;
        for record in &records {
            let decoded = wire::decode(&record.value, None).unwrap();
            match &decoded.event.body {
                Some(body) => {
                    assert_eq!(BODIES[number_of_body(body)], wire::body_name(body));
                    bodies.insert(wire::body_name(body));
                }
                None => unknown += 1,
            }
        }
        assert_eq!(unknown, 1, "one of a newer writer");
        if format == FORMAT_VERSION {
            bodies.extend(OF_SIGNED_LOGS);
            assert_eq!(bodies, BTreeSet::from(BODIES));
            let store = RocksStore::follow(&desk.path("data/state/0")).unwrap();
            let mut rows = BTreeMap::new();
            for table in Table::ALL {
                store
                    .scan(*table, b"", b"", &mut |_, _| {
                        *rows.entry(table.name()).or_insert(0) += 1;
                        ControlFlow::Continue(())
                    })
                    .unwrap();
            }
            println!("rows: {rows:?}");
            assert_eq!(rows.len(), Table::ALL.len(), "{rows:?}");
            // Some in tables, some in the write-ahead log alone.
            for database in ["log", "state/0"] {
                let files = fs::read_dir(desk.path("data").join(database)).unwrap();
                let extensions: BTreeSet<_> =
                    files.filter_map(|file| Some(file.unwrap().path().extension()?.to_str()?.to_owned())).collect();
                assert!(extensions.contains("sst") && extensions.contains("log"), "{extensions:?}");
            }
        }
        let bytes: u64 = size(&golden().join(format!("v{format}")));
        assert!(bytes < 200 << 10, "{bytes} bytes are too many to keep for ever");
    }
}

fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().unwrap().len() }).sum()
}

/// Every command that opens the data; `true`: also what reads the log alone.
fn commands(desk: &Desk, of_the_log_too: bool) -> Vec<Vec<String>> {
    let events = desk.lines("events.jsonl", &story::events());
    let chat = desk.file("chat.jsonl", "{\"run_id\":\"r\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}\n");
    let mut commands = vec![
        vec!["list"],
        vec!["list", "--spaces"],
        vec!["list", "--as-of", "0:3"],
        vec!["explain", "a-pay"],
        vec!["run", "run-7"],
        vec!["append", &events],
        vec!["import", "chat", &chat],
        vec!["retract", "--source", "web:portal"],
        vec!["retract", "--source", "web:portal", "--preview"],
        vec!["reinstate", "r-1"],
        vec!["reinstate", "r-1", "--preview"],
        vec!["rejected", "list"],
        vec!["rejected", "retry", "0:1"],
        vec!["snapshot", "snapshot"],
    ];
    if of_the_log_too {
        commands.push(vec!["watch", "--from", "earliest", "--until-caught-up"]);
        commands.push(vec!["rebuild"]);
    }
    commands.into_iter().map(|words| words.into_iter().map(str::to_owned).collect()).collect()
}

/// A key and its value.
type Row = (Vec<u8>, Vec<u8>);

/// Everything that a database holds: its families, with their keys and values.
fn rows(directory: &Path) -> BTreeMap<String, Vec<Row>> {
    let options = rocksdb::Options::default();
    let families = rocksdb::DB::list_cf(&options, directory).unwrap();
    let database = rocksdb::DB::open_cf_for_read_only(&options, directory, &families, false).unwrap();
    let rows = |family: &String| {
        let found = database.iterator_cf(database.cf_handle(family).unwrap(), rocksdb::IteratorMode::Start);
        found.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
    };
    families.iter().map(|family| (family.clone(), rows(family))).collect()
}

/// A state of a newer format, also one with a table that we do not know: nobody guesses at what it means.
#[test]
fn a_newer_state_is_refused_by_every_command_and_left_as_it_is() {
    for (newer, own_table) in [("format", false), ("format", true), ("logic", false)] {
        let desk = Desk::new();
        desk.append(&story::events());
        let directory = desk.path("data/state/0");
        {
            let mut store = RocksStore::open(&directory).unwrap();
            let mut row = partition::get(&store).unwrap().unwrap();
            match newer {
                "format" => row.format_version = FORMAT_VERSION + 1,
                _ => row.logic_version = LOGIC_VERSION + 1,
            }
            let mut batch = Batch::default();
            batch.put(Table::Partition, partition::KEY, prost::Message::encode_to_vec(&row));
            store.write(&batch).unwrap();
        }
        if own_table {
            let families = rocksdb::DB::list_cf(&rocksdb::Options::default(), &directory).unwrap();
            let mut database = rocksdb::DB::open_cf(&rocksdb::Options::default(), &directory, families).unwrap();
            database.create_cf("fragility", &rocksdb::Options::default()).unwrap();
        }
        let before = rows(&directory);
        for arguments in commands(&desk, false) {
            let problem = desk.problem(3, "format", &arguments);
            let detail = text(&problem["detail"]);
            assert!(detail.contains("newer") && !detail.contains("rebuild"), "{arguments:?}: {problem}");
        }
        assert!(desk.run(["doctor"]).exited(1).text().contains("newer"));
        assert!(rows(&directory) == before, "{newer}: nothing in it has changed");
        assert!(!desk.path("snapshot").exists());
        // The log is not touched by that: it can be followed, and on demand its state made anew for this version.
        desk.done(["watch", "--from", "earliest", "--until-caught-up"]);
        assert_eq!(desk.json(["rebuild"])["partitions"][0]["old"], "other_version");
        desk.done(["doctor"]);
    }
}

#[test]
fn a_newer_log_is_refused_by_every_command_and_left_as_it_is() {
    let desk = Desk::new();
    desk.append(&story::events());
    let directory = desk.path("data/log");
    {
        let families = ["default", "meta", "events", "changes", "rejected"];
        let log = rocksdb::DB::open_cf(&rocksdb::Options::default(), &directory, families).unwrap();
        log.put_cf(log.cf_handle("meta").unwrap(), "format", 2_u32.to_be_bytes()).unwrap();
    }
    let before = [rows(&directory), rows(&desk.path("data/state/0"))];
    for arguments in commands(&desk, true) {
        let problem = desk.problem(3, "format", &arguments);
        assert!(text(&problem["detail"]).contains("format 2"), "{arguments:?}: {problem}");
    }
    assert!(desk.run(["doctor"]).exited(1).text().contains("format 2"));
    assert!([rows(&directory), rows(&desk.path("data/state/0"))] == before, "nothing in it has changed");
    assert!(!desk.path("snapshot").exists());
}

/// An older state, as a fixture of its own until there is a golden directory of one: with fewer tables, too, since a later
/// version may have added some.
#[test]
fn an_older_state_is_refused_with_advice_and_rebuilt() {
    for fewer_tables in [false, true] {
        let desk = Desk::new();
        desk.append(&story::events());
        desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
        let right = [desk.json(["list"]), desk.json(["list", "--spaces"]), desk.json(["explain", "a-pay"])];
        let directory = desk.path("data/state/0");
        {
            let mut store = RocksStore::open(&directory).unwrap();
            let row = partition::Row { format_version: FORMAT_VERSION - 1, ..partition::get(&store).unwrap().unwrap() };
            let mut batch = Batch::default();
            batch.put(Table::Partition, partition::KEY, prost::Message::encode_to_vec(&row));
            store.write(&batch).unwrap();
        }
        if fewer_tables {
            let families = rocksdb::DB::list_cf(&rocksdb::Options::default(), &directory).unwrap();
            let mut database = rocksdb::DB::open_cf(&rocksdb::Options::default(), &directory, families).unwrap();
            database.drop_cf(Table::Moves.name()).unwrap();
        }
        let before = rocksdb::DB::list_cf(&rocksdb::Options::default(), &directory).unwrap();
        for arguments in commands(&desk, false) {
            let problem = desk.problem(3, "format", &arguments);
            assert!(text(&problem["detail"]).contains("recant rebuild"), "{arguments:?}: {problem}");
        }
        assert!(desk.run(["doctor"]).exited(1).text().contains("recant rebuild"));
        let after = rocksdb::DB::list_cf(&rocksdb::Options::default(), &directory).unwrap();
        assert_eq!(before, after, "it is not given this version's tables");
        assert_eq!(desk.json(["rebuild"])["partitions"][0]["old"], "other_version");
        let now = [desk.json(["list"]), desk.json(["list", "--spaces"]), desk.json(["explain", "a-pay"])];
        assert_eq!(now, right);
        desk.done(["doctor"]);
    }
}
