//! The order in which the changes of one cascade are published: by distance from what the event names, then by arrival.
//!
//! Distance is 0 for a changed node that the event covers, lifts, brings or justifies (a justification stands for its
//! head); from there breadth-first from premise to head, over every justification known, through changed nodes and the
//! node that the event bears. A change is named or has such a premise, so every change is reached.

use super::{
    graph::{Arrival, EditGraph, Item, Marks, Node},
    settle::{Edit, Move, Settled},
};

/// A change in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// What moved.
    pub moved: Move,
    /// How far from what the event names.
    pub distance: u32,
}

/// The changes of an operation in the order in which they are published.
pub fn in_order<G: EditGraph>(graph: &mut G, edit: &Edit, settled: &Settled) -> Result<Vec<Change>, G::Error> {
    if !settled.moves.iter().any(Move::is_change) {
        return Ok(Vec::new());
    }
    // A node that is born IN is no change, but what waited for it is reached through it.
    let carries = |moved: &&Move| moved.is_change() || moved.before.is_none();
    let mut moves: Vec<Move> = settled.moves.iter().filter(carries).copied().collect();
    moves.sort_unstable_by_key(|moved| moved.node);
    for moved in &moves {
        graph.edit_node(moved.node, |state| state.marks.set(Marks::CHANGED))?;
    }
    let mut ordered = Vec::with_capacity(moves.len());
    let mut room = graph.take_scratch();
    let [frontier, next_frontier] = &mut room.frontiers;
    reach_named(graph, edit, settled, frontier)?;
    let mut distance = 0;
    while !frontier.is_empty() {
        frontier.sort_unstable();
        for (_, node) in frontier.drain(..) {
            let found = moves.binary_search_by_key(&node, |moved| moved.node).map(|place| moves[place]);
            if let Some(moved) = found.ok().filter(Move::is_change) {
                ordered.push(Change { moved, distance });
            }
            let mut uses = graph.first_use(node)?;
            while let Some(place) = uses {
                let (justification, next) = graph.follow(place)?;
                let head = graph.justification(justification)?.head;
                reach(graph, head, next_frontier)?;
                uses = next;
            }
        }
        std::mem::swap(frontier, next_frontier);
        distance += 1;
    }
    graph.keep_scratch(room);
    Ok(ordered)
}

/// Puts the marked nodes that an event names on the frontier.
fn reach_named<G: EditGraph>(
    graph: &mut G,
    edit: &Edit,
    settled: &Settled,
    frontier: &mut Vec<(Arrival, Node)>,
) -> Result<(), G::Error> {
    for item in edit.cover.iter().chain(&edit.uncover) {
        let node = match item {
            Item::Node(node) => *node,
            Item::Justification(justification) => graph.justification(*justification)?.head,
        };
        reach(graph, node, frontier)?;
    }
    if let Some(arriving) = &edit.arrive {
        reach(graph, arriving.node, frontier)?;
    }
    if let Some(justification) = settled.justified {
        let head = graph.justification(justification)?.head;
        reach(graph, head, frontier)?;
    }
    Ok(())
}

/// Puts a marked node on the frontier, once.
fn reach<G: EditGraph>(graph: &mut G, node: Node, frontier: &mut Vec<(Arrival, Node)>) -> Result<(), G::Error> {
    let arrival = graph.edit_node(node, |state| {
        let first = state.marks.has(Marks::CHANGED);
        state.marks.clear(Marks::CHANGED);
        if first { state.arrival } else { None }
    })?;
    frontier.extend(arrival.map(|arrival| (arrival, node)));
    Ok(())
}
