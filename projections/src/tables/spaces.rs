//! Table `spaces`. Key: the space's name.

use crate::{
    store::{Read, Store, StoreError},
    tables::{SpaceNumber, Table, decode, read},
};

/// What is kept of a space as a whole.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// Its number.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// The number that the next node gets; so many have been named.
    #[prost(uint32, tag = "2")]
    pub nodes: u32,
    /// How many nodes have arrived.
    #[prost(uint32, tag = "3")]
    pub arrived: u32,
    /// The number that the next justification gets.
    #[prost(uint32, tag = "4")]
    pub justifications: u32,
    /// The number that the next source gets.
    #[prost(uint32, tag = "5")]
    pub sources: u32,
    /// The number that the next retraction gets.
    #[prost(uint32, tag = "6")]
    pub retractions: u32,
    /// The state digest, 16 bytes big endian.
    #[prost(bytes = "vec", tag = "7")]
    pub digest: Vec<u8>,
    /// One more than the offset of the last event that was applied to it; 0 if there is none.
    #[prost(uint64, tag = "8")]
    pub last_offset: u64,
    /// How many of its nodes are IN.
    #[prost(uint32, tag = "9")]
    pub nodes_in: u32,
    /// How many of its justifications have an id of their own.
    #[prost(uint32, tag = "10")]
    pub named_justifications: u32,
}

impl Row {
    /// Its number.
    pub fn space(&self) -> SpaceNumber {
        SpaceNumber(self.number)
    }

    /// How many nodes and justifications it has.
    pub fn items(&self) -> u64 {
        u64::from(self.nodes) + u64::from(self.justifications)
    }

    /// The state digest.
    pub fn digest(&self) -> u128 {
        self.digest.as_slice().try_into().map_or(0, u128::from_be_bytes)
    }

    /// Adds to the state digest.
    pub fn add_to_digest(&mut self, delta: u128) {
        self.digest = self.digest().wrapping_add(delta).to_be_bytes().to_vec();
    }
}

/// The row of a space.
pub fn get(store: &impl Read, name: &str) -> Result<Option<Row>, StoreError> {
    read(store, Table::Spaces, name.as_bytes())
}

/// Every space with its name, in order of names.
pub fn all(store: &impl Store) -> Result<Vec<(String, Row)>, StoreError> {
    let mut spaces = Vec::new();
    let mut failed = None;
    store.scan(Table::Spaces, b"", b"", &mut |key, value| {
        let row = decode(Table::Spaces, value);
        match (String::from_utf8(key.to_vec()), row) {
            (Ok(name), Ok(row)) => {
                spaces.push((name, row));
                std::ops::ControlFlow::Continue(())
            }
            (_, row) => {
                failed =
                    Some(row.err().unwrap_or_else(|| crate::tables::damaged(Table::Spaces, "a name is not UTF-8")));
                std::ops::ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(spaces), Err)
}
