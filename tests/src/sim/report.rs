//! Many runs, on several threads, each run on one.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use super::{Figures, Plant, Run, run};

/// What many runs came to.
pub struct Report {
    /// Sums.
    pub figures: Figures,
    /// The hash over the traces of all seeds in their order.
    pub trace: String,
    /// Runs in which something is wrong: the one with the lowest seed of those that were found before all stopped.
    pub wrong: Option<Run>,
}

/// Runs so many seeds from the first on. Stops at what is wrong.
pub fn many(first_seed: u64, seeds: u64, plant: Option<Plant>) -> Report {
    let next = AtomicU64::new(0);
    let wrong: Mutex<Option<Run>> = Mutex::new(None);
    let traces = Mutex::new(BTreeMap::new());
    let sums = Mutex::new(Figures::default());
    let work = || {
        while lock(&wrong).is_none() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= seeds {
                return;
            }
            let run = run(first_seed.wrapping_add(number), plant);
            lock(&sums).add(&run.figures);
            lock(&traces).insert(number, run.trace);
            if run.wrong.is_some() {
                let mut wrong = lock(&wrong);
                if wrong.as_ref().is_none_or(|known| run.seed < known.seed) {
                    *wrong = Some(run);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut hasher = blake3::Hasher::new();
    for trace in lock(&traces).values() {
        hasher.update(trace);
    }
    let figures = *lock(&sums);
    let wrong = lock(&wrong).take();
    Report { figures, trace: hasher.finalize().to_hex()[..16].to_owned(), wrong }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Report {
    /// What is wrong, the end of its trace, and how to see it again.
    pub fn failure(&self) -> Option<String> {
        let run = self.wrong.as_ref()?;
        let mut text = String::new();
        for line in &run.tail {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {line}");
        }
        let _ = write!(
            text,
            "seed {}: {}\n\nAgain: make sim SEEDS=1 FIRST={}",
            run.seed,
            run.wrong.as_deref().unwrap_or_default(),
            run.seed
        );
        Some(text)
    }
}
