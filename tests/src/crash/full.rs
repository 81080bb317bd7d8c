//! A disk that is full: a small file system in memory, for the whole data directory, for the log alone or for the state
//! alone. It has little room left when the victim goes on, so that any of its writes is the first to find none. Then: whoever
//! appends is told so in a typed error that says what to do, nothing acknowledged is lost, nothing is published in part,
//! readers go on; opening again while there is no room is refused the same way; and with room everything goes on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a directory that cannot be made ends the run"
)]

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use recant_eventlog::embedded::Follower;
use recant_processor::standalone::{log_directory, state_directory};
use tempfile::TempDir;

use super::{
    check::{self, Acknowledged, Verdict},
    followers::Followers,
    process::{self, Ended, whole_lines},
    victim::Orders,
};
use crate::binary::{Random, wait_until};

const DISK_MIB: u32 = 96;
const ROOM_BYTES_MAX: u64 = 1_500_000;

/// A victim that finds room after all ends by itself after so many events of each writer.
const EVENTS_OF_A_LIFE: u64 = 6_000;

/// What came of all rounds.
#[derive(Debug, Default)]
pub struct Figures {
    /// Rounds in which there was no room.
    pub rounds: u32,
    /// Of those, how many in which an append was refused; in the others there was no room for the state alone.
    pub refused: u32,
    /// How many openings found no room.
    pub openings_refused: u32,
    /// Acknowledged events, all together.
    pub acknowledged: usize,
    /// What does not hold.
    pub verdict: Verdict,
}

/// What lies on the small disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Small {
    Data,
    Log,
    State,
}

/// Whether a small disk can be mounted here: as root, or in a name space of one's own.
pub fn is_possible() -> bool {
    let directory = TempDir::with_prefix("recant-mount-").unwrap();
    Mounted::at(directory.path()).is_some()
}

/// So many rounds.
pub fn fill(rounds: u32, seed: u64) -> Figures {
    let mut figures = Figures::default();
    let mut random = Random(seed);
    for round in 0..rounds {
        let small = [Small::Data, Small::Log, Small::State][round as usize % 3];
        let found = one(small, seed + u64::from(round), &mut random, &mut figures);
        let in_context = |found: Vec<String>| {
            found.into_iter().map(|what| format!("round {round}, small {small:?}: {what}")).collect::<Vec<_>>()
        };
        figures.verdict.add(Verdict {
            lost: in_context(found.lost),
            twice: in_context(found.twice),
            wrong: in_context(found.wrong),
        });
    }
    figures
}

fn one(small: Small, seed: u64, random: &mut Random, figures: &mut Figures) -> Verdict {
    let mut verdict = Verdict::default();
    let desk = TempDir::with_prefix("recant-full-").unwrap();
    let data = desk.path().join("data");
    let place = match small {
        Small::Data => data.clone(),
        Small::Log => log_directory(&data),
        Small::State => state_directory(&data, 0),
    };
    std::fs::create_dir_all(&place).unwrap();
    let mounted = Mounted::at(&place).expect("asked before");
    let mut acknowledged = Acknowledged::default();
    let mut life = 0;
    let told = desk.path().join("told");
    let mut live_while = |events: u64, acknowledged: &mut Acknowledged, act: &mut dyn FnMut()| {
        let mut orders = Orders::new(&data, seed, life);
        orders.events = events;
        life += 1;
        let ended = process::run_while(process::victim(&orders), &told, act);
        ended.acknowledge(acknowledged);
        ended
    };
    let mut live = |events: u64, acknowledged: &mut Acknowledged| live_while(events, acknowledged, &mut || {});
    let begun = live(60, &mut acknowledged);
    assert!(begun.is_done(), "{begun:?}");
    let mut followers = Followers::attach(&data, desk.path(), true);

    // Nearly full from the beginning; or full all at once while it writes, and kept so: what RocksDB has set aside for its
    // write-ahead log then goes on for a while, and its tables find no room. (For the state it sets aside so much that this
    // takes minutes.)
    let ballast = mounted.at.join("ballast");
    let ended = if small == Small::State || random.below(2) == 0 {
        mounted.fill_up_to(&ballast, random.below(ROOM_BYTES_MAX));
        live_while(EVENTS_OF_A_LIFE, &mut acknowledged, &mut || {})
    } else {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ended = live_while(EVENTS_OF_A_LIFE, &mut acknowledged, &mut || {
                let serves = || whole_lines(&told).iter().any(|line| line.starts_with("serving"));
                wait_until("it serves", || serves().then_some(()));
                scope.spawn(|| mounted.keep_full(&ballast, &over));
            });
            over.store(true, Ordering::SeqCst);
            ended
        })
    };
    let mut live = |events: u64, acknowledged: &mut Acknowledged| live_while(events, acknowledged, &mut || {});
    figures.rounds += 1;
    verdict.wrong.extend(told_so(small, &ended));
    figures.refused += u32::from(ended.lines_of("refused").next().is_some());
    verdict.add(check::as_it_lies(&Follower::open(&log_directory(&data)).unwrap(), &acknowledged));

    // Opened again and again while there is none.
    for _ in 0..3 {
        let again = live(EVENTS_OF_A_LIFE, &mut acknowledged);
        verdict.wrong.extend(told_so(small, &again));
        figures.openings_refused += u32::from(again.lines_of("serving").next().is_none());
    }
    verdict.add(check::as_it_lies(&Follower::open(&log_directory(&data)).unwrap(), &acknowledged));
    verdict.add(followers.between_rounds());

    std::fs::remove_file(ballast).unwrap();
    let goes_on = live(60, &mut acknowledged);
    if !goes_on.is_done() {
        verdict.wrong.push(format!("with room it does not go on: {:?} {}", goes_on.lines.last(), goes_on.errors));
        return verdict;
    }
    let (found, published) = check::directory(&data, &acknowledged);
    verdict.add(found);
    verdict.add(followers.finish(&published).0);
    figures.acknowledged += acknowledged.0.len();
    verdict
}

/// What is wrong with how a victim that found no room said so.
fn told_so(small: Small, ended: &Ended) -> Vec<String> {
    let mut wrong = Vec::new();
    let refused: Vec<&str> = ended.lines_of("refused").collect();
    let stopped: Vec<&str> = ended.lines_of("stopped").collect();
    if refused.is_empty() && stopped.is_empty() {
        wrong.push(format!("it came to its end: {:?}", ended.lines.last()));
    }
    if small == Small::State && !refused.is_empty() {
        wrong.push(format!("there was room for the log, which refused: {refused:?}"));
    }
    // The first of those who share the write that found no room are told that; the others that nothing more is taken.
    let says_so = |line: &&&str| line.contains("no room") || line.contains("No space left");
    for line in refused.iter().chain(&stopped).filter(|line| !says_so(line)) {
        wrong.push(format!("this does not say what is wrong: {line}"));
    }
    let says_what_to_do = |line: &&&str| line.contains("ake room") || line.contains("open the log again");
    for line in refused.iter().chain(&stopped).filter(|line| !says_what_to_do(line)) {
        wrong.push(format!("this does not say what to do: {line}"));
    }
    wrong
}

/// A small file system in memory, until it is dropped.
pub(crate) struct Mounted {
    at: PathBuf,
}

impl Mounted {
    pub(crate) fn at(directory: &Path) -> Option<Mounted> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={DISK_MIB}m"), "recant-small"]).arg(directory);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Mounted { at: directory.to_owned() })
    }

    /// Writes what fits, again and again: files that are removed meanwhile leave no room.
    fn keep_full(&self, ballast: &Path, over: &AtomicBool) {
        let mut file = File::create(ballast).unwrap();
        while !over.load(Ordering::SeqCst) {
            while file.write_all(&[0; 4096]).is_ok() {}
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Writes a file that leaves so much room.
    pub(crate) fn fill_up_to(&self, ballast: &Path, room_bytes: u64) {
        let mut file = File::create(ballast).unwrap();
        let mut written = 0;
        let chunk = [0; 4096];
        while file.write_all(&chunk).is_ok() {
            written += chunk.len() as u64;
        }
        file.set_len(written.saturating_sub(room_bytes)).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a follower that is just ending may still have a file open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}
