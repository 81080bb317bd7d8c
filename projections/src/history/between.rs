//! What happened to nodes between two positions, in time that follows what happened: moves are in order of the log, and so are
//! nodes that their own events named, by number.

use std::{collections::BTreeMap, ops::ControlFlow};

use recant_proto::id::Standing;

use crate::{
    justification::graph::Node,
    store::{Store, StoreError},
    tables::{SpaceNumber, Table, moves, nodes, number_of, numbered, of_space, spaces},
};

/// What became of a node from one position to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turned {
    /// Its standing before; none if it had not arrived.
    pub before: Option<Standing>,
    /// Its standing after.
    pub after: Standing,
    /// The offset of the event with which it last became IN or OUT; why it is OUT may have changed since.
    pub offset: u64,
    /// That event's log time.
    pub log_time_ms: i64,
}

/// The nodes of a space that arrived or moved after the event at one offset, up to the event at another. One that moved and
/// moved back is among them.
pub fn between(
    store: &impl Store,
    space: &spaces::Row,
    after: u64,
    up_to: u64,
) -> Result<BTreeMap<Node, Turned>, StoreError> {
    let mut turned = BTreeMap::new();
    born(store, space, after, up_to, &mut turned)?;
    moved(store, space.space(), after, up_to, &mut turned)?;
    Ok(turned)
}

fn moved(
    store: &impl Store,
    space: SpaceNumber,
    after: u64,
    up_to: u64,
    turned: &mut BTreeMap<Node, Turned>,
) -> Result<(), StoreError> {
    let from = moves::key(space, after.saturating_add(1), Node(0));
    scan(store, Table::Moves, space, &from, |key, value| {
        let row = moves::Row::decode(key, value)?;
        if row.offset > up_to {
            return Ok(ControlFlow::Break(()));
        }
        for entry in row.entries() {
            let entry = entry?;
            let after = entry.state.standing;
            let now = |before| Turned { before, after, offset: row.offset, log_time_ms: row.log_time_ms };
            match (entry.moved_from, turned.get_mut(&entry.node)) {
                (Some(moved_from), Some(earlier)) if moved_from.is_in() != after.is_in() => {
                    *earlier = now(earlier.before)
                }
                (Some(_), Some(earlier)) => earlier.after = after,
                (Some(moved_from), None) => drop(turned.insert(entry.node, now(Some(moved_from)))),
                // It was touched; and if it arrived with it, it had been named before.
                (None, _) if arrived_at(store, space, entry.node)? == Some(row.offset) => {
                    turned.insert(entry.node, now(None));
                }
                (None, _) => {}
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The offset of the event with which a node arrived.
fn arrived_at(store: &impl Store, space: SpaceNumber, node: Node) -> Result<Option<u64>, StoreError> {
    Ok(nodes::Row::decode(&nodes::value(store, space, node)?)?.head.map(|head| head.offset))
}

fn born(
    store: &impl Store,
    space: &spaces::Row,
    after: u64,
    up_to: u64,
    turned: &mut BTreeMap<Node, Turned>,
) -> Result<(), StoreError> {
    let first = first_named_after(store, space, after)?;
    let space = space.space();
    scan(store, Table::Nodes, space, &numbered(space, first), |key, value| {
        let node = Node(number_of(Table::Nodes, key)?);
        let Some(head) = nodes::Row::decode(value)?.head else { return Ok(ControlFlow::Continue(())) };
        if head.offset > up_to {
            let is_behind = is_named_by_its_event(store, space, node, head.offset)?;
            return Ok(if is_behind { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        }
        if head.offset <= after {
            return Ok(ControlFlow::Continue(()));
        }
        let birth = Turned { before: None, after: head.standing, offset: head.offset, log_time_ms: head.log_time_ms };
        turned.insert(node, birth);
        Ok(ControlFlow::Continue(()))
    })
}

/// The number from which on nodes were named after the event at an offset.
///
/// That a node was named by its own event is known of it. Those that were named before they arrived are passed over: some of
/// them may stand behind that number and have been named earlier.
fn first_named_after(store: &impl Store, space: &spaces::Row, offset: u64) -> Result<u32, StoreError> {
    let (mut low, mut high) = (0, space.nodes);
    while low < high {
        let middle = low + (high - low) / 2;
        match first_named_by_its_event(store, space.space(), middle, high)? {
            Some((node, arrived)) if arrived <= offset => low = node + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The first node, from a number on and below another, that its own event named, with that event's offset.
fn first_named_by_its_event(
    store: &impl Store,
    space: SpaceNumber,
    from: u32,
    below: u32,
) -> Result<Option<(u32, u64)>, StoreError> {
    let mut found = None;
    scan(store, Table::Nodes, space, &numbered(space, from), |key, value| {
        let number = number_of(Table::Nodes, key)?;
        if number >= below {
            return Ok(ControlFlow::Break(()));
        }
        if let Some(head) = nodes::Row::decode(value)?.head
            && is_named_by_its_event(store, space, Node(number), head.offset)?
        {
            found = Some((number, head.offset));
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Whether the event with which a node arrived was the first to name it: then its birth is in its row alone.
fn is_named_by_its_event(store: &impl Store, space: SpaceNumber, node: Node, arrived: u64) -> Result<bool, StoreError> {
    Ok(moves::find(store, space, arrived, node)?.is_none())
}

/// Scans the rows of a space in a table from a key on, for as long as the visitor goes on.
fn scan(
    store: &impl Store,
    table: Table,
    space: SpaceNumber,
    from: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    store.scan(table, &of_space(space), from, &mut |key, value| match visit(key, value) {
        Ok(flow) => flow,
        Err(error) => {
            outcome = Err(error);
            ControlFlow::Break(())
        }
    })?;
    outcome
}
