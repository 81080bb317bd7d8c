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
//!
//! Ranks and supports depend on history. Nothing that is published does: statuses are a fixed point, and the order of
//! changes comes from [`super::cascade`].

use std::{cmp::Reverse, collections::BinaryHeap};

use hashbrown::HashMap;
use recant_proto::id::{Kind, Standing};

use super::{
    digest::{justification_weight, node_weight},
    graph::{Arrival, EditGraph, Item, Justification, JustificationState, Marks, Node, NodeState, Scratch},
};

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

/// What an operation did.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// Every node whose standing moved, in no particular order.
    pub moves: Vec<Move>,
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

/// A change to the rule, planted to show that the tests find it. Ships as [`Faithful`] alone.
pub trait Rule {
    /// Whether a valid justification can take over, by the rank of its highest premise and the node's.
    fn may_take_over(highest_premise: u64, rank: u64) -> bool {
        highest_premise < rank
    }

    /// How many covers one more makes.
    fn cover(covers: u32) -> u32 {
        covers + 1
    }

    /// How many covers one less leaves.
    fn uncover(covers: u32) -> u32 {
        covers.saturating_sub(1)
    }

    /// Whether what is uncovered is restored before what is covered is withdrawn.
    const RESTORE_FIRST: bool = false;
}

/// The rule of belief as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faithful;

impl Rule for Faithful {}

/// So many justifications of a node are looked through again rather than remembered.
const LOOKED_THROUGH_AGAIN_MAX: u32 = 8;

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
    operation.conclude()
}

struct Operation<'g, R, G: EditGraph> {
    graph: &'g mut G,
    room: Scratch<G::Use>,
    /// How far the justifications of a node have been looked through, if it has many. What was passed over has become no
    /// more valid since, as long as nothing is restored, so that a node with very many reasons is looked through once.
    looked: HashMap<Node, Option<Justification>>,
    /// The node that arrives in this operation: it has no standing before.
    arrived: Option<Node>,
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
            settled: Settled { touched: Vec::with_capacity(2 * FEW), ..Settled::default() },
            rule: std::marker::PhantomData,
        }
    }

    /// Notes a node whose standing may move, once. Until the operation is concluded its standing is the one before.
    fn touch(&mut self, node: Node) -> Result<(), G::Error> {
        let first = self.graph.edit_node(node, |state| {
            let first = !state.marks.has(Marks::TOUCHED);
            state.marks.set(Marks::TOUCHED);
            first
        })?;
        if first {
            self.settled.touched.push(node);
        }
        Ok(())
    }

    // 1. What is newly covered.

    fn cover(&mut self, items: &[Item]) -> Result<(), G::Error> {
        let mut fallen = std::mem::take(&mut self.room.fallen);
        for item in items {
            match item {
                Item::Node(node) if self.cover_node(*node)? => fallen.push(*node),
                Item::Node(_) => {}
                Item::Justification(justification) => self.cover_justification(*justification)?,
            }
        }
        self.drop_nodes(&fallen)?;
        fallen.clear();
        self.room.fallen = fallen;
        Ok(())
    }

    /// Covers a node once more, and says whether that takes it OUT.
    fn cover_node(&mut self, node: Node) -> Result<bool, G::Error> {
        self.touch(node)?;
        self.graph.edit_node(node, |state| {
            let falls = state.covers == 0 && state.is_in;
            state.covers = R::cover(state.covers);
            falls
        })
    }

    fn cover_justification(&mut self, justification: Justification) -> Result<(), G::Error> {
        let before = self.graph.justification(justification)?;
        self.settled.recovered.push(justification);
        self.graph.edit_justification(justification, |state| state.covers = R::cover(state.covers))?;
        if before.covers > 0 {
            return Ok(());
        }
        self.weigh(before.commitment.into(), justification_weight(false), justification_weight(true));
        self.touch(before.head)?;
        self.graph.edit_node(before.head, |head| {
            head.open -= 1;
            head.ready -= u32::from(before.waiting == 0);
        })?;
        self.raise_missing(justification)
    }

    /// Takes nodes OUT for now, and from whatever they support. The lists of their uses are walked side by side, so that
    /// one read of memory need not wait for another.
    fn drop_nodes(&mut self, nodes: &[Node]) -> Result<(), G::Error> {
        let mut uses = std::mem::take(&mut self.room.uses);
        for node in nodes {
            uses.extend(self.put_out(*node)?);
        }
        while !uses.is_empty() {
            let mut left = 0;
            for at in 0..uses.len() {
                if let Some(next) = self.withdraw_use(uses[at])? {
                    uses[left] = next;
                    left += 1;
                }
            }
            uses.truncate(left);
        }
        self.room.uses = uses;
        Ok(())
    }

    /// Takes one node OUT for now, and from whatever it supports.
    fn drop_node(&mut self, node: Node) -> Result<(), G::Error> {
        let mut next = self.put_out(node)?;
        while let Some(place) = next {
            next = self.withdraw_use(place)?;
        }
        Ok(())
    }

    /// Takes a node OUT for now, and gives its first use.
    fn put_out(&mut self, node: Node) -> Result<Option<G::Use>, G::Error> {
        self.graph.edit_node(node, |state| {
            state.is_in = false;
            state.support = None;
        })?;
        self.graph.first_use(node)
    }

    /// Takes a node that went OUT from one of its uses, and gives the next.
    fn withdraw_use(&mut self, place: G::Use) -> Result<Option<G::Use>, G::Error> {
        let (justification, next) = self.graph.follow(place)?;
        self.raise_missing(justification)?;
        Ok(next)
    }

    fn raise_missing(&mut self, justification: Justification) -> Result<(), G::Error> {
        let (was_valid, head) = self.graph.edit_justification(justification, |state| {
            state.missing += 1;
            (state.missing == 1, state.head)
        })?;
        if !was_valid {
            return Ok(());
        }
        let lost_at = self.graph.edit_node(head, |state| {
            state.valid -= 1;
            let lost = state.support == Some(justification) && !state.marks.has(Marks::QUEUED);
            if lost {
                state.marks.set(Marks::QUEUED);
            }
            lost.then_some(state.rank)
        })?;
        if let Some(rank) = lost_at {
            self.room.lost.push(Reverse((rank, head)));
        }
        Ok(())
    }

    // 2. Withdraw.

    fn withdraw(&mut self) -> Result<(), G::Error> {
        // What the covers took is sorted once; a heap for what falls after it is small.
        let mut first = std::mem::take(&mut self.room.lost_first);
        first.extend(self.room.lost.drain());
        first.sort_unstable();
        let lowest = |lost: &mut BinaryHeap<_>, first: &mut Vec<_>| {
            if lost.peek() > first.last() { lost.pop() } else { first.pop() }
        };
        while let Some(Reverse((_, node))) = lowest(&mut self.room.lost, &mut first) {
            self.touch(node)?;
            let state = self.graph.edit_node(node, |state| {
                state.marks.clear(Marks::QUEUED);
                *state
            })?;
            if !state.is_in {
                continue;
            }
            match self.another_support(node, &state)? {
                Some(support) => {
                    self.settled.work.switched += 1;
                    self.graph.edit_node(node, |state| state.support = Some(support))?;
                }
                None => {
                    self.settled.work.suspects += 1;
                    self.room.suspects.push(node);
                    self.graph.edit_node(node, |state| state.marks.set(Marks::SUSPECT))?;
                    self.drop_node(node)?;
                }
            }
        }
        self.room.lost_first = first;
        Ok(())
    }

    /// A valid justification whose premises all rank below the node.
    fn another_support(&mut self, node: Node, state: &NodeState) -> Result<Option<Justification>, G::Error> {
        if state.valid == 0 {
            return Ok(None);
        }
        let mut next = self.looked.get(&node).copied().unwrap_or(state.newest_justification);
        let mut passed = 0;
        while let Some(justification) = next {
            let candidate = self.graph.justification(justification)?;
            next = candidate.next_of_head;
            passed += 1;
            if candidate.missing == 0 && R::may_take_over(self.highest_premise(justification, &candidate)?, state.rank)
            {
                if passed > LOOKED_THROUGH_AGAIN_MAX {
                    self.looked.insert(node, next);
                }
                return Ok(Some(justification));
            }
        }
        Ok(None)
    }

    fn highest_premise(&self, of: Justification, state: &JustificationState) -> Result<u64, G::Error> {
        let mut highest = 0;
        for place in 0..state.premise_count {
            let node = self.graph.premise(of, state, place)?;
            highest = highest.max(self.graph.premised(node)?.rank);
        }
        Ok(highest)
    }

    // 3. What is newly uncovered, arrives, or is newly justified.

    fn take_in(&mut self, edit: &Edit) -> Result<(), G::Error> {
        for item in &edit.uncover {
            match item {
                Item::Node(node) => self.uncover_node(*node)?,
                Item::Justification(justification) => self.uncover_justification(*justification)?,
            }
        }
        if let Some(arriving) = &edit.arrive {
            self.arrive(arriving)?;
        }
        if let Some(justifying) = &edit.justify {
            self.justify(justifying)?;
        }
        Ok(())
    }

    fn uncover_node(&mut self, node: Node) -> Result<(), G::Error> {
        self.touch(node)?;
        let covers = self.graph.edit_node(node, |state| {
            state.covers = R::uncover(state.covers);
            state.covers
        })?;
        if covers == 0 { self.consider(node) } else { Ok(()) }
    }

    fn uncover_justification(&mut self, justification: Justification) -> Result<(), G::Error> {
        let after = self.graph.edit_justification(justification, |state| {
            state.covers = R::uncover(state.covers);
            *state
        })?;
        self.settled.recovered.push(justification);
        if after.covers > 0 {
            return Ok(());
        }
        self.weigh(after.commitment.into(), justification_weight(true), justification_weight(false));
        self.touch(after.head)?;
        self.graph.edit_node(after.head, |head| {
            head.open += 1;
            head.ready += u32::from(after.waiting == 0);
        })?;
        self.lower_missing(justification)
    }

    fn arrive(&mut self, arriving: &Arriving) -> Result<(), G::Error> {
        let node = arriving.node;
        self.touch(node)?;
        self.arrived = Some(node);
        self.graph.edit_node(node, |state| {
            state.kind = Some(arriving.kind);
            state.arrival = Some(arriving.arrival);
            state.commitment = arriving.commitment;
            state.covers = arriving.covers;
        })?;
        let mut uses = self.graph.first_use(node)?;
        while let Some(place) = uses {
            let (justification, next) = self.graph.follow(place)?;
            self.lower_waiting(justification)?;
            uses = next;
        }
        self.consider(node)
    }

    fn lower_waiting(&mut self, justification: Justification) -> Result<(), G::Error> {
        let after = self.graph.edit_justification(justification, |state| {
            state.waiting -= 1;
            *state
        })?;
        if after.waiting == 0 && after.covers == 0 {
            self.touch(after.head)?;
            self.graph.edit_node(after.head, |head| head.ready += 1)?;
        }
        Ok(())
    }

    fn justify(&mut self, justifying: &Justifying) -> Result<(), G::Error> {
        let head = justifying.head;
        self.touch(head)?;
        let mut missing = u16::from(justifying.covers > 0);
        let mut waiting = 0;
        for premise in &justifying.premises {
            let premise = self.graph.premised(*premise)?;
            missing += u16::from(!premise.is_in);
            waiting += u16::from(!premise.has_arrived);
        }
        let justification = self.graph.add_justification(head, &justifying.premises, justifying.commitment)?;
        self.settled.justified = Some(justification);
        self.graph.edit_justification(justification, |state| {
            state.missing = missing;
            state.waiting = waiting;
            state.covers = justifying.covers;
        })?;
        self.weigh(justifying.commitment, 0, justification_weight(justifying.covers > 0));
        if justifying.covers == 0 {
            self.graph.edit_node(head, |state| {
                state.open += 1;
                state.ready += u32::from(waiting == 0);
            })?;
        }
        if missing == 0 { self.offer_valid(justification, head) } else { Ok(()) }
    }

    /// Brings IN an observation that nothing covers, and offers a derived node all its valid justifications.
    fn consider(&mut self, node: Node) -> Result<(), G::Error> {
        let state = self.graph.node(node)?;
        if !state.may_be_in() || state.is_in {
            return Ok(());
        }
        if state.is_observation() { self.bring_in(node) } else { self.offer_all(node, &state) }
    }

    fn offer_all(&mut self, node: Node, state: &NodeState) -> Result<(), G::Error> {
        if state.valid == 0 {
            return Ok(());
        }
        let mut next = state.newest_justification;
        while let Some(justification) = next {
            let candidate = self.graph.justification(justification)?;
            if candidate.missing == 0 {
                let highest = self.highest_premise(justification, &candidate)?;
                self.room.offers.push(Reverse((highest, node, justification)));
            }
            next = candidate.next_of_head;
        }
        Ok(())
    }

    /// Puts a node IN, and in whatever it supports.
    fn bring_in(&mut self, node: Node) -> Result<(), G::Error> {
        self.graph.edit_node(node, |state| state.is_in = true)?;
        let mut uses = self.graph.first_use(node)?;
        while let Some(place) = uses {
            let (justification, next) = self.graph.follow(place)?;
            self.lower_missing(justification)?;
            uses = next;
        }
        Ok(())
    }

    fn lower_missing(&mut self, justification: Justification) -> Result<(), G::Error> {
        let (is_valid, head) = self.graph.edit_justification(justification, |state| {
            state.missing -= 1;
            (state.missing == 0, state.head)
        })?;
        if is_valid { self.offer_valid(justification, head) } else { Ok(()) }
    }

    /// Counts a justification that has become valid, and offers it to its head.
    fn offer_valid(&mut self, justification: Justification, head: Node) -> Result<(), G::Error> {
        let state = self.graph.edit_node(head, |state| {
            state.valid += 1;
            *state
        })?;
        if !state.is_in && state.may_be_in() && !state.is_observation() {
            let highest = self.highest_premise(justification, &self.graph.justification(justification)?)?;
            self.room.offers.push(Reverse((highest, head, justification)));
        }
        Ok(())
    }

    // 4. Restore.

    /// Offers suspects the justifications that are valid but rank too high to have taken over.
    fn offer_suspects(&mut self) -> Result<(), G::Error> {
        for index in 0..self.room.suspects.len() {
            let node = self.room.suspects[index];
            let state = self.graph.node(node)?;
            if !state.is_in && state.may_be_in() {
                self.offer_all(node, &state)?;
            }
        }
        Ok(())
    }

    /// While nothing is withdrawn, ranks of premises that are IN stand still: an offer's rank is exact when it is taken.
    fn restore(&mut self) -> Result<(), G::Error> {
        while let Some(Reverse((highest, node, justification))) = self.room.offers.pop() {
            self.touch(node)?;
            let state = self.graph.node(node)?;
            if state.is_in || !state.may_be_in() {
                continue;
            }
            let was_suspect = self.graph.edit_node(node, |state| {
                let was_suspect = state.marks.has(Marks::SUSPECT);
                state.marks.clear(Marks::SUSPECT);
                state.support = Some(justification);
                state.rank = state.rank.max(u64::from(state.home)).max(highest + 1);
                was_suspect
            })?;
            self.settled.work.restored += u64::from(was_suspect);
            self.bring_in(node)?;
        }
        Ok(())
    }

    // 5. What is still suspect is OUT.

    fn conclude(mut self) -> Result<Settled, G::Error> {
        self.room.suspects.clear();
        self.graph.keep_scratch(std::mem::take(&mut self.room));
        self.settled.moves.reserve_exact(self.settled.touched.len());
        for index in 0..self.settled.touched.len() {
            let node = self.settled.touched[index];
            let (standing_before, state) = self.graph.edit_node(node, |state| {
                state.marks = Marks::default();
                if !state.is_in {
                    // A node that went OUT takes its rank anew from its home when it comes back.
                    state.rank = 0;
                    state.support = None;
                }
                let before = state.standing;
                if state.arrival.is_some() {
                    state.standing = state.judge();
                }
                (before, *state)
            })?;
            if state.arrival.is_none() {
                continue;
            }
            let before = (self.arrived != Some(node)).then_some(standing_before);
            let after = state.standing;
            let weight_before = before.map_or(0, |before| node_weight(before.is_in()));
            self.weigh(state.commitment, weight_before, node_weight(after.is_in()));
            if before != Some(after) {
                self.settled.moves.push(Move { node, before, after });
            }
        }
        Ok(self.settled)
    }

    fn weigh(&mut self, commitment: u128, before: u128, after: u128) {
        let delta = commitment.wrapping_mul(after.wrapping_sub(before));
        self.settled.digest_delta = self.settled.digest_delta.wrapping_add(delta);
    }
}
