//! What runs have done together.

use std::collections::BTreeSet;

use crate::oracle;

/// What runs have done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Sequences of records.
    pub graphs: u64,
    /// Of those: with a justification that rests on what it justifies, by way of others or directly.
    pub graphs_with_ring: u64,
    /// Records, accepted or not.
    pub operations: u64,
    /// Published changes of status.
    pub changes: u64,
    /// Previews that were compared with the commit.
    pub previews: u64,
    /// Times that a partition was reopened over its store.
    pub reopened: u64,
    /// Times that an open batch was abandoned.
    pub abandoned: u64,
    /// Steps towards making a paged space resident.
    pub loads: u64,
    /// Standings compared with the oracle's at an earlier offset.
    pub past_standings: u64,
    /// Nodes that lost their support for a moment, and came back.
    pub restored: u64,
    /// Nodes that switched to another support.
    pub switched: u64,
}

impl Figures {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Figures) {
        let pairs = [
            (&mut self.graphs, other.graphs),
            (&mut self.graphs_with_ring, other.graphs_with_ring),
            (&mut self.operations, other.operations),
            (&mut self.changes, other.changes),
            (&mut self.previews, other.previews),
            (&mut self.reopened, other.reopened),
            (&mut self.abandoned, other.abandoned),
            (&mut self.loads, other.loads),
            (&mut self.past_standings, other.past_standings),
            (&mut self.restored, other.restored),
            (&mut self.switched, other.switched),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
    }
}

/// Whether a node that has arrived rests on itself, by way of others or directly.
pub(super) fn has_ring(space: &oracle::Space) -> bool {
    let has_reasons = |id: &str| space.nodes.get(id).is_some_and(|node| node.identity.kind != "observation");
    let reasons: Vec<_> = space.justifications.values().filter(|reason| has_reasons(&reason.head)).collect();
    let mut left: BTreeSet<&str> = reasons.iter().map(|reason| reason.head.as_str()).collect();
    loop {
        let rests_on_left = |head: &&&str| {
            let own = |reason: &&&oracle::Justification| reason.head == ***head;
            reasons.iter().filter(own).any(|reason| reason.premises.iter().any(|id| left.contains(id.as_str())))
        };
        let next: BTreeSet<&str> = left.iter().filter(rests_on_left).copied().collect();
        if next.len() == left.len() {
            return !left.is_empty();
        }
        left = next;
    }
}
