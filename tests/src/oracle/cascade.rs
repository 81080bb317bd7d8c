//! What an event changed, how far away, and in which order: DESIGN 5.

use std::collections::{BTreeMap, BTreeSet};

use super::{Justification, Node, Space, Standing, Target};

/// One node's move from one status to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The node.
    pub node: String,
    /// Its kind.
    pub kind: String,
    /// `IN` or `OUT`; absent for a node that was born OUT.
    pub from: Option<&'static str>,
    /// `IN` or `OUT`.
    pub to: &'static str,
    /// Why it is OUT.
    pub why: Option<&'static str>,
    /// Steps from what the event names, through nodes that changed.
    pub distance: u32,
}

/// What an accepted event names: the nodes that it creates or justifies, and the targets that begin or end by it.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) heads: BTreeSet<String>,
    pub(super) targets: Vec<Target>,
    pub(super) sources: usize,
}

impl Space {
    pub(super) fn changes(&self, before: &BTreeMap<String, Standing>, named: &Named) -> Vec<Change> {
        let is_in = |standings: &BTreeMap<String, Standing>, id: &str| standings.get(id) == Some(&Standing::In);
        let moved = |id: &str| is_in(before, id) != is_in(&self.standings, id);
        let mut distances: BTreeMap<&str, u32> = BTreeMap::new();
        let mut frontier: Vec<&str> = self.named_nodes(named).collect();
        for distance in 0.. {
            frontier.retain(|id| !distances.contains_key(id));
            if frontier.is_empty() {
                break;
            }
            distances.extend(frontier.iter().map(|id| (*id, distance)));
            let reaches = |justification: &&Justification| {
                justification.premises.iter().any(|premise| moved(premise) && frontier.contains(&premise.as_str()))
            };
            frontier =
                self.justifications.values().filter(reaches).map(|justification| justification.head.as_str()).collect();
        }
        let mut changes: Vec<(u64, Change)> = Vec::new();
        for (id, standing) in &self.standings {
            let from = before.get(id).map(|standing| standing.status());
            let (Some(node), to) = (self.nodes.get(id), standing.status()) else { continue };
            if from != Some(to) && (from, to) != (None, "IN") {
                let distance = distances.get(id.as_str()).copied().unwrap_or(u32::MAX);
                let kind = node.identity.kind.clone();
                changes
                    .push((node.arrival, Change { node: id.clone(), kind, from, to, why: standing.why(), distance }));
            }
        }
        changes.sort_by_key(|(arrival, change)| (change.distance, *arrival));
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// The nodes at distance 0; a matched justification stands for its head.
    fn named_nodes<'a>(&'a self, named: &'a Named) -> impl Iterator<Item = &'a str> {
        let covered = |id: &str, node: &Node| named.targets.iter().any(|target| target.covers_node(id, node));
        let nodes = self.nodes.iter().filter(move |(id, node)| covered(id, node)).map(|(id, _)| id);
        let reason = |id: &str, reason: &Justification| {
            named.targets.iter().any(|target| target.covers_justification(id, reason))
        };
        let reasons = self.justifications.iter().filter(move |(id, justification)| reason(id, justification));
        let heads = reasons.map(|(_, justification)| &justification.head);
        named.heads.iter().chain(nodes).chain(heads).map(String::as_str)
    }
}
