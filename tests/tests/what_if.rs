//! `recant what-if`: what it says would be, is what is where that really happened; and nothing real changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use recant_tests::binary::{Desk, items, lasting_files, number, story, text, texts};
use serde_json::{Value, json};

/// The story, with a retraction and a reinstatement in it.
fn events() -> Vec<Value> {
    let mut events = story::events();
    events.insert(8, story::retracted("r-contract", "file:contract"));
    events.push(story::observed("o-late", "web:portal", "The portal speaks again."));
    events.push(story::derived("b-late", "belief", &["o-late", "o-contract"]));
    events.push(story::reinstated("lifted", "r-contract"));
    events
}

fn filled(events: &[Value]) -> Desk {
    let desk = Desk::new();
    desk.append(events);
    desk
}

/// Every node with its status.
fn statuses(desk: &Desk) -> BTreeMap<String, String> {
    let page = desk.json(["list", "--limit", "1000"]);
    items(&page).iter().map(|node| (text(&node["id"]).to_owned(), text(&node["status"]).to_owned())).collect()
}

/// The real statuses, with what a what-if says changed in them.
fn would_be(desk: &Desk, told: &Value) -> BTreeMap<String, String> {
    let mut statuses = statuses(desk);
    for outcome in told["outcomes"].as_array().unwrap() {
        let node = text(&outcome["node"]);
        let really = outcome.get("really").map(|status| text(status).to_owned());
        assert_eq!(statuses.get(node).cloned(), really, "what really is: {outcome}");
        match outcome.get("what_if") {
            Some(status) => drop(statuses.insert(node.to_owned(), text(status).to_owned())),
            None => drop(statuses.remove(node)),
        }
    }
    statuses
}

#[test]
fn what_would_be_is_what_is_where_it_happened() {
    let events = events();
    let real = filled(&events);
    let before = lasting_files(&real.path("data"));
    let portal = story::retracted("r-portal", "web:portal");
    let file = real.lines("with.jsonl", std::slice::from_ref(&portal));
    // Behind the log's own first record; in the midst; at the end.
    for after in [0, 3, 7, 10, events.len()] {
        let at = format!("0:{after}");
        let told = real.json(["what-if", "--source", "web:portal", "--at", &at]);
        assert_eq!(told["at"], json!(at));
        let mut happened = events.clone();
        happened.insert(after, portal.clone());
        let twin = filled(&happened);
        assert_eq!(would_be(&real, &told), statuses(&twin), "retracted behind {at}");
        let with = real.json(["what-if", "--with", &file, "--at", &at]);
        assert_eq!(with["outcomes"], told["outcomes"], "the same event from a file");
    }
    for without in ["e-portal", "r-contract", "e-b-account", "lifted"] {
        let told = real.json(["what-if", "--without", without]);
        let happened: Vec<Value> = events.iter().filter(|event| event["id"] != without).cloned().collect();
        assert_eq!(would_be(&real, &told), statuses(&filled(&happened)), "without {without}");
    }
    let nothing = real.json(["what-if", "--source", "web:never-seen", "--at", "0:3"]);
    assert_eq!((number(&nothing["changed"]), &nothing["money"]), (0, &json!([])));
    assert_eq!(lasting_files(&real.path("data")), before, "nothing real changed");
    assert_eq!(real.left_behind(), 0, "the branch is removed");
}

/// The deeds that would have had no reason, the money in them, and what of it was done.
#[test]
fn money_and_what_might_not_have_happened() {
    let desk = filled(&story::events());
    let told = desk.json(["what-if", "--source", "web:portal", "--at", "0:2"]);
    assert_eq!(texts(told["outcomes"].as_array().unwrap(), "node"), story::FALLEN);
    let doubtful = told["might_not_have_happened"].as_array().unwrap();
    assert_eq!(texts(doubtful, "node"), ["b-address", "b-account", "p-pay", "a-pay", "a-paid"]);
    assert_eq!(doubtful[4]["event"], "e-a-paid");
    assert_eq!(told["money"], json!([{"currency": "EUR", "actions": 2, "amount": "40500.00", "done": "6000.00"}]));
    let told = desk.done(["what-if", "--source", "web:portal", "--at", "0:2"]);
    assert!(told.contains("40500.00 EUR") && told.contains("of which 6000.00 EUR done"), "{told}");
    assert!(told.contains("Nothing was changed."), "{told}");
    // Retracted only when all had been done: those events did happen.
    let late = desk.json(["what-if", "--source", "web:portal", "--at", "0:11"]);
    assert_eq!(late["might_not_have_happened"], json!([]));
    assert_eq!(late["money"], told_money(&desk));
}

fn told_money(desk: &Desk) -> Value {
    desk.json(["what-if", "--source", "web:portal", "--at", "0:2"])["money"].clone()
}

/// A commit that equals its preview or is refused: what came between in the branch refuses it, and what only moved its
/// position does not.
#[test]
fn a_later_decision_is_decided_anew() {
    let desk = filled(&story::events());
    let preview = desk.json(["retract", "--source", "file:contract", "--preview"]);
    let position = text(&preview["position"]).to_owned();
    desk.done(["retract", "--source", "file:contract", "--only-if-position", &position, "--id", "r-1"]);
    let earlier = desk.json(["what-if", "--source", "web:portal", "--at", "0:2"]);
    assert_eq!(earlier["refused"], json!([]), "nothing came between the preview and the commit");
    let between = desk.json(["what-if", "--source", "web:portal", "--at", &position]);
    let refused = between["refused"].as_array().unwrap();
    assert_eq!((texts(refused, "event"), texts(refused, "code")), (vec!["r-1"], vec!["position_passed"]));
}

#[test]
fn what_cannot_be_asked_is_told() {
    let desk = filled(&story::events());
    desk.problem(2, "wrong_usage", ["what-if", "--at", "0:3"]);
    desk.problem(2, "wrong_usage", ["what-if", "--source", "web:portal"]);
    desk.problem(1, "not_found", ["what-if", "--without", "e-never"]);
    let taken = desk.lines("taken.jsonl", &[story::observed("o-contract", "s", "another text")]);
    desk.problem(1, "event_id_taken", ["what-if", "--with", &taken, "--at", "0:5"]);
    let elsewhere =
        desk.lines("elsewhere.jsonl", &[json!({"id": "e", "space": "acme", "observed": {"node": "o", "source": "s"}})]);
    let problem = desk.problem(2, "wrong_usage", ["what-if", "--with", &elsewhere, "--at", "0:5"]);
    assert_eq!(number(&problem["line"]), 1);
}
