//! That the claims can fail: stories that go another way, and a world that is not as it was told.

use std::{cell::RefCell, ffi::OsString, io, path::Path, rc::Rc};

use clap::Parser;
use recant_proto::v1::{Event, event::Body};

use super::*;
use crate::arguments::Arguments;

/// What was written into an [`Output`].
#[derive(Clone, Default)]
struct Written(Rc<RefCell<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn output(&self) -> Output {
        Output::to(false, Box::new(self.clone()))
    }

    fn text(&self) -> String {
        anstream::adapter::strip_str(&String::from_utf8(self.0.borrow().clone()).unwrap()).to_string()
    }
}

/// The other process, played by this one: a test has no binary of its own.
fn here(words: &[OsString]) -> Result<String> {
    let written = Written::default();
    let arguments = Arguments::try_parse_from(std::iter::once(OsString::from("recant")).chain(words.iter().cloned()))?;
    let mut output = Output::to(arguments.common.json, Box::new(written.clone()));
    assert_eq!(crate::commands::run(arguments, &mut output)?, Exit::Done);
    output.flush()?;
    let bytes = written.0.borrow().clone();
    Ok(String::from_utf8(bytes)?)
}

/// Tells a story in a directory of its own: what was seen, and what was printed.
fn told(events: &[Event]) -> (Seen, String) {
    let directory = tempfile::tempdir().unwrap();
    let written = Written::default();
    let mut output = written.output();
    let seen = telling::tell(directory.path(), events, &here, &mut output).unwrap();
    show(&claims::check(&seen), &mut output).unwrap();
    output.flush().unwrap();
    let text = written.text();
    assert!(!text.contains(&directory.path().display().to_string()), "{text}");
    (seen, text)
}

/// The claims that do not hold.
fn failing(seen: &Seen) -> Vec<String> {
    claims::check(seen).into_iter().filter(|claim| !claim.ok).map(|claim| claim.claim).collect()
}

fn fails(seen: &Seen, claim: &str) -> bool {
    let failing = failing(seen);
    failing.iter().any(|failing| failing.starts_with(claim))
}

/// The story with one event changed.
fn changed(id: &str, change: impl FnOnce(&mut Event)) -> Vec<Event> {
    let mut events = story::events();
    change(events.iter_mut().find(|event| event.id == id).unwrap());
    events
}

fn without(id: &str) -> Vec<Event> {
    let events: Vec<Event> = story::events().into_iter().filter(|event| event.id != id).collect();
    assert_eq!(events.len() + 1, story::events().len());
    events
}

#[test]
fn every_claim_holds_and_the_text_keeps_to_its_rules() {
    let (seen, text) = told(&story::events());
    assert_eq!(failing(&seen), Vec::<String>::new());
    assert_eq!(exit_of(&claims::check(&seen)), Exit::Done);
    for line in text.lines() {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= 100, "{line}");
    }
    // OUT does not mean that, and no text may say so.
    assert!(!text.to_lowercase().contains("false"), "{text}");
    assert!(text.lines().count() < 160, "it is read in a minute and a half");
}

#[test]
fn two_tellings_are_the_same_bytes() {
    assert_eq!(told(&story::events()).1, told(&story::events()).1);
}

/// The claim that the address stays is about the contract: without it, it falls.
#[test]
fn without_the_contract_the_address_is_no_longer_claimed() {
    let (seen, _) = told(&without("address-in-contract"));
    assert!(fails(&seen, "the address is IN"), "{:?}", failing(&seen));
    assert!(fails(&seen, "so are the deed"), "{:?}", failing(&seen));
    assert!(fails(&seen, "the preview"), "{:?}", failing(&seen));
}

/// A page that was read before the takeover is outside the window.
#[test]
fn a_page_read_before_the_takeover_does_not_fall() {
    let before = changed(story::PROFILE_PAGE, |event| event.occurred_at = "2026-03-05T20:59:59Z".to_owned());
    let (seen, _) = told(&before);
    assert!(fails(&seen, "the preview"), "{:?}", failing(&seen));
    assert!(fails(&seen, "the address is IN"), "two reasons are alive: {:?}", failing(&seen));
}

#[test]
fn one_belief_more_is_noticed() {
    let mut events = story::events();
    let mut more = events.iter().find(|event| event.id == "note-account").unwrap().clone();
    more.id = "one-more".to_owned();
    if let Some(Body::Derived(derived)) = &mut more.body {
        derived.node = "one-more".to_owned();
    }
    events.push(more);
    assert_eq!(failing(&told(&events).0), [format!("the preview: {}", story::FALLS)]);
}

#[test]
fn an_event_that_is_rejected_is_noticed() {
    let (seen, _) = told(&changed("pay-6000-done", |event| {
        if let Some(Body::ActionSettled(settled)) = &mut event.body {
            settled.outcome = "perhaps".to_owned();
        }
    }));
    assert_eq!(seen.not_accepted, ["pay-6000-done"]);
    // And the deposit had not gone, as far as the log knows.
    let what_if = "retracted that evening, the 6,000 USD would have had no reason to go";
    assert_eq!(failing(&seen), ["every event of the story was accepted", what_if]);
}

/// What was seen, with one thing other than it was, makes the claim about it fail.
#[test]
fn each_claim_can_fail() {
    let (seen, _) = told(&story::events());
    let failed = |change: &dyn Fn(&mut Seen)| {
        let mut seen = seen.clone();
        change(&mut seen);
        failing(&seen).join("\n")
    };
    type Change<'a> = &'a dyn Fn(&mut Seen);
    let changes: [(&str, Change<'_>); 19] = [
        ("every event", &|seen| seen.not_accepted.push("e".to_owned())),
        ("the preview:", &|seen| seen.preview.sources = 2),
        ("the preview:", &|seen| drop(seen.preview.records.pop())),
        ("the commit did", &|seen| seen.committed.records[1].distance = Some(7)),
        ("the commit did", &|seen| seen.committed.records.swap(3, 4)),
        ("nothing else moved", &|seen| seen.after[0].status = "OUT"),
        ("the address is IN", &|seen| seen.address = None),
        ("so are the deed", &|seen| seen.after.retain(|node| node.id != story::OLD_OBSERVATION)),
        ("another process was told", &|seen| seen.watched = without_line(&seen.watched, 3)),
        ("another process was told", &|seen| seen.watched = without_line(&seen.watched, 11)),
        ("another process was told", &|seen| seen.watched = seen.watched.replace("note-account", "note-akkount")),
        ("another process was told", &|seen| seen.watched.push_str("{}\n")),
        ("another process was told", &|seen| seen.watched.clear()),
        ("another process was told", &|seen| seen.watched_deeds = without_line(&seen.watched_deeds, 0)),
        ("as of before", &|seen| seen.as_of_before[2].why = Some("pending")),
        ("the reinstatement turned", &|seen| drop(seen.reinstated.records.pop())),
        ("the state digest", &|seen| seen.digest_reinstated = seen.digest_retracted.clone()),
        ("reinstating one", &|seen| seen.overlap.lifted = seen.reinstated.clone()),
        ("recant doctor", &|seen| seen.faults.push("a fault".to_owned())),
    ];
    for (claim, change) in changes {
        let failed = failed(change);
        assert!(failed.starts_with(claim) || failed.contains(&format!("\n{claim}")), "{claim}: {failed}");
    }
}

fn without_line(text: &str, number: usize) -> String {
    let lines = text.lines().enumerate().filter(|(at, _)| *at != number);
    lines.map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn a_claim_that_does_not_hold_is_shown_and_is_the_exit_status() {
    let (seen, _) = told(&story::events());
    let seen = Seen { doctor_is_content: false, ..seen };
    let claims = claims::check(&seen);
    let written = Written::default();
    let mut output = written.output();
    show(&claims, &mut output).unwrap();
    output.flush().unwrap();
    assert!(written.text().contains("✗ recant doctor finds nothing wrong; found: "), "{}", written.text());
    assert_eq!(exit_of(&claims), Exit::No);
    let report = serde_json::to_value(report(&seen, &claims, None)).unwrap();
    assert_eq!(report["ok"], false);
}

/// A process that cannot be run, or fails, ends the story with a typed error.
#[test]
fn another_process_that_fails_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let fails = |_: &[OsString]| -> Result<String> { Err(Problem::wrong("it fell").into()) };
    let told = telling::tell(directory.path(), &story::events(), &fails, &mut Written::default().output());
    assert_eq!(told.unwrap_err().to_string(), "it fell");
}

#[test]
fn a_story_is_told_in_an_empty_directory_only() {
    let directory = tempfile::tempdir().unwrap();
    let exit = |path: &Path| check_empty(path).map_err(|error| Exit::from(crate::failure::problem_of(&error).sort));
    assert_eq!(exit(directory.path()), Ok(()));
    assert_eq!(exit(&directory.path().join("absent")), Ok(()));
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(exit(directory.path()), Err(Exit::Wrong));
    assert_eq!(exit(&file), Err(Exit::Wrong));
}

#[test]
fn tellings_that_differ_are_told_apart() {
    assert!(compare(b"a\nb\n", b"a\nb\n").is_ok());
    assert!(compare(b"a\nb\n", b"a\nc\n").unwrap_err().contains("line 2"));
    assert!(compare(b"a\n", b"a\nc\n").unwrap_err().contains("line 2"));
    assert!(compare(b"a\n", b"a").is_err());
}

#[test]
fn a_command_line_can_be_pasted() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(telling::command_line(&words("explain pay-34500")), "recant explain pay-34500");
    assert_eq!(telling::command_line(&["it's".to_owned(), String::new()]), "recant 'it'\\''s' ''");
    let wide = telling::command_line(&words(&format!("retract --source {0} --node {0} --node {0}", "x".repeat(40))));
    assert!(wide.contains(" \\\n    --node xxx"), "{wide}");
}
