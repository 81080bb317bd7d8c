//! Retracting and reinstating: previews change nothing and equal their commits, every door leads to the same state, and
//! what was rejected can be tried again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use recant_tests::binary::{Desk, items, number, story, text, texts};
use serde_json::{Value, json};

fn told() -> Desk {
    let desk = Desk::new();
    desk.append(&story::events());
    desk
}

/// What an outcome says of what changes, without what only a commit can know.
fn substance(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    for change in outcome["changes"].as_array_mut().unwrap() {
        let change = change.as_object_mut().unwrap();
        change["cascade"].as_object_mut().unwrap().remove("id");
        for of_the_commit in ["id", "cursor", "position", "time", "cause"] {
            change.remove(of_the_commit);
        }
    }
    let outcome = outcome.as_object_mut().unwrap();
    for of_the_commit in ["position", "preview", "retraction"] {
        outcome.remove(of_the_commit);
    }
    json!(outcome)
}

#[test]
fn a_preview_changes_nothing_and_its_commit_equals_it() {
    let desk = told();
    for (retract, reinstate) in [
        (vec!["retract", "--source", "web:portal"], "r-source"),
        (vec!["retract", "--node", "o-portal", "--node", "o-contract"], "r-nodes"),
        (vec!["retract", "--justification", "e-b-address"], "r-justification"),
        (vec!["retract", "--agent", "accounts"], "r-agent"),
        (vec!["retract", "--agent", "accounts", "--run", "run-7"], "r-run"),
        (
            vec!["retract", "--source", "web:portal", "--from", "2026-03-02T00:00:00Z", "--to", "2026-03-03T00:00:00Z"],
            "r-window",
        ),
        (vec!["retract", "--source", "nobody-yet"], "r-waits"),
    ] {
        let at_first = desk.space("default");
        let preview = desk.json(retract.iter().chain(&["--preview"]));
        assert_eq!((desk.space("default"), &preview["position"]), (at_first.clone(), &at_first["position"]));
        let only_if = ["--id", reinstate, "--only-if-position", text(&preview["position"])];
        let commit = desk.json(retract.iter().chain(&only_if));
        assert_eq!(substance(&commit), substance(&preview), "{retract:?}");
        assert_eq!(commit["retraction"], reinstate);
        assert_ne!(desk.digest(), text(&at_first["digest"]), "a retraction that stands is in the digest");

        let before_lifting = desk.space("default");
        let preview = desk.json(["reinstate", reinstate, "--preview"]);
        assert_eq!(
            (desk.space("default"), &preview["position"]),
            (before_lifting.clone(), &before_lifting["position"])
        );
        let commit = desk.json(["reinstate", reinstate, "--only-if-position", text(&preview["position"])]);
        assert_eq!(substance(&commit), substance(&preview), "{reinstate}");
        assert_eq!(desk.digest(), text(&at_first["digest"]), "exactly as before {reinstate}");
    }
}

#[test]
fn a_commit_is_refused_when_something_came_between() {
    let desk = told();
    let position = text(&desk.json(["retract", "--source", "web:portal", "--preview"])["position"]).to_owned();
    // In another space: that has nothing to do with it.
    let elsewhere = desk.lines("elsewhere.jsonl", &[story::observed("o", "s", "seen")]);
    desk.done(["append", &elsewhere, "--space", "elsewhere"]);
    desk.json(["retract", "--source", "web:portal", "--only-if-position", &position, "--preview"]);
    desk.append(&[story::observed("o-between", "s", "seen")]);
    let before = desk.digest();
    for preview in [&["--preview"][..], &[]] {
        let retract = ["retract", "--source", "web:portal", "--id", "r-1", "--only-if-position", &position];
        let problem = desk.problem(1, "position_passed", [&retract[..], preview].concat());
        // A preview comes as far as the log's end, a commit lies there.
        assert_eq!(problem.get("position").is_some(), preview.is_empty(), "{problem}");
    }
    assert_eq!(desk.digest(), before, "what is refused changes nothing");
    desk.json(["retract", "--source", "web:portal", "--id", "r-1"]);
    desk.problem(1, "position_passed", ["reinstate", "r-1", "--only-if-position", &position]);
}

#[test]
fn overlapping_retractions_lift_one_by_one_and_replace_without_a_flicker() {
    let desk = told();
    let standing = desk.digest();
    desk.done(["retract", "--source", "web:portal", "--id", "r-1"]);
    assert_eq!(desk.json(["retract", "--node", "o-portal", "--id", "r-2"])["changed"], 0);
    assert_eq!(desk.json(["reinstate", "r-1"])["changed"], 0);
    assert_eq!(desk.json(["retract", "--source", "web:portal", "--id", "r-3", "--replaces", "r-2"])["changed"], 0);
    assert_eq!(desk.json(["reinstate", "r-3"])["changed"], 5);
    assert_eq!(desk.digest(), standing);
    assert_eq!(desk.changes("default").len(), 12, "two cascades: one down, one up");
    // A retraction that was lifted stays lifted, whether it is sent again as it was or its id is used for another.
    let again = desk.json(["retract", "--source", "web:portal", "--id", "r-1"]);
    assert_eq!((number(&again["changed"]), &again["duplicate_of"]), (0, &json!("0:12")));
    desk.problem(1, "event_id_taken", ["retract", "--source", "file:contract", "--id", "r-1"]);
    let same_id = json!({"id": "e", "retracted": {"retraction": "r-1", "targets": [{"source": "file:contract"}]}});
    let file = desk.lines("same-id.jsonl", &[same_id]);
    desk.run(["append", &file]).exited(1);
    assert_eq!(desk.digest(), standing);
}

/// CASES 8, for the doors that there are: an event in a file, an event on standard input, and the command.
#[test]
fn every_door_leads_to_the_same_digest() {
    let event = json!({"id": "r-1", "retracted": {"retraction": "r-1", "reason": "taken over", "by": "kim",
        "targets": [{"source": "web:portal", "window": {"from": "2026-03-01T00:00:00Z"}}, {"agent": {"agent": "messenger", "run": "run-8"}}]}});
    let by_file = told();
    by_file.append(std::slice::from_ref(&event));
    let by_input = told();
    let mut writer = by_input.writer(1000);
    writer.send(&event);
    assert_eq!(writer.finish().0, 0);
    assert_eq!(by_input.digest(), by_file.digest());
    assert_eq!(by_input.changes("default").len(), 1 + 6);

    // The command's flags say the same for one target, or for several with one window.
    let by_command = told();
    let window = ["--from", "2026-03-01T00:00:00Z", "--reason", "taken over", "--by", "kim", "--id", "r-1"];
    by_command.done([&["retract", "--source", "web:portal", "--node", "a-mail"][..], &window].concat());
    let window = json!({"from": "2026-03-01T00:00:00Z"});
    let event = json!({"id": "r-1", "retracted": {"retraction": "r-1", "reason": "taken over", "by": "kim",
        "targets": [{"source": "web:portal", "window": window}, {"node": "a-mail", "window": window}]}});
    let by_file = told();
    by_file.append(std::slice::from_ref(&event));
    assert_eq!(by_command.digest(), by_file.digest());
    let retractions = |desk: &Desk| {
        let mut listed = desk.json(["list", "--retractions"])["items"].clone();
        listed[0].as_object_mut().unwrap().remove("recorded_at");
        listed
    };
    assert_eq!(retractions(&by_command), retractions(&by_file));
    // The event that the command wrote is the event: sent again by another door it is a duplicate.
    let file = by_command.lines("again.jsonl", &[event]);
    assert_eq!(by_command.json(["append", &file])["duplicates"], 1);
}

#[test]
fn what_was_rejected_is_listed_and_can_be_tried_again() {
    let desk = told();
    let settled =
        |event: &str, outcome: &str| json!({"id": event, "action_settled": {"action": "a-pay", "outcome": outcome}});
    let mut other_content = story::events()[3].clone();
    other_content["id"] = json!("e-other");
    other_content["derived"]["content"]["text"] = json!("something else");
    let file = desk.lines("odd.jsonl", &[settled("e-undone", "undone"), other_content, settled("e-done", "done")]);
    let mut command = desk.command(["append", &file, "--json"]);
    command.arg("--fates").arg(desk.path("fates.jsonl"));
    let summary = recant_tests::binary::run(command).exited(1).document();
    assert_eq!((number(&summary["accepted"]), number(&summary["rejected"])), (1, 2));
    let rejections = summary["rejections"].as_array().unwrap();
    assert_eq!(texts(rejections, "type"), ["action_transition", "node_id_taken"]);
    assert_eq!(rejections.iter().map(|rejection| number(&rejection["line"])).collect::<Vec<_>>(), [1, 2]);
    let fates = std::fs::read_to_string(desk.path("fates.jsonl")).unwrap();
    let fates: Vec<Value> = fates.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(texts(&fates, "fate"), ["rejected", "rejected", "accepted"]);
    assert_eq!(texts(&fates, "event"), ["e-undone", "e-other", "e-done"]);

    let listed = desk.json(["rejected", "list"]);
    assert_eq!(texts(items(&listed), "code"), ["action_transition", "node_id_taken"]);
    assert_eq!(texts(items(&listed), "event"), ["e-undone", "e-other"]);
    assert_eq!(texts(items(&listed), "position"), texts(rejections, "position"));
    assert_eq!(items(&desk.json(["rejected", "list", "--space", "elsewhere"])), [] as [Value; 0]);
    assert_eq!(texts(items(&desk.json(["rejected", "list", "--limit", "1"])), "event"), ["e-other"]);

    // What was undone can be undone now that it is done; what is taken stays taken.
    let undone = desk.json(["rejected", "retry", text(&rejections[0]["position"])]);
    assert_eq!(undone["fate"], "accepted");
    assert_eq!(desk.node("a-pay")["state"], "undone");
    let again = desk.problem(1, "node_id_taken", ["rejected", "retry", text(&rejections[1]["position"])]);
    assert!(again["position"].is_string());
    assert_eq!(desk.json(["rejected", "retry", text(&rejections[0]["position"])])["fate"], "duplicate");
    desk.problem(1, "not_rejected", ["rejected", "retry", "0:1"]);
    desk.problem(1, "history_gone", ["rejected", "retry", "0:100000"]);
    desk.problem(1, "not_found", ["rejected", "retry", "5:1"]);
}

/// The same events, whole, one by one and on four partitions, give each space the same digest, on the real binary.
#[test]
fn batches_and_partitions_do_not_show_in_a_digest() {
    let mut events: Vec<Value> = Vec::new();
    for space in ["north", "south", "east", "west"] {
        let story = [story::events(), vec![story::retracted("r-1", "web:portal")]].concat();
        events.extend(story.into_iter().map(|mut event| {
            event["space"] = json!(space);
            event
        }));
    }
    let digests = |arguments: &[&str]| {
        let desk = Desk::new();
        let file = desk.lines("events.jsonl", &events);
        assert_eq!(desk.json([&["append", &file], arguments].concat())["accepted"], events.len());
        let page = desk.json(["list", "--spaces"]);
        desk.done(["doctor"]);
        items(&page).iter().map(|space| (space["space"].clone(), space["digest"].clone())).collect::<Vec<_>>()
    };
    let whole = digests(&[]);
    assert_eq!(whole.len(), 4);
    assert_eq!(digests(&["--batch-events", "1"]), whole);
    assert_eq!(digests(&["--batch-events", "5", "--partitions", "4"]), whole);
}
