//! What a retraction or reinstatement did, or would do: the one shape of it, for commands and endpoints.

use recant_projections::{
    fold::publish::count_sources,
    query,
    store::{Store, StoreError},
    tables::{
        ids::{self, Namespace},
        retractions,
    },
};
use recant_proto::{
    position::ChangeId,
    v1::{ByKind, Change, Event, event::Body},
    wire,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a retraction or reinstatement comes to.
#[derive(Debug, Clone, Default)]
pub struct Decided {
    /// Of the commit, or of the state that a preview was made on.
    pub position: String,
    /// The records of the cascade, its summary first; none if nothing changes.
    pub records: Vec<Change>,
    /// How many sources the targets name.
    pub sources: u32,
    /// Where the same event was applied before.
    pub duplicate_of: Option<String>,
}

/// The answer.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Outcome {
    /// The retraction that began or ended.
    pub retraction: String,
    /// Where it was committed; of a preview, the state on which it was made: give it as `only_if_position`, and the commit
    /// equals the preview or is refused.
    pub position: String,
    /// Whether nothing was changed.
    pub preview: bool,
    /// How many nodes changed.
    pub changed: u32,
    /// How many sources the targets name.
    pub sources: u32,
    /// How many nodes of each kind changed.
    pub by_kind: ChangedKinds,
    /// Every action among them.
    pub actions: Vec<ChangedAction>,
    /// The changes, in the order of the stream, up to the limit that was asked for.
    #[schema(value_type = Vec<Object>)]
    pub changes: Vec<Value>,
    /// Whether there are more.
    pub truncated: bool,
    /// Where the same event was applied before, which is all that it ever does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duplicate_of: Option<String>,
}

/// How many nodes of each kind changed.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangedKinds {
    /// Observations.
    pub observation: u32,
    /// Beliefs.
    pub belief: u32,
    /// Plans.
    pub plan: u32,
    /// Actions.
    pub action: u32,
}

/// An action that changed.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangedAction {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub action_type: String,
    /// Its state.
    pub state: String,
    /// Its amount.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub amount: String,
    /// The currency of that.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub currency: String,
    /// Its status since.
    pub to: String,
}

impl Outcome {
    /// Of an event and what it came to, with at most so many changes.
    pub fn of(event: &Event, decided: &Decided, preview: bool, changes_max: usize) -> Outcome {
        let records = &decided.records;
        let changes = records.get(1..).unwrap_or_default();
        let by_kind = records.first().and_then(|record| record.summary?.by_kind).unwrap_or_default();
        let retraction = match &event.body {
            Some(Body::Reinstated(reinstated)) => &reinstated.retraction,
            Some(Body::Retracted(retracted)) if !retracted.retraction.is_empty() => &retracted.retraction,
            _ => &event.id,
        };
        Outcome {
            retraction: retraction.clone(),
            position: decided.position.clone(),
            preview,
            // A cascade has no more changes than its space has nodes, and those are numbered by a u32.
            changed: changes.len() as u32,
            sources: decided.sources,
            by_kind: ChangedKinds::of(&by_kind),
            actions: changes.iter().filter_map(ChangedAction::of).collect(),
            changes: changes.iter().take(changes_max).map(change_json).collect(),
            truncated: changes.len() > changes_max,
            duplicate_of: decided.duplicate_of.clone(),
        }
    }
}

impl Outcome {
    /// How much changed, and not what: for those who may retract and not read.
    pub fn counts_only(self) -> Outcome {
        let truncated = self.changed > 0;
        Outcome { actions: Vec::new(), changes: Vec::new(), truncated, ..self }
    }
}

impl ChangedKinds {
    fn of(by_kind: &ByKind) -> ChangedKinds {
        ChangedKinds {
            observation: by_kind.observation.unwrap_or_default(),
            belief: by_kind.belief.unwrap_or_default(),
            plan: by_kind.plan.unwrap_or_default(),
            action: by_kind.action.unwrap_or_default(),
        }
    }
}

impl ChangedAction {
    fn of(change: &Change) -> Option<ChangedAction> {
        let action = change.action.clone()?;
        Some(ChangedAction {
            id: change.node.clone(),
            action_type: action.r#type,
            state: action.state,
            amount: action.amount,
            currency: action.currency,
            to: change.to.clone(),
        })
    }
}

/// The change in such JSON.
pub fn change_of_json(json: &Value) -> Result<Change, serde_json::Error> {
    let mut json = json.clone();
    // Which says nothing that the id does not.
    json.as_object_mut().map(|members| members.remove("cursor"));
    Change::deserialize(json)
}

/// How many sources an event names that begins or ends a retraction. Asked before it is applied, since a reinstatement that changes
/// nothing publishes nothing that could say it.
pub fn counted_sources(store: &impl Store, event: &Event) -> Result<u32, StoreError> {
    let retraction = match &event.body {
        Some(Body::Retracted(retracted)) => return Ok(count_sources(&retracted.targets)),
        Some(Body::Reinstated(reinstated)) => &reinstated.retraction,
        _ => return Ok(0),
    };
    let Some(space) = query::space(store, &event.space)?.map(|row| row.space()) else { return Ok(0) };
    let Some(number) = ids::get(store, space, Namespace::Retraction, retraction)? else { return Ok(0) };
    let row = retractions::get(store, space, number)?;
    Ok(if row.stands() { count_sources(&row.targets) } else { 0 })
}

/// A change in JSON, with the cursor from which a consumer goes on.
pub fn change_json(change: &Change) -> Value {
    let mut json = wire::to_json(change);
    if let (Some(members), Ok(id)) = (json.as_object_mut(), change.id.parse::<ChangeId>()) {
        members.insert("cursor".to_owned(), Value::String(id.to_cursor()));
    }
    json
}
