//! Table `justifications`. Key: space | justification number. Never changes once written.
//!
//! Value, numbers big endian: the node that it justifies, u32 | one more than the number of the next older justification of
//! the same node or 0, u32 | offset, u64 | log time in ms, i64 | its time on the writers' clock, seconds i64 and nanoseconds
//! u32 | commitment, 16 bytes | how many premises, u16 | their numbers, each once, in the order in which they were given,
//! u32 | agent, length u16 and bytes | run, likewise | a message with the rest.
//!
//! The id of a justification that names none is that of its event, and is found through [`super::events`]; others have a
//! row in [`super::ids`].

use prost::Message;
use recant_proto::{time::Instant, v1::Rule};

use super::bytes::{Reader, Writer};
use crate::{
    justification::graph::{Justification, Node},
    store::{Read, StoreError},
    tables::{
        SpaceNumber, Table, damaged, decode as decode_message, events,
        ids::{self, Namespace},
        numbered, read,
    },
};

/// What the engine needs of a justification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Head<'a> {
    /// The node that it justifies.
    pub head: Node,
    /// The next older justification of the same node.
    pub next_of_head: Option<Justification>,
    /// The offset of the event by which it arrived.
    pub offset: u64,
    /// The log time of that event.
    pub log_time_ms: i64,
    /// Its time on the writers' clock: `occurred_at`, else the log's.
    pub observed: Instant,
    /// What it adds to the digest.
    pub commitment: u128,
    /// Its premises as they lie in the row.
    pub premises: Premises<'a>,
    /// Who wrote it.
    pub agent: &'a str,
    /// In which run.
    pub run: &'a str,
}

/// Premises in a row: four bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Premises<'a>(&'a [[u8; 4]]);

impl Premises<'_> {
    /// The nodes.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node> + '_ {
        self.0.iter().map(|bytes| Node(u32::from_be_bytes(*bytes)))
    }
}

/// What questions about a justification need, beside its head.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Texts {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// In which step it was written.
    #[prost(string, tag = "2")]
    pub step: String,
    /// What made it.
    #[prost(message, optional, tag = "3")]
    pub rule: Option<Rule>,
    /// When the writer says that it happened.
    #[prost(string, tag = "4")]
    pub occurred_at: String,
}

/// A row: head and texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'a> {
    /// What the engine needs.
    pub head: Head<'a>,
    message: &'a [u8],
}

impl<'a> Row<'a> {
    /// From bytes.
    pub fn decode(value: &'a [u8]) -> Result<Row<'a>, StoreError> {
        read_row(value).ok_or_else(|| damaged(Table::Justifications, "a head cannot be read"))
    }

    /// The texts.
    pub fn texts(&self) -> Result<Texts, StoreError> {
        decode_message(Table::Justifications, self.message)
    }
}

fn read_row(value: &[u8]) -> Option<Row<'_>> {
    let mut reader = Reader(value);
    let head = Node(reader.u32()?);
    let next_of_head = reader.optional()?.map(Justification::new);
    let offset = reader.u64()?;
    let log_time_ms = reader.bytes().map(i64::from_be_bytes)?;
    let observed = reader.instant()?;
    let commitment = reader.bytes().map(u128::from_be_bytes)?;
    let count = reader.bytes().map(u16::from_be_bytes)?;
    let (premises, rest) = reader.0.split_at_checked(usize::from(count) * 4)?;
    let (premises, _) = premises.as_chunks();
    let mut reader = Reader(rest);
    let (agent, run) = (reader.text()?, reader.text()?);
    let premises = Premises(premises);
    let head = Head { head, next_of_head, offset, log_time_ms, observed, commitment, premises, agent, run };
    Some(Row { head, message: reader.0 })
}

/// A justification as it is written.
#[derive(Debug, Clone, Copy)]
pub struct New<'a> {
    /// The head; its premises are given beside it.
    pub head: Head<'a>,
    /// The premises.
    pub premises: &'a [Node],
}

/// No premises, for a head whose premises are given beside it.
pub const NO_PREMISES: Premises<'static> = Premises(&[]);

/// The value of a justification.
pub fn value(new: &New<'_>, texts: &Texts) -> Vec<u8> {
    let New { head, premises } = new;
    let length = 64 + 4 * premises.len() + head.agent.len() + head.run.len() + texts.encoded_len();
    let mut writer = Writer(Vec::with_capacity(length));
    writer.number(head.head.0.to_be_bytes());
    writer.optional(head.next_of_head.map(Justification::number));
    writer.number(head.offset.to_be_bytes());
    writer.number(head.log_time_ms.to_be_bytes());
    writer.instant(head.observed);
    writer.number(head.commitment.to_be_bytes());
    // At most 1,024, which the contract promises.
    writer.number((premises.len() as u16).to_be_bytes());
    premises.iter().for_each(|premise| writer.number(premise.0.to_be_bytes()));
    writer.text(head.agent);
    writer.text(head.run);
    writer.0.extend(texts.encode_to_vec());
    writer.0
}

/// A justification as questions need it, with everything owned.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    /// The node that it justifies.
    pub head: Node,
    /// Its premises.
    pub premises: Vec<Node>,
    /// The next older justification of the same node.
    pub next_of_head: Option<Justification>,
    /// Who wrote it.
    pub agent: String,
    /// In which run.
    pub run: String,
    /// The offset of the event by which it arrived.
    pub offset: u64,
    /// The log time of that event.
    pub log_time_ms: i64,
    /// Its time on the writers' clock.
    pub observed: Instant,
    /// The rest.
    pub texts: Texts,
}

impl Whole {
    /// From bytes.
    pub fn decode(value: &[u8]) -> Result<Whole, StoreError> {
        let row = Row::decode(value)?;
        let head = row.head;
        Ok(Whole {
            head: head.head,
            premises: head.premises.nodes().collect(),
            next_of_head: head.next_of_head,
            agent: head.agent.to_owned(),
            run: head.run.to_owned(),
            offset: head.offset,
            log_time_ms: head.log_time_ms,
            observed: head.observed,
            texts: row.texts()?,
        })
    }
}

/// The key of a justification.
pub fn key(space: SpaceNumber, justification: Justification) -> Vec<u8> {
    numbered(space, justification.number())
}

/// The bytes of a justification.
pub fn bytes(store: &impl Read, space: SpaceNumber, justification: Justification) -> Result<Vec<u8>, StoreError> {
    let missing = || damaged(Table::Justifications, format!("justification {} is missing", justification.number()));
    store.read(Table::Justifications, &key(space, justification))?.ok_or_else(missing)
}

/// A justification.
pub fn get(store: &impl Read, space: SpaceNumber, justification: Justification) -> Result<Whole, StoreError> {
    let whole = Whole::decode(&bytes(store, space, justification)?)?;
    check_older(justification, whole.next_of_head)?;
    Ok(whole)
}

/// Whether the next of a list is older, as it is unless the row is damaged: else whoever follows the list may never end.
pub fn check_older(of: Justification, next: Option<Justification>) -> Result<(), StoreError> {
    match next {
        Some(next) if next >= of => {
            let detail = format!("justification {} is followed by {}, which is no older", of.number(), next.number());
            Err(damaged(Table::Justifications, detail))
        }
        _ => Ok(()),
    }
}

/// The justification of an id, if it has arrived.
pub fn find(store: &impl Read, space: SpaceNumber, id: &str) -> Result<Option<Justification>, StoreError> {
    let by_own = ids::get(store, space, Namespace::Justification, id)?;
    let number = match by_own {
        Some(number) => Some(number),
        None => {
            let event: Option<events::Row> = read(store, Table::Events, &events::key(space, id))?;
            event.and_then(|event| event.justification_plus_one.checked_sub(1))
        }
    };
    Ok(number.map(Justification::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list that runs in a circle is damage, and no endless walk.
    #[test]
    fn what_follows_is_older() {
        let at = Justification::new;
        assert!(check_older(at(3), None).is_ok() && check_older(at(3), Some(at(2))).is_ok());
        assert!(check_older(at(3), Some(at(3))).is_err() && check_older(at(3), Some(at(4))).is_err());
    }

    /// What is read of a justification is what was written of it, and a head that is cut anywhere is noticed.
    #[test]
    fn a_row_comes_back_and_a_cut_head_does_not() {
        let head = Head {
            head: Node(5),
            next_of_head: None,
            offset: 9,
            log_time_ms: 1,
            observed: Instant(7),
            commitment: 3,
            premises: NO_PREMISES,
            agent: "agent",
            run: "run",
        };
        let texts = Texts { id: "j".into(), ..Texts::default() };
        let bytes = value(&New { head, premises: &[Node(1), Node(u32::MAX)] }, &texts);
        let row = Row::decode(&bytes).unwrap();
        assert_eq!(row.head.premises.nodes().collect::<Vec<_>>(), [Node(1), Node(u32::MAX)]);
        assert_eq!((Head { premises: NO_PREMISES, ..row.head }, row.texts().unwrap()), (head, texts));
        let head_bytes = bytes.len() - row.message.len();
        for length in 0..head_bytes {
            assert!(Row::decode(&bytes[..length]).is_err(), "{length}");
        }
    }
}
