//! Table `nodes`. Key: space | node number. Written when a node is first named, and once more when it arrives.
//!
//! Value: kind, u8; 0 for a node that has been named and has not arrived, which has only the message below, with its id.
//! Else, numbers big endian:
//! standing at birth, u8 | place in the order of arrival, u32 | offset,
//! u64 | log time in ms, i64 | one more than its source's number or 0, u32 | its time on the writers' clock, seconds i64 and
//! nanoseconds u32 | commitment, 16 bytes | rank at birth, u64 | one more than the number of its support at birth or 0, u32 |
//! one more than the number of its newest justification at birth or 0, u32 | covers at birth, u32 | agent, length u16 and
//! bytes | run, likewise | the message.
//!
//! The head is what the engine needs, so that loading a space decodes no texts. It holds the state at birth, so that a node
//! has a row in [`super::node_states`] and in [`super::history`] only once that has changed.

use prost::Message;
use recant_proto::{
    id::{Kind, Standing},
    time::{self, Instant},
    v1::{Content, Embedding, Literal},
};

use super::bytes::{Reader, Writer};
use crate::{
    justification::graph::{Justification, Node},
    store::{Read, StoreError},
    tables::{SpaceNumber, Table, damaged, decode as decode_message, node_states, numbered},
};

/// What the engine needs of a node that has arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its standing at birth.
    pub standing: Standing,
    /// Its place in the order of arrival of its space, counted from 0.
    pub arrival: u32,
    /// The offset of the event by which it arrived.
    pub offset: u64,
    /// The log time of that event.
    pub log_time_ms: i64,
    /// The source of an observation, by its number.
    pub source: Option<u32>,
    /// Its time on the writers' clock: `observed_at`, else `occurred_at`, else the log's.
    pub observed: Instant,
    /// What it adds to the digest.
    pub commitment: u128,
    /// Its rank at birth.
    pub rank: u64,
    /// Its support at birth.
    pub support: Option<Justification>,
    /// Its newest justification at birth.
    pub newest_justification: Option<Justification>,
    /// By how many targets it was covered at birth.
    pub covers: u32,
    /// Who wrote it.
    pub agent: &'a str,
    /// In which run.
    pub run: &'a str,
}

impl Head<'_> {
    /// The state at birth, as [`node_states`] would have it.
    pub fn birth(&self, node: Node) -> node_states::Row {
        node_states::Row {
            standing: self.standing,
            rank: self.rank,
            home: node.0,
            support: self.support,
            covers: self.covers,
            newest_justification: self.newest_justification,
        }
    }
}

/// What questions about a node need, beside its head.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Texts {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// In which step it was written.
    #[prost(string, tag = "2")]
    pub step: String,
    /// When the writer says that it happened.
    #[prost(string, tag = "3")]
    pub occurred_at: String,
    /// When the source said it.
    #[prost(string, tag = "4")]
    pub observed_at: String,
    /// Its subject.
    #[prost(string, tag = "5")]
    pub subject: String,
    /// What it says.
    #[prost(message, optional, tag = "6")]
    pub content: Option<Content>,
    /// `affirms` or `denies`.
    #[prost(string, tag = "7")]
    pub polarity: String,
    /// Values in its content.
    #[prost(message, repeated, tag = "8")]
    pub literals: Vec<Literal>,
    /// Its attributes.
    #[prost(btree_map = "string, string", tag = "9")]
    pub attributes: std::collections::BTreeMap<String, String>,
    /// Its embedding.
    #[prost(message, optional, tag = "10")]
    pub embedding: Option<Embedding>,
    /// The id of the event by which it arrived.
    #[prost(string, tag = "11")]
    pub event: String,
}

/// The first of the texts: what change records say of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Names {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its subject.
    #[prost(string, tag = "5")]
    pub subject: String,
}

/// A row: a head, once it has arrived, and texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'a> {
    /// What the engine needs; none for a node that has only been named.
    pub head: Option<Head<'a>>,
    message: &'a [u8],
}

impl<'a> Row<'a> {
    /// From bytes.
    pub fn decode(value: &'a [u8]) -> Result<Row<'a>, StoreError> {
        read_row(value).ok_or_else(|| damaged(Table::Nodes, "a head cannot be read"))
    }

    /// The names alone.
    pub fn names(&self) -> Result<Names, StoreError> {
        decode_message(Table::Nodes, self.message)
    }

    /// The texts.
    pub fn texts(&self) -> Result<Texts, StoreError> {
        decode_message(Table::Nodes, self.message)
    }
}

fn read_row(value: &[u8]) -> Option<Row<'_>> {
    let mut reader = Reader(value);
    let Some(kind) = (match reader.byte()? {
        0 => None,
        kind => Some(Kind::from_u8(kind)?),
    }) else {
        return Some(Row { head: None, message: reader.0 });
    };
    let head = Head {
        kind,
        standing: Standing::from_u8(reader.byte()?)?,
        arrival: reader.u32()?,
        offset: reader.u64()?,
        log_time_ms: reader.bytes().map(i64::from_be_bytes)?,
        source: reader.optional()?,
        observed: reader.instant()?,
        commitment: reader.bytes().map(u128::from_be_bytes)?,
        rank: reader.u64()?,
        support: reader.optional()?.map(Justification::new),
        newest_justification: reader.optional()?.map(Justification::new),
        covers: reader.u32()?,
        agent: reader.text()?,
        run: reader.text()?,
    };
    Some(Row { head: Some(head), message: reader.0 })
}

/// The value of a node that has only been named.
pub fn named(id: &str) -> Vec<u8> {
    let mut value = vec![0];
    value.extend(Texts { id: id.to_owned(), ..Texts::default() }.encode_to_vec());
    value
}

/// The value of a node that has arrived.
pub fn arrived(head: &Head<'_>, texts: &Texts) -> Vec<u8> {
    let mut writer = Writer(Vec::with_capacity(96 + head.agent.len() + head.run.len() + texts.encoded_len()));
    writer.number([head.kind as u8, head.standing as u8]);
    writer.number(head.arrival.to_be_bytes());
    writer.number(head.offset.to_be_bytes());
    writer.number(head.log_time_ms.to_be_bytes());
    writer.optional(head.source);
    writer.instant(head.observed);
    writer.number(head.commitment.to_be_bytes());
    writer.number(head.rank.to_be_bytes());
    writer.optional(head.support.map(Justification::number));
    writer.optional(head.newest_justification.map(Justification::number));
    writer.number(head.covers.to_be_bytes());
    writer.text(head.agent);
    writer.text(head.run);
    writer.0.extend(texts.encode_to_vec());
    writer.0
}

/// A node as questions need it, with everything owned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whole {
    /// Its kind; none for a node that has only been named, of which nothing but the id is known.
    pub kind: Option<Kind>,
    /// The offset of the event by which it arrived.
    pub offset: u64,
    /// The log time of that event.
    pub log_time_ms: i64,
    /// The standing with which it arrived.
    pub birth: Option<Standing>,
    /// The source of an observation.
    pub source: Option<u32>,
    /// Who wrote it.
    pub agent: String,
    /// In which run.
    pub run: String,
    /// The rest.
    pub texts: Texts,
}

impl Whole {
    /// From bytes.
    pub fn decode(value: &[u8]) -> Result<Whole, StoreError> {
        let row = Row::decode(value)?;
        let texts = row.texts()?;
        let Some(head) = row.head else { return Ok(Whole { texts, ..Whole::default() }) };
        Ok(Whole {
            kind: Some(head.kind),
            offset: head.offset,
            log_time_ms: head.log_time_ms,
            birth: Some(head.standing),
            source: head.source,
            agent: head.agent.to_owned(),
            run: head.run.to_owned(),
            texts,
        })
    }

    /// Its time on the writers' clock.
    pub fn observed_instant(&self) -> Result<Instant, StoreError> {
        instant([&self.texts.observed_at, &self.texts.occurred_at], self.log_time_ms)
    }
}

/// The first of the writers' times that is there, else the log's.
pub fn instant<const N: usize>(texts: [&str; N], log_time_ms: i64) -> Result<Instant, StoreError> {
    match texts.into_iter().find(|text| !text.is_empty()) {
        None => Ok(Instant::from_log_ms(log_time_ms)),
        Some(text) => time::parse("time", text).map_err(|error| damaged(Table::Nodes, error.to_string())),
    }
}

/// The key of a node.
pub fn key(space: SpaceNumber, node: Node) -> Vec<u8> {
    numbered(space, node.0)
}

/// The bytes of a node that has been named.
pub fn value(store: &impl Read, space: SpaceNumber, node: Node) -> Result<Vec<u8>, StoreError> {
    let value = store.read(Table::Nodes, &key(space, node))?;
    value.ok_or_else(|| damaged(Table::Nodes, format!("node {} is missing", node.0)))
}

/// A node that has been named.
pub fn get(store: &impl Read, space: SpaceNumber, node: Node) -> Result<Whole, StoreError> {
    Whole::decode(&value(store, space, node)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of a node is what was written of it, and a head that is cut anywhere is noticed.
    #[test]
    fn a_row_comes_back_and_a_cut_head_does_not() {
        let head = Head {
            kind: Kind::Action,
            standing: Standing::Pending,
            arrival: 3,
            offset: 1 << 40,
            log_time_ms: -5,
            source: Some(0),
            observed: Instant(-1_500_000_001),
            commitment: u128::MAX - 1,
            rank: 7,
            support: None,
            newest_justification: Some(Justification::new(0)),
            covers: 2,
            agent: "agent",
            run: "",
        };
        let texts = Texts { id: "n".into(), subject: "s".into(), ..Texts::default() };
        let value = arrived(&head, &texts);
        let row = Row::decode(&value).unwrap();
        assert_eq!((row.head, row.texts().unwrap()), (Some(head), texts));
        let head_bytes = value.len() - row.message.len();
        for length in 1..head_bytes {
            assert!(Row::decode(&value[..length]).is_err(), "{length}");
        }
        let named = named("later");
        let row = Row::decode(&named).unwrap();
        assert_eq!((row.head, row.texts().unwrap().id.as_str()), (None, "later"));
    }
}
