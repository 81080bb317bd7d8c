//! Table `written`. Key: space | agent, 16 bytes | run, 16 bytes | segment, u32 | for what belongs to no segment
//! ([`super::segments::LATE`]) its code, u32. Agent and run stand as the start of the BLAKE3 hash of their ids, so that no
//! id is a prefix of another. Value: codes of items (see [`ItemCode`]) in the order of the log, u32 big endian each.

use crate::{
    justification::listed::ItemCode,
    store::StoreError,
    tables::{SpaceNumber, Table, damaged, of_space, segments},
};

/// An agent and a run, as they stand in keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer([u8; 32]);

impl Writer {
    /// An agent in a run.
    pub fn new(agent: &str, run: &str) -> Writer {
        let mut hashes = [0; 32];
        hashes[..16].copy_from_slice(&blake3::hash(agent.as_bytes()).as_bytes()[..16]);
        hashes[16..].copy_from_slice(&blake3::hash(run.as_bytes()).as_bytes()[..16]);
        Writer(hashes)
    }

    /// The first of all runs of its agent.
    pub fn first_of_agent(&self) -> Writer {
        let mut first = [0; 32];
        first[..16].copy_from_slice(&self.0[..16]);
        Writer(first)
    }

    /// Whether it is the agent of another, in whatever run.
    pub fn is_agent_of(&self, other: &Writer) -> bool {
        self.0[..16] == other.0[..16]
    }
}

/// The prefix of all that an agent wrote, in a run or in all.
pub fn of_agent(space: SpaceNumber, agent: &str, run: Option<&str>) -> Vec<u8> {
    let writer = Writer::new(agent, run.unwrap_or_default());
    let hashes = if run.is_some() { &writer.0[..] } else { &writer.0[..16] };
    [of_space(space).as_slice(), hashes].concat()
}

/// The key of a segment.
pub fn key(space: SpaceNumber, writer: &Writer, segment: u32) -> Vec<u8> {
    [of_space(space).as_slice(), &writer.0, &segment.to_be_bytes()].concat()
}

/// The key of an item that belongs to no segment.
pub fn late_key(space: SpaceNumber, writer: &Writer, code: ItemCode) -> Vec<u8> {
    [key(space, writer, segments::LATE).as_slice(), &code.0.to_be_bytes()].concat()
}

/// Adds an item to a value.
pub fn push(value: &mut Vec<u8>, code: ItemCode) {
    value.extend(code.0.to_be_bytes());
}

/// The items of a value.
pub fn items(value: &[u8], found: &mut Vec<ItemCode>) -> Result<(), StoreError> {
    let (entries, rest): (&[[u8; 4]], &[u8]) = value.as_chunks();
    found.extend(entries.iter().map(|entry| ItemCode(u32::from_be_bytes(*entry))));
    if rest.is_empty() { Ok(()) } else { Err(damaged(Table::Written, "a row has another length")) }
}
