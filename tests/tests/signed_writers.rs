//! In a log whose writers sign, a right to write is no right to retract or to reinstate: what takes back, gives back or vouches
//! counts only with the signature of a key that is in force where it lies, over this event in this space of this log. What is
//! refused changes nothing, and says why.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod table;

use std::{path::Path, sync::Arc};

use recant_eventlog::{AppendLog, ReadLog, clock::ManualClock};
use recant_processor::{
    memory::Memory,
    signer::Signer,
    standalone::{NewEvent, NewLog, Standalone, control_record, state_directory},
};
use recant_projections::{
    fold::{Fate, digest_of},
    store::rocks::RocksStore,
};
use recant_proto::{
    id::CONTROL_SPACE,
    position::Incarnation,
    v1::{ActionReviewed, Event, KeyEnrolled, KeyRevoked, PolicySet, SourceDeclared, event::Body},
};
use recant_replayer::verify::{Kept, Subject};
use recant_tests::{
    binary::{Desk, items, story, text},
    generate::BEGIN_MS,
    served::Server,
};
use serde_json::json;
use table::{derived, observed, reinstated, retracted, source};

const HERE: Incarnation = Incarnation([7; 16]);
const ELSEWHERE: Incarnation = Incarnation([8; 16]);

fn ops() -> Signer {
    Signer::of("ops", &[1; 32])
}

fn gateway() -> Signer {
    Signer::of("gateway", &[2; 32])
}

fn enrolled(signer: &Signer, operator: bool) -> KeyEnrolled {
    let public_key = signer.public_key().to_vec();
    KeyEnrolled { key_id: signer.key_id().to_owned(), public_key, operator, holder: String::new() }
}

fn control(id: &str, body: Body) -> Event {
    Event { id: id.to_owned(), space: CONTROL_SPACE.to_owned(), body: Some(body), ..Event::default() }
}

fn enrolment(signer: &Signer, operator: bool) -> Event {
    control(&format!("enrol {}", signer.key_id()), Body::KeyEnrolled(enrolled(signer, operator)))
}

fn revocation(key_id: &str) -> Event {
    control(
        &format!("revoke {key_id}"),
        Body::KeyRevoked(KeyRevoked { key_id: key_id.to_owned(), ..KeyRevoked::default() }),
    )
}

/// A log, in the directory of a test.
struct Log {
    directory: tempfile::TempDir,
    standalone: Standalone,
}

impl Log {
    /// One whose writers sign, with the key of `ops`; a belief stands on the source `S`.
    fn signed() -> Log {
        let directory = tempfile::tempdir().unwrap();
        let new = NewLog { incarnation: HERE, partitions: 1, log_time_occurred: false };
        let key = enrolled(&ops(), false);
        let clock = Arc::new(ManualClock::new(BEGIN_MS));
        let standalone =
            Standalone::create_signed_within(directory.path(), &new, &key, clock, &Memory::default()).unwrap();
        let mut log = Log { directory, standalone };
        assert_eq!(log.say(observed("O", "S")), "accepted", "what is seen needs no signature");
        assert_eq!(log.say(derived("B", &["O"])), "accepted", "nor what is concluded");
        log
    }

    /// Appends an event as whoever may write to the topic can, and says what became of it.
    fn say(&mut self, event: Event) -> String {
        if event.space == CONTROL_SPACE {
            self.standalone.shared_log().append(vec![control_record(0, &event, None)]).unwrap();
        } else {
            self.standalone.append(vec![NewEvent::of(&event)]).unwrap();
        }
        let mut fates = Vec::new();
        self.standalone
            .process(&mut |_, folded| {
                fates.push(match &folded.fate {
                    Fate::Accepted => "accepted".to_owned(),
                    Fate::Duplicate(_) => "duplicate".to_owned(),
                    Fate::Skipped(_) => "skipped".to_owned(),
                    Fate::Rejected(violation) => violation.code.to_string(),
                })
            })
            .unwrap();
        assert_eq!(fates.len(), 1);
        fates.remove(0)
    }

    fn digest(&mut self) -> u128 {
        let driver = self.standalone.driver_of("s").unwrap();
        driver.finish().unwrap();
        digest_of(driver.state().stored(), "s").unwrap()
    }

    /// Refused so, and nothing has changed.
    #[track_caller]
    fn refuses(&mut self, event: Event, code: &str) {
        let before = self.digest();
        assert_eq!(self.say(event), code);
        assert_eq!(self.digest(), before);
    }
}

#[test]
fn what_takes_back_or_vouches_needs_a_signature() {
    let mut log = Log::signed();
    let declared = SourceDeclared { source: "S".to_owned(), kind: "user".to_owned(), ..SourceDeclared::default() };
    let reviewed = ActionReviewed {
        action: "B".to_owned(),
        verdict: "allow".to_owned(),
        by: "dana".to_owned(),
        ..ActionReviewed::default()
    };
    let policy = control("policy", Body::PolicySet(PolicySet::default()));
    for unsigned in [
        retracted("r", &[source("S")]),
        reinstated("r"),
        table::event("declared", Body::SourceDeclared(declared)),
        table::event("reviewed", Body::ActionReviewed(reviewed)),
        policy.clone(),
        enrolment(&gateway(), false),
        revocation("ops"),
    ] {
        log.refuses(unsigned, "signature_needed");
    }
    // Signed, each is decided as in any other log.
    assert_eq!(log.say(ops().sign(HERE, policy)), "not_in_this_version");
    let before = log.digest();
    assert_eq!(log.say(ops().sign(HERE, retracted("r", &[source("S")]))), "accepted");
    assert_ne!(log.digest(), before);
    log.refuses(reinstated("r"), "signature_needed");
    assert_eq!(log.say(ops().sign(HERE, reinstated("r"))), "accepted");
    assert_eq!(log.digest(), before);
}

#[test]
fn a_forged_signature_counts_for_nothing() {
    let mut log = Log::signed();
    let event = retracted("r", &[source("S")]);
    // By another key under the id of an enrolled one.
    let impostor = Signer::of("ops", &[3; 32]);
    log.refuses(impostor.sign(HERE, event.clone()), "signature_invalid");
    // Of another event: changed after it was signed, another id, another space, another log.
    let signed = ops().sign(HERE, event.clone());
    log.refuses(Event { agent: "another".to_owned(), ..signed.clone() }, "signature_invalid");
    log.refuses(Event { id: "r-2".to_owned(), ..signed.clone() }, "signature_invalid");
    log.refuses(Event { space: "t".to_owned(), ..signed.clone() }, "signature_invalid");
    log.refuses(ops().sign(ELSEWHERE, event.clone()), "signature_invalid");
    let mut cut = signed.clone();
    cut.signature.as_mut().unwrap().ed25519.pop();
    log.refuses(cut, "signature_invalid");
    // A refused id is not used up, so nobody can take it by forging.
    assert_eq!(log.say(signed.clone()), "accepted");
    assert_eq!(log.say(signed), "duplicate");
}

#[test]
fn a_key_counts_from_its_enrolment_to_its_revocation() {
    let mut log = Log::signed();
    let early = gateway().sign(HERE, retracted("r", &[source("S")]));
    log.refuses(early.clone(), "key_not_in_force");
    log.refuses(gateway().sign(HERE, enrolment(&gateway(), true)), "key_not_in_force");
    assert_eq!(log.say(ops().sign(HERE, enrolment(&gateway(), false))), "accepted");
    assert_eq!(log.say(early), "accepted", "where the key is in force, whenever it was signed");
    // The same said again, with another signature.
    assert_eq!(log.say(ops().sign(HERE, retracted("r", &[source("S")]))), "duplicate");
    // No operator's.
    let other = Signer::of("other", &[4; 32]);
    log.refuses(gateway().sign(HERE, enrolment(&other, false)), "key_not_in_force");
    log.refuses(gateway().sign(HERE, revocation("ops")), "key_not_in_force");
    let before = log.digest();
    assert_eq!(log.say(ops().sign(HERE, revocation("gateway"))), "accepted");
    assert_eq!(log.digest(), before, "what it signed stays in force");
    log.refuses(gateway().sign(HERE, reinstated("r")), "key_not_in_force");
    // Its id is spent, and the last operator stays.
    let again = control("enrol again", Body::KeyEnrolled(enrolled(&Signer::of("gateway", &[5; 32]), false)));
    log.refuses(ops().sign(HERE, again), "bad_value");
    log.refuses(ops().sign(HERE, revocation("ops")), "bad_value");
    // Operators can change.
    assert_eq!(log.say(ops().sign(HERE, enrolment(&other, true))), "accepted");
    assert_eq!(log.say(other.sign(HERE, revocation("ops"))), "accepted");
    log.refuses(ops().sign(HERE, reinstated("r")), "key_not_in_force");
    assert_eq!(log.say(other.sign(HERE, reinstated("r"))), "accepted");
}

/// A weak key signs anything; one that is no point of the curve nothing.
#[test]
fn a_key_that_is_none_is_not_enrolled() {
    let mut log = Log::signed();
    let mut weak = [0; 32];
    weak[0] = 1;
    for (id, public_key) in [("weak", weak), ("none", [2; 32])] {
        let key = KeyEnrolled { key_id: id.to_owned(), public_key: public_key.to_vec(), ..KeyEnrolled::default() };
        log.refuses(ops().sign(HERE, control(id, Body::KeyEnrolled(key))), "bad_value");
    }
}

/// Decided from the log alone: whoever replays it decides the same, signature by signature.
#[test]
fn a_replay_decides_as_it_was_decided() {
    let mut log = Log::signed();
    log.refuses(retracted("unsigned", &[source("S")]), "signature_needed");
    assert_eq!(log.say(ops().sign(HERE, enrolment(&gateway(), false))), "accepted");
    assert_eq!(log.say(gateway().sign(HERE, retracted("r", &[source("S")]))), "accepted");
    assert_eq!(log.say(ops().sign(HERE, revocation("gateway"))), "accepted");
    log.refuses(gateway().sign(HERE, reinstated("r")), "key_not_in_force");
    let (directory, shared) = (log.directory, log.standalone.shared_log());
    drop(log.standalone);
    let store = RocksStore::follow(&state_directory(directory.path(), 0)).unwrap();
    let subject = Subject::now(&*shared, 0, Kept::Readable(store), None).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let verified = subject.verify(&scratch.path().join("0"), 1 << 27, &|_| {}).unwrap();
    assert_eq!((verified.differences, verified.rejected), (vec![], 2));
    assert_eq!(shared.incarnation(), HERE);
}

#[test]
fn in_an_open_log_nothing_is_signed_and_no_key_is_enrolled() {
    let directory = tempfile::tempdir().unwrap();
    let new = NewLog { incarnation: HERE, partitions: 1, log_time_occurred: false };
    let standalone = Standalone::create(directory.path(), &new, Arc::new(ManualClock::new(BEGIN_MS))).unwrap();
    let mut log = Log { directory, standalone };
    assert_eq!(log.say(observed("O", "S")), "accepted");
    log.refuses(ops().sign(HERE, enrolment(&gateway(), false)), "bad_value");
    assert_eq!(log.say(retracted("r", &[source("S")])), "accepted");
    assert_eq!(log.say(Signer::of("nobody", &[9; 32]).sign(ELSEWHERE, reinstated("r"))), "accepted");
}

/// What users type: a log, its keys, a server that signs for its callers, and a file of a key that others could read.
#[test]
fn on_the_command_line() {
    let desk = Desk::new();
    desk.done(["key", "new", "ops", "--out", "ops.key"]);
    let made = desk.json(["key", "new", "gateway", "--out", "gateway.key"]);
    let public_key = text(&made["public_key"]).to_owned();
    desk.run(["init", "--writers", "signed"]).exited(2);
    desk.done(["init", "--writers", "signed", "--partitions", "3", "--key", "ops.key"]);
    desk.run(["init"]).exited(2);
    let events = desk.lines("story.jsonl", &story::events());
    desk.done(["append", &events, "--key", "ops.key"]);

    let retract = ["retract", "--source", "web:portal", "--id", "r-1"];
    desk.problem(1, "signature_needed", retract);
    desk.problem(1, "key_not_in_force", [&retract[..], &["--key", "gateway.key"]].concat());
    let enrol = ["key", "enrol", "gateway", "--public-key", &public_key, "--holder", "gateway"];
    desk.run(enrol).exited(2);
    desk.done([&enrol[..], &["--key", "ops.key"]].concat());
    desk.done([&enrol[..], &["--key", "ops.key"]].concat());
    desk.done([&retract[..], &["--key", "gateway.key"]].concat());

    let listed = desk.json(["key", "list"]);
    let keys: Vec<_> = listed["keys"].as_array().unwrap().iter().collect();
    let told =
        |key: &serde_json::Value| (text(&key["key_id"]).to_owned(), key["operator"] == true, key["partitions"].clone());
    assert_eq!(
        keys.iter().map(|key| told(key)).collect::<Vec<_>>(),
        [("gateway".to_owned(), false, json!(3)), ("ops".to_owned(), true, json!(3)),]
    );

    // The gateway signs for its callers; one that has no key passes on what it is given, and that is refused.
    let server = Server::start_with(&desk, &[]);
    desk.problem(1, "signature_needed", ["reinstate", "r-1", "--url", &server.url]);
    assert_eq!(server.end(), 0);
    let server = Server::start_with(&desk, &["--key", "gateway.key"]);
    desk.done(["reinstate", "r-1", "--url", &server.url]);
    assert_eq!(server.end(), 0);
    assert_eq!(items(&desk.json(["list", "--status", "out"])).len(), 0);

    desk.done(["key", "revoke", "gateway", "--reason", "the host was taken over", "--key", "ops.key"]);
    desk.run(["retract", "--source", "web:portal", "--key", "gateway.key"]).exited(1);
    desk.done(["verify"]);

    let open = |path: &Path, mode: u32| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&desk.path("ops.key"), 0o644);
    desk.run(["retract", "--source", "web:portal", "--key", "ops.key"]).exited(2);
}
