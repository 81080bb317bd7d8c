//! Table `node_states`. Key: space | node number. Value, 25 bytes:
//! standing, u8 | rank, u64 | home, u32 | one more than the support's number or 0, u32 | covers, u32 | one more than the
//! number of its newest justification or 0, u32; big endian.
//!
//! Written with a segment ([`super::segments`]) for the nodes that have changed since the last one; what changed after that
//! is in [`super::moves`], and a node that is in neither is as it was born ([`super::nodes`]). The counts of the engine
//! follow from these and the edges.

use recant_proto::id::Standing;

use crate::{
    justification::graph::{Justification, Node, NodeState},
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, damaged, numbered},
};

/// The length of a row.
pub const BYTES: usize = 25;

/// The part of a node's state that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its status and why.
    pub standing: Standing,
    /// Its rank.
    pub rank: u64,
    /// Where its rank returns to.
    pub home: u32,
    /// What it stands on.
    pub support: Option<Justification>,
    /// By how many targets it is covered.
    pub covers: u32,
    /// Its newest justification; the older ones follow from there.
    pub newest_justification: Option<Justification>,
}

impl Row {
    /// The stored part of a state.
    pub fn of(state: &NodeState) -> Row {
        Row {
            standing: state.standing,
            rank: state.rank,
            home: state.home,
            support: state.support,
            covers: state.covers,
            newest_justification: state.newest_justification,
        }
    }

    /// The row of a node that has been named, and of which nothing else is known.
    pub fn named(node: Node) -> Row {
        Row::of(&NodeState::named(node))
    }

    /// Makes it the stored part of a state. A node is IN if it has arrived and its standing says so.
    pub fn put_into(&self, state: &mut NodeState) {
        state.standing = self.standing;
        state.is_in = state.arrival.is_some() && self.standing.is_in();
        state.rank = self.rank;
        state.home = self.home;
        state.support = self.support;
        state.covers = self.covers;
        state.newest_justification = self.newest_justification;
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let support = self.support.map_or(0, |support| support.number() + 1);
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(self.standing as u8);
        bytes.extend(self.rank.to_be_bytes());
        bytes.extend(self.home.to_be_bytes());
        bytes.extend(support.to_be_bytes());
        bytes.extend(self.covers.to_be_bytes());
        bytes.extend(self.newest_justification.map_or(0, |newest| newest.number() + 1).to_be_bytes());
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Row, StoreError> {
        let bytes: &[u8; BYTES] = bytes
            .try_into()
            .map_err(|_| damaged(Table::NodeStates, format!("{} bytes instead of {BYTES}", bytes.len())))?;
        let word = |start: usize| u32::from_be_bytes(std::array::from_fn(|index| bytes[start + index]));
        let standing = Standing::from_u8(bytes[0]).ok_or_else(|| damaged(Table::NodeStates, "no such standing"))?;
        let rank = u64::from(word(1)) << 32 | u64::from(word(5));
        let support = word(13).checked_sub(1).map(Justification::new);
        let newest_justification = word(21).checked_sub(1).map(Justification::new);
        Ok(Row { standing, rank, home: word(9), support, covers: word(17), newest_justification })
    }
}

/// The key of a node.
pub fn key(space: SpaceNumber, node: Node) -> Vec<u8> {
    numbered(space, node.0)
}

/// The stored state of a node, if it is not as it was born.
pub fn get(store: &impl Read, space: SpaceNumber, node: Node) -> Result<Option<Row>, StoreError> {
    store.read(Table::NodeStates, &key(space, node))?.map(|bytes| Row::decode(&bytes)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back() {
        for standing in Standing::ALL {
            let row = Row {
                standing,
                rank: 1 << 33 | 5,
                home: 7,
                support: Some(Justification::new(0)),
                covers: 2,
                newest_justification: None,
            };
            assert_eq!(Row::decode(&row.encode()).unwrap(), row);
        }
        assert!(Row::decode(&[0; 24]).is_err());
        assert!(Row::decode(&[9; 25]).is_err());
    }
}
