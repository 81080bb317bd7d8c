//! What was believed when, answered from an index without a replay: for each node, a row for each event that moved its
//! standing. The layout is in [`crate::tables::history`].

use std::ops::ControlFlow;

use crate::{
    fold::space::Space,
    justification::graph::Node,
    store::{Store, StoreError},
    tables::{
        SpaceNumber, Table,
        history::{self, Entry},
        of_space,
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
    found.map(|(key, value)| Ok(history::decode(&key, &value)?.1)).transpose()
}

/// All that happened to a node, the first first.
pub fn of_node(store: &impl Store, space: SpaceNumber, node: Node) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    let prefix = history::of_node(space, node);
    scan(store, &prefix, |_, entry| entries.push(entry))?;
    Ok(entries)
}

/// The standing of every node of a space that had arrived after the event at an offset, by node number.
pub fn all_at(store: &impl Store, space: SpaceNumber, offset: u64) -> Result<Vec<(Node, Entry)>, StoreError> {
    let mut standings: Vec<(Node, Entry)> = Vec::new();
    scan(store, &of_space(space), |node, entry| {
        if entry.offset > offset {
            return;
        }
        match standings.last_mut() {
            Some(last) if last.0 == node => last.1 = entry,
            _ => standings.push((node, entry)),
        }
    })?;
    Ok(standings)
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

/// Whether the last row of every node's history is its standing. For `doctor`.
pub fn agrees_with(store: &impl Store, space: &Space) -> Result<Result<(), String>, StoreError> {
    let last = all_at(store, space.number(), u64::MAX)?;
    let mut last = last.into_iter().peekable();
    for (node, state) in space.graph.nodes().filter(|(_, state)| state.arrival.is_some()) {
        let entry = last.next_if(|(other, _)| *other == node).map(|(_, entry)| entry.standing);
        if entry != Some(state.standing) {
            return Ok(Err(format!("node {}: {:?} by its state, {entry:?} by its history", node.0, state.standing)));
        }
    }
    Ok(Ok(()))
}
