//! The change stream: cascades in their frames, no gap at any seam, and those who do not read.

use recant_tests::{
    binary::{Desk, Random, number, story, text, texts},
    served::{Answer, Caller, Follower, Server, Told},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{portal, telling};

fn changes(told: &[Told]) -> Vec<&Told> {
    told.iter().filter(|told| told.event == "change").collect()
}

#[tokio::test]
async fn a_stream_frames_cascades_and_says_where_it_is() {
    let desk = Desk::new();
    let server = telling(&desk).await;
    let mut live = server.follow("default", "heartbeat_ms=100", None).await;
    let caught_up = live.next().await.unwrap();
    assert_eq!(caught_up.event, "caught-up");
    assert_eq!(caught_up.id.as_deref(), caught_up.data["cursor"].as_str());
    server.post("retractions", &portal("r-1")).await.ok();
    let mut told = Vec::new();
    while told.last().is_none_or(|told: &Told| told.event != "end") {
        told.push(live.next().await.unwrap());
    }
    told.retain(|told| told.event != "heartbeat");
    let names: Vec<&str> = told.iter().map(|told| told.event.as_str()).collect();
    assert_eq!(names, ["begin", "change", "change", "change", "change", "change", "end"]);
    assert_eq!(told[0].data["summary"]["changed"], 5);
    assert_eq!(texts(&changes(&told).iter().map(|told| told.data.clone()).collect::<Vec<_>>(), "node"), story::FALLEN);
    assert!(changes(&told).iter().all(|told| told.id.as_deref() == told.data["cursor"].as_str()));
    let heartbeat = live.next_of("heartbeat").await;

    // From every cursor that was told, the rest, and nothing else; whoever has all changes and no end is told the end.
    for (index, seen) in told.iter().enumerate().skip(1) {
        let mut again = server.follow("default", "", seen.id.as_deref()).await;
        let mut rest = Vec::new();
        loop {
            match again.next().await.unwrap() {
                told if told.event == "caught-up" => break,
                told => rest.push(told),
            }
        }
        rest.retain(|told| told.event != "begin");
        assert_eq!(rest, told[index + 1..], "after {}", seen.event);
    }
    for place in [&caught_up, &heartbeat] {
        let mut again = server.follow("default", "", place.id.as_deref()).await;
        let first = again.next().await.unwrap().event;
        assert_eq!(first, if place == &caught_up { "begin" } else { "caught-up" });
    }

    // Filters leave out changes, and never an end of what they let begin.
    let mut actions = server.follow("default", "from=earliest&kind=action&status=out", None).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|told: &Told| told.event != "caught-up") {
        told.push(actions.next().await.unwrap());
    }
    let names: Vec<&str> = told.iter().map(|told| told.event.as_str()).collect();
    assert_eq!(names, ["begin", "change", "change", "end", "caught-up"]);
    let mut none = server.follow("default", "from=earliest&cause=another&heartbeat_ms=100", None).await;
    assert_eq!(none.next().await.unwrap().event, "caught-up");

    assert_eq!(server.end(), 0);
    let closing = live.next_of("closing").await;
    assert!(number(&closing.data["retry_ms"]) >= 500);
    assert_eq!(live.next().await, None, "the stream ends, with a word");
}

#[tokio::test]
async fn a_cursor_of_another_log_is_told_as_each_can_read_it() {
    let (desk, other) = (Desk::new(), Desk::new());
    let elsewhere = telling(&other).await;
    elsewhere.post("retractions", &portal("r-1")).await.ok();
    let cursor = text(&elsewhere.get("nodes").await.ok()["cursor"]).to_owned();
    let server = telling(&desk).await;
    let mut stream = server.follow("default", "", Some(&cursor)).await;
    let told = stream.next().await.unwrap();
    assert_eq!((told.event.as_str(), &told.data["type"]), ("problem", &json!("other_log")));
    assert_eq!(told.id, None, "the cursor stays the reader's own");
    assert_eq!(stream.next().await, None);
    let polled = server.request(Method::GET, "default", &format!("changes?from={cursor}"));
    let polled = polled.header("accept", "application/json").send().await.unwrap();
    Answer::of(polled).await.problem(410, "other_log");
}

/// Cascades of one change each, one after the other.
async fn changes_one_by_one(server: &Caller, space: &str, first: usize, count: usize) {
    let mut events = Vec::new();
    for number in first..first + count {
        let node = format!("o-{number}");
        events.push(story::observed(&node, &format!("s-{number}"), "text"));
        events.push(story::retracted(&format!("r-{number}"), &format!("s-{number}")));
    }
    server.publish(space, &events).await;
}

/// Reads changes until there are so many, and breaks off at random.
async fn read_interrupted(server: &Caller, space: &str, count: usize, breaks: u64, random: &mut Random) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut cursor: Option<String> = None;
    let mut broken = 0;
    let mut stream = server.follow(space, "from=earliest", None).await;
    while seen.len() < count {
        let told = stream.next().await.expect("the stream goes on");
        if told.event == "change" {
            seen.push(text(&told.data["node"]).to_owned());
        }
        cursor = told.id.or(cursor);
        if broken < breaks && random.below(count as u64) < 2 * breaks {
            broken += 1;
            stream = server.follow(space, "from=earliest", cursor.as_deref()).await;
        }
    }
    println!("{space}: {broken} interruptions over {count} changes");
    assert!(broken > 0);
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interruptions_and_the_seam_between_backlog_and_live_leave_no_gap() {
    const BACKLOG: usize = 2_000;
    const LIVE: usize = 1_000;
    let desk = Desk::new();
    let server = Server::start(&desk);
    for first in (0..BACKLOG).step_by(500) {
        changes_one_by_one(&server, "s", first, 500).await;
    }
    let writing = tokio::spawn({
        let server = server.caller.clone();
        async move {
            for first in (BACKLOG..BACKLOG + LIVE).step_by(20) {
                changes_one_by_one(&server, "s", first, 20).await;
                changes_one_by_one(&server, "other", first, 5).await;
            }
        }
    });
    let expected: Vec<String> = (0..BACKLOG + LIVE).map(|number| format!("o-{number}")).collect();
    let readers = (0..4).map(|seed| {
        let (server, expected) = (server.caller.clone(), expected.clone());
        tokio::spawn(async move {
            let seen = read_interrupted(&server, "s", BACKLOG + LIVE, 50, &mut Random(seed)).await;
            assert!(seen == expected, "each change once, in order");
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    writing.await.unwrap();
}

/// Memory of a process now, in KiB.
fn memory_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

/// Those who do not read are told so when they do, cost little meanwhile, and hold up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_not_read_costs_little_and_misses_nothing() {
    const CHANGES: usize = 30_000;
    const IDLE: usize = 50;
    let desk = Desk::new();
    let server = Server::start(&desk);
    let mut idle: Vec<Follower> = Vec::new();
    for _ in 0..IDLE {
        idle.push(server.follow("default", "from=earliest", None).await);
    }
    let mut fast = server.follow("default", "from=earliest", None).await;
    let before_kib = memory_kib(server.process.id());
    for first in (0..CHANGES).step_by(1_000) {
        let events: Vec<Value> = (first..first + 1_000)
            .map(|number| story::observed(&format!("o-{number}"), "web:portal", "text"))
            .collect();
        server.publish("default", &events).await;
    }
    let committed = server.post("retractions?limit=0", &portal("r-1")).await.ok();
    assert_eq!(committed["changed"], CHANGES);
    let mut told = 0;
    while told < CHANGES {
        fast.next_of("change").await;
        told += 1;
    }
    let grown_kib = memory_kib(server.process.id()).saturating_sub(before_kib);
    println!("RESULT idle_followers followers={IDLE} changes={CHANGES} grown_mib={}", grown_kib >> 10);
    assert!(grown_kib < 600 << 10, "{grown_kib} KiB");
    let mut late = idle.pop().unwrap();
    for number in 0..CHANGES {
        let told = late.next_of("change").await;
        assert_eq!(told.data["cascade"]["index"], number + 1, "nothing is left out");
    }
    assert_eq!(late.next().await.unwrap().event, "end");
}
