//! What was believed when, answered from an index without a replay: for each node its birth, and a row for each event that
//! moved its standing after that. The layouts are in [`crate::tables::nodes`] and [`crate::tables::history`].

use std::{collections::HashMap, ops::ControlFlow};

use crate::{
    fold::space::Space,
    justification::{graph::Node, resident::Resident},
    store::{Store, StoreError},
    tables::{
        SpaceNumber, Table,
        history::{self, Entry},
        nodes, of_space,
    },
};

/// The standing of a node after the event at an offset; none if it had not arrived.
pub fn standing_at(
    store: &impl Store,
    space: SpaceNumber,
    node: Node,
    offset: u64,
) -> Result<Option<Entry>, StoreError> {
    let found = store.last(Table::History, &history::of_node(space, node), &history::key(space, node, offset))?;
    match found {
        Some((key, value)) => Ok(Some(history::decode(&key, &value)?.1)),
        None => Ok(birth(store, space, node)?.filter(|birth| birth.offset <= offset)),
    }
}

/// The standing with which a node arrived, if it has.
fn birth(store: &impl Store, space: SpaceNumber, node: Node) -> Result<Option<Entry>, StoreError> {
    let value = nodes::value(store, space, node)?;
    let head = nodes::Row::decode(&value)?.head;
    Ok(head.map(|head| Entry { offset: head.offset, standing: head.standing, log_time_ms: head.log_time_ms }))
}

/// All that happened to a node, the first first.
pub fn of_node(store: &impl Store, space: SpaceNumber, node: Node) -> Result<Vec<Entry>, StoreError> {
    let mut entries: Vec<Entry> = birth(store, space, node)?.into_iter().collect();
    let prefix = history::of_node(space, node);
    scan(store, &prefix, |_, entry| entries.push(entry))?;
    Ok(entries)
}

/// Of the nodes of a space that had moved after their birth when the event at an offset was applied: the last move.
pub fn moved_by(store: &impl Store, space: SpaceNumber, offset: u64) -> Result<HashMap<Node, Entry>, StoreError> {
    let mut moved = HashMap::new();
    scan(store, &of_space(space), |node, entry| {
        if entry.offset <= offset {
            moved.insert(node, entry);
        }
    })?;
    Ok(moved)
}

fn scan(store: &impl Store, prefix: &[u8], mut visit: impl FnMut(Node, Entry)) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    store.scan(Table::History, prefix, prefix, &mut |key, value| match history::decode(key, value) {
        Ok((node, entry)) => {
            visit(node, entry);
            ControlFlow::Continue(())
        }
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    })?;
    outcome
}

/// Whether the last entry of every node's history is its standing. For `doctor`.
pub fn agrees_with(store: &impl Store, space: &Space) -> Result<Result<(), String>, StoreError> {
    for (node, state) in space.resident().into_iter().flat_map(Resident::nodes) {
        if state.arrival.is_none() {
            continue;
        }
        let entry = standing_at(store, space.number(), node, u64::MAX)?.map(|entry| entry.standing);
        if entry != Some(state.standing) {
            return Ok(Err(format!("node {}: {:?} by its state, {entry:?} by its history", node.0, state.standing)));
        }
    }
    Ok(Ok(()))
}
