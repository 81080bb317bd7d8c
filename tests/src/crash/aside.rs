//! The thread that looks from aside at what cannot be stopped at: a call that is under way, a file that is being written.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    gun::{Gun, Phase, Scene},
    steps::Step,
    watched::wal_bytes,
};
use crate::binary::Random;

const LOOK_EVERY: Duration = Duration::from_micros(50);

/// So long at most a call has been under way when the process dies in it.
const UNDER_WAY_US_MAX: u64 = 1_500;

/// What there is to look at.
pub struct Aside {
    /// What ends the process.
    pub gun: Arc<Gun>,
    /// What the others are at.
    pub scene: Arc<Scene>,
    /// Where the log's database is.
    pub log: PathBuf,
    /// Where the state is.
    pub state: PathBuf,
    /// How large the pieces of a commit are.
    pub piece_bytes: u64,
    /// For how long to wait once a call is under way.
    pub random: Random,
}

impl Aside {
    /// Looks, for as long as the process lives, if its moment is one to be seen from aside.
    pub fn look(mut self) {
        let Some(step) = self.gun.step() else { return };
        let look: fn(&mut Aside, Step) = match step {
            Step::AppendUnderWay | Step::CommitUnderWay | Step::StoreUnderWay => Aside::at_calls,
            Step::CommitBetweenPieces => Aside::at_pieces,
            Step::LogBeingCreated | Step::StateBeingCreated => Aside::at_files,
            step if step.is_of_a_table() => Aside::at_tables,
            _ => return,
        };
        std::thread::spawn(move || look(&mut self, step));
    }

    fn at_calls(&mut self, step: Step) {
        let scene = self.scene.clone();
        let odd = |counter: &AtomicU64| Some(counter.load(Ordering::SeqCst)).filter(|calls| calls % 2 == 1);
        let under_way = || match step {
            Step::CommitUnderWay => odd(&scene.commit),
            Step::StoreUnderWay => odd(&scene.store),
            _ => Some(scene.appends_under_way.load(Ordering::SeqCst)).filter(|calls| *calls > 0),
        };
        let mut last = None;
        loop {
            let call = under_way();
            if call.is_some() && (call != last || step == Step::AppendUnderWay) {
                // Some calls take less than that, and are over by then; another comes.
                let us = self.random.below(UNDER_WAY_US_MAX);
                if step != Step::StoreUnderWay {
                    std::thread::sleep(Duration::from_micros(us));
                }
                if under_way() == call {
                    last = call;
                    self.gun.reached(step);
                }
            }
            // A write to the state takes some microseconds.
            if step == Step::StoreUnderWay { std::hint::spin_loop() } else { std::thread::sleep(LOOK_EVERY) }
        }
    }

    fn at_pieces(&mut self, step: Step) {
        let mut last = 0;
        loop {
            let call = self.scene.commit.load(Ordering::SeqCst);
            if call % 2 == 1 && call != last {
                let begun = self.scene.wal_bytes_at_commit.load(Ordering::SeqCst);
                let grown = wal_bytes(&self.log).saturating_sub(begun);
                if grown >= self.piece_bytes && self.scene.commit.load(Ordering::SeqCst) == call {
                    last = call;
                    self.gun.reached(step);
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn at_files(&mut self, step: Step) {
        let (directory, phase) = match step {
            Step::LogBeingCreated => (self.log.clone(), Phase::CreatingLog),
            _ => (self.state.clone(), Phase::OpeningState),
        };
        let mut seen = 0;
        while self.scene.phase() != Phase::Serving {
            let files = names(&directory, "").len();
            if self.scene.phase() == phase {
                (seen..files).for_each(|_| self.gun.reached(step));
                seen = seen.max(files);
            }
        }
    }

    /// A table has just come to be in one of the directories.
    fn at_tables(&mut self, step: Step) {
        let directory =
            if matches!(step, Step::StateCompacting | Step::StateOpening) { &self.state } else { &self.log };
        let mut known = names(directory, ".sst");
        loop {
            let tables = names(directory, ".sst");
            if !tables.is_subset(&known) {
                known.extend(tables);
                let is_it = match step {
                    Step::LogOpening => self.scene.phase() == Phase::OpeningLog,
                    Step::StateOpening => self.scene.phase() == Phase::OpeningState,
                    Step::LogTableFlushed => self.scene.phase() == Phase::Serving && is_at_work("rocksdb:high"),
                    _ => is_at_work("rocksdb:low"),
                };
                if is_it {
                    self.gun.reached(step);
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The names in a directory that end so.
fn names(directory: &Path, end: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(end)).collect()
}

/// Whether a thread of RocksDB is at work: those that flush, or those that compact. They do it for both databases.
fn is_at_work(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.map(|thread| thread.path()).any(|thread| {
        let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
        // `number (name) state …`: it runs, or waits for the disk.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        stat.contains(&format!("({name}")) && matches!(state, Some('R' | 'D'))
    })
}
