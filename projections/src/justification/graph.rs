//! What the engine needs of a graph: the state of nodes and justifications, and the edges between them.
//!
//! Three forms are foreseen: [`super::resident`] (compact arrays), [`super::overlay`] (a preview over another graph), and a
//! paged one. They differ in where the state lies; the rule of belief is in [`super::settle`] and nowhere else.

use std::num::NonZeroU32;

use recant_proto::id::{Kind, Standing};

/// A node, by its number within its space. Numbers follow the order in which nodes were first named in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

macro_rules! number {
    ($(#[doc = $doc:literal])+ $name:ident) => {
        $(#[doc = $doc])+
        // Kept as one more than the number, so that an absent one takes no room of its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The one with this number.
            #[inline]
            pub fn new(number: u32) -> Self {
                $name(NonZeroU32::MIN.saturating_add(number))
            }

            /// Its number, counted from 0.
            #[inline]
            pub fn number(self) -> u32 {
                self.0.get() - 1
            }
        }
    };
}

number! {
    /// A justification, by its number within its space.
    Justification
}
number! {
    /// One premise of one justification, by its number within its space.
    Premise
}
number! {
    /// The place of a node in the order of arrival of its space.
    Arrival
}

/// What a retraction can cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// A node.
    Node(Node),
    /// A justification.
    Justification(Justification),
}

/// Working marks of one operation; all clear between operations (invariant I5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks(u8);

impl Marks {
    /// Its standing before the operation has been noted.
    pub const TOUCHED: Marks = Marks(1);
    /// It has lost its support and has not found another.
    pub const SUSPECT: Marks = Marks(2);
    /// It waits to be looked at.
    pub const QUEUED: Marks = Marks(4);
    /// Its status differs from before the operation, and its distance is not known.
    pub const CHANGED: Marks = Marks(8);

    /// Whether this mark is set.
    #[inline]
    pub fn has(self, mark: Marks) -> bool {
        self.0 & mark.0 != 0
    }

    /// Sets the mark.
    #[inline]
    pub fn set(&mut self, mark: Marks) {
        self.0 |= mark.0;
    }

    /// Clears the mark.
    #[inline]
    pub fn clear(&mut self, mark: Marks) {
        self.0 &= !mark.0;
    }

    /// Whether no mark is set.
    #[inline]
    pub fn are_clear(self) -> bool {
        self.0 == 0
    }
}

/// The state of a node: one cache line.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub struct NodeState {
    /// What the node adds to the digest, before its weight. Zero until it arrives.
    pub commitment: u128,
    /// Above the rank of every premise of its support, while IN.
    pub rank: u64,
    /// Where its rank returns to.
    pub home: u32,
    /// The justification that supports it while IN; none for observations.
    pub support: Option<Justification>,
    /// Its place in the order of arrival; none for what was named and has not arrived.
    pub arrival: Option<Arrival>,
    /// By how many targets of standing retractions it is covered; all whole covers of its source count as one.
    pub covers: u32,
    /// How many of its justifications have nothing missing.
    pub valid: u32,
    /// How many of its justifications are uncovered.
    pub open: u32,
    /// How many of its justifications are uncovered and wait for no arrival.
    pub ready: u32,
    /// Its newest justification.
    pub newest_justification: Option<Justification>,
    /// The newest premise that is this node.
    pub newest_use: Option<Premise>,
    /// What it is, once it has arrived.
    pub kind: Option<Kind>,
    /// Its status and why, as of the last operation.
    pub standing: Standing,
    /// Whether it is IN, at this moment of the operation.
    pub is_in: bool,
    /// Working marks.
    pub marks: Marks,
}

impl NodeState {
    /// A node that has been named and has not arrived.
    pub fn named(node: Node) -> NodeState {
        NodeState {
            commitment: 0,
            rank: 0,
            home: node.0,
            support: None,
            arrival: None,
            covers: 0,
            valid: 0,
            open: 0,
            ready: 0,
            newest_justification: None,
            newest_use: None,
            kind: None,
            standing: Standing::Pending,
            is_in: false,
            marks: Marks::default(),
        }
    }

    /// Whether it has arrived and nothing covers it.
    #[inline]
    pub fn may_be_in(&self) -> bool {
        self.arrival.is_some() && self.covers == 0
    }

    /// Whether it is an observation.
    #[inline]
    pub fn is_observation(&self) -> bool {
        self.kind == Some(Kind::Observation)
    }

    /// The standing that the rule of belief gives it, by its counts and whether it is IN.
    #[inline]
    pub fn judge(&self) -> Standing {
        if self.is_in {
            Standing::In
        } else if self.covers > 0 {
            Standing::Retracted
        } else if self.ready == 0 && self.open > 0 {
            Standing::Pending
        } else {
            Standing::Unsupported
        }
    }
}

/// The state of a justification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JustificationState {
    /// What it adds to the digest, before its weight.
    pub commitment: u128,
    /// The node that it justifies.
    pub head: Node,
    /// Premises that are not IN, plus one while it is covered.
    pub missing: u32,
    /// Premises that have not arrived.
    pub waiting: u32,
    /// By how many targets of standing retractions it is covered.
    pub covers: u32,
    /// The next older justification of the same head.
    pub next_of_head: Option<Justification>,
    /// Its premises: this many from this one on.
    pub first_premise: Premise,
    /// How many premises it has.
    pub premise_count: u32,
}

impl JustificationState {
    /// Its premises.
    #[inline]
    pub fn premises(&self) -> impl Iterator<Item = Premise> + use<> {
        let first = self.first_premise.number();
        (first..first + self.premise_count).map(Premise::new)
    }
}

/// One edge: a premise of a justification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PremiseState {
    /// The node.
    pub node: Node,
    /// The justification that needs it.
    pub justification: Justification,
    /// The next older premise that is the same node.
    pub next_use: Option<Premise>,
}

/// A graph that can be read and edited. Reading what does not exist is an error of the implementation, never a guess.
pub trait Graph {
    /// What reading can fail with; `Infallible` in memory.
    type Error;

    /// The state of a node.
    fn node(&self, node: Node) -> Result<NodeState, Self::Error>;

    /// Edits the state of a node.
    fn edit_node<R>(&mut self, node: Node, edit: impl FnOnce(&mut NodeState) -> R) -> Result<R, Self::Error>;

    /// The state of a justification.
    fn justification(&self, justification: Justification) -> Result<JustificationState, Self::Error>;

    /// Edits the state of a justification.
    fn edit_justification<R>(
        &mut self,
        justification: Justification,
        edit: impl FnOnce(&mut JustificationState) -> R,
    ) -> Result<R, Self::Error>;

    /// One edge.
    fn premise(&self, premise: Premise) -> Result<PremiseState, Self::Error>;

    /// How many nodes, justifications and premises there are: the numbers that the next ones get.
    fn sizes(&self) -> Sizes;

    /// Adds a node that has been named and has not arrived.
    fn add_node(&mut self) -> Node;

    /// Adds a justification with its edges. Its counts are for the caller to set: nothing but lists is changed here.
    fn add_justification(
        &mut self,
        head: Node,
        premises: &[Node],
        commitment: u128,
    ) -> Result<Justification, Self::Error>;
}

/// How many there are of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Nodes, named ones included.
    pub nodes: u32,
    /// Justifications.
    pub justifications: u32,
    /// Premises.
    pub premises: u32,
}
