//! The overlay graph: edits over a graph that stays as it is. For previews, what-if, and one operation on pages.

use hashbrown::HashMap;

use super::graph::{EditGraph, Graph, Justification, JustificationState, Node, NodeState, Premised, Sizes};

/// Edits over another graph. What is not edited is read from below.
#[derive(Debug)]
pub struct Overlay<'g, G: Graph> {
    below: &'g G,
    sizes: Sizes,
    edits: Edits,
    /// Premises that were added, with the place that follows each in the list of its node.
    added: Vec<Added<G::Use>>,
    newest_added: HashMap<Node, u32>,
}

/// What an overlay holds.
#[derive(Debug, Default)]
pub struct Edits {
    /// Nodes by their new states.
    pub nodes: HashMap<Node, NodeState>,
    /// Justifications by their new states.
    pub justifications: HashMap<Justification, JustificationState>,
    /// Justifications that were added, with their premises.
    pub premises: HashMap<Justification, Vec<Node>>,
}

#[derive(Debug, Clone, Copy)]
struct Added<U> {
    justification: Justification,
    next: Option<Place<U>>,
}

/// A place in a list whose newest entries were added.
#[derive(Debug, Clone, Copy)]
pub enum Place<U> {
    /// In the overlay.
    Added(u32),
    /// Below it.
    Below(U),
}

impl<'g, G: Graph> Overlay<'g, G> {
    /// Nothing edited.
    pub fn over(below: &'g G) -> Self {
        let (edits, added, newest_added) = (Edits::default(), Vec::new(), HashMap::new());
        Overlay { below, sizes: below.sizes(), edits, added, newest_added }
    }

    /// What was edited.
    pub fn into_edits(self) -> Edits {
        self.edits
    }
}

impl<G: Graph> Graph for Overlay<'_, G> {
    type Error = G::Error;
    type Use = Place<G::Use>;

    fn node(&self, node: Node) -> Result<NodeState, G::Error> {
        self.edits.nodes.get(&node).map_or_else(|| self.below.node(node), |state| Ok(*state))
    }

    fn premised(&self, node: Node) -> Result<Premised, G::Error> {
        self.edits.nodes.get(&node).map_or_else(|| self.below.premised(node), |state| Ok(state.as_premise()))
    }

    fn justification(&self, justification: Justification) -> Result<JustificationState, G::Error> {
        let edited = self.edits.justifications.get(&justification);
        edited.map_or_else(|| self.below.justification(justification), |state| Ok(*state))
    }

    fn premise(&self, of: Justification, state: &JustificationState, place: u16) -> Result<Node, G::Error> {
        match self.edits.premises.get(&of) {
            None => self.below.premise(of, state, place),
            Some(premises) => Ok(premises[usize::from(place)]),
        }
    }

    fn first_use(&self, node: Node) -> Result<Option<Self::Use>, G::Error> {
        match self.newest_added.get(&node) {
            Some(added) => Ok(Some(Place::Added(*added))),
            None => Ok(self.below.first_use(node)?.map(Place::Below)),
        }
    }

    fn follow(&self, place: Self::Use) -> Result<(Justification, Option<Self::Use>), G::Error> {
        match place {
            Place::Added(added) => {
                let added = &self.added[added as usize];
                Ok((added.justification, added.next))
            }
            Place::Below(place) => {
                let (justification, next) = self.below.follow(place)?;
                Ok((justification, next.map(Place::Below)))
            }
        }
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }
}

impl<G: Graph> EditGraph for Overlay<'_, G> {
    fn edit_node<R>(&mut self, node: Node, edit: impl FnOnce(&mut NodeState) -> R) -> Result<R, G::Error> {
        let mut state = self.node(node)?;
        let answer = edit(&mut state);
        self.edits.nodes.insert(node, state);
        Ok(answer)
    }

    fn edit_justification<R>(
        &mut self,
        justification: Justification,
        edit: impl FnOnce(&mut JustificationState) -> R,
    ) -> Result<R, G::Error> {
        let mut state = self.justification(justification)?;
        let answer = edit(&mut state);
        self.edits.justifications.insert(justification, state);
        Ok(answer)
    }

    fn add_justification(
        &mut self,
        head: Node,
        premises: &[Node],
        commitment: u128,
    ) -> Result<Justification, G::Error> {
        let justification = Justification::new(self.sizes.justifications);
        self.sizes.justifications += 1;
        for node in premises {
            let next = self.first_use(*node)?;
            // At most the premises of the justifications of one operation.
            self.newest_added.insert(*node, self.added.len() as u32);
            self.added.push(Added { justification, next });
        }
        let next_of_head = self.edit_node(head, |state| state.newest_justification.replace(justification))?;
        let state = JustificationState::new(head, next_of_head, commitment, premises.len());
        self.edits.justifications.insert(justification, state);
        self.edits.premises.insert(justification, premises.to_vec());
        Ok(justification)
    }
}
