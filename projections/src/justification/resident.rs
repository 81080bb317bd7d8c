//! The resident graph: compact arrays, for spaces that are busy.
//!
//! Lists are threaded through the arrays: from a node to its newest justification and on to the older ones, and to the
//! newest premise that is the node and on to the older ones; a justification's premises lie side by side. An edge costs
//! twelve bytes, and adding one never moves another.

use std::convert::Infallible;

use super::{
    chunked::Chunked,
    graph::{EditGraph, Graph, Justification, JustificationState, Node, NodeState, Premise, Premised, Sizes},
    settle::Scratch,
};

/// The room of the last operation is kept for the next where it is at most so small a part of the graph, or so small.
const SCRATCH_SHARE: usize = 8;
const SCRATCH_BYTES_MIN: usize = 4 << 10;

/// One edge: a premise of a justification.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Edge {
    /// The node.
    node: Node,
    /// The justification that needs it.
    justification: Justification,
    /// The next older premise that is the same node.
    next_use: Option<Premise>,
}

/// A graph in memory.
#[derive(Debug, Default, Clone)]
pub struct Resident {
    nodes: Chunked<NodeState>,
    justifications: Chunked<JustificationState>,
    premises: Chunked<Edge>,
    scratch: Scratch,
}

impl Resident {
    /// Every node with its number.
    pub fn nodes(&self) -> impl Iterator<Item = (Node, &NodeState)> {
        (0..).map(Node).zip(self.nodes.iter_from(0))
    }

    /// Every justification with its number.
    pub fn justifications(&self) -> impl Iterator<Item = (Justification, &JustificationState)> {
        (0..).map(Justification::new).zip(self.justifications.iter_from(0))
    }

    /// The nodes that are the premises of a justification.
    pub fn premises_of(&self, justification: &JustificationState) -> impl Iterator<Item = Node> + '_ {
        let first = justification.first_premise.number();
        (first..first + u32::from(justification.premise_count)).map(|premise| self.premises[premise].node)
    }

    /// The justifications of a node, the oldest first.
    pub fn justifications_of(&self, node: Node) -> Vec<Justification> {
        let newest = self.nodes[node.0].newest_justification;
        let mut list: Vec<_> =
            std::iter::successors(newest, |at| self.justifications[at.number()].next_of_head).collect();
        list.reverse();
        list
    }

    /// Adds a node that has been named and has not arrived.
    pub fn add_node(&mut self) -> Node {
        let node = Node(self.nodes.len());
        self.nodes.push(NodeState::named(node));
        node
    }

    /// The justifications in which a node is a premise, the oldest first.
    pub fn uses_of(&self, node: Node) -> Vec<Justification> {
        let newest = self.nodes[node.0].newest_use;
        let mut list: Vec<_> = std::iter::successors(newest, |at| self.premises[at.number()].next_use)
            .map(|premise| self.premises[premise.number()].justification)
            .collect();
        list.reverse();
        list
    }

    /// Each use of a node by the justifications from one on.
    pub fn uses_from(&self, first: Justification) -> Vec<(Node, Justification)> {
        // Premises lie in the order of their justifications.
        let first = self.justifications.iter_from(first.number()).next();
        let first_edge = first.map_or(self.premises.len(), |state| state.first_premise.number());
        self.premises.iter_from(first_edge).map(|edge| (edge.node, edge.justification)).collect()
    }

    /// Bytes in use.
    pub fn resident_bytes(&self) -> usize {
        self.array_bytes() + self.scratch.bytes()
    }

    fn array_bytes(&self) -> usize {
        self.nodes.bytes() + self.justifications.bytes() + self.premises.bytes()
    }
}

// Inlined by name: the engine is compiled where it is used, which may be another crate.
impl Graph for Resident {
    type Error = Infallible;
    type Use = Premise;

    #[inline]
    fn node(&self, node: Node) -> Result<NodeState, Infallible> {
        Ok(self.nodes[node.0])
    }

    #[inline]
    fn premised(&self, node: Node) -> Result<Premised, Infallible> {
        Ok(self.nodes[node.0].as_premise())
    }

    #[inline]
    fn justification(&self, justification: Justification) -> Result<JustificationState, Infallible> {
        Ok(self.justifications[justification.number()])
    }

    #[inline]
    fn premise(&self, _of: Justification, state: &JustificationState, place: u16) -> Result<Node, Infallible> {
        Ok(self.premises[state.first_premise.number() + u32::from(place)].node)
    }

    #[inline]
    fn first_use(&self, node: Node) -> Result<Option<Premise>, Infallible> {
        Ok(self.nodes[node.0].newest_use)
    }

    #[inline]
    fn follow(&self, place: Premise) -> Result<(Justification, Option<Premise>), Infallible> {
        let edge = &self.premises[place.number()];
        Ok((edge.justification, edge.next_use))
    }

    fn sizes(&self) -> Sizes {
        Sizes { nodes: self.nodes.len(), justifications: self.justifications.len() }
    }
}

impl EditGraph for Resident {
    #[inline]
    fn take_scratch(&mut self) -> Scratch {
        std::mem::take(&mut self.scratch)
    }

    #[inline]
    fn keep_scratch(&mut self, scratch: Scratch) {
        if scratch.bytes() <= (self.array_bytes() / SCRATCH_SHARE).max(SCRATCH_BYTES_MIN) {
            self.scratch = scratch;
        }
    }

    #[inline]
    fn edit_node<R>(&mut self, node: Node, edit: impl FnOnce(&mut NodeState) -> R) -> Result<R, Infallible> {
        Ok(edit(&mut self.nodes[node.0]))
    }

    #[inline]
    fn edit_justification<R>(
        &mut self,
        justification: Justification,
        edit: impl FnOnce(&mut JustificationState) -> R,
    ) -> Result<R, Infallible> {
        Ok(edit(&mut self.justifications[justification.number()]))
    }

    fn add_justification(
        &mut self,
        head: Node,
        premises: &[Node],
        commitment: u128,
    ) -> Result<Justification, Infallible> {
        let justification = Justification::new(self.justifications.len());
        let first_premise = Premise::new(self.premises.len());
        for node in premises {
            let premise = Premise::new(self.premises.len());
            let next_use = self.nodes[node.0].newest_use.replace(premise);
            self.premises.push(Edge { node: *node, justification, next_use });
        }
        let next_of_head = self.nodes[head.0].newest_justification.replace(justification);
        let state = JustificationState::new(head, next_of_head, commitment, premises.len());
        self.justifications.push(JustificationState { first_premise, ..state });
        Ok(justification)
    }
}
