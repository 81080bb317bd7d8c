//! What the compacted topic `recant.subscriptions` holds (`subscriptions/` in a data directory): the newest record of each key, both JSON.
//!
//! | key | value |
//! |---|---|
//! | `["SPACE","NAME"]` | `{"v":1,"definition":{…},"owner","created_at","secret","floor":[OFFSET,INDEX],"settled":[[…],…],"attempts":[[[…],N],…]}` |
//! | `["SPACE","NAME",OFFSET,INDEX]` | `{"v":1,"change":{…},"reason","parked_at","attempts","is_retried"}`: a parked change |
//!
//! What is absent is not known or not there. The partition is the space's. The secret of a webhook stands in it as it is, since it must be
//! signed with: whoever may read the topic or the directory can sign as this server does.

use std::{collections::BTreeMap, sync::Arc};

use recant_eventlog::compacted::{Change as RowChange, Standing};
use recant_proto::v1::Change;
use serde::{Deserialize, Serialize};

use super::{
    definition::Definition,
    progress::{Kept, Parked, Place},
};
use crate::stream::Streamed;

/// The version of this layout; a newer one is not read.
const VERSION: u32 = 1;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a record of the subscriptions cannot be read: {0}; a newer version of recant may have written it")]
pub struct Unreadable(String);

/// A subscription's record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    v: u32,
    /// What it was made with.
    pub definition: Definition,
    /// Who made it, if a token names callers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<String>,
    /// When, RFC 3339.
    pub created_at: String,
    /// What webhooks are signed with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub secret: Option<String>,
    /// How far it has come.
    #[serde(flatten)]
    pub kept: Kept,
}

impl Row {
    /// A new one.
    pub fn new(definition: Definition, owner: Option<String>, created_at: String, secret: Option<String>) -> Row {
        Row { v: VERSION, definition, owner, created_at, secret, kept: Kept::default() }
    }

    /// The same, having come so far.
    pub fn with(self, kept: Kept) -> Row {
        Row { kept, ..self }
    }
}

#[derive(Serialize, Deserialize)]
struct ParkedRow {
    v: u32,
    change: Change,
    reason: String,
    parked_at: String,
    attempts: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    is_retried: bool,
}

/// All that stands of a subscription.
#[derive(Debug)]
pub struct Found {
    /// Its record.
    pub row: Row,
    /// What is parked of it.
    pub parked: BTreeMap<Place, Parked>,
}

/// A space and a name.
pub type Key = (String, String);

fn json(value: &impl Serialize) -> Vec<u8> {
    // Texts, numbers and maps with texts for keys can be written.
    serde_json::to_vec(value).unwrap_or_default()
}

/// The change that keeps a subscription's record; or has it go.
pub fn keep((space, name): &Key, row: Option<&Row>) -> RowChange {
    RowChange { key: json(&(space, name)), value: row.map(|row| json(&row)) }
}

/// The change that keeps a parked change; or has it go.
pub fn keep_parked((space, name): &Key, place: Place, parked: Option<&Parked>) -> RowChange {
    let value = parked.map(|parked| {
        json(&ParkedRow {
            v: VERSION,
            change: parked.change.change.clone(),
            reason: parked.reason.clone(),
            parked_at: parked.parked_at.clone(),
            attempts: parked.attempts,
            is_retried: parked.is_retried,
        })
    });
    RowChange { key: json(&(space, name, place.offset, place.index)), value }
}

/// Reads all that stands in a partition.
pub fn read(standing: &[Standing]) -> Result<BTreeMap<Key, Found>, Unreadable> {
    let unreadable = |error: serde_json::Error| Unreadable(error.to_string());
    let mut found = BTreeMap::new();
    let mut parked: Vec<(Key, Place, ParkedRow)> = Vec::new();
    for Standing { key, value } in standing {
        if let Ok(key) = serde_json::from_slice::<Key>(key) {
            let row: Row = serde_json::from_slice(value).map_err(unreadable)?;
            check(row.v)?;
            found.insert(key, Found { row, parked: BTreeMap::new() });
        } else {
            let (space, name, offset, index) = serde_json::from_slice(key).map_err(unreadable)?;
            let row: ParkedRow = serde_json::from_slice(value).map_err(unreadable)?;
            check(row.v)?;
            parked.push(((space, name), Place { offset, index }, row));
        }
    }
    for (key, place, row) in parked {
        // One that goes takes what is parked of it along, in the same write.
        let Some(found) = found.get_mut(&key) else { continue };
        let ParkedRow { change, reason, parked_at, attempts, is_retried, .. } = row;
        let change = Arc::new(Streamed::of(change));
        found.parked.insert(place, Parked { change, reason, parked_at, attempts, is_retried });
    }
    Ok(found)
}

fn check(version: u32) -> Result<(), Unreadable> {
    if version == VERSION { Ok(()) } else { Err(Unreadable(format!("it has the version {version}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Protects subscriptions from the next version of this code: what was written is read, and what is newer is refused.
    #[test]
    fn what_was_kept_is_read_and_what_is_newer_is_refused() {
        let written = r#"{"v":1,"definition":{"name":"s","content":"metadata","ack_deadline_ms":30000,"outstanding_max":100,"attempts_max":10},"created_at":"2026-11-30T22:00:00Z","floor":[7,4294967295],"settled":[[9,1]]}"#;
        let parked =
            r#"{"v":1,"change":{"node":"n","to":"OUT"},"reason":"no","parked_at":"2026-11-30T22:00:00Z","attempts":3}"#;
        let standing = |key: &str, value: &str| Standing { key: key.into(), value: value.into() };
        let found = read(&[standing(r#"["acme","s",9,1]"#, parked), standing(r#"["acme","s"]"#, written)]).unwrap();
        let key = ("acme".to_owned(), "s".to_owned());
        let Found { row, parked } = &found[&key];
        assert_eq!(row.kept.floor, Some(Place { offset: 7, index: u32::MAX }));
        assert_eq!(parked[&Place { offset: 9, index: 1 }].change.change.node, "n");
        assert_eq!(keep(&key, Some(row)).value.as_deref(), Some(written.as_bytes()));
        assert!(read(&[standing(r#"["acme","s"]"#, &written.replace("\"v\":1", "\"v\":2"))]).is_err());
    }
}
