//! Table `events`. Key: space | hash of the event id, 16 bytes.
//!
//! The hash is the start of BLAKE3 of the id. It lets a key have one length, and an id be forgotten while its use is not.

use recant_proto::v1::event::Body;

use crate::{
    justification::digest::first_half,
    tables::{SpaceNumber, of_space},
};

/// What became of an event id.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// Where the event lies.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
    /// What tells the event apart from another with its id, 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub fingerprint: Vec<u8>,
    /// Whether it was skipped, since its body is not known.
    #[prost(bool, tag = "3")]
    pub skipped: bool,
    /// One more than the number of the justification that has the event's id as its own; 0 if there is none.
    #[prost(uint32, tag = "4")]
    pub justification_plus_one: u32,
}

/// The hash of an event id.
pub fn id_hash(event_id: &str) -> [u8; 16] {
    first_half(&blake3::hash(event_id.as_bytes()))
}

/// The key of an event id.
pub fn key(space: SpaceNumber, event_id: &str) -> Vec<u8> {
    key_of_hash(space, &id_hash(event_id))
}

/// The same by the id's hash.
pub fn key_of_hash(space: SpaceNumber, id_hash: &[u8; 16]) -> Vec<u8> {
    [of_space(space).as_slice(), id_hash].concat()
}

/// The retraction that an event begins or ends; for `causes` and change records.
pub fn retraction_of<'a>(event_id: &'a str, body: &'a Body) -> &'a str {
    match body {
        Body::Retracted(retracted) if retracted.retraction.is_empty() => event_id,
        Body::Retracted(retracted) => &retracted.retraction,
        Body::Reinstated(reinstated) => &reinstated.retraction,
        _ => "",
    }
}
