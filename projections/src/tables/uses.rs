//! Table `uses`. Key: space | block of 1,024 nodes, u32 | segment, u32. Value: for each use of one of these nodes, in order of
//! nodes and then of justifications: the node's number within the block, u16 | the justification's number, u32; big endian.

use crate::{
    justification::graph::{Justification, Node},
    store::StoreError,
    tables::{SpaceNumber, Table, damaged, numbered},
};

const BLOCK_BITS: u32 = 10;
const ENTRY_BYTES: usize = 6;

/// The block of a node.
pub fn block(node: Node) -> u32 {
    node.0 >> BLOCK_BITS
}

/// The prefix of a block's rows.
pub fn of_block(space: SpaceNumber, block: u32) -> Vec<u8> {
    numbered(space, block)
}

/// The key of a block in a segment.
pub fn key(space: SpaceNumber, block: u32, segment: u32) -> Vec<u8> {
    [of_block(space, block).as_slice(), &segment.to_be_bytes()].concat()
}

/// Adds a use to the value of its block.
pub fn push(value: &mut Vec<u8>, node: Node, justification: Justification) {
    value.extend(((node.0 & ((1 << BLOCK_BITS) - 1)) as u16).to_be_bytes());
    value.extend(justification.number().to_be_bytes());
}

/// The uses of a node in a value, oldest first.
pub fn of_node(value: &[u8], node: Node, uses: &mut Vec<Justification>) -> Result<(), StoreError> {
    let (entries, rest): (&[[u8; ENTRY_BYTES]], &[u8]) = value.as_chunks();
    if !rest.is_empty() {
        return Err(damaged(Table::Uses, "a row has another length"));
    }
    let within = ((node.0 & ((1 << BLOCK_BITS) - 1)) as u16).to_be_bytes();
    let start = entries.partition_point(|entry| entry[..2] < within[..]);
    let of_node = entries[start..].iter().take_while(|entry| entry[..2] == within[..]);
    uses.extend(of_node.map(|[_, _, number @ ..]| Justification::new(u32::from_be_bytes(*number))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gives_each_node_its_uses() {
        let mut value = Vec::new();
        for (node, justification) in [(1024, 7), (1026, 1), (1026, 9), (2047, 3)] {
            push(&mut value, Node(node), Justification::new(justification));
        }
        let of = |node| {
            let mut uses = Vec::new();
            of_node(&value, Node(node), &mut uses).unwrap();
            uses.iter().map(|justification| justification.number()).collect::<Vec<_>>()
        };
        assert_eq!((of(1024), of(1025), of(1026), of(2047)), (vec![7], vec![], vec![1, 9], vec![3]));
        assert!(of_node(&value[1..], Node(1024), &mut Vec::new()).is_err());
    }
}
