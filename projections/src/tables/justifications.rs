//! Table `justifications`. Key: space | justification number. Never changes once written.

use recant_proto::v1::Rule;

use crate::{
    justification::graph::Justification,
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, damaged, numbered, read},
};

/// What a justification is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The node that it justifies, by its number.
    #[prost(uint32, tag = "2")]
    pub head: u32,
    /// Its premises, each once, in the order in which they were first given.
    #[prost(uint32, repeated, tag = "3")]
    pub premises: Vec<u32>,
    /// Who wrote it.
    #[prost(string, tag = "4")]
    pub agent: String,
    /// In which run.
    #[prost(string, tag = "5")]
    pub run: String,
    /// In which step.
    #[prost(string, tag = "6")]
    pub step: String,
    /// What made it.
    #[prost(message, optional, tag = "7")]
    pub rule: Option<Rule>,
    /// When the writer says that it happened.
    #[prost(string, tag = "8")]
    pub occurred_at: String,
    /// The offset of the event by which it arrived, and its log time.
    #[prost(uint64, tag = "9")]
    pub offset: u64,
    /// As above.
    #[prost(int64, tag = "10")]
    pub log_time_ms: i64,
    /// What it adds to the digest, 16 bytes big endian.
    #[prost(bytes = "vec", tag = "11")]
    pub commitment: Vec<u8>,
}

impl Row {
    /// The commitment.
    pub fn commitment(&self) -> Result<u128, StoreError> {
        let bytes = self.commitment.as_slice().try_into();
        bytes.map(u128::from_be_bytes).map_err(|_| damaged(Table::Justifications, "a commitment has another length"))
    }
}

/// The key of a justification.
pub fn key(space: SpaceNumber, justification: Justification) -> Vec<u8> {
    numbered(space, justification.number())
}

/// The row of a justification.
pub fn get(store: &impl Read, space: SpaceNumber, justification: Justification) -> Result<Row, StoreError> {
    read(store, Table::Justifications, &key(space, justification))?
        .ok_or_else(|| damaged(Table::Justifications, format!("justification {} is missing", justification.number())))
}
