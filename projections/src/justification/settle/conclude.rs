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
        graph::{Arrival, EditGraph, Item, Justification, Marks, Node, NodeState},
    },
    Change, Edit, Move, Operation, Rule, Settled,
};

/// Moves of one distance, which are then sorted by arrival.
pub type Frontier = Vec<(Arrival, Move)>;

impl<R: Rule, G: EditGraph> Operation<'_, R, G> {
    pub(super) fn conclude(mut self, edit: &Edit) -> Result<Settled, G::Error> {
        self.settled.changes.reserve_exact(self.settled.touched.len());
        let mut frontiers = std::mem::take(&mut self.room.frontiers);
        if self.has_fallen_by_distance(edit) {
            self.conclude_fallen(&mut frontiers[0])?;
        } else {
            self.conclude_by_walk(edit, &mut frontiers)?;
        }
        self.room.fallen.clear();
        self.room.levels.clear();
        self.room.frontiers = frontiers;
        self.graph.keep_scratch(self.room);
        Ok(self.settled)
    }

    /// Whether the operation is a cascade that fell level by level, and nothing else.
    fn has_fallen_by_distance(&self, edit: &Edit) -> bool {
        let only_covers = edit.uncover.is_empty() && edit.arrive.is_none() && edit.justify.is_none();
        only_covers && self.falls_by_distance && self.room.fallen.len() == self.settled.touched.len()
    }

    /// Concludes what fell level by level: the walk that withdrew it has found the distances.
    fn conclude_fallen(&mut self, frontier: &mut Frontier) -> Result<(), G::Error> {
        let mut commitments = 0_u128;
        let mut begin = 0;
        for (distance, end) in (0..).zip(&self.room.levels) {
            let level = &self.room.fallen[begin..*end as usize];
            begin = *end as usize;
            for node in level {
                let (arrival, commitment, moved) = self.graph.edit_node(*node, |state| {
                    let before = Some(state.standing);
                    conclude_state(state);
                    (state.arrival, state.commitment, Move { node: *node, before, after: state.standing })
                })?;
                commitments = commitments.wrapping_add(commitment);
                match arrival {
                    Some(arrival) if level.len() > 1 => frontier.push((arrival, moved)),
                    _ => self.settled.changes.push(Change { moved, distance }),
                }
            }
            frontier.sort_unstable_by_key(|(arrival, _)| *arrival);
            self.settled.changes.extend(frontier.drain(..).map(|(_, moved)| Change { moved, distance }));
        }
        self.weigh(commitments, node_weight(true), node_weight(false));
        Ok(())
    }

    /// Concludes whatever happened, by a walk from what the event names.
    fn conclude_by_walk(&mut self, edit: &Edit, [frontier, next]: &mut [Frontier; 2]) -> Result<(), G::Error> {
        self.reach_named(edit, frontier)?;
        let mut distance = 0;
        loop {
            while !frontier.is_empty() {
                self.place(frontier, distance, next)?;
                std::mem::swap(frontier, next);
                distance += 1;
            }
            if self.are_all_concluded() {
                return Ok(());
            }
            // What no change leads to has itself not changed: it has another support, or the same one again.
            for index in 0..self.settled.touched.len() {
                self.reach(self.settled.touched[index], frontier)?;
            }
        }
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
            let before = (!is_born).then_some(state.standing);
            conclude_state(state);
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

/// Gives a touched node its standing, and clears what the operation noted on it.
#[inline(always)]
fn conclude_state(state: &mut NodeState) {
    state.marks = Marks::default();
    if !state.is_in {
        // A node that went OUT takes its rank anew from its home when it comes back.
        state.rank = 0;
        state.support = None;
    }
    if state.arrival.is_some() {
        state.standing = state.judge();
    }
}
