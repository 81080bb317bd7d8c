//! Table `ids`. Key: space | namespace, one byte | the id's bytes. Value: the number, u32 big endian.
//!
//! Keys are looked up whole, never by prefix: no id is a prefix of another.

use crate::{
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, damaged, of_space},
};

/// What an id names; each has its ids to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Namespace {
    /// Nodes, actions included.
    Node = b'n',
    /// Justifications.
    Justification = b'j',
    /// Sources.
    Source = b's',
    /// Retractions.
    Retraction = b'r',
}

/// The key of an id.
pub fn key(space: SpaceNumber, namespace: Namespace, id: &str) -> Vec<u8> {
    [of_space(space).as_slice(), &[namespace as u8], id.as_bytes()].concat()
}

/// The number of an id, if it has been named.
pub fn get(store: &impl Read, space: SpaceNumber, namespace: Namespace, id: &str) -> Result<Option<u32>, StoreError> {
    let value = store.read(Table::Ids, &key(space, namespace, id))?;
    value
        .map(|bytes| {
            bytes.try_into().map(u32::from_be_bytes).map_err(|_| damaged(Table::Ids, "a number has another length"))
        })
        .transpose()
}
