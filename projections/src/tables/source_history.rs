//! Table `source_history`. Key: space | source number, u32 | offset, u64. Value: what was known of the source from the event at
//! the offset on, as in [`super::sources`], without the number of observations. A row for each event that changed it:
//! those that declare it, and the first that observes something from it or says its kind.

use crate::{
    store::{Store, StoreError},
    tables::{SpaceNumber, Table, decode, numbered, sources},
};

/// The key of what an event changed.
pub fn key(space: SpaceNumber, source: u32, offset: u64) -> Vec<u8> {
    [numbered(space, source).as_slice(), &offset.to_be_bytes()].concat()
}

/// What is kept of a source's row; none if an event left that as it was.
pub fn changed(before: &sources::Row, after: &sources::Row) -> Option<sources::Row> {
    let kept = |row: &sources::Row| sources::Row { observations: 0, ..row.clone() };
    let after = kept(after);
    (kept(before) != after).then_some(after)
}

/// What was known of a source after the event at an offset; none if it did not exist.
pub fn as_of(
    store: &impl Store,
    space: SpaceNumber,
    source: u32,
    offset: u64,
) -> Result<Option<sources::Row>, StoreError> {
    let found = store.last(Table::SourceHistory, &numbered(space, source), &key(space, source, offset))?;
    found.map(|(_, value)| decode(Table::SourceHistory, &value)).transpose()
}
