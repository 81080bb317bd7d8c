//! kill -9 at every named step, so many rounds each, under load and with followers attached. A directory goes through all
//! rounds of a step, but where a step is in the making of it: there each round has its own.
//!
//! A round counts when the process did die at its step; where that is seen from aside and can be seen afterwards, only if what
//! it left behind shows it (a table that is torn, a commit that is not there). One that misses its step is tried again, up to a bound.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a directory that cannot be made ends the run"
)]

use std::path::{Path, PathBuf};

use recant_eventlog::{LogError, ReadLog, embedded::Follower};
use recant_processor::standalone::{log_directory, state_directory};
use tempfile::TempDir;

use super::{
    check::{self, Acknowledged, Verdict},
    followers::Followers,
    process::{self, Ended},
    steps::{Ground, Moment, Step},
    victim::Orders,
};
use crate::binary::{Random, copy_directory};

/// So often a round is tried until the process dies at its step.
const ATTEMPTS: u32 = 12;

/// A life that is to die ends by itself after so many events of each writer; it has missed its step then.
const EVENTS_OF_A_LIFE: u64 = 1_500;

/// What came of all rounds of a step.
#[derive(Debug)]
pub struct Figures {
    /// The step.
    pub step: Step,
    /// Rounds in which the process died at the step.
    pub rounds: u32,
    /// Lives of the victim that ended otherwise: to prepare, to finish, or because they missed the step.
    pub other_lives: u32,
    /// Events acknowledged.
    pub acknowledged: usize,
    /// Changes published.
    pub changes: usize,
    /// Repeats that followers dropped by their ids.
    pub repeats: usize,
    /// What does not hold.
    pub verdict: Verdict,
}

/// All rounds of a step.
pub fn rounds_of(step: Step, rounds: u32, seed: u64) -> Figures {
    let mut rounds_of = Rounds {
        figures: Figures {
            step,
            rounds: 0,
            other_lives: 0,
            acknowledged: 0,
            changes: 0,
            repeats: 0,
            verdict: Verdict::default(),
        },
        desk: TempDir::with_prefix("recant-crash-").unwrap(),
        acknowledged: Acknowledged::default(),
        random: Random(seed ^ step as u64),
        seed,
        life: 0,
    };
    match step.ground() {
        Ground::Work | Ground::Recovery => rounds_of.in_one_directory(rounds),
        Ground::Creation => rounds_of.in_directories_of_their_own(rounds),
    }
    rounds_of.figures
}

struct Rounds {
    figures: Figures,
    desk: TempDir,
    acknowledged: Acknowledged,
    random: Random,
    seed: u64,
    life: u64,
}

impl Rounds {
    fn path(&self, name: &str) -> PathBuf {
        self.desk.path().join(name)
    }

    fn wrong(&mut self, what: String) {
        self.figures.verdict.wrong.push(format!("{}, life {}: {what}", self.figures.step, self.life));
    }

    fn live(&mut self, data: &Path, change: impl FnOnce(&mut Orders)) -> Ended {
        let mut orders = Orders::new(data, self.seed, self.life);
        self.life += 1;
        change(&mut orders);
        let ended = process::run(process::victim(&orders), &self.path("told"));
        ended.acknowledge(&mut self.acknowledged);
        let refusals: Vec<&str> = ended.lines_of("refused").chain(ended.lines_of("stopped")).collect();
        if !refusals.is_empty() || (orders.die.is_none() && !ended.is_done()) {
            let (status, errors) = (ended.status, &ended.errors);
            self.wrong(format!("it ended with {status:?}, refused {refusals:?}, and said {errors}"));
        }
        ended
    }

    fn live_to_the_end(&mut self, data: &Path, events: u64) {
        self.figures.other_lives += 1;
        self.live(data, |orders| orders.events = events);
    }

    /// One round: lives until one has died at the step.
    fn die(&mut self, data: &Path, before_each: impl Fn(&Path)) {
        for _ in 0..ATTEMPTS {
            before_each(data);
            if self.figures.step.ground() == Ground::Creation {
                self.acknowledged = Acknowledged::default();
            }
            let step = self.figures.step;
            let count = 1 + self.random.below(step.count_max());
            let ended = self.live(data, |orders| {
                orders.die = Some(Moment { step, count });
                orders.events = EVENTS_OF_A_LIFE;
                // Behind several writers the driver is never idle.
                orders.writers = if step == Step::Idle { 1 } else { orders.writers };
            });
            if ended.died_at(step) && self.shows_it(data, &ended) {
                self.figures.rounds += 1;
                return;
            }
            self.figures.other_lives += 1;
        }
        self.wrong(format!("the step was not reached in {ATTEMPTS} lives"));
    }

    /// Whether what lies there shows that the process died in the midst of what it should.
    fn shows_it(&self, data: &Path, ended: &Ended) -> bool {
        match self.figures.step {
            Step::StateOpening => has_torn_table(&state_directory(data, 0)),
            Step::LogOpening => has_torn_table(&log_directory(data)),
            Step::CommitBetweenPieces => {
                let tried: u64 = ended.lines_of("committing up to").last().unwrap().parse().unwrap();
                Follower::open(&log_directory(data)).unwrap().committed(0).unwrap().next_offset < tried
            }
            _ => true,
        }
    }

    /// What was acknowledged so far is in the log as it lies there, before anybody mends anything, and nothing is published
    /// in part.
    fn check_as_it_lies(&mut self, data: &Path) {
        match Follower::open(&log_directory(data)) {
            Ok(log) => self.figures.verdict.add(check::as_it_lies(&log, &self.acknowledged)),
            Err(LogError::Absent(_)) if self.acknowledged.0.is_empty() => {}
            Err(error) => self.wrong(format!("the log cannot be followed: {error}")),
        }
    }

    /// Goes on to the end, and checks everything.
    fn finish(&mut self, data: &Path, followers: Option<Followers>) {
        self.live_to_the_end(data, 10);
        let (verdict, published) = check::directory(data, &self.acknowledged);
        self.figures.verdict.add(verdict);
        if let Some(followers) = followers {
            let (verdict, repeats) = followers.finish(&published);
            self.figures.verdict.add(verdict);
            self.figures.repeats += repeats;
        }
        self.figures.acknowledged += self.acknowledged.0.len();
        self.figures.changes += published.len();
    }

    fn in_one_directory(&mut self, rounds: u32) {
        let (data, then) = (self.path("data"), self.path("state-then"));
        let recovers = self.figures.step.ground() == Ground::Recovery;
        // Each opening writes a table, and with a few of them the next one compacts.
        let prepared = if self.figures.step == Step::StateCompacting { 5 } else { 1 };
        (0..prepared).for_each(|_| self.live_to_the_end(&data, 60));
        let mut followers = Followers::attach(&data, self.desk.path(), !recovers);
        if recovers {
            copy_directory(&state_directory(&data, 0), &then);
            self.live_to_the_end(&data, 200);
        }
        for round in 0..rounds {
            self.die(&data, |data| {
                if recovers {
                    put_back(&state_directory(data, 0), (round % 2 == 0).then_some(&then));
                }
            });
            self.check_as_it_lies(&data);
            self.figures.verdict.add(followers.between_rounds());
        }
        self.finish(&data, Some(followers));
    }

    fn in_directories_of_their_own(&mut self, rounds: u32) {
        for round in 0..rounds {
            let data = self.path(&format!("data-{round}"));
            self.die(&data, |data| {
                // A life that missed the step has made a whole log.
                if data.exists() {
                    std::fs::remove_dir_all(data).unwrap();
                }
            });
            self.check_as_it_lies(&data);
            self.live_to_the_end(&data, 40);
            self.finish(&data, None);
        }
    }
}

/// The state as it was, or none.
fn put_back(state: &Path, then: Option<&PathBuf>) {
    std::fs::remove_dir_all(state).unwrap();
    if let Some(then) = then {
        copy_directory(then, state);
    }
}

/// Whether a table does not end as every whole one does, with the magic number of its format.
fn has_torn_table(directory: &Path) -> bool {
    const MAGIC: [u8; 8] = 0x88e2_41b7_85f4_cff7_u64.to_le_bytes();
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut tables = entries.filter(|path| path.extension().is_some_and(|extension| extension == "sst"));
    tables.any(|table| !std::fs::read(table).unwrap().ends_with(&MAGIC))
}
