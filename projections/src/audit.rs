//! Whether the state of a space is right, counted anew from its rows: for `recant doctor` and for tests.

use std::collections::HashMap;

use recant_proto::id::{Kind, Standing};

use crate::{
    fold::space::{Space, StoredItems, known_targets, scan_space},
    history,
    justification::{
        covers::Items as _,
        digest::{Committer, justification_weight, node_weight, to_hex},
        graph::Item,
        invariants,
    },
    store::{Store, StoreError},
    tables::{Table, decode, partition, retractions, sources},
};

/// So many violations are named.
const VIOLATIONS_MAX: usize = 10;

/// Everything that is wrong with a space, in words; nothing if all is well.
pub fn space(store: &impl Store, name: &str) -> Result<Vec<String>, StoreError> {
    let Some(space) = Space::load(store, name)? else { return Ok(Vec::new()) };
    let mut wrong: Vec<String> = invariants::check(&space.graph, VIOLATIONS_MAX)
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
    let nodes_in =
        space.graph.nodes().filter(|(_, node)| node.arrival.is_some() && node.standing == Standing::In).count();
    if nodes_in != space.row.nodes_in as usize {
        wrong.push(format!("nodes IN: {} are kept, {nodes_in} counted", space.row.nodes_in));
    }
    Ok(wrong)
}

/// The state digest, counted from nothing.
pub fn digest(store: &impl Store, space: &Space) -> Result<u128, StoreError> {
    let key = partition::get(store)?.map(|row| row.commitment_key).unwrap_or_default();
    let committer = Committer::new(&key);
    let mut digest = 0_u128;
    let mut add = |commitment: u128, weight: u128| digest = digest.wrapping_add(commitment.wrapping_mul(weight));
    for (_, node) in space.graph.nodes().filter(|(_, node)| node.arrival.is_some()) {
        add(node.commitment, node_weight(node.standing.is_in()));
    }
    for (_, justification) in space.graph.justifications() {
        add(justification.commitment, justification_weight(justification.covers > 0));
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
    let items = StoredItems { store, space: space.number(), graph: &space.graph };
    let mut counted: HashMap<Item, u32> = HashMap::new();
    // Over the space's index without its standing retractions, so that each whole cover of a source is the first.
    let mut index = space.bare_index(store)?;
    for (number, targets) in &standing {
        for item in index.plan(targets, &[], &items)?.cover {
            *counted.entry(item).or_default() += 1;
        }
        index.begin(*number, targets);
    }
    let mut wrong = Vec::new();
    for (node, state) in space.graph.nodes().filter(|(node, _)| items.has_arrived(*node)) {
        let counted = counted.get(&Item::Node(node)).copied().unwrap_or(0);
        if counted != state.covers && wrong.len() < VIOLATIONS_MAX {
            let what = state.kind.map_or("node", Kind::as_str);
            wrong.push(format!("covers of {what} {}: {} are kept, {counted} counted", node.0, state.covers));
        }
    }
    for (at, state) in space.graph.justifications() {
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
