//! Facts about nodes, kept for 1,024 nodes together: a row has entries of one length, in order of nodes and then of the
//! fact, each of which begins with the node's number within its block, u16 big endian.

use super::{SpaceNumber, Table, damaged, numbered};
use crate::{justification::graph::Node, store::StoreError};

const BLOCK_BITS: u32 = 10;

/// The block of a node.
pub fn block(node: Node) -> u32 {
    node.0 >> BLOCK_BITS
}

fn within(node: Node) -> [u8; 2] {
    ((node.0 & ((1 << BLOCK_BITS) - 1)) as u16).to_be_bytes()
}

/// The prefix of a block's rows.
pub fn of_block(space: SpaceNumber, block: u32) -> Vec<u8> {
    numbered(space, block)
}

/// The key of a block in a segment.
pub fn key(space: SpaceNumber, block: u32, segment: u32) -> Vec<u8> {
    [of_block(space, block).as_slice(), &segment.to_be_bytes()].concat()
}

/// Adds a fact about a node to the value of its block.
pub(super) fn push(value: &mut Vec<u8>, node: Node, fact: &[u8]) {
    value.extend(within(node));
    value.extend(fact);
}

/// Visits the facts about a node in a value with entries of `N` bytes, the node included.
pub(super) fn of_node<const N: usize>(
    table: Table,
    value: &[u8],
    node: Node,
    visit: impl FnMut(&[u8; N]),
) -> Result<(), StoreError> {
    let (entries, rest): (&[[u8; N]], &[u8]) = value.as_chunks();
    if !rest.is_empty() {
        return Err(damaged(table, "a row has another length"));
    }
    let within = within(node);
    let start = entries.partition_point(|entry| entry[..2] < within[..]);
    entries[start..].iter().take_while(|entry| entry[..2] == within[..]).for_each(visit);
    Ok(())
}
