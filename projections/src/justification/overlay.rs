//! The overlay graph: what would be, over a graph that stays as it is. For previews and what-if.

use hashbrown::HashMap;

use super::{
    graph::{Graph, Justification, JustificationState, Node, NodeState, Premise, PremiseState, Sizes},
    resident::next_number,
};

/// Edits over another graph. What is not edited is read from below.
#[derive(Debug)]
pub struct Overlay<'g, G> {
    below: &'g G,
    below_sizes: Sizes,
    nodes: HashMap<Node, NodeState>,
    justifications: HashMap<Justification, JustificationState>,
    added: Sizes,
    premises: Vec<PremiseState>,
}

impl<'g, G: Graph> Overlay<'g, G> {
    /// Nothing edited.
    pub fn over(below: &'g G) -> Self {
        Overlay {
            below,
            below_sizes: below.sizes(),
            nodes: HashMap::new(),
            justifications: HashMap::new(),
            added: Sizes::default(),
            premises: Vec::new(),
        }
    }
}

impl<G: Graph> Graph for Overlay<'_, G> {
    type Error = G::Error;

    fn node(&self, node: Node) -> Result<NodeState, G::Error> {
        self.nodes.get(&node).map_or_else(|| self.below.node(node), |state| Ok(*state))
    }

    fn edit_node<R>(&mut self, node: Node, edit: impl FnOnce(&mut NodeState) -> R) -> Result<R, G::Error> {
        let mut state = self.node(node)?;
        let answer = edit(&mut state);
        self.nodes.insert(node, state);
        Ok(answer)
    }

    fn justification(&self, justification: Justification) -> Result<JustificationState, G::Error> {
        let edited = self.justifications.get(&justification);
        edited.map_or_else(|| self.below.justification(justification), |state| Ok(*state))
    }

    fn edit_justification<R>(
        &mut self,
        justification: Justification,
        edit: impl FnOnce(&mut JustificationState) -> R,
    ) -> Result<R, G::Error> {
        let mut state = self.justification(justification)?;
        let answer = edit(&mut state);
        self.justifications.insert(justification, state);
        Ok(answer)
    }

    fn premise(&self, premise: Premise) -> Result<PremiseState, G::Error> {
        match premise.number().checked_sub(self.below_sizes.premises) {
            None => self.below.premise(premise),
            Some(added) => Ok(self.premises[added as usize]),
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            nodes: self.below_sizes.nodes + self.added.nodes,
            justifications: self.below_sizes.justifications + self.added.justifications,
            premises: self.below_sizes.premises + next_number(self.premises.len()),
        }
    }

    fn add_node(&mut self) -> Node {
        let node = Node(self.sizes().nodes);
        self.nodes.insert(node, NodeState::named(node));
        self.added.nodes += 1;
        node
    }

    fn add_justification(
        &mut self,
        head: Node,
        premises: &[Node],
        commitment: u128,
    ) -> Result<Justification, G::Error> {
        let justification = Justification::new(self.sizes().justifications);
        let first_premise = Premise::new(self.sizes().premises);
        for node in premises {
            let premise = Premise::new(self.sizes().premises);
            let next_use = self.edit_node(*node, |state| state.newest_use.replace(premise))?;
            self.premises.push(PremiseState { node: *node, justification, next_use });
        }
        let next_of_head = self.edit_node(head, |state| state.newest_justification.replace(justification))?;
        let premise_count = next_number(premises.len());
        let state = JustificationState {
            commitment,
            head,
            missing: 0,
            waiting: 0,
            covers: 0,
            next_of_head,
            first_premise,
            premise_count,
        };
        self.justifications.insert(justification, state);
        self.added.justifications += 1;
        Ok(justification)
    }
}
