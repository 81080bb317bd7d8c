//! `make sim SEEDS=2000`: the simulation of everything that can go wrong, over many seeds. `make sim SEEDS=1 FIRST=7` runs
//! one seed again. Prints how often each step and fault was met, and a line `RESULT sim …`; the figures go to
//! `results/sim.json` too. `trace` is a hash of everything that happened: the same for the same seeds, on any machine.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Instant,
};

use recant_tests::sim::{
    Report, many,
    names::{FAULTS, STEPS},
};
use serde_json::json;

/// A run is many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RESULTS: &str = "results";
const SEEDS: u64 = 2_000;

/// Over so many seeds every step and every fault must have been met.
const SEEDS_THAT_COVER: u64 = 200;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("usage: sim [SEEDS] [FIRST]; {0:?} is not a number")]
    Usage(String),
    #[error("{0}")]
    Wrong(String),
    #[error("never met over {0} seeds: {1}")]
    NotCovered(u64, String),
    #[error("cannot write to {RESULTS}/ or to the output: {0}")]
    Write(#[from] io::Error),
}

fn main() -> ExitCode {
    match simulate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing can be said if standard error is closed.
            let _ = writeln!(io::stderr(), "sim: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn simulate() -> Result<(), Failure> {
    let seeds = number(1)?.unwrap_or(SEEDS);
    let first = number(2)?.unwrap_or(0);
    let started = Instant::now();
    let report = many(first, seeds, None);
    let seconds = started.elapsed().as_secs_f64();
    let mut out = io::stdout();
    let coverage = &report.figures.coverage;
    writeln!(out, "sim: seeds {first} to {}\n\n{}", first.wrapping_add(seeds).wrapping_sub(1), coverage.table())?;
    if let Some(failure) = report.failure() {
        writeln!(out, "{}", line(&report, seconds))?;
        return Err(Failure::Wrong(failure));
    }
    let missing = coverage.missing();
    if seeds >= SEEDS_THAT_COVER {
        std::fs::create_dir_all(RESULTS)?;
        let fields = fields(&report, seconds).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let mut object: serde_json::Map<String, serde_json::Value> = fields;
        object.insert("first_seed".to_owned(), json!(first));
        object.insert("trace".to_owned(), json!(report.trace));
        std::fs::write(format!("{RESULTS}/sim.json"), format!("{:#}\n", serde_json::Value::Object(object)))?;
    }
    writeln!(out, "{}", line(&report, seconds))?;
    if seeds >= SEEDS_THAT_COVER && !missing.is_empty() {
        return Err(Failure::NotCovered(seeds, missing.join(", ")));
    }
    Ok(())
}

fn number(argument: usize) -> Result<Option<u64>, Failure> {
    let text = std::env::args().nth(argument).filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|_| Failure::Usage(text))).transpose()
}

fn line(report: &Report, seconds: f64) -> String {
    let fields = fields(report, seconds);
    let written: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("RESULT sim {} trace={}", written.join(" "), report.trace)
}

/// The figures by their keys.
fn fields(report: &Report, seconds: f64) -> Vec<(&'static str, serde_json::Value)> {
    let figures = &report.figures;
    let coverage = &figures.coverage;
    let met = |counts: &[u64]| counts.iter().filter(|count| **count > 0).count();
    vec![
        ("seeds", json!(figures.seeds)),
        ("events", json!(figures.events)),
        ("changes", json!(figures.changes)),
        ("faults", json!(coverage.fault_count())),
        ("crashes", json!(coverage.crashes())),
        ("reads", json!(figures.reads)),
        ("steps_covered", json!(met(&coverage.died))),
        ("steps_total", json!(STEPS)),
        ("faults_covered", json!(met(&coverage.faults))),
        ("faults_total", json!(FAULTS)),
        ("wrong", json!(u64::from(report.wrong.is_some()))),
        ("seeds_per_s", json!((figures.seeds as f64 / seconds * 10.0).round() / 10.0)),
    ]
}
