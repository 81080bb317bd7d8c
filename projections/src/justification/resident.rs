//! The resident graph: compact arrays, for spaces that are busy.
//!
//! Lists are threaded through the arrays: from a node to its newest justification and on to the older ones, and to the
//! newest premise that is the node and on to the older ones; a justification's premises lie side by side. An edge costs
//! twelve bytes, and adding one never moves another.

use std::convert::Infallible;

use super::graph::{Graph, Justification, JustificationState, Node, NodeState, Premise, PremiseState, Sizes};

/// A graph in memory.
#[derive(Debug, Default, Clone)]
pub struct Resident {
    nodes: Vec<NodeState>,
    justifications: Vec<JustificationState>,
    premises: Vec<PremiseState>,
}

impl Resident {
    /// Every node with its number.
    pub fn nodes(&self) -> impl Iterator<Item = (Node, &NodeState)> {
        (0..).map(Node).zip(&self.nodes)
    }

    /// Every justification with its number.
    pub fn justifications(&self) -> impl Iterator<Item = (Justification, &JustificationState)> {
        (0..).map(Justification::new).zip(&self.justifications)
    }

    /// The nodes that are the premises of a justification.
    pub fn premises_of(&self, justification: &JustificationState) -> impl Iterator<Item = Node> + '_ {
        let first = justification.first_premise.number() as usize;
        self.premises[first..first + justification.premise_count as usize].iter().map(|premise| premise.node)
    }

    /// The justifications of a node, the oldest first.
    pub fn justifications_of(&self, node: Node) -> Vec<Justification> {
        let newest = self.nodes[node.0 as usize].newest_justification;
        let mut list: Vec<_> =
            std::iter::successors(newest, |at| self.justifications[at.number() as usize].next_of_head).collect();
        list.reverse();
        list
    }

    /// The justifications in which a node is a premise, the oldest first.
    pub fn uses_of(&self, node: Node) -> Vec<Justification> {
        let newest = self.nodes[node.0 as usize].newest_use;
        let mut list: Vec<_> = std::iter::successors(newest, |at| self.premises[at.number() as usize].next_use)
            .map(|premise| self.premises[premise.number() as usize].justification)
            .collect();
        list.reverse();
        list
    }

    /// Room for what is about to be added.
    pub fn reserve(&mut self, more: Sizes) {
        self.nodes.reserve_exact(more.nodes as usize);
        self.justifications.reserve_exact(more.justifications as usize);
        self.premises.reserve_exact(more.premises as usize);
    }

    /// Bytes in use by the arrays.
    pub fn resident_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<NodeState>()
            + self.justifications.capacity() * size_of::<JustificationState>()
            + self.premises.capacity() * size_of::<PremiseState>()
    }
}

/// The next number of an array. A space holds fewer than 2^32 of anything: at 64 bytes a node it would need 256 GiB.
pub(super) fn next_number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

// Inlined by name: the engine is compiled where it is used, which may be another crate.
impl Graph for Resident {
    type Error = Infallible;

    #[inline]
    fn node(&self, node: Node) -> Result<NodeState, Infallible> {
        Ok(self.nodes[node.0 as usize])
    }

    #[inline]
    fn edit_node<R>(&mut self, node: Node, edit: impl FnOnce(&mut NodeState) -> R) -> Result<R, Infallible> {
        Ok(edit(&mut self.nodes[node.0 as usize]))
    }

    #[inline]
    fn justification(&self, justification: Justification) -> Result<JustificationState, Infallible> {
        Ok(self.justifications[justification.number() as usize])
    }

    #[inline]
    fn edit_justification<R>(
        &mut self,
        justification: Justification,
        edit: impl FnOnce(&mut JustificationState) -> R,
    ) -> Result<R, Infallible> {
        Ok(edit(&mut self.justifications[justification.number() as usize]))
    }

    #[inline]
    fn premise(&self, premise: Premise) -> Result<PremiseState, Infallible> {
        Ok(self.premises[premise.number() as usize])
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            nodes: next_number(self.nodes.len()),
            justifications: next_number(self.justifications.len()),
            premises: next_number(self.premises.len()),
        }
    }

    fn add_node(&mut self) -> Node {
        let node = Node(next_number(self.nodes.len()));
        self.nodes.push(NodeState::named(node));
        node
    }

    fn add_justification(
        &mut self,
        head: Node,
        premises: &[Node],
        commitment: u128,
    ) -> Result<Justification, Infallible> {
        let justification = Justification::new(next_number(self.justifications.len()));
        let first_premise = Premise::new(next_number(self.premises.len()));
        for node in premises {
            let premise = Premise::new(next_number(self.premises.len()));
            let next_use = self.nodes[node.0 as usize].newest_use.replace(premise);
            self.premises.push(PremiseState { node: *node, justification, next_use });
        }
        let next_of_head = self.nodes[head.0 as usize].newest_justification.replace(justification);
        self.justifications.push(JustificationState {
            commitment,
            head,
            missing: 0,
            waiting: 0,
            covers: 0,
            next_of_head,
            first_premise,
            premise_count: next_number(premises.len()),
        });
        Ok(justification)
    }
}
