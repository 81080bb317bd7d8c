//! The order in which the changes of one cascade are published: by distance from what the event names, then by arrival.
//!
//! Distance is 0 for a changed node that the event covers, lifts, brings or justifies (a justification stands for its
//! head); from there breadth-first from premise to head, over every justification known, through changed nodes and the
//! node that the event bears. A change is named or has such a premise, so every change is reached.

use super::{
    graph::{Arrival, Graph, Item, Marks, Node},
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
pub fn in_order<G: Graph>(graph: &mut G, edit: &Edit, settled: &Settled) -> Result<Vec<Change>, G::Error> {
    if !settled.moves.iter().any(Move::is_change) {
        return Ok(Vec::new());
    }
    // A node that is born IN is no change, but what waited for it is reached through it.
    let carries = |moved: &&Move| moved.is_change() || moved.before.is_none();
    let mut moves = hashbrown::HashMap::with_capacity(settled.moves.len());
    for moved in settled.moves.iter().filter(carries) {
        graph.edit_node(moved.node, |state| state.marks.set(Marks::CHANGED))?;
        moves.insert(moved.node, *moved);
    }
    let mut ordered = Vec::with_capacity(moves.len());
    let mut frontier = Vec::new();
    for node in named(graph, edit, settled)? {
        reach(graph, node, &mut frontier)?;
    }
    let mut distance = 0;
    while !frontier.is_empty() {
        frontier.sort_unstable();
        let mut next_frontier = Vec::new();
        for (_, node) in frontier {
            if let Some(moved) = moves.get(&node).filter(|moved| moved.is_change()) {
                ordered.push(Change { moved: *moved, distance });
            }
            let mut next = graph.node(node)?.newest_use;
            while let Some(premise) = next {
                let edge = graph.premise(premise)?;
                let head = graph.justification(edge.justification)?.head;
                reach(graph, head, &mut next_frontier)?;
                next = edge.next_use;
            }
        }
        frontier = next_frontier;
        distance += 1;
    }
    Ok(ordered)
}

/// Puts a changed node on the frontier, once.
fn reach<G: Graph>(graph: &mut G, node: Node, frontier: &mut Vec<(Arrival, Node)>) -> Result<(), G::Error> {
    let arrival = graph.edit_node(node, |state| {
        let first = state.marks.has(Marks::CHANGED);
        state.marks.clear(Marks::CHANGED);
        if first { state.arrival } else { None }
    })?;
    frontier.extend(arrival.map(|arrival| (arrival, node)));
    Ok(())
}

/// The nodes that an event names.
fn named<G: Graph>(graph: &G, edit: &Edit, settled: &Settled) -> Result<Vec<Node>, G::Error> {
    let mut nodes = Vec::new();
    for item in edit.cover.iter().chain(&edit.uncover) {
        nodes.push(match item {
            Item::Node(node) => *node,
            Item::Justification(justification) => graph.justification(*justification)?.head,
        });
    }
    nodes.extend(edit.arrive.iter().map(|arriving| arriving.node));
    if let Some(justification) = settled.justified {
        nodes.push(graph.justification(justification)?.head);
    }
    Ok(nodes)
}
