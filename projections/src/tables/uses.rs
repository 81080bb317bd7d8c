//! Table `uses`. Key: space | block of 1,024 nodes, u32 | segment, u32 ([`super::segments`]). Value: for each use of one of these
//! nodes, in order of nodes and then of justifications: the node's number within the block, u16 | the justification's
//! number, u32; big endian.

pub use super::blocks::{block, key, of_block};
use super::{Table, blocks};
use crate::{
    justification::graph::{Justification, Node},
    store::StoreError,
};

/// Adds a use to the value of its block.
pub fn push(value: &mut Vec<u8>, node: Node, justification: Justification) {
    blocks::push(value, node, &justification.number().to_be_bytes());
}

/// The uses of a node in a value, oldest first.
pub fn of_node(value: &[u8], node: Node, uses: &mut Vec<Justification>) -> Result<(), StoreError> {
    blocks::of_node(Table::Uses, value, node, |[_, _, number @ ..]: &[u8; 6]| {
        uses.push(Justification::new(u32::from_be_bytes(*number)));
    })
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
