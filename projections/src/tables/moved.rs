//! Table `moved`. Key: space | block of 1,024 nodes, u32 | segment, u32 ([`super::segments`]). Value: for each move of one of these
//! nodes' standings, in order of nodes and then of the log: the node's number within the block, u16 | the offset of the
//! event, u64; big endian. What moved is in [`super::moves`].

pub use super::blocks::{block, key, of_block};
use super::{Table, blocks};
use crate::{justification::graph::Node, store::StoreError};

/// Adds a move to the value of its block.
pub fn push(value: &mut Vec<u8>, node: Node, offset: u64) {
    blocks::push(value, node, &offset.to_be_bytes());
}

/// The offsets at which a node moved, by a value, oldest first.
pub fn of_node(value: &[u8], node: Node, offsets: &mut Vec<u64>) -> Result<(), StoreError> {
    blocks::of_node(Table::Moved, value, node, |[_, _, offset @ ..]: &[u8; 10]| {
        offsets.push(u64::from_be_bytes(*offset));
    })
}
