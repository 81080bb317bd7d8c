//! Partitions at once, as many at a time as there are cores.

use std::{
    num::NonZero,
    sync::{Mutex, PoisonError},
};

/// On how many of so many partitions work is done at the same time.
pub fn workers(partitions: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    partitions.min(cores).max(1)
}

/// Does some work for each item, and gives the results in order of the items. After a failure nothing further is begun; the
/// first failure, in that order, is told.
pub fn each<I: Send, T: Send, E: Send>(items: Vec<I>, work: impl Fn(I) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    let threads = workers(items.len());
    let queue = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((place, item)) = next else { return };
                    let result = work(item);
                    if result.is_err() {
                        queue.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
                    }
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results are told by item, whichever was done first.
    #[test]
    fn every_item_has_its_result_in_order() {
        let squares: Result<Vec<u32>, ()> = each((0..100).collect(), |number: u32| Ok(number * number));
        assert_eq!(squares.unwrap(), (0..100).map(|number| number * number).collect::<Vec<_>>());
        assert_eq!(each::<(), (), ()>(vec![], |()| Err(())), Ok(vec![]));
    }

    #[test]
    fn the_first_failure_is_told() {
        let work = |number: u32| if number.is_multiple_of(2) { Ok(number) } else { Err(number) };
        assert_eq!(each((0..100).collect(), work), Err(1));
    }
}
