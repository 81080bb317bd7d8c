//! kill -9 at random moments of an append and of an import, and then again to the end: nothing that was acknowledged is
//! missing, nothing is there twice, and the state is the one of an undisturbed run.
//!
//! A run is killed either after a random time, of what an undisturbed one takes, or once it has acknowledged a random share
//! of its events; what goes on after it is killed too, three times in all for each directory. After each kill the
//! directory is looked at as it lies there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it did"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use recant_eventlog::{ReadLimit, ReadLog, Topic, embedded::Follower};
use recant_proto::wire;
use recant_tests::binary::{Desk, Random, items, number, run, story, text, wait_until};
use serde_json::{Value, json};

/// What is run, killed and run again: a command, and how many directories it gets.
struct Plan {
    /// The command without the file of fates.
    command: Vec<String>,
    /// Events that the directory holds before.
    before: Vec<Value>,
    /// How many kills.
    kills: usize,
    seed: u64,
}

/// What an undisturbed run comes to.
struct Undisturbed {
    takes: Duration,
    events: usize,
    rejected: u64,
    spaces: Vec<(String, String, u64)>,
    changes: BTreeMap<String, Vec<Value>>,
    nodes: Vec<Value>,
}

const KILLS_EACH: usize = 3;

fn start(desk: &Desk, plan: &Plan, fates: &Path) -> std::process::Child {
    let mut command = desk.command(&plan.command);
    command.arg("--fates").arg(fates).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn().unwrap()
}

/// Runs it to its end; its summary of events.
fn finish(desk: &Desk, plan: &Plan) -> Value {
    let mut command = desk.command(&plan.command);
    let fates = desk.path("fates-of-the-last");
    command.arg("--json").arg("--fates").arg(&fates);
    let told = run(command);
    let mut summary = told.document();
    if let Some(events) = summary.get("events") {
        summary = events.clone();
    }
    assert_eq!(told.status, i32::from(number(&summary["rejected"]) > 0), "{summary}");
    assert_eq!(read_fates(&fates).len(), events_in(&summary), "each event is told once");
    summary
}

fn events_in(summary: &Value) -> usize {
    (number(&summary["accepted"]) + number(&summary["duplicates"]) + number(&summary["rejected"])) as usize
}

/// The whole lines of a file of fates.
fn read_fates(path: &Path) -> Vec<Value> {
    let told = std::fs::read_to_string(path).unwrap_or_default();
    let whole = told.rfind('\n').map_or("", |end| &told[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Name, digest and number of nodes of each space.
fn spaces(desk: &Desk) -> Vec<(String, String, u64)> {
    let page = desk.json(["list", "--spaces"]);
    let space =
        |item: &Value| (text(&item["space"]).to_owned(), text(&item["digest"]).to_owned(), number(&item["nodes"]));
    items(&page).iter().map(space).collect()
}

/// All nodes of all spaces, without where and when the log took them.
fn nodes(desk: &Desk, spaces: &[(String, String, u64)]) -> Vec<Value> {
    let mut all = Vec::new();
    for (space, _, count) in spaces {
        let page = desk.json(["list", "--limit", "1000000", "--space", space]);
        assert_eq!(items(&page).len() as u64, *count);
        all.extend(items(&page).iter().map(|node| {
            let mut node = node.clone();
            node.as_object_mut().unwrap().retain(|member, _| member != "position" && member != "recorded_at");
            node
        }));
    }
    // Partitions that are processed side by side may name what they have in common in another order.
    all.sort_by_key(ToString::to_string);
    all
}

/// The change stream of each space, checked: ids unique, cascades whole and in order. Without what names places in the log.
fn changes(desk: &Desk, spaces: &[(String, String, u64)]) -> BTreeMap<String, Vec<Value>> {
    let mut streams = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for (space, _, _) in spaces {
        let mut stream = desk.changes(space);
        let mut expected = (0, 0);
        let mut last_offset = None;
        for change in &stream {
            assert!(ids.insert(text(&change["id"]).to_owned()), "{} is published twice", change["id"]);
            let (index, total) = (number(&change["cascade"]["index"]), number(&change["cascade"]["total"]));
            if index == 0 {
                assert_eq!(expected.0, expected.1, "the cascade before {} is whole", change["id"]);
                let offset: u64 = text(&change["position"]).split_once(':').unwrap().1.parse().unwrap();
                assert!(last_offset < Some(offset), "cascades are in the order of the log");
                last_offset = Some(offset);
                expected = (0, total);
            } else {
                expected.0 += 1;
                assert_eq!((index, total), expected, "no gap in {}", change["cascade"]);
            }
        }
        assert_eq!(expected.0, expected.1, "the last cascade is whole");
        for change in &mut stream {
            let members = change.as_object_mut().unwrap();
            members.retain(|member, _| !["id", "cursor", "position", "time"].contains(&member.as_str()));
            members["cascade"].as_object_mut().unwrap().remove("id");
        }
        streams.insert(space.clone(), stream);
    }
    streams
}

fn prepare(plan: &Plan) -> Desk {
    let desk = Desk::new();
    if !plan.before.is_empty() {
        desk.append(&plan.before);
    }
    desk
}

fn undisturbed(plan: &Plan) -> Undisturbed {
    let desk = prepare(plan);
    let begun = Instant::now();
    let summary = finish(&desk, plan);
    let takes = begun.elapsed();
    let spaces = spaces(&desk);
    let (changes, nodes) = (changes(&desk, &spaces), nodes(&desk, &spaces));
    assert!(changes.values().map(Vec::len).sum::<usize>() > 500, "the input makes things fall and rise");
    Undisturbed { takes, events: events_in(&summary), rejected: number(&summary["rejected"]), spaces, changes, nodes }
}

/// The ids of the events that lie in the log, by space; none if there is no log yet.
fn events_in_log(data: &Path) -> BTreeSet<(String, String)> {
    let mut ids = BTreeSet::new();
    let Ok(log) = Follower::open(&data.join("log")) else { return ids };
    for partition in 0..log.partitions() {
        let bounds = log.bounds(Topic::Events, partition).unwrap();
        let mut next = bounds.earliest;
        while next < bounds.end {
            let limit = ReadLimit { records_max: 1000, bytes_max: 8 << 20 };
            for record in log.read(Topic::Events, partition, next, limit).unwrap() {
                next = record.position.offset + 1;
                let event = wire::decode(&record.value, Some(recant_proto::names::PROTOBUF)).unwrap().event;
                ids.insert((event.space, event.id));
            }
        }
    }
    ids
}

/// After a kill: the doctor finds nothing wrong. The state may be behind, or neither log nor state may be there yet.
fn check_as_it_lies(desk: &Desk, acknowledged: usize, context: &str) {
    let told = run(desk.command(["doctor", "--json"]));
    let report = told.document();
    let checks = report["checks"].as_array().unwrap();
    let no_log_yet = checks.len() == 1 && text(&checks[0]["found"]).contains("holds no log");
    if no_log_yet {
        assert_eq!(acknowledged, 0, "{context}: without a log nothing is acknowledged");
    } else {
        assert_eq!((told.status, &report["ok"]), (0, &json!(true)), "{context}: {report}");
    }
}

fn kill_and_go_on(plan: &Plan) {
    let expected = undisturbed(plan);
    let mut random = Random(plan.seed);
    let (mut kills, mut in_the_middle, mut acknowledged_in_all, mut directories) = (0, 0, 0, 0);
    while kills < plan.kills {
        let desk = prepare(plan);
        directories += 1;
        let mut acknowledged: BTreeMap<(String, u64), String> = BTreeMap::new();
        for round in 0..KILLS_EACH.min(plan.kills - kills) {
            let context = format!("seed {:#x}, directory {directories}, kill {round}", plan.seed);
            let fates: PathBuf = desk.path(&format!("fates-{round}"));
            let mut process = start(&desk, plan, &fates);
            if random.below(2) == 0 {
                let share = random.below(expected.takes.as_micros() as u64);
                std::thread::sleep(Duration::from_micros(share));
            } else {
                let share = random.below(expected.events as u64 * 9 / 10) as usize;
                wait_until("so many events are acknowledged", || {
                    let over = process.try_wait().unwrap().is_some();
                    let told = std::fs::read(&fates).unwrap_or_default();
                    (over || told.iter().filter(|byte| **byte == b'\n').count() > share).then_some(())
                });
                std::thread::sleep(Duration::from_micros(random.below(20_000)));
            }
            let was_running = process.try_wait().unwrap().is_none();
            process.kill().unwrap();
            process.wait().unwrap();
            kills += usize::from(was_running);
            let told = read_fates(&fates);
            in_the_middle += usize::from(!told.is_empty() && told.len() < expected.events);
            acknowledged_in_all += told.len();
            check_as_it_lies(&desk, told.len(), &context);
            let lies: BTreeSet<String> = events_in_log(&desk.path("data")).into_iter().map(|(_, id)| id).collect();
            for fate in told.iter().filter(|fate| fate["fate"] == "accepted") {
                assert!(lies.contains(text(&fate["event"])), "{context}: {fate} was acknowledged, and is missing");
                let key = (text(&fate["event"]).to_owned(), number(&fate["line"]));
                let twice = acknowledged.insert(key, text(&fate["position"]).to_owned());
                assert_eq!(twice, None, "{context}: {fate} was accepted before");
            }
        }
        let context = format!("seed {:#x}, directory {directories}", plan.seed);
        let known = events_in_log(&desk.path("data"));
        let positions = check_end(&desk, plan, &expected, &known, &context);
        // What was acknowledged lies where it was said to lie.
        let mut found = 0;
        for ((event, _), position) in &acknowledged {
            if let Some(lies) = positions.get(event) {
                assert_eq!(lies, position, "{context}: {event}");
                found += 1;
            }
        }
        assert!(found >= acknowledged.len() / 3, "{context}: the nodes of {found} of {} are found", acknowledged.len());
    }
    let rate = in_the_middle * 100 / kills.max(1);
    assert!(rate >= 30, "only {in_the_middle} of {kills} kills were in the middle of it");
    println!(
        "{kills} kills (seed {:#x}) over {directories} directories, {in_the_middle} between the first and the last of {} events \
         acknowledged; {acknowledged_in_all} acknowledgements held; an undisturbed run takes {:?}",
        plan.seed, expected.events, expected.takes
    );
}

/// Goes on to the end, compares, and gives the position of the node that each event made.
fn check_end(
    desk: &Desk,
    plan: &Plan,
    expected: &Undisturbed,
    known: &BTreeSet<(String, String)>,
    context: &str,
) -> BTreeMap<String, String> {
    let last = finish(desk, plan);
    assert_eq!(events_in(&last), expected.events, "{context}");
    assert_eq!(number(&last["rejected"]), expected.rejected, "{context}");
    // Accepted is what the log did not hold yet, and the rest is known: each event once.
    let fates = read_fates(&desk.path("fates-of-the-last"));
    for fate in fates.iter().filter(|fate| fate["fate"] == "accepted") {
        let was_known = known.iter().any(|(_, id)| *id == text(&fate["event"]));
        assert!(!was_known, "{context}: {fate} lay in the log, and is accepted again");
    }
    let again = finish(desk, plan);
    assert_eq!(number(&again["accepted"]), 0, "{context}: once more adds nothing");
    assert_eq!(number(&again["duplicates"]) + expected.rejected, expected.events as u64, "{context}");

    let spaces = spaces(desk);
    assert_eq!(spaces, expected.spaces, "{context}: digests and numbers of nodes");
    let changes = changes(desk, &spaces);
    for (space, stream) in &expected.changes {
        assert_eq!(changes[space].len(), stream.len(), "{context}: changes of {space}");
        assert!(changes[space] == *stream, "{context}: the change stream of {space} differs");
    }
    assert!(nodes(desk, &spaces) == expected.nodes, "{context}: nodes differ");
    desk.run(["doctor"]).exited(0);
    let mut positions = BTreeMap::new();
    for (space, _, _) in &spaces {
        let page = desk.json(["list", "--limit", "1000000", "--space", space]);
        for node in items(&page) {
            // The events of an import are called as their nodes are.
            for event in [format!("e-{}", text(&node["id"])), text(&node["id"]).to_owned()] {
                positions.insert(event, text(&node["position"]).to_owned());
            }
        }
    }
    positions
}

/// Events of all kinds over two spaces: sources that several observations share, beliefs with one or two reasons, rings with
/// and without a reason from outside, premises that come late, retractions of sources, nodes, agents and windows that
/// overlap, reinstatements, repetitions, and what is rejected.
fn mixed_events(count: usize, seed: u64) -> Vec<Value> {
    let mut random = Random(seed);
    let mut events: Vec<Value> = Vec::new();
    let mut standing: Vec<(String, String)> = Vec::new();
    for at in 0..count {
        let space = if random.below(3) == 0 { "south" } else { "north" };
        let name = |of: usize| format!("{space}-{of}");
        let earlier = |random: &mut Random| name(at.saturating_sub(1 + random.below(60) as usize));
        let mut event = match random.below(100) {
            0..35 => {
                let mut event = story::observed(&name(at), &format!("s-{}", random.below(12)), "seen");
                event["observed"]["observed_at"] = json!(format!("2026-03-{:02}T00:00:00Z", 1 + random.below(28)));
                event
            }
            35..65 => story::derived(&name(at), "belief", &[&earlier(&mut random)]),
            65..70 => {
                story::derived(&name(at), "plan", &[&earlier(&mut random), &name(at + random.below(40) as usize)])
            }
            70..75 => story::action(&name(at), Some("10.00"), &[&earlier(&mut random)]),
            // Two that are each other's reason; some have another, some never had.
            75..85 => {
                let ring = (name(at), format!("{}-ring", name(at)));
                let mut first = story::derived(&ring.0, "belief", &[&ring.1]);
                first["space"] = json!(space);
                events.push(first);
                let mut second = story::derived(&ring.1, "belief", &[&ring.0]);
                second["space"] = json!(space);
                events.push(second);
                json!({"id": format!("e-outside-{at}"), "justified": {"node": ring.0, "justification": {"premises": [earlier(&mut random)]}}})
            }
            85..91 => {
                let retraction = format!("r-{at}");
                standing.push((space.to_owned(), retraction.clone()));
                let target = match random.below(4) {
                    0 => json!({"node": earlier(&mut random)}),
                    1 => {
                        json!({"agent": {"agent": format!("agent-{}", random.below(4)), "run": format!("run-{}", random.below(3))}})
                    }
                    2 => json!({"source": format!("s-{}", random.below(12)), "window": {"to": "2026-03-15T00:00:00Z"}}),
                    _ => json!({"source": format!("s-{}", random.below(12))}),
                };
                json!({"id": retraction, "retracted": {"targets": [target]}})
            }
            91..97 if !standing.is_empty() => {
                let (space, retraction) = standing.remove(random.below(standing.len() as u64) as usize);
                let mut event = story::reinstated(&format!("x-{at}"), &retraction);
                event["space"] = json!(space);
                event
            }
            // The same again; the same node with other content, which is rejected.
            97 if !events.is_empty() => events[random.below(events.len() as u64) as usize].clone(),
            98 if !events.is_empty() => story::observed("never", &"s".repeat(300), "too long an id"),
            _ => {
                json!({"id": format!("e-taken-{at}"), "action_settled": {"action": name(at), "outcome": if at % 2 == 0 { "undone" } else { "done" }}})
            }
        };
        for (member, value) in
            [("agent", format!("agent-{}", random.below(4))), ("run", format!("run-{}", random.below(3)))]
        {
            if event.get(member).is_none() && event.get("reinstated").is_none() && event.get("retracted").is_none() {
                event[member] = json!(value);
            }
        }
        if event.get("space").is_none() {
            event["space"] = json!(space);
        }
        events.push(event);
    }
    events
}

/// A directory for input that all runs of a plan read.
fn with_events(count: usize, seed: u64, arguments: &[&str], kills: usize) -> (Desk, Plan) {
    let desk = Desk::new();
    let file = desk.lines("events.jsonl", &mixed_events(count, seed));
    let command = [&["append", &file], arguments].concat().into_iter().map(str::to_owned).collect();
    (desk, Plan { command, before: Vec::new(), kills, seed })
}

#[test]
fn killed_in_the_midst_of_small_batches() {
    let (_input, plan) = with_events(2_500, 0xc0_ffee, &["--batch-events", "20"], 18);
    kill_and_go_on(&plan);
}

#[test]
fn killed_in_the_midst_of_large_batches_on_three_partitions() {
    let (_input, plan) = with_events(4_000, 0xfeed, &["--batch-events", "1000", "--partitions", "3"], 18);
    kill_and_go_on(&plan);
}

#[test]
fn killed_in_the_midst_of_an_import() {
    let input = Desk::new();
    let mut random = Random(0xbead);
    let transcripts: Vec<Value> = (0..120).map(|run| transcript(run, &mut random)).collect();
    let (runs, map) = (input.lines("runs.jsonl", &transcripts), input.file("map.toml", MAP));
    let command = ["import", "chat", &runs, "--map", &map, "--reasons", "literals"].map(str::to_owned).to_vec();
    // Of the files that are read, some were retracted before: what rests on them alone is born OUT.
    let before = (0..4).map(|file| story::retracted(&format!("r-{file}"), &format!("file:bill-{file}.txt"))).collect();
    kill_and_go_on(&Plan { command, before, kills: 14, seed: 0xbead });
}

const MAP: &str = r#"
[tools.read_file]
source = "file:{file_path}"
kind = "file"

[tools.send_money]
action = "payment.transfer"
amount = "amount"
currency_fixed = "USD"
"#;

fn transcript(run: usize, random: &mut Random) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "You pay bills."}),
        json!({"role": "user", "content": "Pay the bills."}),
    ];
    for step in 0..4 {
        let (bill, account, amount) = (random.below(10), random.below(50), 1 + random.below(900));
        let call = |id: String, name: &str, arguments: String| {
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}}]})
        };
        messages.push(call(format!("r-{step}"), "read_file", format!(r#"{{"file_path": "bill-{bill}.txt"}}"#)));
        messages.push(json!({"role": "tool", "tool_call_id": format!("r-{step}"), "content": format!("Pay {amount}.50 to ACC{account:05}.")}));
        messages.push(call(
            format!("s-{step}"),
            "send_money",
            format!(r#"{{"recipient": "ACC{account:05}", "amount": {amount}.50}}"#),
        ));
        messages.push(json!({"role": "tool", "tool_call_id": format!("s-{step}"), "content": "sent"}));
    }
    json!({"run_id": format!("run-{run}"), "messages": messages})
}
