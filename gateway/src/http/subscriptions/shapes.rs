//! What goes in and out where subscriptions are made and used.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use utoipa::{IntoParams, ToSchema};

use super::super::ask::Milliseconds;
use crate::subscriptions::{Definition, Subscription};

/// Where it begins.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct Beginning {
    /// `earliest`, `latest`, a cursor, or a time on the log's clock; `latest` if it is not said.
    pub(super) from: Option<String>,
}

/// A subscription.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct SubscriptionView {
    #[serde(flatten)]
    pub(super) definition: Definition,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// When.
    pub(super) created_at: String,
    /// Everything up to here is settled: acknowledged or parked. Absent while nothing that is kept of the stream is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cursor: Option<String>,
    /// How many changes are handed out, or about to be.
    pub(super) outstanding: usize,
    /// How many are parked.
    pub(super) parked: usize,
    /// What its webhooks are signed with, shown when it is made and never again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
}

impl SubscriptionView {
    pub(super) async fn of(subscription: &Subscription) -> SubscriptionView {
        let (row, status) = (subscription.row(), subscription.status().await);
        SubscriptionView {
            definition: row.definition.clone(),
            owner: row.owner.clone(),
            created_at: row.created_at.clone(),
            cursor: status.cursor,
            outstanding: status.outstanding,
            parked: status.parked,
            secret: None,
        }
    }
}

/// Subscriptions, by name.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct SubscriptionsView {
    pub(super) items: Vec<SubscriptionView>,
}

/// How much, and how long it is waited.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct Pulling {
    /// At most so many changes, 1 to 1000; 100 if it is not said, and 8 at most where the content is full.
    #[param(minimum = 1, maximum = 1000)]
    pub(super) limit: Option<u32>,
    /// Wait at most so many milliseconds for something to hand out; not at all if it is not said, a minute at most.
    #[param(value_type = Option<u32>, maximum = 600000)]
    pub(super) wait_ms: Option<Milliseconds>,
}

/// A change that is handed out.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct DeliveryView {
    /// How often it has been, this time included.
    pub(super) attempt: u32,
    /// It.
    #[schema(value_type = Object)]
    pub(super) change: Box<RawValue>,
}

/// What is handed out, in the order of the space.
#[derive(Serialize, ToSchema)]
pub(in crate::http) struct Pulled {
    pub(super) items: Vec<DeliveryView>,
}

/// Which changes are settled: up to a cursor, or those that are named.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Acknowledgement {
    /// All up to this cursor: a change's, or that of a list from which one goes on.
    pub(super) up_to: Option<String>,
    /// These, by the ids of the changes.
    #[serde(default)]
    #[schema(max_items = 1000)]
    pub(super) changes: Vec<String>,
}

/// How many changes that came to.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Counted {
    /// How many were settled, parked or retried that were not before.
    pub(super) changes: usize,
    /// Everything up to here is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cursor: Option<String>,
}

/// Which changes cannot be handled, and why.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Parking {
    /// By the ids of the changes.
    #[schema(max_items = 1000)]
    pub(super) changes: Vec<String>,
    /// Why, in at most 1024 bytes.
    #[schema(max_length = 1024)]
    pub(super) reason: String,
}

/// Which parked changes are handed out again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Retrying {
    /// By the ids of the changes; all, if it is absent.
    #[schema(max_items = 1000)]
    pub(super) changes: Option<Vec<String>>,
}

/// A change that is parked.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct ParkedView {
    /// Why.
    pub(super) reason: String,
    /// When.
    pub(super) parked_at: String,
    /// How often it had been handed out.
    pub(super) attempts: u32,
    /// It.
    #[schema(value_type = Object)]
    pub(super) change: Value,
}

/// The changes that are parked, in the order of the space.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct ParkedViews {
    pub(super) items: Vec<ParkedView>,
}
