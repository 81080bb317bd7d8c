//! Table `moves`. Key: space | offset, u64 | node number, u32: the row has the nodes from this number on that the event at
//! the offset touched; the first row of an event has number 0.
//!
//! Value, big endian: log time in ms, i64 | length of the cause, u16 | in the first row the cause, a message | for each node,
//! in order of their numbers: number, u32 | the standing from which the event moved it, u8, or 255 if it did not, or bore
//! it | its state after the event, as in [`super::node_states`].
//!
//! One row holds what an event did to many nodes, so that a cascade costs one write and not one for each. It is the newest
//! state of those nodes until a segment is written, and the history of their standings for ever.

use prost::Message;
use recant_proto::id::Standing;

use super::bytes::Reader;
use crate::{
    justification::graph::Node,
    store::{Store, StoreError},
    tables::{SpaceNumber, Table, damaged, node_states, of_space},
};

/// So many nodes to a row.
const ROW_NODES_MAX: usize = 2_048;
const ENTRY_BYTES: usize = 5 + node_states::BYTES;
const NOT_MOVED: u8 = u8::MAX;

/// The event that touched nodes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Cause {
    /// Its id.
    #[prost(string, tag = "1")]
    pub event: String,
    /// The name of its body.
    #[prost(string, tag = "2")]
    pub body: String,
    /// The retraction that it began or ended.
    #[prost(string, tag = "3")]
    pub retraction: String,
}

/// What an event did to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Which node.
    pub node: Node,
    /// The standing from which it was moved; none if it stayed what it was, or was born.
    pub moved_from: Option<Standing>,
    /// Its state after the event.
    pub state: node_states::Row,
}

fn of_event(space: SpaceNumber, offset: u64) -> [u8; 12] {
    let mut prefix = [0; 12];
    prefix[..4].copy_from_slice(&of_space(space));
    prefix[4..].copy_from_slice(&offset.to_be_bytes());
    prefix
}

/// The key of the row of an event that has the nodes from this one on.
pub fn key(space: SpaceNumber, offset: u64, first: Node) -> Vec<u8> {
    [of_event(space, offset).as_slice(), &first.0.to_be_bytes()].concat()
}

/// The rows of an event. The entries must be in order of nodes.
pub fn rows(
    space: SpaceNumber,
    offset: u64,
    log_time_ms: i64,
    cause: &Cause,
    entries: &[Entry],
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |(index, entries): (usize, &[Entry])| {
        let (first, cause) = match index {
            0 => (Node(0), cause.encode_to_vec()),
            _ => (entries[0].node, Vec::new()),
        };
        let mut value = Vec::with_capacity(10 + cause.len() + entries.len() * ENTRY_BYTES);
        value.extend(log_time_ms.to_be_bytes());
        // Two ids and a name are far below 64 KiB.
        value.extend((cause.len() as u16).to_be_bytes());
        value.extend(cause);
        for entry in entries {
            value.extend(entry.node.0.to_be_bytes());
            value.push(entry.moved_from.map_or(NOT_MOVED, |standing| standing as u8));
            value.extend(entry.state.encode());
        }
        (key(space, offset, first), value)
    };
    entries.chunks(ROW_NODES_MAX).enumerate().map(row).collect()
}

/// A row that was read.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The offset of the event.
    pub offset: u64,
    /// Its log time in ms.
    pub log_time_ms: i64,
    cause: &'a [u8],
    entries: &'a [[u8; ENTRY_BYTES]],
}

impl<'a> Row<'a> {
    /// From key and value.
    pub fn decode(key: &[u8], value: &'a [u8]) -> Result<Row<'a>, StoreError> {
        let read = || {
            let offset = key.get(4..12)?.try_into().map(u64::from_be_bytes).ok()?;
            let mut reader = Reader(value);
            let log_time_ms = reader.bytes().map(i64::from_be_bytes)?;
            let length = reader.bytes().map(u16::from_be_bytes)?;
            let (cause, rest) = reader.0.split_at_checked(usize::from(length))?;
            let (entries, rest) = rest.as_chunks();
            rest.is_empty().then_some(Row { offset, log_time_ms, cause, entries })
        };
        read().ok_or_else(|| damaged(Table::Moves, "a row has another length"))
    }

    /// Every entry, in order of nodes.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry, StoreError>> + use<'a> {
        self.entries.iter().map(decode_entry)
    }

    fn find(&self, node: Node) -> Option<Result<Entry, StoreError>> {
        let number = node.0.to_be_bytes();
        let found = self.entries.binary_search_by(|entry| entry[..4].cmp(&number[..]));
        found.ok().map(|place| decode_entry(&self.entries[place]))
    }
}

fn decode_entry(bytes: &[u8; ENTRY_BYTES]) -> Result<Entry, StoreError> {
    let [a, b, c, d, before, state @ ..] = bytes;
    let moved_from = match *before {
        NOT_MOVED => None,
        before => Some(Standing::from_u8(before).ok_or_else(|| damaged(Table::Moves, "no such standing"))?),
    };
    let node = Node(u32::from_be_bytes([*a, *b, *c, *d]));
    Ok(Entry { node, moved_from, state: node_states::Row::decode(state)? })
}

/// What the event at an offset did to a node, and when.
pub fn find(
    store: &impl Store,
    space: SpaceNumber,
    offset: u64,
    node: Node,
) -> Result<Option<(i64, Entry)>, StoreError> {
    let Some((key, value)) = store.last(Table::Moves, &of_event(space, offset), &key(space, offset, node))? else {
        return Ok(None);
    };
    let row = Row::decode(&key, &value)?;
    row.find(node).map(|entry| Ok((row.log_time_ms, entry?))).transpose()
}

/// The cause of what the event at an offset did.
pub fn cause(store: &impl Store, space: SpaceNumber, offset: u64) -> Result<Option<Cause>, StoreError> {
    let key = key(space, offset, Node(0));
    let Some(value) = store.get(Table::Moves, &key)? else { return Ok(None) };
    let row = Row::decode(&key, &value)?;
    crate::tables::decode(Table::Moves, row.cause).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Batch, WriteStore as _, memory::MemoryStore};

    /// However many nodes an event touches, each is found with what was done to it; and none that was not.
    #[test]
    fn each_node_is_found_in_its_row() {
        let space = SpaceNumber(1);
        let entry = |number: u32| Entry {
            node: Node(number),
            moved_from: (!number.is_multiple_of(3)).then_some(Standing::In),
            state: node_states::Row { rank: u64::from(number), ..node_states::Row::named(Node(number)) },
        };
        let entries: Vec<Entry> = (0..5_000).map(|number| entry(2 * number + 1)).collect();
        let cause_of = Cause { event: "e".into(), body: "retracted".into(), retraction: "r".into() };
        let mut store = MemoryStore::default();
        let mut batch = Batch::default();
        let rows = rows(space, 9, -1, &cause_of, &entries);
        assert_eq!(rows.len(), 3);
        rows.into_iter().for_each(|(key, value)| batch.put(Table::Moves, key, value));
        store.write(&batch).unwrap();
        for expected in &entries {
            assert_eq!(find(&store, space, 9, expected.node).unwrap(), Some((-1, *expected)));
            assert_eq!(find(&store, space, 9, Node(expected.node.0 - 1)).unwrap(), None);
        }
        assert_eq!(cause(&store, space, 9).unwrap(), Some(cause_of));
        assert_eq!(cause(&store, space, 8).unwrap(), None);
    }
}
