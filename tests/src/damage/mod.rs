//! Damage to the files of a data directory, and what `recant` makes of it.
//!
//! An [`Original`] is a directory as real processes leave it: tables of earlier runs, and write-ahead logs with what the last
//! run wrote before it was killed. A copy of it is damaged in one file, and read, checked and written to with the real binary. Whatever is
//! answered is held against the original at the position that the answer claims: a wrong answer, a panic, and an
//! acknowledged event that is gone without a word fail at once, whatever was expected.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what fails here fails a test"
)]

pub mod cells;
pub mod page;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde_json::{Value, json};

use crate::binary::{Desk, Run, copy_directory, items, run, story, text, wait_until};

/// So many sources each run of the binary adds.
const SOURCES_A_RUN: usize = 60;
const RUNS: usize = 3;

/// A belief of the first run whose source was retracted and is believed again.
const EXPLAINED: &str = "b-0-10";

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The right answer, of everything that was acknowledged.
    Right,
    /// The right answer of an earlier position, which it names.
    Behind,
    /// A problem with this code, and advice.
    Refused(String),
    /// `doctor` said that all is well.
    Well,
    /// `doctor` said what is wrong, and what to do.
    Found,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Right => f.write_str("right"),
            Outcome::Behind => f.write_str("right, of an earlier position"),
            Outcome::Refused(code) => write!(f, "`{code}`"),
            Outcome::Well => f.write_str("all is well"),
            Outcome::Found => f.write_str("finds it"),
        }
    }
}

/// What readers, writers and `doctor` made of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// `list` and `explain`.
    pub reader: Outcome,
    /// `doctor`.
    pub doctor: Outcome,
    /// `append`, and what is listed afterwards.
    pub writer: Outcome,
}

/// A directory as real processes leave it, with its right answers.
pub struct Original {
    desk: Desk,
    /// The position of the last event.
    pub end: u64,
    /// The nodes, and an explanation, at each position that was asked for.
    past: Mutex<BTreeMap<u64, (Value, Value)>>,
    /// The nodes and the digest once [`extra_event`] is appended.
    after_extra: (Value, String),
}

/// An event that is appended to a damaged directory.
fn extra_event() -> Value {
    story::observed("o-extra", "web:extra", "One more.")
}

impl Original {
    /// Makes one. `name` is in all that it holds, so that two are different.
    pub fn make(name: &str) -> Original {
        let desk = Desk::new();
        for run in 0..RUNS - 1 {
            desk.append(&events(name, run));
        }
        copy_directory(&desk.path("data"), &desk.path("early"));
        append_and_kill(&desk, &events(name, RUNS - 1));
        let page = desk.json(["list", "--limit", "1000000"]);
        let end = offset(&page);
        let extended = Desk::new();
        copy_directory(&desk.path("data"), &extended.path("data"));
        extended.append(&[extra_event()]);
        let after_extra = (nodes(&extended.json(["list", "--limit", "1000000"])), extended.digest());
        let past = Mutex::new(BTreeMap::from([(end, (nodes(&page), desk.json(["explain", EXPLAINED])))]));
        Original { desk, end, past, after_extra }
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.desk.path("data")
    }

    /// The same directory as it was one run earlier.
    pub fn early(&self) -> PathBuf {
        self.desk.path("early")
    }

    /// A copy of it, on a desk of its own.
    pub fn copy(&self) -> Desk {
        let desk = Desk::new();
        copy_directory(&self.data(), &desk.path("data"));
        desk
    }

    /// The nodes and the explanation as they were after the event at an offset.
    fn at(&self, offset: u64) -> (Value, Value) {
        let mut past = self.past.lock().unwrap();
        let known = past.entry(offset).or_insert_with(|| {
            let when = format!("0:{offset}");
            let page = self.desk.json(["list", "--limit", "1000000", "--as-of", &when]);
            (nodes(&page), self.desk.json(["explain", EXPLAINED, "--as-of", &when]))
        });
        known.clone()
    }

    /// What readers, `doctor` and a writer make of a copy that was damaged. Panics where one of them does what it never may.
    pub fn see(&self, what: &str, desk: &Desk) -> Seen {
        let doctor = self.doctor(what, desk);
        let reader = self.reader(what, desk);
        let writer = self.writer(what, desk);
        Seen { reader, doctor, writer }
    }

    fn reader(&self, what: &str, desk: &Desk) -> Outcome {
        let listed = match self.answer(what, desk, &["list", "--limit", "1000000"]) {
            Err(refused) => refused,
            Ok(page) => {
                let at = offset(&page);
                assert!(at <= self.end, "{what}: an answer of {at}, and the log ends at {}", self.end);
                assert_eq!(nodes(&page), self.at(at).0, "{what}: a wrong answer at {at}");
                if at == self.end { Outcome::Right } else { Outcome::Behind }
            }
        };
        let explained = match self.answer(what, desk, &["explain", EXPLAINED]) {
            Err(refused) => refused,
            Ok(explanation) => {
                let at = offset(&explanation);
                assert_eq!(explanation, self.at(at).1, "{what}: a wrong explanation at {at}");
                if at == self.end { Outcome::Right } else { Outcome::Behind }
            }
        };
        // Where the one touches what the other does not, the one that fared worse counts.
        listed.max(explained)
    }

    fn doctor(&self, what: &str, desk: &Desk) -> Outcome {
        let run = command(desk, &["doctor"]);
        match run.status {
            0 => Outcome::Well,
            1 => {
                let report = run.document();
                let failed: Vec<&Value> =
                    report["checks"].as_array().unwrap().iter().filter(|check| check["ok"] == false).collect();
                assert!(!failed.is_empty(), "{what}: {report}");
                for check in failed {
                    assert!(check["advice"].as_str().is_some_and(|advice| advice.len() > 10), "{what}: {check}");
                }
                Outcome::Found
            }
            _ => self.refusal(what, &run),
        }
    }

    fn writer(&self, what: &str, desk: &Desk) -> Outcome {
        let file = desk.lines("extra.jsonl", &[extra_event()]);
        let run = command(desk, &["append", &file]);
        if run.status != 0 {
            let refused = self.refusal(what, &run);
            // A refusal must not be what loses something: it stays refused.
            let again = command(desk, &["append", &file]);
            assert_ne!(again.status, 0, "{what}: refused once, and then not");
            return refused;
        }
        let page = desk.json(["list", "--limit", "1000000"]);
        assert_eq!(offset(&page), self.end + 1, "{what}: acknowledged events were lost without a word");
        assert_eq!(nodes(&page), self.after_extra.0, "{what}: a wrong answer after writing");
        assert_eq!(desk.digest(), self.after_extra.1, "{what}: a wrong digest after writing");
        Outcome::Right
    }

    fn answer(&self, what: &str, desk: &Desk, arguments: &[&str]) -> Result<Value, Outcome> {
        let run = command(desk, arguments);
        if run.status == 0 { Ok(run.document()) } else { Err(self.refusal(what, &run)) }
    }

    /// The code of a problem, which must come with the right advice.
    fn refusal(&self, what: &str, run: &Run) -> Outcome {
        let problem: Value = serde_json::from_str(&run.stderr)
            .unwrap_or_else(|_| panic!("{what}: exit {}, and no problem: {}", run.status, run.stderr));
        let (code, detail) = (text(&problem["type"]), text(&problem["detail"]));
        assert_eq!(run.status, 3, "{what}: {problem}");
        if matches!(code, "damaged" | "state_mismatch") {
            let is_of_log = detail.contains("the log in ") || detail.contains("the record at ");
            let is_mismatch = code == "state_mismatch";
            let advises = |command| detail.contains(command);
            assert!(advises("recant restore") || !(is_of_log || is_mismatch), "{what}: {detail}");
            assert!(advises("recant rebuild") || (is_of_log && !is_mismatch), "{what}: {detail}");
        }
        Outcome::Refused(code.to_owned())
    }
}

fn command(desk: &Desk, arguments: &[&str]) -> Run {
    run(desk.command(["--json"].iter().chain(arguments)))
}

fn position(text: &str) -> u64 {
    text.split_once(':').and_then(|(_, offset)| offset.parse().ok()).expect("a position")
}

fn offset(page: &Value) -> u64 {
    position(text(&page["position"]))
}

/// The nodes of a page, without when the log took the one that is appended in each copy anew.
fn nodes(page: &Value) -> Value {
    let mut nodes = items(page).to_vec();
    for node in nodes.iter_mut().filter(|node| node["id"] == "o-extra") {
        node["recorded_at"] = json!("");
    }
    Value::Array(nodes)
}

/// Appends events, and kills the process once they can be read.
fn append_and_kill(desk: &Desk, events: &[Value]) {
    let before = offset(&desk.json(["list"]));
    let mut writer = desk.writer(events.len() as u32);
    events.iter().for_each(|event| writer.send(event));
    wait_until("the events are applied", || {
        (offset(&desk.json(["list"])) == before + events.len() as u64).then_some(())
    });
    writer.kill();
}

/// What a run adds: sources that say something, beliefs on pairs of them, and retractions of every fifth.
fn events(name: &str, run: usize) -> Vec<Value> {
    let source = |number: usize| format!("web:{name}-{run}-{number}");
    let mut events = Vec::new();
    for number in 0..SOURCES_A_RUN {
        let words =
            format!("{name}, run {run}, number {number}: {}", "so it is said, and so it is written. ".repeat(6));
        events.push(story::observed(&format!("o-{run}-{number}"), &source(number), &words));
        let other = format!("o-{run}-{}", number / 2);
        events.push(story::derived(&format!("b-{run}-{number}"), "belief", &[&format!("o-{run}-{number}"), &other]));
    }
    for number in (0..SOURCES_A_RUN).step_by(5) {
        events.push(story::retracted(&format!("r-{run}-{number}"), &source(number)));
    }
    events.push(story::reinstated(&format!("e-back-{run}"), &format!("r-{run}-10")));
    events
}

/// The names of a directory's files.
pub fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).expect("a directory can be read");
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
