//! Writes that are not yet in the store.
//!
//! Keys and values of a table lie one after the other in one piece of memory, which a batch keeps when it is cleared: a row
//! costs no allocation of its own, and none is left for the thread that writes it to free.

use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};
use std::hash::BuildHasher as _;

use crate::tables::Table;

/// So many bytes of a table are kept for the next batch: what thousands of events come to, and not what a huge cascade does.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Writes that are not yet in the store: the last one of each key counts.
#[derive(Debug, Clone)]
pub struct Batch {
    tables: Vec<TableRows>,
}

/// The rows of a table, in the order in which their keys were first written, which is mostly that of the keys.
#[derive(Debug, Clone, Default)]
struct TableRows {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// The places of rows, by their keys.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// Where a row lies among the bytes.
#[derive(Debug, Clone)]
struct Row {
    key: Range<usize>,
    /// None if the key is removed.
    value: Option<Range<usize>>,
}

impl TableRows {
    fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        let TableRows { bytes, rows, places, hasher } = self;
        let add = |bytes: &mut Vec<u8>, new: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(new);
            start..bytes.len()
        };
        let entry = places.entry(
            hasher.hash_one(key),
            |place| bytes[rows[*place as usize].key.clone()] == *key,
            |place| hasher.hash_one(&bytes[rows[*place as usize].key.clone()]),
        );
        match entry {
            Entry::Occupied(place) => {
                rows[*place.get() as usize].value = value.map(|value| add(bytes, value));
            }
            Entry::Vacant(place) => {
                // A batch of 2^32 rows does not fit into memory.
                place.insert(u32::try_from(rows.len()).unwrap_or(u32::MAX));
                let key = add(bytes, key);
                rows.push(Row { key, value: value.map(|value| add(bytes, value)) });
            }
        }
    }

    fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let is_it = |place: &u32| self.bytes[self.rows[*place as usize].key.clone()] == *key;
        let place = self.places.find(self.hasher.hash_one(key), is_it)?;
        Some(self.value(&self.rows[*place as usize]))
    }

    fn value(&self, row: &Row) -> Option<&[u8]> {
        row.value.clone().map(|at| &self.bytes[at])
    }

    fn rows(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.rows.iter().map(|row| (&self.bytes[row.key.clone()], self.value(row)))
    }

    fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            *self = TableRows::default();
        }
        self.bytes.clear();
        self.rows.clear();
        self.places.clear();
    }
}

impl Default for Batch {
    fn default() -> Self {
        Batch { tables: vec![TableRows::default(); Table::ALL.len()] }
    }
}

impl Batch {
    /// Puts a value.
    pub fn put(&mut self, table: Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.tables[table as usize].write(key.as_ref(), Some(value.as_ref()));
    }

    /// Removes a key.
    pub fn delete(&mut self, table: Table, key: impl AsRef<[u8]>) {
        self.tables[table as usize].write(key.as_ref(), None);
    }

    /// What the batch says of a key: nothing, that it is removed, or its value.
    pub fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        self.tables[table as usize].get(key)
    }

    /// The rows of a table whose keys begin with a prefix and that are put, in order of their bytes. Looks at every row of
    /// the table: for those that only segments write.
    pub fn put_under(&self, table: Table, prefix: &[u8]) -> Vec<(&[u8], &[u8])> {
        let under = self.tables[table as usize].rows().filter(|(key, _)| key.starts_with(prefix));
        let mut put: Vec<_> = under.filter_map(|(key, value)| Some((key, value?))).collect();
        put.sort_unstable();
        put
    }

    /// Every row, table by table.
    pub fn rows(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        self.tables().flat_map(|table| self.rows_of(table).map(move |(key, value)| (table, key, value)))
    }

    /// The tables that have rows.
    pub fn tables(&self) -> impl Iterator<Item = Table> {
        Table::ALL.iter().zip(&self.tables).filter(|(_, rows)| !rows.rows.is_empty()).map(|(table, _)| *table)
    }

    /// The rows of a table.
    pub fn rows_of(&self, table: Table) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.tables[table as usize].rows()
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.rows.len()).sum()
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(|table| table.rows.is_empty())
    }

    /// Forgets everything, and keeps its memory.
    pub fn clear(&mut self) {
        self.tables.iter_mut().for_each(TableRows::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Protects what a batch says of a key: the last word, in the place of the first, also when its memory is used again.
    #[test]
    fn the_last_word_of_a_key_counts() {
        let mut batch = Batch::default();
        for _ in 0..2 {
            for number in 0..1_000_u32 {
                batch.put(Table::Ids, number.to_be_bytes(), []);
            }
            batch.put(Table::Ids, 7_u32.to_be_bytes(), b"longer than before");
            batch.delete(Table::Ids, 8_u32.to_be_bytes());
            batch.put(Table::Spaces, b"other", b"table");
            assert_eq!(batch.len(), 1_001);
            assert_eq!(batch.get(Table::Ids, &7_u32.to_be_bytes()), Some(Some(b"longer than before".as_slice())));
            assert_eq!(batch.get(Table::Ids, &8_u32.to_be_bytes()), Some(None));
            assert_eq!(batch.get(Table::Ids, &9_u32.to_be_bytes()), Some(Some([].as_slice())));
            assert_eq!(batch.get(Table::Ids, b"other"), None, "of another table");
            let of_ids = batch.rows().filter(|(table, ..)| *table == Table::Ids).map(|(_, key, _)| key);
            assert!(of_ids.eq((0..1_000_u32).map(u32::to_be_bytes).collect::<Vec<_>>().iter().map(|key| &key[..])));
            batch.clear();
            assert!(batch.is_empty() && batch.get(Table::Ids, &7_u32.to_be_bytes()).is_none());
        }
    }
}
