//! Table `partition`. Key: the name of the row. One row, `state`; it is written in every batch, so that state and position
//! never part.

use crate::{
    store::{Read, StoreError},
    tables::{Table, read},
};

/// The version of the tables' layout. A directory of a newer one is refused.
pub const FORMAT_VERSION: u32 = 3;

/// The version of what `fold` does with an event. The state of another one is refused.
pub const LOGIC_VERSION: u32 = 1;

/// The key of the only row.
pub const KEY: &[u8] = b"state";

/// Where the partition stands.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// [`FORMAT_VERSION`] when it was created.
    #[prost(uint32, tag = "1")]
    pub format_version: u32,
    /// The logic version that made it.
    #[prost(uint32, tag = "2")]
    pub logic_version: u32,
    /// The log's incarnation, 16 bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub incarnation: Vec<u8>,
    /// Which partition.
    #[prost(uint32, tag = "4")]
    pub partition: u32,
    /// The offset of the first event that is not applied.
    #[prost(uint64, tag = "5")]
    pub next_offset: u64,
    /// The running maximum of the records' append times, in ms.
    #[prost(int64, tag = "6")]
    pub log_time_ms: i64,
    /// The hash of the last record applied, 16 bytes.
    #[prost(bytes = "vec", tag = "7")]
    pub last_record_hash: Vec<u8>,
    /// The running hash over all outputs, 32 bytes.
    #[prost(bytes = "vec", tag = "8")]
    pub outputs_hash: Vec<u8>,
    /// The number that the next space gets.
    #[prost(uint32, tag = "9")]
    pub next_space: u32,
    /// The limits of `LogCreated`.
    #[prost(uint32, tag = "10")]
    pub max_event_bytes: u32,
    /// As above.
    #[prost(uint32, tag = "11")]
    pub max_text_bytes: u32,
    /// As above.
    #[prost(uint32, tag = "12")]
    pub max_premises: u32,
    /// The key of commitments, 32 bytes, or empty for the published one.
    #[prost(bytes = "vec", tag = "13")]
    pub commitment_key: Vec<u8>,
    /// How many partitions the log has; 0 until `LogCreated` was applied.
    #[prost(uint32, tag = "14")]
    pub partitions: u32,
    /// The logic version that is in force in the log at this position, while that is an older one; else 0.
    #[prost(uint32, tag = "15")]
    pub older_in_force: u32,
    /// Whether the writers of the log sign what takes back, gives back or vouches.
    #[prost(bool, tag = "16")]
    pub writers_sign: bool,
    /// The keys of such a log, in the order of their enrolment.
    #[prost(message, repeated, tag = "17")]
    pub keys: Vec<EnrolledKey>,
}

/// A key that signs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnrolledKey {
    /// Its id.
    #[prost(string, tag = "1")]
    pub key_id: String,
    /// 32 bytes, Ed25519.
    #[prost(bytes = "vec", tag = "2")]
    pub public_key: Vec<u8>,
    /// Whether it enrols and revokes others.
    #[prost(bool, tag = "3")]
    pub is_operator: bool,
    /// Whether it counts no more.
    #[prost(bool, tag = "4")]
    pub is_revoked: bool,
}

impl Row {
    /// The logic version that is in force in the log at this position.
    pub fn in_force(&self) -> u32 {
        if self.older_in_force == 0 { self.logic_version } else { self.older_in_force }
    }
}

/// The row, if the partition has state.
pub fn get(store: &impl Read) -> Result<Option<Row>, StoreError> {
    read(store, Table::Partition, KEY)
}
