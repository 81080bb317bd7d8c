//! `make soak MINUTES=60`: writes, retractions, reinstatements, questions, followers, kill -9 and restarts, all at once, with
//! a line each minute; `soak MINUTES [SEED] [KILL_EVERY_S] [EVENTS_PER_S] [FAULT]`, where FAULT (lost, twice, digest, unseen)
//! is planted to see that it is noticed. `soak live …` is the process that is killed.
//!
//! Ends with a line `RESULT soak key=value …`, and writes the same figures, with those of each minute, to
//! `results/soak.json`. It fails if anything is lost, twice or wrong, or if memory, open files or disk grow more than data do.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use recant_tests::{
    crash::check::Verdict,
    soak::{
        flat::Growth,
        planted::Fault,
        run::{Minute, Orders, Outcome, soak},
        writer,
    },
};
use serde_json::{Value, json};

const RESULTS: &str = "results";
const MIB: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(
        "usage: soak [MINUTES] [SEED] [KILL_EVERY_S] [EVENTS_PER_S] [lost|twice|digest|unseen]; {0:?} is none of these"
    )]
    Usage(String),
    #[error("cannot write to {RESULTS}/ or to the output: {0}")]
    Io(#[from] io::Error),
    #[error("something does not hold")]
    DoesNotHold,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "live") {
        return live(&arguments).unwrap_or(ExitCode::from(2));
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing can be said if standard error is closed.
            let _ = writeln!(io::stderr(), "soak: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn live(arguments: &[String]) -> Option<ExitCode> {
    let number = |at: usize| arguments.get(at)?.parse().ok();
    Some(writer::live(Path::new(arguments.get(1)?), number(2)?, number(3)?, number(4)?))
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let orders = orders(arguments)?;
    let mut out = io::stdout();
    writeln!(
        out,
        "soak: {} minutes, {} events a second, a kill about every {} s; seed {}",
        orders.minutes,
        orders.events_per_s,
        orders.kill_every.as_secs(),
        orders.seed
    )?;
    let outcome = soak(orders, &mut |minute, verdict| {
        // The figures go to the file too.
        let _ = tell(&mut out, minute, verdict);
    });
    let mut wrong: Vec<String> = Vec::new();
    let growth = Growth::of(&outcome.samples, outcome.length);
    match &growth {
        Some(growth) => wrong.extend(growth.wrong()),
        None => wrong.push("there are no samples in some quarter".to_owned()),
    }
    let last = outcome.verdict.first().into_iter().chain(&wrong);
    last.into_iter().try_for_each(|what| writeln!(out, "    {what}"))?;
    let wrong = outcome.verdict.wrong.len() + wrong.len();
    writeln!(out, "{}", result(&orders, &outcome, growth.unwrap_or_default(), wrong)?)?;
    if wrong == 0 && outcome.verdict.is_clean() { Ok(()) } else { Err(Failure::DoesNotHold) }
}

fn orders(arguments: &[String]) -> Result<Orders, Failure> {
    let number = |at: usize, default: u64| match arguments.get(at) {
        Some(text) => text.parse::<u64>().map_err(|_| Failure::Usage(text.clone())),
        None => Ok(default),
    };
    let fault = match arguments.get(4) {
        Some(name) => Some(Fault::named(name).ok_or_else(|| Failure::Usage(name.clone()))?),
        None => None,
    };
    Ok(Orders {
        minutes: u32::try_from(number(0, 60)?.max(1)).unwrap_or(u32::MAX),
        seed: number(1, 2026)?,
        kill_every: Duration::from_secs(number(2, 30)?.max(1)),
        events_per_s: number(3, 300)?.max(1),
        fault,
    })
}

fn tell(out: &mut impl Write, minute: &Minute, verdict: &Verdict) -> io::Result<()> {
    let sample = minute.sample;
    writeln!(
        out,
        "  minute {}: {} events, {} kills; memory {} MiB (at most {}), {} files open; log {} MiB, state {} MiB, {} bytes an event; \
         {} digests equal; {} questions, the slowest {} ms; paused {} ms, verified in {} ms",
        minute.number,
        minute.events,
        minute.kills,
        sample.map_or(0, |sample| sample.rss_bytes / MIB),
        minute.rss_bytes_max / MIB,
        sample.map_or(0, |sample| sample.files),
        sample.map_or(0, |sample| sample.log_bytes / MIB),
        sample.map_or(0, |sample| sample.state_bytes / MIB),
        sample.map_or(0, |sample| sample.bytes_per_event()),
        minute.digests,
        minute.answers,
        minute.slowest.as_millis(),
        minute.paused.as_millis(),
        minute.verified_in.as_millis()
    )?;
    verdict.first().into_iter().try_for_each(|what| writeln!(out, "    {what}"))?;
    out.flush()
}

/// The line of the result, and its file.
fn result(orders: &Orders, outcome: &Outcome, growth: Growth, wrong: usize) -> Result<String, Failure> {
    let fields = [
        ("minutes", json!(orders.minutes)),
        ("events", json!(outcome.events)),
        ("kills", json!(outcome.kills)),
        ("digests_verified", json!(outcome.digests_verified)),
        ("lost", json!(outcome.verdict.lost.len())),
        ("twice", json!(outcome.verdict.twice.len())),
        ("wrong", json!(wrong)),
        ("rss_mib_begin", json!(growth.rss_bytes[0] / MIB)),
        ("rss_mib_end", json!(growth.rss_bytes[1] / MIB)),
        ("disk_bytes_per_event_begin", json!(growth.disk_bytes_per_event[0])),
        ("disk_bytes_per_event_end", json!(growth.disk_bytes_per_event[1])),
    ];
    let written: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let details = [
        ("seed", json!(orders.seed)),
        ("events_per_s", json!(orders.events_per_s)),
        ("kill_every_s", json!(orders.kill_every.as_secs())),
        ("changes", json!(outcome.changes)),
        ("explanations_verified", json!(outcome.explanations_verified)),
        ("answers", json!(outcome.answers)),
        ("answers_put_off", json!(outcome.put_off)),
        ("changes_followed", json!(outcome.followed)),
        ("repeats_dropped", json!(outcome.repeats)),
        ("open_files_begin", json!(growth.files[0])),
        ("open_files_end", json!(growth.files[1])),
        ("by_minute", Value::Array(outcome.minutes.iter().map(of_minute).collect())),
    ];
    let object: serde_json::Map<String, Value> =
        fields.into_iter().chain(details).map(|(key, value)| (key.to_owned(), value)).collect();
    std::fs::create_dir_all(RESULTS)?;
    std::fs::write(format!("{RESULTS}/soak.json"), format!("{:#}\n", Value::Object(object)))?;
    Ok(format!("RESULT soak {}", written.join(" ")))
}

fn of_minute(minute: &Minute) -> Value {
    let sample = minute.sample;
    json!({
        "minute": minute.number,
        "events": minute.events,
        "kills": minute.kills,
        "rss_mib": sample.map(|sample| sample.rss_bytes / MIB),
        "rss_mib_max": minute.rss_bytes_max / MIB,
        "open_files": sample.map(|sample| sample.files),
        "log_bytes": sample.map(|sample| sample.log_bytes),
        "state_bytes": sample.map(|sample| sample.state_bytes),
        "digests": minute.digests,
        "answers": minute.answers,
        "slowest_answer_ms": minute.slowest.as_millis() as u64,
        "paused_ms": minute.paused.as_millis() as u64,
        "verified_in_ms": minute.verified_in.as_millis() as u64,
    })
}
