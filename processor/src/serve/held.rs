//! The states that this process holds, for those who read them: of the partitions that it serves, and of those that it stands by for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use recant_projections::store::rocks::Reader;

/// A state is given up only once nobody reads it, so that it can be opened anew; reads are short, and waited for at most so long.
const READS_WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The states, by partition.
#[derive(Clone, Default)]
pub struct Held {
    readers: Arc<Mutex<BTreeMap<u32, Reader>>>,
    served: Arc<Mutex<BTreeSet<u32>>>,
}

impl Held {
    /// The state of a partition, if it is here.
    pub fn reader(&self, partition: u32) -> Option<Reader> {
        self.lock().get(&partition).cloned()
    }

    /// Whether this process serves a partition, and does not only stand by for it.
    pub fn serves(&self, partition: u32) -> bool {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).contains(&partition)
    }

    /// Holds the state of a partition that is served, until what is given is dropped.
    pub(super) fn hold_served(&self, partition: u32, reader: Reader) -> Holding {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).insert(partition);
        self.hold(partition, reader)
    }

    /// Holds a state until what is given is dropped, which is to be before the state is.
    pub(super) fn hold(&self, partition: u32, reader: Reader) -> Holding {
        self.lock().insert(partition, reader.clone());
        Holding { held: self.clone(), partition, reader }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Reader>> {
        // Nothing panics while it holds the lock.
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A state that is held.
pub(super) struct Holding {
    held: Held,
    partition: u32,
    reader: Reader,
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.held.served.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.partition);
        drop(self.held.lock().remove(&self.partition));
        let begun = Instant::now();
        while self.reader.is_shared() && begun.elapsed() < READS_WAIT_MAX {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
