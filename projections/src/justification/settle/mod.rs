//! One operation of the engine: from what an event covers, lifts and brings to the least fixed point of the rule of belief.
//!
//! Each derived node that is IN stands on one justification, its support, and has a rank above the ranks of that
//! support's premises. So supports cannot run in circles, and a node keeps its status while its support holds, whatever
//! happens around it: the cost follows the nodes that lose their support, never the size of the graph.
//!
//! 1. What is newly covered goes OUT, before anything is restored.
//! 2. Withdraw: a node that lost its support takes another valid one of lower rank, or becomes suspect.
//! 3. What is newly uncovered, what arrives, and what is newly justified is taken in.
//! 4. Restore: suspects and others that have a valid justification come IN, the lowest rank first.
//! 5. What is still suspect is OUT.
//! 6. The changes get the order in which they are published.
//!
//! Ranks and supports depend on history. Nothing that is published does: statuses are a fixed point, and the order of
//! changes is one of the graph.

mod conclude;
mod edit;
mod restore;
mod rule;
mod scratch;
mod withdraw;

pub use edit::{Arriving, Change, Edit, Justifying, Move, Settled, Work};
use hashbrown::HashMap;
pub use rule::{Faithful, Rule};
pub use scratch::Scratch;

use super::{
    digest::justification_weight,
    graph::{EditGraph, Justification, Marks, Node, NodeState},
};

/// Room for what most operations come to.
const FEW: usize = 16;

/// Applies an edit and settles the graph.
pub fn settle<G: EditGraph>(graph: &mut G, edit: &Edit) -> Result<Settled, G::Error> {
    settle_by::<Faithful, G>(graph, edit)
}

/// [`settle`] by another rule, for the tests that plant faults.
pub fn settle_by<R: Rule, G: EditGraph>(graph: &mut G, edit: &Edit) -> Result<Settled, G::Error> {
    let mut operation = Operation::<R, G>::new(graph);
    if R::RESTORE_FIRST {
        operation.take_in(edit)?;
        operation.restore()?;
    }
    operation.cover(&edit.cover)?;
    operation.withdraw()?;
    if !R::RESTORE_FIRST {
        operation.take_in(edit)?;
    }
    operation.offer_suspects()?;
    operation.restore()?;
    operation.conclude(edit)
}

struct Operation<'g, R, G: EditGraph> {
    graph: &'g mut G,
    room: Scratch,
    /// How far the justifications of a node have been looked through, if it has many. What was passed over has become no
    /// more valid since, as long as nothing is restored, so that a node with very many reasons is looked through once.
    looked: HashMap<Node, Option<Justification>>,
    /// The node that arrives in this operation: it has no standing before.
    arrived: Option<Node>,
    /// Whether every IN node that a fallen one leads to fell when it was first reached. Then what fell lies in the order of
    /// its distances.
    falls_by_distance: bool,
    /// How many of the touched nodes have been concluded.
    concluded: usize,
    settled: Settled,
    rule: std::marker::PhantomData<R>,
}

impl<'g, R: Rule, G: EditGraph> Operation<'g, R, G> {
    fn new(graph: &'g mut G) -> Self {
        let room = graph.take_scratch();
        Operation {
            graph,
            room,
            looked: HashMap::new(),
            arrived: None,
            falls_by_distance: true,
            concluded: 0,
            settled: Settled { touched: Vec::with_capacity(2 * FEW), ..Settled::default() },
            rule: std::marker::PhantomData,
        }
    }

    /// Edits a node whose standing may move, and notes it, once. Until the operation is concluded its standing is the one
    /// before.
    fn touch<T>(&mut self, node: Node, edit: impl FnOnce(&mut NodeState) -> T) -> Result<T, G::Error> {
        let (is_noted, answer) = self.graph.edit_node(node, |state| {
            let is_noted = state.marks.has(Marks::TOUCHED);
            state.marks.set(Marks::TOUCHED);
            (is_noted, edit(state))
        })?;
        if !is_noted {
            self.settled.touched.push(node);
        }
        Ok(answer)
    }

    fn weigh(&mut self, commitment: u128, before: u128, after: u128) {
        let delta = commitment.wrapping_mul(after.wrapping_sub(before));
        self.settled.digest_delta = self.settled.digest_delta.wrapping_add(delta);
    }
}
