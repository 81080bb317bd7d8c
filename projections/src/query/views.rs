//! The JSON shapes of nodes, sources, retractions and spaces. What is not known is absent, never null.

use std::collections::BTreeMap;

use recant_proto::{
    id::{Kind, Standing, is_ground},
    position::Position,
    time,
    v1::{Target, content::Form},
};
use serde::{Deserialize, Serialize};

use super::Moment;
use crate::{
    justification::{digest, graph::Node},
    store::{Store, StoreError},
    tables::{SpaceNumber, actions, nodes, retractions, sources, spaces},
};

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
pub struct NodeView {
    /// Its id.
    pub id: String,
    /// Its kind; absent for what was named and has not arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<&'static str>,
    /// `IN` or `OUT`.
    pub status: &'static str,
    /// Why it is OUT.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<&'static str>,
    /// Its space.
    pub space: String,
    /// Who wrote it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub agent: String,
    /// In which run.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub run: String,
    /// In which step.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub step: String,
    /// The source of an observation.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub source: String,
    /// Its subject.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub subject: String,
    /// When the writer says that it happened.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub occurred_at: String,
    /// When the source said it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub observed_at: String,
    /// When recant learned it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub recorded_at: String,
    /// Where it lies in the log.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub position: String,
    /// What it says, where that is inline text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<String>,
    /// Its attributes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub attributes: BTreeMap<String, String>,
    /// The type of an action.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty", default)]
    pub action_type: String,
    /// Its state.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub state: String,
    /// Its amount.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub amount: String,
    /// The currency of that.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub currency: String,
}

impl NodeView {
    /// A node of a space at a moment, with the standing that it had then; none if it had not arrived.
    pub(super) fn read(
        store: &impl Store,
        space: (&str, SpaceNumber),
        moment: &Moment,
        node: Node,
        row: nodes::Whole,
        standing: Option<Standing>,
    ) -> Result<NodeView, StoreError> {
        let (space_name, space) = space;
        let Some(standing) = standing else { return Ok(NodeView::not_arrived(row.texts.id, space_name)) };
        let (kind, texts) = (row.kind, row.texts);
        let source = row.source.map(|number| sources::get(store, space, number)).transpose()?;
        let action = if kind == Some(Kind::Action) { actions::get(store, space, node)? } else { None };
        let action = action.unwrap_or_default();
        Ok(NodeView {
            id: texts.id,
            kind: kind.map(Kind::as_str),
            status: standing.status(),
            why: standing.why(),
            space: space_name.to_owned(),
            agent: row.agent,
            run: row.run,
            step: texts.step,
            source: source.map(|source| source.id().to_owned()).unwrap_or_default(),
            subject: texts.subject,
            occurred_at: texts.occurred_at,
            observed_at: texts.observed_at,
            recorded_at: time::format_log_ms(row.log_time_ms),
            position: Position { offset: row.offset, ..moment.position }.to_string(),
            text: match texts.content.and_then(|content| content.form) {
                Some(Form::Text(text)) => Some(text),
                _ => None,
            },
            attributes: texts.attributes,
            state: action.state_at(moment.position.offset).to_owned(),
            action_type: action.action_type,
            amount: action.amount,
            currency: action.currency,
        })
    }

    /// What had been named at the moment, and had not arrived: its id alone is known.
    fn not_arrived(id: String, space: &str) -> NodeView {
        let standing = Standing::Pending;
        NodeView { id, status: standing.status(), why: standing.why(), space: space.to_owned(), ..NodeView::default() }
    }
}

/// A source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
pub struct SourceView {
    /// Its id.
    pub id: String,
    /// Its kind.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub kind: String,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub name: String,
    /// Whether it is ground.
    pub ground: bool,
    /// Whether it was declared.
    pub declared: bool,
    /// How many observations came from it.
    pub observations: u32,
    /// Trust in millionths.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trust_millionths: Option<i64>,
    /// Independence group.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub group: String,
    /// Cost to compromise, in millionths.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost_millionths: Option<i64>,
    /// Its attributes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub attributes: BTreeMap<String, String>,
    /// Standing retractions that name it, whole or within a window.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub retracted_by: Vec<String>,
}

impl SourceView {
    pub(super) fn of(row: &sources::Row, retracted_by: Vec<String>) -> SourceView {
        let known = row.known();
        SourceView {
            ground: is_ground(&known.kind),
            id: known.source,
            kind: known.kind,
            name: known.name,
            declared: row.declared,
            observations: row.observations,
            trust_millionths: known.trust_millionths,
            group: known.group,
            cost_millionths: known.cost_millionths,
            attributes: known.attributes,
            retracted_by,
        }
    }
}

/// A retraction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
pub struct RetractionView {
    /// Its id.
    pub id: String,
    /// `standing`, `lifted`, or `lifted_in_advance` for one that has not arrived.
    pub state: &'static str,
    /// What it covers, as it was written.
    #[cfg_attr(feature = "schemas", schema(value_type = Vec<Object>))]
    pub targets: Vec<Target>,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub reason: String,
    /// Who asked for it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub by: String,
    /// The retractions that it lifted.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub replaces: Vec<String>,
    /// Where it began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub position: Option<String>,
    /// When it began, on the log's clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub recorded_at: Option<String>,
    /// Where it was lifted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lifted_position: Option<String>,
    /// When it was lifted, on the log's clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lifted_at: Option<String>,
    /// Who lifted it.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub lifted_by: String,
    /// Why it was lifted.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub lifted_reason: String,
}

impl RetractionView {
    pub(super) fn of(row: &retractions::Row, moment: &Moment) -> RetractionView {
        let then = |at: &Option<retractions::Moment>| at.clone().filter(|at| at.offset <= moment.position.offset);
        let (began, lifted) = (then(&row.began), then(&row.lifted));
        let position = |at: &retractions::Moment| Position { offset: at.offset, ..moment.position }.to_string();
        let lifted_text = |text: &str| if lifted.is_some() { text.to_owned() } else { String::new() };
        // Lifted in advance, and not arrived at the moment: what it says was not known.
        let said = if began.is_some() { row.clone() } else { retractions::Row::default() };
        RetractionView {
            id: row.id.clone(),
            state: match (&began, &lifted) {
                (_, None) => "standing",
                (Some(_), Some(_)) => "lifted",
                (None, Some(_)) => "lifted_in_advance",
            },
            targets: said.targets,
            reason: said.reason,
            by: said.by,
            replaces: said.replaces,
            position: began.as_ref().map(position),
            recorded_at: began.as_ref().map(|at| time::format_log_ms(at.log_time_ms)),
            lifted_position: lifted.as_ref().map(position),
            lifted_at: lifted.as_ref().map(|at| time::format_log_ms(at.log_time_ms)),
            lifted_by: lifted_text(&row.lifted_by),
            lifted_reason: lifted_text(&row.lifted_reason),
        }
    }
}

/// A space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(utoipa::ToSchema))]
pub struct SpaceView {
    /// Its name.
    pub space: String,
    /// How many nodes have arrived.
    pub nodes: u32,
    /// How many of them are IN.
    pub nodes_in: u32,
    /// How many justifications.
    pub justifications: u32,
    /// The position of its partition.
    pub position: String,
    /// Its state digest.
    pub digest: String,
}

impl SpaceView {
    pub(super) fn of(name: String, row: &spaces::Row, moment: &Moment) -> SpaceView {
        SpaceView {
            space: name,
            nodes: row.arrived,
            nodes_in: row.nodes_in,
            justifications: row.justifications,
            position: moment.position.to_string(),
            digest: digest::to_hex(row.digest()),
        }
    }
}
