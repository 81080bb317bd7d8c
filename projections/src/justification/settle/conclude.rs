//! Steps 5 and 6: what is still suspect is OUT, and the changes get the order in which they are published: by distance
//! from what the event names, then by arrival.
//!
//! Distance is 0 for a changed node that the event covers, lifts, brings or justifies (a justification stands for its
//! head); from there breadth-first from premise to head, over every justification known, through changed nodes and the
//! node that the event bears. A change is named or has such a premise, so every change is reached.
//!
//! A node is concluded when it is first reached: in one walk it gets its standing, its weight in the digest and its place.

use super::{
    super::{
        digest::node_weight,
        graph::{Arrival, EditGraph, Item, Justification, Marks, Node},
    },
    Change, Edit, Move, Operation, Rule, Settled,
};

/// Moves of one distance, which are then sorted by arrival.
pub type Frontier = Vec<(Arrival, Move)>;

impl<R: Rule, G: EditGraph> Operation<'_, R, G> {
    pub(super) fn conclude(mut self, edit: &Edit) -> Result<Settled, G::Error> {
        let [mut frontier, mut next] = std::mem::take(&mut self.room.frontiers);
        self.reach_named(edit, &mut frontier)?;
        self.settled.changes.reserve_exact(self.settled.touched.len());
        let mut distance = 0;
        loop {
            while !frontier.is_empty() {
                self.place(&mut frontier, distance, &mut next)?;
                std::mem::swap(&mut frontier, &mut next);
                distance += 1;
            }
            if self.are_all_concluded() {
                break;
            }
            // What no change leads to has itself not changed: it has another support, or the same one again.
            for index in 0..self.settled.touched.len() {
                self.reach(self.settled.touched[index], &mut frontier)?;
            }
        }
        self.room.frontiers = [frontier, next];
        self.graph.keep_scratch(self.room);
        Ok(self.settled)
    }

    fn are_all_concluded(&self) -> bool {
        self.concluded == self.settled.touched.len()
    }

    /// Puts what an event names on the frontier.
    fn reach_named(&mut self, edit: &Edit, frontier: &mut Frontier) -> Result<(), G::Error> {
        for item in edit.cover.iter().chain(&edit.uncover) {
            match item {
                Item::Node(node) => self.reach(*node, frontier)?,
                Item::Justification(justification) => self.reach_head(*justification, frontier)?,
            }
        }
        if let Some(arriving) = &edit.arrive {
            self.reach(arriving.node, frontier)?;
        }
        if let Some(justification) = self.settled.justified {
            self.reach_head(justification, frontier)?;
        }
        Ok(())
    }

    /// Gives the moves of one distance their places, and finds those of the next.
    fn place(&mut self, frontier: &mut Frontier, distance: u32, next: &mut Frontier) -> Result<(), G::Error> {
        frontier.sort_unstable_by_key(|(arrival, _)| *arrival);
        for (_, moved) in frontier.drain(..) {
            if moved.is_change() {
                self.settled.changes.push(Change { moved, distance });
            } else {
                self.settled.unpublished.push(moved);
            }
            // The last ones need not be followed to see that they lead nowhere.
            let mut uses = if self.are_all_concluded() { None } else { self.graph.first_use(moved.node)? };
            while let Some(place) = uses {
                let (justification, after) = self.graph.follow(place)?;
                self.reach_head(justification, next)?;
                uses = after;
            }
        }
        Ok(())
    }

    fn reach_head(&mut self, justification: Justification, frontier: &mut Frontier) -> Result<(), G::Error> {
        let head = self.graph.justification(justification)?.head;
        self.reach(head, frontier)
    }

    /// Concludes a touched node, once. If it leads on, it is put on the frontier: a birth IN is no change, but what waited
    /// for it is reached through it.
    fn reach(&mut self, node: Node, frontier: &mut Frontier) -> Result<(), G::Error> {
        let is_born = self.arrived == Some(node);
        let concluded = self.graph.edit_node(node, |state| {
            if !state.marks.has(Marks::TOUCHED) {
                return None;
            }
            state.marks = Marks::default();
            if !state.is_in {
                // A node that went OUT takes its rank anew from its home when it comes back.
                state.rank = 0;
                state.support = None;
            }
            let before = (!is_born).then_some(state.standing);
            if state.arrival.is_some() {
                state.standing = state.judge();
            }
            Some((state.arrival, state.commitment, Move { node, before, after: state.standing }))
        })?;
        let Some((arrival, commitment, moved)) = concluded else { return Ok(()) };
        self.concluded += 1;
        let Some(arrival) = arrival.filter(|_| moved.before != Some(moved.after)) else { return Ok(()) };
        let weight_before = moved.before.map_or(0, |before| node_weight(before.is_in()));
        self.weigh(commitment, weight_before, node_weight(moved.after.is_in()));
        if moved.is_change() || is_born {
            frontier.push((arrival, moved));
        } else {
            self.settled.unpublished.push(moved);
        }
        Ok(())
    }
}
