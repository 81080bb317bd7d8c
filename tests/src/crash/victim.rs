//! The process that is killed: several writers, the driver of the only partition, and a thread that looks from aside. It is
//! put together as `recant_processor::standalone` puts the real one together, of the same parts, each behind what watches it.
//!
//! It tells, a line each: `ack P:O=ID …` for what was appended, only once the append has returned; `dying at STEP`; `refused
//! TEXT` when the log refuses an append; `stopped TEXT` when the driver or an opening fails.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use recant_eventlog::{
    AppendLog, LogError, ReadLimit, ReadLog, Topic,
    clock::SystemClock,
    embedded::{CreateOptions, EmbeddedLog, WriterOptions},
};
use recant_processor::{
    driver::{BatchLimit, DriveError, Driver, Step as DriverStep},
    standalone::{log_directory, state_directory},
};
use recant_projections::{
    fold::FoldError,
    store::{behind::WriteBehind, rocks::RocksStore},
};

use super::{
    aside::Aside,
    events::{self, INCARNATION, Writer},
    gun::{Gun, Phase, Scene, tell},
    steps::{Moment, Step},
    watched::{WatchedLog, WatchedStore},
};
use crate::binary::Random;

/// So small that tables are flushed and compacted, and cascades are written in pieces, all the time.
const WRITE_BUFFER_BYTES: usize = 64 << 10;
const PIECE_BYTES: usize = 8 << 10;

const IDLE_PAUSE: Duration = Duration::from_micros(300);

/// After so many refusals a writer ends.
const REFUSALS_MAX: u32 = 3;

/// What a process is to do.
#[derive(Debug, Clone)]
pub struct Orders {
    /// The data directory.
    pub data: PathBuf,
    /// What the load follows from.
    pub seed: u64,
    /// Which life this is.
    pub life: u64,
    /// When it kills itself.
    pub die: Option<Moment>,
    /// How many writers.
    pub writers: u64,
    /// After so many events each writer has done.
    pub events: u64,
    /// At most so many events are folded in one batch.
    pub batch_events: usize,
    /// So often the log is closed and opened again, each time as another life.
    pub lives: u64,
}

impl Orders {
    /// A life under load.
    pub fn new(data: &Path, seed: u64, life: u64) -> Orders {
        Orders {
            data: data.to_owned(),
            seed,
            life,
            die: None,
            writers: 3,
            events: u64::MAX,
            batch_events: 40,
            lives: 1,
        }
    }

    /// As they stand on the command line, `key=value`.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("data={}", self.data.display()),
            format!("seed={}", self.seed),
            format!("life={}", self.life),
            format!("writers={}", self.writers),
            format!("events={}", self.events),
            format!("batch_events={}", self.batch_events),
            format!("lives={}", self.lives),
        ];
        arguments.extend(self.die.map(|moment| format!("die={moment}")));
        arguments
    }

    /// Reads them back.
    pub fn parse(arguments: &[String]) -> Option<Orders> {
        let given: BTreeMap<&str, &str> =
            arguments.iter().map(|argument| argument.split_once('=')).collect::<Option<_>>()?;
        let number = |key: &str| given.get(key)?.parse::<u64>().ok();
        Some(Orders {
            data: PathBuf::from(given.get("data")?),
            seed: number("seed")?,
            life: number("life")?,
            die: match given.get("die") {
                Some(moment) => Some(Moment::parse(moment)?),
                None => None,
            },
            writers: number("writers")?,
            events: number("events")?,
            batch_events: number("batch_events")? as usize,
            lives: number("lives")?,
        })
    }
}

/// Lives as it was ordered to.
pub fn live(orders: &Orders) -> ExitCode {
    for life in orders.life..orders.life + orders.lives {
        if let Err(error) = one_life(&Orders { life, ..orders.clone() }) {
            tell(&format!("stopped {}", one_line(&error)));
            return ExitCode::from(3);
        }
    }
    ExitCode::SUCCESS
}

/// What it is, as types have it, and the text that its user sees.
fn one_line(error: &DriveError) -> String {
    let kind = match error {
        DriveError::Log(error) => kind_of(error),
        DriveError::Fold(FoldError::Store(error)) => format!("{error:?}"),
        other => format!("{other:?}"),
    };
    format!("{} {error}", kind.split(['(', ' ', '{']).next().unwrap_or_default()).replace('\n', " ")
}

fn kind_of(error: &LogError) -> String {
    format!("{error:?}").split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}

fn one_life(orders: &Orders) -> Result<(), DriveError> {
    let gun = Arc::new(Gun::new(orders.die));
    let scene = Arc::new(Scene::default());
    let (log_dir, state_dir) = (log_directory(&orders.data), state_directory(&orders.data, 0));
    let aside = Aside {
        gun: gun.clone(),
        scene: scene.clone(),
        log: log_dir.clone(),
        state: state_dir.clone(),
        piece_bytes: PIECE_BYTES as u64,
        random: Random(orders.seed ^ orders.life),
    };
    scene.enter(Phase::OpeningLog);
    aside.look();
    let log = open_log(&log_dir, &gun, &scene)?;
    let log = Arc::new(WatchedLog { log, directory: log_dir, gun: gun.clone(), scene: scene.clone() });

    let writing = AtomicU64::new(orders.writers);
    let driver_stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..orders.writers {
            let (log, writing, driver_stopped) = (&log, &writing, &driver_stopped);
            scope.spawn(move || {
                write(log, &mut Writer::new(orders.seed, orders.life, number), orders.events, driver_stopped);
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let driven = drive(orders, &log, &state_dir, &gun, &scene, &writing);
        driver_stopped.store(driven.is_err(), Ordering::SeqCst);
        driven
    })
}

fn open_log(directory: &Path, gun: &Gun, scene: &Scene) -> Result<EmbeddedLog, LogError> {
    let clock = Arc::new(SystemClock);
    let writer =
        WriterOptions { write_buffer_bytes: WRITE_BUFFER_BYTES, piece_bytes: PIECE_BYTES, ..WriterOptions::default() };
    match EmbeddedLog::open_with(directory, writer.clone(), clock.clone()) {
        Err(LogError::Absent(_)) => {
            scene.enter(Phase::CreatingLog);
            let first_records = vec![events::log_created()];
            let options = CreateOptions { incarnation: INCARNATION, partitions: 1, first_records, writer };
            let log = EmbeddedLog::create(directory, options, clock)?;
            scene.enter(Phase::OpeningState);
            gun.reached(Step::LogCreated);
            Ok(log)
        }
        opened => {
            scene.enter(Phase::OpeningState);
            opened
        }
    }
}

fn write(log: &WatchedLog, writer: &mut Writer, events_max: u64, driver_stopped: &AtomicBool) {
    let (mut written, mut refusals, mut after_driver) = (0, 0, 0);
    while written < events_max && refusals < REFUSALS_MAX {
        let events = writer.next_call();
        written += events.len() as u64;
        match log.append(events.iter().map(events::record).collect()) {
            Ok(positions) => {
                let told = positions.iter().zip(&events).map(|(position, event)| format!(" {position}={}", event.id));
                tell(&format!("ack{}", told.collect::<String>()));
                log.gun.reached(Step::AppendTold);
            }
            Err(error) => {
                tell(&format!("refused {} {}", kind_of(&error), error.to_string().replace('\n', " ")));
                refusals += 1;
            }
        }
        // Where only the driver has stopped, the log still takes what comes; some more of it is enough.
        after_driver += u64::from(driver_stopped.load(Ordering::SeqCst));
        if after_driver > 20 {
            return;
        }
    }
}

fn drive(
    orders: &Orders,
    log: &Arc<WatchedLog>,
    state_dir: &Path,
    gun: &Arc<Gun>,
    scene: &Arc<Scene>,
    writing: &AtomicU64,
) -> Result<(), DriveError> {
    std::fs::create_dir_all(state_dir).map_err(|error| LogError::Io(format!("{}: {error}", state_dir.display())))?;
    let store = RocksStore::open(state_dir).and_then(WriteBehind::new).map_err(FoldError::from)?;
    gun.reached(Step::StateCreated);
    let store = WatchedStore { store, gun: gun.clone(), scene: scene.clone() };
    scene.enter(Phase::Recovering);
    let read = ReadLimit { records_max: orders.batch_events, bytes_max: 4 << 20 };
    let limit = BatchLimit { read, ..BatchLimit::default() };
    let mut driver = Driver::open(log.clone(), store, 0, limit)?;
    gun.reached(Step::Recovered);
    scene.enter(Phase::Serving);
    tell(&format!("serving from {}", driver.state().next_offset()));

    let mut polled = false;
    loop {
        // Asked before the log is: what was written by then is seen.
        let all_written = writing.load(Ordering::SeqCst) == 0;
        scene.is_folding.store(polled, Ordering::SeqCst);
        let step = driver.step(&mut |_, _| {});
        scene.is_folding.store(false, Ordering::SeqCst);
        let step = step?;
        polled = step == DriverStep::Polled;
        match step {
            DriverStep::Polled => gun.reached(Step::Polled),
            DriverStep::Folded => gun.reached(Step::Folded),
            DriverStep::Published => gun.reached(Step::Published),
            DriverStep::Stored => gun.reached(Step::Stored),
            DriverStep::Aborted => return Err(LogError::NotAccepting(driver.last_abort().to_owned()).into()),
            DriverStep::Idle => {
                gun.reached(Step::Idle);
                if all_written {
                    tell(&format!("done at {}", log.bounds(Topic::Events, 0)?.end));
                    return Ok(());
                }
                std::thread::sleep(IDLE_PAUSE);
            }
        }
    }
}
