//! Pages pinned to one position, answers as of a time or a position, and a log filled from historical data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use recant_tests::binary::{Desk, items, json_lines, story, text, texts};
use serde_json::{Value, json};

fn observations(numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers.map(|number| story::observed(&format!("o-{number:03}"), "web:page", "seen")).collect()
}

#[test]
fn all_pages_of_a_list_are_of_one_position() {
    let desk = Desk::new();
    desk.append(&observations(0..250));
    let first = desk.json(["list", "--limit", "100"]);
    let mut seen = items(&first).to_vec();
    let mut next = first.get("next").map(|next| text(next).to_owned());
    let mut pages = 1;
    // Before each further page more is appended, and what was listed or is still to be listed falls.
    while let Some(cursor) = next {
        let begin = 250 + pages * 10;
        desk.append(&observations(begin..begin + 10));
        desk.append(&[story::retracted(&format!("r-{pages}"), "web:page")]);
        let page = desk.json(["list", "--limit", "100", "--cursor", &cursor]);
        assert_eq!((&page["position"], &page["cursor"]), (&first["position"], &first["cursor"]));
        seen.extend_from_slice(items(&page));
        next = page.get("next").map(|next| text(next).to_owned());
        pages += 1;
    }
    assert_eq!(pages, 3);
    let ids: Vec<_> = (0..250).map(|number| format!("o-{number:03}")).collect();
    assert_eq!(texts(&seen, "id"), ids);
    assert!(seen.iter().all(|node| node["status"] == "IN"), "all of them were IN at that position");
    let whole = desk.json(["list", "--limit", "1000", "--as-of", text(&first["position"])]);
    assert_eq!(items(&whole), seen);

    // List, then follow: the stream goes on exactly where the list ended.
    let followed = desk.done(["watch", "--from", text(&first["cursor"]), "--until-caught-up", "--json"]);
    let followed: Vec<Value> = followed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(followed, desk.changes("default"));
    let fallen: BTreeSet<&str> = followed.iter().filter_map(|change| change["node"].as_str()).collect();
    assert!(ids.iter().all(|id| fallen.contains(id.as_str())));

    desk.problem(2, "bad_cursor", ["list", "--cursor", "AAAA"]);
    let other = Desk::new();
    other.append(&observations(0..1));
    other.problem(2, "bad_cursor", ["list", "--cursor", text(&first["next"])]);
}

#[test]
fn a_page_of_none_leaves_none_out() {
    let desk = Desk::new();
    desk.append(&observations(0..3));
    let mut seen = Vec::new();
    let mut page = desk.json(["list", "--limit", "0"]);
    loop {
        seen.extend_from_slice(items(&page));
        let Some(next) = page.get("next") else { break };
        page = desk.json(["list", "--limit", "0", "--cursor", text(next)]);
    }
    assert_eq!(texts(&seen, "id"), ["o-000", "o-001", "o-002"]);
}

/// An event that happened at a time.
fn at(time: &str, mut event: Value) -> Value {
    event["occurred_at"] = json!(time);
    event
}

fn history() -> Vec<Value> {
    vec![
        at("2026-03-01T10:00:00+01:00", story::observed("o", "web:page", "seen")),
        at("2026-03-01T11:00:00Z", story::derived("b", "belief", &["o"])),
        at("2026-03-02T11:00:00Z", story::retracted("r", "web:page")),
        at("2026-03-03T11:00:00.5Z", story::reinstated("x", "r")),
        at("2026-03-04T11:00:00Z", story::observed("o-later", "web:page", "seen")),
    ]
}

/// The status of a node as of a moment, from `explain` and from `list`, which agree.
fn status_as_of(desk: &Desk, node: &str, when: &str) -> String {
    let page = desk.json(["list", "--as-of", when]);
    let listed = items(&page).iter().find(|item| item["id"] == node);
    let run = desk.run(["explain", node, "--as-of", when, "--json"]);
    let Some(listed) = listed else {
        assert_eq!(run.status, 1, "{}", run.text());
        return "absent".to_owned();
    };
    let explained = run.exited(0).document();
    assert_eq!(explained["position"], page["position"]);
    let shown = &explained["nodes"][0];
    assert_eq!((&shown["status"], shown.get("why")), (&listed["status"], listed.get("why")));
    let why = listed.get("why").map(|why| format!(" {}", text(why))).unwrap_or_default();
    format!("{}{why}", text(&listed["status"]))
}

#[test]
fn what_was_believed_on_tuesday_is_asked_on_the_logs_clock() {
    let desk = Desk::new();
    let file = desk.lines("history.jsonl", &history());
    let summary = desk.json(["append", &file, "--log-time", "occurred"]);
    assert_eq!(summary["accepted"], 5);
    // By time, in any offset: everything with log time up to and at it.
    for (when, observation, belief) in [
        ("2026-03-01T08:59:59Z", "absent", "absent"),
        ("2026-03-01T09:00:00Z", "IN", "absent"),
        ("2026-03-01T12:00:00+01:00", "IN", "IN"),
        ("2026-03-02T10:59:59.999Z", "IN", "IN"),
        ("2026-03-02T11:00:00Z", "OUT retracted", "OUT unsupported"),
        ("2026-03-03T11:00:00.499Z", "OUT retracted", "OUT unsupported"),
        ("2026-03-03T11:00:00.500Z", "IN", "IN"),
        ("2035-01-01T00:00:00Z", "IN", "IN"),
        // By position.
        ("0:1", "IN", "absent"),
        ("0:2", "IN", "IN"),
        ("0:3", "OUT retracted", "OUT unsupported"),
        ("0:4", "IN", "IN"),
        ("0:99", "IN", "IN"),
    ] {
        assert_eq!(status_as_of(&desk, "o", when), observation, "as of {when}");
        assert_eq!(status_as_of(&desk, "b", when), belief, "as of {when}");
    }
    let explained = desk.json(["explain", "b"]);
    let told = explained["history"].as_array().unwrap();
    let times = ["2026-03-01T11:00:00.000Z", "2026-03-02T11:00:00.000Z", "2026-03-03T11:00:00.500Z"];
    assert_eq!(texts(told, "time"), times);
    assert_eq!(texts(told, "status"), ["IN", "OUT", "IN"]);
    let then = desk.json(["explain", "b", "--as-of", "0:3"]);
    assert_eq!(then["history"].as_array().unwrap().len(), 2, "what came later is not known then");
    assert_eq!(text(&then["nodes"][0]["recorded_at"]), times[0]);
    let retractions = desk.json(["list", "--retractions", "--as-of", "0:3"]);
    assert_eq!(texts(items(&retractions), "state"), ["standing"]);
    assert_eq!(texts(items(&desk.json(["list", "--retractions"])), "state"), ["lifted"]);
    desk.problem(2, "wrong_usage", ["list", "--as-of", "2026-03-01T10:00:00"]);
    desk.problem(2, "wrong_usage", ["list", "--as-of", "1:3"]);
    desk.problem(2, "wrong_usage", ["list", "--spaces", "--as-of", "0:3"]);
}

/// CASES 19: what is told of a position is what a log that ends there tells.
#[test]
fn the_past_is_what_a_log_that_ends_there_says() {
    let desk = Desk::new();
    let events = [story::events(), vec![story::retracted("r", "web:portal"), story::reinstated("x", "r")]].concat();
    desk.append(&events);
    for length in [3, 7, 12, 13] {
        let shorter = Desk::new();
        shorter.append(&events[..length]);
        let without_times = |page: Value| {
            let mut nodes = items(&page).to_vec();
            for node in &mut nodes {
                node.as_object_mut().unwrap().remove("recorded_at");
            }
            nodes
        };
        let position = format!("0:{length}");
        let then = without_times(desk.json(["list", "--as-of", &position]));
        assert_eq!(then, without_times(shorter.json(["list"])), "as of {position}");
        assert!(!then.is_empty());
    }
}

#[test]
fn historical_times_fill_a_new_log_and_no_other() {
    let desk = Desk::new();
    desk.append(&history()[..1]);
    let before = desk.space("default");
    let file = desk.lines("history.jsonl", &history());
    let problem = desk.problem(2, "wrong_usage", ["append", &file, "--log-time", "occurred"]);
    assert!(text(&problem["detail"]).contains("a log already"), "{problem}");
    assert_eq!(desk.space("default"), before);

    // The log's clock never goes back, and an event without a time goes on with the last one.
    let other = Desk::new();
    let events = [
        story::observed("o-first", "s", "without a time"),
        at("1969-07-20T20:17:40Z", story::observed("o-moon", "s", "before 1970")),
        at("2026-03-01T10:00:00Z", story::observed("o-new", "s", "new")),
        at("2025-03-01T10:00:00Z", story::observed("o-back", "s", "older than the one before it")),
        story::observed("o-none", "s", "without a time"),
    ];
    let file = other.file("history.jsonl", json_lines(&events));
    assert_eq!(other.json(["append", &file, "--log-time", "occurred"])["accepted"], 5);
    let recorded = |id: &str| text(&other.node(id)["recorded_at"]).to_owned();
    assert_eq!(recorded("o-moon"), "1969-07-20T20:17:40.000Z");
    assert_eq!(recorded("o-new"), "2026-03-01T10:00:00.000Z");
    assert_eq!((recorded("o-back"), recorded("o-none")), (recorded("o-new"), recorded("o-new")));
    assert_eq!(recorded("o-first"), "0000-01-01T00:00:00.000Z", "before all others, and still a time");
}

/// From then on such a log goes on with the clock on the wall.
#[test]
fn a_historical_log_goes_on_with_the_present() {
    let desk = Desk::new();
    let file = desk.lines("history.jsonl", &history());
    desk.done(["append", &file, "--log-time", "occurred"]);
    desk.done(["retract", "--source", "web:page", "--id", "r-now"]);
    assert_eq!(status_as_of(&desk, "o", "2026-03-04T11:00:00Z"), "IN");
    assert_eq!(status_as_of(&desk, "o", "9999-12-31T23:59:59Z"), "OUT retracted");
    // The window of a retraction in the present, on the log's clock, can name the past.
    desk.done(["reinstate", "r-now"]);
    let window = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-02T00:00:00Z", "--clock", "log"];
    let outcome = desk.json([&["retract", "--source", "web:page", "--preview"][..], &window].concat());
    assert_eq!(texts(outcome["changes"].as_array().unwrap(), "node"), ["o", "b"]);
}
