//! Opening a space of a million nodes: to the first answer in pages, and to the resident form, beside scanning its rows.
//! And working in pages on a space ten times the memory budget, beside the resident form.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use prost::Message as _;
use recant_projections::{
    fold::{Forms, space::Space},
    query::{Moment, explain},
    store::{Store as _, rocks::RocksStore},
    tables::Table,
};

use crate::{
    durable::{Bed, DurableError, SPACE, reinstatement, retraction},
    heart::{Spread, spread},
    workload::{Random, Shape, Workload, node_id},
};

/// A million nodes.
pub const MILLION: Workload =
    Workload { name: "million", shape: Shape::Random { sources: 50_000, observations: 200_000, derived: 800_000 } };

/// Tables that a loading reads.
const LOADED: [Table; 5] =
    [Table::Nodes, Table::NodeStates, Table::Justifications, Table::JustificationCovers, Table::Moves];

/// What was measured of opening.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// Scanning all rows that a loading reads.
    pub scan: Duration,
    /// Bytes in them.
    pub bytes: usize,
    /// To the first explanation, in pages; the database is open.
    pub paged: Duration,
    /// To the resident form.
    pub resident: Duration,
}

/// What was measured of working in pages.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Bytes of the resident form.
    pub resident_bytes: usize,
    /// The budget: a tenth.
    pub budget_bytes: usize,
    /// A retraction from its bytes to the disk, resident.
    pub resident: Spread,
    /// The same in pages.
    pub paged: Spread,
    /// Bytes that the space took in pages at most, between batches.
    pub paged_bytes_max: usize,
}

/// Lets a million nodes arrive in a directory.
pub fn prepare(directory: &Path, seed: u64) -> Result<(), DurableError> {
    let mut bed = Bed::open(directory, Forms { resident_max: u32::MAX, ..Forms::default() })?;
    bed.arrive(&MILLION, seed)
}

/// Measures opening, each time with the database opened anew; the least of some rounds.
pub fn opening(directory: &Path, rounds: u32) -> Result<Opening, DurableError> {
    let mut best: Option<Opening> = None;
    for round in 0..rounds {
        let (scan, bytes) = scan(directory)?;
        let paged = first_answer(directory, round)?;
        let resident = load(directory)?;
        let least = |known: Option<Duration>, new: Duration| known.map_or(new, |known| known.min(new));
        best = Some(Opening {
            scan: least(best.map(|best| best.scan), scan),
            bytes,
            paged: least(best.map(|best| best.paged), paged),
            resident: least(best.map(|best| best.resident), resident),
        });
    }
    best.ok_or_else(|| std::io::Error::other("no rounds").into())
}

fn scan(directory: &Path) -> Result<(Duration, usize), DurableError> {
    let store = RocksStore::open(directory)?;
    let started = Instant::now();
    let mut bytes = 0;
    for table in LOADED {
        store.scan(table, b"", b"", &mut |key, value| {
            bytes += key.len() + value.len();
            std::ops::ControlFlow::Continue(())
        })?;
    }
    Ok((started.elapsed(), bytes))
}

fn first_answer(directory: &Path, round: u32) -> Result<Duration, DurableError> {
    let store = RocksStore::open(directory)?;
    let node = node_id(Random::new(u64::from(round)).below(MILLION.nodes()));
    let started = Instant::now();
    let missing = || DurableError::from(std::io::Error::other("the space or the node is missing"));
    let space = Space::open(&store, SPACE, Forms::default().resident_max)?.ok_or_else(missing)?;
    let moment = Moment::now(&store)?.ok_or_else(missing)?;
    explain(&store, &space, &moment, &node, 100)?.ok_or_else(missing)?;
    Ok(started.elapsed())
}

fn load(directory: &Path) -> Result<Duration, DurableError> {
    let store = RocksStore::open(directory)?;
    let started = Instant::now();
    std::hint::black_box(Space::load(&store, SPACE)?);
    Ok(started.elapsed())
}

/// Measures working in pages.
pub fn budget(directory: &Path, rounds: u32, seed: u64) -> Result<Budget, DurableError> {
    let everything = Forms { resident_max: u32::MAX, ..Forms::default() };
    let (resident, resident_bytes) = work(directory, everything, rounds, seed)?;
    let budget_bytes = resident_bytes / 10;
    let little = Forms { resident_max: 0, memory_budget_bytes: budget_bytes, ..Forms::default() };
    let (paged, paged_bytes_max) = work(directory, little, rounds, !seed)?;
    Ok(Budget { resident_bytes, budget_bytes, resident, paged, paged_bytes_max })
}

fn work(directory: &Path, forms: Forms, rounds: u32, seed: u64) -> Result<(Spread, usize), DurableError> {
    let mut bed = Bed::open(directory, forms)?;
    let mut random = Random::new(seed);
    let (mut durations, mut bytes_max) = (Vec::new(), 0);
    for _ in 0..rounds {
        let event = retraction(bed.next, random.below(MILLION.retracted_sources()));
        let value = event.encode_to_vec();
        let started = Instant::now();
        bed.fold_value(SPACE, &value)?;
        bed.store()?;
        durations.push(started.elapsed());
        bed.fold(&reinstatement(bed.next, &event))?;
        bed.store()?;
        bed.partition.keep_within_budget();
        bytes_max = bytes_max.max(bed.partition.resident_bytes());
    }
    // The first has loaded the resident form.
    durations.remove(0);
    Ok((spread(durations), bytes_max))
}
