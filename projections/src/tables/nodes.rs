//! Table `nodes`. Key: space | node number. A node that has been named and has not arrived has its id alone.

use recant_proto::{
    id::Kind,
    time::{self, Instant},
    v1::{Content, Embedding, Literal},
};

use crate::{
    justification::graph::Node,
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, damaged, numbered, read},
};

/// What a node is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its kind as a number; 0 until it arrives.
    #[prost(uint32, tag = "2")]
    pub kind: u32,
    /// Its place in the order of arrival of its space, counted from 0.
    #[prost(uint32, tag = "3")]
    pub arrival: u32,
    /// The offset of the event by which it arrived, and its log time.
    #[prost(uint64, tag = "4")]
    pub offset: u64,
    /// As above.
    #[prost(int64, tag = "5")]
    pub log_time_ms: i64,
    /// Who wrote it.
    #[prost(string, tag = "6")]
    pub agent: String,
    /// In which run.
    #[prost(string, tag = "7")]
    pub run: String,
    /// In which step.
    #[prost(string, tag = "8")]
    pub step: String,
    /// When the writer says that it happened.
    #[prost(string, tag = "9")]
    pub occurred_at: String,
    /// The source of an observation, by its number; one more than it, 0 for others.
    #[prost(uint32, tag = "10")]
    pub source_plus_one: u32,
    /// When the source said it.
    #[prost(string, tag = "11")]
    pub observed_at: String,
    /// Its subject.
    #[prost(string, tag = "12")]
    pub subject: String,
    /// What it says.
    #[prost(message, optional, tag = "13")]
    pub content: Option<Content>,
    /// `affirms` or `denies`.
    #[prost(string, tag = "14")]
    pub polarity: String,
    /// Values in its content.
    #[prost(message, repeated, tag = "15")]
    pub literals: Vec<Literal>,
    /// Its attributes.
    #[prost(btree_map = "string, string", tag = "16")]
    pub attributes: std::collections::BTreeMap<String, String>,
    /// Its embedding.
    #[prost(message, optional, tag = "17")]
    pub embedding: Option<Embedding>,
    /// What it adds to the digest, 16 bytes big endian.
    #[prost(bytes = "vec", tag = "18")]
    pub commitment: Vec<u8>,
    /// The id of the event by which it arrived.
    #[prost(string, tag = "19")]
    pub event: String,
}

impl Row {
    /// Its kind, once it has arrived.
    pub fn kind(&self) -> Option<Kind> {
        u8::try_from(self.kind).ok().and_then(Kind::from_u8)
    }

    /// The number of its source.
    pub fn source(&self) -> Option<u32> {
        self.source_plus_one.checked_sub(1)
    }

    /// The commitment.
    pub fn commitment(&self) -> Result<u128, StoreError> {
        let bytes = self.commitment.as_slice().try_into();
        bytes.map(u128::from_be_bytes).map_err(|_| damaged(Table::Nodes, "a commitment has another length"))
    }

    /// Its time on the writers' clock: `observed_at`, else `occurred_at`, else the log's.
    pub fn observed_instant(&self) -> Result<Instant, StoreError> {
        instant([&self.observed_at, &self.occurred_at], self.log_time_ms)
    }
}

/// The first of the writers' times that is there, else the log's.
pub fn instant<const N: usize>(texts: [&str; N], log_time_ms: i64) -> Result<Instant, StoreError> {
    match texts.into_iter().find(|text| !text.is_empty()) {
        None => Ok(Instant::from_log_ms(log_time_ms)),
        Some(text) => time::parse("time", text).map_err(|error| damaged(Table::Nodes, error.to_string())),
    }
}

/// The key of a node.
pub fn key(space: SpaceNumber, node: Node) -> Vec<u8> {
    numbered(space, node.0)
}

/// The row of a node that has been named.
pub fn get(store: &impl Read, space: SpaceNumber, node: Node) -> Result<Row, StoreError> {
    read(store, Table::Nodes, &key(space, node))?
        .ok_or_else(|| damaged(Table::Nodes, format!("node {} is missing", node.0)))
}
