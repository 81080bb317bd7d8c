//! Whether the state of a space is right, counted anew from its rows: for `recant doctor` and for tests.

use std::collections::HashMap;

use recant_proto::id::{Kind, Standing};

use crate::{
    fold::space::{Space, There, known_targets, scan_space},
    history,
    justification::{
        covers::{Catalogue as _, Standing as Standings, Window},
        digest::{Committer, justification_weight, node_weight, to_hex},
        graph::Item,
        invariants,
        resident::Resident,
    },
    store::{Store, StoreError},
    tables::{Table, decode, partition, retractions, sources},
};

/// So many violations are named.
const VIOLATIONS_MAX: usize = 10;

/// Everything that is wrong with a space, in words; nothing if all is well.
pub fn space(store: &impl Store, name: &str) -> Result<Vec<String>, StoreError> {
    let Some(space) = Space::load(store, name)? else { return Ok(Vec::new()) };
    let graph = resident(&space)?;
    let mut wrong: Vec<String> = invariants::check(graph, VIOLATIONS_MAX)
        .into_iter()
        .map(|broken| format!("{}: {}", broken.invariant, broken.found))
        .collect();
    if let Err(found) = history::agrees_with(store, &space)? {
        wrong.push(format!("history: {found}"));
    }
    let counted = digest(store, &space)?;
    if counted != space.row.digest() {
        wrong.push(format!("digest: {} is kept, {} counted", to_hex(space.row.digest()), to_hex(counted)));
    }
    wrong.extend(covers(store, &space)?);
    let nodes_in = graph.nodes().filter(|(_, node)| node.arrival.is_some() && node.standing == Standing::In).count();
    if nodes_in != space.row.nodes_in as usize {
        wrong.push(format!("nodes IN: {} are kept, {nodes_in} counted", space.row.nodes_in));
    }
    wrong.extend(segments(store, &space)?);
    Ok(wrong)
}

/// A space that was loaded whole.
fn resident(space: &Space) -> Result<&Resident, StoreError> {
    space.resident().ok_or_else(|| StoreError::Io(format!("the space {:?} is not loaded whole", space.name)))
}

/// The state digest, counted from nothing.
pub fn digest(store: &impl Store, space: &Space) -> Result<u128, StoreError> {
    let key = partition::get(store)?.map(|row| row.commitment_key).unwrap_or_default();
    let committer = Committer::new(&key);
    let mut digest = 0_u128;
    let mut add = |commitment: u128, weight: u128| digest = digest.wrapping_add(commitment.wrapping_mul(weight));
    for (_, node) in resident(space)?.nodes().filter(|(_, node)| node.arrival.is_some()) {
        add(node.commitment, node_weight(node.standing.is_in()));
    }
    for (_, justification) in resident(space)?.justifications() {
        add(justification.commitment.into(), justification_weight(justification.covers > 0));
    }
    scan_space(store, Table::Sources, space.number(), |_, value| {
        let row: sources::Row = decode(Table::Sources, value)?;
        if row.exists {
            add(committer.source(&row.known()), 1);
        }
        Ok(())
    })?;
    scan_space(store, Table::Retractions, space.number(), |_, value| {
        let row: retractions::Row = decode(Table::Retractions, value)?;
        if row.stands() {
            add(committer.retraction(&row.id, &row.targets), 1);
        }
        Ok(())
    })?;
    Ok(digest)
}

/// Covers of nodes and justifications against the retractions that stand, each planned anew.
fn covers(store: &impl Store, space: &Space) -> Result<Vec<String>, StoreError> {
    let mut standing = Vec::new();
    scan_space(store, Table::Retractions, space.number(), |number, value| {
        let row: retractions::Row = decode(Table::Retractions, value)?;
        if row.stands() {
            standing.push((number, known_targets(store, space.number(), &row.targets)?));
        }
        Ok(())
    })?;
    let there = space.there(store);
    let mut counted: HashMap<Item, u32> = HashMap::new();
    // One after the other, so that of several whole covers of a source the first is the one that counts.
    let mut index = Standings::default();
    for (number, targets) in &standing {
        for item in index.plan(targets, &[], &there)?.cover {
            *counted.entry(item).or_default() += 1;
        }
        index.begin(*number, targets);
    }
    let mut wrong = Vec::new();
    let graph = resident(space)?;
    for (node, state) in graph.nodes().filter(|(_, state)| state.arrival.is_some()) {
        let counted = counted.get(&Item::Node(node)).copied().unwrap_or(0);
        if counted != state.covers && wrong.len() < VIOLATIONS_MAX {
            let what = state.kind.map_or("node", Kind::as_str);
            wrong.push(format!("covers of {what} {}: {} are kept, {counted} counted", node.0, state.covers));
        }
    }
    for (at, state) in graph.justifications() {
        let counted = counted.get(&Item::Justification(at)).copied().unwrap_or(0);
        if counted != state.covers && wrong.len() < VIOLATIONS_MAX {
            wrong.push(format!(
                "covers of justification {}: {} are kept, {counted} counted",
                at.number(),
                state.covers
            ));
        }
    }
    Ok(wrong)
}

/// What the pages say of uses, writers and sources, against what the rows of nodes and justifications say.
fn segments(store: &impl Store, loaded: &Space) -> Result<Vec<String>, StoreError> {
    let Some(paged) = Space::open(store, &loaded.name, 0)? else { return Ok(Vec::new()) };
    let graph = resident(loaded)?;
    let mut wrong = Vec::new();
    for (node, _) in graph.nodes() {
        let (by_rows, by_pages) = (loaded.uses_of(store, node)?, paged.uses_of(store, node)?);
        if by_rows != by_pages && wrong.len() < VIOLATIONS_MAX {
            wrong.push(format!("uses of node {}: {by_pages:?} by the segments, {by_rows:?} by the rows", node.0));
        }
    }
    let mut sources = Vec::new();
    scan_space(store, Table::Sources, loaded.number(), |number, _| {
        sources.push(number);
        Ok(())
    })?;
    let (by_rows, by_pages) = (loaded.there(store), paged.there(store));
    for source in sources {
        let said = |there: &There<'_, _>| sorted(|items| there.of_source(source, &Window::WHOLE, items));
        if said(&by_rows)? != said(&by_pages)? {
            wrong.push(format!("what source {source} said differs between the segments and the rows"));
        }
    }
    for agent in loaded.agents() {
        let wrote = |there: &There<'_, _>| sorted(|items| there.of_agent(agent, None, &Window::WHOLE, items));
        if wrote(&by_rows)? != wrote(&by_pages)? {
            wrong.push(format!("what agent {agent:?} wrote differs between the segments and the rows"));
        }
    }
    wrong.truncate(VIOLATIONS_MAX);
    Ok(wrong)
}

fn sorted(find: impl FnOnce(&mut Vec<Item>) -> Result<(), StoreError>) -> Result<Vec<Item>, StoreError> {
    let mut items = Vec::new();
    find(&mut items)?;
    items.sort_unstable();
    Ok(items)
}
