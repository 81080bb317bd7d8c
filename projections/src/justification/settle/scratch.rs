//! What operations work with, and what they leave behind for the next: room, and nothing in it.

use super::{
    super::{
        graph::{Justification, Node},
        lowest::Lowest,
    },
    conclude::Frontier,
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
    /// Nodes that went OUT, at least for now, and whose uses have not been walked.
    pub fallen: Vec<Node>,
    /// Moves of one distance, and of the next.
    pub frontiers: [Frontier; 2],
}

impl Scratch {
    /// Whether it has grown so large, in one operation, that it is not worth keeping.
    pub fn is_large(&self) -> bool {
        const KEPT_MAX: usize = 1 << 14;
        let frontiers = self.frontiers[0].capacity().max(self.frontiers[1].capacity());
        let queues = self.lost.capacity().max(self.offers.capacity());
        queues.max(self.passed_over.capacity()).max(self.fallen.capacity()).max(frontiers) > KEPT_MAX
    }
}
