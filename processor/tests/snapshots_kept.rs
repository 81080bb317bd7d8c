//! Protects the snapshots of states against what no broker is needed for: what is uploaded again and what not, which stay, and that
//! nothing is cleared away that one which is kept, or one under way, may need.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, path::Path, sync::Arc};

use recant_eventlog::{
    AppendLog as _, NewRecord, ReadLimit, ReadLog as _, Topic, clock::ManualClock, memory::MemoryLog,
};
use recant_processor::{
    driver::{BatchLimit, Driver},
    snapshots::{FILE_GRACE_MS, Keep, Made, Remote, Snapshots},
    standalone::{log_created, state_directory},
};
use recant_projections::store::{behind::WriteBehind, rocks::RocksStore};
use recant_proto::{
    position::Incarnation,
    v1::{Event, Observed, event::Body},
    wire,
};

const INCARNATION: Incarnation = Incarnation([3; 16]);
/// Files are written now, as the file system has it: the clock of these tests stands a year later.
const LATER_MS: i64 = 4_000_000_000_000;

struct Desk {
    directory: tempfile::TempDir,
    log: Arc<MemoryLog>,
    driver: Driver<MemoryLog, WriteBehind>,
    snapshots: Snapshots,
    made: u64,
}

impl Desk {
    fn new() -> Desk {
        let directory = tempfile::tempdir().unwrap();
        let first = vec![log_created(INCARNATION, 1, 0, false)];
        let log = Arc::new(MemoryLog::create(INCARNATION, 1, first, Arc::new(ManualClock::new(1))).unwrap());
        let state = state_directory(&directory.path().join("data"), 0);
        std::fs::create_dir_all(&state).unwrap();
        let store = WriteBehind::new(RocksStore::open(&state).unwrap()).unwrap();
        let driver = Driver::open(log.clone(), store, 0, BatchLimit::default()).unwrap();
        let place = directory.path().join("snapshots").display().to_string();
        let snapshots = Snapshots::of(Remote::open(&place, []).unwrap(), INCARNATION);
        Desk { directory, log, driver, snapshots, made: 0 }
    }

    fn append(&mut self, count: u64) {
        let end = self.log.bounds(Topic::Events, 0).unwrap().end;
        for number in end..end + count {
            let body = Observed { node: format!("n-{number}"), source: "s".to_owned(), ..Observed::default() };
            let body = Some(Body::Observed(body));
            let event = Event { id: format!("e-{number}"), space: "shop".to_owned(), body, ..Event::default() };
            let (key, value) = (b"shop".to_vec(), wire::to_protobuf(&event));
            self.log
                .append(vec![NewRecord { partition: 0, key, headers: vec![], value, append_time_ms: None }])
                .unwrap();
        }
        self.driver.catch_up(&mut |_, _| {}).unwrap();
    }

    fn make(&mut self, now_ms: i64) -> Made {
        self.made += 1;
        let checkpoint = self.directory.path().join(format!("checkpoint-{}", self.made));
        self.driver.state().stored().written().unwrap().checkpoint(&checkpoint).unwrap();
        self.snapshots.make(&checkpoint, 0, now_ms).unwrap().expect("there are events")
    }

    fn files(&self) -> BTreeSet<String> {
        names_in(&self.directory.path().join("snapshots").join(INCARNATION.to_string()).join("0/files"))
    }
}

fn names_in(directory: &Path) -> BTreeSet<String> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn what_a_snapshot_has_is_not_uploaded_again() {
    let mut desk = Desk::new();
    desk.append(500);
    let first = desk.make(1);
    assert_eq!((first.next_offset, first.uploaded_bytes), (501, first.bytes));
    let again = desk.make(2);
    assert!(again.uploaded_bytes < first.bytes / 4, "nothing has changed: {again:?} after {first:?}");
    desk.append(10);
    let third = desk.make(3);
    assert!(third.uploaded_bytes < third.bytes, "{third:?}");
    let names = desk.snapshots.names(0).unwrap();
    assert_eq!(
        names.iter().map(|name| (name.next_offset, name.made_at_ms)).collect::<Vec<_>>(),
        [(511, 3), (501, 2), (501, 1)]
    );
}

/// The newest stay whole; what none of them has goes once it is old enough that no snapshot under way can have it.
#[test]
fn what_is_kept_can_be_restored() {
    let mut desk = Desk::new();
    for round in 0..4 {
        desk.append(200);
        // So that tables are merged, and old ones are in no new snapshot.
        desk.driver.state().stored().written().unwrap().compact().unwrap();
        desk.make(round);
    }
    let keep = Keep { count: 2, age_ms: 0 };
    let all = desk.files();
    // The file system says that they were written now: a snapshot under way may have them.
    let just_now = std::fs::metadata(desk.directory.path()).unwrap().modified().unwrap();
    let now_ms = just_now.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    assert_eq!(desk.snapshots.clear_away(0, keep, now_ms + FILE_GRACE_MS / 2).unwrap(), Some(601));
    assert_eq!(desk.files(), all);
    assert_eq!(desk.snapshots.clear_away(0, keep, LATER_MS + 10).unwrap(), Some(601));
    assert!(desk.files().len() < all.len(), "{} files of {}", desk.files().len(), all.len());

    let restored_to = desk.directory.path().join("restored");
    let mut skipped = Vec::new();
    let mut restore = |ahead_of| {
        let told = &mut |one| skipped.push(one);
        desk.snapshots.restore_newest(&*desk.log, &restored_to, 0, ahead_of, told).unwrap()
    };
    assert_eq!(restore(801), None, "nothing is ahead of that");
    let restored = restore(0).expect("the newest is good");
    assert_eq!((restored.next_offset, skipped.len()), (801, 0));
    desk.append(30);
    let store = WriteBehind::new(RocksStore::open(&state_directory(&restored_to, 0)).unwrap()).unwrap();
    let mut restored = Driver::open(desk.log.clone(), store, 0, BatchLimit::default()).unwrap();
    assert_eq!(restored.state().outputs_hash(), desk.driver.state().outputs_hash());
    let one = ReadLimit { records_max: 1, bytes_max: 1 };
    assert_eq!(desk.log.read(Topic::Events, 0, 0, one).unwrap().len(), 1);
    assert_eq!(restored.state().next_offset(), 831);
}

/// One that another version has made is not known through and through: nothing is cleared away beside it.
#[test]
fn beside_a_snapshot_that_cannot_be_read_nothing_goes() {
    let mut desk = Desk::new();
    for _ in 0..2 {
        desk.append(200);
        desk.driver.state().stored().written().unwrap().compact().unwrap();
        desk.make(1);
    }
    let all = desk.files();
    let of_partition = desk.directory.path().join("snapshots").join(INCARNATION.to_string()).join("0/snapshots");
    std::fs::write(of_partition.join("00000000000000000999-1.json"), "{\"format_version\": 99}").unwrap();
    desk.snapshots.clear_away(0, Keep { count: 1, age_ms: 0 }, LATER_MS + FILE_GRACE_MS + 1).unwrap();
    assert_eq!((desk.files(), desk.snapshots.names(0).unwrap().len()), (all, 3));
}
