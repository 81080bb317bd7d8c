//! Table `history`. Key: space | node number | offset, u64. A row for each event that moved a node's standing, its birth
//! included; between two rows it did not move. Value: standing, u8 | log time in ms, i64 big endian.

use recant_proto::id::Standing;

use crate::{
    justification::graph::Node,
    store::StoreError,
    tables::{SpaceNumber, Table, damaged, numbered},
};

/// A standing, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The offset of the event that brought it about.
    pub offset: u64,
    /// The standing.
    pub standing: Standing,
    /// The event's log time.
    pub log_time_ms: i64,
}

/// The prefix of a node's rows.
pub fn of_node(space: SpaceNumber, node: Node) -> Vec<u8> {
    numbered(space, node.0)
}

/// The key of a row.
pub fn key(space: SpaceNumber, node: Node, offset: u64) -> Vec<u8> {
    [of_node(space, node).as_slice(), &offset.to_be_bytes()].concat()
}

/// The value of a row.
pub fn value(standing: Standing, log_time_ms: i64) -> Vec<u8> {
    [&[standing as u8], log_time_ms.to_be_bytes().as_slice()].concat()
}

/// A row.
pub fn decode(key: &[u8], value: &[u8]) -> Result<(Node, Entry), StoreError> {
    let wrong = || damaged(Table::History, "a row has another length");
    let node = Node(crate::tables::number_of(Table::History, key)?);
    let offset = key.get(8..).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes).ok_or_else(wrong)?;
    let (standing, time) = value.split_first().ok_or_else(wrong)?;
    let standing = Standing::from_u8(*standing).ok_or_else(|| damaged(Table::History, "no such standing"))?;
    let log_time_ms = time.try_into().map(i64::from_be_bytes).map_err(|_| wrong())?;
    Ok((node, Entry { offset, standing, log_time_ms }))
}
