//! `recant replay`: a directory of the past answers as the past did, whichever way it is asked; and what it was made from
//! stays as it is. `recant diff` names what turned and why. `recant list --sources --as-of` and `--valid-at`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use recant_tests::binary::{Desk, items, lasting_files, number, run, story, text, texts};
use serde_json::{Value, json};

/// An event that happened at a time.
fn at(time: &str, mut event: Value) -> Value {
    event["occurred_at"] = json!(time);
    event
}

const DAYS: [&str; 4] =
    ["2026-03-01T12:00:00Z", "2026-03-02T12:00:00Z", "2026-03-03T12:00:00Z", "2026-03-04T12:00:00Z"];

/// A source, a belief, a retraction and a reinstatement, on four days; each event also in another space, a second later.
fn told(partitions: &str) -> Desk {
    let events = [
        at(DAYS[0], story::observed("o", "web:page", "seen")),
        at(DAYS[0], story::derived("b", "belief", &["o"])),
        at(DAYS[1], story::retracted("r", "web:page")),
        at(DAYS[1], story::action("a", Some("12.00"), &["b"])),
        at(DAYS[2], story::reinstated("x", "r")),
        at(DAYS[2], json!({"id": "settled", "action_settled": {"action": "a", "outcome": "done"}})),
        at(DAYS[3], story::observed("o-late", "web:other", "seen")),
        at(
            DAYS[3],
            json!({"id": "declared", "source_declared": {"source": "web:page", "kind": "web", "name": "A page"}}),
        ),
    ];
    let mut lines = Vec::new();
    for event in events {
        lines.push(event.clone());
        let mut elsewhere = event;
        elsewhere["space"] = json!("acme");
        let time = text(&elsewhere["occurred_at"]).replace("12:00:00Z", "12:00:01Z");
        lines.push(at(&time, elsewhere));
    }
    lines.sort_by_key(|event| text(&event["occurred_at"]).to_owned());
    let desk = Desk::new();
    let file = desk.lines("history.jsonl", &lines);
    desk.done(["append", &file, "--log-time", "occurred", "--partitions", partitions]);
    desk
}

/// Everything that can be asked of a space as of a moment, or of the present.
fn answers(desk: &Desk, data: &str, space: &str, as_of: Option<&str>) -> Vec<Value> {
    let as_of: Vec<&str> = as_of.into_iter().flat_map(|when| ["--as-of", when]).collect();
    let mut answers = Vec::new();
    for question in [&["list"][..], &["list", "--sources"], &["list", "--retractions"]] {
        answers.push(desk.json([question, &["--data", data, "--space", space], &as_of].concat()));
    }
    let listed = texts(items(&answers[0]), "id").into_iter().map(str::to_owned).collect::<Vec<_>>();
    for node in listed {
        answers.push(desk.json([&["explain", &node, "--data", data, "--space", space][..], &as_of].concat()));
    }
    answers
}

#[test]
fn the_past_is_a_directory_that_answers_as_the_past_did() {
    // Between days; exactly at an event; and after the last.
    let one = ["2026-03-01T12:00:01Z", DAYS[1], "2026-03-02T23:00:00+01:00", "2030-01-01T00:00:00Z"];
    for (partitions, moments) in [("1", &one[..]), ("3", &one[1..2])] {
        let desk = told(partitions);
        let data = desk.path("data").to_str().unwrap().to_owned();
        let before = lasting_files(&desk.path("data"));
        for (number, when) in moments.iter().enumerate() {
            let past = format!("past-{number}");
            desk.json(["replay", "--until", when, "--into", &past]);
            for space in ["default", "acme"] {
                let then = answers(&desk, &data, space, Some(when));
                assert_eq!(answers(&desk, &past, space, None), then, "{space} as of {when}, {partitions} partitions");
                let changes = |data: &str| {
                    let from = ["watch", "--from", "earliest", "--until-caught-up", "--json", "--space", space];
                    desk.done([&from[..], &["--data", data]].concat())
                };
                assert!(changes(&data).starts_with(&changes(&past)), "what had been published by {when}");
            }
            let verified = desk.json(["verify", "--data", &past]);
            assert_eq!(verified["ok"], true, "{verified}");
            desk.json(["doctor", "--data", &past]);
        }
        assert_eq!(lasting_files(&desk.path("data")), before, "what it was made from is as it was");
    }
}

#[test]
fn the_past_at_a_position_is_all_that_the_log_had_taken_by_then() {
    let desk = told("3");
    // The default space's third event, whichever partition that is: the reinstatement comes after it.
    let retracted = desk.json(["list", "--retractions"]);
    let position = text(&items(&retracted)[0]["position"]).to_owned();
    let made = desk.json(["replay", "--until", &position, "--into", "past"]);
    assert_eq!(made["positions"].as_array().unwrap().len(), 3);
    assert!(made["positions"].as_array().unwrap().contains(&json!(position)), "{made}");
    let there = desk.json(["list", "--retractions", "--data", "past"]);
    assert_eq!(texts(items(&there), "state"), ["standing"]);
    // The other space was a second behind.
    let elsewhere = desk.json(["list", "--retractions", "--data", "past", "--space", "acme"]);
    assert_eq!(items(&elsewhere).len(), 0);
}

#[test]
fn the_past_is_not_written_to_and_nothing_is_overwritten() {
    let desk = told("1");
    desk.done(["replay", "--until", DAYS[1], "--into", "past"]);
    let before = lasting_files(&desk.path("past"));
    desk.problem(1, "past", ["retract", "--source", "web:page", "--data", "past"]);
    let file = desk.lines("more.jsonl", &[story::observed("more", "s", "more")]);
    desk.problem(1, "past", ["append", &file, "--data", "past"]);
    desk.problem(2, "not_empty", ["replay", "--until", DAYS[1], "--into", "past"]);
    assert_eq!(lasting_files(&desk.path("past")), before);
    // A preview writes nothing: what if it had been retracted then.
    assert_eq!(desk.json(["retract", "--source", "web:page", "--preview", "--data", "past"])["preview"], true);
    // Before the first time that RFC 3339 can write, which is where a log from historical data begins.
    desk.problem(1, "not_found", ["replay", "--until", "0000-01-01T00:00:00+14:00", "--into", "before"]);
    assert!(!desk.path("before").exists());
    desk.problem(2, "wrong_usage", ["replay", "--until", "tuesday", "--into", "before"]);
}

/// What turned, and because of which event: both ways of naming a moment, and what turned back.
#[test]
fn a_diff_names_what_turned_and_why() {
    let desk = told("1");
    let diff = desk.json(["diff", DAYS[0], DAYS[1]]);
    let turned = items(&diff);
    assert_eq!(texts(turned, "node"), ["o", "b", "a"]);
    assert_eq!(turned[0]["cause"], json!({"event": "r", "type": "retracted", "retraction": "r"}));
    assert_eq!(
        (&turned[1]["from"], &turned[1]["to"], &turned[1]["why"]),
        (&json!("IN"), &json!("OUT"), &json!("unsupported"))
    );
    // It had not been there; its own event bore it OUT.
    assert_eq!((turned[2].get("from"), &turned[2]["cause"]["event"]), (None, &json!("e-a")));
    assert_eq!(turned[2]["action"]["amount"], "12.00");
    let positions = desk.json(["diff", text(&diff["from"]), text(&diff["to"])]);
    assert_eq!(positions, diff);
    let actions = desk.json(["diff", DAYS[0], DAYS[1], "--kind", "action"]);
    assert_eq!(texts(items(&actions), "node"), ["a"]);
    // From the day before it fell to the day on which it came back.
    let back = desk.json(["diff", DAYS[0], DAYS[2]]);
    assert_eq!((texts(items(&back), "node"), number(&back["turned_back"])), (vec!["a"], 2));
    assert_eq!(items(&back)[0]["action"]["state"], "done");
    let none = desk.json(["diff", DAYS[2], DAYS[2]]);
    assert_eq!((items(&none).len(), number(&none["total"])), (0, 0));
    let short = desk.json(["diff", DAYS[0], DAYS[1], "--limit", "1"]);
    assert_eq!((items(&short).len(), number(&short["total"]), &short["truncated"]), (1, 3, &json!(true)));
    let problem = desk.problem(2, "wrong_usage", ["diff", DAYS[1], DAYS[0]]);
    assert!(text(&problem["detail"]).contains("earlier moment first"), "{problem}");
    let told = desk.done(["diff", DAYS[0], DAYS[1]]);
    assert!(told.contains("retracted r") && told.contains("3 nodes turned"), "{told}");
}

#[test]
fn a_source_is_shown_as_it_was_known() {
    let desk = told("1");
    let known = |when: &str| {
        let page = desk.json(["list", "--sources", "--as-of", when]);
        let shown = |source: &Value| {
            let name = source.get("name").map_or("", |name| text(name)).to_owned();
            (text(&source["id"]).to_owned(), name, number(&source["observations"]), source["declared"] == true)
        };
        items(&page).iter().map(shown).collect::<Vec<_>>()
    };
    let page = |name: &str, declared| ("web:page".to_owned(), name.to_owned(), 1, declared);
    assert_eq!(known(DAYS[2]), [page("", false)]);
    assert_eq!(
        known("2030-01-01T00:00:00Z"),
        [page("A page", true), ("web:other".to_owned(), String::new(), 1, false)]
    );
}

/// The writers' clock decides what is shown, and never a status.
#[test]
fn writers_clocks_filter_and_change_no_status() {
    let desk = Desk::new();
    let written = [
        at("1969-07-20T20:17:40Z", story::observed("o-moon", "s", "before 1970")),
        // The same instant, before midnight in India.
        at("2026-03-01T23:59:59+05:30", story::observed("o-india", "s", "late in India")),
        at("2026-03-01T18:29:59Z", story::observed("o-utc", "s", "the same instant")),
        // An hour that there is twice, around the end of summer time: the offset tells which.
        at("2026-10-25T02:30:00+02:00", story::observed("o-summer", "s", "the first half past two")),
        at("2026-10-25T02:30:00+01:00", story::observed("o-winter", "s", "the second")),
        at("2999-01-01T00:00:00Z", story::observed("o-future", "s", "a clock that is wrong")),
        story::observed("o-none", "s", "no time: that of the log"),
    ];
    desk.append(&written);
    desk.done(["retract", "--source", "s", "--id", "r"]);
    let valid = |time: &str| {
        let page = desk.json(["list", "--valid-at", time]);
        assert!(items(&page).iter().all(|node| node["status"] == "OUT"), "statuses are those of now");
        texts(items(&page), "id").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(valid("1969-07-20T20:17:39.999999999Z"), [""; 0]);
    assert_eq!(valid("1969-07-20T20:17:40Z"), ["o-moon"]);
    assert_eq!(valid("2026-03-01T18:29:58Z"), ["o-moon"]);
    assert_eq!(valid("2026-03-01T19:29:59+01:00"), ["o-moon", "o-india", "o-utc"]);
    assert!(!valid("2026-10-25T00:29:59Z").contains(&"o-summer".to_owned()));
    assert!(valid("2026-10-25T00:30:00Z").contains(&"o-summer".to_owned()));
    assert!(!valid("2026-10-25T02:29:59+01:00").contains(&"o-winter".to_owned()));
    assert!(valid("2026-10-25T01:30:00Z").contains(&"o-winter".to_owned()));
    assert_eq!(valid("2999-01-01T00:00:00Z").len(), 7);
    // Both clocks: what was known then, and dated so.
    let both = desk.json(["list", "--valid-at", "2026-03-02T00:00:00Z", "--as-of", "0:2"]);
    assert_eq!(texts(items(&both), "id"), ["o-moon", "o-india"]);
    assert!(items(&both).iter().all(|node| node["status"] == "IN"), "it was not retracted yet");
    desk.json(["explain", "o-moon", "--valid-at", "1970-01-01T00:00:00Z"]);
    desk.problem(1, "not_found", ["explain", "o-future", "--valid-at", "2026-12-31T00:00:00Z"]);
    desk.problem(2, "wrong_usage", ["list", "--valid-at", "2026-03-01T10:00:00"]);
    run(desk.command(["list", "--sources", "--valid-at", "2026-03-01T10:00:00Z"])).exited(2);
}
