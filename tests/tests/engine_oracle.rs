//! Protects the rule of belief as the engine computes it: on random sequences of events, with rings, late premises,
//! duplicates, overlapping and replaced covers, windows, covers of agents and several targets at once, engine and oracle
//! agree after every record. What is compared is in `recant_tests::agree`: fates, every field of every change, order and
//! distance, every standing with its why, digests, invariants, previews, history, lists and explanations as of earlier
//! offsets, and replays; with batches that end, are abandoned, and are cut short by reopening at random.
//!
//! One sequence has a seed of its own, its number added to the first one. More of them, or others:
//!
//! ```text
//! RECANT_GRAPHS=52000 cargo test --release -p recant-tests --test engine_oracle -- --nocapture
//! RECANT_SEED=7 RECANT_GRAPHS=1 cargo test --release -p recant-tests --test engine_oracle
//! ```
//!
//! The first is `make oracle GRAPHS=52000`; the second runs again the one sequence whose seed a failure names. A failure
//! lists the fewest records that still show it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use recant_projections::fold::Forms;
use recant_tests::{
    agree::{Figures, MemoryDisk, RocksDisk, Settings, compare},
    generate::{Record, listing, minimized, records, seeded},
};

/// The seed of the first sequence, unless RECANT_SEED says otherwise.
const SEED: u64 = 20_261_130;

/// How many sequences, unless RECANT_GRAPHS says otherwise.
const GRAPHS: u64 = 5_200;

/// Nodes that a sequence can name, and its longest length in records.
const UNIVERSE_MAX: u8 = 60;
const RECORDS_MAX: usize = 170;

/// One sequence in so many has its state in RocksDB.
const ROCKS_ONE_IN: u64 = 130;

#[test]
fn engine_and_oracle_agree_after_every_record() {
    let first_seed = number_from("RECANT_SEED").unwrap_or(SEED);
    let graphs = number_from("RECANT_GRAPHS").unwrap_or(GRAPHS);
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let total = Mutex::new(Figures::default());
    println!("RECANT_SEED={first_seed} RECANT_GRAPHS={graphs}");
    let started = std::time::Instant::now();
    let work = || {
        while failed.lock().unwrap().is_none() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= graphs {
                return;
            }
            let seed = first_seed.wrapping_add(number);
            match agree(seed, &written(seed)) {
                Ok(figures) => total.lock().unwrap().add(&figures),
                Err(difference) => *failed.lock().unwrap() = Some((seed, difference)),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    if let Some((seed, difference)) = failed.into_inner().unwrap() {
        panic!("{}", report(seed, &difference));
    }
    let figures = total.into_inner().unwrap();
    let seconds = started.elapsed().as_secs_f64();
    println!("{figures:#?}");
    println!(
        "RESULT oracle seed={first_seed} graphs={} with_ring={} operations={} changes={} previews={} seconds={seconds:.1} operations_per_s={:.0}",
        figures.graphs,
        figures.graphs_with_ring,
        figures.operations,
        figures.changes,
        figures.previews,
        figures.operations as f64 / seconds
    );
    if graphs >= GRAPHS {
        check_reach(&figures);
    }
}

/// What was compared is what the promise asks for; a generator that went quiet would pass everything.
fn check_reach(figures: &Figures) {
    let at_least = [
        ("graphs", figures.graphs, 5_000),
        ("operations", figures.operations, 400_000),
        ("graphs with a ring", figures.graphs_with_ring, 1_500),
        ("changes", figures.changes, 100_000),
        ("previews", figures.previews, 50_000),
        ("reopened", figures.reopened, 5_000),
        ("abandoned", figures.abandoned, 5_000),
        ("steps of loading", figures.loads, 5_000),
        ("standings of the past", figures.past_standings, 100_000),
        ("restored", figures.restored, 500),
        ("switched", figures.switched, 2_000),
    ];
    for (what, found, least) in at_least {
        assert!(found >= least, "{what}: {found}, and at least {least} were asked for");
    }
}

fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text:?}")))
}

fn written(seed: u64) -> Vec<Record> {
    seeded(seed, UNIVERSE_MAX, RECORDS_MAX).next().map(|sequence| records(&sequence)).unwrap_or_default()
}

/// Resident from the start, and closed when idle; in pages throughout; or in pages and soon resident, back and forth. With segments of few items.
fn forms(seed: u64) -> Forms {
    let forms = Forms { segment_items_min: 6, ..Forms::default() };
    match seed % 3 {
        0 => Forms { idle_events_max: 8, ..forms },
        1 => Forms { resident_max: 0, memory_budget_bytes: 0, ..forms },
        _ => Forms { resident_max: 0, load_rows_max: 7, ..forms },
    }
}

/// Compares; a panic of the engine is a difference too.
fn agree(seed: u64, records: &[Record]) -> Result<Figures, String> {
    let in_rocks = seed.is_multiple_of(ROCKS_ONE_IN);
    let settings =
        Settings { seed, engine: None, forms: forms(seed), asks: true, reopen_one_in: if in_rocks { 60 } else { 24 } };
    let compared = catch_unwind(AssertUnwindSafe(|| {
        if in_rocks {
            compare(records, &RocksDisk::new().unwrap(), &settings)
        } else {
            compare(records, &MemoryDisk::default(), &settings)
        }
    }));
    match compared {
        Ok(compared) => compared.map_err(|disagreement| disagreement.to_string()),
        Err(panic) => Err(format!("a panic: {}", text_of(panic.as_ref()))),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a text").to_owned()
}

/// The difference, how to see it again, and the fewest records that show one.
fn report(seed: u64, difference: &str) -> String {
    let left = minimized(written(seed), |records| agree(seed, records).is_err());
    let of_left = agree(seed, &left).err().unwrap_or_default();
    format!(
        "{difference}\n\nAgain: RECANT_SEED={seed} RECANT_GRAPHS=1 cargo test --release -p recant-tests --test engine_oracle\n\n{} records that show a difference:\n{}\n{of_left}",
        left.len(),
        listing(&left)
    )
}
