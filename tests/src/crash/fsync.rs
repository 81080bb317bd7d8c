//! An fsync that fails, once: strace makes one of the victim's end with EIO. Linux forgets what it could not write, and lets
//! the next fsync of the same file end well; whoever takes that for good loses what was in between. So: the log takes nothing
//! more and says so, nothing is written to that file or synced again, and after a loss of power everything acknowledged is
//! there. Then it is opened again, and goes on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: a directory that cannot be made ends the run"
)]

use tempfile::TempDir;

use super::{
    check::Verdict,
    power::{self, disk::Disk, disk::Left, trace::Trace, trace::recorded},
    process,
    victim::Orders,
};
use crate::binary::Random;

/// So often a round is tried until an fsync did fail.
const ATTEMPTS: u32 = 6;

/// What came of all rounds.
#[derive(Debug, Default)]
pub struct Figures {
    /// Rounds in which an fsync failed.
    pub rounds: u32,
    /// Of those, how many in which the log refused what came afterwards; in the others it failed in the state, or while
    /// something was opened, which ended the process.
    pub refused: u32,
    /// Acknowledged events, all together.
    pub acknowledged: usize,
    /// What does not hold.
    pub verdict: Verdict,
}

/// So many rounds.
pub fn fail(rounds: u32, seed: u64) -> Figures {
    let mut figures = Figures::default();
    let mut random = Random(seed);
    for round in 0..rounds {
        let failed = (0..ATTEMPTS).any(|attempt| {
            // Counted in each thread: the one that writes the log makes most of them.
            let nth = 1 + random.below(60 / u64::from(attempt + 1));
            one(nth, seed + u64::from(round), &mut random, &mut figures)
        });
        if !failed {
            figures.verdict.wrong.push(format!("round {round}: no fsync failed"));
        }
    }
    figures
}

fn one(nth: u64, seed: u64, random: &mut Random, figures: &mut Figures) -> bool {
    let desk = TempDir::with_prefix("recant-fsync-").unwrap();
    let data = desk.path().join("data");
    let trace_path = desk.path().with_extension("trace");
    let inject = format!("inject=fsync,fdatasync:error=EIO:when={nth}");
    let mut orders = Orders::new(&data, seed, 0);
    orders.events = 120;
    let ended = process::run(
        recorded(&process::victim(&orders), &trace_path, &["-e", &inject]),
        &desk.path().with_extension("told"),
    );
    let trace = Trace::read(&trace_path);
    for kind in ["trace", "told", "errors"] {
        std::fs::remove_file(desk.path().with_extension(kind)).unwrap();
    }
    let mut disk = Disk::new(desk.path());
    trace.events.iter().for_each(|event| disk.take(&trace, *event));
    if disk.failed_syncs == 0 {
        return false;
    }
    figures.rounds += 1;
    figures.acknowledged += disk.acknowledged.0.len();
    let context = format!("seed {seed}, fsync {nth}");
    let mut wrong = |what: String| figures.verdict.wrong.push(format!("{context}: {what}"));

    let refusals: Vec<&str> = ended.lines_of("refused").collect();
    let stopped: Vec<&str> = ended.lines_of("stopped").collect();
    if refusals.is_empty() && stopped.is_empty() {
        wrong(format!("nobody was told: {:?}", ended.lines.last()));
    }
    let says_what_to_do = |line: &&str| line.contains("open the log again") || line.contains("opened again");
    if !refusals.is_empty() && !refusals.iter().all(says_what_to_do) {
        wrong(format!("a refusal does not say what to do: {refusals:?}"));
    }
    figures.refused += u32::from(!refusals.is_empty());
    if !disk.after_a_failure.is_empty() {
        wrong(format!("after an fsync of a file had failed: {:?}", disk.after_a_failure));
    }
    // As it lies there, with what the system still holds, and after losses of power.
    let everything = [Left::Everything, Left::Nothing, Left::SomeFirstPart, Left::SomeFirstPart];
    for left in everything {
        let cut = TempDir::with_prefix("recant-cut-").unwrap();
        disk.cut(left, random, cut.path());
        match power::go_on(&cut.path().join("data"), &disk.acknowledged) {
            Ok(verdict) => figures.verdict.add(verdict),
            Err(error) => figures.verdict.wrong.push(format!("{context}, {left:?}: it does not open: {error}")),
        }
    }
    true
}
