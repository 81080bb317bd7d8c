//! `make bench NAME=memory`: bytes that Rust has allocated for spaces, by a counting allocator. A program of its own, so that
//! counting slows no other benchmark. RocksDB allocates beside it, within the budgets that it is given.

#[path = "bench/durable.rs"]
#[allow(dead_code, reason = "the other benchmarks use the rest")]
mod durable;
#[path = "bench/heart.rs"]
#[allow(dead_code, reason = "the other benchmarks use the rest")]
mod heart;
#[path = "bench/recompute.rs"]
#[allow(dead_code, reason = "the other benchmarks use the rest")]
mod recompute;
#[path = "bench/workload.rs"]
#[allow(dead_code, reason = "the other benchmarks use the rest")]
mod workload;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use durable::{Bed, DurableError, SPACE};
use peak_alloc::PeakAlloc;
use recant_projections::fold::{Forms, space::Space};
use serde_json::json;
use workload::{Shape, Workload, event};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const SEED: u64 = 2026;
const RESULTS: &str = "results";

const MILLION: Workload =
    Workload { name: "million", shape: Shape::Random { sources: 50_000, observations: 200_000, derived: 800_000 } };

const IDLE_SPACES: u32 = 10_000;
const IDLE: Workload = Workload { name: "idle", shape: Shape::Random { sources: 2, observations: 5, derived: 15 } };

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nothing can be said if standard error is closed.
            let _ = writeln!(io::stderr(), "memory: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), DurableError> {
    let directory = tempfile::tempdir()?;
    let per_node = |bytes: usize| (bytes as f64 / f64::from(MILLION.nodes()) * 10.0).round() / 10.0;

    let mut bed = Bed::open(directory.path(), Forms { resident_max: u32::MAX, ..Forms::default() })?;
    bed.arrive(&MILLION, SEED)?;
    let with_it = ALLOCATOR.current_usage();
    let by_our_count = bed.partition.resident_bytes();
    bed.partition.keep_within(0);
    let grown = with_it - ALLOCATOR.current_usage();
    drop(bed);

    let store = recant_projections::store::rocks::RocksStore::open(directory.path())?;
    let before = ALLOCATOR.current_usage();
    let space = Space::load(&store, SPACE)?;
    let loaded = ALLOCATOR.current_usage() - before;
    let counted = space.as_ref().map_or(0, Space::resident_bytes);
    drop(space);
    drop(store);
    say(
        "memory",
        &[
            ("bytes_per_node", json!(per_node(grown.max(loaded)))),
            ("grown_bytes_per_node", json!(per_node(grown))),
            ("loaded_bytes_per_node", json!(per_node(loaded))),
            ("counted_bytes_per_node", json!(per_node(counted.max(by_our_count)))),
            ("nodes", json!(MILLION.nodes())),
        ],
    )?;
    idle()
}

/// Spaces that were all used, and are idle.
fn idle() -> Result<(), DurableError> {
    let directory = tempfile::tempdir()?;
    let mut bed = Bed::open(directory.path(), Forms::default())?;
    let before = ALLOCATOR.current_usage();
    let mut number = 0;
    let mut events = Vec::new();
    for space in 0..IDLE_SPACES {
        IDLE.draw(u64::from(space), |drawn| {
            events.push(event(&format!("tenant-{space}"), number, &drawn));
            number += 1;
        });
    }
    for (index, event) in events.iter().enumerate() {
        bed.fold(event)?;
        if index % 1_000 == 999 {
            bed.store()?;
            bed.partition.keep_within_budget();
        }
    }
    bed.store()?;
    bed.partition.keep_within_budget();
    drop(events);
    let allocated = ALLOCATOR.current_usage() - before;
    let mib = |bytes: usize| (bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0;
    say(
        "idle",
        &[
            ("allocated_mib", json!(mib(allocated))),
            ("counted_mib", json!(mib(bed.partition.resident_bytes()))),
            ("spaces", json!(IDLE_SPACES)),
            ("nodes_each", json!(IDLE.nodes())),
        ],
    )
}

fn say(name: &str, fields: &[(&str, serde_json::Value)]) -> Result<(), DurableError> {
    let written: Vec<String> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let object: serde_json::Map<String, serde_json::Value> =
        fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    std::fs::create_dir_all(RESULTS)?;
    std::fs::write(format!("{RESULTS}/{name}.json"), format!("{:#}\n", serde_json::Value::Object(object)))?;
    writeln!(io::stdout(), "RESULT {name} {}", written.join(" "))?;
    Ok(())
}
