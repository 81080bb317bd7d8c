//! How a process kills itself at a moment that was named beforehand, and what all its threads tell each other of what they
//! are doing, so that a thread that looks from aside knows when that moment has come.

use std::{
    io::Write,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

use super::steps::{Moment, Step};

/// Kills the process when its moment has come.
pub struct Gun {
    at: Option<Moment>,
    reached: AtomicU64,
}

impl Gun {
    /// One that is loaded, or is not.
    pub fn new(at: Option<Moment>) -> Gun {
        Gun { at, reached: AtomicU64::new(0) }
    }

    /// The step that it waits for.
    pub fn step(&self) -> Option<Step> {
        self.at.map(|at| at.step)
    }

    /// Says that a step is reached; if it is the one, the process is gone.
    pub fn reached(&self, step: Step) {
        let Some(at) = self.at.filter(|at| at.step == step) else { return };
        if self.reached.fetch_add(1, Ordering::SeqCst) + 1 == at.count {
            tell(&format!("dying at {step}"));
            die();
        }
    }
}

/// kill -9, by the process itself: nothing is tidied up, and nothing else of it runs on.
pub fn die() {
    let killed = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    tell(&format!("still alive: {killed:?}"));
    loop {
        std::thread::park();
    }
}

/// A line to whoever started the process. It is handed to the system at once, and so outlives the process.
pub fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever does not listen any more need not be told.
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

/// What the process as a whole is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It makes the log.
    CreatingLog,
    /// It opens the log.
    OpeningLog,
    /// It opens the state, or makes it.
    OpeningState,
    /// It folds what was published.
    Recovering,
    /// It folds and publishes what is new.
    Serving,
}

/// What the threads are at.
#[derive(Default)]
pub struct Scene {
    phase: AtomicU8,
    /// Appends that have begun and not returned.
    pub appends_under_way: AtomicU64,
    /// Odd while a commit is under way.
    pub commit: AtomicU64,
    /// How many bytes the log's write-ahead logs had when the last commit began.
    pub wal_bytes_at_commit: AtomicU64,
    /// Odd while a batch is written to the state.
    pub store: AtomicU64,
    /// Whether the driver folds new events.
    pub is_folding: AtomicBool,
    /// Whether a recovery has begun to read what it folds.
    pub is_recovery_folding: AtomicBool,
}

impl Scene {
    /// What the process as a whole is at.
    pub fn phase(&self) -> Phase {
        let phases = [Phase::CreatingLog, Phase::OpeningLog, Phase::OpeningState, Phase::Recovering];
        phases.into_iter().find(|phase| *phase as u8 == self.phase.load(Ordering::SeqCst)).unwrap_or(Phase::Serving)
    }

    /// The next phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }
}
