//! Protects the rows of CASES that need a log and a processor: what is published and when, what comes twice, what a
//! reader of the change stream sees. One test a row, on the embedded log in a directory of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod table;

use std::{path::Path, sync::Arc, thread};

use prost::Message;
use recant_eventlog::{ReadLimit, ReadLog, Record, Topic, clock::ManualClock};
use recant_processor::{
    standalone::{NewEvent, NewLog, Standalone},
    viewer::Viewer,
};
use recant_projections::fold::{Fate, Folded, digest_of};
use recant_proto::{
    names,
    position::Incarnation,
    v1::{Change, Event},
    wire,
};
use recant_tests::generate::BEGIN_MS;
use table::{HOUR_MS, derived, observed, reinstated, retracted, source};

const PAGE: ReadLimit = ReadLimit { records_max: 100, bytes_max: 1 << 20 };

struct Service {
    data: tempfile::TempDir,
    clock: Arc<ManualClock>,
    standalone: Standalone,
}

impl Service {
    fn new() -> Service {
        let data = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(BEGIN_MS));
        let standalone = Self::opened(data.path(), clock.clone());
        Service { data, clock, standalone }
    }

    fn opened(data: &Path, clock: Arc<ManualClock>) -> Standalone {
        let new = NewLog { incarnation: Incarnation([3; 16]), partitions: 1, log_time_occurred: false };
        Standalone::open_or_create(data, &new, clock).unwrap()
    }

    fn append(&self, events: impl IntoIterator<Item = Event>) {
        self.standalone.append(events.into_iter().map(|event| NewEvent::of(&event)).collect()).unwrap();
    }

    fn process(&mut self) -> Vec<Folded> {
        let mut folded = Vec::new();
        self.standalone.process(&mut |_, event| folded.push(event.clone())).unwrap();
        folded
    }

    fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        follow(self.standalone.log(), &mut 0, &mut |record| changes.push(change_of(record)));
        changes
    }

    /// As another process reads it.
    fn digest(&self) -> u128 {
        digest_of(&Viewer::open(self.data.path()).unwrap().state(0).unwrap(), "s").unwrap()
    }
}

fn change_of(record: &Record) -> Change {
    Change::decode(record.value.as_slice()).unwrap()
}

/// Reads the change stream page by page from an offset on, to its end.
fn follow(log: &impl ReadLog, next: &mut u64, see: &mut dyn FnMut(&Record)) {
    loop {
        let page = log.read(Topic::Changes, 0, *next, PAGE).unwrap();
        assert!(page.len() <= PAGE.records_max);
        for record in &page {
            assert_eq!(record.position.offset, *next, "a gap, or one twice");
            // A digest is no change: it lies where a process ended, or ten thousand events have come.
            if change_of(record).digest.is_none() {
                see(record);
            }
            *next += 1;
        }
        if page.is_empty() {
            return;
        }
    }
}

#[test]
fn case_05_what_follows_is_published_without_another_write() {
    let mut service = Service::new();
    service.append([observed("O", "S"), derived("B", &["O"]), derived("C", &["B"])]);
    service.process();
    assert_eq!(service.changes(), []);
    service.append([retracted("r", &[source("S")])]);
    service.process();
    let nodes: Vec<String> = service.changes().into_iter().map(|change| change.node).collect();
    assert_eq!(nodes, ["", "O", "B", "C"]);
    let end = service.standalone.log().bounds(Topic::Events, 0).unwrap().end;
    assert_eq!(service.standalone.log().committed(0).unwrap().next_offset, end);
}

/// The doors that there are below the command line: either wire form, with content type and without, one at a time or
/// with what came before it.
#[test]
fn case_08_every_door_leads_to_the_same_state() {
    let before = [observed("O", "S"), derived("B", &["O"])];
    let retraction = retracted("r", &[source("S")]);
    let in_json = NewEvent {
        value: wire::to_json(&retraction).to_string().into_bytes(),
        content_type: names::JSON,
        ..NewEvent::of(&retraction)
    };
    let doors = [
        NewEvent::of(&retraction),
        in_json,
        NewEvent { content_type: "application/x-protobuf", ..NewEvent::of(&retraction) },
    ];
    let mut digests = Vec::new();
    for door in doors {
        for at_once in [false, true] {
            let mut service = Service::new();
            service.append(before.clone());
            if !at_once {
                service.process();
            }
            service.standalone.append(vec![door.clone()]).unwrap();
            service.process();
            assert_eq!(service.changes().len(), 3);
            digests.push(service.digest());
        }
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
fn case_12_the_same_event_at_once_over_two_connections_and_a_day_later() {
    let mut service = Service::new();
    let event = observed("O", "S");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| service.append([event.clone()]));
        }
    });
    let fates: Vec<Fate> = service.process().into_iter().map(|folded| folded.fate).collect();
    assert_eq!(fates, [Fate::Accepted, Fate::Duplicate(1)]);
    let digest = service.digest();
    service.clock.advance(24 * HOUR_MS);
    let Service { data, clock, standalone } = service;
    drop(standalone);
    let standalone = Service::opened(data.path(), clock.clone());
    let mut service = Service { data, clock, standalone };
    service.append([event]);
    let fates: Vec<Fate> = service.process().into_iter().map(|folded| folded.fate).collect();
    assert_eq!(fates, [Fate::Duplicate(1)]);
    assert_eq!(service.digest(), digest);
}

/// The state comes back from the log, and nothing is published a second time.
#[test]
fn case_15_the_whole_topic_again_into_an_empty_state() {
    let mut service = Service::new();
    service.append([observed("O", "S"), derived("B", &["O"]), retracted("r", &[source("S")]), reinstated("r")]);
    service.process();
    let (digest, changes) = (service.digest(), service.changes());
    let Service { data, clock, standalone } = service;
    drop(standalone);
    std::fs::remove_dir_all(data.path().join("state")).unwrap();
    let standalone = Service::opened(data.path(), clock.clone());
    let service = Service { data, clock, standalone };
    assert_eq!(service.digest(), digest);
    assert_eq!(service.changes(), changes);
    assert_eq!(changes.len(), 6);
}

/// A reader that takes a hundred records at a time holds no more than these: each parses alone, and says its place.
#[test]
fn case_23_a_hundred_thousand_changes_to_a_slow_reader() {
    const NODES: usize = 100_000;
    let mut service = Service::new();
    service.append([observed("O", "S")]);
    for first in (0..NODES).step_by(10_000) {
        service.append((first..first + 10_000).map(|at| derived(&format!("B{at}"), &["O"])));
        service.process();
    }
    service.append([retracted("r", &[source("S")])]);
    service.process();
    let viewer = Viewer::open(service.data.path()).unwrap();
    let mut index = 0;
    follow(viewer.log(), &mut 0, &mut |record| {
        let cascade = change_of(record).cascade.unwrap();
        assert_eq!((cascade.index, cascade.total as usize), (Some(index), NODES + 1));
        index += 1;
    });
    assert_eq!(index as usize, NODES + 2);
}

/// A reader comes back with its place after much has happened: it goes on where it was, whoever serves it, in order.
#[test]
fn case_24_a_reader_that_was_away_misses_nothing() {
    let mut service = Service::new();
    let flip = |round: usize| [retracted(&format!("r{round}"), &[source("S")]), reinstated(&format!("r{round}"))];
    service.append([observed("O", "S"), derived("B", &["O"])]);
    service.append(flip(0));
    service.process();
    let (mut next, mut seen) = (0, Vec::new());
    follow(Viewer::open(service.data.path()).unwrap().log(), &mut next, &mut |record| seen.push(change_of(record)));
    assert_eq!(seen.len(), 6);
    for round in 1..100 {
        service.append(flip(round));
        service.process();
    }
    let Service { data, clock, standalone } = service;
    drop(standalone);
    let standalone = Service::opened(data.path(), clock.clone());
    let service = Service { data, clock, standalone };
    follow(service.standalone.log(), &mut next, &mut |record| seen.push(change_of(record)));
    assert_eq!(seen, service.changes());
    assert_eq!(seen.len(), 600);
    // Before what is kept, or beyond it, is a typed error and never a silent skip.
    let beyond = service.standalone.log().read(Topic::Changes, 0, next + 1, PAGE);
    assert!(matches!(beyond, Err(recant_eventlog::LogError::OutOfRange { .. })), "{beyond:?}");
}

#[test]
fn case_25_a_backlog_drains_and_live_traffic_goes_on() {
    const BACKLOG: usize = 10_000;
    let mut service = Service::new();
    service.append([observed("O", "S")]);
    service.append((0..BACKLOG).map(|at| derived(&format!("B{at}"), &["O"])));
    service.append([retracted("r", &[source("S")])]);
    let viewer = Viewer::open(service.data.path()).unwrap();
    let (mut next, mut nodes) = (0, Vec::new());
    let mut see = |record: &Record| nodes.push(change_of(record).node);
    follow(viewer.log(), &mut next, &mut see);
    service.process();
    for round in 0..20 {
        viewer.log().refresh().unwrap();
        follow(viewer.log(), &mut next, &mut see);
        // Born OUT: each is a cascade of its own.
        service.append([derived(&format!("live {round}"), &["O"])]);
        service.process();
    }
    viewer.log().refresh().unwrap();
    follow(viewer.log(), &mut next, &mut see);
    let backlog = (0..BACKLOG).map(|at| format!("B{at}"));
    let live = (0..20).flat_map(|round| [String::new(), format!("live {round}")]);
    let expected: Vec<String> = [String::new(), "O".to_owned()].into_iter().chain(backlog).chain(live).collect();
    assert!(nodes == expected, "{} records instead of {}", nodes.len(), expected.len());
}

/// Nothing is asked of a network while events are taken in: the process opens no socket.
#[test]
fn case_28_a_backlog_of_100_000_is_taken_in_without_a_network() {
    const EVENTS: usize = 100_000;
    let before = sockets();
    let mut service = Service::new();
    service.append([observed("O", "S")]);
    for first in (0..EVENTS).step_by(5_000) {
        service.append((first..first + 5_000).map(|at| derived(&format!("B{at}"), &["O"])));
    }
    let mut folded = 0;
    let observe = &mut |_, event: &Folded| {
        assert_eq!(event.fate, Fate::Accepted);
        folded += 1;
        if folded % 1_000 == 0 {
            assert_eq!(sockets(), before);
        }
    };
    service.standalone.process(observe).unwrap();
    assert_eq!(folded, EVENTS + 1);
}

/// The sockets that this process has open. Tests of this file run in it at the same time, and open none either.
fn sockets() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}
