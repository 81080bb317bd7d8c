//! Table `said`. Key: space | source number, u32 | segment, u32 | for what belongs to no segment
//! ([`super::segments::LATE`]) the node's number, u32. Value: observations of the source by the writers' clock: seconds, i64 |
//! nanoseconds, u32 | node number, u32; big endian.

use recant_proto::time::Instant;

use super::bytes::{Reader, Writer};
use crate::{
    justification::graph::Node,
    store::StoreError,
    tables::{SpaceNumber, Table, damaged, numbered, segments},
};

/// The prefix of all that a source said.
pub fn of_source(space: SpaceNumber, source: u32) -> Vec<u8> {
    numbered(space, source)
}

/// The key of a segment.
pub fn key(space: SpaceNumber, source: u32, segment: u32) -> Vec<u8> {
    [of_source(space, source).as_slice(), &segment.to_be_bytes()].concat()
}

/// The key of an observation that belongs to no segment.
pub fn late_key(space: SpaceNumber, source: u32, node: Node) -> Vec<u8> {
    [key(space, source, segments::LATE).as_slice(), &node.0.to_be_bytes()].concat()
}

/// Adds an observation to a value.
pub fn push(value: &mut Vec<u8>, observed: Instant, node: Node) {
    let mut writer = Writer(std::mem::take(value));
    writer.instant(observed);
    writer.number(node.0.to_be_bytes());
    *value = writer.0;
}

/// The observations of a value.
pub fn observations(value: &[u8], mut visit: impl FnMut(Instant, Node)) -> Result<(), StoreError> {
    let mut reader = Reader(value);
    while !reader.0.is_empty() {
        let entry = reader.instant().zip(reader.u32());
        let (observed, node) = entry.ok_or_else(|| damaged(Table::Said, "a row has another length"))?;
        visit(observed, Node(node));
    }
    Ok(())
}
