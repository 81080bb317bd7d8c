//! Table `causes`. Key: space | offset, u64. A row for each event that moved a standing other than by a birth IN.

use crate::{
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, of_space, read},
};

/// The event that caused a cascade.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// Its id.
    #[prost(string, tag = "1")]
    pub event: String,
    /// The name of its body.
    #[prost(string, tag = "2")]
    pub body: String,
    /// The retraction that it began or ended.
    #[prost(string, tag = "3")]
    pub retraction: String,
}

/// The key of an event.
pub fn key(space: SpaceNumber, offset: u64) -> Vec<u8> {
    [of_space(space).as_slice(), &offset.to_be_bytes()].concat()
}

/// The cause at an offset.
pub fn get(store: &impl Read, space: SpaceNumber, offset: u64) -> Result<Option<Row>, StoreError> {
    read(store, Table::Causes, &key(space, offset))
}
