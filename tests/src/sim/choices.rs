//! The one source of chance of a run: everything that is decided in it is drawn from here, in order.

use proptest::{
    prelude::Rng as _,
    test_runner::{RngAlgorithm, TestRng},
};

/// Draws numbers that follow from a seed alone.
pub struct Choices(TestRng);

impl Choices {
    /// Those of a seed.
    pub fn of(seed: u64) -> Choices {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Choices(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below another; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.any() % end.max(1)
    }

    /// A number from a range, both ends included.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// The index of one of so many.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several; none of none.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// The index of a weight, drawn as often as the weight says.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            match left.checked_sub(*weight) {
                None => return index,
                Some(rest) => left = rest,
            }
        }
        0
    }
}
