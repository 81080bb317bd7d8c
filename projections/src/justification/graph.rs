//! What the engine needs of a graph: the state of nodes and justifications, and the edges between them.
//!
//! Three forms: [`super::resident`] (compact arrays, for busy spaces), [`super::paged`] (point reads with a cache, for cold
//! and huge ones), and [`super::overlay`] (edits over another graph, for previews and for one operation on pages). They
//! differ in where the state lies; the rule of belief is in [`super::settle`] and nowhere else.

use std::num::NonZeroU32;

use recant_proto::id::{Kind, Standing};

use super::settle::Scratch;

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
    /// One premise of one justification, by its place in the resident graph.
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
    /// The newest premise that is this node; kept by the resident graph alone.
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

    /// Takes it OUT, and from its support.
    #[inline]
    pub fn put_out(&mut self) {
        self.is_in = false;
        self.support = None;
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

/// What a justification needs to know of a premise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Premised {
    /// Whether it is IN, at this moment of the operation.
    pub is_in: bool,
    /// Whether it has arrived.
    pub has_arrived: bool,
    /// Its rank.
    pub rank: u64,
}

impl NodeState {
    /// The node as a premise.
    #[inline]
    pub fn as_premise(&self) -> Premised {
        Premised { is_in: self.is_in, has_arrived: self.arrival.is_some(), rank: self.rank }
    }
}

/// What a node or justification adds to the digest, before its weight: a u128 in two halves, which need no more alignment
/// than the numbers beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Commitment {
    high: u64,
    low: u64,
}

impl From<u128> for Commitment {
    fn from(whole: u128) -> Self {
        Commitment { high: (whole >> 64) as u64, low: whole as u64 }
    }
}

impl From<Commitment> for u128 {
    fn from(halves: Commitment) -> Self {
        u128::from(halves.high) << 64 | u128::from(halves.low)
    }
}

/// The state of a justification. It has at most 1,024 premises, which the contract promises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JustificationState {
    /// What it adds to the digest, before its weight.
    pub commitment: Commitment,
    /// The node that it justifies.
    pub head: Node,
    /// By how many targets of standing retractions it is covered.
    pub covers: u32,
    /// The next older justification of the same head.
    pub next_of_head: Option<Justification>,
    /// Where its premises begin in the resident graph; they lie side by side.
    pub first_premise: Premise,
    /// Premises that are not IN, plus one while it is covered.
    pub missing: u16,
    /// Premises that have not arrived.
    pub waiting: u16,
    /// How many premises it has.
    pub premise_count: u16,
}

impl JustificationState {
    /// A justification whose counts are for the engine to set.
    pub fn new(head: Node, next_of_head: Option<Justification>, commitment: u128, premise_count: usize) -> Self {
        JustificationState {
            commitment: commitment.into(),
            head,
            covers: 0,
            next_of_head,
            first_premise: Premise::new(0),
            missing: 0,
            waiting: 0,
            premise_count: u16::try_from(premise_count).unwrap_or(u16::MAX),
        }
    }
}

/// A graph that can be read. Reading what does not exist is an error of the implementation, never a guess.
pub trait Graph {
    /// What reading can fail with; `Infallible` in memory.
    type Error;

    /// A place in the list of the justifications that need a node.
    type Use: Copy;

    /// The state of a node.
    fn node(&self, node: Node) -> Result<NodeState, Self::Error>;

    /// A node as a premise: less than its state, and cheaper where that has to be counted.
    fn premised(&self, node: Node) -> Result<Premised, Self::Error>;

    /// The state of a justification.
    fn justification(&self, justification: Justification) -> Result<JustificationState, Self::Error>;

    /// One of the premises of a justification whose state is given, by its place among them.
    fn premise(&self, of: Justification, state: &JustificationState, place: u16) -> Result<Node, Self::Error>;

    /// Where the list of the justifications that need a node begins.
    fn first_use(&self, node: Node) -> Result<Option<Self::Use>, Self::Error>;

    /// The justification at a place of such a list, and the next place.
    fn follow(&self, place: Self::Use) -> Result<(Justification, Option<Self::Use>), Self::Error>;

    /// How many nodes and justifications there are: the numbers that the next ones get.
    fn sizes(&self) -> Sizes;
}

/// A graph that can be edited.
pub trait EditGraph: Graph {
    /// Room to work in, which a graph may have kept.
    fn take_scratch(&mut self) -> Scratch {
        Scratch::default()
    }

    /// Gives that room back.
    fn keep_scratch(&mut self, _scratch: Scratch) {}

    /// Edits the state of a node.
    fn edit_node<R>(&mut self, node: Node, edit: impl FnOnce(&mut NodeState) -> R) -> Result<R, Self::Error>;

    /// Edits the state of a justification.
    fn edit_justification<R>(
        &mut self,
        justification: Justification,
        edit: impl FnOnce(&mut JustificationState) -> R,
    ) -> Result<R, Self::Error>;

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
}
