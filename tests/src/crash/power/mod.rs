//! Losses of power. A victim is run under strace, which records everything that it writes, names and syncs ([`trace`]). That
//! is played back onto a disk that forgets what was not synced ([`disk`]), which is cut at moments of all kinds; each time the
//! real product opens what is left, goes on, and is checked: everything acknowledged by then is there.
//!
//! RocksDB has an environment of its own that injects faults (`utilities/fault_injection_fs.h`). It is compiled into the
//! library, but neither RocksDB's C interface, over which its crate speaks, nor the crate has a way to it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone: what cannot be recorded ends the run"
)]

pub(crate) mod disk;
pub(crate) mod trace;

use std::{path::Path, sync::Arc};

use recant_eventlog::{Topic, clock::SystemClock};
use recant_processor::{
    driver::DriveError,
    standalone::{NewEvent, NewLog, Standalone, log_directory},
};
use recant_proto::v1::{Event as AgentEvent, Observed, event::Body};
use tempfile::TempDir;

use self::{
    disk::{Disk, Left},
    trace::{Call, Event, Trace, recorded},
};
use super::{
    check::{self, Acknowledged, Verdict},
    events::{INCARNATION, SPACES},
    process,
    victim::Orders,
};
use crate::binary::Random;

/// What came of all cuts.
#[derive(Debug, Default)]
pub struct Figures {
    /// How many cuts.
    pub cuts: u32,
    /// Acknowledged events that the cuts had to keep, all together.
    pub acknowledged: usize,
    /// Cuts of which pages were torn.
    pub torn: u32,
    /// Of those, how many the log refused to open, with an error that names the damage.
    pub torn_and_refused: u32,
    /// Calls that were recorded.
    pub calls: usize,
    /// What does not hold.
    pub verdict: Verdict,
}

/// Records a victim, and cuts its disk so many times.
pub fn cut(cuts: u32, events: u64, seed: u64) -> Figures {
    let desk = TempDir::with_prefix("recant-power-").unwrap();
    let trace = record(desk.path(), events, seed, &[]);
    let mut figures = Figures { calls: trace.calls.len(), ..Figures::default() };
    let mut random = Random(seed);
    let mut disk = Disk::new(desk.path());
    let mut moments = moments(&trace, cuts, &mut random).into_iter().peekable();
    let log = log_directory(&desk.path().join("data"));
    let mut two_unsynced = 0;
    for (at, event) in trace.events.iter().enumerate() {
        while moments.next_if_eq(&at).is_some() {
            let left = match random.below(8) {
                0 => Left::Nothing,
                1 => Left::Everything,
                2 => Left::Torn,
                _ => Left::SomeFirstPart,
            };
            one_cut(&disk, left, &mut random, &mut figures, &format!("seed {seed}, event {at}, {left:?}"));
        }
        disk.take(&trace, *event);
        two_unsynced += usize::from(disk.unsynced_logs(&log) > 1);
    }
    // A cut would have to fall into that moment and tear the earlier of them alone: rather than wait for chance to do that,
    // there must be no such moment.
    if two_unsynced > 0 {
        let what = format!("seed {seed}: at {two_unsynced} moments two write-ahead logs held what was not synced");
        figures.verdict.wrong.push(what);
    }
    figures
}

/// Runs a victim of several lives under strace, in a directory that is empty and stays.
pub(crate) fn record(desk: &Path, events: u64, seed: u64, more: &[&str]) -> Trace {
    let path = std::env::temp_dir().join(format!("recant-trace-{}-{seed}", std::process::id()));
    let mut orders = Orders::new(&desk.join("data"), seed, 0);
    orders.events = events;
    orders.lives = 3;
    let told = path.with_extension("told");
    let ended = process::run(recorded(&process::victim(&orders), &path, more), &told);
    assert!(ended.is_done() || !more.is_empty(), "{:?} {:?}", ended.lines.last(), ended.errors);
    let trace = Trace::read(&path);
    for file in [&path, &told, &path.with_extension("errors")] {
        // Tens of megabytes, that nobody needs any more.
        let _ = std::fs::remove_file(file);
    }
    trace
}

/// Moments at which to cut: anywhere, and where something is about to become durable or to be named.
fn moments(trace: &Trace, cuts: u32, random: &mut Random) -> Vec<usize> {
    let is_turning_point = |at: &usize| match trace.events[*at] {
        Event::Begins(call) => matches!(trace.calls[call], Call::Rename { .. } | Call::Remove { .. }),
        Event::Ends(call, _) => matches!(trace.calls[call], Call::Sync { .. }),
    };
    let turning_points: Vec<usize> = (0..trace.events.len()).filter(is_turning_point).collect();
    let one = |number: u32| match number % 2 {
        0 => random.below(trace.events.len() as u64) as usize,
        _ => turning_points[random.below(turning_points.len() as u64) as usize],
    };
    let mut moments: Vec<usize> = (0..cuts).map(one).collect();
    moments.sort_unstable();
    moments
}

fn one_cut(disk: &Disk, left: Left, random: &mut Random, figures: &mut Figures, context: &str) {
    let desk = TempDir::with_prefix("recant-cut-").unwrap();
    disk.cut(left, random, desk.path());
    figures.cuts += 1;
    figures.acknowledged += disk.acknowledged.0.len();
    figures.torn += u32::from(left == Left::Torn);
    match go_on(&desk.path().join("data"), &disk.acknowledged) {
        Ok(verdict) => {
            let in_context = |found: Vec<String>| found.into_iter().map(|what| format!("{context}: {what}")).collect();
            figures.verdict.add(Verdict {
                lost: in_context(verdict.lost),
                twice: in_context(verdict.twice),
                wrong: in_context(verdict.wrong),
            });
        }
        // Zeros in the midst of what was being written look like damage. It is said, and nothing is lost by it.
        Err(error) if left == Left::Torn && error.to_string().contains("orruption") => figures.torn_and_refused += 1,
        Err(error) => figures.verdict.wrong.push(format!("{context}: it does not open: {error}")),
    }
}

/// Opens what is left as the product does, goes on, and checks everything.
pub fn go_on(data: &Path, acknowledged: &Acknowledged) -> Result<Verdict, DriveError> {
    let new = NewLog { incarnation: INCARNATION, partitions: 1, log_time_occurred: false };
    let mut standalone = Standalone::open_or_create(data, &new, Arc::new(SystemClock))?;
    let mut acknowledged = acknowledged.clone();
    let event = AgentEvent {
        id: "after-the-cut".to_owned(),
        space: SPACES[0].to_owned(),
        body: Some(Body::Observed(Observed {
            node: "after-the-cut".to_owned(),
            source: "after".to_owned(),
            ..Observed::default()
        })),
        ..AgentEvent::default()
    };
    let position = standalone.append(vec![NewEvent::of(&event)])?[0];
    acknowledged.0.insert(position.offset, event.id);
    standalone.process(&mut |_, _| {})?;
    assert!(recant_eventlog::ReadLog::bounds(standalone.log(), Topic::Events, 0)?.end > position.offset);
    drop(standalone);
    Ok(check::directory(data, &acknowledged).0)
}
