//! Table `times`. Key: log time in ms, as u64 with the sign bit turned so that it sorts. Value: the offset of the last
//! record of that log time, u64 big endian. A row for each ms in which there was a record.

use crate::{
    store::{Store, StoreError},
    tables::{Table, damaged},
};

/// The key of a log time.
pub fn key(log_time_ms: i64) -> Vec<u8> {
    (log_time_ms.cast_unsigned() ^ (1 << 63)).to_be_bytes().to_vec()
}

/// The value of an offset.
pub fn value(offset: u64) -> Vec<u8> {
    offset.to_be_bytes().to_vec()
}

/// The offset of the last record whose log time is at most this one; none if there is no such record.
pub fn last_offset_at(store: &impl Store, log_time_ms: i64) -> Result<Option<u64>, StoreError> {
    let found = store.last(Table::Times, b"", &key(log_time_ms))?;
    found
        .map(|(_, value)| {
            value.try_into().map(u64::from_be_bytes).map_err(|_| damaged(Table::Times, "an offset has another length"))
        })
        .transpose()
}
