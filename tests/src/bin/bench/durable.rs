//! The same retractions as events, folded into a partition whose state lies in RocksDB: decoded, looked up by id, planned,
//! settled, made into the records of the change stream, and written with position and history in one batch.
//!
//! Three durations of each: folding, writing, and both. Folding includes what the heart measures.

use std::{path::Path, time::Instant};

use prost::Message as _;
use recant_processor::memory::Memory;
use recant_projections::{
    fold::{Fate, FoldError, Folded, Forms, Input, Partition},
    store::{StoreError, behind::WriteBehind, rocks::RocksStore},
};
use recant_proto::{
    position::Incarnation,
    v1::{Event, Reinstated, Retracted, Target, event::Body, target::What},
};

use crate::{
    heart::{Spread, spread},
    workload::{Random, Workload, event, source_id},
};

/// The space that all is in.
pub const SPACE: &str = "bench";

/// So many events a batch while the workload arrives.
const BATCH: u64 = 1_000;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// The engine failed.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// The log or its driver failed.
    #[error(transparent)]
    Drive(#[from] recant_processor::driver::DriveError),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] recant_eventlog::LogError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An event was not accepted: a fault of the benchmark, and no result.
    #[error("an event was {0:?}")]
    NotAccepted(Fate),
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// A retraction from its bytes to the disk.
    pub whole: Spread,
    /// Its folding.
    pub fold: Spread,
    /// Its writing.
    pub write: Spread,
    /// Rows in its batch.
    pub rows_median: usize,
}

/// A partition in RocksDB, and the next offset.
pub struct Bed {
    pub partition: Partition<WriteBehind>,
    pub next: u64,
}

impl Bed {
    /// Opens the state in a directory.
    pub fn open(directory: &Path, forms: Forms) -> Result<Bed, DurableError> {
        let memory = Memory::default();
        let store = RocksStore::open_sharing(directory, memory.of_state()).and_then(WriteBehind::new)?;
        let partition = Partition::open(store, Incarnation([7; 16]), 0)?.with_forms(forms);
        Ok(Bed { next: partition.next_offset(), partition })
    }

    /// Lets a workload arrive.
    pub fn arrive(&mut self, workload: &Workload, seed: u64) -> Result<(), DurableError> {
        let mut outcome = Ok(());
        workload.draw(seed, |drawn| {
            if outcome.is_ok() {
                let drawn = event(SPACE, self.next, &drawn);
                outcome = self.fold(&drawn).map(drop);
                if outcome.is_ok() && self.next.is_multiple_of(BATCH) {
                    outcome = self.store();
                }
            }
        });
        outcome?;
        self.store()
    }

    /// Folds an event, which must be accepted.
    pub fn fold(&mut self, event: &Event) -> Result<Folded, DurableError> {
        let value = event.encode_to_vec();
        self.fold_value(&event.space, &value)
    }

    /// The same from its bytes.
    pub fn fold_value(&mut self, space: &str, value: &[u8]) -> Result<Folded, DurableError> {
        let folded = self.partition.fold(&input(self.next, space, value))?;
        self.next += 1;
        accepted(folded)
    }

    /// Folds events from their bytes, as a driver does with a batch.
    pub fn fold_values(&mut self, space: &str, values: &[Vec<u8>]) -> Result<(), DurableError> {
        let inputs: Vec<_> = (self.next..).zip(values).map(|(offset, value)| input(offset, space, value)).collect();
        self.partition.fold_all(&inputs, &mut |_, _, folded| accepted(folded).map(drop))?;
        self.next += values.len() as u64;
        Ok(())
    }

    /// Writes the open batch.
    pub fn store(&mut self) -> Result<(), DurableError> {
        self.partition.store()?;
        Ok(self.partition.finish()?)
    }
}

fn input<'a>(offset: u64, space: &'a str, value: &'a [u8]) -> Input<'a> {
    Input { offset, append_time_ms: offset.cast_signed() / 10, key: space.as_bytes(), headers: &[], value }
}

fn accepted(folded: Folded) -> Result<Folded, DurableError> {
    match folded.fate {
        Fate::Accepted => Ok(folded),
        fate => Err(DurableError::NotAccepted(fate)),
    }
}

/// Retracts a whole source.
pub fn retraction(number: u64, source: u32) -> Event {
    let targets = vec![Target { what: Some(What::Source(source_id(source))), window: None }];
    event_of(number, Body::Retracted(Retracted { targets, ..Retracted::default() }))
}

/// Lifts the retraction of an event.
pub fn reinstatement(number: u64, retraction: &Event) -> Event {
    event_of(number, Body::Reinstated(Reinstated { retraction: retraction.id.clone(), ..Reinstated::default() }))
}

fn event_of(number: u64, body: Body) -> Event {
    Event { id: format!("e{number}"), space: SPACE.to_owned(), body: Some(body), ..Event::default() }
}

/// Measures one workload.
pub fn measure(workload: &Workload, rounds: u32, seed: u64) -> Result<Figures, DurableError> {
    let directory = tempfile::tempdir()?;
    let mut bed = Bed::open(directory.path(), Forms { resident_max: u32::MAX, ..Forms::default() })?;
    bed.arrive(workload, seed)?;
    let mut random = Random::new(!seed);
    let (mut fold, mut write, mut whole, mut rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let event = retraction(bed.next, random.below(workload.retracted_sources()));
        let value = event.encode_to_vec();
        let started = Instant::now();
        bed.fold_value(SPACE, &value)?;
        let folded = started.elapsed();
        rows.push(bed.partition.complete_batch().len());
        bed.store()?;
        let stored = started.elapsed();
        fold.push(folded);
        write.push(stored - folded);
        whole.push(stored);
        bed.fold(&reinstatement(bed.next, &event))?;
        bed.store()?;
    }
    rows.sort_unstable();
    let rows_median = rows.get(rows.len() / 2).copied().unwrap_or(0);
    Ok(Figures { whole: spread(whole), fold: spread(fold), write: spread(write), rows_median })
}
