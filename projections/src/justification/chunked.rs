//! An array that grows in chunks, so that an item never moves once its chunk is full.
//!
//! A `Vec` that grows copies everything: by twice as much, as is usual, half of it then stands empty; by an eighth, each item
//! is copied eight times into fresh pages, which took a fifth of an event's fold, and one event in many waits for all of it.

use std::ops::{Index, IndexMut};

/// Items of a full chunk: hundreds of kilobytes.
const CHUNK: usize = 1 << 12;

/// The first chunk grows up to that, since most spaces are small.
const FIRST_MIN: usize = 4;

/// An array, by numbers of 32 bits.
#[derive(Debug, Clone)]
pub(super) struct Chunked<T> {
    /// All but the last are full.
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new() }
    }
}

impl<T> Chunked<T> {
    /// How many items. A space holds fewer than 2^32 of anything: at 64 bytes a node it would need 256 GiB.
    pub fn len(&self) -> u32 {
        let Some((last, full)) = self.chunks.split_last() else { return 0 };
        u32::try_from(full.len() * CHUNK + last.len()).unwrap_or(u32::MAX)
    }

    /// Adds an item at the end.
    pub fn push(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => {
                if last.len() == last.capacity() {
                    last.reserve_exact((last.len() / 4).clamp(FIRST_MIN, CHUNK - last.len()));
                }
                last.push(item);
            }
            last => {
                let mut chunk = Vec::with_capacity(if last.is_none() { FIRST_MIN } else { CHUNK });
                chunk.push(item);
                if last.is_none() {
                    self.chunks.reserve_exact(1);
                }
                self.chunks.push(chunk);
            }
        }
    }

    /// The items from a number on, in order.
    pub fn iter_from(&self, first: u32) -> impl Iterator<Item = &T> {
        let (chunk, within) = place(first);
        let chunks = self.chunks.get(chunk..).unwrap_or_default();
        let skipped = move |at: usize| if at == 0 { within } else { 0 };
        chunks.iter().enumerate().flat_map(move |(at, chunk)| chunk.iter().skip(skipped(at)))
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        let Some((last, full)) = self.chunks.split_last() else { return 0 };
        (full.len() * CHUNK + last.capacity()) * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

fn place(number: u32) -> (usize, usize) {
    (number as usize / CHUNK, number as usize % CHUNK)
}

impl<T> Index<u32> for Chunked<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        let (chunk, within) = place(number);
        &self.chunks[chunk][within]
    }
}

impl<T> IndexMut<u32> for Chunked<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        let (chunk, within) = place(number);
        &mut self.chunks[chunk][within]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Protects every item at its number, from any number on, also at the edges of chunks.
    #[test]
    fn items_are_found_by_their_numbers() {
        let mut array = Chunked::default();
        for number in 0..3 * CHUNK as u32 + 5 {
            assert_eq!(array.len(), number);
            assert_eq!(array.iter_from(number).next(), None);
            array.push(number);
            assert!(array.bytes() >= 4 * array.len() as usize);
        }
        array[CHUNK as u32] += 1;
        assert_eq!((array[CHUNK as u32 - 1], array[CHUNK as u32]), (CHUNK as u32 - 1, CHUNK as u32 + 1));
        array[CHUNK as u32] -= 1;
        for first in [0, 1, CHUNK as u32 - 1, CHUNK as u32, 3 * CHUNK as u32 + 4, u32::MAX] {
            assert!(array.iter_from(first).copied().eq(first..array.len()), "from {first}");
        }
    }
}
