//! A simulation of writers, processes and readers over simulated brokers (`kafka`) and stores in memory: one thread, one seed, and
//! everything that can go wrong between any two steps. It promises that the same seed gives the same run, byte for byte.
//!
//! Two to four processes are members of a consumer group that shares out the partitions of one log (`process`). Each drives those that
//! it was given by the code that runs live: the phases of `recant_processor::serve`, its driver and recovery, standbys, and the
//! publisher of `recant_eventlog::kafka`. Each has disks of its own. Processes die at named steps (`names`, `mishaps`), on which
//! their log (`log`), their producers and their store (`disk`) pass by; they stand still for longer than any time-out, leave, and
//! come back. Who acts next, what the writers append and what goes wrong is drawn from one source of chance (`choices`).
//! recant's own code knows nothing of it.
//!
//! What is checked, and when:
//!
//! - after each step of a process (`truth`): each event's outputs are published once, whole, in order and exactly as the
//!   oracle calls for up to the committed position, and digests are those of their positions, each once; what became of each
//!   event; the state, a standby's too, is never ahead of that position;
//! - whenever a reader looks: what it reads at a position, or as of an earlier one, is what the oracle says of it, digest
//!   included;
//! - at each whole cascade (`consumer`): what a consumer that reads what is committed believes that listed and then followed, or that followed from the
//!   beginning, is the truth of its position, also after it died and heard some records again;
//! - when all is calm at the end: the log holds what was acknowledged; statuses, why and digests are the oracle's; the
//!   state is found right by `audit`; and an undisturbed replay of the log comes to the same hash over all outputs and
//!   gives the same answers.

mod choices;
mod consumer;
mod disk;
mod finish;
pub mod kafka;
mod letters;
mod log;
mod membership;
mod mishaps;
pub mod names;
mod planted;
mod process;
mod report;
mod trace;
mod truth;
mod world;
mod writers;
mod wrongs;

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use recant_eventlog::LogError;
use recant_projections::{fold::FoldError, query::PageError, store::StoreError};

use names::Coverage;
pub use planted::Plant;
pub use report::{Report, many};
use trace::Trace;
use world::World;

/// Each run has at least so many events, and so many faults that happened, deaths not counted.
pub const EVENTS_MIN: u64 = 300;
/// As above.
pub const FAULTS_MIN: u64 = 3;
/// So many deaths.
pub const CRASHES_MIN: u64 = 3;

/// A promise that was broken, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);

/// What a check ends with.
pub type Checked<T = ()> = Result<T, Wrong>;

fn wrong<T>(text: String) -> Checked<T> {
    Err(Wrong(text))
}

macro_rules! wrong_from {
    ($($error:ty),+) => {
        // The simulator's own reading never fails: an error is a promise broken.
        $(impl From<$error> for Wrong {
            fn from(error: $error) -> Self {
                Wrong(error.to_string())
            }
        })+
    };
}

wrong_from!(LogError, StoreError, FoldError, PageError);

/// What a run did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    /// Runs.
    pub seeds: u64,
    /// Records appended to the events.
    pub events: u64,
    /// Records of the change stream.
    pub changes: u64,
    /// Records that were refused.
    pub rejections: u64,
    /// Rounds, in each of which someone did something.
    pub rounds: u64,
    /// What was read of a space and compared with the oracle.
    pub reads: u64,
    /// What happened.
    pub coverage: Coverage,
}

impl Figures {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Figures) {
        let pairs = [
            (&mut self.seeds, other.seeds),
            (&mut self.events, other.events),
            (&mut self.changes, other.changes),
            (&mut self.rejections, other.rejections),
            (&mut self.rounds, other.rounds),
            (&mut self.reads, other.reads),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
        self.coverage.add(&other.coverage);
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// What it did.
    pub figures: Figures,
    /// The hash of every decision, output and answer.
    pub trace: [u8; 32],
    /// What is wrong, if anything is.
    pub wrong: Option<String>,
    /// The last lines of the trace.
    pub tail: Vec<String>,
}

/// Runs a seed, with a fault planted or without.
pub fn run(seed: u64, plant: Option<Plant>) -> Run {
    let trace = Trace::default();
    let mut figures = Figures::default();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, plant, trace.clone())?;
        let ran = world.run();
        figures = world.figures();
        ran
    }));
    let wrong = match ran {
        Ok(ran) => ran.err().map(|wrong| wrong.to_string()),
        Err(panic) => Some(format!("a panic: {}", text_of(panic.as_ref()))),
    };
    Run { seed, figures, trace: trace.hash(), wrong, tail: trace.tail() }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a text").to_owned()
}
