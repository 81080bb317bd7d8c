//! `recant verify`: whatever is planted in a state or among what was published is found, and named; what is right is said to
//! be; also one space alone, in several partitions, and while another process writes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it did"
)]

use recant_tests::{
    binary::{Desk, copy_directory, number, run, story, text},
    plant,
};
use serde_json::{Value, json};

/// The story with retractions, an event that was rejected, and a second retraction in a process of its own.
fn told(partitions: &str, spaces: &[&str]) -> Desk {
    let desk = Desk::new();
    let taken =
        json!({"id": "e-bad", "observed": {"node": "o-contract", "source": "s", "content": {"text": "another"}}});
    let events = desk.lines("story.jsonl", &story::events());
    let rejected = desk.lines("rejected.jsonl", &[taken]);
    for space in spaces {
        desk.done(["append", &events, "--partitions", partitions, "--space", space]);
        desk.done(["retract", "--source", "web:portal", "--id", "r-1", "--space", space]);
        desk.run(["append", &rejected, "--space", space]).exited(1);
        desk.done(["reinstate", "r-1", "--space", space]);
    }
    desk
}

fn verified(desk: &Desk, status: i32, arguments: &[&str]) -> Value {
    let document = run(desk.command([&["verify", "--json"], arguments].concat())).exited(status).document();
    assert_eq!(document["ok"], status == 0);
    document
}

fn sum(document: &Value, member: &str) -> u64 {
    document["partitions"].as_array().unwrap().iter().map(|partition| number(&partition[member])).sum()
}

#[test]
fn everything_is_what_the_log_makes() {
    let spaces = ["default", "acme", "tenant-42", "north"];
    let desk = told("3", &spaces);
    let whole = verified(&desk, 0, &[]);
    assert_eq!(sum(&whole, "events"), 4 * (story::events().len() as u64 + 3) + 3);
    assert_eq!(sum(&whole, "rejected"), 4);
    assert!(sum(&whole, "changes") > 4 * 10, "{whole}");
    // Each process that changed a space left its digest.
    assert_eq!(sum(&whole, "digests"), 4 * 3);
    for space in spaces {
        let one = verified(&desk, 0, &["--space", space]);
        let digest = &one["partitions"][0]["spaces"][0];
        assert_eq!((text(&digest["space"]), &digest["digest"]), (space, &desk.space(space)["digest"]));
        assert_eq!((sum(&one, "changes"), sum(&one, "digests")), (sum(&whole, "changes") / 4, 3));
    }
    let told = desk.done(["verify"]);
    assert!(told.contains("everything is what the log makes"), "{told}");
    desk.problem(1, "not_found", ["verify", "--space", "nowhere"]);
    assert_eq!(desk.left_behind(), 0, "the replayed states are removed");
}

#[test]
fn what_is_planted_is_found_and_named() {
    let whole = told("1", &["default"]);
    for planted in plant::ALL {
        let desk = Desk::new();
        copy_directory(&whole.path("data"), &desk.path("data"));
        verified(&desk, 0, &[]);
        (planted.plant)(&desk.path("data"));
        for arguments in [vec![], vec!["--space", "default"]] {
            let of_partition = ["a time less", "another hash of outputs"].contains(&planted.name);
            if of_partition && !arguments.is_empty() {
                continue;
            }
            let found = verified(&desk, 1, &arguments);
            let first = &found["partitions"][0]["differences"][0];
            println!("{}: {first}", planted.name);
            assert_eq!(first["what"], planted.found_as, "{}: {first}", planted.name);
            assert_eq!(first.get("node").is_some(), planted.names_node, "{}: {first}", planted.name);
            assert!(text(&first["position"]).starts_with("0:"), "{}: {first}", planted.name);
        }
        let told = desk.run(["verify"]).exited(1).text();
        assert!(told.contains("not everything is what the log makes"), "{told}");
    }
}

/// A reader cannot hold a writer up, nor be led astray by it.
#[test]
fn it_works_while_another_process_writes() {
    let desk = told("1", &["default"]);
    let mut writer = desk.writer(1);
    for round in 0..5 {
        for event in 0..20 {
            writer.send(&story::observed(&format!("o-{round}-{event}"), "web:page", "seen"));
        }
        let found = verified(&desk, 0, &[]);
        assert!(sum(&found, "events") > story::events().len() as u64);
    }
    assert_eq!(writer.finish().0, 0);
    assert_eq!(sum(&verified(&desk, 0, &[]), "events"), story::events().len() as u64 + 4 + 100);
}

/// What RocksDB no longer finds is an answer too, and not the end of the verification.
#[test]
fn a_state_that_cannot_be_read_is_told() {
    let desk = told("1", &["default"]);
    std::fs::remove_file(desk.path("data/state/0/CURRENT")).unwrap();
    let found = verified(&desk, 1, &[]);
    assert_eq!(found["partitions"][0]["differences"][0]["what"], "state_unreadable");
    assert!(sum(&found, "changes") > 10, "what was published is compared all the same");
}
