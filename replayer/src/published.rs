//! What a topic of a partition holds, one record after the other.

use std::collections::VecDeque;

use prost::Message as _;
use recant_eventlog::{LogError, ReadLimit, ReadLog, Record, Topic};
use recant_proto::{
    position::{ChangeId, Position},
    v1::{Change, Rejection},
};

use crate::replay::ReplayError;

const READ: ReadLimit = ReadLimit { records_max: 1_000, bytes_max: 4 << 20 };

/// A record of the changes or the rejections, read.
#[derive(Debug, Clone)]
pub struct Published {
    /// Its topic.
    pub topic: Topic,
    /// As it lies there.
    pub record: Record,
    /// The position of the event that caused it, or of which it is a digest.
    pub position: Position,
    /// What it says.
    pub said: Said,
}

/// What a published record says.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "nearly every record is a change")]
pub enum Said {
    /// A summary, a change or a digest, with its id.
    Change(ChangeId, Change),
    /// An event could not be applied.
    Rejection(Rejection),
}

impl Published {
    fn read(topic: Topic, record: Record) -> Result<Published, ReplayError> {
        let place = record.position;
        let wrong = |detail: String| ReplayError::Published { position: place, detail };
        let value = record.value.as_slice();
        let (position, said) = if topic == Topic::Rejected {
            let rejection = Rejection::decode(value).map_err(|error| wrong(error.to_string()))?;
            let position = rejection.position.parse().map_err(|error| wrong(format!("{error}")))?;
            (position, Said::Rejection(rejection))
        } else {
            let change = Change::decode(value).map_err(|error| wrong(error.to_string()))?;
            let id: ChangeId = change.id.parse().map_err(|error| wrong(format!("{error}")))?;
            (id.position, Said::Change(id, change))
        };
        Ok(Published { topic, record, position, said })
    }

    /// The change, if it is one or a summary or a digest.
    pub fn change(&self) -> Option<&Change> {
        match &self.said {
            Said::Change(_, change) => Some(change),
            Said::Rejection(_) => None,
        }
    }

    /// Whether it is a digest.
    pub fn is_digest(&self) -> bool {
        self.change().is_some_and(|change| change.digest.is_some())
    }
}

/// Reads a topic from its beginning to an end that is given.
pub struct Stream<'l, L> {
    log: &'l L,
    topic: Topic,
    number: u32,
    /// Records of this key alone.
    only_key: Option<&'l [u8]>,
    next: u64,
    end: u64,
    ahead: VecDeque<Published>,
}

impl<'l, L: ReadLog> Stream<'l, L> {
    /// From what is kept, up to an end.
    pub fn up_to(
        log: &'l L,
        topic: Topic,
        number: u32,
        end: u64,
        only_key: Option<&'l [u8]>,
    ) -> Result<Self, LogError> {
        let next = log.bounds(topic, number)?.earliest;
        Ok(Stream { log, topic, number, only_key, next, end, ahead: VecDeque::new() })
    }

    /// Whether its beginning is no longer kept.
    pub fn is_cut(&self) -> Result<bool, LogError> {
        Ok(self.log.bounds(self.topic, self.number)?.earliest > 0)
    }

    /// The record that is next.
    pub fn peek(&mut self) -> Result<Option<&Published>, ReplayError> {
        self.fill(1)?;
        Ok(self.ahead.front())
    }

    /// Takes the record that is next.
    pub fn take(&mut self) -> Result<Option<Published>, ReplayError> {
        self.fill(1)?;
        Ok(self.ahead.pop_front())
    }

    /// The next records, so many at most, which stay where they are.
    pub fn look_ahead(&mut self, records_max: usize) -> Result<impl Iterator<Item = &Published>, ReplayError> {
        self.fill(records_max)?;
        Ok(self.ahead.iter().take(records_max))
    }

    fn fill(&mut self, records: usize) -> Result<(), ReplayError> {
        while self.ahead.len() < records && self.next < self.end {
            let read = self.log.read(self.topic, self.number, self.next, READ)?;
            let Some(last) = read.last() else { return Ok(()) };
            self.next = last.position.offset + 1;
            for record in read {
                let wanted = self.only_key.is_none_or(|key| record.key == key);
                if wanted && record.position.offset < self.end {
                    self.ahead.push_back(Published::read(self.topic, record)?);
                }
            }
        }
        Ok(())
    }
}
