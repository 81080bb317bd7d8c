//! The real binary with lines and arguments that nobody would give it: no panic, every line is accounted for, no position
//! is lost, and what is not understood is a typed problem. `RECANT_FUZZ_SECONDS` says how long; by default a fifth of a
//! minute each, since every case is a process.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking")]

use std::{
    fs,
    time::{Duration, Instant},
};

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use recant_proto::position::{ChangeId, Incarnation, Position};
use recant_tests::{
    binary::{Desk, number, run, story, text},
    fuzz::{mutate, target},
};
use serde_json::Value;

const LINES_A_FILE: usize = 400;

fn until_the_end(mut one: impl FnMut(&mut TestRunner)) -> usize {
    let seconds = std::env::var("RECANT_FUZZ_SECONDS").map_or(12, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut runner = TestRunner::new(Config::default());
    let mut rounds = 0;
    while Instant::now() < end {
        one(&mut runner);
        rounds += 1;
    }
    rounds
}

/// Lines of JSON, damaged, without line feeds and never blank.
fn lines(examples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let line = mutate::inputs(examples).prop_map(|mut line| {
        line.retain(|byte| *byte != b'\n');
        if line.trim_ascii().is_empty() { b"?".to_vec() } else { line }
    });
    proptest::collection::vec(line, LINES_A_FILE)
}

/// Keeps the file of a failure, and names it.
fn keep(content: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!("recant-fuzz-{}.jsonl", std::process::id()));
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

#[test]
fn every_line_that_is_appended_is_accounted_for() {
    let mut examples: Vec<Vec<u8>> =
        (target("events").examples)().into_iter().filter(|example| example.first() == Some(&b'{')).collect();
    examples.extend(story::events().iter().map(|event| event.to_string().into_bytes()));
    let lines = lines(examples);
    let rounds = until_the_end(|runner| {
        let lines = lines.new_tree(runner).unwrap().current();
        let content = lines.join(&b'\n');
        let desk = Desk::new();
        let file = desk.file("lines.jsonl", &content);
        let run = run(desk.command(["--json", "append", &file]));
        let kept = || keep(&content);
        assert!(matches!(run.status, 0 | 1), "{}: {}\n{}", kept(), run.status, run.stderr);
        let summary = run.document();
        let told: u64 =
            ["accepted", "duplicates", "skipped", "rejected"].map(|fate| number(&summary[fate])).iter().sum();
        assert_eq!(told, LINES_A_FILE as u64, "{}: {summary}", kept());
        // The log's own first record lies at 0; the last appended one where the state has come to.
        if let Some(position) = summary["position"].as_str() {
            let log = desk.json(["list", "--limit", "1"]);
            assert_eq!(log["position"], position, "{}", kept());
        }
        assert_eq!(desk.json(["doctor"])["ok"], true, "{}", kept());
    });
    eprintln!("RESULT fuzz target=append lines={}", rounds * LINES_A_FILE);
}

#[test]
fn every_line_that_is_imported_is_accounted_for() {
    let lines = lines((target("import").examples)());
    let rounds = until_the_end(|runner| {
        let content = lines.new_tree(runner).unwrap().current().join(&b'\n');
        let desk = Desk::new();
        let file = desk.file("lines.jsonl", &content);
        let run = run(desk.command(["--json", "import", "chat", &file, "--reasons", "literals"]));
        let kept = || keep(&content);
        assert!(matches!(run.status, 0 | 1), "{}: {}\n{}", kept(), run.status, run.stderr);
        let report = run.document();
        let told = number(&report["runs"]) + number(&report["skipped_lines"]) + number(&report["broken_lines"]);
        // Blank to us is more than blank to the import, which knows other white space.
        assert!(told <= LINES_A_FILE as u64 && told > 0, "{}: {report}", kept());
        assert_eq!(desk.json(["doctor"])["ok"], true, "{}", kept());
    });
    eprintln!("RESULT fuzz target=import_chat lines={}", rounds * LINES_A_FILE);
}

/// Found by counting: JSON of a few bytes a value takes a hundred times its size once it is read, and a line may have 64 MiB.
#[test]
fn a_line_far_larger_than_any_event_is_refused_unread() {
    let desk = Desk::new();
    let swollen = "{\"a\":0},".repeat(1_200_000);
    let lines = format!("{{\"id\":\"e\",\"unheard_of\":[{}]}}\n", swollen.trim_end_matches(','));
    let whole = story::observed("n", "web:a", "read").to_string();
    let file = desk.file("lines.jsonl", lines + &whole);
    let summary = run(desk.command(["--json", "append", &file])).exited(1).document();
    assert_eq!((number(&summary["accepted"]), number(&summary["rejected"])), (1, 1), "{summary}");
    assert_eq!(summary["rejections"][0]["type"], "event_too_large", "{summary}");
}

/// WHEN, cursors, positions, ids, and what else is typed.
#[test]
fn every_argument_is_understood_or_refused_with_a_code() {
    let desk = Desk::new();
    desk.append(&story::events());
    let place = ChangeId {
        incarnation: own_incarnation(&desk),
        position: Position { partition: 0, offset: 5 },
        index: u32::MAX,
    };
    let mut examples = (target("places").examples)();
    examples.extend(
        [place.to_cursor(), place.to_string(), "latest".into(), "a-pay".into(), "120s".into()].map(String::into_bytes),
    );
    let argument = mutate::inputs(examples).prop_map(|mut bytes| {
        // An argument has no NUL, is text on every system, and has its bounds.
        bytes.retain(|byte| *byte != 0);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        text.truncate(text.floor_char_boundary(60_000));
        text
    });
    let words: [&[&str]; 11] = [
        &["list", "--as-of="],
        &["list", "--cursor="],
        &["explain", "a-pay", "--as-of="],
        &["explain", "--"],
        &["watch", "--until-caught-up", "--from="],
        &["watch", "--until-caught-up", "--since="],
        &["run", "--"],
        &["list", "--limit="],
        &["retract", "--preview", "--by=kim", "--node="],
        &["retract", "--preview", "--by=kim", "--source=web:portal", "--from="],
        &["rejected", "retry", "--"],
    ];
    let rounds = until_the_end(|runner| {
        let argument = argument.new_tree(runner).unwrap().current();
        for words in words {
            let (last, first) = words.split_last().unwrap();
            let last =
                if *last == "--" { vec!["--".to_owned(), argument.clone()] } else { vec![format!("{last}{argument}")] };
            let all = ["--json"].iter().chain(first).map(|word| (*word).to_owned()).chain(last);
            let run = run(desk.command(all));
            assert!(matches!(run.status, 0..=3), "{words:?} {argument:?}: {}\n{}", run.status, run.stderr);
            if run.status != 0 && !run.stderr.is_empty() {
                let problem: Value = serde_json::from_str(&run.stderr).unwrap();
                let code = text(&problem["type"]);
                assert!(
                    !code.is_empty() && !["io", "damaged", "log_failed"].contains(&code),
                    "{words:?} {argument:?}: {problem}"
                );
            }
        }
    });
    assert_eq!(desk.json(["doctor"])["ok"], true);
    eprintln!("RESULT fuzz target=arguments processes={}", rounds * words.len());
}

fn own_incarnation(desk: &Desk) -> Incarnation {
    let page = desk.json(["list", "--limit", "1"]);
    ChangeId::from_cursor(text(&page["cursor"])).unwrap().incarnation
}
