//! Actions and their states. In logic version 1 they are recorded and settled; nothing is decided.

use prost::Message;
use recant_proto::{
    id::Kind,
    reject::{Code, Violation},
    v1::{ActionProposed, ActionSettled},
};

use crate::{
    fold::{Context, Refusal},
    justification::graph::Node,
    store::{Store, StoreError},
    tables::{Table, actions},
};

/// The state of an action that was recorded, and has no outcome.
pub const RECORDED: &str = "recorded";

/// Refuses what this logic version cannot do.
pub(crate) fn check_proposed(proposed: &ActionProposed) -> Result<(), Violation> {
    if proposed.mode == "ask" {
        let detail = "logic version 1 records actions and decides nothing: no answer would come, so none is awaited. Use mode record";
        return Err(Violation::at(Code::NotInThisVersion, "action_proposed.mode", detail));
    }
    Ok(())
}

/// Writes what an action is. An outcome that came before it holds.
pub(crate) fn propose<S: Store>(
    context: &mut Context<'_, S>,
    node: Node,
    proposed: &ActionProposed,
) -> Result<(), StoreError> {
    let space = context.space.number();
    let mut row = actions::get(&context.staged, space, node)?.unwrap_or_default();
    row.action_type.clone_from(&proposed.r#type);
    row.amount.clone_from(&proposed.amount);
    row.currency.clone_from(&proposed.currency);
    if row.state.is_empty() {
        row.become_state(RECORDED, context.position.offset);
    }
    context.staged.put(Table::Actions, actions::key(space, node), row.encode_to_vec());
    Ok(())
}

/// Takes an action to its outcome.
pub(crate) fn settle<S: Store>(context: &mut Context<'_, S>, settled: &ActionSettled) -> Result<(), Refusal> {
    let space = context.space.number();
    let mut row = match context.known_node(&settled.action)? {
        None => actions::Row::default(),
        Some(node) => {
            let state = context.space.node(&context.staged, node)?;
            if state.kind.is_some_and(|kind| kind != Kind::Action) {
                let detail = format!("{:?} is not an action", settled.action);
                return Err(Violation::at(Code::ActionTransition, "action_settled.action", detail).into());
            }
            actions::get(&context.staged, space, node)?.unwrap_or_default()
        }
    };
    if row.state == settled.outcome {
        return Ok(());
    }
    if !may_become(&row.state, &settled.outcome) {
        let detail = format!("an action that is {} cannot become {}", row.state, settled.outcome);
        return Err(Violation::at(Code::ActionTransition, "action_settled.outcome", detail).into());
    }
    let node = context.name_node(&settled.action)?;
    row.become_state(&settled.outcome, context.position.offset);
    row.detail.clone_from(&settled.detail);
    row.settled_at.clone_from(&settled.settled_at);
    context.staged.put(Table::Actions, actions::key(space, node), row.encode_to_vec());
    Ok(())
}

/// Whether a state may follow another. The empty state is that of an action that has not arrived.
fn may_become(state: &str, outcome: &str) -> bool {
    matches!((state, outcome), ("" | RECORDED, "done" | "failed" | "abandoned") | ("done", "undone"))
}
