//! Table `retractions`. Key: space | retraction number. Kept when lifted: a lifted retraction's id is spent.

use recant_proto::v1::Target;

use crate::{
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, damaged, decode, numbered, read},
};

/// What is known of a retraction.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Where it began; absent for one that was lifted before it arrived, and has not arrived.
    #[prost(message, optional, tag = "2")]
    pub began: Option<Moment>,
    /// Where it ended.
    #[prost(message, optional, tag = "3")]
    pub lifted: Option<Moment>,
    /// What it covers.
    #[prost(message, repeated, tag = "4")]
    pub targets: Vec<Target>,
    /// Why.
    #[prost(string, tag = "5")]
    pub reason: String,
    /// Who asked for it.
    #[prost(string, tag = "6")]
    pub by: String,
    /// The retractions that it lifted.
    #[prost(string, repeated, tag = "7")]
    pub replaces: Vec<String>,
    /// Who lifted it, and why.
    #[prost(string, tag = "8")]
    pub lifted_by: String,
    /// As above.
    #[prost(string, tag = "9")]
    pub lifted_reason: String,
}

/// A place in the log.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Moment {
    /// The event's id.
    #[prost(string, tag = "1")]
    pub event: String,
    /// Its offset.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// Its log time.
    #[prost(int64, tag = "3")]
    pub log_time_ms: i64,
}

impl Row {
    /// Whether it stands.
    pub fn stands(&self) -> bool {
        self.began.is_some() && self.lifted.is_none()
    }
}

/// When a retraction stood. What else its row says is passed over: a question reads the row of each retraction that ever was.
#[derive(Clone, PartialEq, prost::Message)]
struct Stood {
    #[prost(message, optional, tag = "2")]
    began: Option<Moment>,
    #[prost(message, optional, tag = "3")]
    lifted: Option<Moment>,
}

/// The row of a retraction, if it stood after the event at an offset.
pub fn if_stood_at(value: &[u8], offset: u64) -> Result<Option<Row>, StoreError> {
    let at_most = |moment: &Option<Moment>| moment.as_ref().is_some_and(|moment| moment.offset <= offset);
    let stood: Stood = decode(Table::Retractions, value)?;
    if at_most(&stood.began) && !at_most(&stood.lifted) {
        decode(Table::Retractions, value).map(Some)
    } else {
        Ok(None)
    }
}

/// The key of a retraction.
pub fn key(space: SpaceNumber, retraction: u32) -> Vec<u8> {
    numbered(space, retraction)
}

/// The row of a retraction that has been named.
pub fn get(store: &impl Read, space: SpaceNumber, retraction: u32) -> Result<Row, StoreError> {
    read(store, Table::Retractions, &key(space, retraction))?
        .ok_or_else(|| damaged(Table::Retractions, format!("retraction {retraction} is missing")))
}
