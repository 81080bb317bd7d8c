//! The promise of DESIGN 6: whatever step a driver dies after, and whatever the log answers to a commit, each change is
//! published once, nothing is lost, and the state is that of an undisturbed run.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use recant_eventlog::{
    AppendLog, NewRecord, ProcessLog, ReadLimit, ReadLog, Topic,
    clock::ManualClock,
    memory::{CommitFault, MemoryLog},
};
use recant_processor::driver::{BatchLimit, DriveError, Driver, Step};
use recant_projections::{
    audit,
    fold::{self, Forms},
    store::{Batch, Entry, Store, StoreError, Visit, WriteStore, memory::MemoryStore},
    tables::Table,
};
use recant_proto::{
    names,
    position::Incarnation,
    v1::{
        Change, Derived, Event, Justification, LogCreated, Observed, Reinstated, Retracted, Target, event::Body,
        target::What,
    },
    wire,
};

const SPACE: &str = "payables";
const INCARNATION: Incarnation = Incarnation([7; 16]);

/// A store that outlives the driver that writes it. A scan may read other rows meanwhile: many read, one writes.
#[derive(Clone, Default)]
struct SharedStore(Arc<RwLock<MemoryStore>>);

impl SharedStore {
    fn read(&self) -> RwLockReadGuard<'_, MemoryStore> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for SharedStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read().get(table, key)
    }

    fn scan(&self, table: Table, prefix: &[u8], from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.read().scan(table, prefix, from, visit)
    }

    fn last(&self, table: Table, prefix: &[u8], at_most: &[u8]) -> Result<Option<Entry>, StoreError> {
        self.read().last(table, prefix, at_most)
    }
}

impl WriteStore for SharedStore {
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).write(batch)
    }
}

fn event(id: String, body: Body) -> Event {
    Event { id, space: SPACE.into(), agent: "reader".into(), body: Some(body), ..Event::default() }
}

fn record(event: &Event) -> NewRecord {
    NewRecord {
        partition: 0,
        key: event.space.clone().into_bytes(),
        headers: vec![
            (names::CONTENT_TYPE.into(), names::PROTOBUF.into()),
            (names::TRACEPARENT.into(), b"00-trace".into()),
        ],
        value: wire::to_protobuf(event),
        append_time_ms: None,
    }
}

fn log_created() -> NewRecord {
    let created = LogCreated {
        incarnation: INCARNATION.to_string(),
        partitions: 1,
        writers: "open".into(),
        ..LogCreated::default()
    };
    let body = Some(Body::LogCreated(created));
    record(&Event { id: "created".into(), space: recant_proto::id::CONTROL_SPACE.into(), body, ..Event::default() })
}

/// Observations, beliefs with two reasons, plans on beliefs; retractions and reinstatements in between, a duplicate and an
/// event that is rejected.
fn story() -> Vec<Event> {
    let mut events = Vec::new();
    for n in 0..40 {
        let source = format!("source-{}", n % 5);
        events.push(event(
            format!("o{n}"),
            Body::Observed(Observed { node: format!("o{n}"), source, ..Observed::default() }),
        ));
        let reason = |premises: Vec<String>| Some(Justification { premises, ..Justification::default() });
        let belief = |premises| Derived {
            node: format!("b{n}"),
            kind: "belief".into(),
            justification: reason(premises),
            ..Derived::default()
        };
        events.push(event(format!("b{n}"), Body::Derived(belief(vec![format!("o{n}"), format!("o{}", n / 2)]))));
        events.push(event(
            format!("b{n}-again"),
            Body::Derived(belief(vec![format!("b{}", n / 3), format!("o{}", n + 1)])),
        ));
        if n % 7 == 3 {
            let targets = vec![Target { what: Some(What::Source(format!("source-{}", n % 5))), window: None }];
            let retracted = Retracted { retraction: format!("r{n}"), targets, ..Retracted::default() };
            events.push(event(format!("r{n}"), Body::Retracted(retracted)));
        }
        if n % 11 == 10 {
            let reinstated = Reinstated { retraction: format!("r{}", n - 7), ..Reinstated::default() };
            events.push(event(format!("i{n}"), Body::Reinstated(reinstated)));
        }
    }
    events.push(events[0].clone());
    events.push(event(
        "o0-other".into(),
        Body::Observed(Observed { node: "o0".into(), source: "elsewhere".into(), ..Observed::default() }),
    ));
    events
}

fn filled_log() -> Arc<MemoryLog> {
    let log = MemoryLog::create(INCARNATION, 1, vec![log_created()], Arc::new(ManualClock::new(1_000))).unwrap();
    log.append(story().iter().map(record).collect()).unwrap();
    Arc::new(log)
}

fn batches_of(records_max: usize) -> BatchLimit {
    BatchLimit {
        read: ReadLimit { records_max, bytes_max: 1 << 20 },
        forms: Forms { memory_budget_bytes: 0, ..Forms::default() },
        // Small, so that the story has digests; where they are follows from the log alone.
        digest_interval_events: 7,
        ..BatchLimit::default()
    }
}

fn topic(log: &MemoryLog, topic: Topic) -> Vec<Vec<u8>> {
    let all = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };
    log.read(topic, 0, 0, all).unwrap().into_iter().map(|record| record.value).collect()
}

/// What an undisturbed run publishes, and the digest that it comes to.
fn undisturbed() -> (Vec<Vec<u8>>, Vec<Vec<u8>>, u128) {
    let log = filled_log();
    let store = SharedStore::default();
    Driver::open(log.clone(), store.clone(), 0, batches_of(1_000)).unwrap().catch_up(&mut |_, _| {}).unwrap();
    (topic(&log, Topic::Changes), topic(&log, Topic::Rejected), fold::digest_of(&store, SPACE).unwrap())
}

fn assert_as_undisturbed(log: &MemoryLog, store: &SharedStore, what: &str) {
    let (changes, rejected, digest) = undisturbed();
    assert!(topic(log, Topic::Changes) == changes, "{what}: other changes");
    assert!(topic(log, Topic::Rejected) == rejected, "{what}: other rejections");
    assert_eq!(fold::digest_of(store, SPACE).unwrap(), digest, "{what}: another digest");
    assert_eq!(audit::space(store, SPACE).unwrap(), Vec::<String>::new(), "{what}");
    assert_eq!(log.committed(0).unwrap().next_offset, log.bounds(Topic::Events, 0).unwrap().end, "{what}");
}

#[test]
fn the_story_has_changes_and_rejections() {
    let (changes, rejected, _) = undisturbed();
    assert!(changes.len() > 50, "{} changes", changes.len());
    assert_eq!(rejected.len(), 1);
}

/// Dies after every step in turn, for batches small and large.
#[test]
fn a_driver_may_die_after_any_step() {
    for records_max in [1, 3, 17, 1_000] {
        for steps in 1.. {
            let log = filled_log();
            let store = SharedStore::default();
            let mut driver = Driver::open(log.clone(), store.clone(), 0, batches_of(records_max)).unwrap();
            let mut last = Step::Idle;
            for _ in 0..steps {
                last = driver.step(&mut |_, _| {}).unwrap();
            }
            drop(driver);
            let mut driver = Driver::open(log.clone(), store.clone(), 0, batches_of(5)).unwrap();
            driver.catch_up(&mut |_, _| {}).unwrap();
            assert_as_undisturbed(
                &log,
                &store,
                &format!("batches of {records_max}, died after step {steps} ({last:?})"),
            );
            if last == Step::Idle {
                break;
            }
        }
    }
}

/// Every commit of a run fails once in each way that a log has.
#[test]
fn a_commit_may_fail_in_any_way() {
    for fault in [CommitFault::Aborted, CommitFault::UnknownApplied, CommitFault::UnknownLost, CommitFault::Fenced] {
        let log = filled_log();
        let store = SharedStore::default();
        let mut died = 0;
        // Each life commits once, and then meets the fault.
        loop {
            let mut driver = Driver::open(log.clone(), store.clone(), 0, batches_of(9)).unwrap();
            let mut commits = 0;
            let outcome = loop {
                match driver.step(&mut |_, _| {}) {
                    Ok(Step::Stored) if commits == 0 => {
                        commits += 1;
                        log.fail_next_commit(fault);
                    }
                    Ok(Step::Idle) => break Ok(()),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            };
            match outcome {
                Ok(()) => break,
                Err(DriveError::Unknown { .. } | DriveError::Fenced(_)) => died += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(fault == CommitFault::Aborted || died > 3, "{fault:?}: died {died} times");
        assert_as_undisturbed(&log, &store, &format!("{fault:?}"));
    }
}

/// A driver whose partition was taken publishes nothing more, and leaves no state behind that was not published.
#[test]
fn who_lost_the_partition_publishes_nothing() {
    let log = filled_log();
    let (old_store, new_store) = (SharedStore::default(), SharedStore::default());
    let mut old = Driver::open(log.clone(), old_store.clone(), 0, batches_of(10)).unwrap();
    while old.step(&mut |_, _| {}).unwrap() != Step::Folded {}
    let mut new = Driver::open(log.clone(), new_store.clone(), 0, batches_of(10)).unwrap();
    new.catch_up(&mut |_, _| {}).unwrap();
    assert!(matches!(old.step(&mut |_, _| {}), Err(DriveError::Fenced(0))));
    assert_as_undisturbed(&log, &new_store, "the new owner");
    assert!(fold::digest_of(&old_store, SPACE).unwrap() == 0, "the old owner stored what it had not published");
}

/// A state that applied another log's record is told apart, and so is one that is ahead of its log.
#[test]
fn a_state_of_another_history_is_refused() {
    let log = filled_log();
    let store = SharedStore::default();
    Driver::open(log.clone(), store.clone(), 0, batches_of(10)).unwrap().catch_up(&mut |_, _| {}).unwrap();

    let shorter =
        Arc::new(MemoryLog::create(INCARNATION, 1, vec![log_created()], Arc::new(ManualClock::new(1_000))).unwrap());
    let refused = |log: Arc<MemoryLog>| Driver::open(log, store.clone(), 0, batches_of(10)).err();
    assert!(matches!(refused(shorter.clone()), Some(DriveError::Mismatch { .. })));

    // As long, and processed as far, with other records.
    let mut other = story();
    other.reverse();
    shorter.append(other.iter().map(record).collect()).unwrap();
    Driver::open(shorter.clone(), SharedStore::default(), 0, batches_of(10)).unwrap().catch_up(&mut |_, _| {}).unwrap();
    assert!(matches!(refused(shorter), Some(DriveError::Mismatch { .. })));

    let stranger = MemoryLog::create(Incarnation([8; 16]), 1, Vec::new(), Arc::new(ManualClock::new(1))).unwrap();
    assert!(refused(Arc::new(stranger)).is_some_and(|error| error.to_string().contains("the log")));
}

/// What was published with another hash beside the position is noticed when it is folded again.
#[test]
fn another_fold_is_noticed() {
    let log = filled_log();
    let store = SharedStore::default();
    Driver::open(log.clone(), store.clone(), 0, batches_of(10)).unwrap().catch_up(&mut |_, _| {}).unwrap();
    let (epoch, mut committed) = log.acquire(0).unwrap();
    committed.metadata[0] ^= 1;
    assert_eq!(log.commit(0, epoch, Vec::new(), committed), recant_eventlog::Commit::Committed);
    for store in [store, SharedStore::default()] {
        let refused = Driver::open(log.clone(), store, 0, batches_of(10)).err();
        assert!(matches!(refused, Some(DriveError::NotDeterministic { .. })), "{refused:?}");
    }
}

/// An event that must be understood stops the partition: what came before it is published, nothing after it is.
#[test]
fn what_must_be_understood_stops_the_partition() {
    let log = filled_log();
    let mut value =
        wire::to_protobuf(&Event { id: "new".into(), space: SPACE.into(), must_understand: true, ..Event::default() });
    value.extend([0xfa, 0x05, 0x00]); // field 95, empty: a body from a newer writer
    log.append(vec![NewRecord { value, ..record(&story()[0]) }]).unwrap();
    log.append(vec![record(&event(
        "later".into(),
        Body::Observed(Observed { node: "later".into(), source: "s".into(), ..Observed::default() }),
    ))])
    .unwrap();
    let store = SharedStore::default();
    let mut driver = Driver::open(log.clone(), store.clone(), 0, batches_of(1_000)).unwrap();
    let stopped = driver.catch_up(&mut |_, _| {});
    assert!(matches!(stopped, Err(DriveError::Fold(fold::FoldError::MustUnderstand { .. }))), "{stopped:?}");
    let (changes, _, digest) = undisturbed();
    assert!(topic(&log, Topic::Changes) == changes);
    assert_eq!(fold::digest_of(&store, SPACE).unwrap(), digest);
    assert_eq!(log.committed(0).unwrap().next_offset, log.bounds(Topic::Events, 0).unwrap().end - 2);
}

/// The trace context of an event is carried to what it causes.
#[test]
fn traceparent_is_carried_through() {
    let log = filled_log();
    Driver::open(log.clone(), SharedStore::default(), 0, batches_of(10)).unwrap().catch_up(&mut |_, _| {}).unwrap();
    let all = ReadLimit { records_max: usize::MAX, bytes_max: usize::MAX };
    for record in log.read(Topic::Changes, 0, 0, all).unwrap() {
        // No one event causes a digest.
        let is_digest = <Change as prost::Message>::decode(record.value.as_slice()).unwrap().digest.is_some();
        assert!(is_digest != record.headers.contains(&(names::TRACEPARENT.into(), b"00-trace".to_vec())));
        assert!(record.headers.iter().any(|(name, _)| name == names::CE_ID));
    }
}
