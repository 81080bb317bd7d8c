//! Whole directories that do not belong together, and an end of the log that only the log can know of.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use recant_tests::{
    binary::{Desk, copy_directory, story, text},
    damage::{
        Original, Outcome, Seen,
        cells::{self, Damage, Database, Kind},
    },
};
use serde_json::json;

fn replace(directory: &Path, with: &Path) {
    fs::remove_dir_all(directory).unwrap();
    copy_directory(with, directory);
}

fn refused(code: &str) -> Outcome {
    Outcome::Refused(code.to_owned())
}

/// Of the log's files, those whose damage looks like a torn end: the state may not have seen what was lost, and then no
/// comparison with it helps.
#[test]
fn a_log_that_lost_its_end_is_noticed_without_the_state() {
    let original = Original::make("ours");
    let foreign = Original::make("theirs");
    for cell in cells::all(&original.data()) {
        let is_of_end = matches!(cell.kind, Kind::Wal | Kind::Manifest | Kind::Current);
        if cell.database != Database::Log || !is_of_end || matches!(cell.damage, Damage::Foreign | Damage::Text) {
            continue;
        }
        let desk = original.copy();
        if !cell.apply(&desk.path("data"), &foreign.data()) {
            continue;
        }
        fs::remove_dir_all(desk.path("data/state")).unwrap();
        let file = desk.lines("extra.jsonl", &[story::observed("o-extra", "web:extra", "One more.")]);
        let problem = desk.problem(3, "damaged", ["append", &file]);
        assert!(text(&problem["detail"]).contains("recant restore"), "{cell}: {problem}");
    }
}

/// What `docs/damage.md` says of a log that lost its end, where there is no snapshot.
#[test]
fn a_loss_can_be_accepted() {
    let original = Original::make("ours");
    let desk = original.copy();
    let cell = cells::all(&original.data())
        .into_iter()
        .find(|cell| (cell.database, cell.kind, cell.damage) == (Database::Log, Kind::Wal, Damage::Halved))
        .unwrap();
    assert!(cell.apply(&desk.path("data"), &original.data()));
    fs::remove_file(desk.path("data/log/seal")).unwrap();
    // The state has seen more, and says so.
    let file = desk.lines("extra.jsonl", &[story::observed("o-extra", "web:extra", "One more.")]);
    desk.problem(3, "state_mismatch", ["append", &file]);
    desk.problem(3, "state_mismatch", ["list"]);
    let found = desk.run(["doctor"]).exited(1).text();
    assert!(found.contains("and the log ends at"), "{found}");
    // Given up.
    fs::remove_dir_all(desk.path("data/state")).unwrap();
    let position = desk.json(["append", &file])["position"].as_str().unwrap().to_owned();
    let offset: u64 = position.split_once(':').unwrap().1.parse().unwrap();
    assert!(offset <= original.end && offset > 0, "{position}");
    desk.run(["doctor"]).exited(0);
}

#[test]
fn a_state_of_another_log_is_refused() {
    let ours = Original::make("ours");
    let theirs = Original::make("theirs");
    let desk = ours.copy();
    replace(&desk.path("data/state"), &theirs.data().join("state"));
    let mismatch = refused("state_mismatch");
    let expected = Seen { reader: mismatch.clone(), doctor: Outcome::Found, writer: mismatch };
    assert_eq!(ours.see("a state of another log", &desk), expected);
}

/// What a snapshot of the state, or a loss of power, leaves: it is folded forward.
#[test]
fn an_older_state_is_folded_forward_and_says_meanwhile_of_when_it_is() {
    let original = Original::make("ours");
    let desk = original.copy();
    replace(&desk.path("data/state"), &original.early().join("state"));
    let expected = Seen { reader: Outcome::Behind, doctor: Outcome::Well, writer: Outcome::Right };
    assert_eq!(original.see("an older state", &desk), expected);
}

/// The log lacks events that were acknowledged, whatever its own files say.
#[test]
fn an_older_log_is_refused_by_a_newer_state() {
    let original = Original::make("ours");
    let desk = original.copy();
    replace(&desk.path("data/log"), &original.early().join("log"));
    let mismatch = refused("state_mismatch");
    let expected = Seen { reader: mismatch.clone(), doctor: Outcome::Found, writer: mismatch };
    assert_eq!(original.see("an older log", &desk), expected);
}

/// What merely has the name of one of our files is not taken for the beginning of a log.
#[test]
fn what_is_no_directory_of_ours_is_refused_and_left_alone() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("data/log")).unwrap();
    fs::write(desk.path("data/log/CURRENT"), "a shopping list\n").unwrap();
    let file = desk.lines("one.jsonl", &[json!({"id": "e", "observed": {"node": "n", "source": "s"}})]);
    desk.problem(3, "damaged", ["append", &file]);
    desk.problem(3, "damaged", ["list"]);
    assert_eq!(fs::read_to_string(desk.path("data/log/CURRENT")).unwrap(), "a shopping list\n");
}
