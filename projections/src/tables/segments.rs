//! Table `segments`. Key: space. How far [`super::uses`], [`super::written`], [`super::said`], [`super::moved`] and
//! [`super::node_states`] go.
//!
//! The first four say which justifications need a node, what an agent wrote, what a source said and when a node moved; the
//! last the states of nodes. A row for each of those facts would cost more writes than everything else that an event
//! writes. So facts are gathered, and once there are many they are written together: a segment. Its rows are never
//! changed, but for those of states. What came after the last segment (its numbers are the ones given here and above) is
//! found in the rows of nodes, justifications and [`super::moves`].

use crate::{
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, of_space, read},
};

/// How far the segments of a space go.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Row {
    /// How many segments there are.
    #[prost(uint32, tag = "1")]
    pub count: u32,
    /// Nodes below this number are in them, those excepted that arrived later ([`super::said`], [`super::written`]).
    #[prost(uint32, tag = "2")]
    pub nodes: u32,
    /// Justifications below this number are in them.
    #[prost(uint32, tag = "3")]
    pub justifications: u32,
    /// What events below this offset did is in them.
    #[prost(uint64, tag = "4")]
    pub offset: u64,
}

/// The segment of what belongs to no segment, since it was named before the last one was written and arrived after it.
pub const LATE: u32 = u32::MAX;

/// The key of a space.
pub fn key(space: SpaceNumber) -> Vec<u8> {
    of_space(space).to_vec()
}

/// How far the segments of a space go.
pub fn get(store: &impl Read, space: SpaceNumber) -> Result<Row, StoreError> {
    Ok(read(store, Table::Segments, &key(space))?.unwrap_or_default())
}
