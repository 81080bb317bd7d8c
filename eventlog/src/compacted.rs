//! A topic of which the newest record of each key counts: small state that lies beside the log and is no part of the truth, such as how far
//! a named subscription has come. Nothing of it is folded, and no digest knows of it.
//!
//! It has the partitions of the log. A partition is written by the one who took it last, and by nobody else: whoever had it before is
//! refused ([`LogError::Taken`]). Calls block.

use crate::LogError;

/// A key and what stands under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The key.
    pub key: Vec<u8>,
    /// The newest value.
    pub value: Vec<u8>,
}

/// A key, and what is to stand under it; nothing, if it is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// The new value.
    pub value: Option<Vec<u8>>,
}

/// One write holds at most so many bytes.
pub const WRITE_BYTES_MAX: usize = 8 << 20;

/// The topic.
pub trait CompactedTopic: Send + Sync {
    /// Whether anything may stand in a partition: asking costs less than taking it, and takes it from nobody.
    fn may_hold_any(&self, partition: u32) -> Result<bool, LogError>;

    /// Takes a partition: whoever had it before can write nothing more. Gives all that stands.
    fn take(&self, partition: u32) -> Result<Vec<Standing>, LogError>;

    /// Writes, all or nothing; durable when it is answered. After an error it may be there or not: take the partition again, and see.
    fn write(&self, partition: u32, changes: Vec<Change>) -> Result<(), LogError>;

    /// Lets go of a partition.
    fn let_go(&self, partition: u32);
}

/// Refuses what one write cannot hold.
pub(crate) fn check_size(changes: &[Change]) -> Result<(), LogError> {
    let bytes = changes.iter().map(|change| change.key.len() + change.value.as_ref().map_or(0, Vec::len)).sum();
    if bytes > WRITE_BYTES_MAX {
        return Err(LogError::TooLarge { bytes, bytes_max: WRITE_BYTES_MAX });
    }
    Ok(())
}
