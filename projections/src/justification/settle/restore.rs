//! Steps 3 and 4: what is newly uncovered, arrives or is newly justified is taken in, and what has a valid justification
//! comes IN, the lowest rank first.

use super::{
    super::graph::{EditGraph, Item, Justification, Marks, Node, NodeState},
    Arriving, Edit, Justifying, Operation, Rule, justification_weight,
};

impl<R: Rule, G: EditGraph> Operation<'_, R, G> {
    pub(super) fn take_in(&mut self, edit: &Edit) -> Result<(), G::Error> {
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
        let covers = self.touch(node, |state| {
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
        self.touch(after.head, |head| {
            head.open += 1;
            head.ready += u32::from(after.waiting == 0);
        })?;
        self.lower_missing(justification)
    }

    fn arrive(&mut self, arriving: &Arriving) -> Result<(), G::Error> {
        let node = arriving.node;
        self.arrived = Some(node);
        self.touch(node, |state| {
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
            self.touch(after.head, |head| head.ready += 1)?;
        }
        Ok(())
    }

    fn justify(&mut self, justifying: &Justifying) -> Result<(), G::Error> {
        let head = justifying.head;
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
        let is_open = justifying.covers == 0;
        self.touch(head, |state| {
            state.open += u32::from(is_open);
            state.ready += u32::from(is_open && waiting == 0);
        })?;
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
                self.room.offers.push((highest, node, justification));
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
            self.room.offers.push((highest, head, justification));
        }
        Ok(())
    }

    /// Offers suspects the justifications that are valid but rank too high to have taken over.
    pub(super) fn offer_suspects(&mut self) -> Result<(), G::Error> {
        while let Some(node) = self.room.passed_over.pop() {
            let state = self.graph.node(node)?;
            if !state.is_in && state.may_be_in() {
                self.offer_all(node, &state)?;
            }
        }
        Ok(())
    }

    /// While nothing is withdrawn, ranks of premises that are IN stand still: an offer's rank is exact when it is taken.
    pub(super) fn restore(&mut self) -> Result<(), G::Error> {
        while let Some((highest, node, justification)) = self.room.offers.pop() {
            let state = self.graph.node(node)?;
            if state.is_in || !state.may_be_in() {
                continue;
            }
            let was_suspect = self.touch(node, |state| {
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
}
