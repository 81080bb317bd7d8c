//! What was believed when, answered from an index without a replay: for each node its birth, and a row for each event that
//! moved standings after that. The layouts are in [`crate::tables::nodes`], [`crate::tables::moves`] and
//! [`crate::tables::moved`].

mod between;

use std::collections::HashMap;

use recant_proto::id::Standing;

use crate::{
    fold::space::{Space, scan_moves},
    justification::{graph::Node, resident::Resident},
    store::{Store, StoreError},
    tables::{SpaceNumber, Table, damaged, moves, nodes},
};

pub use between::{Turned, between};

/// A standing, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The offset of the event that brought it about.
    pub offset: u64,
    /// The standing.
    pub standing: Standing,
    /// The event's log time.
    pub log_time_ms: i64,
}

/// The standing of a node after the event at an offset; none if it had not arrived.
pub fn standing_at(store: &impl Store, space: &Space, node: Node, offset: u64) -> Result<Option<Entry>, StoreError> {
    let moves = space.moves_of(store, node)?;
    match moves.iter().rev().find(|moved| **moved <= offset) {
        Some(moved) => moved_at(store, space, node, *moved).map(Some),
        None => Ok(birth(store, space, node)?.filter(|birth| birth.offset <= offset)),
    }
}

/// All that happened to a node, the first first.
pub fn of_node(store: &impl Store, space: &Space, node: Node) -> Result<Vec<Entry>, StoreError> {
    let mut entries: Vec<Entry> = birth(store, space, node)?.into_iter().collect();
    for offset in space.moves_of(store, node)? {
        entries.push(moved_at(store, space, node, offset)?);
    }
    Ok(entries)
}

/// The standing with which a node arrived, if it has.
fn birth(store: &impl Store, space: &Space, node: Node) -> Result<Option<Entry>, StoreError> {
    let value = nodes::value(store, space.number(), node)?;
    let head = nodes::Row::decode(&value)?.head;
    Ok(head.map(|head| Entry { offset: head.offset, standing: head.standing, log_time_ms: head.log_time_ms }))
}

fn moved_at(store: &impl Store, space: &Space, node: Node, offset: u64) -> Result<Entry, StoreError> {
    let found = moves::find(store, space.number(), offset, node)?;
    let (log_time_ms, entry) =
        found.ok_or_else(|| damaged(Table::Moves, format!("what moved node {} at {offset} is missing", node.0)))?;
    Ok(Entry { offset, standing: entry.state.standing, log_time_ms })
}

/// Of the nodes whose standing moved after the event at an offset: what it had been. Its cost follows what moved since.
pub fn moved_since(store: &impl Store, space: SpaceNumber, offset: u64) -> Result<HashMap<Node, Standing>, StoreError> {
    let mut before = HashMap::new();
    scan_moves(store, space, offset.saturating_add(1), |row| {
        for entry in row.entries() {
            let entry = entry?;
            if let Some(moved_from) = entry.moved_from {
                before.entry(entry.node).or_insert(moved_from);
            }
        }
        Ok(())
    })?;
    Ok(before)
}

/// Whether the moves of every node lead from its birth to its standing, and the index of moves has all of them. For
/// `doctor`.
pub fn agrees_with(store: &impl Store, space: &Space) -> Result<Result<(), String>, StoreError> {
    let mut standings: HashMap<Node, (Standing, Vec<u64>)> = HashMap::new();
    let mut wrong = None;
    scan_moves(store, space.number(), 0, |row| {
        for entry in row.entries() {
            let entry = entry?;
            let Some(moved_from) = entry.moved_from else { continue };
            let known = match standings.entry(entry.node) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    let birth = birth(store, space, entry.node)?;
                    new.insert((birth.map_or(Standing::Pending, |birth| birth.standing), Vec::new()))
                }
            };
            if known.0 != moved_from {
                wrong = Some(format!(
                    "node {} moved from {moved_from:?} at {}, and was {:?}",
                    entry.node.0, row.offset, known.0
                ));
            }
            known.0 = entry.state.standing;
            known.1.push(row.offset);
        }
        Ok(())
    })?;
    for (node, state) in space.resident().into_iter().flat_map(Resident::nodes) {
        if state.arrival.is_none() {
            continue;
        }
        let (standing, moves) = match standings.remove(&node) {
            Some((standing, moves)) => (Some(standing), moves),
            None => (birth(store, space, node)?.map(|birth| birth.standing), Vec::new()),
        };
        if standing != Some(state.standing) {
            wrong = Some(format!("node {}: {:?} by its state, {standing:?} by its history", node.0, state.standing));
        } else if space.moves_of(store, node)? != moves {
            wrong = Some(format!("node {}: its moves are not those of the index", node.0));
        }
    }
    Ok(wrong.map_or(Ok(()), Err))
}
