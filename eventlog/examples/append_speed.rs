//! How fast the embedded log takes events, each append with its fsync: one caller at a time, then 32 at once.
//!
//! `cargo run --release -p recant-eventlog --example append_speed [DIR]`

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "it measures and tells")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use recant_eventlog::clock::SystemClock;
use recant_eventlog::embedded::{CreateOptions, EmbeddedLog, WriterOptions};
use recant_eventlog::{AppendLog, LogError, NewRecord};
use recant_proto::position::Incarnation;

const ALONE: usize = 5_000;
const THREADS: usize = 32;
const EACH: usize = 5_000;

fn event() -> NewRecord {
    // No run of it repeats, as little as an event's does.
    let value = (0..300_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    NewRecord { partition: 0, key: b"default".to_vec(), headers: vec![], value, append_time_ms: None }
}

fn main() -> Result<(), LogError> {
    let io = |error: std::io::Error| LogError::Io(error.to_string());
    let temporary = tempfile::tempdir().map_err(io)?;
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("log"), PathBuf::from);
    let options = CreateOptions {
        incarnation: Incarnation([1; 16]),
        partitions: 1,
        first_records: vec![],
        writer: WriterOptions::default(),
    };
    let log = EmbeddedLog::create(&dir, options, Arc::new(SystemClock))?;

    let mut latencies_us = Vec::with_capacity(ALONE);
    for _ in 0..ALONE {
        let started = Instant::now();
        log.append(vec![event()])?;
        latencies_us.push(started.elapsed().as_micros());
    }
    latencies_us.sort_unstable();
    let (p50, p99) = (latencies_us[ALONE / 2], latencies_us[ALONE * 99 / 100]);

    let before = log.counters().batches;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let append = || (0..EACH).try_for_each(|_| log.append(vec![event()]).map(drop));
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(append)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(LogError::Io("panicked".into()))))
    })?;
    let events_per_s = (THREADS * EACH) as f64 / started.elapsed().as_secs_f64();
    let events_per_fsync = (THREADS * EACH) as f64 / (log.counters().batches - before) as f64;
    println!(
        "RESULT append_speed alone_p50_us={p50} alone_p99_us={p99} threads={THREADS} events_per_s={events_per_s:.0} \
         events_per_fsync={events_per_fsync:.1}"
    );
    Ok(())
}
