//! The process that writes, and that is killed: the embedded log, two partitions with their drivers, and several writers at a
//! steady rate. It is put together as `recant_processor::standalone` puts the real one together, of the same parts, with a
//! smaller budget for spaces and smaller write buffers, so that all caches reach their ceilings within minutes.
//!
//! It is told, a line each, `pause`, `resume` and `stop`; at the end of its input it stops too. It tells `serving`; `ack
//! P:O=ID …` for what was appended, only once the append has returned; `paused END END`, the ends of the partitions, once
//! everything is processed and nothing is under way; `refused TEXT`; `stopped TEXT` when it cannot go on.

use std::{
    io::BufRead,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use recant_eventlog::{
    AppendLog, LogError, NewRecord, ReadLog, Topic,
    clock::SystemClock,
    embedded::{EmbeddedLog, Sealer, WriterOptions},
};
use recant_processor::{
    driver::{BatchLimit, DriveError, Driver, Step},
    standalone::{NewLog, Standalone, log_directory, state_directory},
};
use recant_projections::{
    fold::{FoldError, Forms},
    store::{behind::WriteBehind, rocks::RocksStore},
};
use recant_proto::{names, position::Incarnation, v1::Event, wire};

use super::load::{PARTITIONS, Writer};
use crate::crash::gun::tell;

/// What the spaces of a partition may take.
pub const MEMORY_BUDGET_BYTES: usize = 32 << 20;

const WRITE_BUFFER_BYTES: usize = 4 << 20;
const WRITERS: u64 = 4;
const IDLE_PAUSE: Duration = Duration::from_millis(2);

/// After so many refusals a writer ends.
const REFUSALS_MAX: u32 = 3;

/// What the runner has asked for.
#[derive(Default)]
struct Asked {
    pause: AtomicBool,
    stop: AtomicBool,
    /// Appends that have begun and not returned.
    under_way: AtomicU64,
    /// The driver has failed.
    failed: AtomicBool,
}

impl Asked {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.failed.load(Ordering::SeqCst)
    }
}

/// Lives until it is stopped or killed.
pub fn live(data: &Path, seed: u64, life: u64, events_per_s: u64) -> ExitCode {
    match one_life(data, seed, life, events_per_s) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("stopped {}", error.to_string().replace('\n', " ")));
            ExitCode::from(3)
        }
    }
}

fn one_life(data: &Path, seed: u64, life: u64, events_per_s: u64) -> Result<(), DriveError> {
    let log = Arc::new(open_log(data)?);
    let asked = Arc::new(Asked::default());
    let listener = asked.clone();
    // It ends with the process.
    std::thread::spawn(move || listen(&listener));
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let (log, asked) = (&log, &asked);
            let interval = Duration::from_secs_f64(WRITERS as f64 / events_per_s.max(1) as f64);
            scope.spawn(move || write(log, &mut Writer::new(seed, life, number), asked, interval));
        }
        let driven = drive(data, &log, &asked);
        asked.failed.store(driven.is_err(), Ordering::SeqCst);
        driven
    })
}

fn listen(asked: &Asked) {
    for line in std::io::stdin().lock().lines() {
        match line.as_deref() {
            Ok("pause") => asked.pause.store(true, Ordering::SeqCst),
            Ok("resume") => asked.pause.store(false, Ordering::SeqCst),
            _ => break,
        }
    }
    asked.stop.store(true, Ordering::SeqCst);
}

fn open_log(data: &Path) -> Result<EmbeddedLog, DriveError> {
    let clock = Arc::new(SystemClock);
    let options = WriterOptions { write_buffer_bytes: WRITE_BUFFER_BYTES, ..WriterOptions::default() };
    let directory = log_directory(data);
    match EmbeddedLog::open_with(&directory, options.clone(), clock.clone()) {
        Err(LogError::Absent(_)) => {
            let incarnation = Incarnation([0x50; 16]);
            let new = NewLog { incarnation, partitions: PARTITIONS, log_time_occurred: false };
            drop(Standalone::create(data, &new, clock.clone())?);
            Ok(EmbeddedLog::open_with(&directory, options, clock)?)
        }
        opened => Ok(opened?),
    }
}

/// Appends at a steady rate: each event has its interval, and what was missed is not made up for.
fn write(log: &EmbeddedLog, writer: &mut Writer, asked: &Asked, interval: Duration) {
    let mut refusals = 0;
    let mut due = Instant::now();
    while !asked.is_over() && refusals < REFUSALS_MAX {
        // Counted before it is asked, so that whoever asks for a pause and then counts misses none.
        asked.under_way.fetch_add(1, Ordering::SeqCst);
        let written = if asked.pause.load(Ordering::SeqCst) { 0 } else { append(log, writer, &mut refusals) };
        asked.under_way.fetch_sub(1, Ordering::SeqCst);
        due += if written == 0 { Duration::from_millis(5) } else { interval * written };
        due = due.max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()).max(Duration::from_micros(1)));
        due = due.max(Instant::now());
    }
}

fn append(log: &EmbeddedLog, writer: &mut Writer, refusals: &mut u32) -> u32 {
    let events = writer.next_call();
    match log.append(events.iter().map(record).collect()) {
        Ok(positions) => {
            let told = positions.iter().zip(&events).map(|(position, event)| format!(" {position}={}", event.id));
            tell(&format!("ack{}", told.collect::<String>()));
        }
        Err(error) => {
            tell(&format!("refused {}", error.to_string().replace('\n', " ")));
            *refusals += 1;
        }
    }
    events.len() as u32
}

fn record(event: &Event) -> NewRecord {
    NewRecord {
        partition: names::partition_of(event.space.as_bytes(), PARTITIONS),
        key: event.space.clone().into_bytes(),
        headers: vec![(names::CONTENT_TYPE.to_owned(), names::PROTOBUF.into())],
        value: wire::to_protobuf(event),
        append_time_ms: None,
    }
}

fn drive(data: &Path, log: &Arc<EmbeddedLog>, asked: &Asked) -> Result<(), DriveError> {
    let forms = Forms { memory_budget_bytes: MEMORY_BUDGET_BYTES, ..Forms::default() };
    let (mut drivers, mut sealers) = (Vec::new(), Vec::new());
    for partition in 0..log.partitions() {
        let directory = state_directory(data, partition);
        let store = RocksStore::open(&directory).and_then(WriteBehind::new).map_err(FoldError::from)?;
        sealers.push(Sealer::of_unsynced(&directory));
        drivers.push(Driver::open(log.clone(), store, partition, BatchLimit { forms, ..BatchLimit::default() })?);
    }
    tell("serving");
    let mut has_told_pause = false;
    loop {
        let is_over = asked.is_over();
        let is_paused = asked.pause.load(Ordering::SeqCst);
        // Asked before the log is: what was written by then is seen.
        let is_quiet = (is_paused || is_over) && asked.under_way.load(Ordering::SeqCst) == 0;
        let mut is_idle = true;
        for driver in &mut drivers {
            is_idle &= !catch_up(driver)?;
        }
        sealers.iter_mut().for_each(|sealer| sealer.seal(0));
        if is_idle && is_quiet && is_paused && !has_told_pause {
            let end = |partition| Ok(log.bounds(Topic::Events, partition)?.end.to_string());
            let ends: Vec<String> = (0..log.partitions()).map(end).collect::<Result<_, LogError>>()?;
            tell(&format!("paused {}", ends.join(" ")));
        }
        has_told_pause = is_paused && (has_told_pause || (is_idle && is_quiet));
        if is_idle && is_quiet && is_over {
            return Ok(());
        }
        if is_idle {
            std::thread::sleep(IDLE_PAUSE);
        }
    }
}

/// Takes steps until there are no more events; whether there were any.
fn catch_up(driver: &mut Driver<EmbeddedLog, WriteBehind>) -> Result<bool, DriveError> {
    let mut were_any = false;
    loop {
        match driver.step(&mut |_, _| {})? {
            Step::Idle => return Ok(were_any),
            Step::Aborted => return Err(LogError::NotAccepting(driver.last_abort().to_owned()).into()),
            Step::Polled | Step::Folded | Step::Published | Step::Stored => were_any = true,
        }
    }
}
