//! Table `actions`. Key: space | node number. A row may come before its node: an outcome that arrived early waits in it.

use recant_proto::v1::ActionState;

use crate::{
    justification::graph::Node,
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, numbered, read},
};

/// What an action is, and its state.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Row {
    /// For example `payment.transfer`; empty until the action arrives.
    #[prost(string, tag = "1")]
    pub action_type: String,
    /// The amount, as it was written.
    #[prost(string, tag = "2")]
    pub amount: String,
    /// Its currency.
    #[prost(string, tag = "3")]
    pub currency: String,
    /// The state: `recorded`, `done` and so on.
    #[prost(string, tag = "4")]
    pub state: String,
    /// What was said when it was settled.
    #[prost(string, tag = "5")]
    pub detail: String,
    /// When it was settled, by the writer's clock.
    #[prost(string, tag = "6")]
    pub settled_at: String,
    /// The states that it has had, the first first.
    #[prost(message, repeated, tag = "7")]
    pub states: Vec<Since>,
}

/// A state, and the offset of the event that brought it about.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Since {
    /// The state.
    #[prost(string, tag = "1")]
    pub state: String,
    /// The event's offset.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
}

impl Row {
    /// Takes on a state.
    pub fn become_state(&mut self, state: &str, offset: u64) {
        state.clone_into(&mut self.state);
        self.states.push(Since { state: state.to_owned(), offset });
    }

    /// The state after the event at an offset.
    pub fn state_at(&self, offset: u64) -> &str {
        self.states.iter().rev().find(|since| since.offset <= offset).map_or("", |since| &since.state)
    }

    /// As changes and answers show it.
    pub fn to_state(&self) -> ActionState {
        ActionState {
            r#type: self.action_type.clone(),
            state: self.state.clone(),
            amount: self.amount.clone(),
            currency: self.currency.clone(),
        }
    }
}

/// The key of an action.
pub fn key(space: SpaceNumber, node: Node) -> Vec<u8> {
    numbered(space, node.0)
}

/// The row of an action.
pub fn get(store: &impl Read, space: SpaceNumber, node: Node) -> Result<Option<Row>, StoreError> {
    read(store, Table::Actions, &key(space, node))
}
