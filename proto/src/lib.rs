//! The contract of recant: the messages, their two wire forms, what makes them valid, and the names that everyone shares.
//!
//! The .proto files beside this crate are the source of the types; `docs/contract.md` tells the rules in prose.

pub mod cloudevents;
pub mod id;
pub mod input;
mod json;
pub mod names;
pub mod position;
pub mod reject;
pub mod signing;
pub mod time;
pub mod validate;
pub mod wire;

/// The generated messages of `recant.v1`.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/recant.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/recant.v1.serde.rs"));
}
