//! A queue that gives the lowest first. What is put in before anything is taken is sorted once, which is several times
//! quicker than a heap; a heap holds only what comes later.

use std::{cmp::Reverse, collections::BinaryHeap};

/// A queue of things, the lowest first.
#[derive(Debug, Clone)]
pub struct Lowest<T: Ord> {
    /// What was there when the first was taken, the lowest last.
    first: Vec<Reverse<T>>,
    later: BinaryHeap<Reverse<T>>,
    is_sorted: bool,
}

// By hand: a derived one would ask for a default of T.
impl<T: Ord> Default for Lowest<T> {
    fn default() -> Self {
        Lowest { first: Vec::new(), later: BinaryHeap::new(), is_sorted: false }
    }
}

impl<T: Ord> Lowest<T> {
    /// Puts one in.
    #[inline]
    pub fn push(&mut self, item: T) {
        if self.is_sorted {
            self.later.push(Reverse(item));
        } else {
            self.first.push(Reverse(item));
        }
    }

    /// Takes the lowest. When there is none left, the queue is as new.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if !self.is_sorted {
            self.first.sort_unstable();
            self.is_sorted = true;
        }
        // The greater of two reversed ones is the lower, and any is greater than none.
        let lowest = if self.later.peek() > self.first.last() { self.later.pop() } else { self.first.pop() };
        self.is_sorted = lowest.is_some();
        lowest.map(|Reverse(item)| item)
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        (self.first.capacity() + self.later.capacity()) * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::Lowest;

    /// Protects the order of both halves together, and that an emptied queue serves again.
    #[test]
    fn the_lowest_comes_first_whenever_it_was_put_in() {
        let mut queue = Lowest::default();
        for round in 0..2 {
            for item in [5, 1, 9, 3] {
                queue.push(item + round);
            }
            assert_eq!(queue.pop(), Some(1 + round));
            queue.push(4 + round);
            queue.push(round);
            queue.push(10 + round);
            let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            assert_eq!(rest, [0, 3, 4, 5, 9, 10].map(|item| item + round));
        }
    }
}
