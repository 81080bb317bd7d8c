//! One node, as it was at a moment.

use super::{Moment, NodeView};
use crate::{
    fold::space::Space,
    history,
    justification::graph::Node,
    store::{Store, StoreError},
    tables::{
        ids::{self, Namespace},
        nodes,
    },
};

/// A node of a space; none if the id is not that of one that had arrived or been named by what had.
pub fn node(store: &impl Store, space: &Space, moment: &Moment, id: &str) -> Result<Option<NodeView>, StoreError> {
    let Some(node) = ids::get(store, space.number(), Namespace::Node, id)?.map(Node) else { return Ok(None) };
    let row = nodes::get(store, space.number(), node)?;
    if row.kind.is_some() && !moment.shows(row.observed_instant()?) {
        return Ok(None);
    }
    let standing = history::standing_at(store, space, node, moment.position.offset)?.map(|entry| entry.standing);
    if standing.is_none() && !is_named(store, space, moment, node)? {
        return Ok(None);
    }
    NodeView::read(store, (&space.name, space.number()), moment, node, row, standing).map(Some)
}

/// Whether a node that had not arrived was named: by a reason for it, or by one that it is a premise of.
fn is_named(store: &impl Store, space: &Space, moment: &Moment, node: Node) -> Result<bool, StoreError> {
    if moment.is_now {
        return Ok(true);
    }
    let reasons = space.newest_justification(store, node)?.into_iter().chain(space.uses_of(store, node)?);
    for reason in reasons {
        if crate::tables::justifications::get(store, space.number(), reason)?.offset <= moment.position.offset {
            return Ok(true);
        }
    }
    Ok(false)
}
