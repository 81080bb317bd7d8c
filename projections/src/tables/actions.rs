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
    /// The offset of the event that brought about the state.
    #[prost(uint64, tag = "7")]
    pub state_offset: u64,
}

impl Row {
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
