//! What two versions believe otherwise, node by node, and the records that say so.
//!
//! A space's differences are one cascade of that space: its summary and its changes are numbered as those of any other. Several
//! spaces of a partition have one each, with the same cause; the indexes in their ids go on from one to the next, so that ids still
//! rise.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use recant_eventlog::{ReadLog, Topic};
use recant_projections::{
    fold::{
        Message, Output,
        publish::{self, Frame},
    },
    history::{self, Turned},
    justification::{
        graph::Node,
        settle::{self, Move},
    },
    store::{Store, StoreError},
    tables::{
        ids::{self, Namespace},
        nodes, spaces,
    },
};
use recant_proto::{
    id::{CONTROL_SPACE, Kind, Standing},
    position::ChangeId,
    v1::{ByKind, Cause, Change},
};

use crate::{published::Stream, replay::ReplayError};

/// What is believed otherwise in a space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceDifferences {
    /// The space.
    pub space: String,
    /// Its nodes, in the order of arrival; last those that the new version does not have.
    pub nodes: Vec<Otherwise>,
}

/// A node of which the new version believes something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Otherwise {
    /// Its id.
    pub id: String,
    /// What it is.
    pub kind: Option<Kind>,
    /// What it was by the old version; none if it was not there.
    pub before: Option<Standing>,
    /// What it is by the new one; none if that rejects what brought it.
    pub after: Option<Standing>,
    /// Its number in the state that has it; in the new one if both do.
    number: Node,
}

/// What was published behind the position of an old state: a crash leaves it behind.
#[derive(Debug, Default)]
pub(super) struct PublishedSince(BTreeMap<(String, String), Standing>);

impl PublishedSince {
    /// From an offset on.
    pub fn read(log: &impl ReadLog, number: u32, from: u64, to: u64) -> Result<Self, ReplayError> {
        let mut since = BTreeMap::new();
        if from < to {
            let mut changes =
                Stream::up_to(log, Topic::Changes, number, log.bounds(Topic::Changes, number)?.end, None)?;
            while let Some(published) = changes.take()? {
                if let Some(change) = published.change().filter(|_| published.position.offset >= from)
                    && let Some(standing) = told(change)
                {
                    since.insert((change.space.clone(), change.node.clone()), standing);
                }
            }
        }
        Ok(PublishedSince(since))
    }

    fn of(&self, space: &str, node: &str) -> Option<Standing> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(space.to_owned(), node.to_owned())).copied()
    }
}

fn told(change: &Change) -> Option<Standing> {
    Standing::ALL
        .into_iter()
        .find(|standing| standing.status() == change.to && standing.why().unwrap_or_default() == change.why)
}

/// What is believed otherwise in all spaces.
pub(super) fn between<O: Store, N: Store>(
    old: Option<&O>,
    published_since: &PublishedSince,
    new: &N,
) -> Result<Vec<SpaceDifferences>, ReplayError> {
    let mut names: BTreeSet<String> = spaces::all(new)?.into_iter().map(|(name, _)| name).collect();
    if let Some(old) = old {
        names.extend(spaces::all(old)?.into_iter().map(|(name, _)| name));
    }
    let mut differences = Vec::new();
    for space in names.into_iter().filter(|name| name != CONTROL_SPACE) {
        let old = old.map(|old| Side::of(old, &space)).transpose()?;
        let nodes = of_space(&space, old.as_ref(), published_since, &Side::of(new, &space)?)?;
        if !nodes.is_empty() {
            differences.push(SpaceDifferences { space, nodes });
        }
    }
    Ok(differences)
}

/// The nodes of a space as one version has them.
struct Side<'a, S> {
    store: &'a S,
    row: spaces::Row,
    nodes: BTreeMap<Node, Turned>,
}

impl<'a, S: Store> Side<'a, S> {
    fn of(store: &'a S, space: &str) -> Result<Self, StoreError> {
        let Some(row) = spaces::get(store, space)? else {
            return Ok(Side { store, row: spaces::Row::default(), nodes: BTreeMap::new() });
        };
        // No node is as old as the log's own first event.
        let nodes = history::between(store, &row, 0, u64::MAX)?;
        Ok(Side { store, row, nodes })
    }

    fn node(&self, number: Node) -> Result<nodes::Whole, StoreError> {
        nodes::get(self.store, self.row.space(), number)
    }

    /// A node by its id, if it has arrived.
    fn find(&self, id: &str) -> Result<Option<(Node, Standing)>, StoreError> {
        if self.nodes.is_empty() {
            return Ok(None);
        }
        let number = ids::get(self.store, self.row.space(), Namespace::Node, id)?.map(Node);
        Ok(number.and_then(|number| Some((number, self.nodes.get(&number)?.after))))
    }
}

fn of_space<O: Store, N: Store>(
    space: &str,
    old: Option<&Side<'_, O>>,
    published_since: &PublishedSince,
    new: &Side<'_, N>,
) -> Result<Vec<Otherwise>, StoreError> {
    let mut found = Vec::new();
    let mut paired = BTreeSet::new();
    for (number, turned) in &new.nodes {
        let row = new.node(*number)?;
        let id = row.texts.id;
        let in_old = old.map(|old| old.find(&id)).transpose()?.flatten();
        paired.extend(in_old.map(|(number, _)| number));
        let before = published_since.of(space, &id).or(in_old.map(|(_, standing)| standing));
        // What was not there and is believed is a birth, and no change.
        if before.is_none_or(Standing::is_in) != turned.after.is_in() {
            let otherwise = Otherwise { id, kind: row.kind, before, after: Some(turned.after), number: *number };
            found.push((row.offset, otherwise));
        }
    }
    found.sort_by_key(|(arrived, _)| *arrived);
    let mut found: Vec<Otherwise> = found.into_iter().map(|(_, otherwise)| otherwise).collect();
    let Some(old) = old else { return Ok(found) };
    for (number, turned) in old.nodes.iter().filter(|(number, _)| !paired.contains(number)) {
        let row = old.node(*number)?;
        let before = published_since.of(space, &row.texts.id).unwrap_or(turned.after);
        if before.is_in() {
            let (id, kind) = (row.texts.id, row.kind);
            found.push(Otherwise { id, kind, before: Some(before), after: None, number: *number });
        }
    }
    Ok(found)
}

/// The records of some differences.
pub(super) fn cascades<O: Store, N: Store>(
    differences: &[SpaceDifferences],
    old: Option<&O>,
    new: &N,
    first: ChangeId,
    log_time_ms: i64,
    cause: &Cause,
) -> Result<Vec<Output>, ReplayError> {
    let mut outputs = Vec::new();
    let mut id = first;
    for SpaceDifferences { space, nodes } in differences {
        let frame = |row: spaces::Row| Frame { space, number: row.space(), first, log_time_ms, cause: cause.clone() };
        let (there, gone): (Vec<_>, Vec<_>) = nodes.iter().partition(|otherwise| otherwise.after.is_some());
        let mut records = Vec::new();
        if let Some(row) = spaces::get(new, space)? {
            records = publish::records(new, &frame(row), &changes(&there), &[])?;
        }
        if let Some(old) = old
            && let Some(row) = spaces::get(old, space)?
        {
            join(&mut records, publish::records(old, &frame(row), &changes(&gone), &[])?);
        }
        for record in records {
            let record = Change { id: id.to_string(), ..record };
            let value = record.encode_to_vec();
            outputs.push(Output { key: space.clone().into_bytes(), message: Message::Change(record), value });
            id.index += 1;
        }
    }
    Ok(outputs)
}

/// All are caused by the event itself.
fn changes(nodes: &[&Otherwise]) -> Vec<settle::Change> {
    let moved = |otherwise: &&Otherwise| Move {
        node: otherwise.number,
        before: otherwise.before,
        // What the new version does not have has no reason in it.
        after: otherwise.after.unwrap_or(Standing::Unsupported),
    };
    nodes.iter().map(|otherwise| settle::Change { moved: moved(otherwise), distance: 0 }).collect()
}

/// Makes one cascade of two.
fn join(records: &mut Vec<Change>, more: Vec<Change>) {
    let mut more = more.into_iter();
    let Some(summary) = more.next() else { return };
    match records.first_mut().and_then(|first| first.summary.as_mut()) {
        None => records.push(summary),
        Some(kept) => {
            let added = summary.summary.unwrap_or_default();
            kept.changed = sum(kept.changed, added.changed);
            kept.by_kind = kept.by_kind.zip(added.by_kind).map(|(kept, added)| ByKind {
                observation: sum(kept.observation, added.observation),
                belief: sum(kept.belief, added.belief),
                plan: sum(kept.plan, added.plan),
                action: sum(kept.action, added.action),
            });
        }
    }
    records.extend(more);
    // No more than the space has nodes, in both versions together.
    let total = records.len() as u32 - 1;
    for (index, record) in (0..).zip(records) {
        if let Some(cascade) = &mut record.cascade {
            (cascade.index, cascade.total) = (Some(index), total);
        }
    }
}

fn sum(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    Some(one.unwrap_or(0) + other.unwrap_or(0))
}
