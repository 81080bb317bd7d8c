//! A new logic version takes over: what it believes otherwise is shown before, published as one cascade of the event with which
//! it takes over, and nothing else changes. Wherever that is broken off, each program knows what it may do, and beginning
//! again ends the same. Version 1 is planted here, with a fault that version 2 does not have.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod table;

use std::{convert::Infallible, path::Path, sync::Arc, time::Duration};

use prost::Message as _;
use recant_eventlog::{
    AppendLog, NewRecord, ProcessLog, ReadLimit, ReadLog, Topic,
    clock::ManualClock,
    embedded::{CreateOptions, EmbeddedLog, WriterOptions},
    kafka::{KafkaLog, NewLog},
};
use recant_processor::{
    driver::{BatchLimit, DriveError, Driver, source_of, to_log},
    standalone::{log_created, log_directory, state_directory},
    switch,
};
use recant_projections::{
    fold::{FoldError, Logic, digest_of},
    justification::{
        resident::Resident,
        settle::{Edit, Rule, Settled, settle, settle_by},
    },
    store::{StoreError, behind::WriteBehind, rocks::RocksStore},
};
use recant_proto::{names, position::Incarnation, v1, wire};
use recant_replayer::{
    replay::ReplayError,
    upgrade::{SpaceDifferences, Subject, Upgrade},
    verify::{self, Kept, Verified, What},
};
use recant_tests::{
    binary::copy_directory,
    generate::BEGIN_MS,
    kafka::{broker::Broker, instance, settings},
};
use table::{derived, node, observed, reinstated, retracted, source};

const INCARNATION: Incarnation = Incarnation([9; 16]);
const BUDGET_BYTES: usize = 1 << 27;
const DIGEST_INTERVAL_EVENTS: u64 = 4;

/// The fault of version 1: lifting one of several retractions lifts all, and lifting the only one lifts nothing.
struct Old;

impl Rule for Old {
    fn uncover(covers: u32) -> u32 {
        if covers > 1 { 0 } else { covers }
    }
}

fn settle_as_old(graph: &mut Resident, edit: &Edit) -> Result<Settled, Infallible> {
    settle_by::<Old, Resident>(graph, edit)
}

const ONE: Logic = Logic { version: 1, engine: settle_as_old };
const TWO: Logic = Logic { version: 2, engine: settle };

/// In the space `s`: what rests on `twice` is IN by version 1 and OUT by version 2, on `once` the other way round; what
/// rests on `never` is the same. `also` has another reason.
fn story() -> Vec<v1::Event> {
    vec![
        observed("o-twice", "twice"),
        observed("o-once", "once"),
        observed("o-never", "never"),
        derived("b-twice", &["o-twice"]),
        derived("b-once", &["o-once"]),
        derived("b-never", &["o-never"]),
        derived("also", &["o-twice"]),
        derived("also", &["o-never"]),
        retracted("r-1", &[node("o-twice")]),
        retracted("r-2", &[source("twice")]),
        reinstated("r-1"),
        retracted("r-3", &[source("once")]),
        reinstated("r-3"),
    ]
}

/// What the take-over says of each space, in order: node, before, after.
const OTHERWISE: [(&str, &str, &str); 4] =
    [("o-twice", "IN", "OUT"), ("o-once", "OUT", "IN"), ("b-twice", "IN", "OUT"), ("b-once", "OUT", "IN")];

fn in_space(space: &str, event: v1::Event) -> v1::Event {
    v1::Event { space: space.to_owned(), ..event }
}

fn record(event: &v1::Event) -> NewRecord {
    NewRecord {
        partition: 0,
        key: event.space.clone().into_bytes(),
        headers: vec![(names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())],
        value: wire::to_protobuf(event),
        append_time_ms: None,
    }
}

fn open_log(data: &Path) -> EmbeddedLog {
    EmbeddedLog::open(&log_directory(data), Arc::new(ManualClock::new(BEGIN_MS))).unwrap()
}

/// A log as version 1 leaves it, with two spaces.
fn written_by_one(data: &Path) {
    let options = CreateOptions {
        incarnation: INCARNATION,
        partitions: 1,
        first_records: vec![log_created(INCARNATION, 1, 0, false)],
        writer: WriterOptions::default(),
    };
    let log = EmbeddedLog::create(&log_directory(data), options, Arc::new(ManualClock::new(BEGIN_MS))).unwrap();
    for space in ["s", "t"] {
        log.append(story().into_iter().map(|event| record(&in_space(space, event))).collect()).unwrap();
    }
    drop(log);
    process(data, ONE).unwrap();
}

/// Processes what is there, as a program with this version does.
fn process(data: &Path, logic: Logic) -> Result<(), DriveError> {
    process_log(open_log(data), data, logic)
}

fn process_log(log: impl ProcessLog, data: &Path, logic: Logic) -> Result<(), DriveError> {
    let directory = state_directory(data, 0);
    switch::finish_switch(data, 0)?;
    std::fs::create_dir_all(&directory).unwrap();
    let store = RocksStore::open(&directory).and_then(WriteBehind::new).unwrap();
    let limit = BatchLimit { logic, digest_interval_events: DIGEST_INTERVAL_EVENTS, ..BatchLimit::default() };
    let mut driver = Driver::open(Arc::new(log), store, 0, limit)?;
    driver.catch_up(&mut |_, _| {})?;
    driver.publish_digests()?;
    driver.finish()
}

/// Takes over, as `recant upgrade` does, and calls after each step with its name.
fn upgrade(data: &Path, after: impl FnMut(&str)) -> Result<Vec<SpaceDifferences>, ReplayError> {
    upgrade_log(&open_log(data), data, after)
}

fn upgrade_log<L: ProcessLog + AppendLog + Sync>(
    log: &L,
    data: &Path,
    mut after: impl FnMut(&str),
) -> Result<Vec<SpaceDifferences>, ReplayError> {
    let building = switch::begin(data, 0).unwrap();
    let old = state_directory(data, 0);
    let subject = Subject { number: 0, old: &old, building: &building, logic: TWO };
    let mut upgrade = Upgrade::begin(log, subject, BUDGET_BYTES, &|_| {})?;
    assert!(upgrade.is_due());
    after("built");
    upgrade.announce()?;
    after("announced");
    let source = source_of(log);
    let differences = upgrade.take_over(&|output| to_log(output, &source, None))?;
    after("taken_over");
    upgrade.complete()?;
    after("complete");
    switch::finish(data, 0, &building, false).unwrap();
    after("switched");
    Ok(differences)
}

/// The records of cascades of which `LogicActivated` is the cause.
fn taken_over(log: &impl ReadLog) -> Vec<v1::Change> {
    let all = ReadLimit { records_max: 10_000, bytes_max: 64 << 20 };
    let records = log.read(Topic::Changes, 0, 0, all).unwrap();
    let changes = records.iter().map(|record| v1::Change::decode(record.value.as_slice()).unwrap());
    changes.filter(|change| change.cause.as_ref().is_some_and(|cause| cause.r#type == "logic_activated")).collect()
}

/// What is published as the take-over is what differs, once, a cascade for each space.
fn assert_published(log: &impl ReadLog) {
    let records = taken_over(log);
    assert_eq!(records.len(), 2 * (1 + OTHERWISE.len()));
    let ids: Vec<u32> = records.iter().map(|record| record.id.rsplit(':').next().unwrap().parse().unwrap()).collect();
    assert_eq!(ids, (0..records.len() as u32).collect::<Vec<_>>());
    for (space, cascade) in ["s", "t"].into_iter().zip(records.chunks(1 + OTHERWISE.len())) {
        let found: Vec<_> =
            cascade[1..].iter().map(|it| (it.node.as_str(), it.from.as_str(), it.to.as_str())).collect();
        assert_eq!(found, OTHERWISE);
        assert_eq!(cascade[0].summary.as_ref().unwrap().changed, Some(OTHERWISE.len() as u32));
        for (index, record) in (0..).zip(cascade) {
            let place = record.cascade.as_ref().unwrap();
            assert_eq!((place.index, place.total), (Some(index), OTHERWISE.len() as u32));
            assert_eq!((record.space.as_str(), place.id == record.position), (space, true));
        }
    }
}

fn verified(data: &Path, logic: Logic) -> Verified {
    let log = open_log(data);
    let store = RocksStore::follow(&state_directory(data, 0)).unwrap();
    let mut subject = verify::Subject::now(&log, 0, Kept::Readable(store), None).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    subject.logic = logic;
    subject.verify(&scratch.path().join("0"), BUDGET_BYTES, &|_| {}).unwrap()
}

fn is_of_older_logic(refused: Result<(), DriveError>) -> bool {
    match refused {
        Err(DriveError::Fold(FoldError::Store(StoreError::Format(detail)))) => detail.contains("`recant upgrade`"),
        _ => false,
    }
}

/// Nothing of a preview is left, and it says what the take-over then publishes.
#[test]
fn what_is_shown_before_is_what_is_published() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    written_by_one(&data);
    assert_eq!(verified(&data, ONE).differences, []);

    let shown = {
        let log = open_log(&data);
        let (old, building) = (state_directory(&data, 0), directory.path().join("preview"));
        let subject = Subject { number: 0, old: &old, building: &building, logic: TWO };
        Upgrade::begin(&log, subject, BUDGET_BYTES, &|_| {}).unwrap().differences().unwrap()
    };
    let told = |space: &SpaceDifferences| -> Vec<_> {
        let nodes = space.nodes.iter();
        nodes.map(|it| (it.id.clone(), it.before.unwrap().status(), it.after.unwrap().status())).collect()
    };
    assert_eq!(shown.iter().map(|space| space.space.as_str()).collect::<Vec<_>>(), ["s", "t"]);
    for space in &shown {
        assert_eq!(told(space), OTHERWISE.map(|(node, before, after)| (node.to_owned(), before, after)));
    }
    assert_eq!(taken_over(&open_log(&data)), []);
    process(&data, ONE).expect("version 1 goes on as if nothing had been asked");

    assert_eq!(upgrade(&data, |_| {}).unwrap(), shown);
    assert_published(&open_log(&data));
}

/// Broken off after any step: the old version goes on before the new one is announced, and no further afterwards; the new one
/// serves nothing before its state is in its place; and beginning again ends in the same state and the same changes.
#[test]
fn wherever_it_is_broken_off_it_is_begun_again() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    written_by_one(&data);
    let copy = |name: &str| directory.path().join(name);
    let mut steps = Vec::new();
    upgrade(&data, |step| {
        // What a kill leaves: files as they are, without anything being closed.
        for of in ["old", "new", "again"] {
            copy_directory(&data, &copy(&format!("{step}-{of}")));
        }
        steps.push(step.to_owned());
    })
    .unwrap();
    assert_eq!(steps, ["built", "announced", "taken_over", "complete", "switched"]);
    let digest = |data: &Path| digest_of(&RocksStore::follow(&state_directory(data, 0)).unwrap(), "s").unwrap();
    let committed = open_log(&data).committed(0).unwrap();

    for step in &steps {
        let by_old = process(&copy(&format!("{step}-old")), ONE);
        match step.as_str() {
            "built" => by_old.expect("nothing has happened yet"),
            "switched" => assert!(matches!(by_old, Err(DriveError::Fold(FoldError::Store(StoreError::Format(_)))))),
            _ => assert!(
                matches!(by_old, Err(DriveError::Fold(FoldError::LogicVersion { version: 2, ours: 1, .. }))),
                "{step}: {by_old:?}"
            ),
        }
        let by_new = process(&copy(&format!("{step}-new")), TWO);
        match step.as_str() {
            "switched" => by_new.expect("it has taken over"),
            _ => assert!(is_of_older_logic(by_new), "{step}"),
        }
        let again = copy(&format!("{step}-again"));
        if step != "switched" {
            upgrade(&again, |_| {}).unwrap();
        }
        assert_eq!(digest(&again), digest(&data), "{step}");
        assert_eq!(open_log(&again).committed(0).unwrap(), committed, "{step}");
        assert_published(&open_log(&again));
        process(&again, TWO).unwrap();
        assert_eq!(verified(&again, TWO).differences, [], "{step}");
    }
}

/// Behind the take-over all is as ever: what comes is folded by the new version, replays come to it, and verification compares
/// from there, and says that it does.
#[test]
fn what_came_before_is_not_compared_and_what_comes_behind_is() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    written_by_one(&data);
    // The new version cannot say what the old one published: not while that is in force either.
    let before = verified(&data, ONE);
    assert_eq!((before.differences.len(), before.compared_from), (0, None));
    let by_two: Vec<What> = verified(&data, TWO).differences.iter().map(|difference| difference.what).collect();
    assert!(by_two.contains(&What::LogicVersion), "{by_two:?}");

    // One that the old version has not processed when the new one takes over, and one that nobody accepts.
    let unprocessed = [observed("o-late", "twice"), observed("o-twice", "other")];
    let unprocessed = unprocessed.map(|event| v1::Event { id: format!("late {}", event.id), ..event });
    open_log(&data).append(unprocessed.iter().map(record).collect()).unwrap();
    let differences = upgrade(&data, |_| {}).unwrap();
    let born_out = differences[0].nodes.last().unwrap();
    assert_eq!((born_out.id.as_str(), born_out.before), ("o-late", None));
    let rejected = open_log(&data);
    assert_eq!(rejected.bounds(Topic::Rejected, 0).unwrap().end, 1);
    drop(rejected);

    open_log(&data).append(vec![record(&reinstated("r-2")), record(&derived("b-new", &["o-late"]))]).unwrap();
    process(&data, TWO).unwrap();
    let behind = verified(&data, TWO);
    let at = taken_over(&open_log(&data))[0].position.clone();
    let offset: u64 = at.rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!((behind.differences, behind.compared_from), (vec![], Some(format!("0:{}", offset + 1))));
    assert!(behind.changes > 0 && behind.digests > 0);

    // From nothing, as after a lost disk.
    std::fs::remove_dir_all(state_directory(&data, 0)).unwrap();
    process(&data, TWO).unwrap();
    assert_eq!(verified(&data, TWO).differences, []);
}

/// A program whose version is not in force publishes nothing, even where it has no state that says so.
#[test]
fn without_a_state_the_log_says_which_version_is_in_force() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    written_by_one(&data);
    let before = open_log(&data).committed(0).unwrap();
    std::fs::remove_dir_all(state_directory(&data, 0)).unwrap();
    let refused = process(&data, TWO);
    assert!(matches!(refused, Err(DriveError::Fold(FoldError::NotInForce { in_force: 1, ours: 2 }))), "{refused:?}");
    // Nor can it take over without the old state: nobody could say what differs.
    std::fs::remove_dir_all(state_directory(&data, 0)).unwrap();
    let refused = upgrade(&data, |_| {});
    assert!(matches!(refused, Err(ReplayError::OldState { partition: 0, .. })), "{refused:?}");
    assert_eq!(open_log(&data).committed(0).unwrap(), before);
    assert_eq!(open_log(&data).acquire(0).unwrap().1, before);
    let events = open_log(&data).bounds(Topic::Events, 0).unwrap();
    assert_eq!(events.end, before.next_offset, "nothing is announced");
}

/// The same on a real broker: the old version stops at the event, the new one serves behind it, and another directory's state is
/// made without anything being published twice.
#[test]
fn on_kafka_too() {
    let settings = settings(&Broker::shared().address(), &instance("upgrade"));
    let first_event = |incarnation, partitions, partition| log_created(incarnation, partitions, partition, false);
    let new = NewLog { incarnation: INCARNATION, partitions: 1, first_event: &first_event };
    let open = || KafkaLog::open_or_create(settings.clone(), &new).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (data, standby) = (directory.path().join("data"), directory.path().join("standby"));
    for space in ["s", "t"] {
        open().append(story().into_iter().map(|event| record(&in_space(space, event))).collect()).unwrap();
    }
    process_log(open(), &data, ONE).unwrap();
    process_log(open(), &standby, ONE).unwrap();

    let differences = upgrade_log(&open(), &data, |_| {}).unwrap();
    assert_eq!(differences.len(), 2);
    let log = open();
    log.settled_end(Topic::Changes, 0, Duration::from_secs(60)).unwrap();
    assert_published(&log);
    let by_old = process_log(open(), &standby, ONE);
    assert!(matches!(by_old, Err(DriveError::Fold(FoldError::LogicVersion { version: 2, .. }))), "{by_old:?}");
    assert_eq!(upgrade_log(&open(), &standby, |_| {}).unwrap(), []);
    log.append(vec![record(&reinstated("r-2"))]).unwrap();
    process_log(open(), &data, TWO).unwrap();
    process_log(open(), &standby, TWO).unwrap();
    log.settled_end(Topic::Changes, 0, Duration::from_secs(60)).unwrap();
    assert_published(&log);
    let digest = |data: &Path| digest_of(&RocksStore::follow(&state_directory(data, 0)).unwrap(), "s").unwrap();
    assert_eq!(digest(&data), digest(&standby));
}
