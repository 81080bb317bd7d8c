//! How much of its node a change brings along: metadata, which is all that the stream has; or the node's text and attributes too, which
//! never change and are read from the state when they are told. Content is data that nobody vouches for.

use std::{borrow::Cow, sync::Arc, time::Duration};

use recant_proto::position::Position;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::Streamed;
use crate::{
    host::{Freshness, Host, HostError},
    outcome::change_json,
};

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// What changed, and why.
    #[default]
    Metadata,
    /// And what the node says: `text` and `attributes`, where it has them inline.
    Full,
}

/// So many changes are told at once with their content: a text has up to 256 KiB.
const FULL_AT_ONCE: usize = 8;
/// So long the state may take to have what the stream has told of.
const WAIT: Duration = Duration::from_secs(10);

impl Content {
    /// How many records are told at once, of so many.
    pub fn at_once(self, records: usize) -> usize {
        match self {
            Content::Metadata => records,
            Content::Full => records.min(FULL_AT_ONCE),
        }
    }

    /// What is told of records of a space, each in JSON.
    pub async fn of<'r>(
        self,
        host: &Host,
        space: &str,
        records: &'r [Arc<Streamed>],
    ) -> Result<Vec<Cow<'r, str>>, HostError> {
        let is_of_node = |record: &Streamed| record.change.summary.is_none() && record.change.digest.is_none();
        if self == Content::Metadata || !records.iter().any(|record| is_of_node(record)) {
            return Ok(records.iter().map(|record| Cow::Borrowed(record.json())).collect());
        }
        // The stream may be a moment ahead of the state.
        let positions = records.iter().filter_map(|record| record.change.position.parse::<Position>().ok());
        let freshness = positions.max().map_or(Freshness::Now, Freshness::AtLeast);
        let nodes: Vec<Option<String>> =
            records.iter().map(|record| is_of_node(record).then(|| record.change.node.clone())).collect();
        let read = host.read(space, freshness, WAIT, move |reading| {
            let node = |id: Option<String>| id.map_or(Ok(None), |id| reading.node(&id));
            nodes.into_iter().map(node).collect::<Result<Vec<_>, HostError>>()
        });
        let told = records.iter().zip(read.await??).map(|(record, node)| {
            let Some(node) = node else { return Cow::Borrowed(record.json()) };
            let mut told = change_json(&record.change);
            if let (Some(members), Some(text)) = (told.as_object_mut(), node.text) {
                members.insert("text".to_owned(), Value::String(text));
            }
            if let (Some(members), false) = (told.as_object_mut(), node.attributes.is_empty()) {
                members.insert("attributes".to_owned(), json!(node.attributes));
            }
            Cow::Owned(told.to_string())
        });
        Ok(told.collect())
    }
}
