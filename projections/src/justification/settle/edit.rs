//! What an operation is asked to do, and what it answers.

use recant_proto::id::{Kind, Standing};

use super::super::graph::{Arrival, Item, Justification, Node};

/// What one event does to the graph.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// Covered once more, each time that it is listed.
    pub cover: Vec<Item>,
    /// Covered once less, each time that it is listed.
    pub uncover: Vec<Item>,
    /// A node that arrives.
    pub arrive: Option<Arriving>,
    /// A justification that arrives.
    pub justify: Option<Justifying>,
}

/// A node that arrives. It may have been named before.
#[derive(Debug, Clone, Copy)]
pub struct Arriving {
    /// Which one.
    pub node: Node,
    /// What it is.
    pub kind: Kind,
    /// Its place in the order of arrival.
    pub arrival: Arrival,
    /// What it adds to the digest, before its weight.
    pub commitment: u128,
    /// By how many targets of standing retractions it is covered from the start.
    pub covers: u32,
}

/// A justification that arrives.
#[derive(Debug, Clone)]
pub struct Justifying {
    /// What it justifies.
    pub head: Node,
    /// Its premises, each once.
    pub premises: Vec<Node>,
    /// What it adds to the digest, before its weight.
    pub commitment: u128,
    /// By how many targets of standing retractions it is covered from the start.
    pub covers: u32,
}

/// A node whose standing differs from before the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Which node.
    pub node: Node,
    /// Its standing before; none if it arrived in this operation.
    pub before: Option<Standing>,
    /// Its standing after.
    pub after: Standing,
}

impl Move {
    /// Whether it is a change of status that is published: every one but a birth IN.
    #[inline]
    pub fn is_change(&self) -> bool {
        match self.before {
            None => !self.after.is_in(),
            Some(before) => before.is_in() != self.after.is_in(),
        }
    }
}

/// A change in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// What moved.
    pub moved: Move,
    /// How far from what the event names.
    pub distance: u32,
}

/// What an operation did.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// The changes, in the order in which they are published.
    pub changes: Vec<Change>,
    /// The other moves: births IN, and nodes that are OUT for another reason. In no particular order.
    pub unpublished: Vec<Move>,
    /// Every node whose state may differ from before and is to be stored.
    pub touched: Vec<Node>,
    /// Every justification whose covers changed.
    pub recovered: Vec<Justification>,
    /// The justification that arrived.
    pub justified: Option<Justification>,
    /// What the digest changes by, modulo 2^128.
    pub digest_delta: u128,
    /// What it cost.
    pub work: Work,
}

impl Settled {
    /// Every node whose standing moved.
    pub fn moves(&self) -> impl Iterator<Item = Move> + '_ {
        self.changes.iter().map(|change| change.moved).chain(self.unpublished.iter().copied())
    }
}

/// What an operation cost, for metrics and for tests that bound it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Nodes that lost their support and found no other at once.
    pub suspects: u64,
    /// Nodes that lost their support and took another.
    pub switched: u64,
    /// Suspects that came back.
    pub restored: u64,
}
