//! What operations work with, and what they leave behind for the next: room, and nothing in it.

use super::{
    super::{
        graph::{Arrival, Justification, Node},
        lowest::Lowest,
    },
    conclude::Frontier,
    edit::Move,
};

/// Room that operations work in, kept from one to the next. Empty in between.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    /// Nodes that lost their support, by rank.
    pub lost: Lowest<(u64, Node)>,
    /// Nodes that lost their support while they had valid justifications, which all ranked too high.
    pub passed_over: Vec<Node>,
    /// Nodes that could come IN, by the rank of the highest premise of the justification that offers it.
    pub offers: Lowest<(u64, Node, Justification)>,
    /// Nodes that went OUT, at least for now, in the order in which they fell.
    pub fallen: Vec<Node>,
    /// Where each level of them ends: what the event covers, what fell by that, and so on.
    pub levels: Vec<u32>,
    /// Moves of one distance, and of the next.
    pub frontiers: [Frontier; 2],
}

impl Scratch {
    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        let [frontier, next] = &self.frontiers;
        (frontier.capacity() + next.capacity()) * size_of::<(Arrival, Move)>()
            + self.lost.bytes()
            + self.offers.bytes()
            + (self.passed_over.capacity() + self.fallen.capacity()) * size_of::<Node>()
            + self.levels.capacity() * size_of::<u32>()
    }
}
