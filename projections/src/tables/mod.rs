//! What lies where. One module a table: its key layout comes first, and no key is built anywhere else.
//!
//! Rows are protobuf messages (fields may be added, never renumbered), behind a binary head where rows are many and the
//! engine reads them ([`nodes`], [`justifications`]), or binary as a whole where they are small. Numbers in keys are big
//! endian, so that keys sort as numbers do. A space is its number, a u32.

pub mod actions;
pub mod blocks;
mod bytes;
pub mod events;
pub mod ids;
pub mod justification_covers;
pub mod justifications;
pub mod moved;
pub mod moves;
pub mod node_states;
pub mod nodes;
pub mod partition;
pub mod retractions;
pub mod said;
pub mod segments;
pub mod source_history;
pub mod sources;
pub mod spaces;
pub mod times;
pub mod uses;
pub mod written;

use prost::Message;

use crate::store::{Read, StoreError};

macro_rules! tables {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
        /// A table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table { $($(#[doc = $doc])+ $variant,)+ }

        impl Table {
            /// Every table.
            pub const ALL: &'static [Table] = &[$(Table::$variant,)+];

            /// Its name on disk.
            pub fn name(self) -> &'static str {
                match self { $(Table::$variant => $name,)+ }
            }
        }
    };
}

tables! {
    /// Where the partition stands.
    Partition = "partition";
    /// The spaces of the partition.
    Spaces = "spaces";
    /// Every event id that was used, and what became of it.
    Events = "events";
    /// Ids to numbers.
    Ids = "ids";
    /// What nodes are; never changes once they have arrived.
    Nodes = "nodes";
    /// Statuses, ranks and supports that were no longer as at birth when the last segment was written.
    NodeStates = "node_states";
    /// What justifications are; never changes.
    Justifications = "justifications";
    /// Covers of justifications that have any.
    JustificationCovers = "justification_covers";
    /// Sources.
    Sources = "sources";
    /// What was known of sources when.
    SourceHistory = "source_history";
    /// Retractions, standing and lifted.
    Retractions = "retractions";
    /// What actions are and their states.
    Actions = "actions";
    /// What each event did to the nodes that were there, and why.
    Moves = "moves";
    /// The offsets at which a node's standing moved, in segments.
    Moved = "moved";
    /// Log time to offsets.
    Times = "times";
    /// The justifications that need a node, in segments.
    Uses = "uses";
    /// What an agent wrote, in segments.
    Written = "written";
    /// What a source said, in segments.
    Said = "said";
    /// How far the segments go.
    Segments = "segments";
}

/// A space, by its number within its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpaceNumber(pub u32);

/// The prefix of all keys of a space, in tables whose keys begin with it.
pub fn of_space(space: SpaceNumber) -> [u8; 4] {
    space.0.to_be_bytes()
}

/// A key of a space and a number.
pub fn numbered(space: SpaceNumber, number: u32) -> Vec<u8> {
    [space.0.to_be_bytes(), number.to_be_bytes()].concat()
}

/// The number at the end of a key of [`numbered`].
pub fn number_of(table: Table, key: &[u8]) -> Result<u32, StoreError> {
    let bytes = key.get(4..8).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or_else(|| damaged(table, "a key is too short"))
}

/// Says that a row cannot be right.
pub fn damaged(table: Table, detail: impl Into<String>) -> StoreError {
    StoreError::Damaged { table: table.name(), detail: detail.into() }
}

/// Reads a protobuf row.
pub fn decode<M: Message + Default>(table: Table, bytes: &[u8]) -> Result<M, StoreError> {
    M::decode(bytes).map_err(|error| damaged(table, error.to_string()))
}

/// The protobuf row of a key.
pub fn read<M: Message + Default>(store: &impl Read, table: Table, key: &[u8]) -> Result<Option<M>, StoreError> {
    store.read(table, key)?.map(|bytes| decode(table, &bytes)).transpose()
}
