//! The records that an outcome of the oracle calls for, written out in full.

use std::collections::BTreeMap;

use recant_proto::{
    position::{ChangeId, Position},
    reject::Violation,
    time,
    v1::{ActionState, ByKind, Cascade, Cause, Change, Event, Rejection, Summary, event::Body},
    wire,
};

use super::INCARNATION;
use crate::{
    generate::Record,
    oracle::{self, Node, Outcome, Space},
};

/// The cascade: a summary, then the changes in order; nothing if nothing changed.
pub(crate) fn changes(
    space: &Space,
    outcome: &Outcome,
    record: &Record,
    position: Position,
    log_time_ms: i64,
) -> Vec<Change> {
    if outcome.changes.is_empty() {
        return Vec::new();
    }
    let total = outcome.changes.len() as u32;
    let shared = |index: u32| Change {
        id: ChangeId { incarnation: INCARNATION, position, index }.to_string(),
        space: record.event.space.clone(),
        cause: Some(cause(&record.event)),
        cascade: Some(Cascade { id: position.to_string(), index: Some(index), total }),
        position: position.to_string(),
        time: time::format_log_ms(log_time_ms),
        ..Change::default()
    };
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for change in &outcome.changes {
        *kinds.entry(&change.kind).or_default() += 1;
    }
    let of_kind = |kind: &str| Some(kinds.get(kind).copied().unwrap_or_default());
    let summary = Summary {
        changed: Some(total),
        sources: Some(outcome.sources as u32),
        by_kind: Some(ByKind {
            observation: of_kind("observation"),
            belief: of_kind("belief"),
            plan: of_kind("plan"),
            action: of_kind("action"),
        }),
    };
    let mut records = vec![Change { summary: Some(summary), ..shared(0) }];
    for (change, index) in outcome.changes.iter().zip(1..) {
        records.push(of_node(space, change, shared(index)));
    }
    records
}

fn of_node(space: &Space, change: &oracle::Change, shared: Change) -> Change {
    let Some(node) = space.nodes.get(&change.node) else { return shared };
    Change {
        node: change.node.clone(),
        kind: change.kind.clone(),
        subject: node.identity.subject.clone(),
        agent: node.written.agent.clone(),
        run: node.written.run.clone(),
        source: node.identity.source.clone(),
        from: change.from.unwrap_or_default().to_owned(),
        to: change.to.to_owned(),
        why: change.why.unwrap_or_default().to_owned(),
        distance: Some(change.distance),
        action: (change.kind == "action").then(|| action_state(space, &change.node, node)),
        ..shared
    }
}

/// An action with its state.
pub(super) fn action_state(space: &Space, id: &str, node: &Node) -> ActionState {
    let [action_type, amount, currency] = node.identity.action.clone();
    let state = space.settled.get(id).map_or("recorded", String::as_str).to_owned();
    ActionState { r#type: action_type, state, amount, currency }
}

fn cause(event: &Event) -> Cause {
    let retraction = match &event.body {
        Some(Body::Retracted(retracted)) if retracted.retraction.is_empty() => &event.id,
        Some(Body::Retracted(retracted)) => &retracted.retraction,
        Some(Body::Reinstated(reinstated)) => &reinstated.retraction,
        _ => "",
    };
    let body = event.body.as_ref().map(wire::body_name).unwrap_or_default();
    Cause { event: event.id.clone(), r#type: body.to_owned(), retraction: retraction.to_owned() }
}

/// The record of a refusal; what it says in words is the engine's own.
pub(super) fn rejection(record: &Record, position: Position, log_time_ms: i64, violation: &Violation) -> Rejection {
    Rejection {
        position: position.to_string(),
        time: time::format_log_ms(log_time_ms),
        event: record.event.id.clone(),
        space: record.event.space.clone(),
        code: violation.code.to_string(),
        detail: violation.to_string(),
        key: record.event.space.clone().into_bytes(),
        value: record.value.clone(),
        headers: Vec::new(),
    }
}

/// Gives a previewed record the place of the committed one, whose index it must have.
pub(super) fn take_place(previewed: &mut Change, committed: &Change) {
    let index = |id: &str| id.rsplit(':').next().map(str::to_owned);
    if index(&previewed.id) == index(&committed.id) {
        previewed.id.clone_from(&committed.id);
    }
    previewed.position.clone_from(&committed.position);
    previewed.time.clone_from(&committed.time);
    if let (Some(previewed), Some(committed)) = (&mut previewed.cascade, &committed.cascade) {
        previewed.id.clone_from(&committed.id);
    }
}
