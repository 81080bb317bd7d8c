//! The two sides of a comparison: what became of each node since something was changed, really and in the branch.
//!
//! Most of what came since is the same on both sides. It is told by numbers, in the order of the tables, and only what differs is
//! looked up by its id.

use std::collections::{BTreeMap, BTreeSet};

use recant_projections::{
    history::{self, Turned},
    justification::graph::Node,
    store::Store,
    tables::{
        SpaceNumber, Table, actions,
        ids::{self, Namespace},
        nodes, spaces,
    },
};
use recant_proto::id::{Kind, Standing};

use super::{Action, Change, Doubtful, Outcome, Refused};
use crate::{compare::Side, replay::ReplayError};

/// The real state and that of the branch.
pub(super) struct Sides<'a, R, B> {
    real: &'a R,
    branch: &'a B,
    real_space: spaces::Row,
    branch_space: spaces::Row,
    /// What really turned or arrived behind the change.
    really: BTreeMap<Node, Turned>,
    /// The same in the branch.
    what_if: BTreeMap<Node, Turned>,
    same: Same,
}

/// How far numbers stand for the same nodes on both sides.
struct Same {
    /// Nodes that had been named when the sides parted.
    shared: u32,
    /// Below this number all are the same.
    below: u32,
    /// Those that were named in between and were born IN really, and OUT in the branch.
    born_out: BTreeSet<Node>,
}

impl Same {
    /// Whether what is known of the births of a node says that it was not born OUT in the branch alone.
    fn is_born_alike(&self, node: Node) -> bool {
        (self.shared..self.below).contains(&node.0) && !self.born_out.contains(&node)
    }
}

impl<'a, R: Store, B: Store> Sides<'a, R, B> {
    /// Both, of a space. Of so many nodes it is known that they have the same numbers.
    pub fn of(
        real: &'a R,
        branch: &'a B,
        space: &str,
        change: &Change,
        shared_nodes: u32,
    ) -> Result<Self, ReplayError> {
        let real_space = spaces::get(real, space)?.unwrap_or_default();
        let branch_space = spaces::get(branch, space)?.unwrap_or_default();
        let first = change.without.first().map_or(change.after, |first| change.after.min(first.saturating_sub(1)));
        let really = history::between(real, &real_space, first, u64::MAX)?;
        let what_if = history::between(branch, &branch_space, first, u64::MAX)?;
        let same = same((real, real_space.space()), (branch, branch_space.space()), shared_nodes)?;
        Ok(Sides { real, branch, real_space, branch_space, really, what_if, same })
    }

    /// Ids of all that turned on either side, but for what clearly became the same.
    fn turned(&self) -> Result<BTreeSet<String>, ReplayError> {
        let mut ids = BTreeSet::new();
        let is_same = |node: &&Node| match (self.really.get(*node), self.what_if.get(*node)) {
            (Some(really), Some(what_if)) => {
                node.0 < self.same.below && really.after.status() == what_if.after.status()
            }
            _ => false,
        };
        for node in self.really.keys().filter(|node| !is_same(node)) {
            ids.insert(nodes::get(self.real, self.real_space.space(), *node)?.texts.id);
        }
        for node in self.what_if.keys().filter(|node| !is_same(node)) {
            ids.insert(nodes::get(self.branch, self.branch_space.space(), *node)?.texts.id);
        }
        Ok(ids)
    }

    /// What would be something else.
    pub fn outcomes(&self) -> Result<Vec<Outcome>, ReplayError> {
        let mut outcomes = Vec::new();
        for id in self.turned()? {
            let really = end_of(self.real, self.real_space.space(), &id, &self.really)?;
            let what_if = end_of(self.branch, self.branch_space.space(), &id, &self.what_if)?;
            // What did not turn on one side is there as it was when they parted.
            let really_standing = really.standing.or(what_if.before);
            let branch_standing = what_if.standing.or(really.before);
            let status = |standing: Option<Standing>| standing.map(Standing::status);
            if status(really_standing) == status(branch_standing) {
                continue;
            }
            let row = match really.node {
                Some(node) => nodes::get(self.real, self.real_space.space(), node)?,
                None => match what_if.node {
                    Some(node) => nodes::get(self.branch, self.branch_space.space(), node)?,
                    None => continue,
                },
            };
            let kind = row.kind.map_or("", Kind::as_str);
            let action = match row.kind {
                Some(Kind::Action) => self.action(&id)?,
                _ => None,
            };
            let outcome = Outcome {
                node: id,
                kind,
                subject: row.texts.subject,
                really: status(really_standing),
                what_if: status(branch_standing),
                why: branch_standing.and_then(Standing::why),
                action,
            };
            outcomes.push((row.offset, outcome));
        }
        outcomes.sort_by_key(|(arrived, _)| *arrived);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    /// What arrived on both sides behind the change: really IN, and OUT in the branch.
    pub fn doubtful(&self, at: &dyn Fn(u64) -> String) -> Result<Vec<Doubtful>, ReplayError> {
        let mut doubtful = Vec::new();
        let born = self.really.iter().filter(|(_, turned)| turned.before.is_none()).map(|(node, _)| node);
        for node in born.filter(|node| !self.same.is_born_alike(**node)) {
            let value = nodes::value(self.real, self.real_space.space(), *node)?;
            let row = nodes::Row::decode(&value)?;
            let Some(head) = row.head.filter(|head| head.standing.is_in() && head.kind != Kind::Observation) else {
                continue;
            };
            let texts = row.texts()?;
            let branch_space = self.branch_space.space();
            let Some(there) = ids::get(self.branch, branch_space, Namespace::Node, &texts.id)?.map(Node) else {
                continue;
            };
            let there = nodes::value(self.branch, branch_space, there)?;
            let was_in = nodes::Row::decode(&there)?.head.is_none_or(|head| head.standing.is_in());
            if !was_in {
                let action = if head.kind == Kind::Action { self.action(&texts.id)? } else { None };
                doubtful.push((
                    head.offset,
                    Doubtful {
                        position: at(head.offset),
                        event: texts.event,
                        node: texts.id,
                        kind: head.kind.as_str(),
                        action,
                    },
                ));
            }
        }
        doubtful.sort_by_key(|(offset, _)| *offset);
        Ok(doubtful.into_iter().map(|(_, doubtful)| doubtful).collect())
    }

    /// An action as it really is, or as it would be if it is not.
    fn action(&self, id: &str) -> Result<Option<Action>, ReplayError> {
        let row = match ids::get(self.real, self.real_space.space(), Namespace::Node, id)? {
            Some(node) => actions::get(self.real, self.real_space.space(), Node(node))?,
            None => match ids::get(self.branch, self.branch_space.space(), Namespace::Node, id)? {
                Some(node) => actions::get(self.branch, self.branch_space.space(), Node(node))?,
                None => None,
            },
        };
        Ok(row.map(|row| Action {
            action_type: row.action_type,
            state: row.state,
            amount: row.amount,
            currency: row.currency,
        }))
    }

    /// Whether an event that the branch refuses was really taken; what is in no log counts as such.
    pub fn was_accepted(&self, refused: &Refused) -> bool {
        let key = recant_projections::tables::events::key(self.real_space.space(), &refused.event);
        let known = self.real.get(recant_projections::tables::Table::Events, &key);
        refused.position.is_none() || known.is_ok_and(|known| known.is_some())
    }
}

/// What became of a node on one side.
struct End {
    node: Option<Node>,
    /// Its standing at the end, if it turned behind the change.
    standing: Option<Standing>,
    /// Its standing when the sides parted, if it turned and was there.
    before: Option<Standing>,
}

fn end_of(
    store: &impl Store,
    space: SpaceNumber,
    id: &str,
    turned: &BTreeMap<Node, Turned>,
) -> Result<End, ReplayError> {
    let node = ids::get(store, space, Namespace::Node, id)?.map(Node);
    let found = node.and_then(|node| turned.get(&node));
    Ok(End { node, standing: found.map(|found| found.after), before: found.and_then(|found| found.before) })
}

/// Goes through the nodes of both sides that were named since they parted, as long as they are the same.
fn same<R: Store, B: Store>(
    (real, real_space): (&R, SpaceNumber),
    (branch, branch_space): (&B, SpaceNumber),
    shared: u32,
) -> Result<Same, ReplayError> {
    let (real, branch) = (Side::of(real, real_space), Side::of(branch, branch_space));
    let mut really = real.rows_from(Table::Nodes, &nodes::key(real_space, Node(shared)));
    let mut what_if = branch.rows_from(Table::Nodes, &nodes::key(branch_space, Node(shared)));
    let mut same = Same { shared, below: shared, born_out: BTreeSet::new() };
    while let (Some((key, one)), Some((other_key, other))) = (really.next()?, what_if.next()?) {
        let (one, other) = (nodes::Row::decode(&one)?, nodes::Row::decode(&other)?);
        if key != other_key || one.names()?.id != other.names()?.id {
            break;
        }
        let is_in = |row: &nodes::Row<'_>| row.head.as_ref().is_none_or(|head| head.standing.is_in());
        if is_in(&one) && !is_in(&other) {
            same.born_out.insert(Node(same.below));
        }
        same.below += 1;
    }
    Ok(same)
}
