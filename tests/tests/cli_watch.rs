//! The change stream as agents in other processes follow it: where it begins, filters, cursors, interruptions, and
//! cascades that are larger than a subscriber is fast.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it did"
)]

use std::{
    collections::HashMap,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use recant_tests::binary::{Desk, Process, Random, items, number, story, text, texts, wait_until};
use serde_json::{Value, json};

/// `watch` with these arguments, as JSON lines.
fn watching(desk: &Desk, arguments: &[&str]) -> Command {
    desk.command([&["watch", "--json"], arguments].concat())
}

/// What `watch` tells with these arguments until it has caught up.
fn watched(desk: &Desk, arguments: &[&str]) -> Vec<Value> {
    let run = recant_tests::binary::run(watching(desk, &[arguments, &["--until-caught-up"]].concat())).exited(0);
    run.text().lines().map(|line| serde_json::from_str(line).expect("each line parses alone")).collect()
}

/// The story, with a cascade of five changes, its reinstatement, and one of one change.
fn told() -> Desk {
    let desk = Desk::new();
    desk.append(&story::events());
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    desk.done(["reinstate", "r-1"]);
    desk.done(["retract", "--node", "a-mail", "--id", "r-2"]);
    desk
}

#[test]
fn a_stream_begins_where_it_is_asked_to() {
    let desk = told();
    let all = watched(&desk, &["--from", "earliest"]);
    assert_eq!(all.len(), 6 + 6 + 2);
    assert_eq!(watched(&desk, &["--from", "latest"]), [] as [Value; 0]);
    assert_eq!(watched(&desk, &[]), [] as [Value; 0], "the latest is the default");
    for (index, change) in all.iter().enumerate() {
        let rest = watched(&desk, &["--from", text(&change["cursor"])]);
        assert_eq!(rest, all[index + 1..], "after, and never at, a cursor");
    }
    // A time is that of the log's clock, and the first event at it or later is the first to be told.
    for first in [0, 6, 12] {
        assert_eq!(watched(&desk, &["--from", text(&all[first]["time"])]), all[first..]);
    }
    assert_eq!(watched(&desk, &["--from", "2020-01-01T00:00:00+01:00"]), all);
    assert_eq!(watched(&desk, &["--from", "9999-01-01T00:00:00Z"]), [] as [Value; 0]);
    assert_eq!(watched(&desk, &["--since", "1h"]), all);
    assert_eq!(watched(&desk, &["--since", "0s"]), [] as [Value; 0]);
    assert_eq!(watched(&desk, &["--space", "another", "--from", "earliest"]), [] as [Value; 0]);
    desk.problem(2, "wrong_usage", ["watch", "--from", "earliest", "--since", "1h"]);
}

#[test]
fn filters_let_through_changes_and_no_summaries() {
    let desk = told();
    let nodes = |arguments: &[&str]| {
        let changes = watched(&desk, &[&["--from", "earliest"], arguments].concat());
        texts(&changes, "node").join(" ")
    };
    assert_eq!(nodes(&["--kind", "action"]), "a-pay a-paid a-pay a-paid a-mail");
    assert_eq!(nodes(&["--kind", "action", "--status", "out"]), "a-pay a-paid a-mail");
    assert_eq!(nodes(&["--status", "in", "--kind", "plan"]), "p-pay");
    assert_eq!(nodes(&["--source", "web:portal"]), "o-portal o-portal");
    assert_eq!(nodes(&["--agent", "messenger"]), "a-mail");
    assert_eq!(nodes(&["--run", "run-8"]), "a-mail");
    assert_eq!(nodes(&["--subject", "supplier"]), "o-portal o-portal");
    assert_eq!(nodes(&["--run", "run"]), "");
}

#[test]
fn a_cursor_of_another_log_is_refused() {
    let desk = told();
    let cursor = text(&watched(&desk, &["--from", "earliest"])[3]["cursor"]).to_owned();
    let other = told();
    let problem = other.problem(1, "other_log", ["watch", "--from", &cursor]);
    assert!(text(&problem["detail"]).contains("recant list"), "it says how to begin anew: {problem}");
    let file = other.file("cursor", &cursor);
    other.problem(1, "other_log", ["watch", "--cursor-file", &file]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), cursor, "the cursor is still there");
    other.problem(2, "bad_cursor", ["watch", "--from", "somewhere"]);
    let file = other.file("cursor", "no cursor at all");
    other.problem(2, "bad_cursor", ["watch", "--cursor-file", &file]);
    // A log that was made anew in the same place is another log.
    std::fs::remove_dir_all(desk.path("data")).unwrap();
    desk.append(&story::events());
    desk.problem(1, "other_log", ["watch", "--from", &cursor]);
}

#[test]
fn a_cursor_moves_on_over_what_a_filter_leaves_out() {
    let desk = told();
    let file = desk.path("cursor").into_os_string().into_string().unwrap();
    let idle = ["--cursor-file", &file, "--run", "no-such-run"];
    assert_eq!(watched(&desk, &idle), [] as [Value; 0]);
    let all = watched(&desk, &["--from", "earliest"]);
    // Also over the digests, which are left out unless they are asked for.
    let with_digests = watched(&desk, &["--from", "earliest", "--digests"]);
    let last = &with_digests[with_digests.len() - 1];
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), text(&last["cursor"]));
    assert_eq!((&last["digest"]["digest"], last["digest"]["logic_version"].as_u64()), (&json!(desk.digest()), Some(1)));
    assert_eq!(
        with_digests.iter().filter(|line| line.get("digest").is_none()).collect::<Vec<_>>(),
        all.iter().collect::<Vec<_>>()
    );
    assert_eq!(watched(&desk, &["--cursor-file", &file]), [] as [Value; 0]);
    desk.done(["reinstate", "r-2"]);
    let more = watched(&desk, &["--cursor-file", &file]);
    assert_eq!(more, desk.changes("default")[14..]);
    assert_eq!(more.len(), 2);
}

/// CASES 5: a watcher in another process, and no traffic after the retraction.
#[test]
fn a_revocation_arrives_without_further_traffic() {
    let desk = Desk::new();
    desk.append(&story::events());
    let cursor = text(&desk.json(["list"])["cursor"]).to_owned();
    let mut listed = Process::start(watching(&desk, &["--from", &cursor]));
    let mut latest = Process::start(watching(&desk, &["--from", "latest"]));
    let mut filtered = Process::start(watching(&desk, &["--from", &cursor, "--kind", "action"]));
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    let nodes: Vec<_> = (0..6).map(|_| listed.json()).skip(1).map(|change| change["node"].clone()).collect();
    assert_eq!(nodes, story::FALLEN);
    assert_eq!((filtered.json()["node"].clone(), filtered.json()["node"].clone()), (json!("a-pay"), json!("a-paid")));
    // When `latest` was, nobody can say; that a later revocation comes whole, everybody can.
    let first = wait_until("the watcher from the latest on sees a cascade", || {
        let line = latest.line_now();
        if line.is_none() {
            let outcome = desk.json(["retract", "--node", "o-contract"]);
            desk.done(["reinstate", text(&outcome["retraction"])]);
        }
        line
    });
    let first: Value = serde_json::from_str(&first).unwrap();
    assert!(first["summary"].is_object(), "it begins with a summary: {first}");
    assert!(listed.is_running() && latest.is_running() && filtered.is_running(), "they go on");
    [listed, latest, filtered].into_iter().for_each(|watcher| drop(watcher.kill()));
    assert_eq!(desk.left_behind(), 0, "a watcher ends by being stopped, and leaves nothing behind");
}

/// The writer is a process too, and is still writing when the reader sees what it wrote.
#[test]
fn a_reader_follows_while_a_writer_appends() {
    let desk = Desk::new();
    let mut writer = desk.writer(1);
    let mut watcher = Process::start(watching(&desk, &["--from", "earliest"]));
    for round in 0..8 {
        let (node, retraction) = (format!("o-{round}"), format!("r-{round}"));
        writer.send(&story::observed(&node, &format!("s-{round}"), "seen"));
        writer.send(&story::retracted(&retraction, &format!("s-{round}")));
        let summary = watcher.json();
        assert_eq!((&summary["cause"]["event"], number(&summary["summary"]["changed"])), (&json!(retraction), 1));
        assert_eq!(watcher.json()["node"], node.as_str());
        // The change is published before the state is stored: a reader of the state may have to wait, for that alone.
        let listed = wait_until("the node is listed", || {
            let page = desk.json(["list"]);
            items(&page).iter().find(|item| item["id"] == node.as_str() && item["status"] == "OUT").cloned()
        });
        assert_eq!(listed["why"], "retracted");
        desk.run(["doctor"]).exited(0);
    }
    let (status, summary) = writer.finish();
    assert_eq!(status, 0);
    assert!(summary.concat().contains("\"accepted\": 16"), "{summary:?}");
}

/// CASES 24: at least once, in order, and resumed exactly after what was kept, whenever the watcher dies.
#[test]
fn two_hundred_interruptions_leave_no_gap() {
    const INTERRUPTIONS: usize = 200;
    let mut random = Random(0x5eed_0001);
    let desk = Desk::new();
    let nodes: Vec<Value> =
        (0..40).map(|node| story::observed(&format!("o-{node}"), &format!("s-{}", node % 7), "seen")).collect();
    desk.append(&nodes);
    let file = desk.path("cursor").into_os_string().into_string().unwrap();
    let stop = AtomicBool::new(false);
    let sessions: Vec<(Option<String>, Vec<String>, Option<String>)> = std::thread::scope(|scope| {
        // Sources fall and come back all the while, a cascade of five or six changes each.
        scope.spawn(|| {
            let mut writer = desk.writer(3);
            for round in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                let retraction = format!("r-{round}");
                writer.send(&story::retracted(&retraction, &format!("s-{}", round % 7)));
                writer.send(&story::reinstated(&format!("x-{round}"), &retraction));
                std::thread::sleep(Duration::from_millis(4));
            }
            assert_eq!(writer.finish().0, 0);
        });
        let read_cursor = || std::fs::read_to_string(&file).ok().map(|cursor| cursor.trim().to_owned());
        let mut sessions = Vec::new();
        for _ in 0..INTERRUPTIONS {
            let before = read_cursor();
            let mut watcher = Process::start(watching(&desk, &["--cursor-file", &file]));
            // Killed before it has said anything, at its first line, or some time after it.
            let mut lines = Vec::new();
            if random.below(4) > 0 {
                lines.push(watcher.line());
            }
            std::thread::sleep(Duration::from_micros(random.below(40_000)));
            lines.extend(watcher.kill());
            sessions.push((before, lines, read_cursor()));
        }
        stop.store(true, Ordering::Relaxed);
        sessions
    });
    let rest = watched(&desk, &["--cursor-file", &file]);
    let all = desk.changes("default");
    let index_of: HashMap<&str, usize> =
        all.iter().enumerate().map(|(index, change)| (text(&change["cursor"]), index)).collect();
    let after = |cursor: &Option<String>| cursor.as_deref().map_or(0, |cursor| index_of[cursor] + 1);
    let mut advanced = 0;
    let mut kept = 0;
    for (session, (before, lines, cursor)) in sessions.iter().enumerate() {
        let begin = after(before);
        assert_eq!(begin, kept, "session {session} begins where the one before it ended");
        let told: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(told == all[begin..begin + told.len()], "session {session} tells what follows its cursor, in order");
        kept = after(cursor);
        assert!(
            (begin..=begin + told.len()).contains(&kept),
            "session {session} keeps no cursor of what it did not tell"
        );
        advanced += usize::from(kept > begin);
    }
    assert!(rest == all[kept..], "the last one tells the rest");
    assert!(advanced > INTERRUPTIONS / 4, "only {advanced} sessions came to keep a cursor");
    println!(
        "{INTERRUPTIONS} interruptions (seed 0x5eed0001): {advanced} moved the cursor, over {} changes",
        all.len()
    );
}

/// CASES 25: the seam between what was there and what comes.
#[test]
fn a_backlog_of_ten_thousand_drains_and_goes_on_live() {
    let desk = Desk::new();
    let nodes: Vec<Value> = (0..500).map(|node| story::observed(&format!("o-{node}"), "s", "seen")).collect();
    let turns = (0..20).flat_map(|turn| {
        let retraction = format!("r-{turn}");
        let event = if turn % 2 == 0 {
            story::retracted(&retraction, "s")
        } else {
            story::reinstated(&retraction, &format!("r-{}", turn - 1))
        };
        [event]
    });
    desk.append(&nodes.into_iter().chain(turns).collect::<Vec<_>>());
    let mut writer = desk.writer(1);
    let mut watcher = Process::start(watching(&desk, &["--from", "earliest"]));
    let mut told = vec![watcher.json()];
    // From its first line on there is live traffic, while the backlog drains.
    for live in 0..20 {
        writer.send(&story::retracted(&format!("live-{live}"), "s"));
        writer.send(&story::reinstated(&format!("live-x-{live}"), &format!("live-{live}")));
        while let Some(line) = watcher.line_now() {
            told.push(serde_json::from_str(&line).unwrap());
        }
    }
    assert_eq!(writer.finish().0, 0);
    let all = desk.changes("default");
    assert_eq!(all.len(), (20 + 40) * 501);
    told.extend((told.len()..all.len()).map(|_| watcher.json()));
    assert!(told == all, "the same changes, in the same order");
    let ids: std::collections::HashSet<&str> = texts(&all, "id").into_iter().collect();
    assert_eq!(ids.len(), all.len());
    assert!(watcher.line_now().is_none() && watcher.is_running());
}

/// The most memory that a process has had, in KiB.
fn memory_peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// CASES 23.
#[test]
fn a_cascade_of_a_hundred_thousand_waits_for_a_slow_subscriber() {
    const CHANGES: usize = 100_000;
    let desk = Desk::new();
    let root = story::observed("root", "web:page", "seen");
    let rest = (1..CHANGES).map(|node| story::derived(&format!("b-{node}"), "belief", &["root"]));
    let events: Vec<Value> = std::iter::once(root).chain(rest).collect();
    let file = desk.lines("many.jsonl", &events);
    assert_eq!(desk.json(["append", &file, "--batch-events", "20000"])["accepted"], CHANGES);
    let idle = Process::start(watching(&desk, &["--from", "latest", "--run", "no-such-run"]));
    let mut command = watching(&desk, &["--from", "earliest"]);
    let mut watcher = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let outcome = desk.json(["retract", "--source", "web:page", "--limit", "10"]);
    assert_eq!((number(&outcome["changed"]), &outcome["truncated"]), (CHANGES as u64, &json!(true)));

    // The subscriber takes one line, and then none until the watcher has nothing left to do but to wait for it.
    let mut lines = std::io::BufRead::lines(std::io::BufReader::with_capacity(256, watcher.stdout.take().unwrap()));
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let summary = next();
    assert_eq!(number(&summary["summary"]["changed"]), CHANGES as u64);
    let activity = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", watcher.id())).unwrap();
        let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().map(str::to_owned).collect();
        // State, and CPU time spent.
        (fields[0].clone(), fields[11].clone(), fields[12].clone())
    };
    wait_until("the watcher waits for its reader", || {
        let before = activity();
        std::thread::sleep(Duration::from_millis(100));
        (before.0 == "S" && activity() == before).then_some(())
    });
    let cascade = json!({"id": summary["position"], "total": CHANGES});
    for index in 1..=CHANGES {
        let change = next();
        assert_eq!(number(&change["cascade"]["index"]), index as u64);
        assert_eq!((&change["cascade"]["id"], &change["cascade"]["total"]), (&cascade["id"], &cascade["total"]));
        assert_eq!(change["cause"], summary["cause"]);
        assert!(change["node"].is_string() && change["to"] == "OUT", "{change}");
    }
    let (peak, peak_idle) = (memory_peak_kib(watcher.id()), memory_peak_kib(idle.id()));
    println!("peak memory: {peak} KiB, of an idle watcher {peak_idle} KiB");
    // A follower keeps what the writer has not yet made tables of, some 32 MiB a topic; being slow adds nothing to that.
    assert!(peak < 160 << 10, "{peak} KiB; an idle watcher has {peak_idle} KiB");
    watcher.kill().unwrap();
    watcher.wait().unwrap();
}
