//! Steps 1 and 2: what is newly covered goes OUT, and what rested on it takes another support or becomes suspect.

use std::ops::Range;

use super::{
    super::graph::{EditGraph, Item, Justification, JustificationState, Marks, Node, NodeState},
    Operation, Rule, justification_weight,
};

/// So many justifications of a node are looked through again rather than remembered.
const LOOKED_THROUGH_AGAIN_MAX: u32 = 8;

impl<R: Rule, G: EditGraph> Operation<'_, R, G> {
    pub(super) fn cover(&mut self, items: &[Item]) -> Result<(), G::Error> {
        // Nodes first: one that is covered is no suspect, also where its reason is covered too.
        for item in items {
            if let Item::Node(node) = item {
                self.cover_node(*node)?;
            }
        }
        for item in items {
            if let Item::Justification(justification) = item {
                self.cover_justification(*justification)?;
            }
        }
        Ok(())
    }

    fn cover_node(&mut self, node: Node) -> Result<(), G::Error> {
        let falls = self.touch(node, |state| {
            let falls = state.covers == 0 && state.is_in;
            state.covers = R::cover(state.covers);
            if falls {
                state.put_out();
            }
            falls
        })?;
        if falls {
            self.room.fallen.push(node);
        }
        Ok(())
    }

    fn cover_justification(&mut self, justification: Justification) -> Result<(), G::Error> {
        let before = self.graph.justification(justification)?;
        self.settled.recovered.push(justification);
        self.graph.edit_justification(justification, |state| state.covers = R::cover(state.covers))?;
        if before.covers > 0 {
            return self.pass_by(before.head);
        }
        self.weigh(before.commitment.into(), justification_weight(false), justification_weight(true));
        self.touch(before.head, |head| {
            head.open -= 1;
            head.ready -= u32::from(before.waiting == 0);
        })?;
        self.raise_missing(justification)
    }

    /// What has fallen takes what it supports with it, the first first: so one read of memory need not wait for another,
    /// and most cascades fall in the order of their distances.
    pub(super) fn withdraw(&mut self) -> Result<(), G::Error> {
        let mut walked = 0;
        loop {
            let level_end = self.room.fallen.len();
            if self.falls_by_distance {
                // Less than there are nodes, which are less than 2^32.
                self.room.levels.push(u32::try_from(level_end).unwrap_or(u32::MAX));
            }
            if walked < level_end {
                self.walk(walked..level_end)?;
                walked = level_end;
            } else if let Some((_, node)) = self.room.lost.pop() {
                self.look_for_support(node)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Takes fallen nodes from the justifications that need them.
    fn walk(&mut self, fallen: Range<usize>) -> Result<(), G::Error> {
        for place in fallen {
            let mut uses = self.graph.first_use(self.room.fallen[place])?;
            while let Some(place) = uses {
                let (justification, next) = self.graph.follow(place)?;
                self.raise_missing(justification)?;
                uses = next;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn raise_missing(&mut self, justification: Justification) -> Result<(), G::Error> {
        let (was_valid, head) = self.graph.edit_justification(justification, |state| {
            state.missing += 1;
            (state.missing == 1, state.head)
        })?;
        if was_valid { self.withdraw_support(justification, head) } else { self.pass_by(head) }
    }

    /// An IN node that is named or reached and does not fall at once may fall later, further down than its distance.
    #[inline(always)]
    fn pass_by(&mut self, node: Node) -> Result<(), G::Error> {
        self.falls_by_distance = self.falls_by_distance && !self.graph.premised(node)?.is_in;
        Ok(())
    }

    /// Takes a justification that is no longer valid from the node that it justifies. If the node stood on it and has no
    /// other, it falls at once; else the others wait until all that falls at once has fallen.
    #[inline(always)]
    fn withdraw_support(&mut self, justification: Justification, head: Node) -> Result<(), G::Error> {
        let lost = self.graph.edit_node(head, |state| {
            state.valid -= 1;
            (state.support == Some(justification)).then_some((state.valid, state.rank))
        })?;
        match lost {
            Some((0, _)) => self.suspect(head),
            Some((_, rank)) => {
                self.falls_by_distance = false;
                self.room.lost.push((rank, head));
                Ok(())
            }
            None => {
                self.falls_by_distance = false;
                Ok(())
            }
        }
    }

    /// Takes a node that has lost its support OUT for now.
    #[inline(always)]
    fn suspect(&mut self, node: Node) -> Result<(), G::Error> {
        self.settled.work.suspects += 1;
        self.touch(node, |state| {
            state.put_out();
            state.marks.set(Marks::SUSPECT);
        })?;
        self.room.fallen.push(node);
        Ok(())
    }

    /// Gives a node that has lost its support another, if it can have one.
    fn look_for_support(&mut self, node: Node) -> Result<(), G::Error> {
        let state = self.graph.node(node)?;
        if !state.is_in {
            return Ok(());
        }
        let Some(support) = self.another_support(node, &state)? else {
            if state.valid > 0 {
                self.room.passed_over.push(node);
            }
            return self.suspect(node);
        };
        self.settled.work.switched += 1;
        self.touch(node, |state| state.support = Some(support))
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

    pub(super) fn highest_premise(&self, of: Justification, state: &JustificationState) -> Result<u64, G::Error> {
        let mut highest = 0;
        for place in 0..state.premise_count {
            let node = self.graph.premise(of, state, place)?;
            highest = highest.max(self.graph.premised(node)?.rank);
        }
        Ok(highest)
    }
}
