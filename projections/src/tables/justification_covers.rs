//! Table `justification_covers`. Key: space | justification number. Value: covers, u32 big endian; absent for none.

use crate::{
    justification::graph::Justification,
    store::StoreError,
    tables::{SpaceNumber, Table, damaged, numbered},
};

/// The key of a justification.
pub fn key(space: SpaceNumber, justification: Justification) -> Vec<u8> {
    numbered(space, justification.number())
}

/// The value for so many covers; none is not stored.
pub fn value(covers: u32) -> Option<Vec<u8>> {
    (covers > 0).then(|| covers.to_be_bytes().to_vec())
}

/// The covers of a value.
pub fn covers(value: &[u8]) -> Result<u32, StoreError> {
    value
        .try_into()
        .map(u32::from_be_bytes)
        .map_err(|_| damaged(Table::JustificationCovers, "a count has another length"))
}
